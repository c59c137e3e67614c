"""`advscene reconstruct`: a capture becomes a scene."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

if TYPE_CHECKING:
    from app.growing import GrowingPage
    from scene.capture import Capture
    from scene.reconstruct.options import ReconstructOptions
    from scene.reconstruct.settings import ReconstructSettings
    from scene.reconstruct.train import Progress, ReconstructResult


@dataclass(frozen=True)
class Reconstruct:
    """Train Gaussians from a folder of posed photos, whatever wrote it."""

    capture: Annotated[Path, tyro.conf.Positional]
    """Folder or file: COLMAP, transforms.json (nerfstudio, instant-ngp, Blender), CO3D, Waymo,
    LLFF."""
    out: Path
    """Scene to write: .ply, or .compressed.ply for sharing; its cameras go beside it."""
    iterations: int = 3000
    """Optimizer steps, one photo each."""
    long_side: int = 480
    """Photos are shrunk to this many pixels on their longer side."""
    most_gaussians: int = 60_000
    """Densification stops at this many."""
    sh_degree: int = 1
    """Spherical-harmonic degree of the colors, 0 to 3."""
    hold_out: int = 0
    """Keep every N-th photo back to judge by, where the capture itself marks none; 0: none."""
    masks: bool = True
    """Train and judge only by the pixels that the photos' masks say to use."""
    exposure: bool = False
    """Learn an affine color per training photo, for photos of varying exposure."""
    sky_points: int = 0
    """Gaussians to start from on a far sphere, for a sky (3000 is plenty); 0: none."""
    densification: Literal["adc", "mcmc"] = "adc"
    """How Gaussians multiply: as in 3DGS, or by relocation as in 3DGS-MCMC."""
    device: Literal["cpu", "cuda"] = "cpu"
    """cuda: gsplat draws and densifies (its extra must be installed; not tried on a GPU yet)."""
    with_: Annotated[str | None, tyro.conf.arg(name="with")] = None
    """nerfstudio=PATH: let the nerfstudio of that environment train (splatfacto)."""
    view: bool = False
    """Open a page that shows the growing scene, held-out PSNR and a stop button."""
    port: int = 8080
    """The page's port on 127.0.0.1."""
    seed: int = 0
    """Seed of every random choice."""
    threads: int | None = None
    """CPU threads; default: all cores."""
    json: bool = False
    """Print the report as JSON."""

    def run(self) -> None:
        """Train (going on from OUT.checkpoint if one is there), save, report held-out PSNR."""
        from scene.captures import load_capture
        from scene.errors import InputError

        if not self.out.name.endswith(".ply"):
            raise InputError(f"--out: wanted .ply or .compressed.ply, found {self.out.name}")
        if self.with_ is not None:
            _environment(self.with_)
            if self.view or self.exposure or self.densification != "adc" or self.device != "cpu":
                raise InputError(
                    "--with nerfstudio trains by itself: leave out --view, --exposure, "
                    "--densification and --device"
                )
        capture = _with_held_out(load_capture(self.capture), self.hold_out)
        self.out.parent.mkdir(parents=True, exist_ok=True)
        if self.with_ is not None:
            self._report(self._save(capture, self._by_nerfstudio(capture)))
        elif self.view:
            self._watched(capture)
        else:
            self._report(self._save(capture, self._trained(capture, None)))

    def _watched(self, capture: Capture) -> None:
        from app.commands.output import say
        from app.growing import GrowingPage

        page = GrowingPage(capture, port=self.port)
        say(f"the growing scene: http://127.0.0.1:{page.port}")
        try:
            report = self._save(capture, self._trained(capture, page))
            self._report(report)
            page.finish(f"saved {self.out.name}, {report['held-out PSNR, saved file (dB)']} dB")
            say("the page stays until it is closed there, or by Ctrl-C here")
            page.wait()
        finally:
            page.close()

    def _trained(self, capture: Capture, page: GrowingPage | None) -> ReconstructResult:
        from app.commands.output import progress_line
        from scene.reconstruct.train import reconstruct

        line = progress_line("reconstructing")
        checkpoint = self.out.with_name(self.out.name + ".checkpoint")
        with _interruptible() as interrupted:

            def progress(now: Progress) -> bool:
                line(f"{now.iteration}/{now.iterations}, {now.gaussians} Gaussians, loss "
                     f"{now.loss:.4f}", now.iteration / now.iterations)  # fmt: skip
                if page is not None:
                    page.tell(now)
                return not (interrupted() or (page is not None and page.stop_wanted))

            result = reconstruct(
                capture, self._settings(), progress,
                checkpoint if checkpoint.exists() else None, checkpoint,
                report_every=20, threads=self.threads, options=self._options(),
                preview=page.show if page is not None else None, device=self.device,
            )  # fmt: skip
        if not result.stopped:
            checkpoint.unlink(missing_ok=True)
        return result

    def _by_nerfstudio(self, capture: Capture) -> ReconstructResult:
        import sys
        import tempfile
        import time

        from scene.reconstruct.nerfstudio import Nerfstudio, train_with_nerfstudio
        from scene.reconstruct.photos import load_photos
        from scene.reconstruct.train import ReconstructResult, measure

        started = time.perf_counter()
        settings, options = self._settings(), self._options()
        programs = Nerfstudio.of(_environment(str(self.with_)))
        with tempfile.TemporaryDirectory(prefix="advscene-nerfstudio-") as work:
            gaussians, start = train_with_nerfstudio(
                programs, capture, settings, options, Path(work),
                lambda text: print(text, file=sys.stderr, flush=True),
            )  # fmt: skip
        quality = measure(gaussians, load_photos(capture, self.long_side).held_out, self.threads)
        return ReconstructResult(
            gaussians, quality.psnr, quality.ssim, quality.per_photo, settings.iterations,
            time.perf_counter() - started, start,
        )  # fmt: skip

    def _settings(self) -> ReconstructSettings:
        from scene.reconstruct.settings import ReconstructSettings

        return ReconstructSettings(
            iterations=self.iterations, long_side=self.long_side,
            most_gaussians=self.most_gaussians, sh_degree=self.sh_degree, seed=self.seed,
        )  # fmt: skip

    def _options(self) -> ReconstructOptions:
        from scene.reconstruct.options import ReconstructOptions

        return ReconstructOptions(
            masks=self.masks, exposure=self.exposure, sky_points=self.sky_points,
            densification=self.densification,
        )  # fmt: skip

    def _save(self, capture: Capture, result: ReconstructResult) -> dict[str, Any]:
        from scene.reconstruct.photos import load_photos
        from scene.reconstruct.train import measure
        from scene.scene import Scene, load_scene, save_scene

        photos = load_photos(capture, self.long_side, self.masks)
        scene = Scene(
            result.gaussians, self.out.stem, capture.scene_cameras(),
            metres_per_unit=capture.metres_per_unit, background=photos.background,
            provenance={"made_by": "advscene reconstruct", "settings": _plain(asdict(self))},
        )  # fmt: skip
        if capture.up is not None:
            scene = replace(scene, up=capture.up, up_source=capture.up_source)
        save_scene(scene, self.out)
        held_out = photos.held_out
        saved = measure(load_scene(self.out).gaussians, held_out) if held_out else None
        report = {
            "scene": str(self.out),
            "photos": len(capture.training),
            "held out": len(capture.held_out),
            "Gaussians": len(result.gaussians),
            "iterations": result.iterations,
            "start": result.start,
            "held-out PSNR, trainer (dB)": round(result.held_out_psnr, 2) if saved else None,
            "held-out PSNR, saved file (dB)": round(saved.psnr, 2) if saved else None,
            "held-out SSIM": round(result.held_out_ssim, 4) if saved else None,
        }
        fitted = result.exposure_fitted
        if fitted is not None:
            report["held-out PSNR with exposure fitted to the held-out photos themselves (dB)"] = (
                round(fitted.psnr, 2)
            )
        if result.hidden:
            report["hidden"] = result.hidden
        if result.stopped:
            report["stopped"] = f"at {result.iterations} of {self.iterations}; the same command " \
                "goes on from there"  # fmt: skip
        return report | {"seconds": round(result.seconds, 1), "notes": list(capture.notes)}

    def _report(self, report: dict[str, Any]) -> None:
        from app.commands.output import say, say_json

        if self.json:
            say_json(report)
        else:
            for name, value in report.items():
                say(f"{name}: {value}")


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """While open, the first Ctrl-C asks to stop and keep what there is; the second one ends."""
    import signal
    import threading

    asked = threading.Event()

    def handle(number: int, frame: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _environment(text: str) -> Path:
    """The folder in `nerfstudio=PATH`. Raises InputError, also when nerfstudio is not in it."""
    from scene.errors import InputError

    name, _, path = text.partition("=")
    if name != "nerfstudio" or not path:
        raise InputError(f"--with: wanted nerfstudio=PATH, found {text}")
    folder = Path(path).expanduser()
    from scene.reconstruct.nerfstudio import Nerfstudio

    Nerfstudio.of(folder)
    return folder


def _with_held_out(capture: Capture, every: int) -> Capture:
    """The capture with every N-th frame held out, unless it marks some itself."""
    return capture if every < 2 or capture.held_out else capture.hold_out(every, every // 2)


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: str(v) if isinstance(v, Path) else v for name, v in fields.items()}
