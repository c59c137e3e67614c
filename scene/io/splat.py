"""antimatter15's .splat: 32 bytes a Gaussian, no header, no harmonics."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from scene.errors import InputError
from scene.gaussians import SH_C0, Gaussians
from scene.io.loaded import LoadedGaussians

# rot is wxyz as (value * 128 + 128); rgba is sRGB and opacity.
_ROW = np.dtype([("mean", "<f4", 3), ("scale", "<f4", 3), ("rgba", "u1", 4), ("rot", "u1", 4)])


def load_splat(path: str | Path) -> LoadedGaussians:
    """Read .splat. The format has no mark of its own, so only the size is checked first.

    Raises InputError.
    """
    path = Path(path)
    size = path.stat().st_size
    if size == 0 or size % _ROW.itemsize:
        raise InputError(
            f"{path}: the file is cut off or not a .splat: its {size} bytes are no multiple of 32"
        )
    rows = np.fromfile(path, _ROW)
    rgba = rows["rgba"] / np.float32(255)
    try:
        gaussians, dropped = Gaussians.validated(
            rows["mean"],
            (rows["rot"].astype(np.float32) - 128) / 128,
            rows["scale"],
            rgba[:, 3],
            ((rgba[:, :3] - np.float32(0.5)) / np.float32(SH_C0))[:, None],
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return LoadedGaussians(gaussians, "splat", dropped)
