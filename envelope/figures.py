"""The envelope as plotly figures: heat map over two axes, curves along each.

Light payloads (no template), transparent ground and mid-gray ink, so that they are legible in
dark and light pages alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from envelope.cells import MEASURES, Cell, Measure, ScoreTable
from envelope.condition import AXES, Condition
from envelope.figure_data import (
    BANDED,
    KIND_COLORS,
    PRETTY,
    CurvePoint,
    Grid,
    band_runs,
    curve_of,
    describe,
    grid_of,
    place_on,
    scale_of,
    short,
    whisker_places,
)
from envelope.sweep import SweepPlan

if TYPE_CHECKING:
    import plotly.graph_objects as go

INK = "#808080"
GRID = "rgba(128,128,128,0.25)"
DASHES = {"adversarial": "solid", "gray": "dot", "clean": "dash", "overlay": "dashdot"}
HATCH_LINES = 4


def heat_map(
    table: ScoreTable,
    plan: SweepPlan,
    victim: str,
    measure: Measure = "asr",
    kind: str = "adversarial",
    current: Condition | None = None,
    ink: str = INK,
) -> go.Figure:
    """The measure over the plan's axes.

    Unobservable cells are hatched, cells that are not scored yet blank, undefined ones carry a
    question mark; counts show on hover. current: a ring marks the view that the user looks at.
    """
    import plotly.graph_objects as go

    grid = grid_of(table, plan, victim, measure, kind)
    diverging = measure == "gain"
    width = len(grid.x_values)
    figure = go.Figure(
        go.Heatmap(
            x=list(range(width)),
            y=list(range(len(grid.rows))),
            z=[_padded([cell.value for cell in row], width) for row in grid.rows],
            text=[_padded([_in_cell(cell) for cell in row], width, "") for row in grid.rows],
            texttemplate="%{text}",
            textfont={"size": 11},
            hovertext=[
                _padded(["<br>".join(describe(cell, measure)) for cell in row], width, "")
                for row in grid.rows
            ],
            hoverinfo="text",
            colorscale=_scale(scale_of(measure)),
            zmin=-1 if diverging else 0,
            zmax=1,
            xgap=1,
            ygap=1,
            colorbar={"thickness": 10, "outlinewidth": 0, "tickfont": {"color": ink}},
        )
    )
    figure.update_layout(_layout(f"{victim}: {MEASURES[measure]}, {kind}", ink))
    figure.update_xaxes(_ticks(grid.x_axis, [short(v) for v in grid.x_values], ink))
    figure.update_yaxes(_ticks(grid.y_axis, list(grid.y_labels), ink))
    hatch = _hatch(grid)
    if hatch:
        figure.add_shape(type="path", path=hatch, line={"color": ink, "width": 1})
    unknown = _positions(grid, "undefined")
    if unknown:
        figure.add_trace(_marks(unknown, "?", ink))
    if current is not None and grid.x_axis:
        figure.add_trace(_ring(grid, plan, current))
    return figure


def curves(
    table: ScoreTable,
    plan: SweepPlan,
    victim: str,
    measure: Measure = "asr",
    kinds: Sequence[str] = ("adversarial", "gray", "clean"),
    axis: str | None = None,
    current: Condition | None = None,
    ink: str = INK,
    banded: Sequence[str] = BANDED,
) -> go.Figure:
    """The measure along one axis (default the first), one line per render kind.

    A point pools all cells of the plan at that value; bands and whiskers are 95 % intervals,
    absent where one cell alone stands behind a point. banded: kinds whose intervals are bands;
    the others' are whiskers, each a little beside its value.
    """
    import plotly.graph_objects as go

    axis = axis or next(iter(plan.axes))
    figure = go.Figure()
    values = sorted(plan.axes[axis])
    plain = [kind for kind in kinds if kind not in banded]
    for kind in kinds:
        points = curve_of(table, plan, victim, measure, axis, kind)
        figure.add_traces(_line(points, kind, kind in banded))
        if kind in plain:
            rank, span = plain.index(kind), (values[0], values[-1])
            at = whisker_places([p.value for p in points], axis, rank, len(plain), span)
            figure.add_traces(_whiskers(points, at, kind))
    figure.update_layout(_layout(f"{victim}: {MEASURES[measure]}", ink), showlegend=True)
    figure.update_layout(
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        margin={"l": 52, "r": 8, "t": 54, "b": 42},
    )
    scale = {"type": "log"} if AXES[axis].log else {}
    figure.update_xaxes(
        title=PRETTY[axis], tickvals=values, ticktext=[short(v) for v in values],
        showgrid=False, zeroline=False, color=ink, **scale,
    )  # fmt: skip
    low = -1.05 if measure == "gain" else -0.05
    figure.update_yaxes(range=[low, 1.05], color=ink, gridcolor=GRID, zerolinecolor=GRID)
    if current is not None:
        figure.add_vline(x=getattr(current, axis), line={"color": ink, "width": 1, "dash": "dot"})
    return figure


def _line(points: Sequence[CurvePoint], kind: str, with_band: bool) -> list[Any]:
    """A render kind's line, with the band of its intervals behind it where wanted."""
    import plotly.graph_objects as go

    shown = [(p.value, p.rate, p.rate.value) for p in points if p.rate.value is not None]
    if not shown:
        return []
    at = [x for x, _, _ in shown]
    color = KIND_COLORS.get(kind, INK)
    line = go.Scatter(
        x=at,
        y=[v for _, _, v in shown],
        name=kind,
        legendgroup=kind,
        mode="lines+markers",
        line={"color": color, "dash": DASHES.get(kind, "longdash"), "width": 2},
        marker={"size": 6},
        hovertext=[f"{kind} at {short(x)}<br>{rate}" for x, rate, _ in shown],
        hoverinfo="text",
    )
    return [*_bands(points, kind), line] if with_band else [line]


