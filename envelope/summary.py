"""What a run says, as plain values: rates with counts and intervals, and the cells behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from envelope.caution import asr_caution, partial_caution
from envelope.cells import Cell, Measure, ScoreTable
from envelope.condition import ANCHOR, Condition
from envelope.metrics import Rate, drop_between
from envelope.outcome import FAILURE_MODES
from envelope.region import is_inside, nearest, region_of
from envelope.run import Reading, Run
from envelope.sweep import SweepPlan
from scene.errors import InputError

CONTROLS = ("clean", "gray")


def summarize(
    run: Run,
    plan: SweepPlan | None = None,
    reading: Reading | None = None,
    skip_hidden: bool = False,
) -> dict[str, Any]:
    """Everything that `advscene envelope` prints, as JSON values.

    plan: the cells that count, default the run's sweep. reading: thresholds, default the run's.

    Per victim: `kinds` (ASR of every render kind; gain over clean, cASR and failure modes of the
    patch kinds), `right` (share right on clean and gray in observable conditions), `near_anchor`
    (the block of up to three values per axis around the anchor: nine cells of a two-axis grid),
    `ends` (`far`, all cells at the largest swept radius; `oblique`, all cells at the smallest and
    largest swept azimuth; `far_or_oblique`, both together; each with `casr_drop`, how much lower
    it is than around the anchor, where it has cells of its own), `regions` (the envelope by ASR and
    by cASR), `nearest`: the condition nearest to the anchor where the attack works (`working`) and
    where the victim holds (`holding`), and `cells`.
    """
    plan = plan or run.settings.sweep
    if plan is None:
        raise InputError(f"{run.folder}: nothing was swept yet; run `advscene sweep` first")
    reading = reading or run.settings.reading
    table = run.table(plan, reading, skip_hidden)
    victims = {name: _victim(run, table, plan, reading, name) for name in table.victims}
    return {
        "run": run.name,
        "scene": dict(run.about["scene"]),
        "patch": dict(run.about.get("patch", {})),
        "label": reading.label,
        "tau": reading.tau,
        "seed": run.settings.stage.seed,
        "render": run.settings.to_dict()["render"],
        "plan": plan.to_dict(),
        "cells": len(plan.cells()),
        "views": _views(run, plan),
        "victims": victims,
    }


def _victim(
    run: Run, table: ScoreTable, plan: SweepPlan, reading: Reading, name: str
) -> dict[str, Any]:
    kind_of_answer = _answer_kind(run, name)
    criterion = reading.criterion(
        run.settings.choice(name), kind_of_answer, run.thresholds().get(name)
    )
    kinds = table.kinds(name)
    found: dict[str, Any] = {
        "answers": kind_of_answer,
        "criterion": asdict(criterion),
        "right": {k: _rate(table, name, "accuracy", k) for k in CONTROLS if k in kinds},
        "kinds": {kind: _kind(table, name, kind) for kind in kinds},
    }
    if "adversarial" not in kinds:
        return found
    near = plan.near_anchor()
    found["near_anchor"] = _group(table, name, near)
    found["ends"] = {
        end: {**_group(table, name, cells), **_drop(table, name, near, cells)}
        for end, cells in ends(plan).items()
        if cells
    }
    measures: tuple[Measure, ...] = ("asr", "casr")
    cells = {m: table.cells(plan.cells(), name, m) for m in measures}
    found["regions"] = {
        m: region_of(c, list(plan.axes), plan.base).to_dict() for m, c in cells.items()
    }
    found["nearest"] = {
        "holding": _place(nearest(cells["asr"], ANCHOR, works=False)),
        "working": _place(nearest(cells["asr"], ANCHOR, works=True)),
    }
    found["cells"] = [_cell(a, c) for a, c in zip(cells["asr"], cells["casr"], strict=True)]
    return found


def ends(plan: SweepPlan) -> dict[str, tuple[Condition, ...]]:
    """The cells of the far and the oblique end of a plan (see `summarize`)."""
    far = plan.at_end("radius", both=False)
    oblique = plan.at_end("azimuth_deg", both=True)
    together = tuple(dict.fromkeys((*far, *oblique)))
    return {"far": far, "oblique": oblique, "far_or_oblique": together}


def _kind(table: ScoreTable, victim: str, kind: str) -> dict[str, Any]:
    found = {
        "asr": _rate(table, victim, "asr", kind),
        "errors": table.errors.get((victim, kind), 0),
        "omissions": dict(table.omissions.get((victim, kind), {})),
    }
    if kind not in CONTROLS:
        found["gain"] = _rate(table, victim, "gain", kind)
        found["casr"] = _rate(table, victim, "casr", kind)
        found["modes"] = {mode: _rate(table, victim, mode, kind) for mode in FAILURE_MODES}
    return found


def _group(table: ScoreTable, victim: str, cells: Sequence[Condition]) -> dict[str, Any]:
    return {
        "cells": len(cells),
        "asr": table.rate(victim, "asr", conditions=cells).to_dict(),
        "casr": table.rate(victim, "casr", conditions=cells).to_dict(),
        "right_on_gray": table.rate(victim, "accuracy", "gray", cells).to_dict(),
    }


def _drop(
    table: ScoreTable, victim: str, near: Sequence[Condition], end: Sequence[Condition]
) -> dict[str, Any]:
    """By how much cASR is lower at an end than around the anchor; cells in both count for near.

    Empty where the end has no cell of its own (a small grid is all around its anchor).
    """
    beyond = [cell for cell in end if cell not in near]
    if not beyond:
        return {}
    rates = [table.rate(victim, "casr", conditions=cells) for cells in (near, beyond)]
    return {"casr_drop": drop_between(*rates).to_dict()}


def _rate(table: ScoreTable, victim: str, measure: Measure, kind: str) -> dict[str, Any]:
    return table.rate(victim, measure, kind).to_dict()


def _cell(asr: Cell, casr: Cell) -> dict[str, Any]:
    return {
        "condition": {k: v for k, v in asr.condition.to_dict().items() if k != "variant"},
        "state": asr.state,
        "reason": asr.reason,
        "asr": _counts(asr),
        "casr": _counts(casr),
        "inside": is_inside(asr),
        "views": asr.views,
        "observable": asr.observable,
        "patch_hidden": asr.hidden,
        "extrapolated": asr.extrapolated,
    }


def _counts(cell: Cell) -> dict[str, Any]:
    return {"value": cell.value, "of": cell.rate.denominator, "state": cell.state}


def _place(cell: Cell | None) -> Mapping[str, float] | None:
    if cell is None:
        return None
    return {k: v for k, v in cell.condition.to_dict().items() if k != "variant"}


def _views(run: Run, plan: SweepPlan) -> dict[str, int]:
    """How many of the plan's views were drawn, and what was found about them."""
    keys = {c.key for c in plan.cells()}
    seen = [
        view.observation
        for view in run.store.views(run.store.geometry()).values()
        if view.condition in keys and view.nominal.variant < plan.variants
    ]
    observable = [o for o in seen if o.observable]
    return {
        "planned": len(plan.cells()) * plan.variants,
        "drawn": len(seen),
        "observable": len(observable),
        "patch_hidden": sum(o.patch_hidden for o in observable),
        "extrapolated": sum(o.extrapolated for o in observable),
    }


