"""Right dock, bottom: the scored render of the current view, with boxes and raw answers."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from app.draw import (
    FOOTPRINT,
    GROUND_TRUTH,
    VICTIM_COLORS,
    Mark,
    Pixels,
    as_pixels,
    blank,
    marked,
    tiled,
)
from app.panels.common import Fact, Notice, plain_name, put_html
from app.saved_views import name_of

if TYPE_CHECKING:
    import viser

    from app.session import Session
    from app.views import ViewScores
    from envelope.condition import Condition

TILE_WIDTH = 400
SHOWN_KINDS = ("clean", "gray", "adversarial", "overlay")
MAX_ANSWER_CHARS = 600


class VictimViewPanel:
    """Clean, gray, adversarial and overlay side by side, and what each victim said in words."""

    def __init__(self, gui: viser.GuiApi, session: Session) -> None:
        self._session = session
        self._shown: Condition | None = None
        self.notice = Notice(gui)
        self._where = gui.add_html("")
        self._image = gui.add_image(_waiting(session), format="jpeg", jpeg_quality=88)
        self._legend = gui.add_html(legend(()))
        self._answers = Fact(gui, "Answers", multiline=True)

    def refresh(self, scores: ViewScores | None) -> None:
        """Show `scores`, or that none are there yet; a view not yet drawn leaves the last one."""
        victims = self._session.readings.victims()
        put_html(self._legend, legend(victims))
        if scores is None:
            self._image.image = _waiting(self._session)
            self._answers.set("")
            self._shown = None
            self._say("")
            return
        if scores.error:  # may hold a file's name: plain text
            self.notice.say(f"{name_of(scores.condition, 3)} could not be drawn: {scores.error}")
        else:
            self.notice.clear()
        if not scores.pictures:
            old = f"; below still {name_of(self._shown, 3)}" if self._shown is not None else ""
            doing = "not drawn" if scores.error else "drawing…"
            self._say(name_of(scores.condition, 3), f"{doing}{old}")
            return
        self._shown = scores.condition
        self._say(name_of(scores.condition, 3), describe_view(scores))
        self._image.image = contact_sheet(scores, victims)
        self._show_answers(scores)

    def refresh_answers(self) -> None:
        """Put those of the victim first whose envelope is shown now."""
        scores = self._session.view
        if scores is not None and scores.pictures and scores.condition == self._shown:
            self._show_answers(scores)

    def _show_answers(self, scores: ViewScores) -> None:
        readings = self._session.readings
        self._answers.set(answers_text(scores, readings.victims(), readings.shown_victim()))

    def _say(self, condition: str, words: str = "") -> None:
        """Above the pictures: of which condition they are, and what can be said of it."""
        text = f"<b>{escape(condition)}</b>: {escape(words)}" if condition else ""
        style = "font-size:11.5px;line-height:1.35;padding:0 0.75em 0.3em"
        put_html(self._where, f'<div style="{style}">{text}</div>' if text else "")


def describe_view(scores: ViewScores) -> str:
    """One line on what can be said of the view: observability, distance to the photos, time."""
    if not scores.scored:
        far = ", extrapolated (far from every photo)" if scores.extrapolated else ""
        return f"not scored: embed a patch first{far}"
    parts = ["observable" if scores.observable else f"not observable: {scores.why_not}"]
    if scores.patch_hidden:
        parts.append("patch hidden")
    if scores.extrapolated:
        parts.append("extrapolated (far from every photo)")
    if scores.seconds:
        done = "scored" if scores.complete and scores.said else "drawn"
        parts.append(f"{done} in {scores.seconds:.2f} s")
    return ", ".join(parts)


def contact_sheet(scores: ViewScores, victims: tuple[str, ...]) -> Pixels:
    """The four renders with their boxes, two by two.

    victims: names in the order that gives them their colors.
    """
    some = next(iter(scores.pictures.values()))
    height, width = some.shape[:2]
    factor = TILE_WIDTH / width
    tiles = []
    for kind in SHOWN_KINDS:
        picture = scores.pictures.get(kind)
        if picture is None:
            size = (TILE_WIDTH, round(height * factor))
            words = "not drawn yet" if scores.scored else "no patch embedded yet"
            tiles.append((kind, blank(*size, words)))
        else:
            marks = _marks(scores, kind, victims)
            tiles.append((_caption(scores, kind), marked(as_pixels(picture), marks, factor)))
    return tiled(tiles)


def answers_text(scores: ViewScores, victims: tuple[str, ...] = (), first: str = "") -> str:
    """Each victim's words or boxes per kind, as plain text, cut to a readable length.

    victims: names in the order that gives them their number in the legend. first: the one whose
    envelope is shown; the field is too low for the answers of several.
    """
    lines = []
    for victim in sorted(scores.victims(), key=lambda name: name != first):
        number = f"{victims.index(victim) + 1}: " if victim in victims else ""
        lines.append(number + victim)
        for kind in SHOWN_KINDS:
            said = scores.said.get((victim, kind))
            if said is not None:
                lines.append(f"  {kind}: {said.verdict}")
                if said.words:
                    lines.append(f"    {said.words[:MAX_ANSWER_CHARS]}")
    return "\n".join(lines)


def _marks(scores: ViewScores, kind: str, victims: tuple[str, ...]) -> list[Mark]:
    marks = []
    if scores.ground_truth is not None:
        marks.append(Mark(scores.ground_truth, GROUND_TRUTH))
    if scores.footprint is not None and kind != "clean":
        marks.append(Mark(scores.footprint, FOOTPRINT, dashed=True))
    for index, victim in enumerate(victims):
        said = scores.said.get((victim, kind))
        if said is not None and said.box is not None:
            color = VICTIM_COLORS[index % len(VICTIM_COLORS)]
            marks.append(Mark(said.box, color, said.box_label))
    return marks


def _caption(scores: ViewScores, kind: str) -> str:
    verdicts = [said for (_, k), said in scores.said.items() if k == kind]
    counted = [said for said in verdicts if said.success is not None]
    if not counted or not scores.observable:
        return kind
    right = sum(1 for said in counted if not said.success)
    return f"{kind}: right {right} of {len(counted)}"


def _waiting(session: Session) -> Pixels:
    camera = session.anchor_camera
    height = round(TILE_WIDTH * camera.height / camera.width)
    return tiled([(kind, blank(TILE_WIDTH, height, "not drawn yet")) for kind in SHOWN_KINDS])


def legend(victims: tuple[str, ...]) -> str:
    """HTML of our own words and colors, and the victims' names as far as they are plain.

    victims: names in the order that gives them their colors and numbers.
    """

    def key(color: tuple[int, int, int], text: str, edge: str = "solid") -> str:
        return (
            f'<span style="white-space:nowrap;margin-right:10px"><span style="display:inline-block;'
            f'width:11px;height:9px;border:2px {edge} rgb{color};margin-right:4px"></span>'
            f"{text}</span>"
        )

    return (
        '<div style="font-size:11.5px;padding:0 0.75em 0.4em">'
        + key(GROUND_TRUTH, "ground truth")
        + key(FOOTPRINT, "patch footprint", "dashed")
        + "".join(
            key(VICTIM_COLORS[i % len(VICTIM_COLORS)], f"{i + 1}: {plain_name(name)}")
            for i, name in enumerate(victims)
        )
        + "</div>"
    )
