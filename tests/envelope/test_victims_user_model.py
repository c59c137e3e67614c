"""A person's own model by `module:factory`: it is found, its answers are checked, errors are clear."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from envelope.victims.registry import load_victim
from envelope.victims.user_model import is_user_spec
from scene.errors import InputError

HEAD = """
import numpy as np
from envelope.victims.protocols import Classification, Detections, Grounding, VictimInfo

def info(kind="detector", labels=("stop sign", "person"), size=(64, 48)):
    return VictimInfo("mine", kind, "mine", "here", size, 0.4, "w1", labels)

class Model:
    def __init__(self, kind="detector", answer=None, **rest):
        self.info = info(kind, **rest)
        self.answer = answer
    def predict(self, images):
        return [self.answer] * len(images)

BOX = Detections(np.array([[1, 2, 30, 40]]), np.array([0.8]), ("stop sign",))
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, name: str, body: str) -> str:
    (folder / f"{name}.py").write_text(HEAD + body)
    return name


IMAGES = np.zeros((2, 48, 64, 3), np.uint8)


def test_a_model_is_found_and_asked(models: Path) -> None:
    write(models, "um_plain", "def make(threshold='0.4'):\n    return Model(answer=BOX)\n")
    victim = load_victim("um_plain:make", "Stop-Sign")
    assert victim.info.name == "um_plain:make"
    assert victim.info.threshold == 0.4
    answers = victim.predict(IMAGES)
    assert len(answers) == 2
    assert answers[0].xyxy.tolist() == [[1, 2, 30, 40]]
    assert load_victim("um_plain:make?threshold=0.3").info.name == "um_plain:make?threshold=0.3"
    by_file = load_victim(f"{models / 'um_plain.py'}:make")
    assert len(by_file.predict(IMAGES)) == 2
    with pytest.raises(InputError, match="near names: stop sign"):
        load_victim("um_plain:make", "stop sing")


