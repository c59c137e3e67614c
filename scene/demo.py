"""Make the demo scene: photograph the known street, reconstruct it, ship it as a compressed PLY."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.manifest import NAME, add_to_manifest
from scene.scene import Scene, TargetBox, load_scene, save_scene

if TYPE_CHECKING:
    from scene.reconstruct.settings import ReconstructSettings
    from scene.reconstruct.train import ReconstructResult
    from scene.worlds.capture_files import CaptureSettings
    from scene.worlds.settings import StreetSettings

log = logging.getLogger(__name__)

ASSETS = Path(__file__).resolve().parents[1] / "assets"
DEMO_FOLDER = ASSETS / "demo"
DEMO_SCENE = DEMO_FOLDER / "street.compressed.ply"
MOST_BYTES = 4_000_000
"""The shipped splat is refused above this size."""

ProgressCallback = Callable[[str, int, int, str], None]
"""stage ("photos", "reconstruction", "checks"), done, total, one line for people."""


def _street() -> StreetSettings:
    from scene.worlds.settings import StreetSettings

    return StreetSettings()


def _photos() -> CaptureSettings:
    from scene.worlds.capture_files import CaptureSettings

    return CaptureSettings()


def _training() -> ReconstructSettings:
    from scene.reconstruct.settings import ReconstructSettings

    return ReconstructSettings(iterations=6000, most_gaussians=60_000, start_points=30_000)


@dataclass(frozen=True)
class DemoSettings:
    """Which street, how it is photographed, how it is reconstructed."""

    street: StreetSettings = field(default_factory=_street)
    photos: CaptureSettings = field(default_factory=_photos)
    reconstruct: ReconstructSettings = field(default_factory=_training)

    def recipe_hash(self) -> str:
        """Hash of everything that decides the scene, the worlds' sources included."""
        from scene.worlds.capture_files import recipe_hash

        photos = recipe_hash(self.street, self.photos)
        training = json.dumps(asdict(self.reconstruct), sort_keys=True)
        return hashlib.sha256(f"{photos} {training}".encode()).hexdigest()


@dataclass(frozen=True)
class DemoReport:
    """What was made and how good it is.

    held_out_psnr, held_out_ssim: the trainer's, on held-out photos (dB; mean). shipped_psnr: the
    same photos against renders of the saved, compressed file. shipped_worst: of its photos.
    sign_depth_error: median |median depth - true depth| / true depth over the sign's face, held-out
    views. minutes: of photos and of reconstruction, wall time (resumed work not counted).
    """

    file: str
    bytes: int
    sha256: str
    recipe: str
    seed: int
    photos: int
    held_out: int
    iterations: int
    gaussians: int
    held_out_psnr: float
    held_out_ssim: float
    shipped_psnr: float
    shipped_worst: float
    sign_depth_error: float
    photo_minutes: float
    reconstruct_minutes: float


