"""The numbers of the Envelope dock in words: the chosen rate, what it rests on, how it was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.dome import CellState
from app.saved_views import name_of
from envelope.caution import asr_caution

if TYPE_CHECKING:
    from envelope.cells import Measure, ScoreTable
    from envelope.metrics import Rate
    from envelope.outcome import Criterion
    from envelope.stage import Stage
    from envelope.sweep import SweepPlan

ATTACKED = "adversarial"
UNPATCHED = ("clean", "gray")


@dataclass(frozen=True)
class Summary:
    """What a sweep came to, ordered so that what must be in sight is read first.

    value: the chosen rate with its interval. basis: the counts behind it. caution: why it would
    be misread, "" for no reason. lines: more numbers, one a line. settings: how they were made.
    """

    value: str
    basis: str = ""
    caution: str = ""
    lines: tuple[str, ...] = ()
    settings: str = ""

    @property
    def text(self) -> str:
        """All of it, one thing a line."""
        head = " ".join(part for part in (self.value, self.basis) if part)
        return "\n".join(part for part in (head, self.caution, *self.lines, self.settings) if part)


def summarize_sweep(
    table: ScoreTable, victim: str, word: str, measure: Measure, states: Sequence[CellState]
) -> Summary:
    """Counts and rates over all observable cells of a plan, without its settings.

    word: how the page calls `measure`. states: of every cell of the plan.
    """
    hidden, blank = states.count("unobservable"), states.count("unscored")
    counted = len(states) - hidden - blank
    scored = f"{counted} of {len(states)} conditions scored, {hidden} not observable"
    if counted and blank:  # so far they lean towards where a patch works best
        scored += ", nearest to the anchor first"
    wrong = sum(n for (name, _), n in table.errors.items() if name == victim)
    errors = (f"{wrong} answers were errors and are in no count",) if wrong else ()
    if not counted:
        return Summary("not scored yet", lines=(scored, *errors))
    rate = table.rate(victim, measure)
    lines = [f"{scored}; ASR at least 1/2 in {states.count('works')}"]
    if measure != "casr":
        lines.append(f"cASR {table.rate(victim, 'casr')}")
    right = {kind: table.rate(victim, "accuracy", kind) for kind in UNPATCHED}
    there = {kind: rate for kind, rate in right.items() if rate.value is not None}
    if there:
        words = [f"on {kind} {_failed(found)}" for kind, found in there.items()]
        lines.append(f"fails without the patch: {', '.join(words)}")
    caution = asr_caution({kind: found.value for kind, found in there.items()})
    value, _, basis = str(rate).partition(" (")
    return Summary(f"{word} {value}", f"({basis}", caution, (*lines, *errors))


def settings_text(criterion: Criterion, answers: str, plan: SweepPlan, stage: Stage) -> str:
    """How the numbers were made: task, thresholds, variants, size, and where unswept axes stand.

    answers: the victim's kind (classifier, detector, grounder).
    """
    parts = [f"{criterion.task} of {criterion.label}"]
    if answers == "detector":
        parts.append(f"gamma {criterion.gamma:g}")
    if answers != "classifier":
        parts.append(f"tau {criterion.tau:g}")
    camera = stage.camera_at_anchor
    parts.append(f"{plan.variants} variants, seed {stage.settings.seed}")
    parts.append(f"{camera.width}x{camera.height} px")
    moved = name_of(plan.base, 3)
    if moved != "anchor":
        parts.append(f"at {moved}")
    return ", ".join(parts)


def victim_troubles(victims: Mapping[str, tuple[str, str]]) -> str:
    """Who does not answer now and why, one a line; "" when all do. Plain text, never HTML.

    victims: name -> (state, message) as the scoring service tells them.
    """
    lines = []
    for name, (state, message) in victims.items():
        if state == "loading":
            lines.append(f"{name} is loading: its scores come later")
        elif state == "failed":
            why = message.removeprefix(name).lstrip(" :") or "it could not be loaded"
            lines.append(f"{name} does not score: {why}")
        elif message:
            lines.append(f"{name}: {message}")
    return "\n".join(lines)


def _failed(right: Rate) -> str:
    wrong = right.denominator - right.numerator
    return f"{wrong / right.denominator:.2f} ({wrong:g}/{right.denominator})"