def test_the_hash_follows_code_and_weights(models: Path) -> None:
    body = """
import torch
class Net(Model):
    def __init__(self, seed):
        super().__init__(answer=BOX)
        torch.manual_seed(int(seed))
        self.net = torch.nn.Linear(2, 2)
def make(seed="0"):
    return Net(seed)
"""
    write(models, "um_hash", body)
    first, again, other = (
        load_victim(f"um_hash:make?seed={seed}").info.weights_hash for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other
    write(models, "um_hash2", body + "\n# another threshold\n")
    assert load_victim("um_hash2:make").info.weights_hash != first


def test_a_grounder_and_a_white_box(models: Path) -> None:
    write(models, "um_words", '''
class Words(Model):
    def prompt_for(self, label):
        return f"where is {label}?"
    def predict(self, images, prompt):
        assert prompt == "where is stop sign?"
        return [Grounding("1 2 3 4", (1, 2, 3, 4), "ok")] * len(images)
    def suppression_loss(self, images, label):
        return images.sum((1, 2, 3))
def make():
    return Words("grounder")
''')  # fmt: skip
    from envelope.victims.protocols import ask, takes_prompt

    victim = load_victim("um_words:make", "stop sign")
    assert takes_prompt(victim)
    assert hasattr(victim, "suppression_loss")
    assert ask(victim, IMAGES, "stop sign")[1].box == (1, 2, 3, 4)


MISTAKES = {
    "def make():\n    return 3\n": "returned a int without `info`",
    "def make():\n    m = Model(); m.info = {'name': 'x'}; return m\n": "without `info`",
    "class M:\n    info = info()\ndef make():\n    return M()\n": "has no predict",
    "def make():\n    return Model('segmenter')\n": "info.kind wants one of classifier, detector",
    "def make():\n    return Model('grounder')\n": "wants prompt_for(label)",
    "def make():\n    return Model(labels=())\n": "wants info.labels, or prompt_for",
    "def make():\n    return Model('classifier', labels=())\n": "a classifier wants info.labels",
    "def make():\n    return Model(size=(0, 4))\n": "info.input_size wants pixels",
    "def make(path):\n    return Model()\n": "make cannot be called with these options: missing",
    "make = 5\n": "wanted a function or class, found make = int",
    "def build():\n    return Model()\n": "has no 'make'; it has:",
    "import um_never_there\n": "needs the module 'um_never_there', which is not installed",
    "def make(:\n": "cannot be imported: ",
}


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_mistakes_of_loading(models: Path, number: int) -> None:
    body, message = list(MISTAKES.items())[number]
    name = write(models, f"um_bad{number}", body)
    with pytest.raises(InputError) as caught:
        load_victim(f"{name}:make")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


ANSWERS = {
    "None": "answer 0 is a NoneType; a detector wants to return",
    "[[1, 2, 3, 4]]": "answer 0 is a list",
    "Classification(('a', 'b'), np.array([0.5, 0.5]))": "is a Classification; a detector wants",
    "Detections(np.array([[0, 0, 2, 2]]), np.array([55.0]), ('person',))": "want 0..1, found 55",
}


@pytest.mark.parametrize("number", range(len(ANSWERS)))
def test_mistakes_of_answering(models: Path, number: int) -> None:
    body, message = list(ANSWERS.items())[number]
    name = write(models, f"um_odd{number}", f"def make():\n    return Model(answer={body})\n")
    victim = load_victim(f"{name}:make")
    with pytest.raises(InputError, match=r"um_odd\d:make") as caught:
        victim.predict(IMAGES)
    assert message in str(caught.value)


def test_wrong_counts_and_shapes(models: Path) -> None:
    write(models, "um_count", """
class Few(Model):
    def predict(self, images):
        return [BOX]
class Array(Model):
    def predict(self, images):
        return np.zeros((len(images), 6))
class Unsure(Model):
    def predict(self, images):
        return [Classification(self.info.labels, np.array([3.0, -1.0]))] * len(images)
def few(): return Few()
def array(): return Array()
def unsure(): return Unsure("classifier")
""")  # fmt: skip
    with pytest.raises(InputError, match="given 2 pictures and returned 1 answers"):
        load_victim("um_count:few").predict(IMAGES)
    with pytest.raises(InputError, match="wants to return a list of Detections, found ndarray"):
        load_victim("um_count:array").predict(IMAGES)
    with pytest.raises(InputError, match="probabilities want to sum to 1, found 2"):
        load_victim("um_count:unsure").predict(IMAGES)
    with pytest.raises(InputError, match="uint8 RGB"):
        load_victim("um_count:few").predict(IMAGES[0])


def test_what_is_no_module(models: Path) -> None:
    with pytest.raises(
        InputError, match=r"no Python module of that name is in .* or on PYTHONPATH"
    ):
        load_victim("um_nowhere:make")
    with pytest.raises(InputError, match=r"there is no file um_nowhere\.py"):
        load_victim("um_nowhere.py:make")
    with pytest.raises(InputError, match="there is no victim 'yolo99'; the victims are"):
        load_victim("yolo99")
    assert is_user_spec("a.b.c:make")
    assert is_user_spec("/x/y-z.py:Make")
    assert not is_user_spec("a-b:make")
    assert not is_user_spec("a:b.onnx")
    assert not is_user_spec("demo-detector")


@pytest.mark.parametrize(
    ("box", "name", "message"),
    [
        ([30, 2, 12, 40], "stop sign", r"xyxy, x0 <= x1 and y0 <= y1, found \[30, 2, 12, 40\]"),
        ([1, 2, 30, 40], "11", "names the class '11', which info.labels does not hold"),
    ],
)
def test_boxes_and_names_that_would_be_omissions(
    models: Path, box: list[int], name: str, message: str
) -> None:
    body = f"ODD = Detections(np.array([{box}]), np.array([0.8]), ({name!r},))\n"
    module = write(models, f"um_odd_{name[0]}", body + "def make(): return Model(answer=ODD)\n")
    with pytest.raises(InputError, match=message):
        load_victim(f"{module}:make").predict(IMAGES)


@pytest.mark.parametrize(
    ("box", "message"),
    [
        ("(30, 2, 12, 40)", r"xyxy, x0 <= x1 and y0 <= y1, found \[30, 2, 12, 40\]"),
        ("(0.1, 0.2, 0.5, 1.0)", "want pixels of the 64 x 48 picture, found numbers up to 1, as"),
        ("(1, 2, 30, float('nan'))", "finite"),
    ],
)
@pytest.mark.parametrize("kind", ["grounder", "detector"])
def test_boxes_that_are_no_pixels(models: Path, kind: str, box: str, message: str) -> None:
    """They would overlap nothing, and read as displacement in every picture."""
    made = f"Detections(np.array([{box}]), np.array([0.8]), ('person',))"
    if kind == "grounder":
        made = f"Grounding('', {box}, 'ok')"
    name = f"um_shares_{kind}_{len(message)}"
    write(models, name, f"""
class Asked(Model):
    def __init__(self):
        super().__init__({kind!r})
    def prompt_for(self, label): return label
    def predict(self, images, prompt=""): return [{made}] * len(images)
def make(): return Asked()
""")  # fmt: skip
    with pytest.raises(InputError, match=message):
        load_victim(f"{name}:make").predict(IMAGES, "person")


def test_a_box_in_the_corner_is_one(models: Path) -> None:
    body = "SMALL = Detections(np.array([[0, 0, 2, 1]]), np.array([0.8]), ('person',))\n"
    write(models, "um_corner", body + "def make(): return Model(answer=SMALL)\n")
    assert len(load_victim("um_corner:make").predict(IMAGES)[0]) == 1
