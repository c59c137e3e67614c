"""Capture cameras on the page: small pictures of what they see, and views that none of them saw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.draw import Pixels, as_pixels
from scene.camera import Camera
from scene.scene import CaptureCamera, Scene

if TYPE_CHECKING:
    from scene.render.api import Renderer

THUMBNAIL_PX = 96
MOST_THUMBNAILS = 150


def thumbnails(
    renderer: Renderer, cameras: Sequence[CaptureCamera], background: tuple[float, float, float]
) -> Iterator[tuple[int, Pixels]]:
    """(index, picture) of at most `MOST_THUMBNAILS` cameras, evenly chosen.

    What our renderer draws there: the photos themselves are not kept with a scene.
    """
    count = min(len(cameras), MOST_THUMBNAILS)
    for index in np.linspace(0, len(cameras) - 1, count).round().astype(int).tolist():
        camera = cameras[index].camera.fitted(THUMBNAIL_PX)
        yield index, as_pixels(renderer.render(camera, background).rgb)


def extrapolated(scene: Scene, camera: Camera, pivot: ArrayLike) -> bool:
    """Whether a view is more than 30 degrees or twice the distance from every capture camera.

    pivot: (3,) where these are measured from. False where the scene has no capture cameras.
    """
    return bool(far_views(scene, [camera], pivot)[0])


def far_views(scene: Scene, cameras: Sequence[Camera], pivot: ArrayLike) -> NDArray[np.bool_]:
    """(N,) `extrapolated` of each camera."""
    from scene.target import CaptureRing, within_capture_limits

    ring = CaptureRing(scene, pivot)

    def far(camera: Camera) -> bool:
        near = ring.nearest(camera)
        return near is not None and not within_capture_limits(near.angle_deg, near.distance_ratio)

    return np.array([far(camera) for camera in cameras], dtype=bool)


def memory_text(scene: Scene) -> str:
    """Memory of the Gaussians, and of this whole process now."""
    gaussians = scene.gaussians
    arrays = (a for a in vars(gaussians).values() if isinstance(a, np.ndarray))
    mine = sum(array.nbytes for array in arrays)
    text = f"scene {mine / 1e6:.0f} MB"
    used = process_memory()
    return text if used is None else f"{text}, all {used / 1e9:.1f} GB"


def process_memory() -> int | None:
    """Resident bytes of this process; None where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    import resource

    return pages * resource.getpagesize()
