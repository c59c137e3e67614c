"""SIFT features of posed photos, matched between neighbours and checked against the known poses."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.capture import Capture
from scene.errors import InputError
from scene.reconstruct.photos import trusted

log = logging.getLogger(__name__)

DoubleArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MATCHING_LONG_SIDE = 960
"""Photos are shrunk to this for feature detection."""
EPIPOLAR_PIXELS = 2.0
_RATIO = 0.8  # Lowe: nearest / second nearest descriptor distance
_NEIGHBOURS = 12  # photos that a photo is matched with
_WIDEST_DEG = 55.0  # between view directions; SIFT finds little beyond


@dataclass(frozen=True, eq=False)
class Features:
    """Keypoints of one photo. xy: (F, 2) pixels. descriptors: (F, 128). colors: (F, 3) sRGB."""

    camera: Camera
    xy: DoubleArray
    descriptors: NDArray[np.float32]
    colors: NDArray[np.float32]

    def select(self, chosen: NDArray[np.bool_]) -> Features:
        """The chosen (F,) keypoints."""
        return Features(self.camera, self.xy[chosen], self.descriptors[chosen], self.colors[chosen])


def find_features(capture: Capture, most: int, masks: bool = True) -> list[Features]:
    """SIFT keypoints of the training photos, root-normalised descriptors (Arandjelovic 2012).

    masks: leave out keypoints on pixels that a photo's mask says not to use.
    """
    cv2 = _opencv()
    sift = cv2.SIFT_create(most, contrastThreshold=0.02)
    found = []
    for frame in capture.training:
        camera = frame.camera
        if max(camera.width, camera.height) > MATCHING_LONG_SIDE:
            camera = camera.fitted(MATCHING_LONG_SIDE)
        image = frame.load_image((camera.width, camera.height))
        gray = cv2.cvtColor(np.round(image * 255).astype(np.uint8), cv2.COLOR_RGB2GRAY)
        keypoints, descriptors = sift.detectAndCompute(gray, None)
        # OpenCV's pixel (0, 0) has its centre at 0, ours at 0.5
        xy = np.array([point.pt for point in keypoints]).reshape(-1, 2) + 0.5
        if descriptors is None:
            descriptors = np.zeros((0, 128), np.float32)
        rooted = np.sqrt(descriptors / (descriptors.sum(axis=1, keepdims=True) + 1e-7))
        column = np.clip(xy[:, 0].astype(int), 0, camera.width - 1)
        row = np.clip(xy[:, 1].astype(int), 0, camera.height - 1)
        features = Features(camera, xy, rooted.astype(np.float32), image[row, column])
        weight = trusted(frame, (camera.width, camera.height)) if masks else None
        if weight is not None:
            features = features.select(weight[row, column] > 0.5)
        found.append(features)
    return found


def match_all(features: list[Features]) -> list[tuple[int, int, IntArray]]:
    """Matches (first photo, second photo, (M, 2) keypoint numbers) of photos near each other."""
    return [
        (i, j, match_pair(features[i], features[j]))
        for i, j in photo_pairs([photo.camera for photo in features])
    ]


def photo_pairs(cameras: list[Camera]) -> list[tuple[int, int]]:
    """Pairs i < j of photos worth matching: each with its nearest that look the same way."""
    centers = np.array([camera.center for camera in cameras])
    forward = np.array([camera.forward for camera in cameras])
    distances = np.linalg.norm(centers[:, None] - centers[None], axis=2)
    distances[forward @ forward.T < np.cos(np.radians(_WIDEST_DEG))] = np.inf
    np.fill_diagonal(distances, np.inf)
    pairs = set()
    for i, row in enumerate(distances):
        for j in np.argsort(row)[:_NEIGHBOURS]:
            if np.isfinite(row[j]):
                pairs.add((min(i, int(j)), max(i, int(j))))
    return sorted(pairs)


def match_pair(first: Features, second: Features) -> IntArray:
    """(M, 2) keypoint numbers: mutually and clearly nearest, and near the epipolar line."""
    if len(first.xy) < 2 or len(second.xy) < 2:
        return np.zeros((0, 2), dtype=np.int64)
    similarity = first.descriptors @ second.descriptors.T
    rows = np.arange(len(similarity))
    best = similarity.argmax(axis=1)
    mutual = similarity.argmax(axis=0)[best] == rows
    nearest = similarity[rows, best].copy()
    similarity[rows, best] = -1
    second_best = similarity.max(axis=1)
    # descriptors are unit: distance^2 = 2 - 2 similarity
    clear = np.maximum(1 - nearest, 0) < _RATIO**2 * np.maximum(1 - second_best, 0)
    chosen = np.flatnonzero(mutual & clear)
    pairs = np.stack([chosen, best[chosen]], axis=1)
    distances = epipolar_distances(
        first.camera, second.camera, first.xy[pairs[:, 0]], second.xy[pairs[:, 1]]
    )
    return pairs[distances < EPIPOLAR_PIXELS]


def epipolar_distances(
    first: Camera, second: Camera, xy_first: DoubleArray, xy_second: DoubleArray
) -> DoubleArray:
    """(M,) Sampson distances in pixels of matched points (M, 2) under the known poses."""
    relative = second.camera_from_world @ first.world_from_camera
    x, y, z = relative[:3, 3]
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    essential = cross @ relative[:3, :3]
    fundamental = np.linalg.inv(second.K).T @ essential @ np.linalg.inv(first.K)
    one = np.ones((len(xy_first), 1))
    a, b = np.hstack([xy_first, one]), np.hstack([xy_second, one])
    line_second, line_first = a @ fundamental.T, b @ fundamental
    slack = (b * line_second).sum(axis=1)
    norm = (line_second[:, :2] ** 2).sum(axis=1) + (line_first[:, :2] ** 2).sum(axis=1)
    return np.abs(slack) / np.sqrt(np.maximum(norm, 1e-30))


def _opencv() -> Any:
    try:
        import cv2
    except ImportError as error:
        raise InputError(
            "reconstruct: the capture has no points, and finding them needs OpenCV: "
            "pip install 'advscene-inspector[capture]'"
        ) from error
    cv2.setRNGSeed(0)
    return cv2
