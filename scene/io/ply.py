"""Gaussians in ordinary PLY files: INRIA's layout and the variations that exist of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError
from scene.gaussians import SH_C0, Gaussians
from scene.io.atomic import atomic_write
from scene.io.loaded import LoadedGaussians
from scene.io.ply_file import PlyHeader, read_ply_elements, read_ply_header

FloatArray = NDArray[np.float32]

_DEGREE_OF_REST_COUNT = {0: 0, 9: 1, 24: 2, 45: 3}
# A 2DGS disc has no thickness; this share of its smaller radius keeps its covariance invertible.
_DISC_THICKNESS = 1e-3
# Opacities of exactly 0 and 1 have no finite logit; below 1e-8 nothing is ever drawn.
_LOWEST_OPACITY = 1e-8
_HIGHEST_OPACITY = 1 - 2.0**-24


def load_ply(path: str | Path) -> LoadedGaussians:
    """Read 3DGS PLY: properties by name, any order, SH degree 0-3, ASCII or either byte order.

    Accepts red/green/blue instead of f_dc, two scales (2DGS) and Mip-Splatting's filter_3D, and
    says so in the notes. Raises InputError for anything that is not a splat.
    """
    header = read_ply_header(Path(path))
    return gaussians_from_ply(header)


def gaussians_from_ply(header: PlyHeader) -> LoadedGaussians:
    """`load_ply` for a file whose header is already read."""
    refuse_other_ply(header)
    rows = read_ply_elements(header, ("vertex",))["vertex"]
    columns = _Columns(header.path, rows)
    means = columns.stack("x", "y", "z")
    sh = _read_sh(columns)
    with np.errstate(over="ignore"):
        scales = np.exp(_read_log_scales(columns)).astype(np.float32)
        opacities = (1 / (1 + np.exp(-columns.stack("opacity")[:, 0].astype(np.float64)))).astype(
            np.float32
        )
    quats = columns.stack("rot_0", "rot_1", "rot_2", "rot_3")
    if "filter_3D" in columns:
        scales, opacities = _fuse_3d_filter(scales, opacities, columns.stack("filter_3D"))
        columns.notes.append("filter_3D (Mip-Splatting) was applied to scales and opacities")
    try:
        gaussians, dropped = Gaussians.validated(means, quats, scales, opacities, sh)
    except InputError as error:
        raise InputError(f"{header.path}: {error}") from error
    return LoadedGaussians(gaussians, "ply", dropped, tuple(columns.notes), _stated_up(header))


def _stated_up(header: PlyHeader) -> tuple[float, float, float] | None:
    """The up axis of nerfstudio's comment "Vertical Axis: z"."""
    for comment in header.comments:
        if match := re.fullmatch(r"vertical axis:\s*([xyz])", comment.lower()):
            axis = "xyz".index(match[1])
            return (float(axis == 0), float(axis == 1), float(axis == 2))
    return None


def refuse_other_ply(header: PlyHeader) -> None:
    """InputError, with the name of what it is, for PLY files that hold no plain Gaussians."""
    vertex = header.element("vertex")
    if vertex is None:
        raise InputError(f"{header.path}: the PLY file has no vertex element, so no Gaussians")
    names = set(vertex.properties)
    if any(n.startswith(("f_anchor_feat", "f_offset", "anchor_feat")) for n in names):
        raise InputError(
            f"{header.path}: this is a neural variant (Scaffold-GS anchors and features), whose "
            f"Gaussians exist only through its networks; export plain 3DGS first"
        )
    if any(n.startswith(("trbf_", "motion_", "omega_")) for n in names) or "scale_t" in names:
        raise InputError(
            f"{header.path}: this is a dynamic (4D) Gaussian scene; export one moment of it as "
            f"plain 3DGS first"
        )
    if {"scale_0", "rot_0", "opacity"} <= names:
        if vertex.count == 0:
            raise InputError(f"{header.path}: the PLY file holds 0 Gaussians")
        return
    face = header.element("face")
    if face is not None and face.count > 0:
        raise InputError(
            f"{header.path}: this is a mesh ({vertex.count} vertices, {face.count} faces), not "
            f"Gaussians; a splat PLY has scale_0, rot_0 and opacity properties"
        )
    if {"x", "y", "z"} <= names and not names & {"scale_0", "rot_0", "f_dc_0"}:
        raise InputError(
            f"{header.path}: this is a point cloud ({vertex.count} points), not Gaussians; use it "
            f"as the start of a reconstruction instead"
        )
    missing = sorted({"scale_0", "rot_0", "opacity"} - names)
    raise InputError(
        f"{header.path}: not a Gaussian PLY: the vertex properties {', '.join(missing)} are missing"
    )


