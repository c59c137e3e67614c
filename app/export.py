"""What of a run can be taken away, and a few words about a run that is not open."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scene.errors import InputError
from scene.io.atomic import atomic_write

if TYPE_CHECKING:
    from envelope.run import Run

EXPORTS = "exports"
"""Folder in a run folder that exports are kept in."""
MOST_DOWNLOAD_BYTES = 200 * 10**6
"""Larger files are left in the run folder only: browsers get them through memory."""

TEXT_COLUMNS = (
    "kind", "victim", "label", "prompt", "why_not", "status", "top_label", "task", "mode",
    "omission", "raw_text", "error", "origin", "settings",
)  # fmt: skip
WHOLE_COLUMNS = (
    "variant", "observable", "patch_px", "patch_hidden", "extrapolated", "success", "right",
    "tries",
)  # fmt: skip


@dataclass(frozen=True)
class Exported:
    """A file that was written. path: in the run folder. too_large: for a browser."""

    path: Path
    size: int

    @property
    def too_large(self) -> bool:
        """Whether it should not be sent to a browser."""
        return self.size > MOST_DOWNLOAD_BYTES

    def text(self) -> str:
        """Where it is and how large."""
        note = "; too large to download, take it from there" if self.too_large else ""
        return f"{self.path} ({self.size / 1e6:.1f} MB){note}"


def export(run: Run, form: str) -> Exported:
    """Write the run in one of `FORMS` into its folder of exports; whole or not at all.

    Raises InputError.
    """
    if form not in FORMS:
        raise InputError(f"export: wanted one of {', '.join(FORMS)}, found {form!r}")
    name, content_of = FORMS[form]
    content = content_of(run)
    path = run.folder / EXPORTS / f"{run.name}-{name}"
    with atomic_write(path) as file:
        file.write(content)
    return Exported(path, len(content))


def rows_parquet(run: Run) -> bytes:
    """The rows of `envelope.report.rows_csv`, typed. Needs pyarrow. Raises InputError."""
    from envelope.report import rows_csv

    try:
        import pyarrow as pa
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(
            "Parquet needs pyarrow, which is not installed: pip install 'advscene-inspector[waymo]'"
        ) from error
    text = rows_csv(run)
    columns = text.splitlines()[0].split(",")
    types = {name: pa.float64() for name in columns}
    types.update({name: pa.string() for name in TEXT_COLUMNS})
    types.update({name: pa.int64() for name in WHOLE_COLUMNS})
    table = pa.csv.read_csv(
        io.BytesIO(text.encode()),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            column_types=types, strings_can_be_null=False, quoted_strings_can_be_null=False
        ),
    )
    buffer = io.BytesIO()
    pa.parquet.write_table(table, buffer)
    return buffer.getvalue()


def embedded_ply(run: Run) -> bytes:
    """The scene with the adversarial patch in it, as a 3DGS PLY."""
    from scene.io.load import save_gaussians

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scene.ply"
        save_gaussians(run.adversarial.gaussians("adversarial"), path)
        return path.read_bytes()


def figures_zip(run: Run) -> bytes:
    """Heat maps and curves of every victim as PNG pictures, in one zip file."""
    from envelope.figures_png import write_pngs

    plan = run.settings.sweep
    if plan is None:
        raise InputError(f"{run.name}: nothing was swept yet; there is no figure to draw")
    buffer = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(buffer, "w") as archive:
        for path in write_pngs(run.table(plan), plan, Path(folder)):
            archive.write(path, path.name)
    return buffer.getvalue()


def _html(run: Run) -> bytes:
    from envelope.report import html_report
    from envelope.summary import summarize

    facts = summarize(run)
    plan = run.settings.sweep
    assert plan is not None  # `summarize` has looked
    return html_report(run, facts, run.table(plan), plan).encode()


def _csv(run: Run) -> bytes:
    from envelope.report import rows_csv

    return rows_csv(run).encode()


FORMS: dict[str, tuple[str, Callable[[Run], bytes]]] = {
    "HTML report": ("report.html", _html),
    "CSV rows": ("scores.csv", _csv),
    "Parquet rows": ("scores.parquet", rows_parquet),
    "PLY, patch embedded": ("adversarial.ply", embedded_ply),
    "PNG figures (zip)": ("figures.zip", figures_zip),
}
"""The page's word -> (end of the file's name, its content)."""


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
