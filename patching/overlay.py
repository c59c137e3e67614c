"""The image-plane baseline: what people do without a scene.

The patch picture is scaled by distance, rotated in plane by the camera's roll, moved to the
projected patch centre and pasted: no foreshortening, no occlusion.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from patching.patch import Patch
from patching.placement import Placement
from patching.raycast import SUPERSAMPLE, PatchRays, sample_patch
from scene.camera import Camera

FloatArray = NDArray[np.float32]


def paste_overlay(
    clean_rgb: FloatArray, camera: Camera, placement: Placement, patch: Patch
) -> FloatArray:
    """Paste the patch on the clean render of `camera`.

    clean_rgb: (H, W, 3) sRGB in [0, 1]. Returns (H, W, 3); equal to clean_rgb where the patch's
    centre lies behind the camera or its square outside the picture.
    """
    picture = np.array(clean_rgb, dtype=np.float32)
    (x, y), z = camera.project(placement.center)
    if z <= 0:
        return picture
    width = placement.width * camera.K[0, 0] / z
    height = placement.height * camera.K[1, 1] / z
    rays = _upright_rays((x, y), (width, height), overlay_angle_deg(camera, placement), camera)
    if rays is None:
        return picture
    pooled = rays.pooled(sample_patch(patch, rays))
    where = (rays.rows, rays.columns)
    picture[where] = pooled[..., :3] + (1 - pooled[..., 3:]) * picture[where]
    return picture


def overlay_angle_deg(camera: Camera, placement: Placement) -> float:
    """Clockwise angle in the picture of the pasted patch's upper edge.

    Its angle in the anchor view, less the roll of `camera` about its own axis since the anchor.
    """
    anchor = placement.camera
    ends, _ = anchor.project(
        [placement.center, placement.center + 1e-3 * placement.width * placement.right]
    )
    along = ends[1] - ends[0]
    turn = camera.camera_from_world[:3, :3] @ anchor.camera_from_world[:3, :3].T
    roll_deg = np.degrees(np.arctan2(turn[1, 0] - turn[0, 1], turn[0, 0] + turn[1, 1]))
    return float(np.degrees(np.arctan2(along[1], along[0])) + roll_deg)


def _upright_rays(
    center: tuple[float, float], size: tuple[float, float], angle_deg: float, camera: Camera
) -> PatchRays | None:
    """Sub-pixels of a rotated rectangle in the picture, as if they were rays at a patch."""
    reach = 0.5 * float(np.hypot(*size)) + 1
    x0, x1 = max(int(center[0] - reach), 0), min(int(center[0] + reach) + 2, camera.width)
    y0, y1 = max(int(center[1] - reach), 0), min(int(center[1] + reach) + 2, camera.height)
    if x0 >= x1 or y0 >= y1:
        return None
    x = x0 + (np.arange((x1 - x0) * SUPERSAMPLE) + 0.5) / SUPERSAMPLE - center[0]
    y = y0 + (np.arange((y1 - y0) * SUPERSAMPLE) + 0.5) / SUPERSAMPLE - center[1]
    dx, dy = np.meshgrid(x, y)
    c, s = np.cos(np.radians(angle_deg)), np.sin(np.radians(angle_deg))
    uv = np.stack([(c * dx + s * dy) / size[0] + 0.5, (c * dy - s * dx) / size[1] + 0.5], axis=-1)
    inside = np.asarray(((uv >= 0) & (uv <= 1)).all(axis=-1))
    if not inside.any():
        return None
    return PatchRays(
        slice(y0, y1), slice(x0, x1), SUPERSAMPLE, uv, inside, np.ones(inside.shape),
        (size[0] * SUPERSAMPLE, size[1] * SUPERSAMPLE),
    )  # fmt: skip