def default_work_folder() -> Path:
    """Where photos and checkpoints are kept between calls."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "advscene" / "make-demo"


def make_demo(
    out_folder: str | Path = DEMO_FOLDER,
    progress: ProgressCallback | None = None,
    settings: DemoSettings | None = None,
    work_folder: str | Path | None = None,
    threads: int | None = None,
) -> DemoReport:
    """Photograph, reconstruct, save `street.compressed.ply` with its sidecar, and check it.

    Photos and checkpoints are kept in `work_folder`, so that an interrupted call is taken up by
    the next one. Raises InputError when the result is larger than may be shipped.
    """
    from scene.captures import load_capture
    from scene.worlds.capture_files import write_capture

    settings = settings or DemoSettings()
    report = progress or (lambda stage, done, total, line: None)
    work = Path(work_folder) if work_folder is not None else default_work_folder()
    started = time.perf_counter()
    transforms = write_capture(
        work / "capture",
        settings.street,
        settings.photos,
        lambda done, total: report("photos", done, total, f"photo {done} of {total}"),
    )
    photo_minutes = (time.perf_counter() - started) / 60
    capture = load_capture(transforms)
    result = _reconstructed(transforms, work, settings, report, threads)
    truth = json.loads((work / "capture" / "truth.json").read_text())
    scene = Scene(
        gaussians=result.gaussians,
        name="Street corner",
        cameras=capture.scene_cameras(),
        up=(0.0, 0.0, 1.0),
        up_source="known world",
        metres_per_unit=1.0,
        target=_target(truth),
        background=tuple(truth["haze_color_srgb"]),
        provenance=_provenance(settings, result),
    )
    path = Path(out_folder) / DEMO_SCENE.name
    path.parent.mkdir(parents=True, exist_ok=True)
    save_scene(scene, path)
    if path.stat().st_size > MOST_BYTES:
        raise InputError(
            f"{path}: {path.stat().st_size} bytes are more than the {MOST_BYTES} that may be "
            "shipped; reconstruct with fewer Gaussians"
        )
    report("checks", 0, 1, "rendering the held-out views of the saved file")
    made = _checked(path, settings, result, truth, transforms, photo_minutes, threads)
    _write_report(made, path)
    report("checks", 1, 1, f"{made.shipped_psnr:.2f} dB held out")
    return made


def _reconstructed(
    transforms: Path,
    work: Path,
    settings: DemoSettings,
    report: ProgressCallback,
    threads: int | None,
) -> ReconstructResult:
    from scene.captures import load_capture
    from scene.reconstruct.train import Progress, reconstruct

    def tell(now: Progress) -> None:
        line = f"iteration {now.iteration}, {now.gaussians} Gaussians, loss {now.loss:.4f}"
        report("reconstruction", now.iteration, now.iterations, line)

    checkpoint = work / f"checkpoint-{settings.recipe_hash()[:16]}.safetensors"
    return reconstruct(
        load_capture(transforms),
        settings.reconstruct,
        tell,
        resume_from=checkpoint if checkpoint.exists() else None,
        checkpoint_to=checkpoint,
        threads=threads,
    )


def _target(truth: dict[str, Any]) -> TargetBox:
    box = truth["target_box"]
    return TargetBox(
        np.array(box["center"]), np.array(box["axes"]), np.array(box["half_sizes"]), box["label"]
    )


def _provenance(settings: DemoSettings, result: ReconstructResult) -> dict[str, Any]:
    return {
        "made_by": "advscene make-demo",
        "recipe": settings.recipe_hash(),
        "seed": settings.street.seed,
        "iterations": result.iterations,
        "held_out_psnr": round(result.held_out_psnr, 3),
    }


def _checked(
    path: Path,
    settings: DemoSettings,
    result: ReconstructResult,
    truth: dict[str, Any],
    transforms: Path,
    photo_minutes: float,
    threads: int | None,
) -> DemoReport:
    """Judge the file as it was saved, by the renderer that everyone uses."""
    from scene.captures import load_capture
    from scene.reconstruct.photos import load_photos
    from scene.reconstruct.train import measure

    capture = load_capture(transforms)
    saved = load_scene(path)
    photos = load_photos(capture, settings.reconstruct.long_side).held_out
    quality = measure(saved.gaussians, photos, threads)
    cameras = [photo.camera for photo in photos]
    return DemoReport(
        file=path.name,
        bytes=path.stat().st_size,
        sha256=str(saved.provenance.get("sha256", "")),
        recipe=settings.recipe_hash(),
        seed=settings.street.seed,
        photos=len(capture.frames),
        held_out=len(photos),
        iterations=result.iterations,
        gaussians=len(saved.gaussians),
        held_out_psnr=result.held_out_psnr,
        held_out_ssim=result.held_out_ssim,
        shipped_psnr=quality.psnr,
        shipped_worst=min(value for _, value in quality.per_photo),
        sign_depth_error=plane_depth_error(saved.gaussians, cameras, truth["sign"]),
        photo_minutes=photo_minutes,
        reconstruct_minutes=result.seconds / 60,
    )


def plane_depth_error(
    gaussians: Gaussians, cameras: list[Camera], sign: dict[str, Any], shrink: float = 0.9
) -> float:
    """Median relative error of the median depth over a flat sign's face, over all cameras.

    sign: "center" (3,), "normal" (3,), "outline" (k, 3) in world units. The outline is shrunk
    towards its centre, so that pixels across the edge do not count. NaN where it is never seen.
    """
    from scene.render.api import make_renderer

    renderer = make_renderer(gaussians, "cpu")
    center, normal = np.array(sign["center"]), np.array(sign["normal"])
    outline = center + shrink * (np.array(sign["outline"]) - center)
    errors: list[NDArray[np.float64]] = []
    for camera in cameras:
        if normal @ (camera.center - center) <= 0:
            continue
        corners, depths = camera.project(outline)
        if depths.min() <= 0:
            continue
        inside = _inside_convex(camera.pixel_centers(), corners)
        drawn = renderer.render(camera, outputs=frozenset({"rgb", "alpha", "median_depth"}))
        assert drawn.median_depth is not None
        rays = camera.rays(camera.pixel_centers())
        true_depth = ((center - camera.center) @ normal) / (rays @ normal)
        wrong = np.abs(drawn.median_depth - true_depth) / true_depth
        errors.append(wrong[inside])
    return float(np.median(np.concatenate(errors))) if errors else float("nan")


def _inside_convex(points: NDArray[np.float64], corners: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which points (..., 2) lie inside a convex polygon (k, 2) of either orientation."""
    edges = np.roll(corners, -1, axis=0) - corners
    offset = points[..., None, :] - corners
    side = edges[:, 0] * offset[..., 1] - edges[:, 1] * offset[..., 0]
    return np.asarray((side >= 0).all(axis=-1) | (side <= 0).all(axis=-1))


def _write_report(report: DemoReport, path: Path) -> None:
    """The report beside the scene; files inside the project's assets go into their manifest."""
    beside = path.with_name("street.report.json")
    partial = beside.with_suffix(".part")
    partial.write_text(json.dumps(asdict(report), indent=1) + "\n")
    os.replace(partial, beside)
    if path.parent.resolve() == DEMO_FOLDER.resolve() or (path.parent.parent / NAME).exists():
        files = [path, path.with_name("street.scene.json"), beside]
        origin = f"advscene make-demo, seed {report.seed}, recipe {report.recipe[:16]}"
        add_to_manifest(path.parent.parent, files, origin)
