"""How good the demo victims are on pictures they have not seen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envelope.victims.demo.dataset import PictureSet
from envelope.victims.demo.pictures import PictureSettings, make_picture
from envelope.victims.demo.signs import CLASSES, STOP
from envelope.victims.demo.train_classifier import crops_at
from envelope.victims.protocols import Classifier, Detections, Detector, Grounder

_BATCH = 16


def iou(first: Sequence[float], second: Sequence[float]) -> float:
    """Intersection over union of two xyxy boxes."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    shared = max(0.0, width) * max(0.0, height)
    areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in (first, second)]
    return float(shared / max(areas[0] + areas[1] - shared, 1e-9))


def detect_all(victim: Detector, pictures: PictureSet) -> list[Detections]:
    """The detector's answers for every picture of a set."""
    answers: list[Detections] = []
    for start in range(0, len(pictures), _BATCH):
        rows = range(start, min(start + _BATCH, len(pictures)))
        answers += victim.predict(np.stack([pictures[row][0] for row in rows]))
    return answers


def scored_hits(
    answers: Sequence[Detections],
    truths: Sequence[NDArray[np.float32]],
    class_index: int,
    overlap: float = 0.5,
) -> tuple[list[tuple[float, bool]], int]:
    """Every box of a class as (confidence, whether it finds a sign), best first; and the signs.

    truths: per picture (n, 5) rows of class, x0, y0, x1, y1. A sign is found once.
    """
    hits: list[tuple[float, bool]] = []
    total = 0
    for answer, truth in zip(answers, truths, strict=True):
        targets = [row[1:] for row in truth if int(row[0]) == class_index]
        total += len(targets)
        found: set[int] = set()
        own = answer.of_label(CLASSES[class_index])
        for box, confidence in zip(own.xyxy, own.confidences, strict=True):
            overlaps = [iou(box, target) for target in targets]
            best = int(np.argmax(overlaps)) if overlaps else -1
            hit = best >= 0 and overlaps[best] >= overlap and best not in found
            if hit:
                found.add(best)
            hits.append((float(confidence), hit))
    hits.sort(key=lambda item: -item[0])
    return hits, total


def average_precision(
    answers: Sequence[Detections],
    truths: Sequence[NDArray[np.float32]],
    class_index: int,
    overlap: float = 0.5,
) -> float:
    """Average precision of one class at one IoU, 101-point interpolation as in COCO."""
    hits, total = scored_hits(answers, truths, class_index, overlap)
    if not hits or total == 0:
        return 0.0
    true = np.cumsum([hit for _, hit in hits])
    precision = np.maximum.accumulate((true / np.arange(1, len(true) + 1))[::-1])[::-1]
    recall = true / total
    levels = np.linspace(0, 1, 101)
    at = np.searchsorted(recall, levels)
    return float(np.mean([precision[i] if i < len(precision) else 0.0 for i in at]))


def localized(answer: Detections, label: str, box: Sequence[float], threshold: float) -> bool:
    """Whether the most confident box of the class, at least `threshold`, overlaps `box` >= 0.5."""
    own = answer.of_label(label)
    return bool(
        len(own) and float(own.confidences[0]) >= threshold and iou(own.xyxy[0], box) >= 0.5
    )


def detector_figures(victim: Detector, pictures: PictureSet) -> dict[str, Any]:
    """Average precision at IoU 0.5 of every class that occurs, and their mean."""
    answers = detect_all(victim, pictures)
    truths = [pictures[row][1] for row in range(len(pictures))]
    present = sorted({int(row[0]) for truth in truths for row in truth})
    each = {CLASSES[c]: round(average_precision(answers, truths, c), 4) for c in present}
    mean = round(float(np.mean(list(each.values()))), 4) if each else 0.0
    return {"ap50": each, "mean_ap50": mean, "pictures": len(pictures)}


