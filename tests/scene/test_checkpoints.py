"""Checkpoints: gsplat, splatfacto and INRIA by their own layouts; code is never run."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from splat_files import raw_parameters, some_gaussians

from scene.errors import InputError
from scene.gaussians import SH_C0
from scene.io import load_gaussians
from scene.scene import file_sha256, load_scene

torch = pytest.importorskip("torch")


def tensors(g, names: dict[str, str], channel_axis: bool = False) -> OrderedDict:
    raw = raw_parameters(g)
    table = OrderedDict((new, torch.tensor(raw[old])) for old, new in names.items())
    if channel_axis:
        table[names["dc"]] = table[names["dc"]][:, None]
    return table


GSPLAT = {"means": "means", "quats": "quats", "scales": "scales", "opacities": "opacities", "dc": "sh0", "rest": "shN"}  # fmt: skip
PREFIX = "_model.gauss_params."
SPLATFACTO = {
    k: PREFIX + v for k, v in {**GSPLAT, "dc": "features_dc", "rest": "features_rest"}.items()
}
CONFIG = """!!python/object:nerfstudio.engine.trainer.TrainerConfig
_target: !!python/name:nerfstudio.engine.trainer.Trainer ''
data: &id003 !!python/object/apply:pathlib.PosixPath
- data
- plaza
pipeline: !!python/object:nerfstudio.pipelines.base_pipeline.VanillaPipelineConfig
  datamanager: !!python/object:nerfstudio.data.FullImageDatamanagerConfig
    data: *id003
    dataparser: !!python/object:nerfstudio.data.NerfstudioDataParserConfig
      orientation_method: up
      center: !!python/tuple [1, 2]
  model: !!python/object:nerfstudio.models.splatfacto.SplatfactoModelConfig
    rasterize_mode: antialiased
    sh_degree: 3
