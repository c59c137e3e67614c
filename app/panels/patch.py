"""Left tab Patch: choose a patch, place it, embed it, judge the embedding, undo."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from app.draw import Pixels, as_pixels, blank, fitted, on_checkers, tiled
from app.embedding import EmbedOrder
from app.jobs import Command
from app.panels.common import Fact, Notice, by_people, put, put_html, put_options

if TYPE_CHECKING:
    import viser

    from app.viewer import Viewer
    from patching.patch import Patch

PREVIEW_PX = 290
GALLERY_COLUMNS = 5
FRAME = (255, 150, 0)
SMALL = "font-size:11.25px;line-height:1.35;padding:0 0.75em 0.4em"
LEFT = "text-align:left;font-weight:normal"
RIGHT = "text-align:right;font-weight:normal;font-variant-numeric:tabular-nums"
NO_PATCH = "(no patches)"


class PatchPanel:
    """Builds the tab; embedding runs as a job that this panel shows."""

    def __init__(self, gui: viser.GuiApi, viewer: Viewer) -> None:
        self._viewer = viewer
        self._session = viewer.session
        self._actions = viewer.actions.patch
        self.notice = Notice(gui, announce=viewer.announce)
        self._build_gallery(gui)
        shown = not viewer.present
        with gui.add_folder("Place", visible=shown):
            self._build_place(gui)
        with gui.add_folder("Embed", visible=shown):
            self._build_embed(gui)
        self._presented = Fact(gui, "Placed", multiline=True)
        self._presented.visible = not shown
        with gui.add_folder("Fidelity of the embedding"):
            self._fidelity = gui.add_html("")
        with gui.add_folder("Outside pair", expand_by_default=False, visible=shown):
            self._build_pair(gui)
        self.refresh()

    def refresh(self) -> None:
        """Show the chosen patch, the placement and the embedding's figures."""
        work = self._session.patchwork
        names = work.gallery.names()
        chosen = work.patch.name if work.patch is not None else None
        put_options(self._names, names or (NO_PATCH,), chosen)
        if names:
            self._gallery.image = gallery(work.gallery.patches(), work.patch)
        if work.placement is not None:
            put(self._width, round(min(max(work.width_share() or 0.0, 0.05), 1.5), 2))
            put(self._angle, round(work.placement.in_plane_deg))
            put(self._center, tuple(round(float(x), 3) for x in work.placement.center))
        self.refresh_text()

    def refresh_text(self) -> None:
        """Show the placement and the figures in words."""
        work = self._session.patchwork
        self._pair_state.set(work.pair_text())
        self._where.set(work.placement_text())
        empty = "not embedded yet" if work.adversarial is None else "not measured"
        put_html(self._fidelity, table_html(work.fidelity_table(), empty))
        self._presented.set(work.placement_text())
        self._undo.disabled = not work.can_undo
        self._embed.disabled = not work.can_embed

    def show_embedding(self, fraction: float, text: str) -> None:
        """Progress of the running embedding."""
        put(self._progress, 100.0 * fraction)
        self._step.set(text)

    def show_preview(self, anchor: Any, wanted: Any) -> None:
        """The anchor view as embedded so far beside what it should be: (H, W, 3) each."""
        width = PREVIEW_PX // 2 - 3
        height = round(width * wanted.shape[0] / wanted.shape[1])
        pair = [("embedded", anchor), ("wanted", wanted)]
        tiles = [(name, fitted(as_pixels(x), width, height)[0]) for name, x in pair]
        self._preview.image = tiled(tiles)
        self._preview.visible = True

    def show_loss(self, iterations: list[int], losses: list[float]) -> None:
        """The loss so far."""
        self._loss.data = (np.array(iterations, float), np.array(losses, float))
        self._loss.visible = len(iterations) > 1

    def set_embedding(self, running: bool) -> None:
        """Switch the buttons between at rest and at work."""
        self._embed.visible = not running
        self._stop.visible = running

    def set_placing(self, waiting: bool) -> None:
        """Show whether the next click on the scene places the patch."""
        self._click.label = "Click the surface now… (cancel)" if waiting else "Place by click"
        self._click.color = "orange" if waiting else "blue"

    def size(self) -> tuple[float, float]:
        """(width as a fraction of the target's width, in-plane angle in degrees)."""
        return float(self._width.value), float(self._angle.value)

    def _build_gallery(self, gui: viser.GuiApi) -> None:
        self._gallery = gui.add_image(blank(PREVIEW_PX, 60, "no patches yet"), format="png")
        self._names = gui.add_dropdown("Patch", (NO_PATCH,), disabled=self._viewer.present)
        self._names.on_update(by_people(self._choose))
        if self._viewer.present:  # viser's upload button cannot be hidden
            return
        upload = gui.add_upload_button("Upload a picture", mime_type="image/*")
        upload.on_upload(
            lambda event: self._do(
                lambda: self._actions.add_upload(
                    event.target.value.name, event.target.value.content
                )
            )
        )

    def _build_place(self, gui: viser.GuiApi) -> None:
        self._click = gui.add_button("Place by click", color="blue")
        self._click.on_click(lambda _: self._do(self._actions.toggle_placing))
        self._width = gui.add_slider(
            "Width ×", min=0.05, max=1.5, step=0.01, initial_value=0.4,
            hint="Fraction of the target's width",
        )  # fmt: skip
        self._angle = gui.add_slider("Turn °", min=-180, max=180, step=1, initial_value=0)
        for slider in (self._width, self._angle):
            slider.on_update(by_people(lambda _: self._do(self._actions.resize)))
        nudge = gui.add_button_group("Nudge", ("left", "right", "up", "down"))
        nudge.on_click(lambda event: self._do(lambda: self._actions.nudge(event.target.value)))
        handles = gui.add_checkbox(
            "Drag handles", False,
            hint="Arrows and a ring in the viewport that slide and turn the patch on its surface",
        )  # fmt: skip
        handles.on_update(
            by_people(lambda event: self._do(lambda: self._actions.show_gizmo(handles.value)))
        )
        self._where = Fact(gui, "Placed", multiline=True)
        anchor = gui.add_button(
            "Anchor from my view", hint="Place the patch from where this browser looks now"
        )
        anchor.on_click(lambda event: self._do(lambda: self._actions.anchor_here(event.client)))
        with gui.add_folder("By numbers or file", expand_by_default=False):
            self._center = gui.add_vector3("Center", (0.0, 0.0, 0.0), step=0.001)
            button = gui.add_button("Place there")
            button.on_click(
                lambda _: self._do(lambda: self._actions.place_by_numbers(self._center.value))
            )
            save = gui.add_button("Save this placement", hint="A small file; embed takes it too")
            save.on_click(
                lambda event: self._do(lambda: self._actions.save_placement(event.client))
            )
            load = gui.add_upload_button("Load a placement", mime_type="application/json")
            load.on_upload(
                lambda event: self._do(
                    lambda: self._actions.load_placement(event.target.value.content)
                )
            )

    def _build_embed(self, gui: viser.GuiApi) -> None:
        import viser.uplot as uplot

        self._iterations = gui.add_dropdown("Iterations", ("300 (full)", "120 (preview)"))
        self._variant = gui.add_dropdown("Variant", ("inspector", "paper"))
        self._controls = gui.add_checkbox(
            "more controls", False, hint="Also a noise patch and the patch with shuffled pixels"
        )
        self._embed = gui.add_button("Embed", color="blue")
        self._embed.on_click(lambda _: self._start())
        self._stop = gui.add_button("Stop and keep", color="orange", visible=False)
        self._stop.on_click(lambda _: self._do(self._actions.stop_embedding))
        self._progress = gui.add_progress_bar(0.0)
        self._step = Fact(gui, "Step")
        self._preview = gui.add_image(blank(8, 8), visible=False)
        self._loss = gui.add_uplot(
            (np.array([0.0, 1.0]), np.array([0.0, 0.0])),
            (
                uplot.Series(label="iteration"),
                uplot.Series(label="loss", stroke="#0072b2", width=2),
            ),
            scales={"x": uplot.Scale(time=False), "y": uplot.Scale(auto=True)},
            aspect=2.0,
            visible=False,
        )
        self._undo = gui.add_button("Undo", disabled=True)
        self._undo.on_click(lambda _: self._do(self._actions.undo))

    def _build_pair(self, gui: viser.GuiApi) -> None:
        self._pair_state = Fact(gui, "Pair")
        for label, part in (("Attacked picture", "image"), ("Mask", "mask")):
            upload = gui.add_upload_button(f"Upload: {label.lower()}", mime_type="image/*")

            def received(event: Any, part: str = part) -> None:
                content = event.target.value.content
                self._do(lambda: self._actions.take_pair_part(part, content))

            upload.on_upload(received)
        button = gui.add_button("Use this pair at the sliders' view")
        button.on_click(lambda _: self._do(self._actions.use_pair))

    def _choose(self, event: Any) -> None:
        name = str(event.target.value)
        self._do(lambda: self._actions.choose(name))

    def _start(self) -> None:
        order = EmbedOrder(
            int(str(self._iterations.value).split()[0]),
            str(self._variant.value),
            bool(self._controls.value),
        )
        self._do(lambda: self._actions.embed(order, self._say))

    def _do(self, command: Command) -> None:
        """Have the worker do `command`; what is wrong with it shows at the head of this tab."""
        self.notice.clear()
        self._viewer.post(command, self._say)

    def _say(self, text: str) -> None:
        self.notice.say(text)


