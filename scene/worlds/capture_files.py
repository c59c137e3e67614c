"""A street's photos as a capture on disk, with the truth beside it."""

from __future__ import annotations

import hashlib
import json
import logging
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from scene.camera import Camera
from scene.worlds.settings import StreetSettings
from scene.worlds.street import StreetWorld

_log = logging.getLogger(__name__)

_GL_FROM_CV = np.diag([1.0, -1.0, -1.0, 1.0])


@dataclass(frozen=True)
class CaptureSettings:
    """How a capture is taken.

    size: width, height of the photos. samples_per_axis: squared per pixel. points: for the start.
    """

    size: tuple[int, int] = (480, 360)
    samples_per_axis: int = 4
    points: int = 30_000
    processes: int = 2


def write_capture(
    folder: str | Path,
    street: StreetSettings | None = None,
    settings: CaptureSettings | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Photograph a street: transforms.json, images/, points.ply, truth.json, light.npy.

    Photos that are already there are kept, so an interrupted call is resumed by the next one.
    progress(done, total) is called after every photo. Returns the path of transforms.json.
    """
    folder, settings = Path(folder), settings or CaptureSettings()
    street = street or StreetSettings()
    (folder / "images").mkdir(parents=True, exist_ok=True)
    world = StreetWorld(street, _kept_light(folder, recipe_hash(street, settings)))
    _write_array(folder / "light.npy", world.world.baked)
    cameras = world.capture_cameras(settings.size)
    _write_points(folder / "points.ply", *world.surface_points(settings.points))
    missing = [
        (str(folder / image_name(name)), camera)
        for name, camera, _ in cameras
        if not (folder / image_name(name)).exists()
    ]
    done = len(cameras) - len(missing)
    for _ in _photos(folder, street, world, missing, settings):
        done += 1
        if progress is not None:
            progress(done, len(cameras))
    _write_json(folder / "truth.json", _truth(world, cameras))
    path = folder / "transforms.json"
    _write_json(path, _transforms(cameras))
    return path


def image_name(name: str) -> str:
    """Path of a photo inside the capture's folder."""
    return f"images/{name}.png"


def _photos(
    folder: Path,
    street: StreetSettings,
    world: StreetWorld,
    jobs: list[tuple[str, Camera]],
    settings: CaptureSettings,
) -> Any:
    """Take the photos, one by one or in worker processes; yields after each."""
    if settings.processes <= 1 or len(jobs) < 4:
        for path, camera in jobs:
            _take(world, path, camera, settings.samples_per_axis)
            yield path
        return
    # spawned, not forked: a fork would copy the threads' locks of whatever the caller runs
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        settings.processes,
        mp_context=context,
        initializer=_start_worker,
        initargs=(street, str(folder / "light.npy")),
    ) as pool:
        samples = [settings.samples_per_axis] * len(jobs)
        yield from pool.map(_take_in_worker, *zip(*jobs, strict=True), samples)


_worker_street: StreetWorld | None = None


def _start_worker(street: StreetSettings, light: str) -> None:
    global _worker_street
    _worker_street = StreetWorld(street, np.load(light))


def _take_in_worker(path: str, camera: Camera, samples: int) -> str:
    if _worker_street is None:
        raise RuntimeError("the worker process was not started by write_capture")
    _take(_worker_street, path, camera, samples)
    return path


def _take(street: StreetWorld, path: str, camera: Camera, samples: int) -> None:
    photo = np.round(street.photo(camera, samples) * 255).astype(np.uint8)
    partial = path + ".part"
    Image.fromarray(photo).save(partial, format="PNG")
    os.replace(partial, path)