"""


def assert_same(a, b, atol: float = 1e-5) -> None:
    for name in ("means", "scales", "opacities", "sh"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=atol, rtol=1e-5)
    sign = np.sign((a.quats * b.quats).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(a.quats * sign, b.quats, atol=atol)


@pytest.mark.parametrize("suffix", [".pt", ".ckpt"])
@pytest.mark.parametrize("degree", [0, 3])
def test_gsplat(tmp_path, suffix, degree):
    g = some_gaussians(50, degree)
    content = {"step": 6999, "splats": tensors(g, GSPLAT, channel_axis=True)}
    torch.save(content, tmp_path / f"ckpt_6999{suffix}")
    loaded = load_gaussians(tmp_path / f"ckpt_6999{suffix}")
    assert loaded.format == "gsplat checkpoint"
    assert_same(loaded.gaussians, g)
    assert "does not store" in loaded.notes[0]


def test_all_ranks_of_gsplat_are_one_scene(tmp_path):
    whole = some_gaussians(50, 1)
    for rank, rows in ((0, slice(0, 20)), (1, slice(20, 50))):
        part = whole.select(np.arange(50)[rows])
        torch.save(
            {"step": 1, "splats": tensors(part, GSPLAT, True)}, tmp_path / f"ckpt_9_rank{rank}.pt"
        )
    loaded = load_gaussians(tmp_path / "ckpt_9_rank1.pt")
    assert_same(loaded.gaussians, whole)
    assert "2 ranks were joined" in loaded.notes
    first, second = tmp_path / "ckpt_9_rank0.pt", tmp_path / "ckpt_9_rank1.pt"
    before = file_sha256(first)
    assert file_sha256(second) == before
    torch.save({"step": 1, "splats": tensors(whole, GSPLAT, True)}, second)
    assert file_sha256(first) != before


def test_gsplat_with_appearance_is_refused_by_name(tmp_path):
    splats = tensors(some_gaussians(5, 1), GSPLAT)
    del splats["sh0"], splats["shN"]
    splats["features"] = torch.zeros(5, 32)
    splats["colors"] = torch.zeros(5, 3)
    torch.save({"step": 1, "splats": splats}, tmp_path / "a.pt")
    with pytest.raises(InputError, match="appearance"):
        load_gaussians(tmp_path / "a.pt")


def test_inria(tmp_path):
    g = some_gaussians(50, 3)
    raw = {k: torch.nn.Parameter(torch.tensor(v)) for k, v in raw_parameters(g).items()}
    model = (3, raw["means"], raw["dc"][:, None], raw["rest"], raw["scales"], raw["quats"],
             raw["opacities"][:, None], torch.zeros(50), torch.zeros(50, 1), torch.zeros(50, 1), {}, 4.2)  # fmt: skip
    torch.save((model, 30000), tmp_path / "chkpnt30000.pth")
    loaded = load_gaussians(tmp_path / "chkpnt30000.pth")
    assert loaded.format == "inria checkpoint"
    assert_same(loaded.gaussians, g)


def write_run(folder: Path, g, config: str | None = CONFIG, transform: object = None) -> Path:
    """A splatfacto run as nerfstudio leaves it, optimizers and numpy scalars included."""
    models = folder / "nerfstudio_models"
    models.mkdir(parents=True)
    pipeline = tensors(g, SPLATFACTO)
    pipeline[PREFIX + "opacities"] = pipeline[PREFIX + "opacities"][:, None]
    pipeline["_model.camera_optimizer.pose_adjustment"] = torch.zeros(3, 6)
    content = {
        "step": 29999, "pipeline": pipeline, "optimizers": {"means": {"state": {}}},
        "schedulers": {"means": {"_last_lr": [np.float64(1.6e-6)]}}, "scalers": {},
    }  # fmt: skip
    torch.save(content, models / "step-000029999.ckpt")
    torch.save({"pipeline": {}}, models / "step-000002000.ckpt")
    if config is not None:
        (folder / "config.yml").write_text(config)
    if transform is not None:
        (folder / "dataparser_transforms.json").write_text(json.dumps(transform))
    return models / "step-000029999.ckpt"


# a quarter turn about z, moved by (10, 0, 0), halved: (1, 2, 3) becomes (4, 0.5, 1.5)
TRANSFORM = {"transform": [[0, -1, 0, 10], [1, 0, 0, 0], [0, 0, 1, 0]], "scale": 0.5}


def test_splatfacto_comes_back_in_the_original_frame(tmp_path):
    g = some_gaussians(20, 3)
    means = np.array(g.means)
    means[0] = [4, 0.5, 1.5]
    g = type(g)(means, g.quats, g.scales, g.opacities, g.sh)
    run = tmp_path / "plaza" / "splatfacto" / "2026-01-01_000000"
    checkpoint = write_run(run, g, transform=TRANSFORM)
    loaded = load_gaussians(checkpoint)
    assert loaded.format == "splatfacto checkpoint"
    np.testing.assert_allclose(loaded.gaussians.means[0], [1, 2, 3], atol=1e-5)
    np.testing.assert_allclose(loaded.gaussians.scales, g.scales * 2, rtol=1e-5)
    np.testing.assert_allclose(loaded.up, [0, 0, 1], atol=1e-9)
    assert any("normalisation was undone" in note for note in loaded.notes)
    assert any("anti-aliased" in note for note in loaded.notes)
    for path in (run / "config.yml", run):
        scene = load_scene(path)
        assert scene.name == "plaza"
        np.testing.assert_array_equal(scene.gaussians.means, loaded.gaussians.means)
    kept = load_gaussians(run, frame="normalised")
    assert_same(kept.gaussians, g)
    assert any("kept in nerfstudio's" in note for note in kept.notes)


def test_up_turns_with_the_scene(tmp_path):
    transform = {"transform": [[1, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0]], "scale": 1}
    write_run(tmp_path / "a", some_gaussians(5, 1), transform=transform)
    # R takes y to z, so nerfstudio's up, z, was y
    np.testing.assert_allclose(load_gaussians(tmp_path / "a").up, [0, 1, 0], atol=1e-9)


def test_without_the_normalisation_it_says_so(tmp_path):
    g = some_gaussians(20, 1)
    loaded = load_gaussians(write_run(tmp_path / "a", g, config=None))
    assert_same(loaded.gaussians, g)
    assert loaded.up is None
    assert any("left in nerfstudio's normalised frame" in note for note in loaded.notes)


def test_degree_0_splatfacto_draws_a_sigmoid(tmp_path):
    g = some_gaussians(20, 0)
    loaded = load_gaussians(write_run(tmp_path / "a", g))
    wanted = (1 / (1 + np.exp(-g.sh[:, 0])) - 0.5) / SH_C0
    np.testing.assert_allclose(loaded.gaussians.sh[:, 0], wanted, atol=1e-5)


@pytest.mark.parametrize(
    "config",
    [
        "!!python/object/apply:os.system ['touch ran']",
        "!!python/object/new:os.system ['touch ran']",
        "a: !!python/object/apply:subprocess.check_output [['touch', 'ran']]",
        "!!python/module:antigravity ''",
        "a: !!timestamp foo",
        "a: !!float ''",
        "a: " + "[" * 5000,
        "a: !!int '" + "9" * 5000 + "'",
        "x0: &x0 {a: 1}\n" + "\n".join(f"x{i}: &x{i} {{<<: [*x{i-1}, *x{i-1}, *x{i-1}, *x{i-1}, *x{i-1}, *x{i-1}, *x{i-1}, *x{i-1}]}}" for i in range(1, 12)),
        "a: &a [*a]",
        "? [1, 2]\n: 3",
        "\x00",
        "",
    ],
)  # fmt: skip
def test_a_hostile_config_runs_nothing(tmp_path, monkeypatch, config):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "a", some_gaussians(5, 1), config=config)
    try:
        loaded = load_gaussians(tmp_path / "a")
        assert len(loaded.gaussians) == 5
    except InputError as error:
        assert "\n" not in str(error)
    assert not (tmp_path / "ran").exists()


class Bomb:
    def __reduce__(self):
        return os.system, ("touch ran",)


@pytest.mark.parametrize("where", ["top", "splats", "beside"])
def test_pickled_code_is_refused_by_name_and_not_run(tmp_path, monkeypatch, where):
    monkeypatch.chdir(tmp_path)
    splats = tensors(some_gaussians(5, 1), GSPLAT)
    content = {
        "top": Bomb(),
        "splats": {"splats": {**splats, "x": Bomb()}},
        "beside": {"splats": splats, "x": Bomb()},
    }[where]
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(InputError, match=r"system.*could run code"):
        load_gaussians(tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(InputError, match="zip archive"):
        load_gaussians(tmp_path / "b.pt")
    assert not (tmp_path / "ran").exists()


class Allocates:
    def __reduce__(self):
        return bytearray, (8 << 30,)


def test_weights_that_allocate_gigabytes_are_refused(tmp_path):
    torch.save({"x": Allocates()}, tmp_path / "a.pt")
    with pytest.raises(InputError, match="bytearray"):
        load_gaussians(tmp_path / "a.pt")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("arity", [2, 200])
def test_tuples_nested_in_one_another_do_not_hang(tmp_path, arity):
    torch.save({"x": torch.zeros(3)}, tmp_path / "good.pt")
    # as a key, the last tuple's hash takes arity ** levels steps
    content = b"\x80\x02})q\x01"
    for level in range(1, {2: 60, 200: 8}[arity]):
        content += b"(" + bytes([ord("h"), level]) * arity + b"t" + bytes([ord("q"), level + 1])
    content += b"K\x01s."
    with (
        zipfile.ZipFile(tmp_path / "good.pt") as good,
        zipfile.ZipFile(tmp_path / "a.pt", "w") as bad,
    ):
        for member in good.infolist():
            is_pickle = member.filename.endswith("data.pkl")
            bad.writestr(member.filename, content if is_pickle else good.read(member))
    with pytest.raises(InputError, match="nested"):
        load_gaussians(tmp_path / "a.pt")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (3, "found int"),
        ({"state_dict": {}}, "a table of state_dict"),
        ({"splats": {}}, "found among none"),
        ({"splats": {"means": 3}}, "wanted a tensor"),
        ({"pipeline": {"_model.field.mlp": torch.zeros(3)}}, "has no Gaussians"),
        ({"splats": {"means": torch.zeros(4, 3), "quats": torch.zeros(4, 4), "scales": torch.zeros(4, 3), "opacities": torch.zeros(5), "sh0": torch.zeros(4, 1, 3)}}, "opacities: wanted 4 x 1"),
        ({"splats": {"means": torch.zeros(1, 1).expand(10**9, 3), "quats": torch.zeros(4)}}, "more than the file"),
        ({"splats": {"means": torch.eye(3).to_sparse()}}, "wanted a tensor"),
        ({"splats": {"means": torch.zeros(2, 3, dtype=torch.complex64)}}, "one row of numbers"),
        ({"splats": {"means": torch.tensor(3.0)}}, "one row of numbers"),
    ],
)  # fmt: skip
def test_other_content_is_one_sentence(tmp_path, content, sentence):
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(InputError, match=sentence) as caught:
        load_gaussians(tmp_path / "a.pt")
    assert "\n" not in str(caught.value)


def test_a_run_without_checkpoint(tmp_path):
    (tmp_path / "config.yml").write_text(CONFIG)
    with pytest.raises(InputError, match="no checkpoint"):
        load_gaussians(tmp_path)


@pytest.mark.parametrize(("shift", "said"), [(1e6, True), (100.0, False)])
def test_an_original_frame_too_far_away_for_single_precision_is_said(tmp_path, shift, said):
    # a normalised scene that stood at 1000 km: positions there are 6 cm apart
    transform = {"transform": [[1, 0, 0, -shift], [0, 1, 0, 0], [0, 0, 1, 0]], "scale": 1}
    write_run(tmp_path / "a", some_gaussians(20, 1), transform=transform)
    notes = load_gaussians(tmp_path / "a").notes
    assert any("rounded to 0.062 units" in note for note in notes) == said
