"""Waymo, both releases: landmarks on hand-computed pixels, boxes in the world, real pictures."""

from __future__ import annotations

import numpy as np
import pytest
import waymo_files as made
from PIL import Image

from scene.captures import CaptureOptions, load_capture
from scene.captures.crc32c import crc32c
from scene.captures.waymo import _frame_box, waymo_camera
from scene.captures.waymo_data import WaymoBox2D, WaymoCalibration
from scene.captures.waymo_parquet import read_parquet_segment
from scene.errors import InputError
from scene.inspect import describe

# What stands 10 m ahead of the vehicle, 2 m to its left and 1 m above its origin is, with the
# vehicle turned to the left at (1000, 2000, 50), at (1000 - 2, 2000 + 10, 50 + 1).
LANDMARK = np.array([998.0, 2010.0, 51.0])
ORIGIN = np.array([1000.0, 2000.0, 50.0])


@pytest.fixture(params=["tfrecord", "parquet", "parquet in words and single precision"])
def segment(request, tmp_path):
    if request.param == "tfrecord":
        return made.write_tfrecord(tmp_path / "segment-x.tfrecord", made.frame())
    pytest.importorskip("pyarrow")
    words = "words" in request.param
    return made.write_parquet(tmp_path, words=words, single=words)


def test_a_landmark_both_ways_in_two_cameras(segment):
    capture = load_capture(segment)
    front, left = capture.frames
    assert (front.name, left.name) == ("000_FRONT", "000_SIDE_LEFT")
    # the world is the data's own, moved by the first vehicle position in whole metres
    point = LANDMARK - ORIGIN
    # FRONT looks along world y from 2 m up, half a metre farther on: the point is 9.5 ahead,
    # 2 left, 1 down: x = 41 - 100 * 2 / 9.5, y = 28 + 120 * 1 / 9.5
    # SIDE_LEFT looks along world -x at the frame's own pose: 2 ahead, 10 right, 1 down
    for frame, pixel, depth in (
        (front, (41 - 200 / 9.5, 28 + 120 / 9.5), 9.5),
        (left, (41 + 100 * 10 / 2, 28 + 120 * 1 / 2), 2),
    ):
        camera = frame.camera
        assert (camera.width, camera.height) == (80, 60)
        found, z = camera.project(point)
        np.testing.assert_allclose(found, pixel, atol=1e-4)
        assert z == pytest.approx(depth, abs=1e-5)
        np.testing.assert_allclose(camera.center + depth * camera.rays(pixel), point, atol=1e-5)
    assert capture.from_data is not None
    np.testing.assert_allclose(capture.from_data.apply_to_points(LANDMARK), point)
    found, _ = capture.in_data_frame().frames[0].camera.project(LANDMARK)
    np.testing.assert_allclose(found, front.camera.project(point)[0], atol=1e-6)


def test_metres_up_boxes_and_notes(segment):
    capture = load_capture(segment)
    assert capture.metres_per_unit == 1
    assert capture.up == (0, 0, 1)
    assert capture.up_source == "the Waymo world's z axis"
    (labelled,) = capture.boxes
    box = labelled.box
    assert (box.label, labelled.track) == ("sign", "sign-1")
    np.testing.assert_allclose(box.center, LANDMARK - ORIGIN, atol=1e-6)
    np.testing.assert_allclose(box.half_sizes, [2, 1, 0.5])
    # the vehicle is turned by 90 degrees and the box by 30 more
    angle = np.radians(120)
    np.testing.assert_allclose(box.axes[0], [np.cos(angle), np.sin(angle), 0], atol=1e-6)
    np.testing.assert_allclose(box.axes[1], [-np.sin(angle), np.cos(angle), 0], atol=1e-6)
    np.testing.assert_allclose(box.axes[2], [0, 0, 1], atol=1e-6)
    (seen,) = capture.frames[0].boxes
    assert (seen.label, seen.xyxy, seen.track) == ("pedestrian", (25, 17, 35, 23), "walker")
    assert capture.frames[1].boxes == ()
    notes = " ".join(capture.notes)
    assert "rolling shutter" in notes
    assert "moved up to 0.40 m" in notes
    assert "origin is at (1000, 2000, 50) m" in notes


