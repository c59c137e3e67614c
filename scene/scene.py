"""A reconstructed scene: Gaussians plus what is known about the place they stand for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.gaussians import Gaussians


@dataclass(frozen=True)
class CaptureCamera:
    """A camera that the scene was reconstructed from."""

    name: str
    camera: Camera
    held_out: bool = False


@dataclass(frozen=True, eq=False)
class TargetBox:
    """An oriented 3D box around the object that victims should see.

    center: (3,) world units. axes: (3, 3), rows are the box's unit axes. half_sizes: (3,) > 0.
    label: the class name, normalised lower case ("stop sign").
    """

    center: NDArray[np.float64]
    axes: NDArray[np.float64]
    half_sizes: NDArray[np.float64]
    label: str = ""


@dataclass(frozen=True, eq=False)
class Scene:
    """Gaussians + capture cameras + up axis + target + provenance; one in memory, shared by all.

    up: (3,) unit signed up axis of the world. metres_per_unit: None where the scale is unknown.
    background: sRGB behind the Gaussians. provenance: file hash, format, transforms, warnings.
    """

    gaussians: Gaussians
    name: str
    cameras: tuple[CaptureCamera, ...] = ()
    up: tuple[float, float, float] = (0.0, 1.0, 0.0)
    up_source: str = "default"
    metres_per_unit: float | None = None
    target: TargetBox | None = None
    background: tuple[float, float, float] = (0.0, 0.0, 0.0)
    provenance: dict[str, Any] = field(default_factory=dict)
