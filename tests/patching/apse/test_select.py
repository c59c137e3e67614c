from __future__ import annotations

import numpy as np

from patching.apse.select import in_front, select_old
from patching.apse.settings import ApseSettings
from scene.camera import Camera
from scene.gaussians import Gaussians
from scene.surface import Plane


def _at(points, opacities) -> Gaussians:  # type: ignore[no-untyped-def]
    n = len(points)
    quats = np.tile([1.0, 0, 0, 0], (n, 1))
    parts = (points, quats, np.full((n, 3), 0.01), opacities, np.zeros((n, 1, 3)))
    return Gaussians(*(np.asarray(part, np.float32) for part in parts))


# f = 120, principal point (84, 58); the mask covers columns 80-89, rows 50-69; depth 4 everywhere
MASK = np.zeros((120, 160), bool)
MASK[50:70, 80:90] = True
DEPTH = np.full((120, 160), 4.0, np.float32)
PLANE = Plane(np.array([0.0, 0.0, 4.0]), np.array([0.0, 0.0, -1.0]))
POINTS = [
    (0, 0, 4.0),  # 0 on the surface
    (0, 0, 4.05),  # 1 behind, within 3 %
    (0, 0, 3.95),  # 2 in front
    (0, 0, 3.95),  # 3 in front, faint
    (0, 0, 4.05),  # 4 behind, faint
    (0, 0, 4.2),  # 5 beyond 3 %
    (0, 0, 3.8),  # 6 nearer than 3 %
    (0.5, 0, 4.0),  # 7 projects beside the mask
    (0, 0, -4.0),  # 8 behind the camera
    (9, 0, 4.0),  # 9 outside the picture
]
OPACITIES = [0.9, 0.5, 0.9, 0.05, 0.05, 0.9, 0.9, 0.9, 0.9, 0.9]


def _select(camera: Camera, **changes):  # type: ignore[no-untyped-def]
    variant = changes.pop("variant", "inspector")
    settings = ApseSettings.of(variant, **changes)
    return select_old(_at(POINTS, OPACITIES), camera, MASK, DEPTH, PLANE, 0.05, settings)


def test_paper_reuses_every_opaque_one(front_camera: Camera) -> None:
    chosen = _select(front_camera, variant="paper")
    assert chosen.reused.tolist() == [0, 1, 2] and chosen.faded.tolist() == []


def test_inspector_fades_those_in_front_however_faint(front_camera: Camera) -> None:
    chosen = _select(front_camera, fade_depth=0.0)
    assert chosen.reused.tolist() == [0, 1] and chosen.faded.tolist() == [2, 3]


def test_fade_depth_reaches_behind_the_surface(front_camera: Camera) -> None:
    # half a stride of 0.05: the one on the surface goes, the one 0.05 behind stays
    chosen = _select(front_camera, fade_depth=0.5)
    assert chosen.reused.tolist() == [1] and chosen.faded.tolist() == [0, 2, 3]


def test_a_thin_layer_is_not_cut_away(front_camera: Camera) -> None:
    # three strides deep would take all of them: then only those in front go
    chosen = _select(front_camera, fade_depth=3.0)
    assert chosen.reused.tolist() == [0, 1] and chosen.faded.tolist() == [2, 3]


def test_nothing_fades_where_nothing_new_comes(front_camera: Camera) -> None:
    chosen = _select(front_camera, use_new=False)
    assert chosen.reused.tolist() == [0, 1, 2] and len(chosen.faded) == 0


def test_no_old_leaves_the_scene_alone(front_camera: Camera) -> None:
    chosen = _select(front_camera, use_old=False)
    assert len(chosen.reused) == 0 and len(chosen.faded) == 0


def test_in_front_follows_each_point_s_own_ray() -> None:
    camera = Camera.look_at((2, 0, 0), (0, 0, 4), (0, -1, 0), 160, 120, 60)
    tilted = Plane(np.array([0, 0, 4.0]), np.array([1.0, 0, -1.0]))  # z = 4 + x
    points = np.array([[0.0, 0, 3.99], [0.0, 0, 4.01], [1.0, 0, 4.9], [1.0, 0, 5.1]])
    assert in_front(points, tilted, camera).tolist() == [True, False, True, False]
