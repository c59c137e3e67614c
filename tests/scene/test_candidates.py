"""Target candidates: masks lifted to the object that they show, boxes that hold Gaussians."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scene.camera import Camera
from scene.candidates import box_around, find_candidates, lift_masks
from scene.capture import Capture, Frame, FrameBox, FrameMask, LabelledBox
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.normalisation import Normalisation
from scene.scene import CaptureCamera, Scene, TargetBox
from scene.target import select_in_box

HALF = np.array([0.6, 0.25, 0.4])


def scene() -> tuple[Gaussians, np.ndarray]:
    """An upright ellipsoid on a floor before a wall, z up; and which rows are the ellipsoid's."""
    rng = np.random.default_rng(0)
    ball = rng.normal(size=(900, 3))
    ball = ball / np.linalg.norm(ball, axis=1, keepdims=True) * HALF + [0, 0, HALF[2]]
    floor = np.column_stack([rng.uniform(-3, 3, (3000, 2)), np.full(3000, -0.02)])
    wall = np.column_stack([rng.uniform(-3, 3, 1500), np.full(1500, 5.0), rng.uniform(0, 2, 1500)])
    means = np.concatenate([ball, floor, wall])
    scales = np.concatenate([np.full((900, 3), 0.04), np.full((4500, 3), 0.09)])
    n = len(means)
    gaussians = Gaussians(
        means, np.tile([1, 0, 0, 0], (n, 1)), scales, np.full(n, 0.95), np.zeros((n, 1, 3))
    )
    return gaussians, np.arange(n) < 900


def masked_frame(azimuth_deg: float, label: str = "stop sign") -> Frame:
    """A photo's frame whose mask is the ellipsoid's exact outline, ray by ray."""
    a = np.radians(azimuth_deg)
    eye = np.array([3 * np.sin(a), -3 * np.cos(a), 1.0])
    camera = Camera.look_at(eye, [0, 0, 0.4], [0, 0, 1], 200, 140, 40)
    rays = camera.rays(camera.pixel_centers()) / HALF
    start = (camera.center - [0, 0, HALF[2]]) / HALF
    b = (rays * start).sum(axis=-1)
    hit = b**2 >= (rays**2).sum(axis=-1) * (start @ start - 1)
    mask = FrameMask("object", pixels=np.where(hit, 255, 0).astype(np.uint8), label=label)
    return Frame(f"{azimuth_deg}", camera, mask=mask)


def test_masks_lift_to_the_object_alone():
    gaussians, truth = scene()
    frames = [masked_frame(angle) for angle in (-60, -30, 0, 30, 60)]
    rows = lift_masks(gaussians, frames)
    # floor and wall stay out, also the floor that it hides
    assert truth[rows].mean() > 0.97
    front = truth & (gaussians.means[:, 1] < 0)
    assert np.isin(np.flatnonzero(front), rows).mean() > 0.8


def test_the_masked_object_is_the_first_candidate_with_an_upright_box():
    gaussians, truth = scene()
    frames = tuple(masked_frame(angle) for angle in range(0, 360, 30))
    capture = Capture(frames, up=(0, 0, 1))
    (candidate,) = find_candidates(Scene(gaussians, "s"), capture)
    assert (candidate.label, candidate.source) == ("stop sign", "object masks of 12 photos")
    box = candidate.box
    np.testing.assert_allclose(box.center, [0, 0, 0.4], atol=0.05)
    np.testing.assert_allclose(box.half_sizes, HALF, atol=0.06)
    np.testing.assert_allclose(np.abs(box.axes), np.eye(3), atol=0.1)
    chosen = select_in_box(gaussians, box)
    assert len(chosen) == candidate.count
    assert truth[chosen.indices].mean() > 0.97
    assert candidate.count > 0.85 * truth.sum()


def test_masks_of_pixels_to_use_are_no_target():
    gaussians, _ = scene()
    frame = masked_frame(0)
    frame = replace(frame, mask=replace(frame.mask, meaning="use"))
    assert find_candidates(Scene(gaussians, "s"), Capture((frame,))) == []


def test_a_scene_in_another_frame_is_refused():
    gaussians, _ = scene()
    capture = Capture((masked_frame(0), masked_frame(90)), up=(0, 0, 1))
    same = Scene(gaussians, "s", cameras=capture.scene_cameras())
    assert len(find_candidates(same, capture)) == 1
    half = Normalisation(np.eye(3, 4), 0.5)
    moved = tuple(CaptureCamera(c.name, half.apply_to_camera(c.camera)) for c in same.cameras)
    with pytest.raises(InputError, match="another world frame than the capture: camera 0 is at"):
        find_candidates(replace(same, cameras=moved), capture)


def test_empty_masks_give_no_candidate():
    gaussians, _ = scene()
    frame = masked_frame(0)
    frame = replace(frame, mask=FrameMask("object", pixels=np.zeros((140, 200), np.uint8)))
    assert find_candidates(Scene(gaussians, "s"), Capture((frame, frame), up=(0, 0, 1))) == []


def labelled(
    label: str, x: float, track: str, time_s: float = 0.0, size: float = 1.0
) -> LabelledBox:
    box = TargetBox(np.array([x, 0, 0.4]), np.eye(3), np.array([0.7, 0.4, 0.5]) * size, label)
    return LabelledBox(box, track, time_s)


