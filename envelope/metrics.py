"""Rates over conditions, with their counts and the only intervals that are honest for them.

The noise variants of one nominal condition are not independent (method.md section 6). Samples are
therefore grouped by nominal condition (a cluster), and intervals over several conditions come
from resampling whole conditions.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envelope.outcome import FAILURE_MODES, FailureMode, Outcome

BOOTSTRAP = "cluster bootstrap, 95 %"
PAIRED = "paired cluster bootstrap, 95 %"
WILSON = "Wilson, 95 %"
ALIKE = "Wilson over conditions, all alike, 95 %"
TWO_GROUPS = "from the two groups' intervals (MOVER), 95 %"
ONE_CONDITION = "no interval from one condition"
UNDEFINED = "undefined: no sample counts"

REPLICATES = 4000
MIN_RANKED_CONDITIONS = 5
_Z = 1.959963984540054

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]
"""Per-replicate sums (B, columns) -> (B,) values, NaN where undefined."""


@dataclass(frozen=True)
class Sample:
    """One counted answer: of which nominal condition, which noise variant, and its outcome."""

    condition: str
    variant: int
    success: bool
    right: bool
    mode: FailureMode | None = None

    @classmethod
    def of(cls, condition: str, variant: int, outcome: Outcome) -> Sample | None:
        """The sample of an outcome; None where the outcome is not counted."""
        if outcome.success is None or outcome.right is None:
            return None
        return cls(condition, variant, outcome.success, outcome.right, outcome.mode)


@dataclass(frozen=True)
class Rate:
    """A measure with what it rests on.

    value: None when undefined. numerator, denominator: the counts behind it (samples).
    conditions: nominal conditions that contribute. low, high: 95 % interval or None.
    interval: its name, or why there is none. groups: counts of the two rates that a difference
    compares, in words; numerator / denominator is not such a difference's value.
    """

    value: float | None
    numerator: float
    denominator: int
    conditions: int
    low: float | None = None
    high: float | None = None
    interval: str = ONE_CONDITION
    groups: str = ""

    @property
    def counts(self) -> str:
        """The samples behind the value, for people: `5/10`, or of both sides of a difference."""
        return self.groups or f"{self.numerator:g}/{self.denominator}"

    @property
    def ranked(self) -> bool:
        """Whether the rate may be compared: at least five conditions and a value."""
        return self.value is not None and self.conditions >= MIN_RANKED_CONDITIONS

    def to_dict(self) -> dict[str, Any]:
        """All fields and `ranked`, for JSON."""
        return {**asdict(self), "ranked": self.ranked}

    def __str__(self) -> str:
        one = "" if self.conditions == 1 else "s"
        counts = f"{self.counts} samples, {self.conditions} condition{one}"
        if self.value is None:
            return f"undefined ({counts})"
        note = "" if self.ranked else "; not ranked: under 5 conditions"
        if self.low is None or self.high is None:
            return f"{self.value:.2f} ({counts}; {self.interval}{note})"
        span = f"[{self.low:.2f}, {self.high:.2f}]"
        return f"{self.value:.2f} {span} ({counts}; {self.interval}{note})"


@dataclass(frozen=True)
class Conditional:
    """cASR and its failure modes, which are exclusive and sum to it."""

    rate: Rate
    modes: Mapping[FailureMode, Rate]


def attack_success_rate(samples: Sequence[Sample], seed: int = 0) -> Rate:
    """ASR: the mean of success."""
    return _share([(s, s.success) for s in samples], seed)


def accuracy(samples: Sequence[Sample], seed: int = 0) -> Rate:
    """The mean of right: how often the victim does its task."""
    return _share([(s, s.right) for s in samples], seed)


def attack_gain(adversarial: Sequence[Sample], reference: Sequence[Sample], seed: int = 0) -> Rate:
    """ASR(adversarial) - ASR(reference) over the samples that both have; may be negative.

    `reference` is the clean render for method.md's attack gain; any other kind, patch or victim
    may stand there. numerator is the difference of the two success counts.
    """
    pairs = _paired(adversarial, reference)
    table = _sums([(a.condition, (a.success, b.success, 1)) for a, b in pairs])
    total = table.sum(axis=0) if len(table) else np.zeros(3)
    return _measure(
        table,
        lambda s: _ratio(s[:, 0] - s[:, 1], s[:, 2]),
        (int(total[0] - total[1]), int(total[2])),
        (-1.0, 1.0),
        seed,
        paired=True,
    )


def conditional_asr(
    gray: Sequence[Sample], adversarial: Sequence[Sample], seed: int = 0
) -> Conditional:
    """cASR: among samples that the victim gets right on gray, the share that fails on adversarial.

    Undefined (value None) when the victim is right on no gray sample.
    """
    kept = [a for g, a in _paired(gray, adversarial) if g.right]
    rate = _share([(a, a.success) for a in kept], seed)
    modes = {m: _share([(a, a.success and a.mode == m) for a in kept], seed) for m in FAILURE_MODES}
    return Conditional(rate, modes)


def conditional_difference(
    first: tuple[Sequence[Sample], Sequence[Sample]],
    second: tuple[Sequence[Sample], Sequence[Sample]],
    seed: int = 0,
) -> Rate:
    """cASR(first) - cASR(second), each a (gray, adversarial) pair, over their common conditions.

    Two victims or patches have different gray survivors; conditions are resampled for both
    together. The counts are the gray survivors of both.
    """
    rows: dict[str, list[float]] = {}
    scored: list[set[str]] = []
    for side, (gray, adversarial) in enumerate((first, second)):
        pairs = _paired(gray, adversarial)
        scored.append({a.condition for _, a in pairs})
        for g, a in pairs:
            row = rows.setdefault(a.condition, [0.0] * 4)
            row[2 * side] += g.right and a.success
            row[2 * side + 1] += g.right
    common = scored[0] & scored[1]
    return ratio_difference({c: rows[c] for c in common}, (-1.0, 1.0), seed)


def ratio_difference(
    sums: Mapping[str, Sequence[float]], bounds: tuple[float, float], seed: int = 0
) -> Rate:
    """The ratio of the first two columns minus that of the last two, over conditions.

    sums: condition -> (sum, samples, sum of the other, samples of the other). bounds: of the
    difference. Conditions are resampled for both together; the counts are the difference of the
    sums and all samples.
    """
    table = np.array([sums[c] for c in sorted(sums)], dtype=np.float64).reshape(-1, 4)
    total = table.sum(axis=0)
    found = _measure(
        table,
        lambda s: _ratio(s[:, 0], s[:, 1]) - _ratio(s[:, 2], s[:, 3]),
        (round(float(total[0] - total[2]), 6), int(total[1] + total[3])),
        bounds,
        seed,
        paired=True,
    )
    return replace(found, groups=_both(*total))


def drop_between(near: Rate, far: Rate) -> Rate:
    """How much lower `far` is than `near`, two groups without a common condition.

    The interval joins the groups' own intervals (Zou and Donner 2008, "MOVER"), which also holds
    where all conditions of a group agree. numerator, denominator, conditions: the difference of
    the successes, and the sums.
    """
    counts = (near.numerator - far.numerator, near.denominator + far.denominator)
    conditions = near.conditions + far.conditions
    groups = _both(near.numerator, near.denominator, far.numerator, far.denominator)
    if near.value is None or far.value is None:
        return Rate(None, *counts, conditions, interval=UNDEFINED, groups=groups)
    value = near.value - far.value
    if near.low is None or near.high is None or far.low is None or far.high is None:
        return Rate(value, *counts, conditions, groups=groups)
    low = value - math.hypot(near.value - near.low, far.high - far.value)
    high = value + math.hypot(near.high - near.value, far.value - far.low)
    return Rate(value, *counts, conditions, low, high, TWO_GROUPS, groups)


def consistency(physical: Sequence[Sample], rendered: Sequence[Sample], seed: int = 0) -> Rate:
    """ASR consistency 1 - |ASR_physical - ASR_rendered| over their common conditions, in [0, 1].

    numerator / denominator are the rendered samples' (the physical ones may be more or fewer).
    """
    common = {s.condition for s in physical} & {s.condition for s in rendered}
    rows: list[tuple[str, tuple[float, ...]]] = []
    rows += [(s.condition, (s.success, 1, 0, 0)) for s in physical if s.condition in common]
    rows += [(s.condition, (0, 0, s.success, 1)) for s in rendered if s.condition in common]
    table = _sums(rows, columns=4)
    total = table.sum(axis=0)
    found = _measure(
        table,
        lambda s: 1 - np.abs(_ratio(s[:, 0], s[:, 1]) - _ratio(s[:, 2], s[:, 3])),
        (int(total[2]), int(total[3])),
        (0.0, 1.0),
        seed,
        paired=True,
    )
    return replace(found, groups=_both(*total))


def mean_of(values: Sequence[tuple[str, float]], seed: int = 0) -> Rate:
    """Mean of (condition, value in [0, 1]) samples, such as confidences; numerator is their sum."""
    table = _sums([(condition, (value, 1.0)) for condition, value in values], columns=2)
    total = table.sum(axis=0)
    counts = (round(float(total[0]), 6), int(total[1]))
    return _measure(table, lambda s: _ratio(s[:, 0], s[:, 1]), counts, (0.0, 1.0), seed)


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of INDEPENDENT samples."""
    if not 0 <= successes <= n or n == 0:
        raise ValueError(f"wilson: wanted 0 <= successes <= n, n > 0, found {successes}/{n}")
    p, z2 = successes / n, _Z * _Z
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    low = 0.0 if successes == 0 else middle - half
    return low, 1.0 if successes == n else middle + half


