"""A reconstruction by somebody's own nerfstudio: its ns-train and ns-export, run as programs.

nerfstudio pins versions that cannot share an environment with this package, so nothing of it is
imported. It is given the capture as this package understands it (`capture_folder`), trains
splatfacto, exports a PLY in its normalised frame; that frame is undone here.
"""

from __future__ import annotations

import logging
import os
import subprocess
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scene.capture import Capture
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.io.frames import DATAPARSER_FILE
from scene.io.load import load_gaussians
from scene.reconstruct.capture_folder import write_capture_folder
from scene.reconstruct.options import ReconstructOptions
from scene.reconstruct.photos import load_photos
from scene.reconstruct.settings import ReconstructSettings
from scene.reconstruct.start import start_points

log = logging.getLogger(__name__)

LineCallback = Callable[[str], None]

_EXPERIMENT, _RUN = "capture", "run"


@dataclass(frozen=True)
class Nerfstudio:
    """The two programs of an environment that has nerfstudio."""

    train: Path
    export: Path

    @classmethod
    def of(cls, environment: Path) -> Nerfstudio:
        """Look in a virtual environment, or in the folder of its programs. Raises InputError."""
        for folder in (environment / "bin", environment / "Scripts", environment):
            for ending in ("", ".exe"):
                train, export = (folder / f"ns-{n}{ending}" for n in ("train", "export"))
                if train.is_file() and export.is_file():
                    return cls(train.absolute(), export.absolute())
        found = "no such folder" if not environment.is_dir() else "neither in it nor in its bin"
        raise InputError(
            f"--with nerfstudio={environment}: wanted a Python environment with ns-train and "
            f"ns-export, found {found}; give the folder of the environment that has nerfstudio"
        )


def train_with_nerfstudio(
    programs: Nerfstudio,
    capture: Capture,
    settings: ReconstructSettings,
    options: ReconstructOptions,
    work: Path,
    line: LineCallback,
) -> tuple[Gaussians, str]:
    """Train splatfacto; Gaussians in the capture's frame, and where it started from, for people.

    work: an empty folder for pictures, run and export. line: called with every line that the
    programs print. Options that are this package's own trainer's have no effect. Raises InputError.
    """
    photos = load_photos(capture, settings.long_side, options.masks)
    rng = np.random.default_rng(settings.seed)
    start = start_points(capture, photos, settings, rng, options)
    data = write_capture_folder(
        capture, work / "data", settings.long_side, start.points, start.colors, options.masks
    )
    _run(_train_command(programs, settings, data, work / "runs"), line)
    run = work / "runs" / _EXPERIMENT / "splatfacto" / _RUN
    config = _wanted(run / "config.yml", "ns-train")
    _run(_export_command(programs, settings, config, work / "export"), line)
    change = _wanted(run / DATAPARSER_FILE, "ns-train")
    splat = _wanted(work / "export" / "splat.ply", "ns-export")
    exported = load_gaussians(splat, normalisation=change)
    return exported.gaussians, f"{len(start.points)} points ({start.source})"


def _train_command(
    programs: Nerfstudio, settings: ReconstructSettings, data: Path, runs: Path
) -> list[str]:
    """Arguments of ns-train; no viewer, which would listen on all addresses."""
    return [
        str(programs.train), "splatfacto",
        "--output-dir", str(runs),
        "--experiment-name", _EXPERIMENT,
        "--timestamp", _RUN,
        "--max-num-iterations", str(settings.iterations),
        "--machine.seed", str(settings.seed),
        "--pipeline.model.sh-degree", str(settings.sh_degree),
        "--vis", "tensorboard",
        "nerfstudio-data",
        "--data", str(data),
        "--downscale-factor", "1",
    ]  # fmt: skip


def _export_command(
    programs: Nerfstudio, settings: ReconstructSettings, config: Path, out: Path
) -> list[str]:
    command = [
        str(programs.export), "gaussian-splat",
        "--load-config", str(config),
        "--output-dir", str(out),
    ]  # fmt: skip
    if settings.sh_degree == 0:
        # many versions write logits of the colors as f_dc then, which no reader of PLY expects
        command += ["--ply-color-mode", "rgb"]
    return command


def _run(command: list[str], line: LineCallback) -> None:
    """Run a program to its end and pass its lines on. Raises InputError when it fails."""
    name = Path(command[0]).name
    log.info("running %s", " ".join(command))
    folder = str(Path(command[0]).parent)
    path = folder + os.pathsep + os.environ.get("PATH", "")
    environment = {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1"}
    last: deque[str] = deque(maxlen=1)
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            text=True, encoding="utf-8", errors="replace", env=environment,
        )  # fmt: skip
    except OSError as error:
        raise InputError(f"{command[0]}: cannot be run ({error.strerror})") from error
    try:
        assert process.stdout is not None
        for text in process.stdout:
            if text.strip():
                last.append(text.strip())
                line(text.rstrip())
        code = process.wait()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if code != 0:
        said = f": {last[0]}" if last else " and said nothing"
        raise InputError(f"{name} ended with code {code}{said}")


def _wanted(path: Path, program: str) -> Path:
    if not path.is_file():
        raise InputError(f"{program} ended well but left no {path.name} at {path}")
    return path
