"""COLMAP reconstructions: posed pictures, cameras of all its models, points."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.capture import Capture, Frame, FrameMask
from scene.captures.colmap_model import ColmapCamera, ColmapImage, ColmapModel
from scene.captures.colmap_read import read_binary_model, read_text_model
from scene.captures.lens import Lens, LensModel
from scene.captures.pictures import (
    find_picture,
    inside,
    photo_notes,
    picture_size,
    size_factors,
    usage_notes,
)
from scene.errors import InputError
from scene.gaussians import quaternions_to_matrices
from scene.io.points import dropped_points_notes
from scene.up import estimate_up

_MODEL_FOLDERS = ("", "sparse/0", "sparse", "reconstruction", "colmap/sparse/0", "dense/sparse")
_MASK_FOLDERS = ("masks", "mask")
_PICTURE_FOLDERS = ("images", "input", "")
_SHRUNK_FOLDERS = ("images_2", "images_4", "images_8")
_MOST_TRIED = 50

# How each COLMAP model's parameters map to ours: indices of fx, fy, cx, cy, the lens, and the
# indices of its coefficients in OpenCV's order (-1: zero).
_MODELS: dict[str, tuple[tuple[int, int, int, int], LensModel | None, tuple[int, ...]]] = {
    "SIMPLE_PINHOLE": ((0, 0, 1, 2), None, ()),
    "PINHOLE": ((0, 1, 2, 3), None, ()),
    "SIMPLE_RADIAL": ((0, 0, 1, 2), "opencv", (3, -1, -1, -1)),
    "RADIAL": ((0, 0, 1, 2), "opencv", (3, 4, -1, -1)),
    "OPENCV": ((0, 1, 2, 3), "opencv", (4, 5, 6, 7)),
    "FULL_OPENCV": ((0, 1, 2, 3), "opencv", (4, 5, 6, 7, 8, 9, 10, 11)),
    "SIMPLE_RADIAL_FISHEYE": ((0, 0, 1, 2), "fisheye", (3, -1, -1, -1)),
    "RADIAL_FISHEYE": ((0, 0, 1, 2), "fisheye", (3, 4, -1, -1)),
    "OPENCV_FISHEYE": ((0, 1, 2, 3), "fisheye", (4, 5, 6, 7)),
    "SIMPLE_FISHEYE": ((0, 0, 1, 2), "fisheye", (-1, -1, -1, -1)),
    "FISHEYE": ((0, 1, 2, 3), "fisheye", (-1, -1, -1, -1)),
    "FOV": ((0, 1, 2, 3), "fov", (4,)),
    "THIN_PRISM_FISHEYE": ((0, 1, 2, 3), "thin_prism_fisheye", tuple(range(4, 12))),
    "RAD_TAN_THIN_PRISM_FISHEYE": ((0, 1, 2, 3), "rad_tan_thin_prism_fisheye", tuple(range(4, 16))),
    "SIMPLE_DIVISION": ((0, 0, 1, 2), "division", (3,)),
    "DIVISION": ((0, 1, 2, 3), "division", (4,)),
    "EUCM": ((0, 1, 2, 3), "eucm", (4, 5)),
}
_PINHOLE_AT_ZERO = ("opencv", "fov", "division")


def find_colmap_model(folder: Path) -> Path | None:
    """The folder in or under `folder` that holds a COLMAP model, or None."""
    for name in _MODEL_FOLDERS:
        candidate = folder / name
        for suffix in (".bin", ".txt"):
            if all((candidate / f"{part}{suffix}").is_file() for part in ("cameras", "images")):
                return candidate
    return None


def _other_models(folder: Path, used: Path) -> list[str]:
    """COLMAP numbers the parts of a capture that it could not join; the first one was chosen."""
    if used == folder or not used.name.isdecimal():
        return []
    others = [p for p in sorted(used.parent.iterdir()) if p != used and find_colmap_model(p) == p]
    if not others:
        return []
    names = ", ".join(other.name for other in others[:3]) + (", ..." if len(others) > 3 else "")
    return [
        f"COLMAP left {len(others) + 1} models that do not hang together, of which {used.name} is "
        f"used; open another by its folder in {used.parent.name} ({names})"
    ]


def load_colmap(folder: Path) -> Capture:
    """Read a COLMAP model, text or binary, and the pictures beside it.

    Pinhole cameras are used as they are, distorted ones by undistorting the pictures; models that
    no flat picture can stand for are refused by name. Masks are those of a folder masks beside
    the pictures' folder. Raises InputError.
    """
    model_folder = find_colmap_model(folder)
    if model_folder is None:
        raise InputError(f"{folder}: no COLMAP model found (cameras and images, .txt or .bin)")
    binary = (model_folder / "cameras.bin").is_file()
    model = read_binary_model(model_folder) if binary else read_text_model(model_folder)
    if not model.images:
        raise InputError(f"{model_folder}: the COLMAP model has no images")
    pictures = _picture_folder(folder, model_folder, model)
    masks = _mask_folder(folder, pictures)
    frames, missing = [], []
    for image in sorted(model.images, key=lambda image: image.name):
        picture = find_picture(pictures, image.name, model_folder)
        if picture is None:
            missing.append(image.name)
            continue
        camera = model.cameras.get(image.camera_id)
        if camera is None:
            raise InputError(
                f"{model_folder}: image {image.name} names camera {image.camera_id}, which the "
                f"model does not have"
            )
        frame = _frame(image, camera, picture)
        frames.append(replace(frame, mask=_mask(masks, image.name, model_folder)))
    if not frames:
        raise InputError(
            f"{model_folder}: none of the {len(missing)} pictures exists in {pictures} (the first "
            f"is {missing[0]!r:.120})"
        )
    return Capture(
        frames=tuple(frames),
        points=model.points if len(model.points) else None,
        point_colors=model.colors if len(model.points) else None,
        up=estimate_up([frame.camera for frame in frames]),
        up_source=f"estimated from {len(frames)} cameras",
        format=f"COLMAP {'binary' if binary else 'text'}",
        notes=(
            *usage_notes(len(model.images), missing),
            *_other_models(folder, model_folder),
            *([f"pictures are from {pictures.name}"] if pictures.name in _SHRUNK_FOLDERS else []),
            *_notes(frames, masks),
            *dropped_points_notes(model.dropped_points, len(model.points)),
        ),
    )


def _notes(frames: list[Frame], masks: Path | None) -> list[str]:
    notes = photo_notes(frames)
    masked = sum(frame.mask is not None for frame in frames)
    if masks is not None and masked < len(frames):
        folder = f"the folder {masks.resolve().name} has none for them"
        notes.append(f"{len(frames) - masked} of {len(frames)} frames have no mask: {folder}")
    return notes


def image_pose(image: ColmapImage) -> NDArray[np.float64]:
    """(4, 4) camera_from_world of a COLMAP image (the same axes as ours). Raises InputError."""
    quat = np.asarray(image.quat, dtype=np.float64)
    norm = np.linalg.norm(quat)
    if not (np.isfinite(norm) and norm > 1e-9 and np.isfinite(image.translation).all()):
        raise InputError("wanted a unit quaternion and a translation")
    pose = np.eye(4)
    pose[:3, :3] = quaternions_to_matrices(quat / norm)
    pose[:3, 3] = image.translation
    return pose


def _picture_folder(folder: Path, model_folder: Path, model: ColmapModel) -> Path:
    """The first likely folder that holds one of some pictures; shrunk ones, where only they do."""
    if folder == model_folder:
        roots = [folder / up for up in ("", "..", "../..", "../../..")]
    else:
        # the parents of what was opened may hold another capture's pictures of the same names
        roots = [folder, *reversed([p for p in model_folder.parents if folder in p.parents])]
        roots.append(model_folder)
    candidates = [root / name for names in (_PICTURE_FOLDERS, _SHRUNK_FOLDERS)
                  for root in roots for name in names]  # fmt: skip
    some = model.images[:: max(1, len(model.images) // _MOST_TRIED)]
    for candidate in candidates:
        if any(find_picture(candidate, image.name, model_folder) for image in some):
            return candidate
    return folder / "images"


def _mask_folder(folder: Path, pictures: Path) -> Path | None:
    """The masks' folder in the capture's, else beside or in the pictures'."""
    candidates = [root / name for root in dict.fromkeys([folder, pictures / "..", pictures])
                  for name in _MASK_FOLDERS]  # fmt: skip
    return next((candidate for candidate in candidates if candidate.is_dir()), None)