def test_pictures_are_read_from_inside_the_file(segment):
    front, left = load_capture(segment).frames
    assert front.load_image()[0, 0] == pytest.approx([200 / 255, 10 / 255, 20 / 255], abs=0.02)
    wanted = 200 if segment.suffix == ".tfrecord" else 50
    assert left.load_image((40, 30))[5, 5, 0] == pytest.approx(wanted / 255, abs=0.02)


def test_inspect_says_what_is_there(segment):
    facts = describe(segment)
    assert (facts["frames"], facts["metres_per_unit"]) == (2, 1)
    assert facts["picture_sizes"] == ["80x60"]
    assert (facts["format"], facts["boxes_3d"]) == ("Waymo", 1)


def test_distortion_is_taken_out_and_2d_boxes_with_it(tmp_path):
    pytest.importorskip("cv2")
    lens = [*made.INTRINSICS[:4], -0.2, 0.05, 0.001, -0.002, 0.0]
    frame = made.frame(images=[made.image(1)],
                       calibrations=[made.calibration(1, made.FORWARD, lens)])  # fmt: skip
    (item,) = load_capture(made.write_tfrecord(tmp_path / "a.tfrecord", frame)).frames
    assert item.lens is not None
    assert item.lens.coefficients == (-0.2, 0.05, 0.001, -0.002, 0.0)
    # the corners of the tight box around the undistorted border, by the textbook formula
    x0, y0, x1, y1 = item.boxes[0].xyxy
    corners = item.camera.rays([[x0, y0], [x1, y1]]) @ item.camera.camera_from_world[:3, :3].T
    for (a, b, _), drawn in zip(corners, ((25, 17), (35, 23)), strict=True):
        r2 = a * a + b * b
        radial = 1 - 0.2 * r2 + 0.05 * r2**2
        x = a * radial + 2 * 0.001 * a * b - 0.002 * (r2 + 2 * a * a)
        y = b * radial + 0.001 * (r2 + 2 * b * b) - 2 * 0.002 * a * b
        np.testing.assert_allclose([41 + 100 * x, 28 + 120 * y], drawn, atol=0.05)


def test_frames_of_a_drive_share_tracks(tmp_path):
    first = made.frame(labels=[made.laser_label(1, "car")])
    second = made.frame(made.TIME + 100_000, labels=[made.laser_label(1, "car", center=(11.0, 2.0, 1.0)),
                                                     made.laser_label(9, "", size=(0.0, 1.0, 1.0))])  # fmt: skip
    capture = load_capture(made.write_tfrecord(tmp_path / "a.tfrecord", first, second))
    assert [f.name for f in capture.frames] == [
        "000_FRONT", "000_SIDE_LEFT", "001_FRONT", "001_SIDE_LEFT",
    ]  # fmt: skip
    # a box without extent is none
    assert [(b.track, b.box.label) for b in capture.boxes] == [("car", "vehicle")] * 2
    assert capture.boxes[1].time_s - capture.boxes[0].time_s == pytest.approx(0.1, abs=1e-5)
    np.testing.assert_allclose(
        capture.boxes[1].box.center - capture.boxes[0].box.center, [0, 1, 0], atol=1e-9
    )


def test_several_segments_are_told_apart(tmp_path):
    pytest.importorskip("pyarrow")
    made.write_parquet(tmp_path, "one")
    made.write_parquet(tmp_path, "two")
    with pytest.raises(InputError, match=r"holds 2 segments.*one, two"):
        load_capture(tmp_path)
    assert len(load_capture(tmp_path, CaptureOptions(sequence="two")).frames) == 2
    assert len(load_capture(tmp_path / "camera_image" / "one.parquet").frames) == 2
    with pytest.raises(InputError, match="segment 'three' has no file"):
        load_capture(tmp_path, CaptureOptions(sequence="three"))
    records = tmp_path / "records"
    records.mkdir()
    for name in ("one", "two"):
        made.write_tfrecord(records / f"{name}.tfrecord", made.frame())
    with pytest.raises(InputError, match="holds 2 Waymo segments"):
        load_capture(records)
    assert len(load_capture(records, CaptureOptions(sequence="two")).frames) == 2


def test_components_that_are_not_there_are_said(tmp_path):
    pytest.importorskip("pyarrow")
    made.write_parquet(tmp_path / "a", without=("vehicle_pose", "camera_box"))
    capture = load_capture(tmp_path / "a")
    assert capture.boxes == ()
    notes = " ".join(capture.notes)
    assert "without vehicle_pose, camera_box" in notes
    assert "3D boxes are not used" in notes
    made.write_parquet(tmp_path / "b", without=("camera_calibration",))
    with pytest.raises(InputError, match="missing camera_calibration, found camera_image"):
        load_capture(tmp_path / "b")


