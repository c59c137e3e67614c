"""3DGS PLY: properties by name, every variation, exact values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scene.errors import InputError
from scene.gaussians import SH_C0, Gaussians
from scene.io import load_gaussians, save_ply

DEGREES = {0: 0, 1: 9, 2: 24, 3: 45}


def random_gaussians(seed: int, n: int, degree: int) -> Gaussians:
    rng = np.random.default_rng(seed)
    quats = rng.normal(size=(n, 4))
    return Gaussians(
        means=rng.normal(0, 10, (n, 3)),
        quats=quats / np.linalg.norm(quats, axis=1, keepdims=True),
        scales=np.exp(rng.uniform(-9, 3, (n, 3))),
        opacities=rng.uniform(1e-4, 1 - 1e-4, n),
        sh=rng.normal(0, 0.5, (n, (degree + 1) ** 2, 3)),
    )


def write_ply(
    path: Path,
    columns: dict[str, tuple[str, list[float]]],
    encoding: str = "binary_little_endian",
    before: str = "",
    newline: str = "\n",
) -> Path:
    """columns: property name -> (ply type, values)."""
    codes = {"float": "f4", "double": "f8", "uchar": "u1", "ushort": "u2", "int": "i4"}
    order = ">" if encoding == "binary_big_endian" else "<"
    n = len(next(iter(columns.values()))[1])
    header = ["ply", f"format {encoding} 1.0", "comment made by a test", *before.splitlines()]
    header += [f"element vertex {n}"]
    header += [f"property {kind} {name}" for name, (kind, _) in columns.items()]
    text = newline.join([*header, "end_header"]) + newline
    if encoding == "ascii":
        rows = zip(*(v for _, v in columns.values()), strict=True)
        body = newline.join(" ".join(repr(x) for x in row) for row in rows) + newline
        path.write_bytes((text + body).encode())
        return path
    table = np.empty(n, [(name, order + codes[kind]) for name, (kind, _) in columns.items()])
    for name, (_, values) in columns.items():
        table[name] = values
    path.write_bytes(text.encode() + table.tobytes())
    return path


def one_gaussian(**changes: tuple[str, list[float]] | None) -> dict[str, tuple[str, list[float]]]:
    """A Gaussian at (1, 2, 3), scales e^0 e^-1 e^-2, opacity 0.5, turned 90 degrees about z."""
    columns: dict[str, tuple[str, list[float]]] = {
        "x": ("float", [1.0]), "y": ("float", [2.0]), "z": ("float", [3.0]),
        "f_dc_0": ("float", [0.1]), "f_dc_1": ("float", [0.2]), "f_dc_2": ("float", [0.3]),
        "opacity": ("float", [0.0]),
        "scale_0": ("float", [0.0]), "scale_1": ("float", [-1.0]), "scale_2": ("float", [-2.0]),
        "rot_0": ("float", [2.0]), "rot_1": ("float", [0.0]), "rot_2": ("float", [0.0]), "rot_3": ("float", [2.0]),
    }  # fmt: skip
    for name, column in changes.items():
        if column is None:
            del columns[name]
        else:
            columns[name] = column
    return columns


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 50), degree=st.integers(0, 3))
def test_round_trip_is_equal_to_1e_6_relative_and_keeps_the_order(
    tmp_path_factory, seed, n, degree
):
    path = tmp_path_factory.mktemp("ply") / "scene.ply"
    before = random_gaussians(seed, n, degree)
    save_ply(before, path)
    loaded = load_gaussians(path)
    after = loaded.gaussians
    assert loaded.format == "ply"
    assert loaded.dropped.total == 0
    assert after.sh_degree == degree
    np.testing.assert_array_equal(after.means, before.means)
    np.testing.assert_array_equal(after.sh, before.sh)
    np.testing.assert_allclose(after.scales, before.scales, rtol=1e-6)
    np.testing.assert_allclose(after.opacities, before.opacities, rtol=1e-6)
    np.testing.assert_allclose(after.quats, before.quats, atol=2e-7)
    save_ply(after, path.with_name("again.ply"))
    again = load_gaussians(path.with_name("again.ply")).gaussians
    np.testing.assert_allclose(again.scales, after.scales, rtol=1e-6)


def test_opacities_of_exactly_0_and_1_survive(tmp_path):
    before = Gaussians(
        np.zeros((4, 3)), np.tile([1, 0, 0, 0], (4, 1)), np.ones((4, 3)), [0, 1e-9, 1, 0.5],
        np.zeros((4, 1, 3)),
    )  # fmt: skip
    save_ply(before, tmp_path / "a.ply")
    after = load_gaussians(tmp_path / "a.ply").gaussians
    np.testing.assert_allclose(after.opacities, before.opacities, atol=1.1e-8)
    assert after.opacities[2] == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize("encoding", ["binary_little_endian", "binary_big_endian", "ascii"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_activation_by_hand(tmp_path, encoding, newline):
    path = write_ply(tmp_path / "a.ply", one_gaussian(), encoding, newline=newline)
    g = load_gaussians(path).gaussians
    np.testing.assert_array_equal(g.means, [[1, 2, 3]])
    np.testing.assert_allclose(g.scales, [[1, np.exp(-1), np.exp(-2)]], rtol=1e-6)
    np.testing.assert_allclose(g.opacities, [0.5])
    # w first: 90 degrees about z takes x to y
    np.testing.assert_allclose(g.quats, [[0.5**0.5, 0, 0, 0.5**0.5]], atol=1e-7)
    np.testing.assert_allclose(g.rotations()[0] @ [1, 0, 0], [0, 1, 0], atol=1e-6)
    np.testing.assert_allclose(g.base_colors, [[0.5 + SH_C0 * 0.1, 0.5 + SH_C0 * 0.2, 0.5 + SH_C0 * 0.3]], rtol=1e-6)  # fmt: skip


def test_any_order_extra_properties_and_other_types(tmp_path):
    columns = one_gaussian(x=("double", [1.0]), confidence=("uchar", [7]), nx=("ushort", [9]))
    shuffled = dict(sorted(columns.items(), key=lambda item: item[0][::-1]))
    before = "element camera 2\nproperty float focal\nproperty uchar flag"
    path = write_ply(tmp_path / "a.ply", shuffled, before=before)
    # the camera element's rows come before the vertices
    header, body = path.read_bytes().split(b"end_header\n")
    path.write_bytes(header + b"end_header\n" + b"\xff" * 10 + body)
    g = load_gaussians(path).gaussians
    np.testing.assert_array_equal(g.means, [[1, 2, 3]])
    np.testing.assert_allclose(g.scales, [[1, np.exp(-1), np.exp(-2)]], rtol=1e-6)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_rest_is_numeric_order_and_channel_major(tmp_path, degree):
    count = DEGREES[degree]
    names = sorted((f"f_rest_{i}" for i in range(count)), key=str)  # 0, 1, 10, 11, ...: not numeric
    columns = one_gaussian(**{name: ("float", [float(name[7:])]) for name in names})
    g = load_gaussians(write_ply(tmp_path / "a.ply", columns)).gaussians
    per_channel = count // 3
    # red's coefficients are 0, 1, 2, ..., green's go on after them
    np.testing.assert_array_equal(g.sh[0, 1:, 0], np.arange(per_channel))
    np.testing.assert_array_equal(g.sh[0, 1:, 1], np.arange(per_channel) + per_channel)
    np.testing.assert_array_equal(g.sh[0, 1:, 2], np.arange(per_channel) + 2 * per_channel)


@pytest.mark.parametrize(
    ("kind", "values"), [("uchar", [255, 0, 51]), ("float", [1.0, 0.0, 0.2]), ("ushort", [65535, 0, 13107])]
)  # fmt: skip
def test_rgb_instead_of_f_dc_is_srgb_and_said(tmp_path, kind, values):
    changes = {f"f_dc_{i}": None for i in range(3)}
    rgb = {n: (kind, [v]) for n, v in zip(("red", "green", "blue"), values, strict=True)}
    loaded = load_gaussians(write_ply(tmp_path / "a.ply", one_gaussian(**changes, **rgb)))
    np.testing.assert_allclose(loaded.gaussians.base_colors, [[1, 0, 0.2]], atol=1e-6)
    assert "red, green, blue" in loaded.notes[0]


def test_two_scales_become_thin_discs_and_said(tmp_path):
    loaded = load_gaussians(write_ply(tmp_path / "a.ply", one_gaussian(scale_2=None)))
    np.testing.assert_allclose(
        loaded.gaussians.scales, [[1, np.exp(-1), np.exp(-1) * 1e-3]], rtol=1e-5
    )
    assert "2DGS" in loaded.notes[0]


def test_mip_splatting_filter_is_applied(tmp_path):
    columns = one_gaussian(filter_3D=("float", [1.0]))
    g = load_gaussians(write_ply(tmp_path / "a.ply", columns)).gaussians
    widened = np.sqrt(np.exp([0.0, -2.0, -4.0]) + 1)
    np.testing.assert_allclose(g.scales[0], widened, rtol=1e-6)
    np.testing.assert_allclose(g.opacities[0], 0.5 * np.exp(-3) / widened.prod(), rtol=1e-6)


def test_unusable_rows_are_dropped_counted_and_point_to_file_rows(tmp_path):
    n = 5
    columns = {k: (t, v * n) for k, (t, v) in one_gaussian().items()}
    columns["x"] = ("float", [0.0, float("nan"), 2.0, 3.0, 4.0])
    columns["rot_0"] = ("float", [1.0, 1.0, 0.0, 1.0, 1.0])
    columns["rot_3"] = ("float", [0.0, 0.0, 0.0, 0.0, 0.0])
    columns["scale_1"] = ("float", [0.0, 0.0, 0.0, -1000.0, 1000.0])
    loaded = load_gaussians(write_ply(tmp_path / "a.ply", columns))
    assert loaded.dropped.kept.tolist() == [0]
    assert (
        loaded.dropped.not_finite,
        loaded.dropped.zero_quaternion,
        loaded.dropped.bad_scale,
    ) == (2, 1, 1)


def test_nothing_usable_is_one_sentence(tmp_path):
    path = write_ply(tmp_path / "a.ply", one_gaussian(x=("float", [float("inf")])))
    with pytest.raises(InputError, match="no usable Gaussian"):
        load_gaussians(path)


@pytest.mark.parametrize("encoding", ["binary_little_endian", "binary_big_endian", "ascii"])
def test_elements_before_the_vertices_are_stepped_over(tmp_path, encoding):
    before = "comment Ünï, end_header comes later\nelement face 0\nproperty list uchar int vertex_indices\n"
    before += "element camera 2\nproperty double fx\nproperty uchar id"
    path = write_ply(tmp_path / "a.ply", one_gaussian(), encoding, before)
    content = path.read_bytes()
    start = content.index(b"\nend_header\n") + len(b"\nend_header\n")
    rows = b"1.5 1\n2.5 2\n" if encoding == "ascii" else b"\1" * 18
    path.write_bytes(content[:start] + rows + content[start:])
    g = load_gaussians(path).gaussians
    np.testing.assert_allclose(g.means, [[1, 2, 3]])
    np.testing.assert_allclose(g.scales, np.exp([[0, -1, -2]]), rtol=1e-6)


def test_lists_before_the_vertices_are_read_as_text_and_refused_in_binary(tmp_path):
    before = "element face 1\nproperty list uchar int vertex_indices"
    path = write_ply(tmp_path / "a.ply", one_gaussian(), "ascii", before)
    path.write_bytes(path.read_bytes().replace(b"end_header\n", b"end_header\n3 0 0 0\n"))
    np.testing.assert_allclose(load_gaussians(path).gaussians.means, [[1, 2, 3]])
    path = write_ply(tmp_path / "b.ply", one_gaussian(), before=before)
    with pytest.raises(InputError, match="lists of varying length"):
        load_gaussians(path)


def test_nerfstudio_says_which_axis_is_up(tmp_path):
    path = write_ply(tmp_path / "a.ply", one_gaussian(), before="comment Vertical Axis: z")
    assert load_gaussians(path).up == (0, 0, 1)


@pytest.mark.parametrize(
    ("comment", "rest", "said"),
    [
        ("Generated by Nerstudio 1.1.5", 0, True),  # as it spells itself
        ("Generated by Nerstudio 1.1.5", 9, False),
        ("Generated by hand", 0, False),
    ],
)
def test_nerfstudio_without_harmonics_may_hold_logits_as_colors(tmp_path, comment, rest, said):
    harmonics = {f"f_rest_{i}": ("float", [0.0]) for i in range(rest)}
    path = write_ply(tmp_path / "a.ply", one_gaussian(**harmonics), before=f"comment {comment}")
    assert any("logits of the colors" in note for note in load_gaussians(path).notes) == said


REFUSALS = [
    # what the vertex has, extra header, part of the sentence
    pytest.param(one_gaussian(rot_2=None), "", "rot_2 is missing", id="property missing"),
    pytest.param(one_gaussian(f_rest_0=("float", [0.0])), "", "0, 9, 24 or 45", id="one f_rest"),
    pytest.param(one_gaussian(**{f"f_rest_{i}": ("float", [0.0]) for i in range(1, 10)}), "", "numbered", id="gap"),
    pytest.param(one_gaussian(f_anchor_feat_0=("float", [0.0])), "", "Scaffold-GS", id="anchors"),
    pytest.param(one_gaussian(trbf_center=("float", [0.0])), "", "4D", id="dynamic"),
    pytest.param({n: ("float", [0.0]) for n in "xyz"}, "", "point cloud", id="point cloud"),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "before", "sentence"), REFUSALS)
def test_other_ply_is_refused_by_name(tmp_path, columns, before, sentence):
    path = write_ply(tmp_path / "a.ply", columns, before=before)
    with pytest.raises(InputError, match=sentence) as caught:
        load_gaussians(path)
    assert "a.ply" in str(caught.value)


def test_mesh_is_refused_by_name(tmp_path):
    text = (
        "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
        "element face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"
    )
    (tmp_path / "a.ply").write_text(text)
    with pytest.raises(InputError, match=r"mesh \(3 vertices, 1 faces\)"):
        load_gaussians(tmp_path / "a.ply")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.ply"
    save_ply(random_gaussians(0, 3, 0), path)
    old = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        save_ply(random_gaussians(1, 9, 0), path)
    assert path.read_bytes() == old
    assert [p.name for p in tmp_path.iterdir()] == ["a.ply"]


@pytest.mark.real
def test_real_files(real_data):
    hamburger = load_gaussians(real_data / "splats/hamburger/hamburger.ply").gaussians
    assert (len(hamburger), hamburger.sh_degree) == (52709, 0)
    fox = load_gaussians(real_data / "splats/fox25/fox25.ply").gaussians
    assert (len(fox), fox.sh_degree) == (39995, 1)
    with pytest.raises(InputError, match=r"point cloud \(100 points\)"):
        load_gaussians(real_data / "captures/blender_lego/init.ply")
