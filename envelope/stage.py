"""From a condition to its camera, its truth and its pictures, for one adversarial scene.

A stage is fixed for a run; everything that can change a picture or a truth is in its hashes.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from envelope.condition import Condition, condition_camera, held_elevation_deg, jittered
from envelope.observe import Observation, Observer
from envelope.store import View, digest, view_id
from scene.camera import Camera
from scene.errors import InputError
from scene.render.api import Backend, Color, Output, Renderer, RenderSettings, make_renderer

if TYPE_CHECKING:
    from patching.adversarial import AdversarialScene
    from patching.patch import Patch
    from scene.render.cpu.frame import Frame, Layer
    from scene.render.cpu.renderer import CpuRenderer

Picture = NDArray[np.uint8]
FloatArray = NDArray[np.float32]
Triple = tuple[float, float, float]


@dataclass(frozen=True)
class StageSettings:
    """How conditions become cameras and pictures; all of it is stored in run.toml.

    pivot: the point t that conditions turn about; None: the patch's centroid. up: the scene's
    signed up axis. seed: of the noise variants. long_side: longer side of every picture, pixels.
    """

    up: Triple
    pivot: Triple | None = None
    seed: int = 0
    long_side: int = 640
    background: Color = (0.0, 0.0, 0.0)
    render: RenderSettings = field(default_factory=RenderSettings)
    backend: Backend = "auto"

    def __post_init__(self) -> None:
        for name in ("up", "pivot", "background"):  # ints would hash differently after reading
            values = getattr(self, name)
            if values is not None:
                object.__setattr__(self, name, tuple(float(v) for v in values))
        if not 16 <= self.long_side <= 8192:
            raise InputError(f"render size: wanted 16 to 8192 pixels, found {self.long_side}")


class CleanRender(NamedTuple):
    """The clean picture of a camera: (H, W, 3) float32 sRGB, (H, W) median depth, milliseconds.

    picture: (H, W, 3) uint8, as victims get it. median_depth: NaN where no truth is read from it,
    which saves work.
    frame: what it was drawn from, where the back end keeps it: other kinds differ in a few tiles.
    """

    rgb: FloatArray
    median_depth: FloatArray
    picture: Picture
    ms: float
    frame: Frame | None = None


class Stage:
    """Cameras, truths and pictures of one adversarial scene. Safe to call from several threads."""

    def __init__(
        self,
        adversarial: AdversarialScene,
        target: NDArray[np.int64],
        settings: StageSettings,
        patch: Patch | None = None,
        scene_sha256: str = "",
        threads: int | None = None,
    ) -> None:
        """target: (M,) rows of the target's Gaussians in the clean scene.

        patch: the adversarial patch's pixels, for the overlay; None without one (outside pair).
        scene_sha256: hash of the scene's file. threads: CPU threads of one render.
        """
        from envelope.observe import patch_center
        from scene.target import TargetViewer

        self.adversarial = adversarial
        self.settings = settings
        self.patch = patch
        self.camera_at_anchor: Camera = adversarial.anchor.camera.fitted(settings.long_side)
        pivot = settings.pivot or tuple(patch_center(adversarial.anchor).tolist())
        self.pivot: Triple = (float(pivot[0]), float(pivot[1]), float(pivot[2]))
        self._renderers: dict[str, Renderer] = {}
        self._layers: dict[str, Layer] = {}
        self._lock = threading.Lock()
        self._threads = threads
        scene = adversarial.scene
        viewer = TargetViewer(
            scene.gaussians, target, settings.render, settings.backend, self._renderer("clean")
        )
        self._observer = Observer(scene, viewer, adversarial.anchor)
        self._scene_sha256 = scene_sha256
        self.geometry = digest(self._geometry_fields(target))
        self.renders = 0

    @property
    def kinds(self) -> tuple[str, ...]:
        """The render kinds that can be had."""
        overlay = self.patch is not None and self.adversarial.anchor.placement is not None
        return (*self.adversarial.kinds, *(("overlay",) if overlay else ()))

    def check_kinds(self, kinds: tuple[str, ...]) -> None:
        """InputError when a kind cannot be had."""
        for kind in kinds:
            if kind not in self.kinds:
                raise InputError(
                    f"render kind {kind!r}: this run has {', '.join(self.kinds)}; embed it first"
                )

    def place(self, nominal: Condition) -> tuple[str, Condition, Camera]:
        """View id, jittered condition and camera of a nominal condition with its variant."""
        actual = jittered(nominal.nominal(), nominal.variant, self.settings.seed)
        camera = condition_camera(actual, self.camera_at_anchor, self.pivot, self.settings.up)
        return view_id(self.geometry, nominal, nominal.variant), actual, camera

    def observe(
        self, key: str, nominal: Condition, actual: Condition, camera: Camera, clean: CleanRender
    ) -> View:
        """The truth of a camera, from its clean render."""
        seen: Observation = self._observer.observe(camera, clean.median_depth, clean.frame)
        held = held_elevation_deg(nominal, self.camera_at_anchor, self.settings.up)
        if held is not None:
            seen = replace(seen, held_elevation_deg=held)
        return View(key, self.geometry, nominal, actual, seen)

    def clean(self, camera: Camera) -> CleanRender:
        """The clean render with its depth."""
        start = time.perf_counter()
        renderer, frame = self._renderer("clean"), None
        outputs: frozenset[Output] = frozenset({"rgb", "alpha", "median_depth"})
        if renderer.backend == "cpu":
            frame = cast("CpuRenderer", renderer).frame(
                camera, self.settings.background, outputs, self._observer.depth_window(camera)
            )
            drawn = frame.drawn
        else:
            drawn = renderer.render(camera, self.settings.background, outputs)
        self.renders += 1
        assert drawn.median_depth is not None
        picture = to_uint8(drawn.rgb)
        return CleanRender(drawn.rgb, drawn.median_depth, picture, _ms(start), frame)

    def draw(self, kind: str, camera: Camera, clean: CleanRender) -> tuple[Picture, float]:
        """(H, W, 3) uint8 picture of a render kind and the milliseconds that it took."""
        if kind == "clean":
            return clean.picture, clean.ms
        start = time.perf_counter()
        if kind == "overlay":
            return self._overlay(camera, clean), _ms(start)
        self.renders += 1
        if clean.frame is not None:
            return clean.frame.edited(self._layer(kind), clean.picture), _ms(start)
        rgb = self._renderer(kind).render(camera, self.settings.background).rgb
        return to_uint8(rgb), _ms(start)

    def picture_fields(self, kind: str) -> dict[str, Any]:
        """Everything that decides the pixels of a kind besides the condition."""
        fields: dict[str, Any] = {
            "scene": self._scene_sha256,
            "kind": kind,
            "size": [self.camera_at_anchor.width, self.camera_at_anchor.height],
            "background": list(self.settings.background),
            "render": asdict(self.settings.render),
            "backend": self._renderer("clean").backend,
        }
        if kind == "overlay" and self.patch is not None:
            placement = self.adversarial.anchor.placement
            fields["patch"] = array_hash(self.patch.rgba)
            fields["placement"] = None if placement is None else digest(placement.to_dict())
        elif kind in self.adversarial.edits:
            fields["edit"] = edit_hash(self.adversarial.edits[kind])
        return fields

    def _overlay(self, camera: Camera, clean: CleanRender) -> Picture:
        from patching.overlay import overlay_window

        placement = self.adversarial.anchor.placement
        if self.patch is None or placement is None:
            raise InputError("overlay: wanted a patch with a placement, found an outside pair")
        picture = clean.picture.copy()
        pasted = overlay_window(clean.rgb, camera, placement, self.patch)
        if pasted is not None:
            where, rgb = pasted
            picture[where] = to_uint8(rgb)
        return picture

    def _renderer(self, kind: str) -> Renderer:
        with self._lock:
            if kind not in self._renderers:
                self._renderers[kind] = make_renderer(
                    self.adversarial.gaussians(kind),
                    self.settings.backend,
                    self.settings.render,
                    self._threads,
                )
            return self._renderers[kind]

    def _layer(self, kind: str) -> Layer:
        from scene.render.cpu.frame import make_layer

        with self._lock:
            if kind not in self._layers:
                edited, base = self.adversarial.gaussians(kind), self.adversarial.scene.gaussians
                changed = self.adversarial.edits[kind].indices
                self._layers[kind] = make_layer(edited, changed, len(base), self.settings.render)
            return self._layers[kind]

    def _geometry_fields(self, target: NDArray[np.int64]) -> dict[str, Any]:
        anchor = self.adversarial.anchor
        placement = anchor.placement
        lies = array_hash(anchor.mask) if placement is None else placement.to_dict()
        return {
            "scene": self._scene_sha256,
            "anchor": self.camera_at_anchor.to_dict(),
            "pivot": self.pivot,
            "up": list(self.settings.up),
            "seed": self.settings.seed,
            "target": array_hash(np.asarray(target, dtype=np.int64)),
            "patch lies": lies,
            "render": asdict(self.settings.render),
        }


def to_uint8(rgb: FloatArray) -> Picture:
    """(H, W, 3) float sRGB to the 8-bit picture that victims are given (rounded, clipped)."""
    from scene.render.cpu.quantize import quantize

    values = np.ascontiguousarray(rgb, np.float32)
    picture = np.empty(values.shape, np.uint8)
    quantize(values.reshape(-1), picture.reshape(-1))
    return picture


def array_hash(array: NDArray[Any]) -> str:
    """16 hex digits of the sha256 of an array's shape, type and bytes."""
    array = np.ascontiguousarray(array)
    head = f"{array.dtype.str}{array.shape}".encode()
    return hashlib.sha256(head + array.tobytes()).hexdigest()[:16]


def edit_hash(edit: Any) -> str:
    """Hash of a `patching.edit.GaussianEdit`."""
    added = edit.added
    arrays: Mapping[str, NDArray[Any]] = {
        "indices": edit.indices,
        "opacities": edit.opacities,
        "sh_dc": edit.sh_dc,
        "means": added.means,
        "quats": added.quats,
        "scales": added.scales,
        "added opacities": added.opacities,
        "sh": added.sh,
    }
    return digest({name: array_hash(array) for name, array in arrays.items()})


def _ms(start: float) -> float:
    return (time.perf_counter() - start) * 1000
