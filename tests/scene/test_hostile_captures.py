"""Captures that are cut off, bent or lie: one sentence each, bounded memory and time."""

from __future__ import annotations

import gzip
import json
import pickle
import random
import struct
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import waymo_files as made
from co3d_files import A, frame, write_category, write_jgz
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from scene.captures import load_capture
from scene.captures.wire import Message
from scene.errors import InputError

BOUNDS = {"focal_length": [2.0, 2.0], "principal_point": [0.0, 0.0],
          "intrinsics_format": "ndc_norm_image_bounds"}  # fmt: skip


def refused(path: Path, match: str = "") -> None:
    """One sentence within 10 s."""
    started = time.monotonic()
    with pytest.raises(InputError, match=match or None) as caught:
        load_capture(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
    assert time.monotonic() - started < 10


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Fails the test when Python objects took more than 100 MB (numpy's included)."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 << 20


def opens_or_one_sentence(path: Path) -> bool:
    try:
        capture = load_capture(path)
        for item in capture.frames:
            assert np.isfinite(item.camera.camera_from_world).all()
    except InputError as error:
        assert "\n" not in str(error)
        return False
    return True


@pytest.fixture
def records(tmp_path) -> Path:
    return made.write_tfrecord(tmp_path / "a.tfrecord", made.frame())


def test_every_truncation_of_a_tfrecord_is_refused(records):
    data = records.read_bytes()
    for end in [0, 1, 11, 12, 13, len(data) - 4, len(data) - 1, *range(0, len(data), 97)]:
        records.write_bytes(data[:end])
        refused(records)


def test_any_flipped_bit_of_a_tfrecord_is_noticed(records):
    data = records.read_bytes()
    rng = random.Random(0)
    for _ in range(60):
        bent = bytearray(data)
        bent[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        records.write_bytes(bent)
        refused(records, "checksum|cut off")


def test_bent_messages_with_good_checksums_are_one_sentence(tmp_path):
    data = made.frame()
    rng = random.Random(1)
    opened = 0
    for _ in range(150):
        bent = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            bent[rng.randrange(len(data))] = rng.randrange(256)
        opened += opens_or_one_sentence(made.write_tfrecord(tmp_path / "a.tfrecord", bytes(bent)))
    assert 0 < opened < 150


@pytest.mark.parametrize("length", [1 << 40, (1 << 64) - 1, 1 << 29])
def test_huge_lengths_in_a_tfrecord_ask_for_no_memory(tmp_path, length, little_memory):
    start = struct.pack("<Q", length)
    crc = struct.pack("<I", made.masked_crc32c(start))
    (tmp_path / "a.tfrecord").write_bytes(start + crc + b"x" * 100)
    refused(tmp_path / "a.tfrecord", "is said to hold|cut off")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\x0a" + made.varint(1 << 62) + b"x", "cut off or damaged"),
        (b"\x0a" + b"\xff" * 20, "cut off or damaged"),
        (b"\x0b\x0c", "wire type 3"),
        (b"\x00\x01", "cut off or damaged"),
        (b"\x09\x01", "cut off or damaged"),
        (b"\x08\x01" * 300_000, "more than 200000 values"),
        (b"", "no context or no pose"),
        (b"hello", ""),
    ],
)
def test_lying_messages_are_refused(tmp_path, data, sentence):
    refused(made.write_tfrecord(tmp_path / "a.tfrecord", data), sentence)


@given(st.binary(max_size=200), st.integers(1, 12))
def test_any_bytes_as_a_message_are_values_or_one_sentence(data, number):
    message = Message.whole(data, "a")
    for read in (message.ints, message.doubles, message.floats, message.messages, message.text):
        try:
            read(number)
        except InputError as error:
            assert "\n" not in str(error)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)
@given(part=st.sampled_from(["image", "mask", "viewpoint"]),
       name=st.sampled_from(["path", "size", "R", "T", "focal_length", "principal_point", "intrinsics_format"]),
       value=JSON)  # fmt: skip
def test_any_value_in_an_annotation_opens_or_is_one_sentence(tmp_path, part, name, value):
    entry = frame(1, A, BOUNDS)
    category = write_category(tmp_path, [entry])
    entry[part][name] = value
    write_jgz(category / "frame_annotations.jgz", [entry])
    opens_or_one_sentence(category)


