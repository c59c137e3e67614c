"""PlayCanvas compressed PLY: bits by hand, round trips within the quantisation."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.io import load_gaussians, save_compressed_ply
from scene.io.compressed_ply import morton_order


def write_one(path: Path, words: tuple[int, int, int, int], colors: bool, sh: bytes = b"") -> Path:
    """One Gaussian in one chunk: x in 0..1, y in 10..20, z in -1..1, log scales in -4..0."""
    names = ["min_x", "min_y", "min_z", "max_x", "max_y", "max_z"]
    names += [f"{m}_scale_{a}" for m in ("min", "max") for a in "xyz"]
    values = [0, 10, -1, 1, 20, 1, -4, -4, -4, 0, 0, 0]
    if colors:
        names += [f"{m}_{c}" for m in ("min", "max") for c in "rgb"]
        values += [0.2, 0, 0, 0.4, 1, 2]
    lines = ["ply", "format binary_little_endian 1.0", "element chunk 1"]
    lines += [f"property float {n}" for n in names] + ["element vertex 1"]
    lines += [f"property uint packed_{n}" for n in ("position", "rotation", "scale", "color")]
    if sh:
        lines += ["element sh 1", *(f"property uchar f_rest_{i}" for i in range(len(sh)))]
    body = struct.pack(f"<{len(values)}f4I", *values, *words) + sh
    path.write_bytes(("\n".join([*lines, "end_header"]) + "\n").encode() + body)
    return path


# x at 2047/2047, y at 0, z at 0 -> (1, 10, -1); scales at (0, 1023/1023, 0) -> e^-4, e^0, e^-4
WORDS = (2047 << 21, 3 << 30 | 512 << 20 | 512 << 10 | 512, 1023 << 11, 255 << 24 | 0 << 16 | 51 << 8 | 102)  # fmt: skip


@pytest.mark.parametrize("colors", [False, True])
def test_bits_by_hand(tmp_path, colors):
    g = load_gaussians(write_one(tmp_path / "a.ply", WORDS, colors)).gaussians
    np.testing.assert_allclose(g.means, [[1, 10, -1]], atol=1e-6)
    np.testing.assert_allclose(g.scales, [[np.exp(-4), 1, np.exp(-4)]], rtol=1e-5)
    np.testing.assert_allclose(g.opacities, [0.4], atol=1e-6)
    rgb = [0.4, 0, 0.4] if colors else [1, 0, 0.2]
    np.testing.assert_allclose(g.base_colors, [rgb], atol=1e-6)
    # field 3 of wxyz is the largest; the others are 512/1023 - 0.5 = 0.0005 times sqrt 2
    np.testing.assert_allclose(g.quats, [[0.0007, 0.0007, 0.0007, 1]], atol=2e-4)


def test_largest_part_by_number(tmp_path):
    for largest in range(4):
        word = largest << 30 | 1023 << 20 | 512 << 10 | 512
        path = write_one(tmp_path / "a.ply", (0, word, 0, 0xFF), False)
        quat = load_gaussians(path).gaussians.quats[0]
        # the first of the three others is sqrt(1/2), the left-out one fills up
        expected = np.zeros(4)
        expected[largest] = expected[0 if largest else 1] = 0.5**0.5
        np.testing.assert_allclose(quat, expected, atol=2e-3)


def test_sh_bytes_are_bin_centres_channel_major(tmp_path):
    sh = bytes([0, 255, 128, 1, 64, 2, 3, 4, 5])
    g = load_gaussians(write_one(tmp_path / "a.ply", WORDS, True, sh)).gaussians
    assert g.sh_degree == 1
    np.testing.assert_allclose(g.sh[0, 1:, 0], [-4, 4, 8 * (128.5 / 256 - 0.5)], rtol=1e-5)
    np.testing.assert_allclose(
        g.sh[0, 1:, 1], 8 * (np.array([1.5, 64.5, 2.5]) / 256 - 0.5), rtol=1e-5
    )
    np.testing.assert_allclose(
        g.sh[0, 1:, 2], 8 * (np.array([3.5, 4.5, 5.5]) / 256 - 0.5), rtol=1e-5
    )


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([1, 2, 255, 256, 257, 700]),
    degree=st.integers(0, 3),
)
def test_round_trip_within_quantisation(tmp_path_factory, seed, n, degree):
    rng = np.random.default_rng(seed)
    quats = rng.normal(size=(n, 4))
    before = Gaussians(
        means=rng.normal(0, 3, (n, 3)),
        quats=quats / np.linalg.norm(quats, axis=1, keepdims=True),
        scales=np.exp(rng.uniform(-8, 1, (n, 3))),
        opacities=rng.uniform(0, 1, n),
        sh=rng.normal(0, 0.5, (n, (degree + 1) ** 2, 3)),
    )
    path = tmp_path_factory.mktemp("c") / "a.compressed.ply"
    save_compressed_ply(before, path)
    loaded = load_gaussians(path)
    after = loaded.gaussians
    assert (loaded.format, len(after), after.sh_degree) == ("compressed ply", n, degree)
    before = before.select(morton_order(before.means))
    for start in range(0, n, 256):
        rows = slice(start, start + 256)
        for low_bits, a, b in (
            (np.array([2047, 1023, 2047]), before.means[rows], after.means[rows]),
            (np.array([2047, 1023, 2047]), np.log(before.scales[rows]), np.log(after.scales[rows])),
            (np.array([255, 255, 255]), before.base_colors[rows], after.base_colors[rows]),
        ):
            step = np.ptp(a, axis=0) / low_bits
            assert (np.abs(a - b).max(axis=0) <= 0.51 * step + 3e-6).all()
    np.testing.assert_allclose(after.opacities, before.opacities, atol=0.5 / 255 + 1e-6)
    np.testing.assert_allclose(
        after.sh[:, 1:], np.clip(before.sh[:, 1:], -4, 4), atol=8 / 512 + 1e-6
    )
    dots = np.abs((after.quats * before.quats).sum(axis=1))
    assert np.degrees(2 * np.arccos(np.clip(dots.min(), 0, 1))) < 0.3


def test_morton_order_walks_nearby_points_together():
    points = np.array([[0, 0, 0], [9, 9, 9], [0.1, 0, 0], [9, 9, 8.9]], dtype=np.float32)
    order = morton_order(points).tolist()
    assert {frozenset(order[:2]), frozenset(order[2:])} == {frozenset({0, 2}), frozenset({1, 3})}


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("element chunk 1\n", "element chunk 2\n", "need 1 chunks of 256, found 2"),
        ("property float max_scale_z", "property float other", "max_scale_z"),
        ("property uint packed_scale", "property float packed_scale", "must be uint"),
        ("element sh 1\n", "element sh 2\n", "sh has 2 rows for 1"),
        ("f_rest_8\n", "f_rest_9\n", "f_rest"),
    ],
)
def test_inconsistent_files_are_one_sentence(tmp_path, old, new, sentence):
    path = write_one(tmp_path / "a.ply", WORDS, True, bytes(9))
    data = path.read_bytes()
    assert old.encode() in data
    path.write_bytes(data.replace(old.encode(), new.encode()))
    with pytest.raises(InputError, match=sentence):
        load_gaussians(path)


@pytest.mark.real
def test_real_files(real_data, tmp_path):
    folder = real_data / "splats/playcanvas"
    loaded = load_gaussians(folder / "biker.compressed.ply")
    assert len(loaded.gaussians) == 152_746
    assert (loaded.format, loaded.dropped.total, loaded.gaussians.sh_degree) == (
        "compressed ply",
        0,
        0,
    )
    # a standing person: taller (y) than wide, feet at y = 0, y down
    low, high = loaded.gaussians.means.min(axis=0), loaded.gaussians.means.max(axis=0)
    assert high[1] == pytest.approx(0, abs=1e-3)
    assert low[1] == pytest.approx(-3.18, abs=0.01)
    with_sh = load_gaussians(folder / "test.compressed-sh.ply").gaussians
    assert (len(with_sh), with_sh.sh_degree) == (64, 3)
    # opacities and SH are quantised already: writing them again changes nothing
    save_compressed_ply(with_sh, tmp_path / "a.compressed.ply")
    again = load_gaussians(tmp_path / "a.compressed.ply").gaussians
    ordered = with_sh.select(morton_order(with_sh.means))
    np.testing.assert_allclose(again.opacities, ordered.opacities, atol=1e-6)
    np.testing.assert_allclose(again.sh[:, 1:], ordered.sh[:, 1:], atol=1e-6)
