"""Lens distortion: what a capture format states about it, and taking it out of a photo."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from scene.captures.lens_models import distort, inner_pinhole
from scene.errors import InputError

DoubleArray = NDArray[np.float64]
Maps = tuple[DoubleArray, NDArray[np.float32], NDArray[np.float32]]
Picture = TypeVar("Picture", NDArray[np.uint8], NDArray[np.float32])
LensModel = Literal[
    "opencv", "fisheye", "fov", "thin_prism_fisheye", "rad_tan_thin_prism_fisheye", "division",
    "eucm",
]  # fmt: skip

# OpenCV's pixel (0, 0) has its centre at 0, ours at 0.5.
_HALF_PIXEL = np.array([[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]])

# Real lenses change the focal length of the undistorted picture by far less.
_LEAST_ZOOM = 0.1


@dataclass(frozen=True)
class Lens:
    """A distorted camera; hashable, so that its maps are made once.

    model: "opencv" (coefficients k1 k2 p1 p2 [k3 [k4 k5 k6]]), "fisheye" (k1 k2 k3 k4), both as
    OpenCV has them, or one of `lens_models.distort`.
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

    def undistort(self, image: Picture) -> Picture:
        """(H, W, C) photo, uint8 or float32, flattened to `pinhole_K`, bilinear."""
        cv2 = _opencv()
        _, map_x, map_y = _undistortion(self)
        return cv2.remap(image, map_x, map_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)

    def undistort_box(
        self, xyxy: tuple[float, float, float, float]
    ) -> tuple[float, float, float, float]:
        """Tight box of the pinhole picture around a box (x0, y0, x1, y1) of the photo as taken.

        Only for the "opencv" model. Parts outside the photo are cut off.
        """
        cv2 = _opencv()
        x0, x1 = np.clip([xyxy[0], xyxy[2]], 0, self.width)
        y0, y1 = np.clip([xyxy[1], xyxy[3]], 0, self.height)
        t = np.linspace(0, 1, 9)
        x, y = x0 + (x1 - x0) * t, y0 + (y1 - y0) * t
        border = np.concatenate([np.stack(np.broadcast_arrays(*side), axis=-1) for side in (
            (x, y0), (x, y1), (x0, y), (x1, y))])  # fmt: skip
        K = np.array([[self.fx, 0, self.cx], [0, self.fy, self.cy], [0, 0, 1]])
        coefficients = np.array(self.coefficients)
        # OpenCV's own 5 steps stop up to a tenth of a pixel off in the corners
        enough = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 100, 1e-9)
        flat = cv2.undistortPoints(
            border[:, None], K, coefficients, P=self.pinhole_K(), criteria=enough
        )[:, 0]
        low, high = flat.min(axis=0), flat.max(axis=0)
        return float(low[0]), float(low[1]), float(high[0]), float(high[1])


@lru_cache(maxsize=4)
def _undistortion(lens: Lens) -> Maps:
    K = np.array([[lens.fx, 0, lens.cx], [0, lens.fy, lens.cy], [0, 0, 1]])
    make = _opencv_maps if lens.model in ("opencv", "fisheye") else _own_maps
    new_K, map_x, map_y = make(lens, K)
    zoom = np.array([new_K[0, 0] / lens.fx, new_K[1, 1] / lens.fy])
    sane = (zoom > _LEAST_ZOOM).all() and (zoom < 1 / _LEAST_ZOOM).all()
    if not (sane and _unfolded(map_x, map_y)):
        raise InputError(
            f"the lens coefficients {', '.join(f'{c:g}' for c in lens.coefficients)} fold the "
            f"picture over itself, or see wider than a flat picture can hold; check them against "
            f"the format's order"
        )
    return new_K, map_x, map_y


def _opencv_maps(lens: Lens, K: DoubleArray) -> Maps:
    cv2 = _opencv()
    size = (lens.width, lens.height)
    K = K - _HALF_PIXEL
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
    return new_K + _HALF_PIXEL, maps[0], maps[1]


def _own_maps(lens: Lens, K: DoubleArray) -> Maps:
    new_K = inner_pinhole(lens.model, lens.coefficients, K, lens.width, lens.height)
    x, y = np.meshgrid(np.arange(lens.width) + 0.5, np.arange(lens.height) + 0.5)
    flat = (np.stack([x, y], axis=-1) - new_K[:2, 2]) / new_K[[0, 1], [0, 1]]
    drawn = distort(lens.model, lens.coefficients, flat)
    pixels = (drawn * K[[0, 1], [0, 1]] + K[:2, 2] - 0.5).astype(np.float32)
    return new_K, pixels[..., 0], pixels[..., 1]


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
