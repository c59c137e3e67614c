"""A CO3D category of our own: two cameras, pictures higher than wide, known pixels."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

WIDTH, HEIGHT = 60, 100
# Camera A is at the world's origin and looks along +z, PyTorch3D's axes: x LEFT, y up.
A = {"R": np.eye(3).tolist(), "T": [0.0, 0.0, 0.0]}
# Camera B looks along world +x from (-4, 0, 1) with y up; its x (left) axis is world -z, so that
# the columns of R (row vectors: X_camera = X_world R + T) are -z, +y, +x.
B = {"R": [[0, 0, 1], [0, 1, 0], [-1, 0, 0]], "T": [1.0, 0.0, 4.0]}


def frame(
    number: int, view: dict[str, Any], intrinsics: dict[str, Any], sequence: str = "s1"
) -> dict:
    name = f"stopsign/{sequence}/images/frame{number:06d}.jpg"
    return {
        "sequence_name": sequence,
        "frame_number": number,
        "frame_timestamp": 0.1 * number,
        "image": {"path": name, "size": [HEIGHT, WIDTH]},
        "mask": {"path": f"stopsign/{sequence}/masks/frame{number:06d}.png", "mass": 12.0},
        "viewpoint": {**view, **intrinsics},
        "meta": {"frame_type": "train_known"},
    }


def write_jgz(path: Path, value: Any) -> None:
    path.write_bytes(gzip.compress(json.dumps(value).encode()))


def write_category(root: Path, frames: list[dict], pictures: bool = True) -> Path:
    category = root / "stopsign"
    for entry in frames:
        for part in ("image", "mask"):
            path = root / entry[part]["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            if pictures:
                mask = np.zeros((HEIGHT, WIDTH), np.uint8)
                mask[50:, 30:] = 255
                picture = Image.fromarray(mask)
                picture.convert("L" if part == "mask" else "RGB").save(path)
    sequences = list(dict.fromkeys(entry["sequence_name"] for entry in frames))
    category.mkdir(exist_ok=True)
    write_jgz(category / "frame_annotations.jgz", frames)
    write_jgz(category / "sequence_annotations.jgz", [
        {"sequence_name": name, "category": "stopsign",
         "point_cloud": {"path": f"stopsign/{name}/pointcloud.ply", "n_points": 2}}
        for name in sequences
    ])  # fmt: skip
    for name in sequences:
        (category / name / "pointcloud.ply").write_text(
            "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\n"
            "property float z\nend_header\n1 2 4\n"
        )
    return category
