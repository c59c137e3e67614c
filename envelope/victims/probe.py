"""Shows a victim an object at known places and says whether its answers land there.

Where they do not, it says which convention of writing boxes would fit, and whether the victim
sees red and blue the right way round.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from envelope.outcome import Answer, iou, read_answer
from envelope.victims.conventions import AS_IS, Box, Fit, Frame, best_fit
from envelope.victims.names import same_class
from envelope.victims.probe_pictures import KnownPicture
from envelope.victims.protocols import Victim, ask, takes_prompt

LANDS = 0.5
"""Least IoU with the known box."""

CLEARLY_BETTER = 0.05
"""By how much another convention's mean IoU must be higher to be named."""

_FOUR = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Look:
    """One picture: where the object is, what was answered, and how well that overlaps."""

    place: str
    truth: Box
    answer: Box | None
    overlap: float
    confidence: float
    said: str


@dataclass(frozen=True)
class ProbeReport:
    """What a probe found.

    verdict: one sentence. lands: every found box has IoU >= 0.5, and most pictures have one.
    fit: the convention that explains the answers best, None without boxes. swapped_colors: the
    victim does clearly better when red and blue are exchanged. seconds: per picture, after the
    first call.
    """

    victim: str
    kind: str
    label: str
    lands: bool
    verdict: str
    looks: tuple[Look, ...]
    fit: Fit | None
    swapped_colors: bool
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def probe(victim: Victim, label: str, pictures: Sequence[KnownPicture]) -> ProbeReport:
    """Ask about every picture and compare. Calls the victim three times."""
    images = np.stack([picture.rgb for picture in pictures])
    ask(victim, images[:1], label)  # first calls compile and allocate
    start = time.perf_counter()
    answers = _answers(victim, images, label)
    seconds = (time.perf_counter() - start) / len(images)
    exchanged = _answers(victim, np.ascontiguousarray(images[..., ::-1]), label)
    swapped = _surety(exchanged, label) > _surety(answers, label) + 0.1
    looks = tuple(_look(picture, answer) for picture, answer in zip(pictures, answers, strict=True))
    if victim.info.kind == "classifier":
        lands, verdict = _named(answers, label)
        fit = None
    else:
        lands, verdict, fit = _judged(victim, answers, looks, images.shape[2], images.shape[1])
    if swapped:
        verdict += "; it does better with red and blue exchanged: it may want BGR"
    return ProbeReport(
        victim.info.name, victim.info.kind, label, lands and not swapped, verdict, looks, fit,
        swapped, seconds,
    )  # fmt: skip


def _answers(victim: Victim, images: Any, label: str) -> list[Answer]:
    words = takes_prompt(victim) and victim.info.kind == "detector"
    return [
        read_answer(prediction, label, open_vocabulary=words)
        for prediction in ask(victim, images, label)
    ]


def _surety(answers: Sequence[Answer], label: str) -> float:
    """Mean confidence in the class over the pictures, 0 where it is not found."""
    found = []
    for answer in answers:
        if answer.kind == "classifier":
            found.append(sum(p for name, p in answer.top if same_class(name, label)))
        else:
            found.append(answer.boxes[0].confidence if answer.boxes else 0.0)
    return float(np.mean(found))


def _look(picture: KnownPicture, answer: Answer) -> Look:
    if answer.kind == "classifier":
        name, share = answer.top[0] if answer.top else ("", 0.0)
        return Look(picture.place, picture.box, None, 0.0, share, name)
    box = answer.boxes[0] if answer.boxes else None
    overlap = float(iou(box.xyxy, picture.box)[0]) if box else 0.0
    said = answer.raw_text or answer.status
    confidence = box.confidence if box else 0.0
    return Look(picture.place, picture.box, box.xyxy if box else None, overlap, confidence, said)


def _named(answers: Sequence[Answer], label: str) -> tuple[bool, str]:
    right = sum(bool(a.top) and same_class(a.top[0][0], label) for a in answers)
    most = right * 2 > len(answers)
    return most, f"names the picture {label!r} first in {right} of {len(answers)} pictures"


def _judged(
    victim: Victim, answers: Sequence[Answer], looks: Sequence[Look], width: int, height: int
) -> tuple[bool, str, Fit | None]:
    frame = Frame(width, height, *victim.info.input_size)
    found = [look for look in looks if look.answer is not None]
    if found:
        boxes = [look.answer for look in found if look.answer is not None]
        plain, best = best_fit(boxes, [look.truth for look in found], frame)
        if plain.least >= LANDS and best.mean <= plain.mean + CLEARLY_BETTER:
            return _landed(plain, len(found), len(looks))
        if best.mean > plain.mean + CLEARLY_BETTER and best.mean >= LANDS:
            return False, _other(plain, best), best
    raw = _raw_numbers(answers, looks)
    if raw is not None:
        _, best = best_fit([four for four, _ in raw], [truth for _, truth in raw], frame)
        if best.mean >= LANDS:
            how = f"fits {best.convention} (mean IoU {best.mean:.2f})"
            return False, f"its text is not read as a box that lands, but {how}", best
    if not found:
        return False, f"finds no box of the class in any of {len(looks)} pictures", None
    lands = sum(look.overlap >= LANDS for look in looks)
    return (
        False,
        f"lands in {lands} of {len(looks)} pictures (mean IoU {plain.mean:.2f}) and no other "
        f"convention fits",
        plain,
    )


def _landed(plain: Fit, found: int, count: int) -> tuple[bool, str, Fit]:
    where = f"in {found} of {count} pictures, mean IoU {plain.mean:.2f}"
    if found * 2 > count:
        return True, f"lands {where}", plain
    return False, f"finds the object too rarely to say: {where}", plain


def _other(plain: Fit, best: Fit) -> str:
    how = "misses" if plain.least < LANDS else "lands, but inexactly"
    return (
        f"{how} (mean IoU {plain.mean:.2f} as {AS_IS}); its answers fit {best.convention} "
        f"(mean IoU {best.mean:.2f})"
    )


def _raw_numbers(answers: Sequence[Answer], looks: Sequence[Look]) -> list[tuple[Box, Box]] | None:
    """First four numbers of each text that has them, with the truth; None with too few."""
    pairs = []
    for answer, look in zip(answers, looks, strict=True):
        numbers = [float(n) for n in _FOUR.findall(answer.raw_text)]
        if len(numbers) >= 4:
            pairs.append(((numbers[0], numbers[1], numbers[2], numbers[3]), look.truth))
    return pairs if len(pairs) * 2 > len(answers) else None
