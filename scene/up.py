"""Which way is up: estimated from the cameras where a file does not say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scene.camera import Camera

Axis = tuple[float, float, float]

DEFAULT_UP: Axis = (0.0, -1.0, 0.0)
"""Splat files without any hint: worlds made from COLMAP poses have y pointing down."""
DEFAULT_UP_SOURCE = "default (-y, the usual one of COLMAP-made splats); correct it by hand if wrong"

_LEVEL = 1e-3


def estimate_up(cameras: Sequence[Camera]) -> Axis:
    """The signed up axis (unit) of pictures that people took upright.

    Photographers tilt and turn but hardly roll, so up is the direction that all cameras' x axes
    are perpendicular to. Cameras that all face one way leave that open, and their mean picture
    up decides. Where all are exactly level about one coordinate axis, it is that axis.
    """
    picture_up = -np.mean([camera.down for camera in cameras], axis=0)
    rights = np.stack([camera.right for camera in cameras])
    along_axis = np.where(np.abs(rights).max(axis=0) < _LEVEL, np.abs(picture_up), 0.0)
    if along_axis.max() > 0.5:
        axis = np.eye(3)[along_axis.argmax()] * np.sign(picture_up[along_axis.argmax()])
        return (float(axis[0]), float(axis[1]), float(axis[2]))
    _, spread, axes = np.linalg.svd(rights, full_matrices=True)
    spread = np.pad(spread, (0, 3 - len(spread)))
    # the middle singular value says whether headings differ enough to fix the axis
    if spread[1] < 0.2 * spread[0]:
        up = picture_up - (picture_up @ axes[0]) * axes[0]
    else:
        up = axes[2] * np.sign(picture_up @ axes[2] or 1.0)
    norm = np.linalg.norm(up)
    if norm < 1e-6:
        return DEFAULT_UP
    x, y, z = (up / norm).tolist()
    return (x, y, z)
