"""Where a patch lies: a frame on a surface, its size, the anchor camera. Saved as small JSON."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patching.lift import above
from patching.raycast import (
    CORNERS_UV,
    DEPTH_TOLERANCE,
    SIZE_TOLERANCE,
    SUPERSAMPLE,
    cast_patch,
    outline_uv,
    patch_window,
    sub_pixels,
    visible_rays,
)
from patching.surface_json import surface_from_dict, surface_to_dict
from scene.camera import Camera
from scene.errors import InputError
from scene.surface import Plane, Surface, fit_masked_surface

if TYPE_CHECKING:
    from patching.patch import Patch
    from scene.render.api import Renderer

DoubleArray = NDArray[np.float64]
FloatArray = NDArray[np.float32]

FORMAT = "advscene-placement"
VERSION = 1


class Footprint(NamedTuple):
    """What a view shows of a placed patch.

    coverage: (H, W) float32 in [0, 1], share of each pixel that the patch would fill were nothing
        in front of it.
    visible: (H, W) bool, at least half of the pixel shows the patch.
    incidence_deg: angle between the patch's normal and the direction to the camera; 0 is frontal,
        above 90 the camera is behind it.
    """

    coverage: FloatArray
    visible: NDArray[np.bool_]
    incidence_deg: float


@dataclass(frozen=True, eq=False)
class Placement:
    """A patch's place on a surface.

    center: (3,) world point on the surface.
    right, down: (3,) world unit vectors along the patch's top and left edges (its own x and y),
        perpendicular; `right x down` points into the surface.
    width, height: size along them in world units.
    surface: what the patch follows; the patch's plane coordinates are measured along right and
        down, whatever the height of the surface over that plane.
    camera: the anchor camera.
    in_plane_deg: by how much the patch was turned clockwise, as seen from the front; already
        contained in right and down.
    """

    center: DoubleArray
    right: DoubleArray
    down: DoubleArray
    width: float
    height: float
    surface: Surface
    camera: Camera
    in_plane_deg: float = 0.0

    def __post_init__(self) -> None:
        for name in ("center", "right", "down"):
            vector = np.array(getattr(self, name), dtype=np.float64)
            if vector.shape != (3,) or not np.isfinite(vector).all():
                raise InputError(f"placement {name}: wanted 3 finite numbers, found {vector}")
            if name != "center" and abs(np.linalg.norm(vector) - 1) > 1e-4:
                raise InputError(
                    f"placement {name}: wanted a unit vector, found length "
                    f"{np.linalg.norm(vector):g}"
                )
            vector.flags.writeable = False
            object.__setattr__(self, name, vector)
        if abs(self.right @ self.down) > 1e-4:
            raise InputError("placement right and down: wanted perpendicular vectors")
        for name in ("width", "height"):
            size = float(getattr(self, name))
            if not (np.isfinite(size) and size > 0):
                raise InputError(f"placement {name}: wanted a size > 0, found {size}")
            object.__setattr__(self, name, size)
        if not np.isfinite(self.in_plane_deg):
            raise InputError(f"placement in_plane_deg: wanted a number, found {self.in_plane_deg}")

    @property
    def outward(self) -> DoubleArray:
        """(3,) unit normal of the patch's plane on its printed side."""
        normal = np.cross(self.down, self.right)
        return np.asarray(normal / np.linalg.norm(normal))

    def outward_at(self, points: DoubleArray) -> DoubleArray:
        """(..., 3) unit normals of the surface at `points`, on the printed side."""
        normals = self.surface.normal_at(points)
        sign = np.sign(self.surface.normal_at(self.center[None])[0] @ self.outward) or 1.0
        return np.asarray(normals * sign)

    def to_uv(self, points: DoubleArray) -> DoubleArray:
        """World points (..., 3) to patch coordinates (..., 2), 0..1 from its top left corner."""
        offset = points - self.center
        u = offset @ self.right / self.width + 0.5
        v = offset @ self.down / self.height + 0.5
        return np.stack([u, v], axis=-1)

    def from_uv(self, uv: ArrayLike) -> DoubleArray:
        """Patch coordinates (..., 2) to points (..., 3) on the surface."""
        uv = np.asarray(uv, dtype=np.float64) - 0.5
        flat = (
            self.center
            + uv[..., :1] * self.width * self.right
            + uv[..., 1:] * self.height * self.down
        )
        start = flat + (self.width + self.height) * self.outward
        lifted, hit = self.surface.intersect(start, np.broadcast_to(-self.outward, flat.shape))
        return np.where(hit[..., None], lifted, flat)

    def corners(self) -> DoubleArray:
        """(4, 3) corners on the surface: top left, top right, bottom right, bottom left."""
        return self.from_uv(CORNERS_UV)

    def outline(self, steps: int = 1) -> DoubleArray:
        """(4 * steps, 3) points around the edge, from the top left corner clockwise."""
        return self.from_uv(outline_uv(steps))

    def homography(self, camera: Camera) -> DoubleArray:
        """(3, 3) from patch coordinates (u, v, 1) to homogeneous pixels; for planes."""
        origin = self.center - 0.5 * self.width * self.right - 0.5 * self.height * self.down
        basis = np.stack([self.width * self.right, self.height * self.down, origin], axis=1)
        local = camera.camera_from_world[:3, :3] @ basis
        local[:, 2] += camera.camera_from_world[:3, 3]
        return np.asarray(camera.K @ local)

    def incidence_deg(self, camera: Camera) -> float:
        """Angle in degrees between the patch's normal at its centre and the way to the camera."""
        to_camera = camera.center - self.center
        cosine = self.outward_at(self.center[None])[0] @ to_camera / np.linalg.norm(to_camera)
        return float(np.degrees(np.arccos(np.clip(cosine, -1, 1))))

    def to_dict(self) -> dict[str, Any]:
        """The JSON fields."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "center": self.center.tolist(),
            "right": self.right.tolist(),
            "down": self.down.tolist(),
            "width": self.width,
            "height": self.height,
            "in_plane_deg": self.in_plane_deg,
            "surface": surface_to_dict(self.surface),
            "camera": self.camera.to_dict(),
        }

    @classmethod
    def from_dict(cls, fields: Any, source: str = "placement") -> Placement:
        """Inverse of `to_dict`; InputError names what is missing or wrong."""
        if not isinstance(fields, dict) or fields.get("format") != FORMAT:
            raise InputError(
                f'{source}: wanted a placement file ("format": "{FORMAT}"), found other content'
            )
        if fields.get("version") != VERSION:
            raise InputError(
                f"{source}: wanted placement version {VERSION}, found {fields.get('version')}"
            )
        wanted = ("center", "right", "down", "width", "height", "surface", "camera")
        missing = [name for name in wanted if name not in fields]
        if missing:
            raise InputError(f"{source}: the fields {', '.join(missing)} are missing")
        try:
            return cls(
                center=np.asarray(fields["center"], dtype=np.float64),
                right=np.asarray(fields["right"], dtype=np.float64),
                down=np.asarray(fields["down"], dtype=np.float64),
                width=float(fields["width"]),
                height=float(fields["height"]),
                surface=surface_from_dict(fields["surface"], source),
                camera=Camera.from_dict(fields["camera"], f"{source}: camera"),
                in_plane_deg=float(fields.get("in_plane_deg", 0.0)),
            )
        except InputError as error:
            text = str(error)
            raise InputError(text if text.startswith(source) else f"{source}: {text}") from error
        except (TypeError, ValueError) as error:
            raise InputError(f"{source}: {error}") from error


def load_placement(path: str | Path) -> Placement:
    """Read a placement file. Raises InputError with one sentence."""
    path = Path(path)
    try:
        fields = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such placement file") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: wanted a JSON placement file, found {error}") from error
    return Placement.from_dict(fields, str(path))


def save_placement(placement: Placement, path: str | Path) -> None:
    """Write a placement file, whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    partial.write_text(json.dumps(placement.to_dict(), indent=1, allow_nan=False))
    os.replace(partial, path)


