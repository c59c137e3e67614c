"""The values that a run's store keeps, and how they lie in its tables."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from dataclasses import dataclass
from typing import Any

from envelope.condition import AXES, Condition
from envelope.observe import Observation
from envelope.outcome import Answer, Box, best_placed, iou, most_confident

ScoreKey = tuple[str, str, str, str]
"""(view id, render kind, victim, settings hash)."""


@dataclass(frozen=True)
class View:
    """One camera of a run and its truth.

    view_id: hash of everything that decides the camera and the truth (see `view_id`).
    geometry: hash of the run's part of that (anchor, pivot, up, size, scene, target, seed).
    nominal: the nominal nine numbers and the variant. actual: the jittered nine numbers.
    """

    view_id: str
    geometry: str
    nominal: Condition
    actual: Condition
    observation: Observation

    @property
    def condition(self) -> str:
        """Key of the nominal condition: the cluster that the view belongs to."""
        return self.nominal.key


@dataclass(frozen=True)
class Score:
    """One answer of one victim to one picture, with what it was asked and how long it took.

    origin: "sweep" or "view" (the user looked at it). tries: calls made, 1 to 3.
    render_ms: time of the picture's render; predict_ms: the picture's share of the victim's call.
    """

    view_id: str
    kind: str
    victim: str
    settings_hash: str
    label: str
    prompt: str
    answer: Answer
    origin: str = "sweep"
    tries: int = 1
    render_ms: float | None = None
    predict_ms: float | None = None

    @property
    def key(self) -> ScoreKey:
        """What makes the row unique."""
        return (self.view_id, self.kind, self.victim, self.settings_hash)


@dataclass(frozen=True)
class Row:
    """A stored score with its view."""

    view: View
    score: Score


def digest(fields: Any) -> str:
    """16 hex digits of the sha256 of a JSON value (keys sorted)."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def view_id(geometry: str, condition: Condition, variant: int) -> str:
    """Identity of a view: the run's geometry hash, the nominal condition and the variant."""
    return digest([geometry, condition.key, variant])


SCORE_COLUMNS = (
    "view_id", "kind", "victim", "settings_hash", "label", "prompt", "answer_kind", "status",
    "raw_text", "notes", "boxes", "top", "confident_box", "confidence", "confident_iou",
    "confident_patch_iou", "placed_box", "placed_confidence", "placed_iou", "error", "tries",
    "render_ms", "predict_ms", "origin", "created",
)  # fmt: skip


def score_values(score: Score, seen: Observation) -> tuple[Any, ...]:
    """Values in the order of SCORE_COLUMNS; both boxes' facts are written out for SQL readers."""
    answer = score.answer
    confident, placed = most_confident(answer), best_placed(answer, seen.box)
    return (
        *score.key, score.label, score.prompt, answer.kind, answer.status, answer.raw_text,
        json.dumps(answer.notes), json.dumps([[*b.xyxy, b.confidence] for b in answer.boxes]),
        json.dumps(answer.top), *_box_facts(confident), _overlap(confident, seen.box),
        _overlap(confident, seen.footprint), *_box_facts(placed), _overlap(placed, seen.box),
        answer.error, score.tries, score.render_ms, score.predict_ms, score.origin, time.time(),
    )  # fmt: skip


def _box_facts(box: Box | None) -> tuple[str | None, float | None]:
    return (None, None) if box is None else (json.dumps(box.xyxy), box.confidence)


def _overlap(box: Box | None, other: tuple[float, ...] | None) -> float | None:
    return None if box is None or other is None else float(iou(box.xyxy, other)[0])


def view_of(row: sqlite3.Row) -> View:
    """A row of the views table as a value."""
    nominal = Condition(**{name: row[name] for name in AXES}, variant=row["variant"])
    facts = json.loads(row["observation"])
    for name in ("box", "footprint"):
        facts[name] = None if facts[name] is None else tuple(facts[name])
    return View(
        row["view_id"], row["geometry"], nominal, Condition.from_dict(json.loads(row["actual"])),
        Observation(**facts),
    )  # fmt: skip


def score_of(row: sqlite3.Row) -> Score:
    """A row of the scores table as a value."""
    boxes = tuple(Box((b[0], b[1], b[2], b[3]), b[4]) for b in json.loads(row["boxes"]))
    top = tuple((str(name), float(p)) for name, p in json.loads(row["top"]))
    answer = Answer(
        row["answer_kind"], row["status"], boxes, top, row["raw_text"],
        tuple(json.loads(row["notes"])), row["error"],
    )  # fmt: skip
    return Score(
        row["view_id"], row["kind"], row["victim"], row["settings_hash"], row["label"],
        row["prompt"], answer, row["origin"], row["tries"], row["render_ms"], row["predict_ms"],
    )  # fmt: skip
