"""Import and first call of every victim with the network cut: no look-up, no telemetry."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from api_fakes import FakeServer, says


def test_the_cut_is_one(no_network: list[str]) -> None:
    with pytest.raises(AssertionError, match="network is cut"):
        socket.create_connection(("example.org", 80))
    with pytest.raises(AssertionError, match="network is cut"):
        socket.getaddrinfo("example.org", 80)
    with socket.socket() as plain, pytest.raises(AssertionError, match="network is cut"):
        plain.connect(("10.0.0.1", 80))
    assert len(no_network) == 3
    no_network.clear()
    one, two = socket.socketpair()
    one.send(b"here")
    assert two.recv(4) == b"here"
    one.close()
    two.close()


def test_the_cut_of_a_fresh_interpreter(run_offline: Callable[..., str]) -> None:
    swallowed = (
        "import socket\ntry: socket.create_connection(('10.0.0.1', 80), 1)\nexcept OSError: pass"
    )
    with pytest.raises(AssertionError, match=r"reached outside.*10\.0\.0\.1"):
        run_offline(swallowed)
    assert run_offline("print('fine')") == "fine\n"


def test_the_cut_but_for_one_server(run_offline: Callable[..., str]) -> None:
    """Only its port and only its number: no other server of this machine, no name."""
    with FakeServer(says("here")) as server:
        port = str(server.port)
        reach = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 1).close()"
        run_offline(reach, TEST_LOOPBACK_PORT=port)
        for other in (f"('127.0.0.1', {server.port - 1})", f"('localhost', {port})"):
            code = f"import socket\ntry: socket.create_connection({other}, 1)\nexcept OSError: pass"
            with pytest.raises(AssertionError, match="reached outside"):
                run_offline(code, TEST_LOOPBACK_PORT=port)


IMPORT = """
import numpy as np
from envelope.victims.protocols import ask
from envelope.victims.registry import list_victims, load_victim
picture = np.random.default_rng(0).integers(0, 256, (1, 90, 160, 3)).astype(np.uint8)
"""


def shipped(folder: Path, weights: Path | None) -> list[str]:
    """The demo victims and a person's own module."""
    (folder / "own_offline.py").write_text(
        "from envelope.victims.registry import load_victim\n"
        "def make():\n    return load_victim('demo-detector')\n"
    )
    return ["demo-detector", "demo-classifier", "demo-grounder", f"{folder}/own_offline.py:make"]


def onnx_files(folder: Path, weights: Path | None) -> list[str]:
    """A classifier and detectors."""
    from test_victims_onnx import REAL, classifier_file, detector_file, labels_file

    labels = labels_file(folder, "red", "green", "blue")
    return [
        f"onnx-classifier:{classifier_file(folder / 'c.onnx')}?labels={labels}",
        f"onnx:{detector_file(folder / 'd.onnx')}",
        *(f"onnx:{weights / file}" for file in REAL.values() if weights),
    ]


def of_ultralytics(folder: Path, weights: Path | None) -> list[str]:
    """Checkpoints of three kinds and an export."""
    if importlib.util.find_spec("ultralytics") is None:  # its plain import changes other packages
        pytest.skip("the extra yolo is not installed")
    from ultralytics_fakes import make

    return [
        f"ultralytics:{make(folder, 'v8')}?size=160",
        f"ultralytics:{make(folder, 'rtdetr')}?size=160",
        f"yolo-world:{make(folder, 'world')}?size=160",
        *([f"ultralytics:{weights}/yolov8n-int8/yolov8n_int8.onnx"] if weights else []),
    ]


def of_transformers(folder: Path, weights: Path | None) -> list[str]:
    """Detectors and classifiers of the hub, timm's and torchvision's."""
    import hub_fakes
    import torch
    from torchvision.models import squeezenet1_1

    torch.save(squeezenet1_1(weights=None).state_dict(), folder / "tv.pth")
    recipe = f"weights={folder / 'tv.pth'}&recipe=IMAGENET1K_V1"
    names = ("rtdetr", "rtdetrv2", "d-fine", "gdino", "owlv2", "vit")
    specs = [hub_fakes.made(name, folder / name) for name in names]
    if importlib.util.find_spec("timm") is not None:
        from test_victims_timm import saved as saved_timm

        specs.append(f"classifier:{saved_timm(folder / 'timm')}")
    return [*specs, f"torchvision:squeezenet1_1?{recipe}"]


