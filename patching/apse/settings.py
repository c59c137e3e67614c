"""Every constant of APSE in one frozen value, in its two variants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from scene.errors import InputError

Variant = Literal["paper", "inspector"]

PREVIEW_ITERATIONS = 120
PREVIEW_AUX_VIEWS = 2
DEFAULT_ITERATIONS = 300


@dataclass(frozen=True)
class ApseSettings:
    """Constants of adversarial patch scene embedding.

    Build with `ApseSettings.of(variant)`; the defaults below are the inspector's. A stride is
    `stride_px` anchor pixels at the patch's depth.

    variant: name only; what it means is in the fields.
    iterations, aux_views, seed: steps, auxiliary views, seed of every random choice.

    stride_px: anchor pixels per spawned Gaussian and axis.
    start_opacity: of spawned Gaussians.
    sigma_strides: their in-plane standard deviation; thinness: out of plane, as a share of that;
        edge_sigma: factor in plane within a stride of the mask's edge, which must be sharp.
    offset_px: spawn surface's offset towards the camera, anchor pixels (paper 0.375).
    layer_strides: spread of the spawn surfaces about that offset, each way.
    scale_min, scale_max: clamp of each scale as a factor of its start.
    tangent_clamp, normal_clamp: clamp of each centre about its start, strides.

    reuse_opacity: clean Gaussians below it are not reused.
    reuse_depth: share of the median depth by which a clean Gaussian may differ from it.
    fade_front: clean Gaussians before the surface get opacity 0; fade_depth: also those up to so
        many strides behind it.

    keep_partial: pixels that the patch covers by less than half shall look as in the attacked view;
        else as in the clean one (paper), which asks for an edge that no picture of the patch has.
    per_mask: divide the sums of keep, aux color and aux opacity by |M|; else means (paper).
    weight_*: of the loss terms; aux_patch is not in the paper: in auxiliary views the anchor's own
        pixels, carried there by the surface, are the target where they are visible.
    support_alpha, dilate_px: of the auxiliary support S_v.

    rate_*: Adam's rates; center (along the surface) and normal in strides; final_rate: share of
        them at the end. At the normal's rate a centre can go about one sigma of attachment in the
        default iterations. At the tangential rate (the method has one for both) centres without
        attachment go nearly a stride off the surface and the anchor is reproduced worse than with
        it; chosen, of seven rates tried, so that it is reproduced better, as in the paper.

    use_*: the ablation switches; each removes what the paper's ablation removes, use_aux the terms
        (5) and (6) but not aux_patch.
    """

    variant: Variant = "inspector"
    iterations: int = DEFAULT_ITERATIONS
    aux_views: int = 8
    seed: int = 0

    stride_px: float = 1.5
    start_opacity: float = 0.8
    sigma_strides: float = 0.6
    thinness: float = 0.1
    edge_sigma: float = 0.7
    offset_px: float = 0.0
    layer_strides: float = 0.5
    scale_min: float = 0.85
    scale_max: float = 1.5
    tangent_clamp: float = 1.0
    normal_clamp: float = 0.25

    reuse_opacity: float = 0.1
    reuse_depth: float = 0.03
    fade_front: bool = True
    fade_depth: float = 2.0

    per_mask: bool = True
    keep_partial: bool = True
    weight_patch: float = 1.0
    weight_keep: float = 1.0
    weight_aux_color: float = 1.0
    weight_aux_alpha: float = 0.1
    weight_attach: float = 0.01
    weight_aux_patch: float = 0.25
    attach_cap: float = 4.0
    support_alpha: float = 0.02
    dilate_px: int = 2

    rate_color: float = 0.02
    rate_opacity: float = 0.03
    rate_center: float = 0.05
    rate_normal: float = 0.0005
    rate_log_scale: float = 0.01
    final_rate: float = 0.1

    cone_deg: float = 35.0
    cone_elevation_deg: float = 20.0
    cone_radius: tuple[float, float] = (0.7, 1.6)

    use_new: bool = True
    use_old: bool = True
    use_keep: bool = True
    use_aux: bool = True
    use_attachment: bool = True

    def __post_init__(self) -> None:
        if self.variant not in ("paper", "inspector"):
            raise InputError(f"variant: wanted paper or inspector, found {self.variant!r}")
        if self.iterations < 1:
            raise InputError(f"iterations: wanted at least 1, found {self.iterations}")
        if self.aux_views < 0:
            raise InputError(f"auxiliary views: wanted 0 or more, found {self.aux_views}")
        if not self.stride_px >= 0.5:
            raise InputError(f"stride: wanted at least 0.5 px, found {self.stride_px}")
        if not (self.use_new or self.use_old):
            raise InputError("no new and no old Gaussians: nothing is left to learn; keep one")

    @classmethod
    def of(cls, variant: Variant, **changes: Any) -> ApseSettings:
        """The variant's constants, with `changes`."""
        paper: dict[str, Any] = {
            "offset_px": 0.375, "layer_strides": 0.0, "fade_front": False, "fade_depth": 0.0,
            "per_mask": False, "keep_partial": False, "weight_aux_patch": 0.0, "edge_sigma": 1.0,
        }  # fmt: skip
        base = cls(variant, **paper) if variant == "paper" else cls(variant)
        return replace(base, **changes)

    def preview(self) -> ApseSettings:
        """The same, quickly: fewer iterations and auxiliary views (two do nearly as well)."""
        return replace(
            self,
            iterations=min(self.iterations, PREVIEW_ITERATIONS),
            aux_views=min(self.aux_views, PREVIEW_AUX_VIEWS),
        )

    def without(self, *parts: Literal["new", "old", "keep", "aux", "attachment"]) -> ApseSettings:
        """An ablation of the paper's table, or several at once."""
        changes: dict[str, Any] = {f"use_{part}": False for part in parts}
        return replace(self, **changes)

    @property
    def attach_sigma(self) -> float:
        """sigma_n of the attachment loss, strides: a quarter of the normal clamp."""
        return self.normal_clamp / 4
