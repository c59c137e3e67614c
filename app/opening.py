"""From what a person names to what a session starts on: a scene, or a run with its scene."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scene.errors import InputError
from scene.io.atomic import atomic_write
from scene.io.json_file import read_json
from scene.scene import Scene, load_scene

if TYPE_CHECKING:
    from envelope.run import Run

ASSETS = Path(__file__).resolve().parents[1] / "assets"
DEMO_RUN = ASSETS / "demo-run"
DEMO_PLACEMENT = ASSETS / "demo" / "placement.json"
DEMO_SCENE = ASSETS / "demo" / "street.compressed.ply"
RECENT = "recent.json"
MOST_RECENT = 12
RUNS = Path("runs")
"""Where new runs are made: under the folder that the viewer was started in."""


@dataclass(frozen=True, eq=False)
class Opened:
    """What was opened.

    path: the splat file. run: None for a bare scene. placement: a file that says where a patch lies
    to begin with, of a bare scene.
    """

    scene: Scene
    path: Path
    run: Run | None = None
    placement: Path | None = None


def open_scene_or_run(
    path: Path | str | None, runs: Path = RUNS, scene_path: Path | None = None
) -> Opened:
    """Open a scene (file or folder), a run folder, or (None) the embedded demo.

    scene_path: where a run's scene is now, if it moved; nothing else takes it. Raises InputError.
    """
    from envelope.run import is_run, open_run

    if path is not None and is_run(Path(path)):
        run = open_run(Path(path), scene_path=scene_path)
        return Opened(run.scene, run.scene_path, run)
    if scene_path is not None:
        raise InputError("--scene goes with a run folder; a splat file is named by itself")
    if path is None:
        return _open_demo(runs)
    return Opened(load_scene(path), Path(path))


def list_runs(runs: Path = RUNS) -> list[Path]:
    """Run folders, newest first."""
    from envelope.run import RUN_FILE

    if not runs.is_dir():
        return []
    found = [folder for folder in runs.iterdir() if (folder / RUN_FILE).is_file()]
    return sorted(found, key=lambda folder: (folder / RUN_FILE).stat().st_mtime, reverse=True)


def new_run_folder(name: str, runs: Path = RUNS) -> Path:
    """A folder under `runs` that does not exist yet: `name`, or `name-2` and so on."""
    plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.") or "run"
    folder, number = runs / plain, 1
    while folder.exists():
        number += 1
        folder = runs / f"{plain}-{number}"
    return folder


def upload_path(name: str, runs: Path = RUNS) -> Path:
    """Where an uploaded splat file is kept, so that its runs can be opened again."""
    suffix = ".compressed.ply" if name.endswith(".compressed.ply") else Path(name).suffix
    folder = new_run_folder(Path(name).name.removesuffix(suffix), runs / "uploads")
    folder.mkdir(parents=True)
    return folder / (Path(name).name or f"scene{suffix}")


def recent_paths(runs: Path = RUNS) -> list[str]:
    """What was opened lately under `runs`, newest first; [] when nobody kept it."""
    path = runs / RECENT
    if not path.is_file():
        return []
    try:
        found = read_json(path)
    except InputError:
        return []
    rows = found if isinstance(found, list) else []
    return [row for row in rows if isinstance(row, str)][:MOST_RECENT]


def remember_path(path: Path, runs: Path = RUNS) -> list[str]:
    """Put a path in front of the recent ones; all of them."""
    here = str(path.resolve())
    found = [here, *(p for p in recent_paths(runs) if p != here)][:MOST_RECENT]
    with atomic_write(runs / RECENT) as file:
        file.write(json.dumps(found, indent=1).encode())
    return found


def views_path(path: Path, scene: Scene, runs: Path = RUNS) -> Path:
    """Where the saved views of a scene are kept: by name and the file's content."""
    digest = str(scene.provenance.get("sha256", ""))[:12]
    stem = "".join(c if c.isalnum() or c in "-_." else "-" for c in path.stem)
    return runs / "views" / f"{stem}{'-' if digest else ''}{digest}.json"


def _open_demo(runs: Path) -> Opened:
    if not DEMO_SCENE.is_file():
        raise InputError(
            f"the embedded demo scene {DEMO_SCENE} is missing; make it with `advscene make-demo` "
            "or name a splat file"
        )
    if not (DEMO_RUN / "run.toml").is_file():
        return Opened(load_scene(DEMO_SCENE), DEMO_SCENE, placement=DEMO_PLACEMENT)
    run = _own_demo_run(runs)
    return Opened(run.scene, run.scene_path, run)


def _own_demo_run(runs: Path) -> Run:
    """A copy of the shipped run to go on with: what ships must not change.

    The copy of an earlier start is taken up again if it was made from the run that ships now.
    """
    from envelope.run import open_run

    # read as text: opening its scores, even read-only, would leave SQLite's files beside them
    made = str(tomllib.loads((DEMO_RUN / "run.toml").read_text(encoding="utf-8"))["created"])
    for folder in list_runs(runs):
        if folder.name.startswith("demo") and (run := _taken_up(folder, made)) is not None:
            return run
    folder = new_run_folder("demo", runs)
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(DEMO_RUN, folder)
    run = open_run(folder, scene_path=DEMO_SCENE)
    run.about["scene"]["path"] = os.path.relpath(DEMO_SCENE, folder.resolve())
    run.update(run.settings)
    return run


def _taken_up(folder: Path, made: str) -> Run | None:
    """The run of an earlier copy; None when it is of another demo, or another demo scene."""
    from envelope.run import open_run

    run = open_run(folder, scene_path=DEMO_SCENE)
    try:
        if run.about["created"] == made and run.scene is not None:
            return run
    except InputError:
        pass
    run.close()
    return None
