"""SPZ and .splat: bytes by hand, the frame flip, and bombs."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.io import load_gaussians

HEADER = struct.Struct("<4sIIBBBB")


def spz_streams(version: int, degree: int) -> list[bytes]:
    """One Gaussian at (1, 2, -3) right-up-back, 12 fractional bits."""
    fixed = b"".join(int(v * 4096).to_bytes(3, "little", signed=True) for v in (1, 2, -3))
    # a quarter turn about x (xyzw 0.707 0 0 0.707), in SPZ's frame
    rotation = bytes([round((0.5**0.5 + 1) * 127.5), 128, 128])
    if version > 2:
        # w is left out (number 3); x is 511/511 of sqrt 1/2, y -100/511, z 0
        rotation = struct.pack("<I", 3 << 30 | 511 << 20 | (512 | 100) << 10)
    sh = bytes(range(128, 128 + 3 * ((degree + 1) ** 2 - 1)))
    return [fixed, bytes([51]), bytes([128, 255, 0]), bytes([160, 176, 144]), rotation, sh]


def write_spz(path, version: int, degree: int = 0, count: int = 1, cut: int = 0):
    streams = spz_streams(version, degree)
    if version < 4:
        header = HEADER.pack(b"NGSP", version, count, degree, 12, 0, 0)
        data = header + b"".join(streams)
        path.write_bytes(gzip.compress(data[: len(data) - cut]))
        return path
    zstandard = pytest.importorskip("zstandard")
    streams = [s for s in streams if s]
    packed = [zstandard.compress(s) for s in streams]
    header = HEADER.pack(b"NGSP", version, count, degree, 12, 0, len(streams)) + struct.pack(
        "<I12x", 32
    )
    table = b"".join(
        struct.pack("<QQ", len(p), len(s)) for p, s in zip(packed, streams, strict=True)
    )
    data = header + table + b"".join(packed)
    path.write_bytes(data[: len(data) - cut])
    return path


@pytest.mark.parametrize("version", [2, 3, 4])
def test_values_by_hand(tmp_path, version):
    loaded = load_gaussians(write_spz(tmp_path / "a.spz", version, degree=1))
    g = loaded.gaussians
    assert loaded.format == f"spz {version}"
    # y and z change sign
    np.testing.assert_allclose(g.means, [[1, -2, 3]])
    np.testing.assert_allclose(g.opacities, [0.2])
    np.testing.assert_allclose(g.scales, np.exp([[0, 1, -1]]), rtol=1e-6)
    dc = (np.array([128, 255, 0]) / 255 - 0.5) / 0.15
    np.testing.assert_allclose(g.sh[0, 0], dc, atol=1e-5)
    # bytes 128.. are per coefficient (y, z, x), colors inside; y and z are odd
    wanted = np.arange(9).reshape(3, 3) / 128 * [[-1], [-1], [1]]
    np.testing.assert_allclose(g.sh[0, 1:], wanted, atol=1e-7)
    if version == 2:
        np.testing.assert_allclose(g.quats, [[0.5**0.5, 0.5**0.5, 0, 0]], atol=0.01)
    else:
        x, y = 0.5**0.5, -100 / 511 * 0.5**0.5
        np.testing.assert_allclose(g.quats, [[(1 - x * x - y * y) ** 0.5, x, -y, 0]], atol=1e-6)


def test_the_flip_turns_shape_and_color_with_the_scene(tmp_path):
    """The same picture from a turned camera: harmonics by their formulas, covariance by matrices."""
    degree = 3
    g = load_gaussians(write_spz(tmp_path / "a.spz", 3, degree)).gaussians
    raw = (np.arange(45).reshape(15, 3)) / 128
    flip = np.diag([1.0, -1, -1])
    for direction in np.random.default_rng(0).normal(size=(20, 3)):
        x, y, z = direction / np.linalg.norm(direction)
        np.testing.assert_allclose(
            harmonics(*(flip @ [x, y, z])) @ raw, harmonics(x, y, z) @ g.sh[0, 1:], atol=1e-5
        )


def harmonics(x: float, y: float, z: float) -> np.ndarray:
    """Degrees 1 to 3 of the real basis that 3DGS uses, without the constants' last digits."""
    return np.array([
        -y, z, -x,
        1.0925 * x * y, -1.0925 * y * z, 0.3154 * (2 * z * z - x * x - y * y), -1.0925 * x * z, 0.5463 * (x * x - y * y),
        -0.59 * y * (3 * x * x - y * y), 2.8906 * x * y * z, -0.4570 * y * (4 * z * z - x * x - y * y),
        0.3732 * z * (2 * z * z - 3 * x * x - 3 * y * y), -0.4570 * x * (4 * z * z - x * x - y * y),
        1.4453 * z * (x * x - y * y), -0.59 * x * (x * x - 3 * y * y),
    ])  # fmt: skip


@pytest.mark.parametrize("frame", [4, 6, 5])
def test_a_stated_coordinate_system_is_heeded(tmp_path, frame):
    header = HEADER.pack(b"NGSP", 3, 1, 0, 12, 2, 0)
    unknown = struct.pack("<II5s", 0xADBE0002, 5, b"xxxxx")
    record = struct.pack("<III", 0xADBE0003, 4, frame)
    (tmp_path / "a.spz").write_bytes(
        gzip.compress(header + b"".join(spz_streams(3, 0)) + unknown + record)
    )
    if frame == 5:
        with pytest.raises(InputError, match="coordinate system 5"):
            load_gaussians(tmp_path / "a.spz")
        return
    means = load_gaussians(tmp_path / "a.spz").gaussians.means
    np.testing.assert_allclose(means, [[1, -2, 3]] if frame == 4 else [[1, 2, -3]])


