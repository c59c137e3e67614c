"""Training examples of the demo grounder: crops, windows of patches, questions and answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from envelope.victims.demo.dataset import Pictures
from envelope.victims.demo.grounder_model import (
    BOS,
    EOS,
    FIRST_LOCATION,
    GRID,
    IMAGE,
    PATCH,
    SIDE,
    vocabulary,
)
from envelope.victims.demo.signs import CLASSES, STOP

BINS = 64  # locations used in training: every 16th of the 1024, so that greedy decoding suffices
STEP = 1024 // BINS
_MIN_SIDE = 20.0  # smaller signs are neither asked for nor denied
_WORDS = {word: number for number, word in enumerate(vocabulary())}


@dataclass(frozen=True)
class Window:
    """A square of image patches: row, column and side in patches; GRID wide is the picture."""

    row: int
    column: int
    side: int

    @property
    def whole(self) -> bool:
        """Whether it is the whole picture."""
        return self.side == GRID

    def patches(self) -> torch.Tensor:
        """Numbers of its patches in the whole grid."""
        rows = torch.arange(self.row, self.row + self.side)
        columns = torch.arange(self.column, self.column + self.side)
        return (rows[:, None] * GRID + columns[None]).reshape(-1)


@dataclass(frozen=True)
class Sign:
    """A sign in the crop: class, xyxy pixels, and the visible share inside the window."""

    class_index: int
    xyxy: tuple[float, float, float, float]
    visible: float

    @property
    def side(self) -> float:
        """The longer side, pixels."""
        return max(self.xyxy[2] - self.xyxy[0], self.xyxy[3] - self.xyxy[1])


def random_window(rng: np.random.Generator, side: int) -> Window:
    """A window of `side` x `side` patches anywhere."""
    row, column = (int(v) for v in rng.integers(0, GRID - side + 1, 2))
    return Window(row, column, side)


def crops_at(
    pictures: Pictures, rng: np.random.Generator, count: int, window: Window
) -> tuple[torch.Tensor, list[list[Sign]]]:
    """`count` crops (B, 3, SIDE, SIDE) in [-1, 1] and the signs in them."""
    images, signs = [], []
    for picture, boxes in pictures.draw(rng, count):
        image, found = _crop(rng, picture, boxes, window)
        images.append(image)
        signs.append(found)
    pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float().div_(127.5).sub_(1)
    tint = 0.12 * rng.standard_normal((count, 3, 1, 1)) * rng.random((count, 1, 1, 1))
    return (pixels + torch.from_numpy(tint.astype(np.float32))).clamp_(-1, 1), signs


def _crop(
    rng: np.random.Generator,
    picture: NDArray[np.uint8],
    boxes: NDArray[np.float32],
    window: Window,
) -> tuple[NDArray[np.uint8], list[Sign]]:
    full = picture.shape[0]
    span = full if window.whole and rng.random() < 0.3 else full * rng.uniform(0.5, 1.0)
    zoom = SIDE / span
    left, top = rng.uniform(0, full - span, 2) if span < full else (0.0, 0.0)
    if not window.whole and len(boxes) and rng.random() < 0.9:  # put a sign into the window
        _, x0, y0, x1, y1 = (float(v) for v in boxes[rng.integers(len(boxes))])
        reach = window.side * PATCH
        zoom = min(zoom, reach * rng.uniform(0.5, 0.95) / max(x1 - x0, y1 - y0))
        free_x, free_y = reach - (x1 - x0) * zoom, reach - (y1 - y0) * zoom
        left = x0 - (window.column * PATCH + rng.uniform(0, free_x)) / zoom
        top = y0 - (window.row * PATCH + rng.uniform(0, free_y)) / zoom
    fill = tuple(int(v) for v in rng.integers(0, 256, 3))
    image = Image.fromarray(picture).transform(
        (SIDE, SIDE),
        Image.Transform.AFFINE,
        (1 / zoom, 0, left, 0, 1 / zoom, top),
        Image.Resampling.BILINEAR,
        fillcolor=fill,
    )
    signs = []
    for class_index, *corners in boxes:
        box = (np.array(corners).reshape(2, 2) - [left, top]) * zoom
        visible = _visible(box, window)
        if visible > 0.02:
            x0, y0, x1, y1 = (float(v) for v in np.clip(box, 0, SIDE).reshape(-1))
            signs.append(Sign(int(class_index), (x0, y0, x1, y1), visible))
    return np.asarray(image), signs


def _visible(box: NDArray[np.float64], window: Window) -> float:
    low = np.array([window.column, window.row]) * PATCH
    high = low + window.side * PATCH
    inside = np.clip(np.minimum(box[1], high) - np.maximum(box[0], low), 0, None)
    return float(np.prod(inside) / max(np.prod(box[1] - box[0]), 1e-6))


def questions(
    rng: np.random.Generator, signs: Sequence[Sign], window: Window, absent_share: float = 0.4
) -> list[tuple[int, Sign | None]]:
    """Which classes to ask of one crop, each with the sign to answer (None: it is not there).

    Signs cut by the window or too small make their class ambiguous: it is not asked.
    """
    needed = 0.6 if window.whole else 0.85
    clear = [s for s in signs if s.visible > needed and s.side >= _MIN_SIDE]
    unclear = {s.class_index for s in signs} - {s.class_index for s in clear}
    unclear |= {s.class_index for s in signs if s not in clear}
    present = sorted({s.class_index for s in clear} - unclear)
    absent = [c for c in range(len(CLASSES)) if c not in present and c not in unclear]
    asked: list[tuple[int, Sign | None]] = []
    if present:
        chosen = STOP if STOP in present and rng.random() < 0.6 else int(rng.choice(present))
        own = [s for s in clear if s.class_index == chosen]
        asked.append((chosen, max(own, key=_area)))
    if absent and (not present or rng.random() < absent_share):
        asked.append(
            (STOP if STOP in absent and rng.random() < 0.5 else int(rng.choice(absent)), None)
        )
    if window.whole and len(asked) > 1:  # whole pictures are dear: one question each
        asked = [asked[0] if rng.random() < 0.75 else asked[1]]
    return asked


def _area(sign: Sign) -> float:
    x0, y0, x1, y1 = sign.xyxy
    return (x1 - x0) * (y1 - y0)


def location(pixels: float) -> int:
    """A coordinate in crop pixels -> the location value (a multiple of STEP, at most 1023)."""
    return min(round(pixels / SIDE * BINS) * STEP, 1023)


def answer_ids(class_index: int, sign: Sign | None) -> list[int]:
    """The answer's token numbers, with the end."""
    if sign is None:
        return [EOS]
    x0, y0, x1, y1 = sign.xyxy
    places = [FIRST_LOCATION + location(value) for value in (y0, x0, y1, x1)]
    return [*places, *word_ids(CLASSES[class_index]), EOS]


