"""Files that are cut off, bent or lie: one sentence each, no crash, bounded memory."""

from __future__ import annotations

import json
import random
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from scene.captures import load_capture
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.io import load_gaussians, save_compressed_ply, save_ply
from scene.scene import load_scene


def some_gaussians(n: int = 300) -> Gaussians:
    rng = np.random.default_rng(0)
    return Gaussians(
        rng.normal(size=(n, 3)), np.tile([1, 0, 0, 0], (n, 1)), np.full((n, 3), 0.1),
        rng.uniform(0, 1, n), rng.normal(size=(n, 4, 3)),
    )  # fmt: skip


@pytest.fixture(params=["plain", "compressed", "ascii"])
def good_file(request, tmp_path) -> Path:
    if request.param == "compressed":
        path = tmp_path / "a.compressed.ply"
        save_compressed_ply(some_gaussians(), path)
        return path
    path = tmp_path / "a.ply"
    save_ply(some_gaussians(), path)
    if request.param == "ascii":
        header, body = path.read_bytes().split(b"end_header\n")
        rows = np.frombuffer(body, "<f4").reshape(300, -1)
        text = "\n".join(" ".join(f"{v:.9g}" for v in row) for row in rows)
        header = header.replace(b"binary_little_endian", b"ascii")
        path.write_bytes(header + b"end_header\n" + text.encode() + b"\n")
    return path


def opens_or_one_sentence(path: Path) -> bool:
    """Whether the file opened; any error but InputError fails the test."""
    try:
        loaded = load_gaussians(path)
    except InputError as error:
        text = str(error)
        assert "\n" not in text
        assert path.name in text
        return False
    assert np.isfinite(loaded.gaussians.means).all()
    return True


def test_every_truncation_is_refused(good_file):
    data = good_file.read_bytes()
    rng = random.Random(1)
    header = data.index(b"end_header")
    # the last byte or two of an ASCII file may only be its line's end, or the end of a number
    offsets = [0, 1, 3, header, header + 5, len(data) - 20] + [
        rng.randrange(len(data) - 20) for _ in range(40)
    ]
    for offset in offsets:
        good_file.write_bytes(data[:offset])
        assert not opens_or_one_sentence(good_file), offset


def test_bit_flips_never_crash(good_file):
    data = good_file.read_bytes()
    rng = random.Random(2)
    header = data.index(b"end_header") + 11
    for i in range(80):
        bent = bytearray(data)
        for _ in range(rng.choice([1, 3, 30])):
            # half of the files are bent in the header, where it hurts most
            position = rng.randrange(header if i % 2 else len(data))
            bent[position] ^= 1 << rng.randrange(8)
        good_file.write_bytes(bent)
        opens_or_one_sentence(good_file)


@pytest.mark.parametrize("count", ["1000000000", "9" * 18, "9" * 400, "-1", "1e9", "0"])
def test_lying_counts_are_refused_before_memory_is_taken(good_file, count):
    data = good_file.read_bytes().replace(b"element vertex 300", f"element vertex {count}".encode())
    good_file.write_bytes(data)
    tracemalloc.start()
    try:
        assert not opens_or_one_sentence(good_file)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.ply", b"", "the file is empty"),
        ("a.ply", b"not a ply at all", "does not begin with 'ply'"),
        ("a.ply", b"ply\nformat ascii 1.0\n", "no end_header"),
        ("a.ply", b"ply\n" + b"comment x\n" * 20000, "no end_header"),
        ("a.ply", b"ply\nelement vertex 1\nend_header\n", "no format line"),
        ("a.ply", b"ply\nformat ascii 1.0\nend_header\n", "no vertex element"),
        ("a.ply", b"ply\nformat ascii 1.0\nelement vertex 1\nproperty list uchar float x\nproperty float scale_0\nproperty float rot_0\nproperty float opacity\nend_header\n1 1 1 1 1\n", "lists"),
        ("a.ply", b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float x\nend_header\n1 1\n", "twice"),
        ("a.ply", b"ply\nformat ascii 1.0\nproperty float x\nend_header\n", "cannot read the PLY header line"),
        ("a.ply", b"ply\nformat ascii 1.0\nelement vertex 1\nproperty quad x\nend_header\n", "cannot read the PLY header line"),
        ("a.ply", b"ply\nformat ascii 1.0\ncomment \xff\nend_header\n", "not ASCII"),
        ("a.ksplat", b"\0" * 64, "cut off"),
        ("a.splat", b"\0" * 65, "no multiple of 32"),
        ("a.splat", b"\0" * 64, "no usable Gaussian"),
        ("a.spz", b"\x1f\x8b" + b"\0" * 64, "gzip data is damaged"),
        ("a.spz", b"hello", "is not SPZ"),
        ("a.obj", b"v 0 0 0\n", "mesh"),
        ("a.txt", b"hello", "wanted a splat file"),
    ],
)  # fmt: skip
def test_refusals(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=sentence) as caught:
        load_gaussians(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_folders_absent_files_and_zips(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        load_scene(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        load_scene(tmp_path / "absent.ply")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(InputError, match="a zip archive"):
        load_scene(tmp_path / "a.zip")


def transforms(tmp_path: Path, **frame: object) -> Path:
    entry = {"file_path": "a.png", "transform_matrix": np.eye(4).tolist(), **frame}
    (tmp_path / "transforms.json").write_text(json.dumps({"fl_x": 10, "frames": [entry]}))
    return tmp_path


@pytest.mark.parametrize("name", ["../secret.png", "/etc/passwd", "a/../../secret.png", "a\0.png"])
def test_pictures_outside_the_capture_are_not_opened(tmp_path, name):
    from PIL import Image

    Image.new("RGB", (4, 4)).save(tmp_path / "secret.png")
    folder = tmp_path / "capture"
    folder.mkdir()
    with pytest.raises(InputError, match=r"leads out|zero byte"):
        load_capture(transforms(folder, file_path=name))


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        ({"file_path": 3}, "file_path"),
        ({"transform_matrix": [[1, 2], [3, 4]]}, "transform_matrix"),
        ({"transform_matrix": "no"}, "transform_matrix"),
        ({"transform_matrix": (2 * np.eye(4)).tolist()}, "scale, shear or a mirror"),
        ({"transform_matrix": np.diag([1, 1, -1, 1]).tolist()}, "mirror"),
        ({"fl_x": -3}, "focal"),
        ({"fl_x": "wide"}, "fl_x"),
        ({"fl_x": 10**400}, "fl_x"),
        ({"cx": []}, "cx"),
        ({"cx": 1e300, "fl_x": 1e300, "w": 1e-300}, "wanted a"),
        ({"k1": 1e200}, "fold"),
        ({"w": 0.0001}, "wanted a"),
        ({"k1": 0.1, "camera_model": "EQUIRECTANGULAR"}, "EQUIRECTANGULAR"),
        ({"camera_angle_x": 9, "fl_x": None}, "camera_angle_x"),
    ],
)
def test_bad_frames_are_named(tmp_path, frame, sentence):
    from PIL import Image

    Image.new("RGB", (8, 6)).save(tmp_path / "a.png")
    with pytest.raises(InputError, match=sentence) as caught:
        load_capture(transforms(tmp_path, **frame))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"frames": []}', '{"frames": [3]}', "[" * 100000, "\xff"]
)
def test_bad_json_is_one_sentence(tmp_path, content):
    (tmp_path / "transforms.json").write_text(content, encoding="latin-1")
    with pytest.raises(InputError) as caught:
        load_capture(tmp_path)
    assert "\n" not in str(caught.value)