def place_by_numbers(
    center: ArrayLike,
    normal: ArrayLike,
    width: float,
    aspect: float,
    camera: Camera,
    up: ArrayLike,
    in_plane_deg: float = 0.0,
    surface: Surface | None = None,
) -> Placement:
    """A placement from plain numbers.

    center: (3,) world point. normal: (3,) direction out of the surface, any length and sign (it
    is turned towards the anchor camera). width: world units. aspect: height over width.
    up: (3,) the world's up axis; the patch stands upright by it, or by the camera where the
    surface is level. in_plane_deg: clockwise turn as seen from the front.
    surface: what the patch follows; default the plane through center.
    """
    center, up = np.asarray(center, dtype=np.float64), np.asarray(up, dtype=np.float64)
    outward = np.asarray(normal, dtype=np.float64)
    if outward.shape != (3,) or not np.linalg.norm(outward) > 0:
        raise InputError(f"normal: wanted a direction of 3 numbers, found {outward}")
    outward = outward / np.linalg.norm(outward)
    if outward @ (camera.center - center) < 0:
        outward = -outward
    right, down = _upright_axes(outward, up, camera)
    turn = np.radians(in_plane_deg)
    right, down = (
        np.cos(turn) * right + np.sin(turn) * down,
        np.cos(turn) * down - np.sin(turn) * right,
    )
    return Placement(
        center, right, down, width, width * aspect,
        surface if surface is not None else Plane(center, outward), camera, in_plane_deg,
    )  # fmt: skip