def _mask(masks: Path | None, name: str, source: Path) -> FrameMask | None:
    """COLMAP's mask of a picture is called as the picture plus .png; some tools swap the suffix."""
    if masks is None:
        return None
    swapped = str(Path(name).with_suffix(".png"))
    for candidate in (f"{name}.png", swapped, name):
        path = inside(masks, candidate, source)
        if path.is_file():
            return FrameMask("use", path)
    return None


def _frame(image: ColmapImage, camera: ColmapCamera, picture: Path) -> Frame:
    if camera.model not in _MODELS:
        raise InputError(
            f"COLMAP camera {camera.id}: its model {camera.model} cannot be undistorted here; run "
            f"COLMAP's image_undistorter first"
        )
    places, kind, coefficient_places = _MODELS[camera.model]
    fx, fy, cx, cy = (camera.params[i] for i in places)
    coefficients = tuple(camera.params[i] if i >= 0 else 0.0 for i in coefficient_places)
    stated = (camera.width, camera.height)
    found = picture_size(picture, stated)
    x, y = size_factors(picture, stated, found)
    K = np.array([[fx * x, 0, cx * x], [0, fy * y, cy * y], [0, 0, 1]])
    lens = None
    # a fisheye without coefficients is still not a pinhole
    if kind is not None and (kind not in _PINHOLE_AT_ZERO or any(coefficients)):
        lens = Lens(kind, fx * x, fy * y, cx * x, cy * y, *found, coefficients)
    try:
        pinhole = Camera(image_pose(image), lens.pinhole_K() if lens else K, *found)
    except InputError as error:
        raise InputError(f"COLMAP image {image.name}: {error}") from error
    return Frame(image.name, pinhole, picture, lens=lens)
