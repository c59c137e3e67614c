"""`advscene victim`: which models there are, and whether one's answers land where they should."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from scene.errors import InputError

if TYPE_CHECKING:
    from envelope.victims.probe import ProbeReport
    from envelope.victims.probe_pictures import KnownPicture
    from envelope.victims.registry import Listed


@dataclass(frozen=True)
class ListVictims:
    """List every model that can be chosen, what it needs, and the command that gets it."""

    json: bool = False
    """Print JSON, with box conventions, thresholds and measured seconds."""

    def run(self) -> None:
        """Print the roster."""
        from app.commands.output import say, say_json
        from envelope.victims.registry import list_victims

        rows = list_victims()
        if self.json:
            say_json([_fields(row) for row in rows])
            return
        width = max(len(_written(row)) for row in rows)
        for row in rows:
            state: str = row.now.status
            if row.now.status == "ready" and row.needs_location:
                state = "needs a path"
            seconds = f", {row.seconds:.3g} s a picture here" if row.seconds else ""
            say(f"{_written(row):{width}s}  {row.kind:10s}  {state:13s}  "
                f"{row.licence}{seconds}")  # fmt: skip
            if row.command:
                say(f"{'':{width}s}  get it: {row.command}")


def _written(row: Listed) -> str:
    """What a person types, without options: `yolov8n`, `onnx:FILE`."""
    return row.spec.partition("?")[0] if row.needs_location else row.name


def _fields(row: Listed) -> dict[str, Any]:
    entry = row.entry
    return {
        "name": row.name,
        "spec": row.spec,
        "kind": row.kind,
        "state": row.now.status,
        "ready": row.ready,
        "command": row.command,
        "licence": row.licence,
        "extra": entry.extra,
        "source": entry.source,
        "input_size": entry.input_size,
        "threshold": entry.threshold,
        "convention": entry.convention,
        "evidence": entry.evidence,
        "options": entry.options,
        "white_box": entry.white_box,
        "seconds_per_picture": row.seconds,
    }


@dataclass(frozen=True)
class ProbeVictim:
    """Show a model an object at known places: whether its boxes land and, if not, what fits."""

    name: Annotated[str, tyro.conf.Positional]
    """Victim, as in `advscene victim list`: demo-detector, onnx:FILE, my_models:make_detector."""
    label: str | None = None
    """Class to ask for; default "stop sign", which the probe draws itself."""
    picture: Path | None = None
    """Your own picture of an object, for models that know no stop sign; give --box and --label."""
    box: tuple[float, float, float, float] | None = None
    """x0 y0 x1 y1 of the object in that picture, pixels."""
    threads: int = 1
    """CPU threads of one prediction."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Probe and print; exit code 1 when the answers do not land."""
        from app.commands.output import say, say_json
        from envelope.victims.probe import probe
        from envelope.victims.registry import find_entry, load_victim
        from envelope.victims.timings import note_seconds

        label, pictures = self._pictures()
        victim = load_victim(self.name, label, self.threads)
        report = probe(victim, label, pictures)
        if find_entry(self.name) is not None:
            note_seconds(self.name, report.seconds)
        if self.json:
            say_json({**report.to_dict(), "coordinates": victim.info.coordinates})
        else:
            say(_text(report, victim.info.coordinates))
        if not report.lands:
            sys.exit(1)

    def _pictures(self) -> tuple[str, list[KnownPicture]]:
        from envelope.victims.probe_pictures import LABEL, picture_of, sign_pictures

        if self.picture is None:
            if self.box is not None:
                raise InputError("--box belongs to --picture; give both")
            return self.label or LABEL, sign_pictures()
        if self.box is None or self.label is None:
            raise InputError("--picture wants --box x0 y0 x1 y1 and --label with it")
        return self.label, picture_of(self.picture, self.box)


def _text(report: ProbeReport, coordinates: str) -> str:
    """Verdict first, then one line per picture. Raw answers stay plain text on one line."""
    lines = [f"{report.victim}: {report.verdict}"]
    for look in report.looks:
        known = " ".join(f"{v:.0f}" for v in look.truth)
        if report.kind == "classifier":
            lines.append(f"  {look.place:20s} {look.said} ({look.confidence:.2f})")
            continue
        found = "nothing" if look.answer is None else " ".join(f"{v:.0f}" for v in look.answer)
        lines.append(
            f"  {look.place:20s} object {known}  answer {found}  IoU {look.overlap:.2f}  "
            f"{' '.join(look.said.split())[:60]}"
        )
    if coordinates:
        lines.append(f"  its own boxes: {coordinates}")
    lines.append(f"  {report.seconds:.3g} s a picture")
    return "\n".join(lines)


@dataclass(frozen=True)
class Victim:
    """The models that score renders: list them, or probe one with an object at known places."""

    action: Annotated[
        Annotated[ListVictims, tyro.conf.subcommand("list", prefix_name=False)]
        | Annotated[ProbeVictim, tyro.conf.subcommand("probe", prefix_name=False)],
        tyro.conf.arg(name=""),
    ]

    def run(self) -> None:
        """Do what was asked."""
        self.action.run()
