"""Gaussians in ordinary PLY files: INRIA's layout and the variations that exist of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError
from scene.gaussians import SH_C0, Gaussians, Rows
from scene.io.atomic import atomic_write
from scene.io.loaded import LoadedGaussians
from scene.io.ply_file import PlyHeader, iter_ply_rows, read_ply_header

FloatArray = NDArray[np.float32]

BLOCK_ROWS = 1 << 15
"""Rows that readers decode at a time: few enough to stay in cache, and to need no memory."""

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
    vertex = header.element("vertex")
    assert vertex is not None
    blocks = iter_ply_rows(header, "vertex", BLOCK_ROWS)
    layout = _Layout.of(header)
    decoded = (layout.decode(rows) for rows in blocks)
    try:
        gaussians, dropped = Gaussians.gathered(vertex.count, layout.coefficients, decoded)
    except InputError as error:
        if str(header.path) in str(error):
            raise
        raise InputError(f"{header.path}: {error}") from error
    return LoadedGaussians(
        gaussians, "ply", dropped, layout.notes, _stated_up(header),
        normalised=_is_from_nerfstudio(header),
    )  # fmt: skip


def _stated_up(header: PlyHeader) -> tuple[float, float, float] | None:
    """The up axis of nerfstudio's comment "Vertical Axis: z"."""
    for comment in header.comments:
        if match := re.fullmatch(r"vertical axis:\s*([xyz])", comment.lower()):
            axis = "xyz".index(match[1])
            return (float(axis == 0), float(axis == 1), float(axis == 2))
    return None


def says_normalised(path: Path) -> bool:
    """Whether a PLY file says that nerfstudio exported it: in the frame that it trained in."""
    try:
        return _is_from_nerfstudio(read_ply_header(path))
    except (InputError, OSError):
        return False


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


