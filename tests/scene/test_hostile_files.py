"""Files that are cut off, bent or lie: one sentence each, no crash, bounded memory."""

from __future__ import annotations

import gzip
import io
import json
import random
import shutil
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from splat_files import raw_parameters, sog_parts, write_bundle, write_ksplat, write_sog
from splat_files import some_gaussians as random_gaussians

from scene.captures import load_capture
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.io import load_gaussians, save_compressed_ply, save_gaussians, save_ply
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


def opens_or_one_sentence(path: Path, named: Path | None = None) -> bool:
    """Whether the file opened; any error but InputError fails the test.

    named: what the sentence must name; default: the file.
    """
    try:
        loaded = load_gaussians(path)
    except InputError as error:
        text = str(error)
        assert "\n" not in text
        assert len(text.replace(str(path.parent), "")) < 400
        assert (named or path).name in text
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
        ("a.ply", b"ply\nformat ascii 1.0\ncomment \xff\nend_header\n", "no vertex element"),
        ("a.ply", b"ply\nformat ascii 1.0\nelement vert\xffex 1\nend_header\n", "no vertex element"),
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


def write_checkpoint(path: Path) -> Path:
    import torch

    raw = raw_parameters(random_gaussians(40, 1))
    names = {"dc": "sh0", "rest": "shN"}
    splats = {names.get(k, k): torch.tensor(v) for k, v in raw.items()}
    torch.save({"step": 1, "splats": splats}, path)
    return path


def write_run(folder: Path) -> Path:
    """A nerfstudio run; what is bent is its normalisation and its config."""
    import torch

    raw = raw_parameters(random_gaussians(40, 1))
    names = {"dc": "features_dc", "rest": "features_rest"}
    pipeline = {f"_model.gauss_params.{names.get(k, k)}": torch.tensor(v) for k, v in raw.items()}
    (folder / "nerfstudio_models").mkdir()
    torch.save({"step": 1, "pipeline": pipeline}, folder / "nerfstudio_models/step-000000001.ckpt")
    transform = {"transform": np.eye(4)[:3].tolist(), "scale": 0.5}
    (folder / "dataparser_transforms.json").write_text(json.dumps(transform))
    (folder / "config.yml").write_text("a: !!python/object:b.C\n  d: &e [1, 2]\n  f: *e\n")
    return folder / "config.yml"


def written(format_name: str, folder: Path) -> tuple[Path, list[Path]]:
    """A good file of a format: what to open, and the files to bend."""
    scene = random_gaussians(300, 2)
    name = {
        "spz": "a.spz",
        "spz inside": "a.spz",
        "safetensors": "a.safetensors",
        "compressed": "a.compressed.ply",
    }
    if format_name in name:
        save_gaussians(scene, folder / name[format_name])
        return folder / name[format_name], [folder / name[format_name]]
    match format_name:
        case "ksplat0" | "ksplat1" | "ksplat2":
            path = write_ksplat(folder / "a.ksplat", level=int(format_name[-1]))
        case "sog1" | "sog2":
            path = write_bundle(folder / "a.sog", *sog_parts(300, 1, int(format_name[-1])))
        case "sog folder":
            return write_sog(folder), sorted(folder.iterdir())
        case "checkpoint":
            path = write_checkpoint(folder / "a.pt")
        case "nerfstudio":
            return write_run(folder), [folder / "config.yml", folder / "dataparser_transforms.json"]
        case _:
            path = folder / "a.splat"
            path.write_bytes(np.random.default_rng(0).bytes(3200))
    return path, [path]


FORMATS = ("spz", "spz inside", "safetensors", "compressed", "ksplat0", "ksplat1", "ksplat2", "sog1", "sog2",
           "sog folder", "checkpoint", "nerfstudio", "splat")  # fmt: skip
COUNTS = (0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 1_000_000)


@st.composite
def bends(draw: st.DrawFn) -> tuple[str, float, int]:
    """What to do to a file, where (a share of its length, beginnings preferred), with what."""
    kind = draw(st.sampled_from(["cut", "flip", "count", "insert", "zeros"]))
    share = draw(st.floats(0, 1)) ** draw(st.sampled_from([1, 3]))
    return kind, share, draw(st.integers(0, 1 << 30))


