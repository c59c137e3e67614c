"""Import and first call of every victim with the network cut: no look-up, no telemetry."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable
from pathlib import Path

import pytest


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
    swallowed = "import socket\ntry: socket.create_connection(('10.0.0.1', 80), 1)\nexcept OSError: pass"
    with pytest.raises(AssertionError, match=r"reached outside.*10\.0\.0\.1"):
        run_offline(swallowed)
    assert run_offline("print('fine')") == "fine\n"


IMPORT = """
import numpy as np
from envelope.victims.protocols import ask
from envelope.victims.registry import list_victims, load_victim
picture = np.random.default_rng(0).integers(0, 256, (1, 90, 160, 3)).astype(np.uint8)
"""


def test_import_and_first_call(
    run_offline: Callable[..., str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The demo victims, ONNX, ultralytics' checkpoints and exports, YOLO-World, one's own module."""
    if importlib.util.find_spec("ultralytics") is None:
        pytest.skip("the extra yolo is not installed")
    from test_victims_onnx import classifier_file, labels_file
    from ultralytics_fakes import make

    labels = labels_file(tmp_path, "red", "green", "blue")
    (tmp_path / "own_offline.py").write_text(
        "from envelope.victims.registry import load_victim\n"
        "def make():\n    return load_victim('demo-detector')\n"
    )
    specs = [
        "demo-detector", "demo-classifier", "demo-grounder",
        f"{tmp_path / 'own_offline.py'}:make",
        f"ultralytics:{make(tmp_path, 'v8')}?size=160",
        f"yolo-world:{make(tmp_path, 'world')}?size=160",
        f"onnx-classifier:{classifier_file(tmp_path / 'c.onnx')}?labels={labels}",
        *_real_exports(request),
    ]  # fmt: skip
    code = IMPORT + f"""
for spec in {specs!r}:
    victim = load_victim(spec)
    print(len(ask(victim, picture, (victim.info.labels or ["stop sign"])[0])))
from pathlib import Path
import os
assert "cache" in os.environ["YOLO_CONFIG_DIR"], os.environ["YOLO_CONFIG_DIR"]
assert not (Path.home() / ".config" / "Ultralytics").exists()
"""
    answers = run_offline(code, XDG_CACHE_HOME=str(tmp_path / "cache")).split()
    assert answers == ["1"] * len(specs)


def _real_exports(request: pytest.FixtureRequest) -> list[str]:
    try:
        weights = request.getfixturevalue("real_data") / "weights"
    except pytest.skip.Exception:
        return []
    return [
        f"onnx:{weights}/fastestdet/FastestDet.onnx",
        f"ultralytics:{weights}/yolov8n-int8/yolov8n_int8.onnx",
    ]


def test_missing_weights_name_the_command_and_look_nowhere(run_offline: Callable[..., str]) -> None:
    """Every model of the roster that is not here says so without asking anybody."""
    code = IMPORT + """
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
    assert int(run_offline(code)) >= 9