@dataclass(frozen=True)
class _Layout:
    """Which properties of the vertices are what, decided once from the header.

    dc_divisor: what red, green, blue are divided by; None where there are f_dc.
    """

    path: Path
    names: tuple[str, ...]
    plain: bool
    scales: tuple[str, ...]
    rest: tuple[str, ...]
    dc_divisor: float | None
    notes: tuple[str, ...]

    @classmethod
    def of(cls, header: PlyHeader) -> _Layout:
        """Raises InputError for missing, gapped or miscounted properties."""
        vertex = header.element("vertex")
        assert vertex is not None
        names = vertex.properties
        rest, scales = (_numbered(header.path, names, p) for p in ("f_rest_", "scale_"))
        if len(rest) not in _DEGREE_OF_REST_COUNT:
            raise InputError(
                f"{header.path}: wanted 0, 9, 24 or 45 f_rest properties (SH degree 0 to 3), found "
                f"{len(rest)}"
            )
        if not 1 <= len(scales) <= 3:
            raise InputError(f"{header.path}: wanted 1 to 3 scale properties, found {len(scales)}")
        rgb = "red" in names and "f_dc_0" not in names
        colors = ("red", "green", "blue") if rgb else ("f_dc_0", "f_dc_1", "f_dc_2")
        for name in ("x", "y", "z", *colors, "opacity", *(f"rot_{i}" for i in range(4))):
            if name not in names:
                raise InputError(
                    f"{header.path}: not a Gaussian PLY: the vertex property {name} is missing"
                )
        plain = set(vertex.types) == {"f4"} and header.encoding != "binary_big_endian"
        divisor = _rgb_divisor(header) if rgb else None
        notes = tuple(
            note
            for note, holds in (
                ("colors were read from red, green, blue (no f_dc): sRGB, no view dependence", rgb),
                ("one scale: every Gaussian is a sphere", len(scales) == 1),
                (
                    f"two scales (2DGS discs): the third was set to {_DISC_THICKNESS:g} of the "
                    f"smaller",
                    len(scales) == 2,
                ),
                (
                    "filter_3D (Mip-Splatting) was applied to scales and opacities",
                    "filter_3D" in names,
                ),
                (
                    "nerfstudio exported it without harmonics, and many of its versions write "
                    "logits of the colors as f_dc then; where colors are wrong, open the run's "
                    "config.yml instead",
                    _is_from_nerfstudio(header) and not rest and not rgb,
                ),
            )
            if holds
        )
        return cls(header.path, names, plain, scales, rest, divisor, notes)

    @property
    def coefficients(self) -> int:
        """K of the harmonics."""
        return 1 + len(self.rest) // 3

    def stack(self, rows: NDArray, *names: str) -> FloatArray:
        """(n, len(names)) float32."""
        if self.plain:
            # plain floats throughout, as nearly always: a view, or one pass over the rows
            table = rows.view("<f4").reshape(len(rows), len(self.names))
            columns = [self.names.index(name) for name in names]
            if columns and columns == list(range(columns[0], columns[0] + len(columns))):
                return table[:, columns[0] : columns[0] + len(columns)]
            return table[:, columns]
        out = np.empty((len(rows), len(names)), dtype=np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            for i, name in enumerate(names):
                out[:, i] = rows[name]
        return out

    def decode(self, rows: NDArray) -> Rows:
        """Activated columns of some rows."""
        scales = _activated_scales(self.stack(rows, *self.scales))
        with np.errstate(over="ignore"):
            logits = self.stack(rows, "opacity")[:, 0].astype(np.float64)
            opacities = np.asarray(1 / (1 + np.exp(-logits)), dtype=np.float32)
        if "filter_3D" in self.names:
            size = self.stack(rows, "filter_3D")
            scales, opacities = _fuse_3d_filter(scales, opacities, size)
        quats = self.stack(rows, "rot_0", "rot_1", "rot_2", "rot_3")
        return Rows(self.stack(rows, "x", "y", "z"), quats, scales, opacities, self._sh(rows))

    def _sh(self, rows: NDArray) -> FloatArray:
        """(n, K, 3); on disk all of red's coefficients come first, then green's, then blue's."""
        by_coefficient = np.reshape(self.rest, (3, -1)).T.ravel().tolist()
        if self.plain and self.dc_divisor is None:
            table = rows.view("<f4").reshape(len(rows), len(self.names))
            names = ("f_dc_0", "f_dc_1", "f_dc_2", *by_coefficient)
            columns = [self.names.index(name) for name in names]
            # "clip" spares numpy a copy that "raise" makes; the columns are inside either way
            return np.take(table, columns, axis=1, mode="clip").reshape(len(rows), -1, 3)
        rest = self.stack(rows, *by_coefficient).reshape(len(rows), -1, 3)
        return np.concatenate([self._dc(rows)[:, None], rest], axis=1)

    def _dc(self, rows: NDArray) -> FloatArray:
        if self.dc_divisor is None:
            return self.stack(rows, "f_dc_0", "f_dc_1", "f_dc_2")
        rgb = self.stack(rows, "red", "green", "blue") / np.float32(self.dc_divisor)
        return (rgb - np.float32(0.5)) / np.float32(SH_C0)


def _is_from_nerfstudio(header: PlyHeader) -> bool:
    """By its comment, which misspells it."""
    return any(re.match(r"generated by nerf?studio", c.lower()) for c in header.comments)


def _numbered(path: Path, names: tuple[str, ...], prefix: str) -> tuple[str, ...]:
    """Properties `prefix`0, `prefix`1, ... in numeric order; they must have no gaps."""
    pattern = re.compile(re.escape(prefix) + r"(\d{1,6})")
    found = sorted(int(m[1]) for name in names if (m := pattern.fullmatch(name)))
    if found != list(range(len(found))):
        raise InputError(f"{path}: the properties {prefix}* are not numbered 0, 1, 2, ...")
    return tuple(f"{prefix}{i}" for i in found)


def _rgb_divisor(header: PlyHeader) -> float:
    """What brings red, green, blue to [0, 1]: integers by their type, floats by their values."""
    vertex = header.element("vertex")
    assert vertex is not None
    kind = np.dtype(vertex.types[vertex.properties.index("red")])
    if kind.kind in "ui":
        return float(np.iinfo(kind).max)
    largest = max(
        float(np.nanmax(rows[name], initial=0))
        for rows in iter_ply_rows(header, "vertex", BLOCK_ROWS)
        for name in ("red", "green", "blue")
    )
    return 255.0 if largest > 1.001 else 1.0


def _activated_scales(log_scales: FloatArray) -> FloatArray:
    """(n, 1 to 3) logarithms to (n, 3) linear scales."""
    logs = log_scales
    if logs.shape[1] == 2:
        thin = logs.min(axis=1, keepdims=True) + np.float32(np.log(_DISC_THICKNESS))
        logs = np.concatenate([logs, thin], axis=1)
    elif logs.shape[1] == 1:
        logs = np.repeat(logs, 3, axis=1)
    with np.errstate(over="ignore"):
        return np.exp(logs)


def _fuse_3d_filter(
    scales: FloatArray, opacities: FloatArray, size: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mip-Splatting's 3D low-pass of standard deviation `size` (N, 1), volume kept by opacity."""
    before = scales.astype(np.float64) ** 2
    after = before + size.astype(np.float64) ** 2
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        volume = np.sqrt((before / after).prod(axis=1))
    return np.sqrt(after).astype(np.float32), (opacities * volume).astype(np.float32)