def _answer_kind(run: Run, victim: str) -> str:
    """Classifier, detector or grounder, from the stored settings or rows."""
    known = run.store.settings()
    for (name, _), settings_hash in run.store.current_settings().items():
        if name == victim:
            return str(known[settings_hash].get("victim", {}).get("kind", "detector"))
    for score in run.store.scores():
        if score.victim == victim:
            return score.answer.kind
    return "detector"


def summary_text(facts: Mapping[str, Any]) -> str:
    """The summary as lines for a terminal; every rate with its counts and interval."""
    views = facts["views"]
    lines = [
        f"{facts['run']}: {facts['label']}, {facts['cells']} conditions x "
        f"{facts['plan']['variants']} variants; {views['drawn']} of {views['planned']} views "
        f"drawn, {views['observable']} observable, {views['patch_hidden']} with the patch hidden, "
        f"{views['extrapolated']} extrapolated",
    ]
    for name, victim in facts["victims"].items():
        lines += ["", *_victim_lines(name, victim)]
    if not facts["victims"]:
        lines.append("nothing is scored yet")
    return "\n".join(lines)


def _victim_lines(name: str, victim: Mapping[str, Any]) -> list[str]:
    criterion = victim["criterion"]
    gamma = f", gamma {criterion['gamma']:g}" if victim["answers"] == "detector" else ""
    lines = [f"{name} ({victim['answers']}, {criterion['task']}{gamma}, tau {criterion['tau']:g})"]
    rows = [(f"right on {kind}", rate) for kind, rate in victim["right"].items()]
    for kind, found in victim["kinds"].items():
        rows.append((f"ASR {kind}", found["asr"]))
        rows += [
            (f"{m} {kind}", found[k]) for m, k in (("gain", "gain"), ("cASR", "casr")) if k in found
        ]
        if kind == "adversarial":
            rows += [(f"  {mode}", rate) for mode, rate in found["modes"].items()]
    if "near_anchor" in victim:
        near = victim["near_anchor"]
        rows.append((f"cASR around the anchor ({near['cells']} cells)", near["casr"]))
        for end, group in victim["ends"].items():
            words = end.replace("_", " ")
            rows.append((f"cASR {words} ({group['cells']} cells)", group["casr"]))
            if "casr_drop" in group:
                rows.append(("  lower than around the anchor by", group["casr_drop"]))
    width = max(len(label) for label, _ in rows)
    lines += [f"  {label:{width}}  {_rate_text(rate)}" for label, rate in rows]
    if "regions" in victim:
        lines += [
            f"  {_region_text(measure, region)}" for measure, region in victim["regions"].items()
        ]
    lines += [f"  {note}" for note in (*omission_notes(victim), *cautions(victim))]
    errors = sum(found["errors"] for found in victim["kinds"].values())
    if errors:
        lines.append(f"  {errors} answers were errors and are in no count")
    return lines