def bootstrap(
    table: Array, statistic: Statistic, seed: int = 0, replicates: int = REPLICATES
) -> tuple[float, float] | None:
    """95 % interval of a statistic of column sums, resampling the rows (conditions).

    table: (conditions, columns). The percentile interval is widened for few conditions as in
    Hesterberg 2015 (section 4.3: t quantile and n - 1), which lifts coverage at five conditions
    from 0.85 to 0.93 and at nine from 0.91 to 0.96 on simulated cells of three. Replicates in
    which the statistic is undefined are left out. None when all replicates agree.
    """
    n = len(table)
    values = statistic(_weights(n, replicates, seed) @ table)
    values = values[np.isfinite(values)]
    if len(values) == 0 or np.ptp(values) < 1e-12:
        return None
    tail = _expanded_tail(n)
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def _expanded_tail(n: int) -> float:
    """Tail probability of the widened percentile interval; 0.025 for many conditions."""
    from scipy.special import ndtr, stdtrit

    return float(ndtr(-math.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.975)))


@lru_cache(maxsize=16)
def _weights(n: int, replicates: int, seed: int) -> Array:
    """(replicates, n) how often each of n conditions is drawn."""
    rng = np.random.Generator(np.random.PCG64(seed))
    return rng.multinomial(n, np.full(n, 1.0 / n), size=replicates).astype(np.float64)