def test_nested_messages_share_one_budget():
    inner = made.field(2, [b"\x08\x01" * 90_000] * 3)
    outer = Message.whole(inner, "a")
    with pytest.raises(InputError, match="more than"):
        for nested in outer.messages(2):
            nested.ints(1)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"images": []}, "has no pictures"),
        ({"images": [made.image(7)]}, "no calibration of this camera"),
        ({"images": [made.image(1, [float("nan")] * 16)]}, "NaN or infinity"),
        ({"images": [made.image(1, [2.0] * 16)]}, "wanted a rotation"),
        ({"calibrations": [made.calibration(1, [0.0] * 16)]}, "wanted a rotation"),
        ({"calibrations": [made.calibration(1, made.FORWARD, [1.0])]}, "9 finite intrinsics"),
        ({"calibrations": [made.calibration(1, made.FORWARD, [0.0] * 9)]}, "focal"),
        ({"calibrations": [made.calibration(1, made.FORWARD, [100.0, 100.0, 40.0, 30.0, 1e9, 0.0, 0.0, 0.0, 0.0])]}, "fold"),
    ],
)  # fmt: skip
def test_waymo_frames_with_wrong_content(tmp_path, change, sentence):
    refused(made.write_tfrecord(tmp_path / "a.tfrecord", made.frame(**change)), sentence)


def test_waymo_pictures_that_are_none_fail_when_loaded(tmp_path):
    data = made.frame(images=[made.image(1, picture=b"no jpeg")])
    capture = load_capture(made.write_tfrecord(tmp_path / "a.tfrecord", data))
    with pytest.raises(InputError, match="000_FRONT: wanted a picture"):
        capture.frames[0].load_image()
    (tmp_path / "a.tfrecord").unlink()
    with pytest.raises(InputError, match="cannot be read"):
        capture.frames[0].load_image()