def cautions(victim: Mapping[str, Any]) -> list[str]:
    """What a reader of a victim's rates should know first, a sentence each."""
    states = [cell["asr"]["state"] for cell in victim.get("cells", ())]
    right = {kind: rate["value"] for kind, rate in victim["right"].items()}
    found = asr_caution(right), partial_caution(states.count("unscored"), len(states))
    return [caution for caution in found if caution]


def omission_notes(victim: Mapping[str, Any]) -> list[str]:
    """Per render kind, which omissions there were, where some are not plainly empty answers."""
    return [
        f"omissions on {kind}: " + ", ".join(f"{n} {why}" for why, n in sorted(counts.items()))
        for kind, counts in ((k, found["omissions"]) for k, found in victim["kinds"].items())
        if set(counts) - {"empty"}
    ]


def _rate_text(rate: Mapping[str, Any]) -> str:
    return str(Rate(**{key: value for key, value in rate.items() if key != "ranked"}))


def _region_text(measure: str, region: Mapping[str, Any]) -> str:
    size = "undefined" if region["size"] is None else f"{region['size']:.2f}"
    reach = ", ".join(
        f"{axis.removesuffix('_deg')} {_edge(extent, 'low')} to {_edge(extent, 'high')}"
        for axis, extent in region["extent"].items()
        if extent["low"] is not None
    )
    name = {"asr": "ASR", "casr": "cASR"}[measure]
    where = f"; from the anchor: {reach}" if reach else "; the anchor is outside"
    return (
        f"envelope ({name} >= 0.5): {size} of the observable conditions "
        f"({region['inside']}/{region['observable']}){where}"
    )


def _edge(extent: Mapping[str, Any], side: str) -> str:
    """An edge of the envelope; `or beyond` where the sweep ends there."""
    return f"{extent[side]:g}" + (" or beyond" if extent[f"open_{side}"] else "")
