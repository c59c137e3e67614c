"""The image-plane baseline: what people do without a scene.

The patch picture is scaled by distance, rotated in plane by the camera's roll, moved to the
projected patch centre and pasted: no foreshortening, no occlusion.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from patching.patch import Patch
from patching.placement import Placement
from patching.raycast import SUPERSAMPLE, averaged_down, premultiplied, sub_pixels
from scene.camera import Camera
from scene.render.api import Window

FloatArray = NDArray[np.float32]


def paste_overlay(
    clean_rgb: FloatArray, camera: Camera, placement: Placement, patch: Patch
) -> FloatArray:
    """Paste the patch on the clean render of `camera`.

    clean_rgb: (H, W, 3) sRGB in [0, 1]. Returns (H, W, 3); equal to clean_rgb where the patch's
    centre lies behind the camera or its square outside the picture.
    """
    picture = np.array(clean_rgb, dtype=np.float32)
    pasted = overlay_window(picture, camera, placement, patch)
    if pasted is not None:
        where, rgb = pasted
        picture[where] = rgb
    return picture


def overlay_window(
    clean_rgb: FloatArray, camera: Camera, placement: Placement, patch: Patch
) -> tuple[Window, FloatArray] | None:
    """What `paste_overlay` changes: where, and the (h, w, 3) sRGB there; None for nothing."""
    (x, y), z = camera.project(placement.center)
    if z <= 0:
        return None
    size = placement.width * camera.K[0, 0] / z, placement.height * camera.K[1, 1] / z
    return _pasted(clean_rgb, (x, y), size, overlay_angle_deg(camera, placement), patch)


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


def _pasted(
    picture: FloatArray,
    center: tuple[float, float],
    size: tuple[float, float],
    angle_deg: float,
    patch: Patch,
) -> tuple[Window, FloatArray] | None:
    """The patch, (width, height) pixels in size and turned clockwise, on its part of a picture."""
    from patching.texture_kernel import paste_texture

    reach = 0.5 * float(np.hypot(*size)) + 1
    columns = _span(center[0], reach, picture.shape[1])
    rows = _span(center[1], reach, picture.shape[0])
    if columns.start >= columns.stop or rows.start >= rows.stop:
        return None
    texture = averaged_down(premultiplied(patch), (size[0] * SUPERSAMPLE, size[1] * SUPERSAMPLE))
    window = np.array(picture[rows, columns], np.float32)
    angle = np.radians(angle_deg)
    paste_texture(
        np.ascontiguousarray(texture, np.float32),
        window,
        sub_pixels(columns, SUPERSAMPLE) - center[0],
        sub_pixels(rows, SUPERSAMPLE) - center[1],
        (float(np.cos(angle)), float(np.sin(angle))),
        (float(size[0]), float(size[1])),
        SUPERSAMPLE,
    )
    return (rows, columns), window


def _span(center: float, reach: float, limit: int) -> slice:
    """Whole pixels within `reach` of `center`, of 0..limit; empty where none is."""
    return slice(max(int(center - reach), 0), min(int(center + reach) + 2, limit))
