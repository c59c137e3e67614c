"""The views that an embedding is optimized in: the anchor and the auxiliary ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from patching.anchor import Anchor
from patching.apse.losses import alpha_loss, outside_loss, patch_loss
from patching.apse.settings import ApseSettings
from patching.apse.texture import AnchorTexture
from patching.edit import no_gaussians
from patching.raycast import composite
from scene.camera import Camera
from scene.gaussians import Gaussians
from scene.render.api import Rendered, RenderSettings
from scene.render.patch_view import Parameters, PatchView

DoubleArray = NDArray[np.float64]
FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]
Leaves = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]

MIN_SEEN_PX = 40
"""An auxiliary view must show at least this many pixels of the patch's projection."""

MAX_INCIDENCE_DEG = 75.0


@dataclass(frozen=True, eq=False)
class Editable:
    """The learnable Gaussians, reused ones first, and everything else.

    static: all clean Gaussians that stay as they are. start: reused then new, at their start.
    reused: how many of `start` are reused. sh: (reused, K, 3) their clean harmonics.
    """

    static: Gaussians
    start: Gaussians
    reused: int
    sh: FloatArray

    def rest_colors(self, camera: Camera) -> torch.Tensor:
        """(n, 3) view-dependent part of each learnable Gaussian's color in `camera`."""
        rest = torch.zeros(len(self.start), 3)
        if self.reused and self.sh.shape[1] > 1:
            away = self.start.means[: self.reused] - camera.center
            rest[: self.reused] = higher_harmonics(self.sh, away)
        return rest


def higher_harmonics(sh: FloatArray, away: DoubleArray) -> torch.Tensor:
    """(n, 3) color that the degrees above 0 of sh (n, K, 3) add along directions away (n, 3)."""
    from scene.render.reference import view_colors

    # far from view_colors' clamp at 0, and subtracted again exactly
    raised = torch.from_numpy(sh.astype(np.float64))
    raised[:, 0] = 1000.0
    along = torch.from_numpy(np.asarray(away, dtype=np.float64))
    base = view_colors(raised[:, :1], along)
    return (view_colors(raised, along) - base).float()


class AnchorView:
    """Terms (3) and (4): the patch must appear, the rest of the anchor must stay."""

    def __init__(
        self,
        anchor: Anchor,
        editable: Editable,
        drawn: FloatArray,
        settings: ApseSettings,
        render: RenderSettings,
    ) -> None:
        self._settings = settings
        self._view = PatchView(
            editable.static, anchor.camera, anchor.background, editable.start, settings=render
        )
        self._rest = editable.rest_colors(anchor.camera)
        self._clean_picture = drawn
        window = _window(self._view)
        self._attacked = _planes(anchor.image[window])
        # an outside pair may differ from the render everywhere: only a placement's is trusted
        partial = settings.keep_partial and anchor.placement is not None
        self._kept = _planes(anchor.image[window] if partial else drawn[window])
        self._mask = torch.from_numpy(anchor.mask[window].astype(np.float32))
        self._mask_px = float(anchor.mask.sum())
        whole = anchor.mask.size - self._mask_px
        self._divisor = self._mask_px if settings.per_mask else whole
        self.picture = drawn

    def loss(self, leaves: Leaves) -> tuple[torch.Tensor, dict[str, float]]:
        """Weighted loss and the plain terms."""
        drawn = _draw(self._view, leaves, self._rest)
        self._last = drawn.detach()[:3]
        patch = patch_loss(drawn[:3], self._attacked, self._mask, self._mask_px)
        terms = {"patch": float(patch.detach())}
        total = self._settings.weight_patch * patch
        if self._settings.use_keep:
            keep = outside_loss(drawn[:3], self._kept, 1 - self._mask, self._divisor)
            total = total + self._settings.weight_keep * keep
            terms["keep"] = float(keep.detach())
        return total, terms

    def preview(self) -> FloatArray:
        """(H, W, 3) sRGB in [0, 1]: the anchor view as embedded so far."""
        picture = self._clean_picture.copy()
        picture[_window(self._view)] = self._last.permute(1, 2, 0).numpy()
        return np.clip(picture, 0, 1)