def recipe_hash(street: StreetSettings, settings: CaptureSettings) -> str:
    """Hash of all that decides the photos: both settings and the sources of the worlds."""
    recipe = {"street": asdict(street), "size": settings.size, "samples": settings.samples_per_axis}
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _kept_light(folder: Path, recipe: str) -> NDArray[np.float32] | None:
    """Light kept by an interrupted call of the same recipe; otherwise old photos are removed."""
    mark, light = folder / "recipe.txt", folder / "light.npy"
    if mark.exists() and mark.read_text() == recipe and light.exists():
        kept: NDArray[np.float32] = np.load(light)
        return kept
    old = list((folder / "images").glob("*.png"))
    if old:
        _log.info("%d photos of another recipe are taken again", len(old))
    for photo in (*old, light):
        photo.unlink(missing_ok=True)
    mark.write_text(recipe)
    return None


def _transforms(cameras: list[tuple[str, Camera, bool]]) -> dict[str, Any]:
    """The nerfstudio file (OpenGL axes, camera to world)."""
    first = cameras[0][1]
    frames = [
        {
            "file_path": image_name(name),
            "transform_matrix": (camera.world_from_camera @ _GL_FROM_CV).tolist(),
            "held_out": held_out,
        }
        for name, camera, held_out in cameras
    ]
    return {
        "camera_model": "OPENCV",
        "w": first.width, "h": first.height,
        "fl_x": first.K[0, 0], "fl_y": first.K[1, 1], "cx": first.K[0, 2], "cy": first.K[1, 2],
        "k1": 0.0, "k2": 0.0, "p1": 0.0, "p2": 0.0,
        "ply_file_path": "points.ply",
        "up": [0.0, 0.0, 1.0],
        "metres_per_unit": 1.0,
        "train_filenames": [image_name(name) for name, _, held_out in cameras if not held_out],
        "test_filenames": [image_name(name) for name, _, held_out in cameras if held_out],
        "frames": frames,
    }  # fmt: skip


def _truth(street: StreetWorld, cameras: list[tuple[str, Camera, bool]]) -> dict[str, Any]:
    """What only the maker of the world can know."""
    box, sign = street.target_box(), street.sign
    return {
        "sign": {
            "center": sign.center.tolist(),
            "right": sign.right.tolist(),
            "down": sign.down.tolist(),
            "normal": sign.normal.tolist(),
            "width": sign.width,
            "outline": street.outline().tolist(),
        },
        "target_box": {
            "center": box.center.tolist(),
            "axes": box.axes.tolist(),
            "half_sizes": box.half_sizes.tolist(),
            "label": box.label,
        },
        "exposure": asdict(street.exposure),
        "haze_color_srgb": street.background_color(),
        "cameras": {name: camera.to_dict() for name, camera, _ in cameras},
    }


def _write_points(path: Path, points: NDArray[np.float32], colors: NDArray[np.float32]) -> None:
    """Binary point cloud PLY: x y z red green blue."""
    layout = [
        ("x", "<f4"),
        ("y", "<f4"),
        ("z", "<f4"),
        ("red", "u1"),
        ("green", "u1"),
        ("blue", "u1"),
    ]
    rows = np.empty(len(points), layout)
    for i, axis in enumerate("xyz"):
        rows[axis] = points[:, i]
    for i, channel in enumerate(("red", "green", "blue")):
        rows[channel] = np.round(colors[:, i] * 255)
    kinds = {"<f4": "float", "u1": "uchar"}
    properties = "".join(f"property {kinds[kind]} {name}\n" for name, kind in layout)
    header = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(points)}\n{properties}"
    _write_bytes(path, f"{header}end_header\n".encode() + rows.tobytes())


def _write_array(path: Path, array: NDArray[np.float32]) -> None:
    partial = path.with_suffix(".part.npy")
    np.save(partial, array)
    os.replace(partial, path)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    _write_bytes(path, (json.dumps(content, indent=1) + "\n").encode())


def _write_bytes(path: Path, content: bytes) -> None:
    partial = path.with_name(path.name + ".part")
    partial.write_bytes(content)
    os.replace(partial, path)
