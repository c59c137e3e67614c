"""Small files in every format, written by the tests themselves (not by the readers' own code)."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path

import numpy as np

from scene.gaussians import Gaussians


def some_gaussians(n: int = 300, degree: int = 1, seed: int = 0) -> Gaussians:
    rng = np.random.default_rng(seed)
    quats = rng.normal(size=(n, 4))
    return Gaussians(
        rng.normal(0, 2, (n, 3)), quats / np.linalg.norm(quats, axis=1, keepdims=True),
        np.exp(rng.uniform(-5, 0, (n, 3))), rng.uniform(0.05, 0.95, n),
        rng.normal(0, 0.3, (n, (degree + 1) ** 2, 3)),
    )  # fmt: skip


def raw_parameters(g: Gaussians) -> dict[str, np.ndarray]:
    """As trainers keep them: log scales, logits, quaternions of any length."""
    return {
        "means": g.means, "quats": g.quats * 3, "scales": np.log(g.scales),
        "opacities": np.log(g.opacities / (1 - g.opacities)), "dc": g.sh[:, 0], "rest": g.sh[:, 1:],
    }  # fmt: skip


def webp(pixels: np.ndarray) -> bytes:
    """(H, W, 4) uint8, lossless, colors under alpha 0 kept."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "WEBP", lossless=True, exact=True, quality=50)
    return file.getvalue()


def texture(columns: np.ndarray, width: int = 20) -> np.ndarray:
    """(N, C) bytes to (H, width, 4) pixels; missing channels are 255."""
    n = len(columns)
    pixels = np.full((-(-n // width) * width, 4), 255, dtype=np.uint8)
    pixels[:n, : columns.shape[1]] = columns
    return pixels.reshape(-1, width, 4)


def sog_parts(n: int = 300, degree: int = 1, version: int = 2) -> tuple[dict, dict[str, bytes]]:
    """meta.json's fields and the pictures; every byte is random."""
    rng = np.random.default_rng(n + degree)
    size = (0, 3, 8, 15)[degree]
    files = {
        "means_l.webp": webp(texture(rng.integers(0, 256, (n, 3)))),
        "means_u.webp": webp(texture(rng.integers(100, 156, (n, 3)))),
        "quats.webp": webp(texture(np.column_stack([rng.integers(70, 186, (n, 3)), rng.integers(252, 256, n)]))),
        "scales.webp": webp(texture(rng.integers(0, 256, (n, 3)))),
        "sh0.webp": webp(texture(rng.integers(0, 256, (n, 4)))),
    }  # fmt: skip
    code = {"codebook": np.linspace(-6, -1, 256).tolist()}
    ranges = {"mins": [-6, -5, -4], "maxs": [-1, 0, 1]}
    means = {"mins": [-1, -2, -3], "maxs": [1, 2, 3.5], "files": ["means_l.webp", "means_u.webp"]}
    meta = {"means": means, "quats": {"files": ["quats.webp"]}}
    if version == 2:
        meta |= {
            "version": 2,
            "count": n,
            "scales": code,
            "sh0": {"codebook": np.linspace(-2, 2, 256).tolist()},
        }
    else:
        means["shape"] = [n, 3]
        meta |= {"scales": ranges, "sh0": {"mins": [-2, -1, 0, -4], "maxs": [1, 2, 3, 6]}}
    meta["scales"] = {**meta["scales"], "files": ["scales.webp"]}
    meta["sh0"] = {**meta["sh0"], "files": ["sh0.webp"]}
    if size:
        entries = 100
        palette = rng.integers(0, 256, (2, 64, size, 4)).astype(np.uint8)
        palette[..., 3] = 255
        labels = rng.integers(0, entries, n)
        files["shN_centroids.webp"] = webp(palette.reshape(2, 64 * size, 4))
        files["shN_labels.webp"] = webp(texture(np.column_stack([labels & 255, labels >> 8])))
        names = {"files": ["shN_centroids.webp", "shN_labels.webp"]}
        values = {"count": entries, "bands": degree, "codebook": np.linspace(-1, 1, 256).tolist()}
        meta["shN"] = names | (values if version == 2 else {"mins": -1, "maxs": 1})
    return meta, files


def write_sog(folder: Path, n: int = 300, degree: int = 1, version: int = 2) -> Path:
    meta, files = sog_parts(n, degree, version)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder / "meta.json"


def write_bundle(path: Path, meta: object, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {"meta.json": json.dumps(meta).encode(), **files}.items():
            archive.writestr(name, content)
    return path


def write_ksplat(path: Path, n: int = 60, level: int = 0, degree: int = 1, full: int = 2) -> Path:
    """One section; buckets of 16: `full` full ones, then two that share the rest."""
    rng = np.random.default_rng(level)
    rest = (0, 9, 24)[degree]
    numbers, positions, harmonics = ("<f4", "<f4", "<f4") if level == 0 else ("<f2", "<u2", "<f2")
    harmonics = "u1" if level == 2 else harmonics
    rows = np.zeros(
        n,
        dtype=[
            ("c", positions, 3),
            ("s", numbers, 3),
            ("r", numbers, 4),
            ("rgba", "u1", 4),
            ("h", harmonics, rest),
        ],
    )
    rows["c"] = rng.integers(0, 65535, (n, 3)) if level else rng.normal(size=(n, 3))
    rows["s"] = rng.uniform(0.01, 0.3, (n, 3))
    rows["r"] = rng.normal(size=(n, 4))
    rows["rgba"] = rng.integers(1, 256, (n, 4))
    rows["h"] = rng.integers(0, 256, (n, rest)) if level == 2 else rng.normal(0, 0.3, (n, rest))
    left = n - 16 * full
    lengths = [left // 2, left - left // 2] if level else []
    buckets = full + 2 if level else 0
    header = struct.pack("<BBxxIIIIHxx3fff", 0, 1, 1, 1, n, n, level, 0, 0, 0, -1.5, 1.5)
    section = struct.pack(
        "<IIIIfHxxIIIIH", n, n, 16, buckets, 5.0 if level else 0, 12 if level else 0,
        32767 if level else 0, 0, full if level else 0, len(lengths), degree,
    )  # fmt: skip
    centers = np.arange(3 * buckets, dtype="<f4")
    path.write_bytes(
        header.ljust(4096, b"\0") + section.ljust(1024, b"\0")
        + struct.pack(f"<{len(lengths)}I", *lengths) + centers.tobytes() + rows.tobytes()
    )  # fmt: skip
    return path
