"""Pictures per second of every victim that is here, and the time spent outside its own network.

At batches of 1 and 8, one thread, pictures of render size (640 x 400). A victim's own network is
its forward pass (a grounder's: the whole generation; an ONNX file's: the session's run).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from envelope.victims.probe_pictures import LABEL, sign_pictures
from envelope.victims.protocols import Victim, ask
from envelope.victims.registry import list_victims, load_victim
from scene.errors import InputError

Row = tuple[str, str, str]

BATCHES = (1, 8)
SECONDS = 2.0
OUTSIDE_LIMIT = 0.10

_DEFAULT_DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
_FILES = (
    "onnx:{}/yolox-nano/yolox_nano.onnx",
    "onnx:{}/nanodet-m/nanodet_m.onnx",
    "onnx:{}/fastestdet/FastestDet.onnx",
    "ultralytics:{}/yolov8n-int8/yolov8n_int8.onnx",
)


def run() -> list[Row]:
    """Rows: what, measured, wanted."""
    rows: list[Row] = []
    for spec in _specs():
        try:
            victim = load_victim(spec)
        except InputError as error:
            rows.append((spec, str(error), ""))
            continue
        name = spec.rpartition("/")[2]
        for batch in BATCHES:
            rate, outside = _measured(victim, batch)
            wanted = f"<= {OUTSIDE_LIMIT:.0%} outside" if spec == "demo-detector" else ""
            share = "" if outside is None else f", {outside:.1%} outside its network"
            rows.append((f"{name}, batch {batch}", f"{rate:.1f} pictures/s{share}", wanted))
    return rows


def _specs() -> list[str]:
    weights = Path(os.environ.get("ADVSCENE_REAL_DATA", _DEFAULT_DATA)).resolve() / "weights"
    files = [spec.format(weights) for spec in _FILES] if weights.is_dir() else []
    return [row.name for row in list_victims() if row.ready] + files


def _measured(victim: Victim, batch: int) -> tuple[float, float | None]:
    """Pictures per second, and the share of the time outside the network (None: not known)."""
    pictures = np.stack([picture.rgb for picture in sign_pictures()])
    images = np.resize(pictures, (batch, *pictures.shape[1:]))
    clock = _Clock()
    known = clock.watch(victim)
    label = victim.info.labels[0] if victim.info.labels else LABEL
    for _ in range(2):
        ask(victim, images, label)
    rates, outside = [], []
    until = time.perf_counter() + SECONDS
    while time.perf_counter() < until or len(rates) < 3:
        clock.seconds = 0.0
        start = time.perf_counter()
        ask(victim, images, label)
        took = time.perf_counter() - start
        rates.append(batch / took)
        outside.append(1 - clock.seconds / took)
    clock.release()
    return float(np.median(rates)), float(np.median(outside)) if known else None


class _Clock:
    """Adds up the time inside a victim's network."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._undo: list[Callable[[], None]] = []

    def watch(self, victim: Any) -> bool:
        """Time the victim's network; False when it holds none that is known."""
        model = getattr(victim, "model", None)
        if hasattr(victim, "session"):
            self._replace(victim, "session", _TimedSession(victim.session, self))
        elif model is not None and victim.info.kind == "grounder":
            self._replace(model, "generate", self._timed(model.generate))
        elif model is not None:
            self._replace(model, "forward", self._timed(model.forward))
        elif hasattr(victim, "_run"):
            self._replace(victim, "_run", self._timed(victim._run))
        return bool(self._undo)

    def release(self) -> None:
        """Put everything back."""
        for undo in self._undo:
            undo()

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        own = vars(owner).get(name)
        object.__setattr__(owner, name, value)

        def undo() -> None:
            if own is None:
                object.__delattr__(owner, name)
            else:
                object.__setattr__(owner, name, own)

        self._undo.append(undo)

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                self.seconds += time.perf_counter() - start

        return timed


class _TimedSession:
    """An onnxruntime session whose runs are timed."""

    def __init__(self, session: Any, clock: _Clock) -> None:
        self.run = clock._timed(session.run)
        self.get_inputs = session.get_inputs