def grounding_models(folder: Path, weights: Path | None) -> list[str]:
    """Every family that transformers runs."""
    from vlm_fakes import MAKERS, save_paligemma2, saved

    specs = [f"paligemma:{save_paligemma2(folder / 'paligemma2')}"]
    for name in sorted(MAKERS):
        scale = "&coordinates=1" if name == "lfm2.5-vl" else ""
        specs.append(f"{name}:{saved(name, folder / name)}?size=112&tokens=4{scale}")
    return specs


@pytest.mark.parametrize(
    "family", [shipped, onnx_files, of_ultralytics, of_transformers, grounding_models]
)
def test_import_and_first_call(
    family: Callable[[Path, Path | None], list[str]],
    run_offline: Callable[..., str],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """No look-up, no telemetry, no download, no settings of a package in the home folder."""
    specs = family(tmp_path, _real_weights(request))
    code = (
        IMPORT
        + f"""
from pathlib import Path
before = set(Path.home().rglob("*"))
for spec in {specs!r}:
    victim = load_victim(spec)
    label = next((name for name in victim.info.labels if name == "stop sign"), "")
    answer, = ask(victim, picture, label or (victim.info.labels or ["stop sign"])[0])
    print(victim.info.kind, getattr(answer, "status", "ok") in ("ok", "empty", "malformed"))
assert set(Path.home().rglob("*")) == before, set(Path.home().rglob("*")) - before
"""
    )
    answers = run_offline(
        code, XDG_CACHE_HOME=str(tmp_path / "cache"), HOME=str(_home(tmp_path)),
        OMP_NUM_THREADS="1",
    ).splitlines()  # fmt: skip
    assert len(answers) == len(specs) > 0
    assert {line.split()[1] for line in answers} == {"True"}


def test_import_and_first_call_over_an_address(
    run_offline: Callable[..., str], tmp_path: Path
) -> None:
    """Loading asks nobody; the first call asks that server once, past any proxy, and nobody else."""
    box = '[{"bbox_2d": [100, 200, 300, 900], "label": "stop sign"}]'
    with FakeServer(says(box)) as server:
        spec = f"api:{server.address}?model=m&profile=qwen3-vl"
        code = (
            IMPORT
            + f"""
victim = load_victim({spec!r})
print(victim.usage.requests)
answer, = ask(victim, picture, "stop sign")
print(answer.status, *(round(value) for value in answer.box), victim.usage.requests)
"""
        )
        proxies = {
            name: "http://10.0.0.1:3128" for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY")
        }
        printed = run_offline(
            code, TEST_LOOPBACK_PORT=str(server.port), HOME=str(_home(tmp_path)), **proxies
        ).splitlines()
        # 100-300 of 1000 on 160 px, 200-900 of 1000 on 90 px
        assert printed == ["0", "ok 16 18 48 81 1"]
        assert server.paths == ["/v1/chat/completions"]
        assert list(_home(tmp_path).iterdir()) == []


def _home(folder: Path) -> Path:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return home


def _real_weights(request: pytest.FixtureRequest) -> Path | None:
    try:
        found: Path = request.getfixturevalue("real_data") / "weights"
    except pytest.skip.Exception:
        return None
    return found


def test_missing_weights_name_the_command_and_look_nowhere(run_offline: Callable[..., str]) -> None:
    """Every model of the roster that is not here says so without asking anybody."""
    code = (
        IMPORT
        + """
import os
from scene.errors import InputError
os.environ.pop("ADVSCENE_WEIGHTS", None)
said = 0
for row in list_victims():
    if row.ready or row.needs_location or row.entry.extra == "api":
        continue
    try:
        load_victim(row.name, "person")
    except InputError as error:
        assert "\\n" not in str(error)
        assert row.command and row.command in str(error), (row.name, str(error))
        said += 1
    else:
        raise AssertionError(row.name)
print(said)
"""
    )
    assert int(run_offline(code)) >= 9
