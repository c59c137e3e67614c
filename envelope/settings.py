"""What a run is told: how conditions become pictures, whom to ask, how answers are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from envelope.outcome import GAMMA_CLOSED_SET, TAU, Criterion, Task
from envelope.stage import StageSettings
from envelope.sweep import SweepPlan
from scene.errors import InputError
from scene.render.api import RenderSettings


@dataclass(frozen=True)
class VictimChoice:
    """A victim that takes part in a run.

    spec: what `envelope.victims.registry.load_victim` takes. name: what rows call it; default a
    short form of the spec. prompt: for grounders, default the model's native one.
    gamma: least confidence, default the victim's conventional one. task: default by kind.
    """

    spec: str
    name: str = ""
    prompt: str | None = None
    gamma: float | None = None
    task: Task | None = None

    def __post_init__(self) -> None:
        if not self.spec:
            raise InputError("victim: wanted a name such as demo-detector, found nothing")
        if not self.name:
            object.__setattr__(self, "name", short_name(self.spec))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> VictimChoice:
        """Inverse of `asdict`."""
        return cls(**dict(fields))


def short_name(spec: str) -> str:
    """`onnx:/models/yolox_nano.onnx?preset=yolox` -> `yolox_nano`; plain names stay.

    A model behind an address goes by its own name, which the address does not hold; a person's
    own by module and factory (`models.py:make` -> `models.make`), many of which are called alike.
    """
    from envelope.victims.registry import find_entry
    from envelope.victims.user_model import is_user_spec

    head, _, query = spec.partition("?")
    kind, colon, location = head.partition(":")
    if not (colon and location):
        return head
    model = dict(parse_qsl(query)).get("model", "")
    if kind == "api" and model:
        return model.rpartition("/")[2] or model
    if is_user_spec(head) and find_entry(spec) is None:
        module, _, factory = head.rpartition(":")
        return f"{Path(module).stem if module.endswith('.py') else module}.{factory}"
    return Path(location).stem


@dataclass(frozen=True)
class Reading:
    """How stored answers are read; may change at any time without scoring again.

    label: the true class that victims are asked for. tau: least IoU. gamma: one threshold for all
    detectors instead of each victim's own. target_label: of a targeted classification.
    """

    label: str
    tau: float = TAU
    gamma: float | None = None
    target_label: str | None = None

    def criterion(
        self, choice: VictimChoice | None, kind: str, threshold: float | None = None
    ) -> Criterion:
        """The criterion for a victim of a kind, with its conventional threshold."""
        task = choice.task if choice else None
        if task is None:
            task = "localization"
            if kind == "classifier":
                task = "untargeted" if self.target_label is None else "targeted"
        own = choice.gamma if choice else None
        usual = threshold or GAMMA_CLOSED_SET  # a grounder's is 0: it states no confidence
        gamma = next((g for g in (own, self.gamma) if g is not None), usual)
        return Criterion(task, self.label, gamma, self.tau, self.target_label)


@dataclass(frozen=True)
class RunSettings:
    """Everything of run.toml that a person chooses."""

    stage: StageSettings
    reading: Reading
    victims: tuple[VictimChoice, ...] = ()
    sweep: SweepPlan | None = None

    def __post_init__(self) -> None:
        names = [choice.name for choice in self.victims]
        if len(set(names)) != len(names):
            raise InputError(
                f"victims: two are called {max(names, key=names.count)!r}; give one another name"
            )

    def choice(self, name: str) -> VictimChoice | None:
        """The victim that rows call `name`."""
        return next((choice for choice in self.victims if choice.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """The sections conditions, render, reading, victim, sweep of run.toml."""
        stage = self.stage
        return {
            "conditions": {"up": list(stage.up), "pivot": stage.pivot, "seed": stage.seed},
            "render": {
                "long_side": stage.long_side,
                "background": list(stage.background),
                "backend": stage.backend,
                **asdict(stage.render),
            },
            "reading": asdict(self.reading),
            "sweep": None if self.sweep is None else self.sweep.to_dict(),
            "victim": [asdict(choice) for choice in self.victims],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> RunSettings:
        """Inverse of `to_dict`. Raises KeyError, TypeError or InputError on wrong fields."""
        conditions, render = dict(fields["conditions"]), dict(fields["render"])
        long_side, backend = int(render.pop("long_side")), render.pop("backend", "auto")
        background = _triple(render.pop("background"))
        pivot = conditions.get("pivot")
        stage = StageSettings(
            up=_triple(conditions["up"]),
            pivot=None if pivot is None else _triple(pivot),
            seed=int(conditions.get("seed", 0)),
            long_side=long_side,
            background=background,
            render=RenderSettings(**render),
            backend=backend,
        )
        sweep = fields.get("sweep")
        return cls(
            stage,
            Reading(**dict(fields["reading"])),
            tuple(VictimChoice.from_dict(row) for row in fields.get("victim", [])),
            None if sweep is None else SweepPlan.from_dict(sweep),
        )


def _triple(values: Any) -> tuple[float, float, float]:
    a, b, c = (float(v) for v in values)
    return a, b, c
