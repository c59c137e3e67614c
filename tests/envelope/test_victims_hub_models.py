"""Where hub weights are found, what is refused, and that nothing reaches the network."""

from __future__ import annotations

import shutil
from pathlib import Path

import hub_fakes
import pytest
from safetensors.torch import load_file, save_file

from envelope.victims.hub_models import HUB_WEIGHTS, hub_weights, local_folder, weights_folder
from envelope.victims.registry import list_victims, load_victim
from scene.errors import InputError

NAMES = ("rtdetr", "rtdetrv2", "d-fine", "gdino-tiny", "gdino-base", "owlv2", "vit-b16",
         "resnet50", "convnext")  # fmt: skip


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub."""
    from huggingface_hub import constants, file_download

    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(file_download.constants, "HF_HUB_CACHE", str(folder))
    return folder


def put_into(cache: Path, hub_id: str, folder: Path, commit: str = "c0ffee") -> None:
    """What `hf download` leaves behind."""
    base = cache / f"models--{hub_id.replace('/', '--')}"
    shutil.copytree(folder, base / "snapshots" / commit)
    (base / "refs").mkdir()
    (base / "refs" / "main").write_text(commit)


def test_the_table_is_sound() -> None:
    names = [row.name for row in HUB_WEIGHTS]
    assert set(NAMES) <= set(names)
    assert len(set(names)) == len(names)
    for row in HUB_WEIGHTS:
        assert row.hub_id.count("/") == 1
        assert row.licence
        assert row.command == f"hf download {row.hub_id}" or row.revision in row.command
        assert (row.threshold > 0) == (row.kind != "grounder")


@pytest.mark.parametrize("name", NAMES)
def test_missing_weights_name_the_command(name: str, cache: Path, no_network: list[str]) -> None:
    hub_id = hub_weights(name).hub_id
    listed = {entry.name: entry for entry in list_victims()}[name]
    assert not listed.ready
    assert listed.command == f"hf download {hub_id}"
    with pytest.raises(InputError, match=f"hf download {hub_id}") as caught:
        load_victim(name, "stop sign")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=f"run `hf download {hub_id}`.*Apache-2.0"):
        weights_folder(hub_weights(name))


def test_weights_in_the_cache_are_found_by_name(
    cache: Path, tmp_path: Path, no_network: list[str]
) -> None:
    spec = hub_fakes.made("rtdetr", tmp_path / "model")
    put_into(cache, "PekingU/rtdetr_r50vd", tmp_path / "model")
    victim = load_victim("rtdetr", "stop sign")
    assert victim.info.source == "https://huggingface.co/PekingU/rtdetr_r50vd at c0ffee"
    assert victim.info.licence == "Apache-2.0"
    assert victim.info.weights_hash == load_victim(spec).info.weights_hash
    assert victim.info.command == "hf download PekingU/rtdetr_r50vd"
    listed = {entry.name: entry for entry in list_victims()}
    assert listed["rtdetr"].ready
    assert not listed["rtdetrv2"].ready
    own = load_victim("rtdetr:PekingU/rtdetr_r50vd", "stop sign")
    assert own.info.weights_hash == victim.info.weights_hash


def test_named_gdino_works_at_640(cache: Path, tmp_path: Path, no_network: list[str]) -> None:
    hub_fakes.made("gdino", tmp_path / "model")
    put_into(cache, "IDEA-Research/grounding-dino-tiny", tmp_path / "model")
    assert load_victim("gdino-tiny", "stop sign").info.input_size == (1067, 640)
    assert load_victim("gdino-tiny?size=64", "stop sign").info.input_size == (107, 64)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("/nowhere/at/all", "wanted a folder with a checkpoint"),
        ("some/model", "run `hf download some/model`"),
        ("a--b/..", "run `hf download|wanted a folder"),
        ("one", "wanted a folder with a checkpoint"),
    ],
)
def test_wrong_places(location: str, message: str, cache: Path) -> None:
    with pytest.raises(InputError, match=message):
        local_folder(location, f"rtdetr:{location}")


def test_a_checkpoint_that_lacks_weights_is_refused(tmp_path: Path) -> None:
    """transformers would fill them with random numbers, which look like answers."""
    spec = hub_fakes.made("vit", tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["classifier.weight"]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"lacks 1 of the model's weights, such as classifier"):
        load_victim(spec)


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("model.safetensors", b"junk", "cannot be loaded"),
        ("config.json", b"{}", "cannot be loaded"),
        (
            "config.json",
            b'{"model_type": "vit", "auto_map": {"AutoConfig": "x.Y"}}',
            "loaded|lacks",
        ),
        ("preprocessor_config.json", b"[]", "cannot be loaded"),
    ],
)
def test_damaged_folders_are_one_sentence(
    name: str, contents: bytes, message: str, tmp_path: Path
) -> None:
    spec = hub_fakes.made("vit", tmp_path)
    (tmp_path / name).write_bytes(contents)
    with pytest.raises(InputError, match=message) as caught:
        load_victim(spec)
    assert "\n" not in str(caught.value)


def test_pickled_weights_run_no_code(tmp_path: Path) -> None:
    import pickle

    class Evil:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return (Path.touch, (tmp_path / "ran",))

    spec = hub_fakes.made("vit", tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(InputError, match="convert the checkpoint to safetensors"):
        load_victim(spec)
    assert not (tmp_path / "ran").exists()


def test_devices(tmp_path: Path) -> None:
    spec = hub_fakes.made("vit", tmp_path)
    assert load_victim(f"{spec}?device=cpu").info.settings["device"] == "cpu"
    with pytest.raises(InputError, match="device wants auto, cpu or cuda, found 'tpu'"):
        load_victim(f"{spec}?device=tpu")
