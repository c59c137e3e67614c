"""Which edits make a person's own model another model: answers must not outlive what made them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envelope.victims.registry import load_victim

HEAD = """
import numpy as np
from envelope.victims.protocols import Detections, VictimInfo

class Model:
    def __init__(self):
        self.info = VictimInfo("mine", "detector", "mine", "here", (64, 48), 0.4, "w1", ("a",))
    def predict(self, images):
        return [Detections(np.zeros((0, 4)), np.zeros(0), ())] * len(images)
"""


@pytest.fixture
def hash_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """The hash of a spec as a fresh process would find it: modules of the folder are forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def forget() -> None:
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
                del sys.modules[name]
        sys.path_importer_cache.clear()

    def found(spec: str) -> str:
        forget()
        return load_victim(spec).info.weights_hash

    yield found
    forget()


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "used", ["import helping.rules", "from helping import rules", "from helping.rules import EDGE"]
)
@pytest.mark.parametrize("inside", [False, True])
def test_helper_modules_count(
    tmp_path: Path, hash_of: Callable[[str], str], used: str, inside: bool
) -> None:
    """At the top or inside a method, one that another helper imports, and a package's own file."""
    late = f"    def later(self):\n        {used}\n"
    write(
        tmp_path / "mine.py",
        HEAD + (late if inside else f"{used}\n") + "def make(): return Model()\n",
    )
    package = write(tmp_path / "helping" / "__init__.py", "")
    rules = write(tmp_path / "helping" / "rules.py", "from . import deeper\nEDGE = 1\n")
    deeper = write(tmp_path / "helping" / "deeper.py", "import sys, os.path\n")
    other = write(tmp_path / "helping" / "unused.py", "A = 1\n")
    for spec in ("mine:make", f"{tmp_path / 'mine.py'}:make"):
        seen = [hash_of(spec)]
        for path in (package, rules, deeper):
            write(path, path.read_text() + "# edited\n")
            seen.append(hash_of(spec))
        assert len(set(seen)) == 4
        write(other, other.read_text() + "# edited\n")
        assert hash_of(spec) == seen[-1]


def test_relative_imports_of_a_package(tmp_path: Path, hash_of: Callable[[str], str]) -> None:
    write(tmp_path / "models" / "__init__.py", "")
    write(tmp_path / "models" / "nets" / "__init__.py", "")
    helper = write(tmp_path / "models" / "common.py", "A = 1\n")
    text = HEAD + "from ..common import A\nfrom .. import common\ndef make(): return Model()\n"
    write(tmp_path / "models" / "nets" / "main.py", text)
    before = hash_of("models.nets.main:make")
    write(helper, "A = 2\n")
    assert hash_of("models.nets.main:make") != before


def test_a_package_that_is_installed(tmp_path: Path, hash_of: Callable[[str], str]) -> None:
    """The factory's own package counts wherever it is; what is installed beside it does not."""
    place = tmp_path / "site-packages"
    sys.path.append(str(place))
    write(place / "ours" / "__init__.py", "")
    helper = write(place / "ours" / "helper.py", "A = 1\n")
    beside = write(place / "others.py", "A = 1\n")
    text = HEAD + "from ours import helper\nimport others, numpy\ndef make(): return Model()\n"
    write(place / "ours" / "main.py", text)
    first = hash_of("ours.main:make")
    write(beside, "A = 2\n")
    assert hash_of("ours.main:make") == first
    write(helper, "A = 2\n")
    assert hash_of("ours.main:make") != first


def test_the_hash_does_not_depend_on_what_else_is_loaded(
    tmp_path: Path, hash_of: Callable[[str], str]
) -> None:
    import app.victim_desk  # noqa: F401

    write(tmp_path / "unrelated.py", "A = 1\n")
    write(tmp_path / "mine.py", HEAD + "from helper import *\ndef make(): return Model()\n")
    write(tmp_path / "helper.py", "import envelope.outcome\n")
    first = hash_of("mine:make")
    __import__("unrelated")
    assert hash_of("mine:make") == first
    write(tmp_path / "helper.py", "import envelope.outcome, torch\n")  # only its text changes
    assert hash_of("mine:make") != first


def test_modules_beside_a_file_are_found(
    tmp_path: Path, hash_of: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when Python runs the file, wherever we are; they were not before."""
    write(tmp_path / "far" / "mine.py", HEAD + "from beside import A\ndef make(): return Model()\n")
    beside = write(tmp_path / "far" / "beside.py", "A = 1\n")
    first = hash_of("far/mine.py:make")
    write(beside, "A = 2\n")
    assert hash_of("far/mine.py:make") != first


NESTED = """
import torch
from envelope.victims.registry import load_victim
class Holder:
    def __init__(self, value):
        self.net = torch.nn.Linear(2, 2).to(torch.bfloat16)
        torch.nn.init.constant_(self.net.weight, value)
        torch.nn.init.constant_(self.net.bias, 0)
def make(place="", value="1", weights=""):
    model, held = Model(), Holder(float(value))
    model.big = {str(number): number for number in range(5000)}
    model.held = {"": held, "list": [held], "dict": {"a": {"b": held}}, "bound": held.net.forward}[place]
    return model
def wrapped(iou="0.5"):
    model = Model()
    model.inner = load_victim("demo-detector")
    model.inner.info = __import__("dataclasses").replace(model.inner.info, settings={"iou": iou})
    return model
"""


@pytest.mark.parametrize("place", ["", "list", "dict", "bound"])
def test_networks_inside_a_model_count(
    tmp_path: Path, hash_of: Callable[[str], str], place: str
) -> None:
    """The same code with other weights: of a network in an object, a list, a dict, a method."""
    write(tmp_path / "nested.py", HEAD + NESTED)
    (tmp_path / "value.txt").write_text("1")
    body = f"def one(): return make({place!r}, open('value.txt').read())\n"
    write(tmp_path / "nested.py", HEAD + NESTED + body)
    first = hash_of("nested:one")
    assert hash_of("nested:one") == first
    (tmp_path / "value.txt").write_text("2")
    assert hash_of("nested:one") != first


def test_another_victim_inside_counts(tmp_path: Path, hash_of: Callable[[str], str]) -> None:
    body = "def one(): return wrapped(open('value.txt').read())\n"
    write(tmp_path / "nested.py", HEAD + NESTED + body)
    seen = []
    for value in ("0.5", "0.5", "0.6"):
        (tmp_path / "value.txt").write_text(value)
        seen.append(hash_of("nested:one"))
    assert seen[0] == seen[1] != seen[2]


def test_the_hash_follows_options_and_the_files_they_name(
    tmp_path: Path, hash_of: Callable[[str], str]
) -> None:
    write(tmp_path / "nested.py", HEAD + NESTED)
    (tmp_path / "a.pt").write_bytes(b"one")
    (tmp_path / "b.pt").write_bytes(b"one")
    first = hash_of("nested:make?weights=a.pt")
    assert hash_of("nested:make?weights=a.pt") == first
    assert hash_of("nested:make?weights=b.pt") != first
    (tmp_path / "a.pt").write_bytes(b"two")
    assert hash_of("nested:make?weights=a.pt") != first
