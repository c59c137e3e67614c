"""The same figures as PNG pictures (matplotlib), for README, paper and command line."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envelope.cells import MEASURES, Measure, ScoreTable
from envelope.condition import AXES, Condition
from envelope.figure_data import (
    BANDED,
    KIND_COLORS,
    PRETTY,
    CurvePoint,
    band_runs,
    curve_of,
    grid_of,
    place_on,
    scale_of,
    short,
    whisker_places,
)
from envelope.sweep import SweepPlan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 150
LINES = {"adversarial": "-", "gray": ":", "clean": "--", "overlay": "-."}


def heat_map_png(
    table: ScoreTable,
    plan: SweepPlan,
    victim: str,
    measure: Measure = "asr",
    kind: str = "adversarial",
    current: Condition | None = None,
) -> bytes:
    """`envelope.figures.heat_map` as a PNG."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    grid = grid_of(table, plan, victim, measure, kind)
    colors = LinearSegmentedColormap.from_list("envelope", scale_of(measure))
    low = -1.0 if measure == "gain" else 0.0
    width, height = len(grid.x_values), len(grid.rows)
    figure, ax = _figure(1.8 + 0.55 * width, 1.5 + 0.45 * height)
    for j, row in enumerate(grid.rows):
        for i, cell in enumerate(row):
            box: dict[str, Any] = {"xy": (i - 0.48, j - 0.48), "width": 0.96, "height": 0.96}
            if cell.state == "unobservable":
                ax.add_patch(
                    Rectangle(**box, fill=False, hatch="////", edgecolor="#808080", lw=0.3)
                )
            elif cell.value is not None:
                share = (cell.value - low) / (1 - low)
                ax.add_patch(Rectangle(**box, color=colors(share), lw=0))
                ink = "white" if _luminance(colors(share)) < 0.45 else "black"
                ax.text(i, j, f"{cell.value:.2f}", ha="center", va="center", color=ink, size=8)
            elif cell.state == "undefined":
                ax.text(i, j, "?", ha="center", va="center", color="#808080", size=9)
    ax.set_xlim(-0.5, width - 0.5)
    ax.set_ylim(-0.5, height - 0.5)
    ax.set_xticks(range(width), [short(v) for v in grid.x_values] if grid.x_axis else [""] * width)
    ax.set_yticks(range(height), grid.y_labels)
    ax.set_xlabel(PRETTY.get(grid.x_axis, "along its own grid"))
    ax.set_ylabel(PRETTY.get(grid.y_axis, ""))
    ax.set_title(f"{victim}: {MEASURES[measure]}, {kind}", size=10)
    if current is not None and grid.x_axis:
        x = place_on(plan.axes[grid.x_axis], grid.x_axis, getattr(current, grid.x_axis))
        y = 0.0
        if grid.y_axis:
            y = place_on(plan.axes[grid.y_axis], grid.y_axis, getattr(current, grid.y_axis))
        ax.plot([x], [y], "o", ms=14, mfc="none", mec="#e8418c", mew=2.5, clip_on=False)
    return _png(figure)


def curves_png(
    table: ScoreTable,
    plan: SweepPlan,
    victim: str,
    measure: Measure = "asr",
    kinds: Sequence[str] = ("adversarial", "gray", "clean"),
    axis: str | None = None,
) -> bytes:
    """`envelope.figures.curves` as a PNG."""
    axis = axis or next(iter(plan.axes))
    figure, ax = _figure(5.2, 3.4)
    ticks = sorted(plan.axes[axis])
    plain = [kind for kind in kinds if kind not in BANDED]
    for kind in kinds:
        points = curve_of(table, plan, victim, measure, axis, kind)
        shown = [(p.value, p.rate, p.rate.value) for p in points if p.rate.value is not None]
        if not shown:
            continue
        values = [v for _, _, v in shown]
        at = [x for x, _, _ in shown]
        color = KIND_COLORS.get(kind)
        _draw_intervals(ax, points, kind, axis, (plain, (ticks[0], ticks[-1])))
        style = LINES.get(kind, (0, (6, 2)))
        ax.plot(at, values, label=kind, lw=1.6, ms=4, color=color, ls=style, marker="o")
    if AXES[axis].log:
        ax.set_xscale("log")
        ax.minorticks_off()
    ax.set_xticks(ticks, [short(v) for v in ticks])
    ax.set_ylim(-1.05 if measure == "gain" else -0.05, 1.05)
    ax.set_xlabel(PRETTY[axis])
    ax.set_title(f"{victim}: {MEASURES[measure]}", size=10)
    ax.grid(axis="y", alpha=0.3)
    if ax.get_legend_handles_labels()[1]:
        ax.legend(fontsize=8, frameon=False)
    return _png(figure)


def _draw_intervals(
    ax: Any,
    points: Sequence[CurvePoint],
    kind: str,
    axis: str,
    plain: tuple[list[str], tuple[float, float]],
) -> None:
    """Bands for the patch's kind, strokes for the others; `plain`: those, and the axis's ends."""
    strokes, span = plain
    rank = strokes.index(kind) if kind in strokes else 0
    count = len(strokes) if kind in strokes else 1
    color = KIND_COLORS.get(kind)
    for run in band_runs(points):
        where = [p.value for p in run]
        lows, highs = [p.rate.low for p in run], [p.rate.high for p in run]
        if kind in BANDED and len(run) > 1:
            ax.fill_between(where, lows, highs, color=color, alpha=0.16, lw=0)
        else:
            places = whisker_places(where, axis, rank, count, span)
            ax.vlines(places, lows, highs, color=color, alpha=0.6, lw=1.2)


def write_pngs(
    table: ScoreTable, plan: SweepPlan, folder: Path, measures: Sequence[Measure] = ("asr", "casr")
) -> list[Path]:
    """Heat maps and curves of every victim into `folder`; the paths written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for victim in table.victims:
        pictures = {m: heat_map_png(table, plan, victim, m) for m in measures}
        for axis in plan.axes:
            pictures[f"curve-{axis}"] = curves_png(table, plan, victim, axis=axis)  # type: ignore[index]
        for name, content in pictures.items():
            path = folder / f"{_file_name(victim)}-{name}.png"
            path.write_bytes(content)
            written.append(path)
    return written


def _figure(width: float, height: float) -> tuple[Figure, Any]:
    """A figure outside pyplot: safe in threads, nothing global is touched."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _luminance(color: tuple[float, ...]) -> float:
    red, green, blue = color[:3]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _file_name(victim: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in victim)