def _share(counted: Sequence[tuple[Sample, bool]], seed: int) -> Rate:
    """Share of samples whose flag is set."""
    table = _sums([(s.condition, (flag, 1)) for s, flag in counted], columns=2)
    total = table.sum(axis=0)
    counts = (int(total[0]), int(total[1]))
    if len(table) > 1 and (table[:, 1] == 1).all():  # one sample per condition: independent
        low, high = wilson(*counts)
        return Rate(counts[0] / counts[1], *counts, len(table), low, high, WILSON)
    return _measure(table, lambda s: _ratio(s[:, 0], s[:, 1]), counts, (0.0, 1.0), seed)


def _measure(
    table: Array,
    statistic: Statistic,
    counts: tuple[float, int],
    bounds: tuple[float, float],
    seed: int,
    paired: bool = False,
) -> Rate:
    """Value, counts and interval of a statistic of a (conditions, columns) table of sums."""
    n = len(table)
    value = float(statistic(table.sum(axis=0)[None])[0]) if n else math.nan
    if not math.isfinite(value):
        return Rate(None, *counts, n, interval=UNDEFINED)
    if n == 1:
        return Rate(value, *counts, n)
    span = bootstrap(table, statistic, seed)
    if span is not None:
        return Rate(value, *counts, n, *span, interval=PAIRED if paired else BOOTSTRAP)
    # Every condition says the same. An unseen kind of condition may still have a share of up to
    # Wilson's bound for 0 of n, and could lie at either end of the scale.
    unseen = _Z * _Z / (n + _Z * _Z)
    low, high = value - unseen * (value - bounds[0]), value + unseen * (bounds[1] - value)
    return Rate(value, *counts, n, low, high, ALIKE)


def _both(first: float, of_first: float, second: float, of_second: float) -> str:
    """The counts of two rates that are compared: `27/27 against 17/63`."""
    return f"{first:.6g}/{of_first:.6g} against {second:.6g}/{of_second:.6g}"


def _ratio(numerator: Array, denominator: Array) -> Array:
    return np.divide(
        numerator, denominator, out=np.full(numerator.shape, np.nan), where=denominator > 0
    )


def _sums(rows: Sequence[tuple[str, tuple[float, ...]]], columns: int = 3) -> Array:
    """(conditions, columns) sums per condition, in the order of the conditions' keys."""
    sums: dict[str, Array] = defaultdict(lambda: np.zeros(columns))
    for condition, values in rows:
        sums[condition] += values
    return np.array([sums[c] for c in sorted(sums)], dtype=np.float64).reshape(-1, columns)


def _paired(first: Sequence[Sample], second: Sequence[Sample]) -> list[tuple[Sample, Sample]]:
    """The samples that share condition and variant, in the order of `first`."""
    others = {(s.condition, s.variant): s for s in second}
    if len(others) != len(second) or len({(s.condition, s.variant) for s in first}) != len(first):
        raise ValueError("paired measure: a condition and variant occurs twice in one series")
    return [
        (s, others[s.condition, s.variant]) for s in first if (s.condition, s.variant) in others
    ]