def word_ids(words: str) -> list[int]:
    """Token numbers of plain words."""
    return [_WORDS[word] for word in words.split()]


def prompt_ids(class_index: int) -> list[int]:
    """What the processor makes of `detect <class>`: beginning, words, end of line."""
    return [BOS, *word_ids(f"detect {CLASSES[class_index]}"), _WORDS["\n"]]


@dataclass(frozen=True, eq=False)
class Texts:
    """A packed batch of Q questions: image patches first, then prompt and answer, padded right.

    ids, mask, types, labels: (Q, T) int64; types 0 in the prefix, 1 in the answer.
    labels: -100 where nothing is learnt. crops: (Q,) the crop that each question is about.
    positions: (1, T) as the whole picture's sequence would number them.
    """

    ids: torch.Tensor
    mask: torch.Tensor
    types: torch.Tensor
    labels: torch.Tensor
    crops: torch.Tensor
    positions: torch.Tensor


def packed(asked: Sequence[tuple[int, int, Sign | None]], window: Window) -> Texts:
    """asked: (crop number, class, sign or None) per question."""
    prompts = [prompt_ids(class_index) for _, class_index, _ in asked]
    answers = [answer_ids(class_index, sign) for _, class_index, sign in asked]
    count = window.side * window.side
    length = max(len(p) + len(a) for p, a in zip(prompts, answers, strict=True))
    shape = (len(asked), count + length)
    ids, mask, types = (torch.zeros(shape, dtype=torch.long) for _ in range(3))
    labels = torch.full(shape, -100)
    ids[:, :count] = IMAGE
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        end = count + len(prompt) + len(answer)
        ids[row, count:end] = torch.tensor(prompt + answer)
        mask[row, :end] = 1
        types[row, count + len(prompt) :] = 1
        labels[row, count + len(prompt) : end] = torch.tensor(answer)
    after = torch.arange(GRID * GRID, GRID * GRID + length)
    positions = torch.cat([window.patches(), after])[None] + 1
    return Texts(ids, mask, types, labels, torch.tensor([a[0] for a in asked]), positions)


def dense_targets(
    signs: Sequence[Sequence[Sign]], window: Window
) -> tuple[torch.Tensor, torch.Tensor]:
    """Per patch of the window: class (B, P), 0 = none, and distances l, t, r, b (B, P, 4)."""
    classes = torch.zeros(len(signs), GRID, GRID, dtype=torch.long)
    sides = torch.zeros(len(signs), GRID, GRID, 4)
    centers = (torch.arange(GRID) + 0.5) / GRID
    for number, found in enumerate(signs):
        for sign in sorted(found, key=_area, reverse=True):
            if sign.visible < 0.3:
                continue
            x0, y0, x1, y1 = (value / SIDE for value in sign.xyxy)
            rows, columns = _cells(centers, y0, y1), _cells(centers, x0, x1)
            cells = rows[:, None] & columns[None]
            reach = torch.stack(
                [
                    (centers - x0)[None].expand(GRID, GRID),
                    (centers - y0)[:, None].expand(GRID, GRID),
                    (x1 - centers)[None].expand(GRID, GRID),
                    (y1 - centers)[:, None].expand(GRID, GRID),
                ],
                dim=-1,
            )
            classes[number][cells] = sign.class_index + 1
            sides[number][cells] = reach[cells]
    patches = window.patches()
    return classes.flatten(1)[:, patches], sides.flatten(1, 2)[:, patches]


def _cells(centers: torch.Tensor, low: float, high: float) -> torch.Tensor:
    inside = (centers > low) & (centers < high)
    if not inside.any():
        inside[min(GRID - 1, int((low + high) / 2 * GRID))] = True
    return inside