def test_crc32c_of_known_texts_and_of_many_lanes():
    # the check value of the Castagnoli polynomial, and RFC 3720's 32 zeros and 32 rising bytes
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(bytes(range(32))) == 0x46DD794E
    data = np.random.default_rng(0).integers(0, 256, 5000, dtype=np.uint8).tobytes()
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    assert crc32c(data) == state ^ 0xFFFFFFFF


@pytest.mark.real
def test_the_real_frame(real_data):
    path = real_data / "waymo/pvps_data_one_frame.tfrecord"
    capture = load_capture(path)
    sizes = [(f.name, f.camera.width, f.camera.height) for f in capture.frames]
    assert sizes == [
        ("000_FRONT", 1920, 1280), ("000_FRONT_LEFT", 1920, 1280), ("000_FRONT_RIGHT", 1920, 1280),
        ("000_SIDE_LEFT", 1920, 886), ("000_SIDE_RIGHT", 1920, 886),
    ]  # fmt: skip
    assert len(capture.boxes) == 75
    # cameras stand on a roof and look level, each about 45 degrees from the next
    for frame in capture.frames:
        assert 1 < frame.camera.center[2] + 160.618 - 161 < 3
        assert frame.camera.down[2] < -0.99
    front, left = capture.frames[0].camera, capture.frames[1].camera
    assert np.degrees(np.arccos(front.forward @ left.forward)) == pytest.approx(45, abs=2)
    assert np.cross(front.forward, left.forward)[2] > 0.6


@pytest.mark.real
def test_real_boxes_land_on_what_people_marked_in_the_picture(real_data):
    """The nearest pedestrians: the 3D box's silhouette holds the 2D box that was drawn by hand."""
    capture = load_capture(real_data / "waymo/pvps_data_one_frame.tfrecord")
    corners = np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)])
    matched = 0
    for frame in capture.frames[:3]:
        for seen in frame.boxes:
            x0, y0, x1, y1 = seen.xyxy
            if seen.label != "pedestrian" or y1 - y0 < 250 or y1 > 1250:
                continue
            shares = []
            for labelled in (b for b in capture.boxes if b.box.label == "pedestrian"):
                box = labelled.box
                pixels, z = frame.camera.project(box.center + corners * box.half_sizes @ box.axes)
                if (z < 1).any():
                    continue
                low, high = np.minimum(pixels.min(axis=0), 1e4), pixels.max(axis=0)
                width = max(0, min(x1, high[0]) - max(x0, low[0]))
                height = max(0, min(y1, high[1]) - max(y0, low[1]))
                share = width * height / ((x1 - x0) * (y1 - y0))
                # no box that holds everything: hardly taller than what it holds
                shares.append(share if high[1] - low[1] < 1.3 * (y1 - y0) else 0)
            assert max(shares) > 0.95, (frame.name, seen)
            matched += 1
    assert matched >= 3


@pytest.mark.real
def test_a_real_sign_lies_flat_in_its_box(real_data):
    """The one-way sign to the right is brighter than the wall around it, exactly in its box."""
    pytest.importorskip("cv2")
    capture = load_capture(real_data / "waymo/pvps_data_one_frame.tfrecord")
    frame = capture.frames[4]
    corners = np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)])
    for box in (b.box for b in capture.boxes if b.box.label == "sign"):
        pixels, z = frame.camera.project(box.center + corners * box.half_sizes @ box.axes)
        low, high = pixels.min(axis=0), pixels.max(axis=0)
        if (z > 1).all() and abs(low[0] - 158) < 8 and abs(high[0] - 334) < 8:
            break
    else:
        pytest.fail("no sign box projects to where the sign is")
    np.testing.assert_allclose([low, high], [[158, 79], [335, 150]], atol=4)
    picture = Image.fromarray((frame.load_image() * 255).astype(np.uint8)).convert("L")
    assert picture.size == (1920, 886)


@pytest.mark.real
def test_the_real_parquet_poses_are_read(real_data):
    pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match="found vehicle_pose, camera_hkp"):
        read_parquet_segment(real_data / "waymo/v2")


