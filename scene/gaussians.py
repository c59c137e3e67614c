"""The 3D Gaussians of a scene, as one frozen value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scene.errors import InputError

SH_C0 = 0.28209479177387814
"""Value of the degree-0 real spherical harmonic: color = 0.5 + SH_C0 * sh[:, 0]."""

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class DropReport:
    """Rows that validation removed, by reason; `kept` maps the remaining rows to file rows."""

    kept: IntArray
    not_finite: int = 0
    zero_quaternion: int = 0
    bad_scale: int = 0

    @property
    def total(self) -> int:
        """Number of rows dropped for any reason."""
        return self.not_finite + self.zero_quaternion + self.bad_scale


class Rows(NamedTuple):
    """Activated but unchecked columns of some file rows, shapes as in `Gaussians`.

    All float32 but quats, which may be float64 and of any length.
    """

    means: NDArray
    quats: NDArray
    scales: NDArray
    opacities: NDArray
    sh: NDArray

    def put(self, out: Rows, first: int) -> tuple[IntArray, IntArray]:
        """Write the usable rows to `out` from row `first` on: unit quaternions, clipped opacities.

        Returns the usable rows' numbers, and how many are not: not finite, unturned, unsized.
        """
        n = len(self.means)
        finite = np.ones(n, dtype=bool)
        for column in self:
            # one sum says whether there is anything to look for
            with np.errstate(invalid="ignore", over="ignore"):
                suspicious = not np.isfinite(column.sum())
            if suspicious:
                finite &= np.isfinite(column).reshape(n, math.prod(column.shape[1:])).all(axis=1)
        with np.errstate(invalid="ignore", over="ignore"):
            # float64, so that a quaternion as long as 1e20 keeps a finite norm
            quats = self.quats.astype(np.float64)
            norms = np.sqrt(np.einsum("ij,ij->i", quats, quats))
            turned = norms > 1e-12
            sized = (self.scales > 0).all(axis=1)
        usable = finite & turned & sized
        why = [~finite, finite & ~turned, finite & turned & ~sized]
        kept = np.flatnonzero(usable)
        index = slice(None) if len(kept) == n else kept
        target = slice(first, first + len(kept))
        for name in ("means", "scales", "sh"):
            getattr(out, name)[target] = getattr(self, name)[index]
        np.divide(quats[index], norms[index, None], out=out.quats[target], casting="same_kind")
        np.clip(self.opacities[index], 0.0, 1.0, out=out.opacities[target])
        return kept, np.array([w.sum() for w in why], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Gaussians:
    """N anisotropic 3D Gaussians, activated (no logs, no logits), float32, C-contiguous.

    means: (N, 3) centres in world units.
    quats: (N, 4) unit quaternions, wxyz, world_from_gaussian.
    scales: (N, 3) standard deviations along the Gaussian's own axes, linear, > 0.
    opacities: (N,) in [0, 1].
    sh: (N, K, 3) RGB spherical harmonics, K = (degree + 1)^2, degree 0-3, 3DGS's basis and order.

    Arrays are made read-only. Build from untrusted rows with `Gaussians.validated`.
    """

    means: FloatArray
    quats: FloatArray
    scales: FloatArray
    opacities: FloatArray
    sh: FloatArray

    def __post_init__(self) -> None:
        n = len(self.means)
        wanted = {"means": (n, 3), "quats": (n, 4), "scales": (n, 3), "opacities": (n,)}
        for name in ("means", "quats", "scales", "opacities", "sh"):
            array = np.ascontiguousarray(getattr(self, name), dtype=np.float32)
            if name in wanted and array.shape != wanted[name]:
                raise ValueError(f"{name}: wanted shape {wanted[name]}, found {array.shape}")
            array = array.view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if (
            self.sh.ndim != 3
            or self.sh.shape[0] != n
            or self.sh.shape[2] != 3
            or self.sh.shape[1] not in (1, 4, 9, 16)
        ):
            raise ValueError(f"sh: wanted shape ({n}, 1|4|9|16, 3), found {self.sh.shape}")

    @classmethod
    def validated(
        cls,
        means: ArrayLike,
        quats: ArrayLike,
        scales: ArrayLike,
        opacities: ArrayLike,
        sh: ArrayLike,
    ) -> tuple[Gaussians, DropReport]:
        """Normalise quaternions; drop and count unusable rows (NaN, inf, zero norms, scales <= 0).

        Opacities are clipped to [0, 1]. Raises InputError when no usable row is left.
        """
        plain = [np.asarray(c, dtype=np.float32) for c in (means, scales, opacities, sh)]
        block = Rows(plain[0], np.asarray(quats, dtype=np.float64), *plain[1:])
        return cls.gathered(len(block.means), block.sh.shape[1], [block])

    @classmethod
    def gathered(
        cls, rows: int, coefficients: int, blocks: Iterable[Rows]
    ) -> tuple[Gaussians, DropReport]:
        """`validated` for scenes that are read in blocks: never more than one block is held twice.

        rows: of all blocks together. coefficients: K of their `sh`.
        """
        out = Rows(
            np.empty((rows, 3), np.float32),
            np.empty((rows, 4), np.float32),
            np.empty((rows, 3), np.float32),
            np.empty(rows, np.float32),
            np.empty((rows, coefficients, 3), np.float32),
        )
        reasons = np.zeros(3, dtype=np.int64)
        kept: list[IntArray] = []
        read = written = 0
        for block in blocks:
            usable, unusable = block.put(out, written)
            reasons += unusable
            kept.append(read + usable)
            read += len(block.means)
            written += len(usable)
        not_finite, zero_quaternion, bad_scale = reasons.tolist()
        if written == 0:
            raise InputError(
                f"no usable Gaussian: of {read} rows, {not_finite} hold NaN or infinity and the "
                f"rest a zero quaternion or scale; export the scene again"
            )
        report = DropReport(np.concatenate(kept), not_finite, zero_quaternion, bad_scale)
        return cls(*(column[:written] for column in out)), report

    def __len__(self) -> int:
        return len(self.means)

    @property
    def sh_degree(self) -> int:
        """Spherical-harmonic degree, 0 to 3."""
        return {1: 0, 4: 1, 9: 2, 16: 3}[self.sh.shape[1]]

    @property
    def base_colors(self) -> FloatArray:
        """(N, 3) view-independent sRGB color 0.5 + SH_C0 * dc, unclipped."""
        return self.sh[:, 0] * np.float32(SH_C0) + np.float32(0.5)

    def rotations(self) -> FloatArray:
        """(N, 3, 3) rotation matrices world_from_gaussian."""
        return quaternions_to_matrices(self.quats)

    def select(self, index: NDArray[np.int64] | NDArray[np.bool_]) -> Gaussians:
        """The Gaussians at `index` (integers or a boolean mask), in that order."""
        return Gaussians(
            self.means[index],
            self.quats[index],
            self.scales[index],
            self.opacities[index],
            self.sh[index],
        )

    @staticmethod
    def concatenate(parts: Sequence[Gaussians]) -> Gaussians:
        """Join scenes in order; lower SH degrees are padded with zeros to the highest."""
        k = max(part.sh.shape[1] for part in parts)
        sh = [np.pad(part.sh, ((0, 0), (0, k - part.sh.shape[1]), (0, 0))) for part in parts]
        return Gaussians(
            np.concatenate([part.means for part in parts]),
            np.concatenate([part.quats for part in parts]),
            np.concatenate([part.scales for part in parts]),
            np.concatenate([part.opacities for part in parts]),
            np.concatenate(sh),
        )


def quaternions_to_matrices(quats: NDArray[np.float32]) -> FloatArray:
    """(..., 4) unit quaternions wxyz to (..., 3, 3) rotation matrices."""
    w, x, y, z = np.moveaxis(np.asarray(quats), -1, 0)
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return np.stack(rows, axis=-1).reshape(*w.shape, 3, 3)


def matrices_to_quaternions(matrices: ArrayLike) -> FloatArray:
    """(N, 3, 3) rotation matrices to (N, 4) unit quaternions wxyz with w >= 0."""
    from scipy.spatial.transform import Rotation

    xyzw = Rotation.from_matrix(np.asarray(matrices, dtype=np.float64)).as_quat(canonical=True)
    return np.ascontiguousarray(xyzw[:, [3, 0, 1, 2]], dtype=np.float32)
