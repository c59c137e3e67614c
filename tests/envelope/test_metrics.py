from __future__ import annotations

import numpy as np
import pytest

from envelope.metrics import (
    ALIKE,
    BOOTSTRAP,
    ONE_CONDITION,
    PAIRED,
    UNDEFINED,
    WILSON,
    Rate,
    Sample,
    accuracy,
    attack_gain,
    attack_success_rate,
    bootstrap,
    conditional_asr,
    conditional_difference,
    consistency,
    drop_between,
    wilson,
)
from envelope.outcome import NOT_COUNTED, Outcome


def series(**cells: str) -> list[Sample]:
    """One letter per variant: r(ight), o(mission), s(ubstitution), d(isplacement), - (no row)."""
    modes = {"o": "omission", "s": "substitution", "d": "displacement"}
    return [
        Sample(name, v, letter != "r", letter == "r", modes.get(letter))  # type: ignore[arg-type]
        for name, letters in cells.items()
        for v, letter in enumerate(letters)
        if letter != "-"
    ]


# Six conditions of three variants.
CLEAN = series(a="rrr", b="rrr", c="rrr", d="rrr", e="rro", f="ooo")
GRAY = series(a="rrr", b="rrr", c="rrr", d="rro", e="roo", f="ooo")
ADV = series(a="ooo", b="osd", c="rrr", d="rsr", e="ddd", f="rrr")


def test_asr_by_hand() -> None:
    # successes: 3 + 3 + 0 + 1 + 3 + 0 of 18
    rate = attack_success_rate(ADV)
    assert (rate.numerator, rate.denominator, rate.conditions) == (10, 18, 6)
    assert rate.value == pytest.approx(10 / 18)
    assert rate.interval == BOOTSTRAP
    assert rate.ranked
    assert rate.low is not None and rate.high is not None
    assert 0 <= rate.low < 10 / 18 < rate.high <= 1
    assert accuracy(ADV).value == pytest.approx(8 / 18)


def test_errors_are_in_no_denominator() -> None:
    assert Sample.of("a", 0, NOT_COUNTED) is None
    assert Sample.of("a", 0, Outcome(True, False, "omission")) is not None
    assert attack_success_rate(series(a="o-r", b="--o")).denominator == 3


def test_gain_is_paired_and_may_be_negative() -> None:
    # adv - clean successes over 18 pairs: (3-0)+(3-0)+(0-0)+(1-0)+(3-1)+(0-3) = 6
    gain = attack_gain(ADV, CLEAN)
    assert (gain.numerator, gain.denominator, gain.conditions) == (6, 18, 6)
    assert gain.value == pytest.approx(6 / 18)
    assert gain.interval == PAIRED
    assert attack_gain(CLEAN, ADV).value == pytest.approx(-6 / 18)
    # a pair whose partner is an error leaves both sums: without a's variants 1, 2: 4 of 16
    short = attack_gain(series(a="o--", b="osd", c="rrr", d="rsr", e="ddd", f="rrr"), CLEAN)
    assert short.value == pytest.approx(4 / 16)


def test_casr_counts_only_gray_survivors() -> None:
    # right on gray: a3 b3 c3 d2 e1 f0 = 12; of them failing on adv: 3 + 3 + 0 + (d: r s) 1 + 1 = 8
    found = conditional_asr(GRAY, ADV)
    assert (found.rate.numerator, found.rate.denominator, found.rate.conditions) == (8, 12, 5)
    assert found.rate.value == pytest.approx(8 / 12)
    # modes among them: a ooo, b o s d, d s, e d -> 4 omissions, 2 substitutions, 2 displacements
    assert [found.modes[m].numerator for m in ("omission", "substitution", "displacement")] == [
        4,
        2,
        2,
    ]
    assert sum(r.value for r in found.modes.values() if r.value) == pytest.approx(found.rate.value)
    assert {r.denominator for r in found.modes.values()} == {12}


def test_casr_is_undefined_without_survivors() -> None:
    found = conditional_asr(series(a="ooo", b="ood"), series(a="rrr", b="ooo"))
    assert found.rate.value is None
    assert found.rate.interval == UNDEFINED
    assert not found.rate.ranked
    assert "undefined" in str(found.rate)
    assert attack_success_rate([]).value is None