def table_html(rows: list[list[str]], empty: str) -> str:
    """A table of our own words and numbers; its first row is the heading."""
    if not rows:
        return f'<div style="{SMALL}">{escape(empty)}</div>'
    lines = []
    for index, row in enumerate(rows):
        tag = "th" if index == 0 else "td"
        styles = [LEFT, *[RIGHT] * (len(row) - 1)]
        cells = [
            f'<{tag} style="{style}">{escape(cell)}</{tag}>'
            for style, cell in zip(styles, row, strict=True)
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f'<table style="{SMALL};width:100%">{"".join(lines)}</table>'


def gallery(patches: Sequence[Patch], chosen: Patch | None) -> Pixels:
    """Thumbnails in rows, the chosen one framed."""
    gap = 4
    side = (PREVIEW_PX - gap * (GALLERY_COLUMNS - 1)) // GALLERY_COLUMNS
    rows = -(-len(patches) // GALLERY_COLUMNS)
    sheet = np.full((rows * (side + gap) - gap, PREVIEW_PX, 3), 255, np.uint8)
    for index, patch in enumerate(patches):
        y = index // GALLERY_COLUMNS * (side + gap)
        x = index % GALLERY_COLUMNS * (side + gap)
        framed = chosen is not None and patch.name == chosen.name
        if framed:
            sheet[y : y + side, x : x + side] = FRAME
        edge = 3 if framed else 0
        inner = slice(y + edge, y + side - edge), slice(x + edge, x + side - edge)
        sheet[inner] = on_checkers(patch.rgba, side - 2 * edge)
    return sheet
