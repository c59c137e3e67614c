"""CO3D, versions 1 and 2: one sequence of a category, its poses out of PyTorch3D's axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.capture import Capture, Frame, FrameMask
from scene.captures.json_list import read_json_list
from scene.captures.pictures import (
    find_picture,
    inside,
    photo_notes,
    picture_size,
    size_factors,
    usage_notes,
)
from scene.captures.rotation import nearest_rotation
from scene.errors import InputError
from scene.io.json_file import finite_number
from scene.io.points import PointCloud, load_points
from scene.up import estimate_up

FRAMES_FILE = "frame_annotations.jgz"
SEQUENCES_FILE = "sequence_annotations.jgz"
_MAX_FRAMES = 20_000
# CO3D's categories are COCO's classes without the spaces, some of them shortened, and toys.
_LABELS = {"stopsign": "stop sign", "parkingmeter": "parking meter", "hotdog": "hot dog",
           "baseballbat": "baseball bat", "baseballglove": "baseball glove",
           "cellphone": "cell phone", "teddybear": "teddy bear", "hairdryer": "hair drier",
           "wineglass": "wine glass", "hydrant": "fire hydrant", "plant": "potted plant",
           "ball": "sports ball", "toybus": "toy bus", "toyplane": "toy plane",
           "toytrain": "toy train", "toytruck": "toy truck"}  # fmt: skip
# PyTorch3D's camera axes (x left, y up) to ours.
_OPENCV_FROM_PYTORCH3D = np.diag([-1.0, -1.0, 1.0])


def co3d_category(path: Path) -> Path | None:
    """The category folder that `path` is, lies in (a sequence's folder) or is a file of."""
    for folder in (path, path.parent):
        if (folder / FRAMES_FILE).is_file():
            return folder
    return None


def load_co3d(path: Path, sequence: str | None = None) -> Capture:
    """Read one sequence: photos, cameras, object masks, point cloud.

    path: the category's folder (or a file in it), or the folder of a sequence. sequence: its name,
    needed where the category holds several and `path` is not one's folder. The unit of length is
    unknown; up is estimated from the cameras. Raises InputError.
    """
    category = co3d_category(path)
    if category is None:
        raise InputError(f"{path}: no CO3D category found: wanted {FRAMES_FILE}")
    if path.is_dir() and path != category and sequence is None:
        sequence = path.name
    name, entries = _entries(category, sequence)
    reader = _Reader(category, name)
    for entry in entries:
        reader.read(entry)
    return reader.capture()


def _entries(category: Path, sequence: str | None) -> tuple[str, list[dict[str, Any]]]:
    """The frames of one sequence."""
    file = category / FRAMES_FILE
    names: dict[str, None] = {}
    chosen: list[dict[str, Any]] = []
    for entry in read_json_list(file):
        name = entry.get("sequence_name")
        if not isinstance(name, str) or not name:
            raise InputError(f"{file}: sequence_name: wanted text, found {name!r:.60}")
        if len(names) < _MAX_FRAMES:
            names[name] = None
        if name == (sequence or next(iter(names))):
            chosen.append(entry)
            if len(chosen) > _MAX_FRAMES:
                raise InputError(f"{file}: sequence {name} has more than {_MAX_FRAMES} frames")
    known = ", ".join(list(names)[:3]) + (", ..." if len(names) > 3 else "")
    if sequence is None and len(names) > 1:
        raise InputError(
            f"{category}: holds {len(names)} sequences; open the folder of one, or name it "
            f"({known})"
        )
    if not chosen:
        raise InputError(f"{file}: has no sequence {sequence!r:.60}; it has {known or 'none'}")
    return sequence or next(iter(names)), chosen


class _Reader:
    """Collects the frames of one sequence."""

    def __init__(self, category: Path, sequence: str) -> None:
        self.category = category
        self.sequence = sequence
        self.source = category / FRAMES_FILE
        self.label = _LABELS.get(category.name, category.name)
        self.frames: list[Frame] = []
        self.missing: list[str] = []
        self.without_mask = 0
        self.without_pose = 0

    def read(self, entry: dict[str, Any]) -> None:
        number = entry.get("frame_number")
        if entry.get("viewpoint") is None:
            self.without_pose += 1
            return
        fields = _Fields(f"{self.source}: {self.sequence} frame {number!r:.20}", entry)
        name = fields.text("image", "path")
        found = self._find(name)
        if found is None:
            self.missing.append(name)
            return
        mask = fields.optional_text("mask", "path")
        mask_file = self._find(mask) if mask else None
        self.without_mask += mask_file is None
        self.frames.append(
            Frame(
                Path(name).name,
                fields.camera(found),
                found,
                mask=FrameMask("object", mask_file, label=self.label) if mask_file else None,
            )
        )

    def _find(self, name: str) -> Path | None:
        """The file of a path in the annotations, which begins with the category's name."""
        parts = name.split("/", 1)
        if len(parts) != 2 or name.startswith("/"):
            raise InputError(f"{self.source}: {name!r:.120} leads out of the category; not opened")
        return find_picture(self.category, parts[1], self.source)

    def capture(self) -> Capture:
        listed = len(self.frames) + len(self.missing)
        if not listed:
            raise InputError(
                f"{self.source}: none of the {self.without_pose} frames of sequence "
                f"{self.sequence} has a viewpoint"
            )
        if not self.frames:
            raise InputError(
                f"{self.category}: none of the {listed} pictures of sequence {self.sequence} "
                f"exists (the first is {self.missing[0]!r:.120})"
            )
        cloud, note = self._points()
        notes = [*usage_notes(listed, self.missing), *photo_notes(self.frames), *note]
        if self.without_pose:
            notes.append(f"{self.without_pose} frames without a viewpoint are left out")
        if self.without_mask:
            notes.append(f"{self.without_mask} of {len(self.frames)} frames have no mask")
        cameras = [frame.camera for frame in self.frames]
        return Capture(
            frames=tuple(self.frames),
            points=cloud.points if cloud else None,
            point_colors=cloud.colors if cloud else None,
            up=estimate_up(cameras),
            up_source=f"estimated from {len(cameras)} cameras",
            format="CO3D",
            notes=(f"CO3D sequence {self.sequence} of {self.category.name}", *notes),
        )

    def _points(self) -> tuple[PointCloud | None, tuple[str, ...]]:
        name = _point_cloud_name(self.category, self.sequence)
        if name is None:
            return None, ()
        parts = name.split("/", 1)
        path = inside(self.category, parts[-1], self.category / SEQUENCES_FILE)
        if len(parts) != 2 or not path.is_file():
            return None, (f"the point cloud {name:.120} is missing",)
        cloud = load_points(path)
        return cloud, cloud.notes


def _point_cloud_name(category: Path, sequence: str) -> str | None:
    """Where the sequence's annotations say its point cloud is; None for none."""
    file = category / SEQUENCES_FILE
    if not file.is_file():
        return None
    for entry in read_json_list(file):
        if entry.get("sequence_name") == sequence:
            cloud = entry.get("point_cloud")
            name = cloud.get("path") if isinstance(cloud, dict) else None
            return name if isinstance(name, str) and name else None
    return None


@dataclass(frozen=True)
class _Fields:
    """One frame's annotation; InputError names the frame and the field."""

    source: str
    entry: dict[str, Any]

    def _part(self, part: str) -> dict[str, Any]:
        value = self.entry.get(part)
        return value if isinstance(value, dict) else {}

    def optional_text(self, part: str, name: str) -> str | None:
        value = self._part(part).get(name)
        return value if isinstance(value, str) and value else None

    def text(self, part: str, name: str) -> str:
        value = self.optional_text(part, name)
        if value is None:
            raise InputError(f"{self.source}: {part}.{name}: wanted a file name, found none")
        return value

    def numbers(self, part: str, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
        value = self._part(part).get(name)
        flat = [cell for row in value for cell in (row if isinstance(row, list) else [row])] \
            if isinstance(value, list) else []  # fmt: skip
        found = [finite_number(cell) for cell in flat]
        if len(found) != math.prod(shape) or None in found:
            size = "x".join(str(n) for n in shape)
            raise InputError(f"{self.source}: {part}.{name}: wanted {size} finite numbers")
        return np.array(found, dtype=np.float64).reshape(shape)

    def camera(self, picture: Path) -> Camera:
        """The camera of a picture as it is on disk."""
        height, width = self.numbers("image", "size", (2,)).tolist()
        if min(height, width) < 1:
            raise InputError(f"{self.source}: image.size: wanted [height, width], found "
                             f"[{height:g}, {width:g}]")  # fmt: skip
        found = picture_size(picture, (width, height))
        x, y = size_factors(picture, (width, height), found)
        K = self._intrinsics(width, height)
        K[0] *= x
        K[1] *= y
        pose = np.eye(4)
        # row vectors: X_camera = X_world R + T
        pose[:3, :3] = _OPENCV_FROM_PYTORCH3D @ self._rotation().T
        pose[:3, 3] = _OPENCV_FROM_PYTORCH3D @ self.numbers("viewpoint", "T", (3,))
        try:
            return Camera(pose, K, *found)
        except InputError as error:
            raise InputError(f"{self.source}: {error}") from error

    def _rotation(self) -> NDArray[np.float64]:
        """(3, 3) R, made exact: files are rounded to single precision."""
        rotation = nearest_rotation(self.numbers("viewpoint", "R", (3, 3)))
        if rotation is None:
            raise InputError(f"{self.source}: viewpoint.R: wanted a rotation, found another matrix")
        return rotation

    def _intrinsics(self, width: float, height: float) -> NDArray[np.float64]:
        """K in pixels of the annotated size, from either of PyTorch3D's normalised conventions."""
        kind = str(self._part("viewpoint").get("intrinsics_format", "ndc_norm_image_bounds"))
        half = np.array([width, height]) / 2
        if kind.lower() == "ndc_norm_image_bounds":
            unit = half
        elif kind.lower() == "ndc_isotropic":
            unit = np.full(2, half.min())
        else:
            raise InputError(
                f"{self.source}: viewpoint.intrinsics_format: wanted ndc_norm_image_bounds or "
                f"ndc_isotropic, found {kind!r:.60}"
            )
        focal = self.numbers("viewpoint", "focal_length", (2,)) * unit
        center = half - self.numbers("viewpoint", "principal_point", (2,)) * unit
        return np.array([[focal[0], 0, center[0]], [0, focal[1], center[1]], [0, 0, 1]])
