"""What differs between families of grounding models, as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from envelope.victims.conventions import Frame
from envelope.victims.grammars import Reading
from envelope.victims.names import normalised
from scene.errors import InputError

Box = tuple[float, float, float, float]

VARIANTS = ("native", "p1", "p2", "p3")


@dataclass(frozen=True)
class Prompts:
    """How a family is asked for one class; {label} stands for its name.

    native: as the model's own page asks. paraphrases: three of our own that ask for the same.
    """

    native: str
    paraphrases: tuple[str, str, str]

    def of(self, variant: str, label: str) -> str:
        """The prompt of a variant (native, p1, p2, p3) for a class."""
        texts = dict(zip(VARIANTS, (self.native, *self.paraphrases), strict=True))
        if variant not in texts:
            raise InputError(f"prompt: wanted {', '.join(VARIANTS)}, found {variant!r}")
        return texts[variant].replace("{label}", normalised(label))


@dataclass(frozen=True)
class Written:
    """An answer as the model writes it: before the box, the box's own text, and after it."""

    opening: str
    box: str
    closing: str = ""


@dataclass(frozen=True)
class Family:
    """One family.

    name: what stands before the colon of a spec. title: for people.
    model_types: of its checkpoints' config.json. prompts: see `Prompts`.
    reads: (answer, frame) -> box in pixels of the picture; frame: the picture's size and that of
    the picture as the model's processor resized it. writes: (class, box in pixels of the picture,
    frame) -> the answer with that box.
    convention: what the numbers mean; evidence: how that is known.
    gated: the answer opens with a token without which there is no box; it counts to the loss.
    max_new_tokens: enough for one box with its label. template: options of the chat template.
    seen: size (width, height) -> (width, height) to which the family's processor resizes, for a
    model behind an address; None where the scale does not depend on it.
    """

    name: str
    title: str
    model_types: tuple[str, ...]
    prompts: Prompts
    reads: Callable[[str, Frame], Reading]
    writes: Callable[[str, Box, Frame], Written]
    convention: str
    evidence: str
    gated: bool = False
    max_new_tokens: int = 128
    template: Mapping[str, object] = field(default_factory=dict)
    seen: Callable[[tuple[int, int]], tuple[int, int]] | None = None

    def frame_at(self, size: tuple[int, int], shown: tuple[int, int]) -> Frame:
        """The frame of a picture of `size` (width, height) that is sent as `shown`."""
        return Frame(*size, *(self.seen(shown) if self.seen else shown))


def thousandths(box: Box, frame: Frame) -> tuple[int, int, int, int]:
    """A box in pixels of the picture -> whole thousandths of its width and height."""
    return scaled(box, frame, 1000, 1000)


def scaled(box: Box, frame: Frame, x: float, y: float) -> tuple[int, int, int, int]:
    """A box in pixels of the picture -> whole numbers, (x, y) being the picture's far corner."""
    x0, y0, x1, y1 = box
    return (
        round(x0 / frame.width * x), round(y0 / frame.height * y),
        round(x1 / frame.width * x), round(y1 / frame.height * y),
    )  # fmt: skip
