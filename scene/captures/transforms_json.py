"""transforms.json of nerfstudio, instant-ngp and Blender (NeRF synthetic)."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.capture import Capture, Frame, FrameMask
from scene.captures.lens import Lens, LensModel
from scene.captures.options import WorldFrame
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
from scene.io.json_file import finite_number, read_json_object
from scene.io.points import PointCloud, load_points
from scene.normalisation import Normalisation
from scene.up import estimate_up

# OpenGL camera axes (x right, y up, z back) to ours.
_OPENCV_FROM_OPENGL = np.diag([1.0, -1.0, -1.0, 1.0])
_PINHOLES = {"PINHOLE", "SIMPLE_PINHOLE", "PERSPECTIVE"}
_OPENCV_MODELS = {"OPENCV", "SIMPLE_RADIAL", "RADIAL"}
_SPLIT_FILES = ("transforms_train.json", "transforms_test.json")
_VALIDATION_FILE = "transforms_val.json"


def is_transforms_folder(folder: Path) -> bool:
    """Whether `folder` holds transforms.json, or Blender's transforms_train.json."""
    return (folder / "transforms.json").is_file() or (folder / _SPLIT_FILES[0]).is_file()


def load_transforms(
    path: Path,
    matte: tuple[float, float, float] = (1.0, 1.0, 1.0),
    frame: WorldFrame = "original",
) -> Capture:
    """Read a transforms.json, or a folder of one; Blender's test split becomes held-out frames.

    Poses are converted from OpenGL axes; per-frame intrinsics override shared ones; missing
    pictures are skipped and counted. matte: sRGB behind transparent pixels. frame: "original"
    undoes the file's applied_transform and applied_scale; "file" keeps its numbers and says in
    `Capture.from_data` how they came about. Raises InputError.
    """
    if path.is_dir() and not (path / "transforms.json").is_file():
        files = [path / name for name in _SPLIT_FILES if (path / name).is_file()]
    else:
        files = [path / "transforms.json" if path.is_dir() else path]
    reader = _Reader(files[0].parent, matte)
    for file in files:
        reader.read(file, held_out=file.name == _SPLIT_FILES[1])
    if files[0].name == _SPLIT_FILES[0] and (files[0].parent / _VALIDATION_FILE).is_file():
        reader.notes.append(f"{_VALIDATION_FILE} is not used")
    return _in_frame(reader.capture(), reader.applied, frame)


def _in_frame(capture: Capture, applied: Normalisation | None, frame: WorldFrame) -> Capture:
    if applied is None:
        return capture
    in_file = replace(capture, from_data=applied)
    if frame == "file":
        note = "poses and points are kept in the file's own frame; its applied_transform was not"
        return replace(in_file, notes=(*capture.notes, f"{note} undone"))
    original = in_file.in_data_frame()
    note = "the file's applied_transform is undone: the world is the data's own"
    return replace(original, notes=(*capture.notes, note))