def _bands(points: Sequence[CurvePoint], kind: str) -> list[Any]:
    """The intervals of neighbouring points as filled bands; of a lonely point as a stroke."""
    import plotly.graph_objects as go

    color, found = KIND_COLORS.get(kind, INK), []
    for run in band_runs(points):
        at = [point.value for point in run]
        if len(run) == 1:
            found += _whiskers(run, at, kind)
            continue
        lows, highs = [p.rate.low for p in run], [p.rate.high for p in run]
        found.append(
            go.Scatter(
                x=at + at[::-1], y=highs + lows[::-1], fill="toself", fillcolor=color,
                opacity=0.16, mode="none", hoverinfo="skip", showlegend=False, legendgroup=kind,
            )
        )  # fmt: skip
    return found


def _whiskers(points: Sequence[CurvePoint], at: Sequence[float], kind: str) -> list[Any]:
    """A render kind's intervals as thin upright strokes at `at`, where there are intervals."""
    import plotly.graph_objects as go

    x: list[float | None] = []
    y: list[float | None] = []
    for place, point in zip(at, points, strict=True):
        low, high = point.rate.low, point.rate.high
        if low is not None and high is not None:
            x += [place, place, None]
            y += [low, high, None]
    if not x:
        return []
    color = KIND_COLORS.get(kind, INK)
    return [
        go.Scatter(
            x=x, y=y, mode="lines", line={"color": color, "width": 1.5}, opacity=0.6,
            hoverinfo="skip", showlegend=False, legendgroup=kind,
        )
    ]  # fmt: skip


def _layout(title: str, ink: str) -> dict[str, Any]:
    return {
        "template": None,
        "title": {"text": title, "font": {"size": 13}, "x": 0.02, "y": 0.98, "yanchor": "top"},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": ink, "size": 11},
        "margin": {"l": 52, "r": 8, "t": 34, "b": 42},
        "showlegend": False,
    }


def _ticks(axis: str, labels: list[str], ink: str) -> dict[str, Any]:
    return {
        "title": PRETTY.get(axis, ""),
        "tickvals": list(range(len(labels))),
        "ticktext": labels,
        "range": [-0.5, len(labels) - 0.5],
        "showgrid": False,
        "zeroline": False,
        "color": ink,
        "showticklabels": bool(axis) or len(set(labels)) > 1,
    }


def _in_cell(cell: Cell) -> str:
    return "" if cell.value is None else f"{cell.value:.2f}".replace("0.", ".").replace("-.", "−.")


def _padded(values: list[Any], width: int, filler: Any = None) -> list[Any]:
    return values + [filler] * (width - len(values))


def _scale(colors: Sequence[str]) -> list[list[Any]]:
    return [[i / (len(colors) - 1), color] for i, color in enumerate(colors)]


def _positions(grid: Grid, state: str) -> list[tuple[int, int]]:
    return [
        (i, j) for j, row in enumerate(grid.rows) for i, c in enumerate(row) if c.state == state
    ]


def _hatch(grid: Grid) -> str:
    """One SVG path with diagonal lines over every unobservable cell; "" when there is none."""
    parts = []
    for i, j in _positions(grid, "unobservable"):
        for n in range(1, 2 * HATCH_LINES):
            t = n / HATCH_LINES
            x0, y0 = (i - 0.5 + max(0.0, t - 1), j - 0.5 + min(1.0, t))
            x1, y1 = (i - 0.5 + min(1.0, t), j - 0.5 + max(0.0, t - 1))
            parts.append(f"M{x0:g},{y0:g}L{x1:g},{y1:g}")
    return "".join(parts)


def _marks(at: list[tuple[int, int]], text: str, ink: str) -> Any:
    import plotly.graph_objects as go

    return go.Scatter(
        x=[i for i, _ in at], y=[j for _, j in at], mode="text", text=[text] * len(at),
        textfont={"color": ink, "size": 12}, hoverinfo="skip",
    )  # fmt: skip


def _ring(grid: Grid, plan: SweepPlan, current: Condition) -> Any:
    import plotly.graph_objects as go

    x = place_on(plan.axes[grid.x_axis], grid.x_axis, getattr(current, grid.x_axis))
    y = 0.0
    if grid.y_axis:
        y = place_on(plan.axes[grid.y_axis], grid.y_axis, getattr(current, grid.y_axis))
    limits = len(grid.x_values) - 0.5, len(grid.rows) - 0.5
    return go.Scatter(
        x=[min(max(x, -0.45), limits[0] - 0.05)],
        y=[min(max(y, -0.45), limits[1] - 0.05)],
        mode="markers",
        marker={"symbol": "circle-open", "size": 18, "color": "#e8418c", "line": {"width": 3}},
        hoverinfo="skip",
    )
