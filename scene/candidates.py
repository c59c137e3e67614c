"""What a scene's target could be, from what its capture's data marks: a list to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scene.capture import Capture, Frame, LabelledBox
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.lifted_boxes import lift_boxes
from scene.render.api import Backend, Renderer, make_renderer
from scene.scene import Scene, TargetBox
from scene.up import DEFAULT_UP, Axis

_MOST_VIEWS = 24
_LONG_SIDE = 240
_INSIDE = 0.5
_DEPTH_SLACK = 1.03
_SHARE_OF_VIEWS = 0.6
_LEAST_GAUSSIANS = 8
_LEAST_HIDING_VIEWS = 3
_HIDDEN_REACH = 1.5
_MOVES_M = 0.5
_OUTLIER_PERCENT = 1.0
_SAME_TURN = 0.02
_SAME_PLACE = 0.02
# A lifted box is what the camera sees of an object: its middle lies before the whole box's.
_SAME_BOX = 1.2
_LABEL_ORDER = ("sign", "pedestrian", "cyclist", "vehicle")


@dataclass(frozen=True, eq=False)
class TargetCandidate:
    """A proposal for `Scene.target`.

    label: what the data calls it, lower case ("stop sign", "pedestrian"); "" where it has no name.
        It is the data's word, which a victim may have another for ("car", "person").
    source: where the proposal is from and what speaks against it, one phrase for the user:
        "object masks of 24 photos", "box of a sign, seen 12 times",
        "box of a vehicle, seen 80 times; moves 31.2 m, so that the scene shows it smeared".
    box: the box itself, in the scene's world and units; put it into `Scene.target` as it is.
    count: how many Gaussians have their centre in the box; always > 0.
    """

    label: str
    source: str
    box: TargetBox
    count: int


def find_candidates(
    scene: Scene, capture: Capture, backend: Backend = "auto"
) -> list[TargetCandidate]:
    """Everything that the capture's data marks and the scene shows, likeliest target first.

    scene: the clean scene, in the capture's world frame; what `reconstruct` made of the capture
    is. Where both have a camera of one name, its place is compared, so that a scene in another
    frame (a trainer's normalised one, the data's own far from the origin) is refused.
    capture: as `load_capture` gives it. Used are

    * masks of an object (CO3D): lifted to 3D, see `lift_masks`; one candidate;
    * 3D boxes (Waymo: signs, pedestrians, cyclists, vehicles): one candidate per object that
      holds Gaussians; of an object seen at several moments the box of the middle one;
    * boxes drawn in the photos (Waymo: pedestrians, cyclists, vehicles), lifted by the scene's
      depth, see `lift_boxes`; where no 3D box of that label is already there.

    Returns an empty list where the data marks nothing: the user then clicks or draws a box.
    Takes about a second per million Gaussians and 10 masks; call it off the page's thread. Raises
    InputError when a mask cannot be read, or the frames of scene and capture differ.
    """
    _check_frames(scene, capture)
    gaussians = scene.gaussians
    found = []
    masked = [f for f in capture.frames if f.mask is not None and f.mask.meaning == "object"]
    if masked and (lifted := _masked_object(gaussians, masked, capture, backend)) is not None:
        found.append(lifted)
    boxed = _boxed_objects(gaussians, capture.boxes)
    return found + boxed + _drawn_objects(gaussians, capture, boxed, backend)


def _check_frames(scene: Scene, capture: Capture) -> None:
    """Raises InputError when cameras of the same name stand elsewhere or look elsewhere."""
    own = {camera.name: camera.camera for camera in scene.cameras}
    shared = [(frame, own[frame.name]) for frame in capture.frames if frame.name in own]
    if not shared:
        return
    centers = np.array([frame.camera.center for frame, _ in shared])
    span = float(np.linalg.norm(centers.max(axis=0) - centers.min(axis=0)))
    for frame, camera in shared:
        turned = np.abs(frame.camera.camera_from_world - camera.camera_from_world)[:3, :3].max()
        apart = float(np.linalg.norm(frame.camera.center - camera.center))
        if turned > _SAME_TURN or apart > max(_SAME_PLACE * span, 1e-6):
            raise InputError(
                f"the scene is in another world frame than the capture: camera {frame.name} is at "
                f"{_triple(camera.center)} in one and {_triple(frame.camera.center)} in the other; "
                f"open the capture with frame='file', or the scene in its original frame"
            )


def _triple(point: NDArray[np.float64]) -> str:
    return "(" + ", ".join(f"{v:.4g}" for v in point) + ")"


def lift_masks(
    gaussians: Gaussians, frames: Sequence[Frame], up: Axis = DEFAULT_UP, backend: Backend = "auto"
) -> NDArray[np.int64]:
    """(M,) sorted rows of the Gaussians that the frames' object masks show.

    A Gaussian votes in each view that has its centre in the picture and not behind the median
    depth there; it is the object's when the mask holds it in at least 60 % of these views, and in
    two at least where more than one frame is given. Then come the hidden ones (undersides, backs):
    seen by no view, inside every mask of three or more, and at most half the object's size
    outside the upright box of those seen. At most 24 frames, evenly chosen, are drawn.
    """
    if len(frames) > _MOST_VIEWS:
        chosen = np.linspace(0, len(frames) - 1, _MOST_VIEWS).round().astype(int)
        frames = [frames[i] for i in chosen]
    renderer = make_renderer(gaussians, backend)
    tally = np.zeros((4, len(gaussians)), dtype=np.int32)
    for frame in frames:
        tally += _votes(gaussians, renderer, frame)
    pictured, masked, seen, seen_masked = tally
    needed = max(min(2, len(frames)), 1)
    shown = (seen_masked >= needed) & (seen_masked >= _SHARE_OF_VIEWS * seen)
    if shown.sum() >= _LEAST_GAUSSIANS:
        hidden = (seen == 0) & (masked == pictured) & (masked >= _LEAST_HIDING_VIEWS)
        box = box_around(gaussians.means[shown], up)
        local = (gaussians.means[hidden] - box.center) @ box.axes.T
        hidden[hidden] = (np.abs(local) <= _HIDDEN_REACH * box.half_sizes).all(axis=1)
        shown |= hidden
    return np.flatnonzero(shown)


def _votes(gaussians: Gaussians, renderer: Renderer, frame: Frame) -> NDArray[np.bool_]:
    """(4, N): in the picture; in its mask; in the picture and visible; in its mask and visible."""
    camera = frame.camera
    if max(camera.width, camera.height) > _LONG_SIDE:
        camera = camera.fitted(_LONG_SIDE)
    mask = frame.load_mask((camera.width, camera.height))
    depth = renderer.render(camera, outputs=frozenset({"median_depth"})).median_depth
    if mask is None or depth is None:
        raise InputError(f"frame {frame.name}: has no mask")
    pixels, z = camera.project(gaussians.means)
    pictured = z > renderer.settings.near
    pictured &= ((pixels >= 0) & (pixels < [camera.width, camera.height])).all(axis=1)
    x, y = pixels[pictured].astype(np.int64).T
    surface = depth[y, x]
    votes = np.zeros((4, len(gaussians)), dtype=np.bool_)
    votes[0] = pictured
    votes[1, pictured] = mask[y, x] >= _INSIDE
    # a depth of 0 says that nothing solid is there
    votes[2, pictured] = (surface <= 0) | (z[pictured] <= surface * _DEPTH_SLACK)
    votes[3] = votes[1] & votes[2]
    return votes


def _masked_object(
    gaussians: Gaussians, frames: Sequence[Frame], capture: Capture, backend: Backend
) -> TargetCandidate | None:
    up = capture.up or DEFAULT_UP
    rows = lift_masks(gaussians, frames, up, backend)
    if len(rows) < _LEAST_GAUSSIANS:
        return None
    label = next((f.mask.label for f in frames if f.mask is not None and f.mask.label), "")
    box = box_around(gaussians.means[rows], up, label)
    views = min(len(frames), _MOST_VIEWS)
    return TargetCandidate(label, f"object masks of {views} photos", box, _count(gaussians, box))


def box_around(points: NDArray[np.floating], up: Axis, label: str = "") -> TargetBox:
    """A box upright with `up` around points (N, 3), turned about it to their longest extent.

    The outermost 1 % at either end of each axis do not count; the sides are 2 % longer than that.
    """
    points = np.asarray(points, dtype=np.float64)
    vertical = np.asarray(up, dtype=np.float64) / np.linalg.norm(up)
    middle = np.median(points, axis=0)
    flat = (points - middle) - ((points - middle) @ vertical)[:, None] * vertical
    # the last of the three directions is the vertical, in which nothing varies
    _, _, directions = np.linalg.svd(flat.T @ flat)
    along = directions[0] - (directions[0] @ vertical) * vertical
    along /= np.linalg.norm(along)
    axes = np.stack([along, np.cross(vertical, along), vertical])
    local = (points - middle) @ axes.T
    low, high = np.percentile(local, [_OUTLIER_PERCENT, 100 - _OUTLIER_PERCENT], axis=0)
    half = np.maximum((high - low) / 2 * 1.02, 1e-6)
    return TargetBox(middle + (low + high) / 2 @ axes, axes, half, label)


def _boxed_objects(gaussians: Gaussians, boxes: tuple[LabelledBox, ...]) -> list[TargetCandidate]:
    """One candidate per object with Gaussians in its box."""
    objects: dict[tuple[str, str], list[LabelledBox]] = {}
    for i, labelled in enumerate(boxes):
        key = (labelled.box.label, labelled.track or f"#{i}")
        objects.setdefault(key, []).append(labelled)
    found = []
    for (label, _), moments in objects.items():
        moments = sorted(moments, key=lambda m: m.time_s)
        box = moments[len(moments) // 2].box
        count = _count(gaussians, box)
        if count:
            found.append(TargetCandidate(label, _box_source(label, moments), box, count))
    return _likeliest_first(found)


def _drawn_objects(
    gaussians: Gaussians, capture: Capture, known: list[TargetCandidate], backend: Backend
) -> list[TargetCandidate]:
    """Boxes of the photos, lifted; those that are in none of the candidates `known`."""
    frames = [frame for frame in capture.frames if frame.boxes]
    if not frames:
        return []
    found = []
    for lifted in lift_boxes(gaussians, frames, backend):
        if len(lifted.rows) < _LEAST_GAUSSIANS:
            continue
        points = gaussians.means[lifted.rows]
        box = box_around(points, capture.up or DEFAULT_UP, lifted.label)
        if any(c.label == lifted.label and _holds(c.box, box.center) for c in known):
            continue
        times = "once" if lifted.times == 1 else f"{lifted.times} times"
        source = (
            f"box of a {lifted.label or 'object'} drawn in photo {lifted.frame}, lifted by depth; "
            f"seen {times}"
        )
        found.append(TargetCandidate(lifted.label, source, box, _count(gaussians, box)))
    return _likeliest_first(found)


def _holds(box: TargetBox, point: NDArray[np.float64]) -> bool:
    return bool((np.abs((point - box.center) @ box.axes.T) <= _SAME_BOX * box.half_sizes).all())


def _likeliest_first(found: list[TargetCandidate]) -> list[TargetCandidate]:
    order = {name: i for i, name in enumerate(_LABEL_ORDER)}
    return sorted(found, key=lambda c: (order.get(c.label, len(order)), -c.count))


def _box_source(label: str, moments: list[LabelledBox]) -> str:
    times = "once" if len(moments) == 1 else f"{len(moments)} times"
    source = f"box of a {label or 'object'}, seen {times}"
    centers = np.array([moment.box.center for moment in moments])
    moved = float(np.linalg.norm(centers.max(axis=0) - centers.min(axis=0)))
    if moved > _MOVES_M:
        source += f"; moves {moved:.1f} m, so that the scene shows it smeared"
    return source


def _count(gaussians: Gaussians, box: TargetBox) -> int:
    # single precision first: a city has millions of Gaussians and tens of boxes
    reach = np.float32(np.linalg.norm(box.half_sizes) * 1.001)
    offset = gaussians.means - box.center.astype(np.float32)
    near = offset[(np.abs(offset) <= reach).all(axis=1)].astype(np.float64)
    return int((np.abs(near @ box.axes.T) <= box.half_sizes).all(axis=1).sum())