def stop_sign_rates(victim: Detector, seed: int, count: int) -> dict[str, float]:
    """Share of single stop signs, 30-280 px high, that are localized clean and with a gray square.

    The same pictures both times; the square covers 15, 20, 25 or 30 % of the face.
    """
    hits: dict[str, list[bool]] = {"clean": [], "gray": []}
    for index in range(count):
        height = float(
            np.exp(np.random.default_rng([seed, index]).uniform(np.log(30), np.log(280)))
        )
        for name, gray in (("clean", 0.0), ("gray", 0.15 + 0.05 * (index % 4))):
            settings = PictureSettings(
                signs=1, class_index=STOP, height=height, sticker=0.0, gray=gray
            )
            picture = make_picture(seed, index, settings)
            if picture.boxes:
                answer = victim.predict(picture.rgb[None])[0]
                box = picture.boxes[0].xyxy
                hits[name].append(localized(answer, CLASSES[STOP], box, victim.info.threshold))
    return {name: round(float(np.mean(rows)), 4) for name, rows in hits.items() if rows}


def photo_hits(victim: Detector, folder: Path) -> dict[str, int]:
    """Of close-up photos that a stop sign fills: in how many it is found (IoU >= 0.5)."""
    from PIL import Image

    paths = sorted(folder.glob("*.png"))
    found = 0
    for path in paths:
        photo = np.asarray(Image.open(path).convert("RGB"))
        height, width = photo.shape[:2]
        answer = victim.predict(photo[None])[0]
        found += localized(answer, CLASSES[STOP], (0, 0, width, height), victim.info.threshold)
    return {"found": found, "photos": len(paths)}


def classifier_figures(victim: Classifier, pictures: PictureSet, count: int) -> dict[str, float]:
    """Accuracy over crops, and the share of stop signs that are named so."""
    rng = np.random.default_rng(0)
    right: list[bool] = []
    stops: list[bool] = []
    for start in range(0, count, _BATCH):
        images, labels = crops_at(pictures, rng, min(_BATCH, count - start), 224)
        shown = (images.permute(0, 2, 3, 1).numpy() * 255).round().astype(np.uint8)
        for answer, label in zip(victim.predict(shown), labels.tolist(), strict=True):
            correct = answer.top == victim.info.labels[label]
            right.append(correct)
            if label == STOP:
                stops.append(correct)
    return {
        "accuracy": round(float(np.mean(right)), 4),
        "stop_recall": round(float(np.mean(stops)), 4) if stops else 0.0,
        "crops": len(right),
    }


def grounder_figures(victim: Grounder, pictures: PictureSet) -> dict[str, float]:
    """Greedy boxes of every class asked of pictures that have it, and of stop signs that are not.

    Sizes are those in the model's own input; IoU against the largest sign of the class counts.
    """
    side = victim.info.input_size[0]
    rows: list[tuple[int, float, float]] = []
    silent: list[bool] = []
    for row in range(len(pictures)):
        picture, boxes = pictures[row]
        asked = sorted({int(box[0]) for box in boxes} | {STOP})
        prompts = [victim.prompt_for(CLASSES[c]) for c in asked]
        answers = victim.predict(np.repeat(picture[None], len(asked), axis=0), prompts)
        for class_index, answer in zip(asked, answers, strict=True):
            own = [box[1:] for box in boxes if int(box[0]) == class_index]
            if not own:
                silent.append(answer.status == "empty")
                continue
            extent = max(float(max(b[2] - b[0], b[3] - b[1])) for b in own)
            best = max((iou(answer.box, b) for b in own), default=0.0) if answer.box else 0.0
            rows.append((class_index, extent * side / picture.shape[0], best))
    large = [r for r in rows if r[1] >= 30]
    stops = [r for r in large if r[0] == STOP]
    return {
        "stop_30px": round(float(np.mean([r[2] >= 0.5 for r in stops])), 4) if stops else 0.0,
        "all_30px": round(float(np.mean([r[2] >= 0.5 for r in large])), 4) if large else 0.0,
        "absent_empty": round(float(np.mean(silent)), 4) if silent else 0.0,
        "stops": len(stops),
        "pictures": len(pictures),
    }