def test_damaged_parquet_files_are_one_sentence(tmp_path):
    pytest.importorskip("pyarrow")
    made.write_parquet(tmp_path)
    rng = random.Random(2)
    for component in ("camera_calibration", "vehicle_pose", "lidar_box"):
        file = tmp_path / component / "segment-x.parquet"
        data = file.read_bytes()
        for end in (0, 4, 100, len(data) // 2, len(data) - 8, len(data) - 1):
            file.write_bytes(data[:end])
            refused(tmp_path, "Parquet|cannot be read|column")
        for _ in range(15):
            bent = bytearray(data)
            bent[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            file.write_bytes(bent)
            opens_or_one_sentence(tmp_path)
        file.write_bytes(data)
    assert opens_or_one_sentence(tmp_path)


def test_parquet_files_of_something_else(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    made.write_parquet(tmp_path)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "camera_image" / "segment-x.parquet")
    refused(tmp_path, r"has no column '\[CameraImageComponent\]\.image'")


@pytest.mark.parametrize("start", [b" ", b"[", b"[{}, ", b'[{"a": "', b"\xff", b"[\xc3", b"\0"])
def test_gzip_bombs_are_refused_early(tmp_path, start, little_memory):
    category = write_category(tmp_path, [frame(1, A, BOUNDS)])
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    block = start[-1:] * (1 << 20)
    bomb = packer.compress(start) + b"".join(packer.compress(block) for _ in range(150))
    (category / "frame_annotations.jgz").write_bytes(bomb + packer.flush())
    refused(category)


def test_a_gzip_bomb_of_valid_annotations_is_refused(tmp_path):
    category = write_category(tmp_path, [frame(1, A, BOUNDS)])
    valid = json.dumps({"sequence_name": "other"}).encode() + b","
    bomb = gzip.compress(b"[" + valid * 1_000_000, 6)
    (category / "frame_annotations.jgz").write_bytes(bomb)
    refused(category, "far more than annotations do|more than 20000 frames")


def test_every_truncation_of_the_annotations(tmp_path):
    category = write_category(tmp_path, [frame(i, A, BOUNDS) for i in range(3)])
    file = category / "frame_annotations.jgz"
    data = file.read_bytes()
    for end in range(0, len(data), 7):
        file.write_bytes(data[:end])
        refused(category)
    text = gzip.decompress(data)
    for end in range(0, len(text) - 1, 53):
        file.write_bytes(gzip.compress(text[:end]))
        refused(category, "cut off or is no JSON|wanted")
    rng = random.Random(3)
    for _ in range(60):
        bent = bytearray(text)
        bent[rng.randrange(len(text))] = rng.randrange(256)
        file.write_bytes(gzip.compress(bent))
        opens_or_one_sentence(category)


@pytest.mark.parametrize(
    "content", ["3", "{}", "[3]", "[[]]", '["a"]', "[" * 100_000, "[{}]", "[]"]
)
def test_annotations_of_another_shape(tmp_path, content):
    category = write_category(tmp_path, [frame(1, A, BOUNDS)])
    (category / "frame_annotations.jgz").write_bytes(gzip.compress(content.encode()))
    refused(category)


@pytest.mark.parametrize(
    "name", ["stopsign/../../secret.png", "/etc/passwd", "stopsign//etc/passwd", "secret.png",
             "../secret.png", "stopsign/s1/\0.png"],
)  # fmt: skip
@pytest.mark.parametrize("part", ["image", "mask"])
def test_co3d_paths_that_lead_out_are_not_opened(tmp_path, name, part):
    Image.new("RGB", (60, 100)).save(tmp_path / "secret.png")
    entry = frame(1, A, BOUNDS)
    category = write_category(tmp_path, [entry])
    entry[part]["path"] = name
    (category / "frame_annotations.jgz").write_bytes(gzip.compress(json.dumps([entry]).encode()))
    if name == "stopsign//etc/passwd":
        name = "etc/passwd inside the category"  # may be looked for there, and is not there
    refused_or_nothing_read(category, part)


def refused_or_nothing_read(category: Path, part: str) -> None:
    try:
        capture = load_capture(category)
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert part == "mask"
    for item in capture.frames:
        assert item.mask is None or category in item.mask.path.parents


def test_masks_of_transforms_that_lead_out_are_not_opened(tmp_path):
    folder = tmp_path / "capture"
    folder.mkdir()
    for path in (tmp_path / "secret.png", folder / "a.png"):
        Image.new("L", (8, 6)).save(path)
    entry = {
        "file_path": "a.png",
        "mask_path": "../secret.png",
        "transform_matrix": np.eye(4).tolist(),
    }
    (folder / "transforms.json").write_text(json.dumps({"fl_x": 10, "frames": [entry]}))
    refused(folder, "leads out")


def test_a_mask_of_another_shape_is_refused_when_loaded(tmp_path):
    Image.new("L", (8, 6)).save(tmp_path / "a.png")
    Image.new("L", (6, 8)).save(tmp_path / "m.png")
    entry = {"file_path": "a.png", "mask_path": "m.png", "transform_matrix": np.eye(4).tolist()}
    (tmp_path / "transforms.json").write_text(json.dumps({"fl_x": 10, "frames": [entry]}))
    capture = load_capture(tmp_path)
    with pytest.raises(InputError, match=r"m\.png: wanted a 8x6 picture"):
        capture.frames[0].load_mask()


class _Evil:
    def __reduce__(self):
        return Path.touch, (Path("/tmp/advscene-a-pickle-ran"),)


def npy(header: str, body: bytes = b"") -> bytes:
    text = header.encode().ljust(118 - 1) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"not numpy at all",
        pickle.dumps(_Evil()),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (2, 17), }", pickle.dumps(_Evil())),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 17), }"),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 17), }", bytes(100)),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-2, 17), }", bytes(272)),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 17), }"),
        npy("{'descr': '<U9', 'fortran_order': False, 'shape': (1, 17), }", bytes(17 * 36)),
        npy("__import__('os').system('true')"),
        npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1, 17), }", bytes(136)),
    ],
)
def test_npy_files_that_are_no_table(tmp_path, content):
    (tmp_path / "images").mkdir()
    (tmp_path / "poses_bounds.npy").write_bytes(content)
    refused(tmp_path)
    assert not Path("/tmp/advscene-a-pickle-ran").exists()


def test_npy_zip_archives_are_refused(tmp_path):
    with (tmp_path / "poses_bounds.npy").open("wb") as file:
        np.savez(file, a=np.zeros((1, 17)))
    refused(tmp_path, "wanted a table of numbers")
