"""What a patch is made with: transformations per level, weights, the loop's numbers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from scene.errors import InputError

Level = Literal["none", "weak", "strong", "very strong"]
Component = Literal["geometry", "blur", "camera"]
Parameters = Literal["logits", "pixels"]

LEVELS: tuple[Level, ...] = get_args(Level)
COMPONENTS: tuple[Component, ...] = get_args(Component)


@dataclass(frozen=True)
class EotSettings:
    """Ranges of the random transformations (AdvScene App. C); all at their defaults: identity.

    views: per optimizer step.
    Geometry, of the print on its surface: rotation_deg; scale and shift (shares of its width);
    perspective (each corner, share of the width); brightness (share, a gain). crop: of the
    picture, up to this share of each side is cut off and the rest enlarged.
    Blur: blur_px (largest sd, picture pixels), noise (largest sd), jpeg (lowest quality, 0 none).
    Camera: downscale (smallest factor, 1 none), bits (per channel, 0 none).
    """

    views: int = 1
    rotation_deg: float = 0.0
    scale: float = 0.0
    shift: float = 0.0
    perspective: float = 0.0
    brightness: float = 0.0
    crop: float = 0.0
    blur_px: float = 0.0
    noise: float = 0.0
    jpeg: int = 0
    downscale: float = 1.0
    bits: int = 0

    def __post_init__(self) -> None:
        wanted = {
            "views": self.views >= 1,
            "scale": 0 <= self.scale < 1,
            "perspective": 0 <= self.perspective < 0.25,
            "brightness": 0 <= self.brightness < 1,
            "crop": 0 <= self.crop < 1,
            "jpeg": 0 <= self.jpeg <= 95,
            "downscale": 0 < self.downscale <= 1,
            "bits": 0 <= self.bits <= 8,
        }
        for name, right in wanted.items():
            if not right:
                raise InputError(f"EOT {name}: out of range, found {getattr(self, name)}")

    @classmethod
    def of(cls, level: Level, components: tuple[Component, ...] = COMPONENTS) -> EotSettings:
        """A level's settings with only some of the components."""
        if level not in _LEVELS:
            raise InputError(f"EOT level: wanted one of {', '.join(LEVELS)}, found {level!r}")
        off: dict[str, Any] = {}
        for component in COMPONENTS:
            if component not in components:
                off.update(_OFF[component])
        return replace(_LEVELS[level], **off)


_OFF: dict[Component, dict[str, Any]] = {
    "geometry": {
        "rotation_deg": 0.0, "scale": 0.0, "shift": 0.0, "perspective": 0.0, "brightness": 0.0,
        "crop": 0.0,
    },
    "blur": {"blur_px": 0.0, "noise": 0.0, "jpeg": 0},
    "camera": {"downscale": 1.0, "bits": 0},
}  # fmt: skip

# The paper gives the number of views per level; the ranges were lost, these are ours. The views of
# a scene bring most of the geometry, so what is left for the print is how badly it was glued on.
_LEVELS: dict[Level, EotSettings] = {
    "none": EotSettings(),
    "weak": EotSettings(
        views=4, rotation_deg=6, scale=0.05, shift=0.03, perspective=0.02, brightness=0.05,
        crop=0.1, blur_px=0.5, noise=0.01, jpeg=80, downscale=0.8, bits=7,
    ),
    "strong": EotSettings(
        views=8, rotation_deg=12, scale=0.1, shift=0.05, perspective=0.04, brightness=0.1,
        crop=0.2, blur_px=0.8, noise=0.02, jpeg=60, downscale=0.6, bits=6,
    ),
    "very strong": EotSettings(
        views=16, rotation_deg=25, scale=0.2, shift=0.1, perspective=0.08, brightness=0.2,
        crop=0.3, blur_px=1.2, noise=0.04, jpeg=40, downscale=0.4, bits=5,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class PatchWeights:
    """Weights of the regularizers beside the victim's loss.

    printability: of NPS. variation: of TV. change: of the L2 distance from the start.
    """

    printability: float = 0.1
    variation: float = 0.15
    change: float = 0.01


@dataclass(frozen=True)
class MakeSettings:
    """How a patch is made.

    size_px: side of the square patch. steps: per restart, at most. rate: Adam's.
    parameters: what Adam moves: "logits" of the colors (Carlini and Wagner's change of variable),
    or the colors themselves, clamped after each step.
    check_every: steps between two looks at the views kept aside. patience: looks without a
    betterment of `least_gain` after which a restart ends early.
    """

    size_px: int = 160
    steps: int = 80
    restarts: int = 3
    rate: float = 0.2
    parameters: Parameters = "logits"
    seed: int = 0
    eot: EotSettings = field(default_factory=lambda: EotSettings.of("strong"))
    weights: PatchWeights = field(default_factory=PatchWeights)
    check_every: int = 10
    patience: int = 4
    least_gain: float = 0.005

    def __post_init__(self) -> None:
        if not 8 <= self.size_px <= 1024:
            raise InputError(f"patch size: wanted 8 to 1024 px, found {self.size_px}")
        for name in ("steps", "restarts", "check_every", "patience"):
            if getattr(self, name) < 1:
                raise InputError(f"patch making, {name}: wanted >= 1, found {getattr(self, name)}")
        if not self.rate > 0:
            raise InputError(f"patch making, rate: wanted > 0, found {self.rate}")

    @classmethod
    def advscene(cls, level: Level = "strong", **changes: Any) -> MakeSettings:
        """AdvScene's baseline: C&W, Adam, three restarts, early stop, EOT (method.md section 8)."""
        return cls(eot=EotSettings.of(level), **changes)

    @classmethod
    def edge_vlm(cls, pictures: int, batch: int = 8, **changes: Any) -> MakeSettings:
        """The edge-VLM framework's recipe for a set of pictures, 500 times each.

        160x160, Adam at 0.01 on the colors, rotation +-20 degrees, brightness +-10 %, 0.01 for
        both regularizers. Place it with `centered_square(box, EDGE_VLM_SHARE)`.
        """
        steps = EDGE_VLM_EPOCHS * -(-pictures // batch)
        recipe = cls(
            size_px=160, steps=steps, restarts=1, rate=0.01, parameters="pixels",
            eot=EotSettings(views=batch, rotation_deg=20, brightness=0.1),
            weights=PatchWeights(0.01, 0.01, 0.0), patience=steps,
        )  # fmt: skip
        return replace(recipe, **changes)


EDGE_VLM_EPOCHS = 500
EDGE_VLM_SHARE = 0.5
"""Side of the patch over the smaller side of the target's box."""