def test_targeted_classification_fails_only_on_the_target_label() -> None:
    gray = [Sample("a", 0, False, True), Sample("b", 0, False, False)]
    # on adv a is wrong but not the target: no success; b was not right on gray: not counted
    adv = [Sample("a", 0, False, False), Sample("b", 0, True, False)]
    assert conditional_asr(gray, adv).rate.value == 0.0


def test_one_cell_has_a_share_and_no_interval() -> None:
    rate = attack_success_rate(series(a="oor"))
    assert (rate.value, rate.low, rate.high) == (pytest.approx(2 / 3), None, None)
    assert rate.interval == ONE_CONDITION
    assert not rate.ranked


def test_wilson_only_with_one_sample_per_condition() -> None:
    # 2 of 10 independent: Wilson 0.0567 .. 0.5098 (Newcombe 1998's method, z = 1.96)
    cells = {f"c{i}": "o" if i < 2 else "r" for i in range(10)}
    rate = attack_success_rate(series(**cells))
    assert rate.interval == WILSON
    assert (rate.low, rate.high) == (
        pytest.approx(0.0567, abs=1e-4),
        pytest.approx(0.5098, abs=1e-4),
    )
    cells["c0"] = "oo"
    assert attack_success_rate(series(**cells)).interval == BOOTSTRAP
    assert wilson(0, 10) == (0.0, pytest.approx(0.2775, abs=1e-4))
    assert wilson(10, 10)[1] == 1.0
    with pytest.raises(ValueError, match="n > 0"):
        wilson(0, 0)


def test_conditions_that_all_agree_do_not_pretend_certainty() -> None:
    rate = attack_success_rate(series(**{f"c{i}": "rrr" for i in range(9)}))
    # Wilson's upper bound for 0 of 9 conditions: 3.8415 / 12.8415
    assert (rate.value, rate.low) == (0.0, 0.0)
    assert rate.high == pytest.approx(0.29915, abs=1e-4)
    assert rate.interval == ALIKE
    gain = attack_gain(series(a="ooo", b="ooo"), series(a="rrr", b="rrr"))
    assert (gain.value, gain.high) == (1.0, 1.0)
    assert gain.low == pytest.approx(1 - 2 * 3.8415 / 5.8415, abs=1e-4)


def test_fewer_than_five_conditions_are_not_ranked() -> None:
    rate = attack_success_rate(series(a="oor", b="rrr", c="ooo", d="rrr"))
    assert rate.low is not None
    assert not rate.ranked
    assert "not ranked" in str(rate)


def test_consistency_by_hand() -> None:
    # the paper: physical 45.26 %, rendered 45.96 % -> 99.30 %
    physical = series(**{f"c{i}": "o" * 4526 + "r" * 5474 for i in range(1)})
    rendered = series(**{f"c{i}": "o" * 4596 + "r" * 5404 for i in range(1)})
    assert consistency(physical, rendered).value == pytest.approx(0.9930)
    # only common conditions: a 1 against 2/3, b 0 against 1/3 -> both ASR 1/2: fully consistent
    found = consistency(series(a="oo", b="rr", c="oo"), series(a="oor", b="orr", d="ooo"))
    assert found.value == pytest.approx(1.0)
    assert (found.numerator, found.denominator, found.conditions) == (3, 6, 2)


def test_conditional_difference_by_hand() -> None:
    first = (series(a="rrr", b="rrr"), series(a="oor", b="ror"))  # 3 of 6
    second = (series(a="rro", b="rrr"), series(a="rro", b="rro"))  # 1 of 5
    found = conditional_difference(first, second)
    assert found.value == pytest.approx(3 / 6 - 1 / 5)
    assert (found.denominator, found.conditions, found.interval) == (11, 2, PAIRED)
    # a condition that only one of them has is left out
    wider = (first[0] + series(z="r"), first[1] + series(z="o"))
    assert conditional_difference(wider, second).value == pytest.approx(0.3)


