"""Boxes that people drew in a capture's photos, lifted to what the scene shows in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scene.capture import Frame, FrameBox
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.render.api import Backend, make_renderer
from scene.target import select_from_anchor_box

_MOST_VIEWS = 24
_MOST_BOXES = 60
_LONG_SIDE = 480
# Of the drawn picture: what is smaller has no depth of its own in a reconstruction.
_LEAST_SIDE = 6.0
_EDGE = 1.0


@dataclass(frozen=True, eq=False)
class LiftedBox:
    """A drawn box's object: (M,) rows of its Gaussians. frame: the photo; times: how often seen."""

    label: str
    rows: NDArray[np.int64]
    frame: str
    times: int


@dataclass(frozen=True, eq=False)
class _Seen:
    """An object's best box: its frame's number, and how often it is seen in all."""

    box: FrameBox
    frame: int
    times: int

    @property
    def area(self) -> float:
        """Square pixels."""
        x0, y0, x1, y1 = self.box.xyxy
        return (x1 - x0) * (y1 - y0)


def lift_boxes(
    gaussians: Gaussians, frames: Sequence[Frame], backend: Backend = "auto"
) -> list[LiftedBox]:
    """One object per track of a label, by the depth that the scene has in its largest whole box.

    Boxes that are cut by the picture's edge count only where no whole one of the track is there.
    At most 60 boxes in 24 photos are looked at, the largest; boxes smaller than 1/80 of a photo's
    longer side are left out, and so are those that show nothing solid.
    """
    best = sorted(_best_boxes(frames), key=lambda seen: -seen.area)[:_MOST_BOXES]
    numbers = list(dict.fromkeys(seen.frame for seen in best))[:_MOST_VIEWS]
    renderer = make_renderer(gaussians, backend)
    found = []
    for number in numbers:
        frame = frames[number]
        camera = frame.camera
        if max(camera.width, camera.height) > _LONG_SIDE:
            camera = camera.fitted(_LONG_SIDE)
        depth = renderer.render(camera, outputs=frozenset({"median_depth"})).median_depth
        assert depth is not None
        x, y = camera.width / frame.camera.width, camera.height / frame.camera.height
        for seen in (s for s in best if s.frame == number):
            box = np.array(seen.box.xyxy) * [x, y, x, y]
            if min(box[2] - box[0], box[3] - box[1]) < _LEAST_SIDE:
                continue
            try:
                rows = select_from_anchor_box(gaussians, camera, box, depth).indices
            except InputError:
                continue
            found.append(LiftedBox(seen.box.label, rows, frame.name, seen.times))
    return found


def _best_boxes(frames: Sequence[Frame]) -> list[_Seen]:
    """One per label and track: the largest whole box, else the largest cut one."""
    tracks: dict[tuple[str, str], list[tuple[bool, float, int, FrameBox]]] = {}
    for number, frame in enumerate(frames):
        for i, box in enumerate(frame.boxes):
            x0, y0, x1, y1 = box.xyxy
            width, height = frame.camera.width, frame.camera.height
            whole = min(x0, y0, width - x1, height - y1) > _EDGE
            key = (box.label, box.track or f"#{number}.{i}")
            entry = (whole, (x1 - x0) * (y1 - y0), number, box)
            tracks.setdefault(key, []).append(entry)
    chosen = [(max(seen, key=lambda s: s[:2]), len(seen)) for seen in tracks.values()]
    return [_Seen(box, number, times) for (_, _, number, box), times in chosen]