class _Reader:
    """Collects the frames and notes of one or two files."""

    def __init__(self, folder: Path, matte: tuple[float, float, float]) -> None:
        self.folder = folder
        self.matte = matte
        self.frames: list[Frame] = []
        self.missing: list[str] = []
        self.notes: list[str] = []
        self.cloud: PointCloud | None = None
        self.applied: Normalisation | None = None
        self.missing_masks = 0
        self.without_pose = 0

    def read(self, file: Path, held_out: bool) -> None:
        shared = read_json_object(file)
        entries = shared.get("frames")
        if not isinstance(entries, list) or not entries:
            raise InputError(f"{file}: frames: wanted a list of posed pictures, found none")
        kept_back = {
            os.path.normpath(name)
            for split in ("val_filenames", "test_filenames")
            for name in _listed(shared, split)
        }
        for i, entry in enumerate(entries):
            if not isinstance(entry, dict):
                raise InputError(f"{file}: frames[{i}]: wanted an object")
            fields = _Fields(f"{file}: frames[{i}]", entry, shared)
            name = fields.text("file_path")
            picture = find_picture(self.folder, name, file)
            if picture is None:
                self.missing.append(name)
                continue
            if entry.get("transform_matrix") is None:
                self.without_pose += 1
                continue
            kept = held_out or os.path.normpath(name) in kept_back
            frame = _frame(fields, picture, self.matte, kept)
            self.frames.append(replace(frame, mask=self._mask(fields, file)))
        self._read_extras(file, shared)

    def _read_extras(self, file: Path, shared: dict[str, Any]) -> None:
        if any(shared.get(name) is not None for name in ("applied_transform", "applied_scale")):
            self.applied = _applied(file, shared)
        if isinstance(name := shared.get("ply_file_path"), str) and self.cloud is None:
            cloud = inside(self.folder, name, file)
            if cloud.is_file():
                self.cloud = load_points(cloud)
                self.notes += self.cloud.notes
            else:
                self.notes.append(f"the point cloud {name} is missing")

    def _mask(self, fields: _Fields, file: Path) -> FrameMask | None:
        """A mask as nerfstudio has it: what is black is not to be used."""
        if fields.own.get("mask_path") is None:
            return None
        picture = find_picture(self.folder, fields.text("mask_path"), file)
        self.missing_masks += picture is None
        return FrameMask("use", picture) if picture else None

    def capture(self) -> Capture:
        listed = len(self.frames) + len(self.missing)
        if not listed:
            raise InputError(
                f"{self.folder}: none of the {self.without_pose} listed pictures has a "
                f"transform_matrix"
            )
        if not self.frames:
            raise InputError(
                f"{self.folder}: none of the {listed} listed pictures exists (the first is "
                f"{self.missing[0]!r:.120}); put them beside the transforms file"
            )
        notes = [*usage_notes(listed, self.missing), *photo_notes(self.frames)]
        if self.without_pose:
            notes.append(f"{self.without_pose} frames without a transform_matrix are left out")
        if self.missing_masks:
            notes.append(f"{self.missing_masks} listed masks are missing")
        cameras = [frame.camera for frame in self.frames]
        return Capture(
            frames=tuple(self.frames),
            points=self.cloud.points if self.cloud else None,
            point_colors=self.cloud.colors if self.cloud else None,
            up=estimate_up(cameras),
            up_source=f"estimated from {len(cameras)} cameras",
            format="transforms.json",
            notes=(*notes, *dict.fromkeys(self.notes)),
        )


@dataclass(frozen=True)
class _Fields:
    """One frame's fields over the file's shared ones; InputError names the frame and field."""

    source: str
    own: dict[str, Any]
    shared: dict[str, Any]

    def value(self, name: str) -> Any:
        """The frame's own value, else the shared one; null states nothing."""
        own = self.own.get(name)
        return self.shared.get(name) if own is None else own

    def number(self, name: str) -> float | None:
        value = self.value(name)
        if value is None:
            return None
        number = finite_number(value)
        if number is None:
            raise InputError(f"{self.source}: {name}: wanted a finite number, found {value!r:.60}")
        return number

    def text(self, name: str) -> str:
        value = self.own.get(name)
        if not isinstance(value, str) or not value:
            raise InputError(f"{self.source}: {name}: wanted a file name, found {value!r:.60}")
        return value

    def model(self) -> str:
        if self.value("is_fisheye"):
            return "OPENCV_FISHEYE"
        model = self.value("camera_model")
        return "OPENCV" if model is None else str(model)

    def number_or_zero(self, name: str) -> float:
        return self.number(name) or 0.0

    def focal(self, axis: str, pixels: float) -> float | None:
        """fl_x or fl_y, else by the field of view on that axis; the frame's own goes first."""
        lens, view = f"fl_{axis}", f"camera_angle_{axis}"
        own_view = self.own.get(lens) is None and self.own.get(view) is not None
        if not own_view and (focal := self.number(lens)) is not None:
            return focal
        angle = self.number(view)
        if angle is None:
            return None
        if not 0 < angle < np.pi:
            raise InputError(
                f"{self.source}: camera_angle_{axis}: wanted radians in (0, pi), found {angle:g}"
            )
        return 0.5 * pixels / float(np.tan(angle / 2))

    def pose(self) -> NDArray[np.float64]:
        """camera_from_world, OpenCV axes."""
        try:
            matrix = np.asarray(self.own.get("transform_matrix"), dtype=np.float64)
        except (TypeError, ValueError):
            matrix = np.empty(0)
        if matrix.shape == (3, 4):
            matrix = np.vstack([matrix, [0, 0, 0, 1]])
        if matrix.shape != (4, 4) or not np.isfinite(matrix).all():
            raise InputError("transform_matrix: wanted 4x4 finite numbers")
        rotation = nearest_rotation(matrix[:3, :3])
        if rotation is None:
            raise InputError(
                "transform_matrix: wanted a rotation and a translation, found scale, shear or a "
                "mirror"
            )
        world_from_camera = matrix.copy()
        world_from_camera[:3, :3] = rotation
        world_from_camera[3] = 0, 0, 0, 1
        return np.asarray(np.linalg.inv(world_from_camera @ _OPENCV_FROM_OPENGL), np.float64)


