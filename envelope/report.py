"""A run as files for others: self-contained HTML, CSV of all rows, JSON of the figures."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from envelope.cells import Measure, ScoreTable
from envelope.condition import AXES
from envelope.outcome import Criterion, judge, most_confident
from envelope.run import Reading, Run
from envelope.store import Row
from envelope.summary import cautions, omission_notes, summarize
from envelope.sweep import SweepPlan

_STYLE = """
:root { color-scheme: light dark; }
body { font: 14px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
  background: Canvas; color: CanvasText; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; margin: .5rem 0; font-variant-numeric: tabular-nums; }
td, th { border-bottom: 1px solid #8885; padding: .25rem .75rem .25rem 0; text-align: left; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); gap: 1rem; }
.note { color: #808080; } .plot { height: 24rem; }
"""


_INTERVALS_NOTE = (
    "Curves: each point pools all swept conditions at that value; the band (adversarial) and the "
    "upright strokes (other kinds) are 95 % intervals over conditions. Hover for counts."
)


def write_report(
    run: Run,
    folder: str | Path,
    reading: Reading | None = None,
    skip_hidden: bool = False,
    plan: SweepPlan | None = None,
) -> list[Path]:
    """Write report.html, scores.csv, summary.json and PNG figures; the paths written.

    reading: thresholds, default the run's. skip_hidden: leave out views in which the patch is
    hidden (scores.csv holds them, marked). plan: whose cells count, default the run's sweep.
    Each file appears whole or not at all. Raises InputError when nothing was swept.
    """
    from envelope.figures_png import write_pngs

    folder = Path(folder)
    facts = summarize(run, plan, reading, skip_hidden)
    plan = plan or run.settings.sweep
    assert plan is not None
    table = run.table(plan, reading, skip_hidden)
    _write(folder / "report.html", html_report(run, facts, table, plan))
    write_csv(run, folder / "scores.csv", reading)
    write_json(facts, folder / "summary.json")
    pictures = write_pngs(table, plan, folder)
    return [folder / "report.html", folder / "scores.csv", folder / "summary.json", *pictures]


def write_json(facts: Mapping[str, Any], path: Path) -> None:
    """The summary as JSON."""
    _write(path, json.dumps(facts, indent=1))


def write_csv(run: Run, path: Path, reading: Reading | None = None) -> None:
    """Every stored row of the current settings, judged under the run's thresholds or `reading`."""
    _write(path, rows_csv(run, reading))


def html_report(run: Run, facts: Mapping[str, Any], table: ScoreTable, plan: SweepPlan) -> str:
    """The report's text: one page that needs no network; plotly.js is inlined once."""
    from plotly.offline import get_plotlyjs

    plots: list[tuple[str, str]] = []
    body = [_head(facts), _recipe(run, facts)]
    for name, victim in facts["victims"].items():
        body.append(f"<h2>{escape(name)}</h2>")
        body.append(_victim_table(victim))
        figures = _figures(table, plan, name, list(victim["kinds"]))
        mine = [(f"plot-{len(plots) + i}", f.to_json()) for i, f in enumerate(figures)]
        plots += mine
        divs = "".join(f'<div class="plot" id="{ident}"></div>' for ident, _ in mine)
        body.append(f'<div class="pair">{divs}</div>')
        if mine:
            body.append(f"<p class='note'>{_INTERVALS_NOTE}</p>")
    script = "".join(_plot_call(ident, text) for ident, text in plots)
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        f"<title>{escape(str(facts['run']))}: operational envelope</title>"
        f"<style>{_STYLE}</style><script>{get_plotlyjs()}</script></head>"
        f"<body>{''.join(body)}<script>{script}</script></body></html>"
    )


def rows_csv(run: Run, reading: Reading | None = None) -> str:
    """CSV text; one line per score, unobservable views included and marked."""
    reading = reading or run.settings.reading
    thresholds = run.thresholds()
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(_COLUMNS)
    for row in run.store.rows(run.store.views(run.store.geometry())):
        score = row.score
        criterion = reading.criterion(
            run.settings.choice(score.victim), score.answer.kind, thresholds.get(score.victim)
        )
        writer.writerow(_csv_row(row, criterion))
    return buffer.getvalue()


def _csv_row(row: Row, criterion: Criterion) -> list[Any]:
    """Values in the order of _COLUMNS."""
    view, score, answer = row.view, row.score, row.score.answer
    seen = view.observation
    outcome = judge(answer, criterion, seen.box, seen.footprint if score.kind != "clean" else None)
    best = outcome.box or most_confident(answer)  # the IoU is the judged one's
    line: list[Any] = [*view.nominal.values, view.nominal.variant, *view.actual.values]
    line += [score.kind, score.victim, score.label, score.prompt]
    line += [int(seen.observable), seen.unobservable_because, f"{seen.visible_share:.4f}"]
    line += [*_numbers(seen.box), seen.patch_px, int(seen.patch_hidden)]
    line += [f"{seen.incidence_deg:.2f}", *_numbers(seen.footprint), int(seen.extrapolated)]
    line += [answer.status, *_numbers(None if best is None else best.xyxy)]
    line += ["" if best is None else best.confidence, answer.top[0][0] if answer.top else ""]
    line += [criterion.task, criterion.gamma, criterion.tau]
    line += [_flag(outcome.success), _flag(outcome.right), outcome.mode or ""]
    line += [outcome.omission or "", "" if outcome.box_iou is None else f"{outcome.box_iou:.4f}"]
    line += [answer.raw_text, answer.error, score.tries]
    line += [_ms(score.render_ms), _ms(score.predict_ms), score.origin, score.settings_hash]
    return line


_COLUMNS = (
    *AXES, "variant", *(f"actual_{name}" for name in AXES), "kind", "victim", "label", "prompt",
    "observable", "why_not", "visible_share", "truth_x0", "truth_y0", "truth_x1", "truth_y1",
    "patch_px", "patch_hidden", "incidence_deg", "patch_x0", "patch_y0", "patch_x1", "patch_y1",
    "extrapolated", "status", "box_x0", "box_y0", "box_x1", "box_y1", "confidence", "top_label",
    "task", "gamma", "tau", "success", "right", "mode", "omission", "iou", "raw_text", "error",
    "tries", "render_ms", "predict_ms", "origin", "settings",
)  # fmt: skip


def _figures(table: ScoreTable, plan: SweepPlan, victim: str, kinds: Sequence[str]) -> list[Any]:
    from envelope.figures import curves, heat_map

    if "adversarial" not in kinds:
        return []
    measures: list[Measure] = ["asr"]
    measures += ["casr"] if "gray" in kinds else []
    found = [heat_map(table, plan, victim, measure) for measure in measures]
    return found + [curves(table, plan, victim, "asr", kinds, axis) for axis in plan.axes]


def _plot_call(ident: str, figure_json: str) -> str:
    safe = figure_json.replace("</", "<\\/")
    return (
        f"(f=>Plotly.newPlot('{ident}',f.data,f.layout,{{responsive:true,displayModeBar:false}}))"
        f"({safe});\n"
    )


def _head(facts: Mapping[str, Any]) -> str:
    views, scene = facts["views"], facts["scene"]
    return (
        f"<h1>Operational envelope: {escape(str(facts['run']))}</h1>"
        f"<p>{escape(str(facts['patch'].get('name', 'patch')))} on "
        f"{escape(str(scene.get('name', 'scene')))}, asked for <b>{escape(facts['label'])}</b>. "
        f"{facts['cells']} conditions, {views['drawn']} of {views['planned']} views drawn, "
        f"{views['observable']} observable (the others are in no count), "
        f"{views['patch_hidden']} with the patch hidden, {views['extrapolated']} far from every "
        f"capture camera.</p>"
    )


def _recipe(run: Run, facts: Mapping[str, Any]) -> str:
    rows = {
        "scene": f"{facts['scene'].get('path')}, sha256 {facts['scene'].get('sha256')}",
        "made by": run.about.get("command") or "the viewer",
        "created": run.about.get("created", ""),
        "seed of the noise": facts["seed"],
        "render": json.dumps(facts["render"]),
        "plan": json.dumps(facts["plan"]),
        "tau": facts["tau"],
        "versions": json.dumps(run.about.get("versions", {})),
    }
    lines = "".join(
        f"<tr><th>{escape(k)}</th><td>{escape(str(v))}</td></tr>" for k, v in rows.items()
    )
    return f"<details><summary>Recipe</summary><table>{lines}</table></details>"


def _victim_table(victim: Mapping[str, Any]) -> str:
    criterion = victim["criterion"]
    rows = [("right on " + kind, rate) for kind, rate in victim["right"].items()]
    for kind, found in victim["kinds"].items():
        rows.append((f"ASR, {kind}", found["asr"]))
        for measure in ("gain", "casr"):
            if measure in found:
                rows.append((f"{measure.replace('casr', 'cASR')}, {kind}", found[measure]))
        rows += [(f"{mode}, {kind}", rate) for mode, rate in found.get("modes", {}).items()]
    if "near_anchor" in victim:
        near = victim["near_anchor"]
        rows.append((f"cASR around the anchor ({near['cells']} cells)", near["casr"]))
        for end, group in victim["ends"].items():
            words = end.replace("_", " ")
            rows.append((f"cASR, {words} ({group['cells']} cells)", group["casr"]))
            if "casr_drop" in group:
                drop = group["casr_drop"]
                rows.append((f"cASR, {words}: lower than around the anchor by", drop))
    lines = "".join(_rate_row(name, rate) for name, rate in rows)
    errors = sum(found["errors"] for found in victim["kinds"].values())
    note = f"task {criterion['task']}, gamma {criterion['gamma']}, tau {criterion['tau']}"
    if errors:
        note += f"; {errors} answers were errors and are in no count"
    note = "; ".join([note, *omission_notes(victim), *cautions(victim)])
    return (
        f"<p class='note'>{escape(note)}</p><table><tr><th></th><th>rate</th><th>95 %</th>"
        f"<th>samples</th><th>conditions</th><th>interval</th></tr>{lines}</table>"
    )


def _rate_row(name: str, rate: Mapping[str, Any]) -> str:
    value = "undefined" if rate["value"] is None else f"{rate['value']:.3f}"
    span = "" if rate["low"] is None else f"{rate['low']:.2f} to {rate['high']:.2f}"
    ranked = "" if rate["ranked"] else " (not ranked)"
    cells = (
        name, value + ranked, span,
        rate["groups"] or f"{rate['numerator']:g}/{rate['denominator']}",
        rate["conditions"], rate["interval"],
    )  # fmt: skip
    return "<tr>" + "".join(f"<td>{escape(str(c))}</td>" for c in cells) + "</tr>"


def _numbers(box: Sequence[float] | None) -> list[str]:
    return [""] * 4 if box is None else [f"{v:.2f}" for v in box]


def _flag(value: bool | None) -> str:
    return "" if value is None else str(int(value))


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