def save_ply(gaussians: Gaussians, path: str | Path) -> None:
    """Write INRIA's layout: little-endian float32, log scales, logit opacities, order kept.

    Opacities of exactly 0 and 1 are written as the nearest value with a finite logit.
    """
    rest = gaussians.sh[:, 1:].transpose(0, 2, 1).reshape(len(gaussians), -1)
    opacities = np.clip(gaussians.opacities.astype(np.float64), _LOWEST_OPACITY, _HIGHEST_OPACITY)
    table = np.concatenate(
        [
            gaussians.means,
            np.zeros_like(gaussians.means),
            gaussians.sh[:, 0],
            rest,
            np.log(opacities / (1 - opacities))[:, None],
            np.log(gaussians.scales.astype(np.float64)),
            gaussians.quats,
        ],
        axis=1,
        dtype=np.float32,
        casting="same_kind",
    )
    names = ["x", "y", "z", "nx", "ny", "nz", *(f"f_dc_{i}" for i in range(3))]
    names += [f"f_rest_{i}" for i in range(rest.shape[1])]
    names += ["opacity", *(f"scale_{i}" for i in range(3)), *(f"rot_{i}" for i in range(4))]
    lines = ["ply", "format binary_little_endian 1.0", f"element vertex {len(gaussians)}"]
    lines += [f"property float {name}" for name in names]
    with atomic_write(path) as file:
        file.write(("\n".join([*lines, "end_header"]) + "\n").encode())
        file.write(np.ascontiguousarray(table, dtype="<f4").data)


@dataclass
class _Columns:
    """The vertex rows by property name, and what was noticed while reading them."""

    path: Path
    rows: NDArray
    notes: list[str] = field(default_factory=list)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    @property
    def names(self) -> tuple[str, ...]:
        return self.rows.dtype.names or ()

    def stack(self, *names: str) -> FloatArray:
        """(N, len(names)) float32. Raises InputError naming a missing property."""
        missing = [name for name in names if name not in self]
        if missing:
            raise InputError(
                f"{self.path}: not a Gaussian PLY: the vertex property {missing[0]} is missing"
            )
        if all(self.rows.dtype[name] == np.dtype("<f4") for name in self.names):
            # plain floats throughout, as nearly always: one pass instead of one per column
            table = self.rows.view("<f4").reshape(len(self.rows), len(self.names))
            return table[:, [self.names.index(name) for name in names]]
        out = np.empty((len(self.rows), len(names)), dtype=np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            for i, name in enumerate(names):
                out[:, i] = self.rows[name]
        return out

    def numbered(self, prefix: str) -> list[str]:
        """Properties `prefix`0, `prefix`1, ... in numeric order; they must have no gaps."""
        pattern = re.compile(re.escape(prefix) + r"(\d+)")
        found = sorted(int(m[1]) for name in self.names if (m := pattern.fullmatch(name)))
        if found != list(range(len(found))):
            raise InputError(f"{self.path}: the properties {prefix}* are not numbered 0, 1, 2, ...")
        return [f"{prefix}{i}" for i in found]


def _read_sh(columns: _Columns) -> FloatArray:
    rest_names = columns.numbered("f_rest_")
    if len(rest_names) not in _DEGREE_OF_REST_COUNT:
        raise InputError(
            f"{columns.path}: wanted 0, 9, 24 or 45 f_rest properties (SH degree 0 to 3), found "
            f"{len(rest_names)}"
        )
    if "f_dc_0" in columns or "red" not in columns:
        dc = columns.stack("f_dc_0", "f_dc_1", "f_dc_2")
    else:
        dc = _dc_from_rgb(columns)
    # on disk all of red's coefficients come first, then green's, then blue's
    rest = columns.stack(*rest_names).reshape(len(dc), 3, -1).transpose(0, 2, 1)
    return np.concatenate([dc[:, None], rest], axis=1)


def _dc_from_rgb(columns: _Columns) -> FloatArray:
    rgb = columns.stack("red", "green", "blue")
    if columns.rows.dtype["red"].kind in "ui":
        rgb /= np.float32(np.iinfo(columns.rows.dtype["red"]).max)
    elif np.nanmax(rgb, initial=0) > 1.001:
        rgb /= np.float32(255)
    columns.notes.append(
        "colors were read from red, green, blue (no f_dc): sRGB, no view dependence"
    )
    return (rgb - np.float32(0.5)) / np.float32(SH_C0)


def _read_log_scales(columns: _Columns) -> NDArray[np.float64]:
    names = columns.numbered("scale_")
    log_scales = columns.stack(*names).astype(np.float64)
    if len(names) == 2:
        thin = log_scales.min(axis=1, keepdims=True) + np.log(_DISC_THICKNESS)
        log_scales = np.concatenate([log_scales, thin], axis=1)
        columns.notes.append(
            f"two scales (2DGS discs): the third was set to {_DISC_THICKNESS:g} of the smaller"
        )
    elif len(names) == 1:
        log_scales = np.repeat(log_scales, 3, axis=1)
        columns.notes.append("one scale: every Gaussian is a sphere")
    elif len(names) != 3:
        raise InputError(f"{columns.path}: wanted 1 to 3 scale properties, found {len(names)}")
    return log_scales


def _fuse_3d_filter(
    scales: FloatArray, opacities: FloatArray, size: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mip-Splatting's 3D low-pass of standard deviation `size` (N, 1), volume kept by opacity."""
    before = scales.astype(np.float64) ** 2
    after = before + size.astype(np.float64) ** 2
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        volume = np.sqrt((before / after).prod(axis=1))
    return np.sqrt(after).astype(np.float32), (opacities * volume).astype(np.float32)