def bend_inside(format_name: str, data: bytes, bend: tuple[str, float, int]) -> bytes:
    """`bent`, under the compression where a checksum would find it at once."""
    if format_name == "spz inside":
        return gzip.compress(bent(gzip.decompress(data), *bend), 1)
    return bent(data, *bend)


def bent(data: bytes, kind: str, share: float, value: int) -> bytes:
    if not data:
        return data
    at = int(share * (len(data) - 1))
    match kind:
        case "cut":
            return data[:at]
        case "flip":
            return data[:at] + bytes([data[at] ^ 1 << value % 8]) + data[at + 1 :]
        case "count":
            size = (2, 4, 8)[value % 3]
            number = COUNTS[value % len(COUNTS)] & (1 << 8 * size) - 1
            return data[:at] + number.to_bytes(size, "little") + data[at + size :]
        case "insert":
            return data[:at] + bytes(value % 9) + data[at:]
    return data[:at] + bytes(min(64, len(data) - at)) + data[at + 64 :]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("format_name", FORMATS)
@settings(max_examples=40, deadline=10_000, suppress_health_check=list(HealthCheck))
@given(todo=st.lists(bends(), min_size=1, max_size=3), which=st.integers(0, 9))
def test_bent_files_of_every_format_are_one_sentence(tmp_path_factory, format_name, todo, which):
    folder = tmp_path_factory.mktemp("bent")
    path, files = written(format_name, folder)
    assert opens_or_one_sentence(path)
    before = {p: p.stat().st_mtime_ns for p in folder.parent.rglob("*")}
    file = files[which % len(files)]
    data = file.read_bytes()
    for bend in todo:
        data = bend_inside(format_name, data, bend) if data else data
    file.write_bytes(data)
    opens_or_one_sentence(path, folder)
    assert set(folder.parent.rglob("*")) == set(before)
    shutil.rmtree(folder)


@pytest.mark.parametrize("member", ["../../meta.json", "/tmp/meta.json", "C:\\meta.json"])
def test_members_of_a_bundle_that_lead_out_write_nothing(tmp_path, member):
    meta, files = sog_parts()
    with zipfile.ZipFile(tmp_path / "a.sog", "w") as archive:
        for name, content in {member: json.dumps(meta).encode(), **files}.items():
            archive.writestr(name, content)
    opens_or_one_sentence(tmp_path / "a.sog")
    assert [p.name for p in tmp_path.iterdir()] == ["a.sog"]


def bombs(folder: Path, kind: str) -> Path:
    """Little files that would unpack to gigabytes."""
    meta, files = sog_parts()
    match kind:
        case "sog member":
            with zipfile.ZipFile(folder / "a.sog", "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("meta.json", json.dumps(meta))
                for name, content in files.items():
                    archive.writestr(name, content if name != "sh0.webp" else bytes(200 << 20))
            return folder / "a.sog"
        case "sog meta":
            with zipfile.ZipFile(folder / "a.sog", "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("meta.json", b"[" * (200 << 20))
            return folder / "a.sog"
        case "sog picture":
            from PIL import Image

            file = io.BytesIO()
            Image.new("RGBA", (9000, 9000)).save(file, "WEBP", lossless=True)
            files["sh0.webp"] = file.getvalue()
            return write_bundle(folder / "a.sog", meta, files)
        case "spz":
            header = struct.pack("<4sIIBBBB", b"NGSP", 3, 9_000_000, 3, 12, 0, 0)
            (folder / "a.spz").write_bytes(gzip.compress(header + bytes(100 << 20)))
            return folder / "a.spz"
        case "checkpoint":
            with zipfile.ZipFile(folder / "a.pt", "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("a/data.pkl", bytes(200 << 20))
            return folder / "a.pt"
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", ["sog member", "sog meta", "sog picture", "spz", "checkpoint"])
def test_bombs_are_refused_before_they_unpack(tmp_path, kind):
    path = bombs(tmp_path, kind)
    tracemalloc.start()
    try:
        assert not opens_or_one_sentence(path)
        assert tracemalloc.get_traced_memory()[1] < 48 << 20
    finally:
        tracemalloc.stop()


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
