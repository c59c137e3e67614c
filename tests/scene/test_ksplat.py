""".ksplat: every level by hand, buckets, and the real file."""

from __future__ import annotations

import numpy as np
import pytest
from splat_files import write_ksplat

from scene.errors import InputError
from scene.io import load_gaussians


def stored_rows(path, n: int, level: int, degree: int) -> np.ndarray:
    number, position = ("<f4", "<f4") if level == 0 else ("<f2", "<u2")
    kind = ("<f4", "<f2", "u1")[level]
    rest = (0, 9, 24)[degree]
    row = np.dtype(
        [
            ("c", position, 3),
            ("s", number, 3),
            ("r", number, 4),
            ("rgba", "u1", 4),
            ("h", kind, rest),
        ]
    )
    return np.frombuffer(path.read_bytes()[-n * row.itemsize :], row)


@pytest.mark.parametrize("degree", [0, 1, 2])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_every_level_and_degree(tmp_path, level, degree):
    path = write_ksplat(tmp_path / "a.ksplat", 60, level, degree)
    rows = stored_rows(path, 60, level, degree)
    loaded = load_gaussians(path)
    g = loaded.gaussians
    assert (loaded.format, len(g), g.sh_degree) == (f"ksplat level {level}", 60, degree)
    np.testing.assert_allclose(g.scales, rows["s"].astype(np.float32), rtol=1e-6)
    norms = np.linalg.norm(rows["r"].astype(np.float64), axis=1, keepdims=True)
    np.testing.assert_allclose(g.quats, rows["r"] / norms, atol=1e-6)  # stored wxyz
    np.testing.assert_allclose(g.opacities, rows["rgba"][:, 3] / 255, atol=1e-6)
    np.testing.assert_allclose(g.base_colors, rows["rgba"][:, :3] / 255, atol=1e-6)
    values = rows["h"].astype(np.float64)
    if level == 2:
        values = values / 255 * 3 - 1.5
    for channel in range(3 if degree else 0):
        np.testing.assert_allclose(
            g.sh[:, 1:4, channel], values[:, 3 * channel : 3 * channel + 3], atol=1e-5
        )
        if degree == 2:
            first = 9 + 5 * channel
            np.testing.assert_allclose(
                g.sh[:, 4:9, channel], values[:, first : first + 5], atol=1e-5
            )


@pytest.mark.parametrize("level", [1, 2])
def test_positions_are_relative_to_bucket_centers(tmp_path, level):
    path = write_ksplat(tmp_path / "a.ksplat", 60, level)
    rows = stored_rows(path, 60, level, 1)
    # 16, 16, 14 and 14 rows; centers are 0 1 2, 3 4 5, ...; 32767 levels are 2.5 units
    bucket = np.repeat([0, 1, 2, 3], [16, 16, 14, 14])
    wanted = (
        (rows["c"].astype(np.float64) - 32767) * (2.5 / 32767) + bucket[:, None] * 3 + [0, 1, 2]
    )
    np.testing.assert_allclose(load_gaussians(path).gaussians.means, wanted, atol=1e-5)


def test_a_scale_below_half_floats_is_a_disc_and_stays(tmp_path):
    path = write_ksplat(tmp_path / "a.ksplat", 60, 1, 0)
    data = bytearray(path.read_bytes())
    data[len(data) - 24 + 6 : len(data) - 24 + 8] = b"\0\0"  # the last row's first scale
    path.write_bytes(data)
    loaded = load_gaussians(path)
    assert (len(loaded.gaussians), loaded.dropped.total) == (60, 0)
    assert 0 < loaded.gaussians.scales[59, 0] < 1e-7


@pytest.mark.parametrize(
    ("offset", "value", "sentence"),
    [
        (0, b"\1", "version 1.1"),
        (4, b"\xff\xff\xff\xff", "section headers"),
        (4, b"\0", "section headers"),
        (16, b"\x3d", "61 Gaussians"),
        (20, b"\3", "level 0, 1 or 2"),
        (36, b"\0\0\xc0\x7f", "range of harmonics"),
        (4096, b"\xff\xff\xff\xff", "do not fit"),
        (4100, b"\xff\xff\xff\xff", "cut off"),
        (4096 + 12, b"\xff", "buckets"),
        (4096 + 8, b"\1\0", "buckets hold"),
        (4096 + 40, b"\3", "SH degree"),
    ],
)
def test_lying_headers_are_one_sentence(tmp_path, offset, value, sentence):
    path = write_ksplat(tmp_path / "a.ksplat", 60, 1)
    data = bytearray(path.read_bytes())
    data[offset : offset + len(value)] = value
    path.write_bytes(data)
    with pytest.raises(InputError, match=sentence):
        load_gaussians(path)


@pytest.mark.real
def test_a_real_file(real_data):
    ksplat = load_gaussians(real_data / "splats/tiny/minimal.ksplat").gaussians
    splat = load_gaussians(real_data / "splats/tiny/minimal.splat").gaussians
    np.testing.assert_array_equal(ksplat.means, splat.means)
    np.testing.assert_allclose(ksplat.base_colors, splat.base_colors, atol=1e-6)
    np.testing.assert_allclose(ksplat.opacities, splat.opacities, atol=1e-6)