def test_boxes_that_hold_gaussians_signs_first_and_moving_ones_said():
    gaussians, truth = scene()
    gaussians = gaussians.select(np.flatnonzero(truth))
    boxes = (
        labelled("vehicle", 0.0, "car", 0.0), labelled("vehicle", 0.1, "car", 0.1),
        labelled("vehicle", 4.0, "car", 0.2), labelled("sign", 0.0, "s", size=1.1),
        labelled("sign", 50.0, "far"), labelled("pedestrian", 0.3, "p"),
    )  # fmt: skip
    found = find_candidates(Scene(gaussians, "s"), Capture((), boxes=boxes))
    assert [c.label for c in found] == ["sign", "pedestrian", "vehicle"]
    sign, pedestrian, car = found
    assert sign.count == 900
    assert sign.source == "box of a sign, seen once"
    assert pedestrian.count == len(select_in_box(gaussians, pedestrian.box)) < 900
    # the middle moment's box
    assert car.box.center[0] == 0.1
    assert (
        car.source
        == "box of a vehicle, seen 3 times; moves 4.0 m, so that the scene shows it smeared"
    )


def drawn(
    azimuth_deg: float, label: str = "pedestrian", track: str = "t", grow: float = 0.0
) -> Frame:
    """The photo's frame with the box around the ellipsoid's outline drawn in it."""
    frame = masked_frame(azimuth_deg)
    assert frame.mask is not None and frame.mask.pixels is not None
    y, x = np.nonzero(frame.mask.pixels)
    edges = (x.min() - grow, y.min() - grow, x.max() + 1 + grow, y.max() + 1 + grow)
    box = FrameBox(label, tuple(float(e) for e in edges), track)
    return replace(frame, mask=None, boxes=(box,))


def test_a_box_drawn_in_a_photo_is_lifted_by_depth():
    gaussians, truth = scene()
    (candidate,) = find_candidates(Scene(gaussians, "s"), Capture((drawn(0),), up=(0, 0, 1)))
    assert candidate.label == "pedestrian"
    assert candidate.source == "box of a pedestrian drawn in photo 0, lifted by depth; seen once"
    # from (0, -3, 1) the ellipsoid is seen as wide as it is; its back only by its depth
    np.testing.assert_allclose(candidate.box.center[[0, 2]], [0, 0.4], atol=0.1)
    assert abs(candidate.box.center[1]) < 0.2
    chosen = select_in_box(gaussians, candidate.box)
    assert len(chosen) == candidate.count
    assert truth[chosen.indices].mean() > 0.9
    assert truth[chosen.indices].sum() > 0.7 * truth.sum()


def test_of_a_drawn_track_the_largest_whole_box_counts_and_3d_boxes_come_first():
    gaussians, _ = scene()
    cut = drawn(30, grow=1.0)
    cut = replace(cut, boxes=(replace(cut.boxes[0], xyxy=(0.0, 0.0, 200.0, 140.0)),))
    frames = (drawn(0), drawn(90, grow=2.0), cut)
    capture = Capture(frames, up=(0, 0, 1))
    (candidate,) = find_candidates(Scene(gaussians, "s"), capture)
    # 1.2 m wide from the front, 0.5 m from the side
    assert "photo 0," in candidate.source and "seen 3 times" in candidate.source
    boxed = replace(capture, boxes=(labelled("pedestrian", 0.0, "p", size=1.1),))
    (candidate,) = find_candidates(Scene(gaussians, "s"), boxed)
    assert candidate.source == "box of a pedestrian, seen once"
    other = replace(capture, boxes=(labelled("vehicle", 0.0, "p", size=1.1),))
    assert [c.label for c in find_candidates(Scene(gaussians, "s"), other)] == [
        "vehicle",
        "pedestrian",
    ]


def test_drawn_boxes_of_nothing_and_tiny_ones_are_no_candidates():
    gaussians, truth = scene()
    ball = gaussians.select(np.flatnonzero(truth))
    frame = drawn(0)
    sky = FrameBox("vehicle", (2.0, 2.0, 30.0, 20.0), "sky")
    tiny = FrameBox("vehicle", (98.0, 68.0, 102.0, 72.0), "tiny")
    capture = Capture((replace(frame, boxes=(sky, tiny)),), up=(0, 0, 1))
    assert find_candidates(Scene(ball, "s"), capture) == []


def test_a_box_around_points_turns_with_them_about_up():
    rng = np.random.default_rng(1)
    local = rng.uniform(-1, 1, (20_000, 3)) * [2.0, 0.5, 0.25]
    turn = np.radians(25)
    # up is -y: the long side lies in the xz plane, 25 degrees from x
    axes = np.array([[np.cos(turn), 0, np.sin(turn)], [-np.sin(turn), 0, np.cos(turn)], [0, -1, 0]])
    box = box_around(local @ axes + [5, 6, 7], (0, -1, 0), "bench")
    np.testing.assert_allclose(box.center, [5, 6, 7], atol=0.03)
    # 98 % of the range, and 2 % longer
    np.testing.assert_allclose(box.half_sizes, np.array([2.0, 0.5, 0.25]) * 0.98 * 1.02, rtol=0.02)
    np.testing.assert_allclose(np.abs(box.axes @ axes.T), np.eye(3), atol=0.02)
    assert np.linalg.det(box.axes) == pytest.approx(1)
    assert box.label == "bench"
