"""What of a run can be taken away, and a few words about a run that is not open."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from scene.errors import InputError

if TYPE_CHECKING:
    from envelope.run import Run


def export(run: Run, form: str) -> tuple[str, bytes]:
    """File name and content of the open run in one of `FORMS`. Raises InputError."""
    from envelope.report import write_report

    if form not in FORMS:
        raise InputError(f"export: wanted one of {', '.join(FORMS)}, found {form!r}")
    name = FORMS[form]
    with tempfile.TemporaryDirectory() as folder:
        write_report(run, Path(folder))
        return f"{run.name}-{name}", (Path(folder) / name).read_bytes()


FORMS = {"HTML report": "report.html", "CSV rows": "scores.csv"}
"""The page's word -> the report's file."""


def describe_run(folder: Path) -> str:
    """Scene, patch, victims and counts of a run folder, or why it cannot be opened."""
    from envelope.run import open_run

    try:
        run = open_run(folder, read_only=True)
    except InputError as error:
        return str(error)
    try:
        counts = run.store.counts()
        victims = ", ".join(choice.name for choice in run.settings.victims) or "none"
        return (
            f"scene {run.about['scene'].get('name', '?')}, patch {run.about['patch'].get('name')}\n"
            f"victims: {victims}\n"
            f"{counts['views']} views, {counts['scores']} scores, {counts['errors']} errors"
        )
    finally:
        run.close()
