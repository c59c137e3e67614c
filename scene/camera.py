"""A pinhole camera, as one frozen value (OpenCV axes: x right, y down, z forward)."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scene.errors import InputError

DoubleArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Camera:
    """A pinhole camera.

    camera_from_world: (4, 4) rigid transform, float64.
    K: (3, 3) intrinsics in pixels, no skew; the centre of pixel (i, j) is (i + 0.5, j + 0.5).
    width, height: picture size in pixels.
    """

    camera_from_world: DoubleArray
    K: DoubleArray
    width: int
    height: int

    def __post_init__(self) -> None:
        pose = np.array(self.camera_from_world, dtype=np.float64)
        intrinsics = np.array(self.K, dtype=np.float64)
        if pose.shape != (4, 4) or not np.isfinite(pose).all():
            raise InputError(f"camera_from_world: wanted a finite 4x4 matrix, found {_shape(pose)}")
        rotation = pose[:3, :3]
        if (
            not np.allclose(rotation @ rotation.T, np.eye(3), atol=1e-4)
            or np.linalg.det(rotation) < 0
            or not np.allclose(pose[3], [0, 0, 0, 1], atol=1e-6)
        ):
            raise InputError(
                "camera_from_world: wanted a rigid transform (a rotation and a translation), "
                "found scale, shear or a mirror; divide the scale out first"
            )
        if intrinsics.shape != (3, 3) or not np.isfinite(intrinsics).all():
            raise InputError(f"K: wanted a finite 3x3 matrix, found {_shape(intrinsics)}")
        if intrinsics[0, 0] <= 0 or intrinsics[1, 1] <= 0:
            raise InputError(f"K: wanted focal lengths > 0, found {intrinsics[0, 0]:g}, "
                             f"{intrinsics[1, 1]:g}")  # fmt: skip
        if self.width < 1 or self.height < 1:
            raise InputError(f"camera size: wanted >= 1x1, found {self.width}x{self.height}")
        pose.flags.writeable = False
        intrinsics.flags.writeable = False
        object.__setattr__(self, "camera_from_world", pose)
        object.__setattr__(self, "K", intrinsics)
        object.__setattr__(self, "width", int(self.width))
        object.__setattr__(self, "height", int(self.height))

    @classmethod
    def look_at(
        cls,
        eye: ArrayLike,
        target: ArrayLike,
        up: ArrayLike,
        width: int,
        height: int,
        vertical_fov_deg: float,
    ) -> Camera:
        """A camera at `eye` that looks at `target`, its picture's upper edge towards `up`."""
        eye, target, up = (np.asarray(v, dtype=np.float64) for v in (eye, target, up))
        forward = (target - eye) / np.linalg.norm(target - eye)
        right = np.cross(forward, up)
        right /= np.linalg.norm(right)
        rotation = np.stack([right, np.cross(forward, right), forward])
        pose = np.eye(4)
        pose[:3, :3] = rotation
        pose[:3, 3] = -rotation @ eye
        focal = 0.5 * height / np.tan(np.radians(vertical_fov_deg) / 2)
        K = np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]])
        return cls(pose, K, width, height)

    @property
    def world_from_camera(self) -> DoubleArray:
        """(4, 4) inverse pose."""
        inverse = np.eye(4)
        inverse[:3, :3] = self.camera_from_world[:3, :3].T
        inverse[:3, 3] = self.center
        return inverse

    @property
    def center(self) -> DoubleArray:
        """(3,) optical centre in world units."""
        return -self.camera_from_world[:3, :3].T @ self.camera_from_world[:3, 3]

    @property
    def right(self) -> DoubleArray:
        """(3,) world direction of +x in the picture."""
        return self.camera_from_world[0, :3]

    @property
    def down(self) -> DoubleArray:
        """(3,) world direction of +y in the picture."""
        return self.camera_from_world[1, :3]

    @property
    def forward(self) -> DoubleArray:
        """(3,) world direction of the view."""
        return self.camera_from_world[2, :3]

    def project(self, points: ArrayLike) -> tuple[DoubleArray, DoubleArray]:
        """World points (..., 3) to pixels (..., 2), NaN where z <= 0, and depths (...,)."""
        points = np.asarray(points, dtype=np.float64)
        local = points @ self.camera_from_world[:3, :3].T + self.camera_from_world[:3, 3]
        z = local[..., 2]
        safe = np.where(z > 0, z, np.nan)[..., None]
        pixels = local[..., :2] / safe * self.K[[0, 1], [0, 1]] + self.K[:2, 2]
        return pixels, z

    def rays(self, pixels: ArrayLike) -> DoubleArray:
        """Pixels (..., 2) to world directions (..., 3) of unit DEPTH (z = 1), not unit length.

        `camera.center + depth * camera.rays(pixels)` is the point at that depth.
        """
        pixels = np.asarray(pixels, dtype=np.float64)
        local = np.ones((*pixels.shape[:-1], 3))
        local[..., :2] = (pixels - self.K[:2, 2]) / self.K[[0, 1], [0, 1]]
        return local @ self.camera_from_world[:3, :3]

    def pixel_centers(self) -> DoubleArray:
        """(H, W, 2) xy of every pixel's centre."""
        x, y = np.meshgrid(np.arange(self.width) + 0.5, np.arange(self.height) + 0.5)
        return np.stack([x, y], axis=-1)

    def resized(self, width: int, height: int) -> Camera:
        """The same view at another picture size; K is scaled with it."""
        K = self.K.copy()
        K[0] *= width / self.width
        K[1] *= height / self.height
        return replace(self, K=K, width=width, height=height)

    def fitted(self, long_side: int) -> Camera:
        """The same view and aspect with the longer side `long_side` pixels."""
        factor = long_side / max(self.width, self.height)
        return self.resized(max(1, round(self.width * factor)), max(1, round(self.height * factor)))

    def to_dict(self) -> dict[str, Any]:
        """The camera file's fields: width, height, K, camera_from_world."""
        return {
            "width": self.width,
            "height": self.height,
            "K": self.K.tolist(),
            "camera_from_world": self.camera_from_world.tolist(),
        }

    @classmethod
    def from_dict(cls, fields: Any, source: str = "camera") -> Camera:
        """Inverse of `to_dict`; InputError names the missing or wrong field."""
        wanted = ("width", "height", "K", "camera_from_world")
        missing = [k for k in wanted if not isinstance(fields, dict) or k not in fields]
        if missing:
            raise InputError(f"{source}: wanted the fields {', '.join(wanted)}, missing "
                             f"{', '.join(missing)}")  # fmt: skip
        try:
            return cls(
                np.asarray(fields["camera_from_world"], dtype=np.float64),
                np.asarray(fields["K"], dtype=np.float64),
                int(fields["width"]),
                int(fields["height"]),
            )
        except (TypeError, ValueError) as error:
            raise InputError(f"{source}: {error}") from error


def _shape(array: DoubleArray) -> str:
    """What a matrix is, for a message."""
    size = "x".join(str(n) for n in array.shape) or "a number"
    return size if np.isfinite(array).all() else f"{size} with NaN or infinity"


def load_camera(path: str | Path) -> Camera:
    """Read a camera file (JSON, see `Camera.to_dict`). Raises InputError."""
    path = Path(path)
    try:
        fields = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such camera file") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: wanted a JSON camera file, found {error}") from error
    return Camera.from_dict(fields, source=str(path))


def save_camera(camera: Camera, path: str | Path) -> None:
    """Write a camera file."""
    Path(path).write_text(json.dumps(camera.to_dict(), indent=1))