def test_drop_between_two_groups_by_hand() -> None:
    near = Rate(0.8, 8, 10, 9, 0.6, 0.9, BOOTSTRAP)
    far = Rate(0.3, 6, 20, 14, 0.2, 0.6, BOOTSTRAP)
    found = drop_between(near, far)
    # 0.5 - sqrt(0.2^2 + 0.3^2) and 0.5 + sqrt(0.1^2 + 0.1^2)
    assert (found.value, found.conditions, found.denominator) == (pytest.approx(0.5), 23, 30)
    assert found.low == pytest.approx(0.5 - 0.36056, abs=1e-4)
    assert found.high == pytest.approx(0.5 + 0.14142, abs=1e-4)
    # all conditions of both groups agree: still no false certainty
    one = attack_success_rate(series(**{f"c{i}": "ooo" for i in range(9)}))
    none = attack_success_rate(series(**{f"c{i}": "rrr" for i in range(14)}))
    sure = drop_between(one, none)
    assert (sure.value, sure.high) == (1.0, pytest.approx(1.0))
    assert sure.low == pytest.approx(1 - np.hypot(0.29915, 0.21531), abs=1e-3)
    assert drop_between(near, Rate(None, 0, 0, 0)).value is None
    assert drop_between(near, Rate(0.5, 1, 2, 1)).low is None


def test_bootstrap_is_seeded_and_close_to_theory() -> None:
    rng = np.random.default_rng(3)
    successes = rng.binomial(3, rng.beta(2, 2, 400))
    table = np.stack([successes, np.full(400, 3)], axis=1).astype(float)

    def stat(sums: np.ndarray) -> np.ndarray:
        return sums[:, 0] / sums[:, 1]

    low, high = bootstrap(table, stat, seed=1)  # type: ignore[misc]
    assert bootstrap(table, stat, seed=1) == (low, high)
    assert bootstrap(table, stat, seed=2) != (low, high)
    half = 1.96 * (successes / 3).std() / np.sqrt(400)
    assert (high - low) / 2 == pytest.approx(half, rel=0.06)


def test_bootstrap_covers_where_pooling_variants_would_not() -> None:
    """Nine cells of five variants that agree with each other: pooled Wilson is far too narrow."""
    rng = np.random.default_rng(0)
    covered, pooled = 0, 0
    for trial in range(300):
        p = rng.beta(0.3, 0.3, 9)
        cells = rng.random((9, 5)) < p[:, None]
        samples = [
            Sample(f"{i}", v, bool(s), not s)
            for i, row in enumerate(cells)
            for v, s in enumerate(row)
        ]
        rate = attack_success_rate(samples, seed=trial)
        covered += rate.low <= 0.5 <= rate.high  # type: ignore[operator]
        low, high = wilson(int(cells.sum()), 45)
        pooled += low <= 0.5 <= high
    assert covered / 300 > 0.91
    assert pooled / 300 < 0.84


def test_a_duplicate_row_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        attack_gain(series(a="oo"), [*series(a="oo"), *series(a="o")])


def test_rate_prints_its_counts() -> None:
    text = str(Rate(0.5, 5, 10, 6, 0.2, 0.8, BOOTSTRAP))
    assert text == f"0.50 [0.20, 0.80] (5/10 samples, 6 conditions; {BOOTSTRAP})"


def test_a_difference_prints_both_sides_and_not_the_difference_of_the_counts() -> None:
    # 20 of 27 less 26 of 41 is +0.11; "-6/68 samples" beside it had the other sign
    near = Rate(20 / 27, 20, 27, 9, 0.4, 1.0, BOOTSTRAP)
    far = Rate(26 / 41, 26, 41, 14, 0.4, 0.8, BOOTSTRAP)
    found = drop_between(near, far)
    assert str(found).startswith("0.11 [") and "(20/27 against 26/41 samples, 23" in str(found)
    assert "(20/27 against 0/0 samples, 9" in str(drop_between(near, Rate(None, 0, 0, 0)))
    # two victims with other survivors: 2/4 against 1/2
    gray, other = series(a="rr", b="rr"), series(a="ro", b="ro")
    attacked = series(a="oo", b="rr")
    assert conditional_difference((gray, attacked), (other, attacked)).counts == "2/4 against 1/2"
    assert consistency(series(a="or", b="oo"), series(a="oor")).counts == "1/2 against 2/3"