class AuxiliaryView:
    """Terms (5) and (6): nothing changes beside the patch's support, nothing floats off it.

    inspector: also the patch as the anchor shows it, carried here by its surface.
    """

    def __init__(
        self,
        camera: Camera,
        anchor: Anchor,
        texture: AnchorTexture,
        editable: Editable,
        clean: Rendered,
        settings: ApseSettings,
        render: RenderSettings,
    ) -> None:
        self._settings = settings
        self._reused = editable.reused
        self._view = PatchView(
            editable.static, camera, anchor.background, editable.start, settings=render
        )
        self._rest = editable.rest_colors(camera)
        window = _window(self._view)
        self._clean = _planes(clean.rgb[window])
        support = dilated(
            _drawn_alpha(self._view, editable.start) > settings.support_alpha, settings.dilate_px
        )
        self._outside = torch.from_numpy((~support).astype(np.float32))
        # the mask's area at this view's resolution
        scale = camera.width * camera.height / anchor.mask.size
        mask_px = float(anchor.mask.sum()) * scale
        whole = camera.width * camera.height - float(support.sum())
        self._divisor = mask_px if settings.per_mask else whole
        if settings.weight_aux_patch > 0:
            wanted, coverage, _ = composite(
                texture, texture.patch, camera, clean.rgb, clean.median_depth
            )
            self._wanted = _planes(wanted[window])
            self._shown = torch.from_numpy((coverage[window] > 0.5).astype(np.float32))
        self._alpha_view: PatchView | None = None
        new = np.arange(len(editable.start)) >= self._reused
        if settings.use_aux and settings.weight_aux_alpha > 0 and new.any():
            black = (0.0, 0.0, 0.0)
            added = editable.start.select(new)
            self._alpha_view = PatchView(no_gaussians(), camera, black, added, settings=render)
            projected = dilated(texture.coverage(camera) > 0, settings.dilate_px)
            outside = ~projected[_window(self._alpha_view)]
            self._alpha_outside = torch.from_numpy(outside.astype(np.float32))
            self._alpha_divisor = mask_px if settings.per_mask else float((~projected).sum())

    def loss(self, leaves: Leaves) -> tuple[torch.Tensor, dict[str, float]]:
        """Weighted loss and the plain terms, of this view alone."""
        drawn = _draw(self._view, leaves, self._rest)
        total = drawn.sum() * 0
        terms: dict[str, float] = {}
        if self._settings.use_aux:
            color = outside_loss(drawn[:3], self._clean, self._outside, self._divisor)
            total = total + self._settings.weight_aux_color * color
            terms["aux_color"] = float(color.detach())
        if self._settings.weight_aux_patch > 0:
            shown_px = max(float(self._shown.sum()), 1.0)
            patch = patch_loss(drawn[:3], self._wanted, self._shown, shown_px)
            total = total + self._settings.weight_aux_patch * patch
            terms["aux_patch"] = float(patch.detach())
        if self._alpha_view is not None:
            new = tuple(leaf[self._reused :] for leaf in leaves)
            alpha = self._alpha_view(*new)[3]
            floating = alpha_loss(alpha, self._alpha_outside, self._alpha_divisor)
            total = total + self._settings.weight_aux_alpha * floating
            terms["aux_alpha"] = float(floating.detach())
        return total, terms


