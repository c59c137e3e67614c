"""Small pieces that all panels share."""

from __future__ import annotations

import re
from collections.abc import Callable
from os.path import expanduser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scene.errors import InputError

if TYPE_CHECKING:
    import viser


class Notice:
    """One sentence at the head of a panel, as plain text; hidden while there is nothing to say.

    A disabled text field on purpose: error messages hold file names and models' words, and viser's
    HTML and markdown elements would run what is in them. announce: told the sentence too, so that
    it is seen where the panel is scrolled away.
    """

    def __init__(
        self, gui: viser.GuiApi, label: str = "Problem",
        announce: Callable[[str], None] | None = None,
    ) -> None:  # fmt: skip
        self._field = gui.add_text(label, "", multiline=True, disabled=True, visible=False)
        self._announce = announce

    def say(self, text: str) -> None:
        """Show `text`."""
        put(self._field, text)
        self._field.visible = True
        if self._announce is not None:
            self._announce(text)

    def clear(self) -> None:
        """Hide the line."""
        if self._field.visible:
            self._field.visible = False
            put(self._field, "")


class Fact:
    """A labelled line that only the program writes."""

    def __init__(
        self, gui: viser.GuiApi, label: str, value: str = "", multiline: bool = False,
        hint: str | None = None,
    ) -> None:  # fmt: skip
        self._field = gui.add_text(label, value, multiline=multiline, disabled=True, hint=hint)

    def set(self, value: str) -> None:
        """Show `value`."""
        put(self._field, value)

    @property
    def visible(self) -> bool:
        """Whether the line is shown."""
        return bool(self._field.visible)

    @visible.setter
    def visible(self, visible: bool) -> None:
        if self._field.visible != visible:
            self._field.visible = visible


def put(field: Any, value: Any) -> None:
    """Assign an input's value, if it is another one."""
    if field.value != value:
        field.value = value


def put_html(element: Any, content: str) -> None:
    """Assign an HTML element's content, if it is another one.

    Only our own words may be in it, and what `plain_name` or `html.escape` made of others'.
    """
    if element.content != content:
        element.content = content


def plain_name(name: str, most: int = 30) -> str:
    """A name, cut short, in letters, digits and ` .:_-` only: it can mean nothing in HTML."""
    plain = re.sub(r"[^A-Za-z0-9 .:_-]", "_", name)
    return plain if len(plain) <= most else plain[: most - 3] + "..."


def put_options(menu: Any, options: tuple[str, ...], value: str | None = None) -> None:
    """Assign a menu's options, if they are others, and its value, if it is one of them."""
    if tuple(menu.options) != options:
        menu.options = options
    if value in options:
        put(menu, value)


def typed_path(text: str) -> Path:
    """A path as somebody typed it, `~` being their home. Raises InputError where it is empty."""
    if not text.strip():
        raise InputError("wanted a path, found an empty field; type or paste one")
    return Path(expanduser(text.strip()))


def by_people(handler: Callable[[Any], None]) -> Callable[[Any], None]:
    """Only pass on updates that came from a browser, not the program's own assignments."""

    def guarded(event: Any) -> None:
        if event.client_id is not None:
            handler(event)

    return guarded


def thousands(number: int) -> str:
    """12345 as '12 345'."""
    return f"{number:,}".replace(",", "\u2009")
