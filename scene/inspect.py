"""What a file or folder holds, in one screen: for `advscene inspect` and for bug reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from scene.capture import Capture
from scene.captures import is_capture_file, load_capture
from scene.io.load import files_of, holds_gaussians
from scene.scene import Scene, load_scene


def describe(path: str | Path) -> dict[str, Any]:
    """Facts about a splat file (with its sidecar) or a capture, ready for JSON.

    Raises InputError.
    """
    path = Path(path)
    if is_capture_file(path) or not holds_gaussians(path):
        return _describe_capture(path, load_capture(path))
    return _describe_scene(path, load_scene(path))


def describe_text(facts: dict[str, Any]) -> str:
    """The facts as aligned lines, warnings last."""
    lines = []
    for name, value in facts.items():
        if name == "notes" or value in (None, [], {}):
            continue
        if name.endswith("_bytes"):
            name, value = name.removesuffix("_bytes"), _bytes(value)
        lines.append(f"{name.replace('_', ' '):<18} {_readable(value)}")
    lines += [f"{'note':<18} {note}" for note in facts["notes"]]
    return "\n".join(lines)


def _describe_scene(path: Path, scene: Scene) -> dict[str, Any]:
    gaussians = scene.gaussians
    low, high = np.percentile(gaussians.means, [1, 99], axis=0)
    facts = scene.provenance
    target = scene.target
    return {
        "file": str(path),
        "kind": "scene",
        "format": facts["format"],
        "size_bytes": sum(part.stat().st_size for part in files_of(path)),
        "gaussians": len(gaussians),
        "sh_degree": gaussians.sh_degree,
        "memory_bytes": sum(a.nbytes for a in (gaussians.means, gaussians.quats,
                            gaussians.scales, gaussians.opacities, gaussians.sh)),
        "bounds": {
            "min": gaussians.means.min(axis=0).tolist(),
            "max": gaussians.means.max(axis=0).tolist(),
        },
        "bounds_98_percent": {"min": low.tolist(), "max": high.tolist()},
        "median_scale": float(np.median(gaussians.scales)),
        "median_opacity": float(np.median(gaussians.opacities)),
        "up": list(scene.up),
        "up_source": scene.up_source,
        "metres_per_unit": scene.metres_per_unit,
        "cameras": len(scene.cameras),
        "held_out_cameras": sum(c.held_out for c in scene.cameras),
        "target": target.label or "(no label)" if target else None,
        "dropped": {k: n for k, n in facts["dropped"].items() if n},
        "sha256": facts["sha256"],
        "notes": facts["notes"],
    }  # fmt: skip


def _describe_capture(path: Path, capture: Capture) -> dict[str, Any]:
    sizes = sorted({f"{f.camera.width}x{f.camera.height}" for f in capture.frames})
    focals = [f.camera.K[0, 0] for f in capture.frames]
    centers = np.array([f.camera.center for f in capture.frames])
    return {
        "file": str(path),
        "kind": "capture",
        "format": capture.format,
        "frames": len(capture.frames),
        "held_out_frames": len(capture.held_out),
        "picture_sizes": sizes,
        "focal_px": {"min": float(min(focals)), "max": float(max(focals))},
        "cameras_span": {"min": centers.min(axis=0).tolist(), "max": centers.max(axis=0).tolist()},
        "masks": sum(f.mask is not None for f in capture.frames),
        "boxes_3d": len(capture.boxes),
        "boxes_in_photos": sum(len(f.boxes) for f in capture.frames),
        "points": 0 if capture.points is None else len(capture.points),
        "up": None if capture.up is None else list(capture.up),
        "up_source": capture.up_source,
        "metres_per_unit": capture.metres_per_unit,
        "notes": list(capture.notes),
    }


def _bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def _readable(value: Any) -> str:
    match value:
        case {"min": [*low], "max": [*high]}:
            return f"{_readable(low)}  to  {_readable(high)}"
        case dict():
            return ", ".join(f"{key.replace('_', ' ')} {_readable(v)}" for key, v in value.items())
        case list():
            return ", ".join(_readable(item) for item in value)
        case float():
            return f"{value:.4g}"
        case int():
            return f"{value:,}"
    return str(value)
