"""Loading: megabytes and Gaussians a second for every format, beside the fastest other reader.

One scene of 200,000 Gaussians, SH degree 3, is written in every format; files come from the page
cache, so this measures the readers and not the disk. Times are the least CPU time of five runs on
one thread. gsply gives raw values (log scales, logits): "+ activation" adds the exponentials that
make its result the same as ours. Install the other readers with the extra `bench`.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from scene.gaussians import Gaussians
from scene.io.load import load_gaussians, save_gaussians

Row = tuple[str, str, str]

BESIDE = "other readers, in times of ours"
COUNT = 200_000
_RUNS = 5


def run() -> list[Row]:
    """All rows: what, ours, the other reader."""
    scene = _scene()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        others = _other_readers()
        for end, write in _writers().items():
            path = folder / f"a{end}"
            write(scene, path)
            size = (
                sum(f.stat().st_size for f in path.parent.glob("*"))
                if path.suffix == ".json"
                else path.stat().st_size
            )
            ours = _least(lambda p=path: load_gaussians(p))
            rows.append((
                f"{end}, {size / 1e6:.0f} MB, SH degree {load_gaussians(path).gaussians.sh_degree}",
                f"{size / 1e6 / ours:.0f} MB/s, {COUNT / ours / 1e6:.2f} M Gaussians/s",
                _beside(path, ours, others.get(end, {})),
            ))  # fmt: skip
    return rows


def _scene() -> Gaussians:
    rng = np.random.default_rng(0)
    quats = rng.normal(size=(COUNT, 4))
    return Gaussians(
        rng.normal(0, 3, (COUNT, 3)), quats / np.linalg.norm(quats, axis=1, keepdims=True),
        np.exp(rng.uniform(-6, -2, (COUNT, 3))), rng.uniform(0.05, 0.95, COUNT),
        rng.normal(0, 0.2, (COUNT, 16, 3)),
    )  # fmt: skip


def _writers() -> dict[str, Callable[[Gaussians, Path], None]]:
    ends = (".ply", ".compressed.ply", ".spz", ".safetensors")
    return dict.fromkeys(ends, save_gaussians) | {
        ".splat": _write_splat,
        ".ksplat": _write_ksplat,
        ".pt": _write_checkpoint,
        ".sog/meta.json": _write_sog,
    }


def _write_splat(scene: Gaussians, path: Path) -> None:
    rows = np.zeros(len(scene), [("m", "<f4", 3), ("s", "<f4", 3), ("c", "u1", 4), ("r", "u1", 4)])
    rows["m"], rows["s"] = scene.means, scene.scales
    rows["c"], rows["r"] = 200, np.clip(scene.quats * 128 + 128, 0, 255)
    path.write_bytes(rows.tobytes())


def _write_ksplat(scene: Gaussians, path: Path) -> None:
    from tests.scene.splat_files import write_ksplat

    write_ksplat(path, len(scene), level=1, degree=2, full=len(scene) // 16 - 1)


def _write_checkpoint(scene: Gaussians, path: Path) -> None:
    import torch

    logits = np.log(scene.opacities / (1 - scene.opacities))
    table = {"means": scene.means, "quats": scene.quats, "scales": np.log(scene.scales),
             "opacities": logits, "sh0": scene.sh[:, :1], "shN": scene.sh[:, 1:]}  # fmt: skip
    torch.save({"splats": {k: torch.tensor(np.array(v)) for k, v in table.items()}}, path)


def _write_sog(scene: Gaussians, path: Path) -> None:
    from tests.scene.splat_files import sog_parts

    path.parent.mkdir()
    meta, files = sog_parts(len(scene), 3)
    for name, content in files.items():
        (path.parent / name).write_bytes(content)
    path.write_text(json.dumps(meta))


def _other_readers() -> dict[str, dict[str, Callable[[Path], Any]]]:
    """Readers by format and name; those that are not installed are left out."""
    found: dict[str, dict[str, Callable[[Path], Any]]] = {}
    try:
        import gsply
    except ImportError:
        pass
    else:

        def activated(path: Path) -> object:
            data = gsply.plyread(str(path))
            return np.exp(data.scales), 1 / (1 + np.exp(-data.opacities)), data

        plain = {"gsply": lambda p: gsply.plyread(str(p)), "gsply + activation": activated}
        found |= {".ply": dict(plain), ".compressed.ply": dict(plain)}
        found[".spz"] = {"gsply": lambda p: gsply.read_spz(str(p))}
    try:
        from plyfile import PlyData
    except ImportError:
        return found

    def columns(path: Path) -> object:
        rows = PlyData.read(str(path))["vertex"]
        return np.stack([rows[p.name] for p in rows.properties], axis=1)

    found.setdefault(".ply", {})["plyfile, columns"] = columns
    return found


def _beside(path: Path, ours: float, others: dict[str, Callable[[Path], Any]]) -> str:
    """Other readers, fastest first: their time over ours."""
    times = sorted((_least(lambda r=read: r(path)), name) for name, read in others.items())
    return "; ".join(f"{name} {t / ours:.2f}" for t, name in times) or "-"


def _least(work: Callable[[], object]) -> float:
    """Seconds of CPU time, the least of some runs after one to warm up."""
    work()
    best = np.inf
    for _ in range(_RUNS):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return float(best)