def place_at_pixel(
    renderer: Renderer,
    camera: Camera,
    pixel: tuple[float, float],
    patch: Patch,
    width: float,
    up: ArrayLike,
    in_plane_deg: float = 0.0,
) -> Placement:
    """A placement where a click in the anchor view meets the scene.

    renderer: of the clean scene. pixel: (x, y) of the click. width: world units. The surface is
    fitted to the depths of a patch-sized square about the click, then lifted a little (`lift`).
    """
    drawn = renderer.render(camera, outputs=frozenset({"rgb", "alpha", "median_depth"}))
    assert drawn.median_depth is not None
    column, row = int(np.floor(pixel[0])), int(np.floor(pixel[1]))
    if not (0 <= column < camera.width and 0 <= row < camera.height):
        raise InputError(
            f"click at ({pixel[0]:g}, {pixel[1]:g}): wanted a pixel inside the "
            f"{camera.width}x{camera.height} picture"
        )
    depth = _depth_near(drawn.median_depth, row, column)
    if depth is None:
        raise InputError("nothing solid lies under the click; click a surface of the scene")
    size = width * np.array([1.0, patch.aspect])
    half_px = np.maximum(0.5 * size * camera.K[[0, 1], [0, 1]] / depth, 3)
    offset = np.abs(camera.pixel_centers() - pixel)
    region = np.asarray((offset <= half_px).all(axis=-1))
    rng = np.random.default_rng(0)
    surface = above(fit_masked_surface(region, drawn.alpha, drawn.median_depth, camera, rng))
    points, hit = surface.intersect(camera.center, camera.rays(np.asarray(pixel))[None])
    if not hit[0]:
        raise InputError("the surface under the click is seen edge-on; choose a more frontal view")
    normal = surface.normal_at(points)[0]
    return place_by_numbers(
        points[0], normal, width, patch.aspect, camera, up, in_plane_deg, surface
    )


def footprint(placement: Placement, camera: Camera, median_depth: FloatArray | None) -> Footprint:
    """What `camera` shows of the placed patch.

    median_depth: (H, W) of the clean scene in this view, 0 where there is nothing; None: as if
    nothing could be in front.
    """
    coverage = np.zeros((camera.height, camera.width), np.float32)
    visible = np.zeros(coverage.shape, bool)
    incidence = placement.incidence_deg(camera)
    if isinstance(placement.surface, Plane):
        _count_rays(placement, placement.surface, camera, median_depth, coverage, visible)
        return Footprint(coverage, visible, incidence)
    rays = cast_patch(placement, camera)
    if rays is not None:
        where = (rays.rows, rays.columns)
        coverage[where] = rays.pooled(rays.inside.astype(np.float32))
        shown = rays.inside
        if median_depth is not None:
            shown = visible_rays(rays, placement, median_depth)
        visible[where] = rays.pooled(shown.astype(np.float32)) >= 0.5
    return Footprint(coverage, visible, incidence)


def _count_rays(
    placement: Placement,
    plane: Plane,
    camera: Camera,
    median_depth: FloatArray | None,
    coverage: FloatArray,
    visible: NDArray[np.bool_],
) -> None:
    """`footprint` of a patch on a plane: writes coverage and visible (H, W), zeros before."""
    from patching.footprint_kernel import count_plane_rays

    normal = placement.outward_at(placement.center[None])[0]
    height = float(normal @ (camera.center - plane.point))
    window = patch_window(placement, camera)
    if window is None or height <= 0:
        return
    rows, columns = window
    shape = (rows.stop - rows.start, columns.stop - columns.start)
    u, v = placement.right / placement.width, placement.down / placement.height
    axes = np.stack([normal, u, v]) @ camera.camera_from_world[:3, :3].T
    to_camera = camera.center - placement.center
    along = [-height, u @ to_camera + 0.5, v @ to_camera + 0.5]
    focal, middle = camera.K[[0, 1], [0, 1]], camera.K[:2, 2]
    hiding = np.zeros(shape, np.float32)
    if median_depth is not None:
        hiding[:] = median_depth[window]
    filled, shown = np.empty(shape, np.int32), np.empty(shape, np.int32)
    count_plane_rays(
        np.column_stack([axes, np.array(along)]),
        (sub_pixels(columns, SUPERSAMPLE) - middle[0]) / focal[0],
        (sub_pixels(rows, SUPERSAMPLE) - middle[1]) / focal[1],
        hiding,
        (np.float32(DEPTH_TOLERANCE), np.float32(SIZE_TOLERANCE * placement.width)),
        filled,
        shown,
    )
    coverage[window] = filled / SUPERSAMPLE**2
    visible[window] = 2 * shown >= SUPERSAMPLE**2


def _upright_axes(
    outward: DoubleArray, up: DoubleArray, camera: Camera
) -> tuple[DoubleArray, DoubleArray]:
    """Unit (right, down) in the plane of `outward`, down away from `up` as far as that can be."""
    up = up / np.linalg.norm(up)
    down = -(up - (up @ outward) * outward)
    if np.linalg.norm(down) < 0.2:
        down = camera.down - (camera.down @ outward) * outward
    if np.linalg.norm(down) < 1e-6:
        # level camera: over a floor the nearer edge is the lower one, under a ceiling the farther
        away = camera.forward - (camera.forward @ outward) * outward
        down = away * np.sign(camera.down @ outward)
    down = down / np.linalg.norm(down)
    return np.cross(outward, down), down


def _depth_near(median_depth: FloatArray, row: int, column: int, reach: int = 3) -> float | None:
    """Median of the positive depths within `reach` pixels; None when there are none."""
    rows = slice(max(row - reach, 0), row + reach + 1)
    near = median_depth[rows, max(column - reach, 0) : column + reach + 1]
    near = near[near > 0]
    return float(np.median(near)) if len(near) else None
