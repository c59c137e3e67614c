"""SOG: pixels by hand, both versions, bundled and not, and PlayCanvas' own numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest
from splat_files import sog_parts, texture, webp, write_bundle, write_sog

from scene.errors import InputError
from scene.io import load_gaussians
from scene.scene import load_scene


def one_pixel_each(n: int = 2) -> tuple[dict, dict[str, bytes]]:
    """Two Gaussians whose every byte is chosen."""
    meta, files = sog_parts(n, 1)
    rows = {
        "means_l.webp": [[0, 255, 0], [255, 0, 1]],
        "means_u.webp": [[0, 255, 128], [255, 0, 0]],
        # w left out, x = 1/sqrt 2 -> w = 1/sqrt 2; y left out
        "quats.webp": [[255, 128, 128, 252], [0, 128, 128, 254]],
        "scales.webp": [[0, 255, 51], [1, 2, 3]],
        "sh0.webp": [[0, 255, 51, 102], [0, 0, 0, 255]],
        "shN_labels.webp": [[3, 0], [65, 0]],
    }
    for name, values in rows.items():
        files[name] = webp(texture(np.array(values, dtype=np.uint8)))
    palette = np.zeros((2, 64 * 3, 4), dtype=np.uint8)
    palette[0, 9:12, :3] = [[255, 0, 0], [0, 255, 0], [0, 0, 255]]
    palette[1, 3:6, :3] = [[51, 102, 153], [1, 2, 3], [4, 5, 6]]
    files["shN_centroids.webp"] = webp(palette)
    return meta, files


def test_pixels_by_hand(tmp_path):
    path = write_bundle(tmp_path / "a.sog", *one_pixel_each())
    loaded = load_gaussians(path)
    g = loaded.gaussians
    assert (loaded.format, len(g), g.sh_degree) == ("sog 2", 2, 1)
    # minimum and maximum of the logs; z is 0x8000 of 0xffff of -3..3.5
    log_z = -3 + 6.5 * 0x8000 / 0xFFFF
    wanted = [[-np.expm1(1), np.expm1(2), np.expm1(log_z)], [np.expm1(1), -np.expm1(2), 0]]
    wanted[1][2] = -np.expm1(3 - 6.5 / 0xFFFF)
    np.testing.assert_allclose(g.means, wanted, rtol=1e-5)
    half = 0.5**0.5
    small = (128 / 255 * 2 - 1) * half
    rest = (1 - half**2 - 2 * small**2) ** 0.5
    np.testing.assert_allclose(g.quats[0], [rest, half, small, small], atol=1e-5)
    np.testing.assert_allclose(g.quats[1], [-half, small, rest, small], atol=1e-5)
    np.testing.assert_allclose(np.log(g.scales[0]), [-6, -1, -5], atol=1e-5)
    np.testing.assert_allclose(g.opacities, [0.4, 1], atol=1e-6)
    np.testing.assert_allclose(g.sh[0, 0], [-2, 2, -2 + 4 / 5], atol=1e-5)
    # a palette entry is one pixel per coefficient, RGB inside
    np.testing.assert_allclose(g.sh[0, 1:], 2 * np.eye(3) - 1, atol=1e-6)
    np.testing.assert_allclose(g.sh[1, 1], np.array([51, 102, 153]) / 255 * 2 - 1, atol=1e-6)


def test_version_1_lies_between_minima_and_maxima(tmp_path):
    meta, files = sog_parts(300, 2, version=1)
    files["sh0.webp"] = webp(
        texture(np.tile(np.array([[0, 51, 255, 102]], dtype=np.uint8), (300, 1)))
    )
    files["scales.webp"] = webp(
        texture(np.tile(np.array([[0, 51, 255]], dtype=np.uint8), (300, 1)))
    )
    loaded = load_gaussians(write_bundle(tmp_path / "a.sog", meta, files))
    g = loaded.gaussians
    assert (loaded.format, g.sh_degree) == ("sog 1", 2)
    np.testing.assert_allclose(np.log(g.scales[7]), [-6, -4, 1], atol=1e-5)
    np.testing.assert_allclose(g.sh[7, 0], [-2, -1 + 3 / 5, 3], atol=1e-5)
    # opacity is a logit here: -4 + 10 * 0.4 = 0
    np.testing.assert_allclose(g.opacities, 0.5, atol=1e-6)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_folder_meta_and_bundle_are_the_same_scene(tmp_path, version, degree):
    meta = write_sog(tmp_path / "robot", 300, degree, version)
    bundle = write_bundle(tmp_path / "b.sog", *sog_parts(300, degree, version))
    scenes = [load_scene(path) for path in (meta, tmp_path / "robot", bundle)]
    assert [s.name for s in scenes] == ["robot", "robot", "b"]
    assert {s.gaussians.sh_degree for s in scenes} == {degree}
    for other in scenes[1:]:
        np.testing.assert_array_equal(other.gaussians.means, scenes[0].gaussians.means)
        np.testing.assert_array_equal(other.gaussians.sh, scenes[0].gaussians.sh)


def test_an_empty_first_codebook_value_is_one_step_below_the_second(tmp_path):
    meta, files = one_pixel_each()
    for part in ("scales", "shN"):
        meta[part] = meta[part] | {"codebook": [None, *meta[part]["codebook"][1:]]}
    g = load_gaussians(write_bundle(tmp_path / "a.sog", meta, files)).gaussians
    # codebooks are -6 to -1 and -1 to 1 in 255 steps; the step is taken from 254 of them
    low, step = -6 + 5 / 255, 5 * 254 / 255 / 255
    np.testing.assert_allclose(np.log(g.scales[0]), [low - step, -1, -5], atol=1e-5)
    low, step = -1 + 2 / 255, 2 * 254 / 255 / 255
    np.testing.assert_allclose(g.sh[0, 1:].min(), low - step, atol=1e-5)
    assert g.sh[0, 1:].max() == 1


def test_the_hash_is_of_every_picture(tmp_path):
    meta = write_sog(tmp_path)
    before = load_scene(meta).provenance["sha256"]
    (tmp_path / "sh0.webp").write_bytes(sog_parts(301)[1]["sh0.webp"])
    assert load_scene(meta).provenance["sha256"] != before


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"version": 3}, "version 3"),
        ({"count": 301}, "wanted 301 pixels"),
        ({"count": 0}, "wanted a number of Gaussians"),
        ({"count": True}, "wanted a number of Gaussians"),
        ({"count": 10**9}, "cannot hold"),
        ({"quats": {"files": ["../quats.webp"]}}, "plain file names"),
        ({"quats": {"files": ["/etc/passwd"]}}, "plain file names"),
        ({"quats": {"files": ["a\\b.webp"]}}, "plain file names"),
        ({"quats": {"files": [".."]}}, "plain file names"),
        ({"quats": {"files": [7]}}, "plain file names"),
        ({"quats": {"files": []}}, "wanted the names"),
        ({"quats": []}, "wanted the names"),
        ({"quats": {"files": ["absent.webp"]}}, "absent.webp"),
        ({"quats": {"files": ["meta.json"]}}, "damaged data"),
        ({"sh0": {"codebook": [0, 1], "files": ["sh0.webp"]}}, "256 finite numbers"),
        ({"sh0": {"codebook": [1e999] * 256, "files": ["sh0.webp"]}}, "256 finite numbers"),
        ({"means": {"mins": ["a", 0, 0], "maxs": [1, 1, 1], "files": ["means_l.webp", "means_u.webp"]}}, "means.mins"),
        ({"shN": {"bands": 2, "codebook": [0] * 256, "files": ["shN_centroids.webp", "shN_labels.webp"]}}, "does not fit"),
        ({"shN": {"bands": 1, "codebook": [0] * 256, "files": ["sh0.webp", "shN_labels.webp"]}}, "wanted a width"),
        ({"shN": {"bands": 1, "codebook": [0] * 256, "files": ["shN_centroids.webp", "means_u.webp"]}}, "palette entry"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_sentence(tmp_path, change, sentence):
    meta, files = sog_parts()
    with pytest.raises(InputError, match=sentence):
        load_gaussians(write_bundle(tmp_path / "a.sog", meta | change, files))
    path = write_sog(tmp_path)
    path.write_text(json.dumps(meta | change))
    with pytest.raises(InputError, match=sentence):
        load_gaussians(path)


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    path = write_sog(tmp_path / "a")
    (tmp_path / "secret.webp").write_bytes((tmp_path / "a/quats.webp").read_bytes())
    (tmp_path / "a/quats.webp").unlink()
    (tmp_path / "a/quats.webp").symlink_to(tmp_path / "secret.webp")
    with pytest.raises(InputError, match="not beside"):
        load_gaussians(path)


@pytest.mark.real
def test_a_real_scene(real_data):
    loaded = load_gaussians(real_data / "splats/playbot_sog")
    g = loaded.gaussians
    assert (loaded.format, len(g), g.sh_degree, loaded.dropped.total) == ("sog 2", 31_000, 2, 0)
    for row, wanted in PLAYBOT.items():
        np.testing.assert_allclose(g.means[row], wanted[0], atol=1e-5)
        np.testing.assert_allclose(np.log(g.scales[row]), wanted[1], atol=1e-5)
        sign = np.sign(np.dot(g.quats[row], wanted[2]))
        np.testing.assert_allclose(g.quats[row] * sign, wanted[2], atol=1e-5)
        np.testing.assert_allclose(g.opacities[row], wanted[3], atol=1e-5)
        np.testing.assert_allclose(g.sh[row, 0], wanted[4], atol=1e-5)
        np.testing.assert_allclose(g.sh[row, 1:4, 0], wanted[5], atol=1e-5)


# row: mean, log scale, quaternion wxyz, opacity, DC, red's first three harmonics, as PlayCanvas'
# own converter reads them (MIT)
PLAYBOT: dict[int, tuple] = {
    0: ((-0.7807844, -0.03496421, -1.011408), (-5.386802, -5.230728, -7.658637), (0.7381253, -0.42981, 0.2135185, 0.4741775), 0.898039, (-1.274137, -1.329312, -1.209043), (-0.01845726, -0.3607763, 0.2306925)),
    12345: ((0.2534846, -0.01881075, -0.4571527), (-7.419039, -4.008849, -6.854618), (-0.4575397, -0.5573665, 0.6260708, 0.2967075), 0.380392, (0.7626881, 0.7946299, 0.8264036), (-0.1739758, 0.7125961, -0.9080253)),
    30999: ((0.9979095, -0.0262421, 1.021142), (-8.731708, -4.475065, -5.712896), (0.7310913, -0.04159452, -0.04714045, -0.6793771), 0.682353, (-1.028823, -1.237095, -1.22216), (0.01919161, -0.3990518, 0.4702603)),
}  # fmt: skip