def auxiliary_cameras(
    anchor: Anchor,
    texture: AnchorTexture,
    settings: ApseSettings,
    captured: Sequence[Camera] = (),
) -> list[Camera]:
    """The cameras of the auxiliary views.

    Drawn from the capture's own that see the patch, at the anchor's size; what they cannot fill,
    from a cone about the anchor.
    """
    rng = np.random.default_rng([settings.seed, 7])
    count = settings.aux_views if settings.use_aux or settings.weight_aux_patch > 0 else 0
    size = max(anchor.camera.width, anchor.camera.height)
    fitted = [camera.fitted(size) for camera in captured]
    seeing = [camera for camera in fitted if sees(texture, camera)]
    picked = [seeing[i] for i in sorted(rng.permutation(len(seeing))[:count])]
    pivot = texture.corners().mean(axis=0)
    up = -anchor.camera.down
    for _ in range(20 * count):
        if len(picked) == count:
            break
        camera = orbit(
            anchor.camera, pivot, up,
            rng.uniform(-settings.cone_deg, settings.cone_deg),
            rng.uniform(-settings.cone_elevation_deg, settings.cone_elevation_deg),
            rng.uniform(*settings.cone_radius),
        )  # fmt: skip
        if sees(texture, camera):
            picked.append(camera)
    return picked


def sees(texture: AnchorTexture, camera: Camera) -> bool:
    """Whether a camera looks at the patch's place from the front, not too obliquely."""
    center = texture.corners().mean(axis=0)
    to_camera = camera.center - center
    cosine = texture.outward_at(center[None])[0] @ to_camera / np.linalg.norm(to_camera)
    if cosine < np.cos(np.radians(MAX_INCIDENCE_DEG)):
        return False
    return float(texture.coverage(camera, 1).sum()) >= MIN_SEEN_PX


def orbit(
    camera: Camera,
    pivot: ArrayLike,
    up: ArrayLike,
    azimuth_deg: float,
    elevation_deg: float = 0.0,
    radius: float = 1.0,
) -> Camera:
    """`camera` moved rigidly about `pivot`: to its right, up, away.

    pivot, up: (3,) world. radius: factor of the distance.
    """
    from scipy.spatial.transform import Rotation

    pivot = np.asarray(pivot, dtype=np.float64)
    axis = np.asarray(up, dtype=np.float64)
    axis = axis / np.linalg.norm(axis)
    turn = Rotation.from_rotvec(np.radians(azimuth_deg) * axis).as_matrix()
    side = np.cross(turn @ camera.forward, axis)
    side = side / np.linalg.norm(side)
    turn = Rotation.from_rotvec(-np.radians(elevation_deg) * side).as_matrix() @ turn
    center = pivot + radius * (turn @ (camera.center - pivot))
    pose = np.eye(4)
    pose[:3, :3] = camera.camera_from_world[:3, :3] @ turn.T
    pose[:3, 3] = -pose[:3, :3] @ center
    return Camera(pose, camera.K, camera.width, camera.height)


def dilated(region: BoolArray, radius_px: int) -> BoolArray:
    """`region` grown by `radius_px` in every direction, corners included."""
    from scipy.ndimage import binary_dilation

    if radius_px <= 0:
        return region
    square = np.ones((2 * radius_px + 1, 2 * radius_px + 1), bool)
    return np.asarray(binary_dilation(region, square))


def _draw(view: PatchView, leaves: Leaves, rest: torch.Tensor) -> torch.Tensor:
    means, scales, opacities, colors = leaves
    return view(means, scales, opacities, (colors + rest).clamp(min=0))


def _drawn_alpha(view: PatchView, start: Gaussians) -> FloatArray:
    """(h, w) alpha of the learnable Gaussians as drawn, behind whatever is in front of them."""
    shape = (len(start), 3)
    arrays = (start.means, start.scales, start.opacities)
    white = view.draw(Parameters(*arrays, np.ones(shape, np.float32))).planes[0]
    black = view.draw(Parameters(*arrays, np.zeros(shape, np.float32))).planes[0]
    return np.asarray(white - black)


def _window(view: PatchView) -> tuple[slice, slice]:
    y0, y1, x0, x1 = view.crop
    return slice(y0, y1), slice(x0, x1)


def _planes(picture: FloatArray) -> torch.Tensor:
    """(h, w, 3) array to a (3, h, w) tensor."""
    return torch.from_numpy(np.ascontiguousarray(picture.transpose(2, 0, 1), np.float32))
