"""Pictures made once and kept on disk, so that several trainings can read them.

A source is a pure function (seed, index) -> Picture. Chunks are written whole (a temporary file,
then a rename), so an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from envelope.victims.demo.pictures import Picture

CHUNK = 200
MAX_BOXES = 4
Source = Callable[[int, int], Picture]
Report = Callable[[str, int, int], None]
Row = tuple[NDArray[np.uint8], NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class PictureSet:
    """images: chunks (n, S, S, 3) uint8. boxes: chunks (n, MAX_BOXES, 5) float32.

    A row of boxes is class, x0, y0, x1, y1 in pixels; class -1 marks an unused row.
    """

    images: tuple[NDArray[np.uint8], ...]
    boxes: tuple[NDArray[np.float32], ...]

    def __len__(self) -> int:
        return sum(len(chunk) for chunk in self.images)

    def __getitem__(self, index: int) -> Row:
        """Picture (S, S, 3) and its boxes (n, 5)."""
        chunk, row = divmod(index, len(self.images[0]))
        boxes = self.boxes[chunk][row]
        return self.images[chunk][row], boxes[boxes[:, 0] >= 0]

    def draw(self, rng: np.random.Generator, count: int) -> list[Row]:
        """`count` pictures by chance, in the order they lie on disk."""
        rows = np.sort(rng.choice(len(self), count, replace=len(self) < count))
        return [self[int(row)] for row in rows]


@dataclass(frozen=True, eq=False)
class Mixture:
    """Several sets drawn from with fixed shares, whatever their sizes."""

    sets: tuple[PictureSet, ...]
    shares: tuple[float, ...]

    def draw(self, rng: np.random.Generator, count: int) -> list[Row]:
        """`count` pictures; how many come from each set is drawn too."""
        shares = np.asarray(self.shares) / sum(self.shares)
        counts = rng.multinomial(count, shares)
        rows: list[Row] = []
        for own, number in zip(self.sets, counts, strict=True):
            rows += own.draw(rng, int(number)) if number else []
        return rows


Pictures = PictureSet | Mixture


def packed_boxes(pictures: Sequence[Picture]) -> NDArray[np.float32]:
    """(n, MAX_BOXES, 5) rows of class, x0, y0, x1, y1; class -1 where a picture has fewer."""
    rows = np.full((len(pictures), MAX_BOXES, 5), -1, np.float32)
    for number, picture in enumerate(pictures):
        for slot, box in enumerate(picture.boxes[:MAX_BOXES]):
            rows[number, slot] = (box.class_index, *box.xyxy)
    return rows


def make_set(source: Source, seed: int, count: int) -> PictureSet:
    """A set in memory, for tests and small studies."""
    pictures = [source(seed, index) for index in range(count)]
    return PictureSet((np.stack([p.rgb for p in pictures]),), (packed_boxes(pictures),))


def cached_set(
    folder: Path, name: str, source: Source, seed: int, count: int, report: Report | None = None
) -> PictureSet:
    """The set `name` of `count` pictures (rounded up to whole chunks), made where missing."""
    folder.mkdir(parents=True, exist_ok=True)
    images, boxes = [], []
    for start in range(0, count, CHUNK):
        picture_path = folder / f"{name}-{seed}-{start:06d}.npy"
        box_path = picture_path.with_suffix(".boxes.npy")
        if not (picture_path.exists() and box_path.exists()):
            pictures = [source(seed, index) for index in range(start, start + CHUNK)]
            _save(box_path, packed_boxes(pictures))
            _save(picture_path, np.stack([picture.rgb for picture in pictures]))
        if report is not None:
            report(f"pictures {name}", start + CHUNK, count)
        images.append(np.load(picture_path, mmap_mode="r"))
        boxes.append(np.load(box_path))
    return PictureSet(tuple(images), tuple(boxes))


def _save(path: Path, array: NDArray[np.generic]) -> None:
    temporary = path.with_name(path.name + ".part")
    with temporary.open("wb") as stream:
        np.save(stream, array)
    os.replace(temporary, path)
