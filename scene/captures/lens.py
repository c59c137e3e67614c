"""Lens distortion: what a capture format states about it, and taking it out of a photo."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError

DoubleArray = NDArray[np.float64]
LensModel = Literal["opencv", "fisheye"]

# OpenCV's pixel (0, 0) has its centre at 0, ours at 0.5.
_HALF_PIXEL = np.array([[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]])

# Real lenses change the focal length of the undistorted picture by far less.
_LEAST_ZOOM = 0.1


@dataclass(frozen=True)
class Lens:
    """A distorted camera as OpenCV models it; hashable, so that its maps are made once.

    model: "opencv" (coefficients k1 k2 p1 p2 [k3 [k4 k5 k6]]) or "fisheye" (k1 k2 k3 k4).
    fx, fy, cx, cy: of the distorted picture, pixels, centre of the first pixel at 0.5.
    """

    model: LensModel
    fx: float
    fy: float
    cx: float
    cy: float
    width: int
    height: int
    coefficients: tuple[float, ...]

    def pinhole_K(self) -> DoubleArray:
        """(3, 3) intrinsics of the undistorted picture: same size, no empty pixel at its edges."""
        return _undistortion(self)[0]

    def undistort(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """(H, W, C) photo as taken to the pinhole picture of `pinhole_K`, bilinear."""
        cv2 = _opencv()
        _, map_x, map_y = _undistortion(self)
        return cv2.remap(image, map_x, map_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)


@lru_cache(maxsize=4)
def _undistortion(lens: Lens) -> tuple[DoubleArray, NDArray[np.float32], NDArray[np.float32]]:
    cv2 = _opencv()
    size = (lens.width, lens.height)
    K = np.array([[lens.fx, 0, lens.cx], [0, lens.fy, lens.cy], [0, 0, 1]]) - _HALF_PIXEL
    coefficients = np.array(lens.coefficients, dtype=np.float64)
    if lens.model == "fisheye":
        new_K = cv2.fisheye.estimateNewCameraMatrixForUndistortRectify(
            K, coefficients, size, np.eye(3), balance=0.0
        )
        maps = cv2.fisheye.initUndistortRectifyMap(
            K, coefficients, np.eye(3), new_K, size, cv2.CV_32FC1
        )
    else:
        new_K, _ = cv2.getOptimalNewCameraMatrix(K, coefficients, size, 0, size)
        maps = cv2.initUndistortRectifyMap(K, coefficients, None, new_K, size, cv2.CV_32FC1)
    zoom = np.array([new_K[0, 0] / lens.fx, new_K[1, 1] / lens.fy])
    sane = (zoom > _LEAST_ZOOM).all() and (zoom < 1 / _LEAST_ZOOM).all()
    if not (sane and _unfolded(maps[0], maps[1])):
        raise InputError(
            f"the lens coefficients {', '.join(f'{c:g}' for c in lens.coefficients)} fold the "
            f"picture over itself and cannot be undone; check them against the format's order"
        )
    return new_K + _HALF_PIXEL, maps[0], maps[1]


def _unfolded(map_x: NDArray[np.float32], map_y: NDArray[np.float32]) -> bool:
    """Whether the map from the undistorted picture into the photo keeps its orientation."""
    step = max(1, min(map_x.shape) // 64)
    x, y = map_x[::step, ::step].astype(np.float64), map_y[::step, ::step].astype(np.float64)
    across = np.diff(x, axis=1)[:-1] * np.diff(y, axis=0)[:, :-1]
    along = np.diff(x, axis=0)[:, :-1] * np.diff(y, axis=1)[:-1]
    return bool((across > along).all())


def _opencv() -> Any:
    try:
        import cv2
    except ImportError as error:
        raise InputError(
            "these photos have lens distortion, and taking it out needs OpenCV: "
            "pip install 'advscene-inspector[capture]'"
        ) from error
    return cv2