def _frame(
    fields: _Fields, picture: Path, matte: tuple[float, float, float], held_out: bool
) -> Frame:
    w, h = fields.number("w"), fields.number("h")
    found = picture_size(picture, (w, h) if w and h else None)
    stated = (w or found[0], h or found[1])
    if min(stated) <= 0:
        raise InputError(f"{fields.source}: w, h: wanted > 0, found {stated[0]:g}x{stated[1]:g}")
    fx, fy = fields.focal("x", stated[0]), fields.focal("y", stated[1])
    if fx is None and fy is None:
        raise InputError(f"{fields.source}: no focal length: wanted fl_x or camera_angle_x")
    # pixels are square where only one axis is stated
    fx, fy = fx or fy or 0.0, fy or fx or 0.0
    cx, cy = fields.number("cx"), fields.number("cy")
    scale = size_factors(picture, stated, found)
    K = np.array(
        [
            [fx * scale[0], 0, (stated[0] / 2 if cx is None else cx) * scale[0]],
            [0, fy * scale[1], (stated[1] / 2 if cy is None else cy) * scale[1]],
            [0, 0, 1],
        ]
    )
    lens = _lens(fields, K, found)
    try:
        camera = Camera(fields.pose(), lens.pinhole_K() if lens else K, *found)
    except InputError as error:
        raise InputError(f"{fields.source}: {error}") from error
    return Frame(fields.text("file_path"), camera, picture, held_out, lens=lens, matte=matte)


def _lens(fields: _Fields, K: NDArray[np.float64], size: tuple[int, int]) -> Lens | None:
    model = fields.model()
    k1, k2, k3, k4, p1, p2 = (
        fields.number_or_zero(n) for n in ("k1", "k2", "k3", "k4", "p1", "p2")
    )
    if model in _PINHOLES or model in _OPENCV_MODELS:
        if not any((k1, k2, k3, k4, p1, p2)):
            return None
        # nerfstudio heeds the coefficients of a "pinhole" too
        model = "OPENCV"
    kind: LensModel
    coefficients: tuple[float, ...]
    if model == "OPENCV_FISHEYE":
        kind, coefficients = "fisheye", (k1, k2, k3, k4)
    elif model == "OPENCV" and not k4:
        kind, coefficients = "opencv", (k1, k2, p1, p2, k3)
    else:
        raise InputError(
            f"{fields.source}: the camera model {model}{' with k4' if k4 else ''} is not a pinhole "
            f"and cannot be undistorted here; undistort the pictures first"
        )
    return Lens(kind, K[0, 0], K[1, 1], K[0, 2], K[1, 2], *size, coefficients)


def _applied(file: Path, shared: dict[str, Any]) -> Normalisation:
    """What ns-process-data did to the data: first its transform, then its scale."""
    stated, rows = shared.get("applied_scale"), shared.get("applied_transform")
    scale = 1.0 if stated is None else finite_number(stated)
    rows = np.eye(4)[:3].tolist() if rows is None else rows
    try:
        transform = np.asarray(rows, dtype=np.float64)
        if transform.shape == (4, 4):
            transform = transform[:3]
        return Normalisation(transform, float("nan") if scale is None else scale)
    except (TypeError, ValueError) as error:
        raise InputError(f"{file}: applied_transform, applied_scale: {error}") from error


def _listed(shared: dict[str, Any], name: str) -> list[str]:
    value = shared.get(name)
    return [str(item) for item in value] if isinstance(value, list) else []