def test_moments_that_are_no_whole_numbers_are_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    root = made.write_parquet(tmp_path)
    file = root / "vehicle_pose" / "segment-x.parquet"
    table = pq.read_table(file)
    name = "key.frame_timestamp_micros"
    times = table[name].cast(pa.float64())
    pq.write_table(table.set_column(table.schema.get_field_index(name), name, times), file)
    with pytest.raises(InputError, match=r"vehicle_pose.*wanted whole microseconds, found"):
        load_capture(root)


def test_boxes_without_extent_are_counted(tmp_path):
    labels = [made.laser_label(), made.laser_label(track="flat", size=(0.0, 1.0, 1.0))]
    capture = load_capture(made.write_tfrecord(tmp_path / "a.tfrecord", made.frame(labels=labels)))
    assert len(capture.boxes) == 1
    assert any(note.startswith("1 of 2 3D boxes are left out") for note in capture.notes)


def test_2d_boxes_end_at_the_pictures_edge():
    calibration = WaymoCalibration(
        (100.0, 120.0, 41.0, 28.0, -0.2, 0.05, 0.001, -0.002, 0.0), np.eye(4), 80, 60
    )
    camera, lens = waymo_camera(calibration, np.eye(4))
    assert lens is not None
    assert min(lens.undistort_box((0, 0, 30, 20))) < 0
    box = _frame_box(WaymoBox2D(2, (15, 10), (30, 20), "walker"), camera, lens)
    assert box is not None
    assert box.xyxy[:2] == (0, 0)
    assert box.xyxy[2:] == pytest.approx(lens.undistort_box((0, 0, 30, 20))[2:])
    # what the flat picture no longer shows is no box in it
    assert _frame_box(WaymoBox2D(2, (0.2, 0.2), (0.1, 0.1), ""), camera, lens) is None
    assert _frame_box(WaymoBox2D(2, (90, 10), (10, 10), ""), camera, None) is None


def test_pictures_without_bytes_are_said_by_camera(tmp_path):
    void = made.message(_1=4)
    first = made.frame(images=[void, made.image(1)])
    second = made.frame(made.TIME + 100_000, images=[void, made.image(1, picture=b"")])
    capture = load_capture(made.write_tfrecord(tmp_path / "a.tfrecord", first, second))
    assert [f.name for f in capture.frames] == ["000_FRONT"]
    wanted = "3 pictures are listed without bytes and left out (FRONT 1, SIDE_LEFT 2)"
    assert wanted in capture.notes
    # the box that people marked in the second frame's picture goes with it
    assert any(note.startswith("1 of 2 boxes in pictures are left out") for note in capture.notes)
    with pytest.raises(InputError, match="no pictures, 1 are listed without bytes"):
        load_capture(made.write_tfrecord(tmp_path / "b.tfrecord", made.frame(images=[void])))


def test_empty_picture_cells_are_said_by_camera(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    made.write_parquet(tmp_path)
    path = tmp_path / "camera_image" / "segment-x.parquet"
    table = pq.read_table(path)
    column = "[CameraImageComponent].image"
    cells = pa.array([None, table[column][1].as_py()], pa.binary())
    pq.write_table(table.set_column(table.schema.names.index(column), column, cells), path)
    capture = load_capture(tmp_path)
    (front,) = capture.frames
    assert front.name == "000_FRONT"
    assert front.load_image()[0, 0, 0] == pytest.approx(200 / 255, abs=0.02)
    assert "1 pictures are listed without bytes and left out (SIDE_LEFT 1)" in capture.notes


def test_labels_without_a_box_are_counted(tmp_path):
    labels = [made.laser_label(), made.message(_3=1, _4="boxless")]
    capture = load_capture(made.write_tfrecord(tmp_path / "a.tfrecord", made.frame(labels=labels)))
    assert len(capture.boxes) == 1
    assert any(note.startswith("1 of 2 3D boxes are left out") for note in capture.notes)


def test_a_box_beyond_the_picture_is_counted(tmp_path):
    # centre (-6, 20), 10 along x: it ends a pixel before the picture begins
    label = made.message(_1=made.message(_1=-6.0, _2=20.0, _4=6.0, _5=10.0), _3=2, _4="walker")
    data = made.frame() + made.message(_8=made.message(_1=1, _2=label))
    capture = load_capture(made.write_tfrecord(tmp_path / "a.tfrecord", data))
    assert [box.xyxy for frame in capture.frames for box in frame.boxes] == [(25, 17, 35, 23)]
    assert any(note.startswith("1 of 2 boxes in pictures") for note in capture.notes)