@pytest.mark.parametrize("early", [False, True])
def test_extensions_of_an_early_draft_are_refused(tmp_path, early):
    header = HEADER.pack(b"NGSP", 3, 1, 1, 12, 2, 0)
    own_range = struct.pack("<BBff", 8, 8, -3, 3)
    record = struct.pack("<I", 0xADBE0001) + (b"" if early else struct.pack("<I", 10)) + own_range
    body = b"".join(spz_streams(3, 1))
    data = header + (record + body if early else body + record)
    (tmp_path / "a.spz").write_bytes(gzip.compress(data))
    with pytest.raises(InputError, match="extensions of an early draft"):
        load_gaussians(tmp_path / "a.spz")


@pytest.mark.parametrize("version", [2, 3, 4])
def test_cut_off_files_are_one_sentence(tmp_path, version):
    for cut in range(1, 25):
        with pytest.raises(InputError, match=r"a\.spz"):
            load_gaussians(write_spz(tmp_path / "a.spz", version, cut=cut))
    data = write_spz(tmp_path / "a.spz", version).read_bytes()
    for end in range(1, len(data) - 9):
        (tmp_path / "a.spz").write_bytes(data[:end])
        with pytest.raises(InputError):
            load_gaussians(tmp_path / "a.spz")


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("count", [0, 2, 1_000_000, 4_000_000_000])
def test_lying_counts_are_refused(tmp_path, version, count):
    with pytest.raises(InputError):
        load_gaussians(write_spz(tmp_path / "a.spz", version, count=count))


def test_a_bomb_is_not_unpacked(tmp_path):
    header = HEADER.pack(b"NGSP", 3, 1, 0, 12, 0, 0)
    (tmp_path / "a.spz").write_bytes(
        gzip.compress(header + b"".join(spz_streams(3, 0)) + bytes(1 << 25))
    )
    assert len(load_gaussians(tmp_path / "a.spz").gaussians) == 1


def test_splat_by_hand(tmp_path):
    row = struct.pack("<6f8B", 1, 2, 3, 0.1, 0.2, 0.3, 255, 0, 51, 102, 255, 128, 128, 128)
    (tmp_path / "a.splat").write_bytes(row * 2)
    loaded = load_gaussians(tmp_path / "a.splat")
    g: Gaussians = loaded.gaussians
    assert (loaded.format, len(g)) == ("splat", 2)
    np.testing.assert_allclose(g.means[1], [1, 2, 3])
    np.testing.assert_allclose(g.scales[1], [0.1, 0.2, 0.3])
    np.testing.assert_allclose(g.opacities, 0.4)
    np.testing.assert_allclose(g.base_colors[0], [1, 0, 0.2], atol=1e-6)
    np.testing.assert_allclose(g.quats[0], [1, 0, 0, 0])


@pytest.mark.real
def test_the_person_is_the_same_in_ply_and_spz(real_data):
    from scipy.spatial import cKDTree

    folder = real_data / "splats/playcanvas"
    ply = load_gaussians(folder / "biker.compressed.ply").gaussians
    spz = load_gaussians(folder / "biker.spz").gaussians
    assert len(ply) == len(spz) == 152_746
    distance, nearest = cKDTree(ply.means).query(spz.means)
    extent = np.ptp(ply.means, axis=0).max()
    assert np.median(distance) < 0.001 * extent
    assert np.median(distance) == pytest.approx(0.00012, abs=0.00002)
    ply = ply.select(nearest)
    assert np.median(np.abs(ply.base_colors - spz.base_colors)) < 0.004
    np.testing.assert_array_less(
        np.abs(ply.opacities - spz.opacities)[distance < 3e-4].mean(), 0.02
    )
    # shapes too: covariances agree within SPZ's 1/16 steps of log scale
    covariance = [_covariances(g) for g in (ply, spz)]
    error = np.linalg.norm(covariance[0] - covariance[1], axis=(1, 2))
    assert np.median(error / np.linalg.norm(covariance[0], axis=(1, 2))) < 0.04


def _covariances(g: Gaussians) -> np.ndarray:
    rotation = g.rotations().astype(np.float64)
    return (rotation * g.scales[:, None, :].astype(np.float64) ** 2) @ rotation.transpose(0, 2, 1)


@pytest.mark.real
def test_tiny_files(real_data):
    folder = real_data / "splats/tiny"
    splat = load_gaussians(folder / "minimal.splat").gaussians
    for version in (3, 4):
        spz = load_gaussians(folder / f"minimal-v{version}.spz").gaussians
        np.testing.assert_allclose(spz.means, splat.means, atol=1e-3)
        np.testing.assert_allclose(spz.base_colors, splat.base_colors, atol=0.01)
    assert len(load_gaussians(folder / "minimal-v2.spz").gaussians) == 4
    with pytest.raises(InputError, match="must be gzip data"):
        load_gaussians(folder / "minimal-raw.spz")
