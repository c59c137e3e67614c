"""3DGS's real spherical harmonics up to degree 3, and their slopes along the view direction."""

from __future__ import annotations

import numpy as np

from scene.render.cpu.cache import helper

MOST_COEFFICIENTS = 16

_f = np.float32
_C0 = _f(0.28209479177387814)
_C1 = _f(0.4886025119029199)
_C2 = _f(1.0925484305920792)
_C2_POLE = _f(0.9461746957575601)
_C2_POLE_SHIFT = _f(0.31539156525252005)
_C2_EDGE = _f(0.5462742152960396)
_C3 = _f(0.5900435899266435)
_C3_MIXED = _f(2.890611442640554)
_C3_RING = _f(2.285228997322329)
_C3_RING_SHIFT = _f(0.4570457994644658)
_C3_POLE = _f(1.865881662950577)
_C3_POLE_SHIFT = _f(1.1195289977703462)
_C3_EDGE = _f(1.445305721320277)
_TWO, _THREE, _SIX = _f(2), _f(3), _f(6)


@helper
def harmonics(x, y, z, coefficients, basis):  # type: ignore[no-untyped-def]
    """The first 1, 4, 9 or 16 basis functions at a unit direction, to basis (16,)."""
    basis[0] = _C0
    if coefficients >= 4:
        basis[1] = -_C1 * y
        basis[2] = _C1 * z
        basis[3] = -_C1 * x
    if coefficients >= 9:
        basis[4] = _C2 * x * y
        basis[5] = -_C2 * y * z
        basis[6] = _C2_POLE * z * z - _C2_POLE_SHIFT
        basis[7] = -_C2 * x * z
        basis[8] = _C2_EDGE * (x * x - y * y)
    if coefficients >= 16:
        ring = _C3_RING_SHIFT - _C3_RING * z * z
        basis[9] = -_C3 * y * (_THREE * x * x - y * y)
        basis[10] = _C3_MIXED * x * y * z
        basis[11] = ring * y
        basis[12] = z * (_C3_POLE * z * z - _C3_POLE_SHIFT)
        basis[13] = ring * x
        basis[14] = _C3_EDGE * z * (x * x - y * y)
        basis[15] = -_C3 * x * (x * x - _THREE * y * y)


@helper
def harmonics_slopes(x, y, z, coefficients, slopes):  # type: ignore[no-untyped-def]
    """Derivatives by x, y, z of the polynomials in `harmonics`, to slopes (16, 3).

    Only their part tangential to the sphere means anything; the caller projects.
    """
    for k in range(coefficients):
        for axis in range(3):
            slopes[k, axis] = _f(0)
    if coefficients >= 4:
        slopes[1, 1] = -_C1
        slopes[2, 2] = _C1
        slopes[3, 0] = -_C1
    if coefficients >= 9:
        slopes[4, 0], slopes[4, 1] = _C2 * y, _C2 * x
        slopes[5, 1], slopes[5, 2] = -_C2 * z, -_C2 * y
        slopes[6, 2] = _TWO * _C2_POLE * z
        slopes[7, 0], slopes[7, 2] = -_C2 * z, -_C2 * x
        slopes[8, 0], slopes[8, 1] = _TWO * _C2_EDGE * x, -_TWO * _C2_EDGE * y
    if coefficients >= 16:
        ring = _C3_RING_SHIFT - _C3_RING * z * z
        ring_slope = -_TWO * _C3_RING * z
        slopes[9, 0] = -_SIX * _C3 * x * y
        slopes[9, 1] = -_THREE * _C3 * (x * x - y * y)
        slopes[10, 0], slopes[10, 1] = _C3_MIXED * y * z, _C3_MIXED * x * z
        slopes[10, 2] = _C3_MIXED * x * y
        slopes[11, 1], slopes[11, 2] = ring, ring_slope * y
        slopes[12, 2] = _THREE * _C3_POLE * z * z - _C3_POLE_SHIFT
        slopes[13, 0], slopes[13, 2] = ring, ring_slope * x
        slopes[14, 0], slopes[14, 1] = _TWO * _C3_EDGE * x * z, -_TWO * _C3_EDGE * y * z
        slopes[14, 2] = _C3_EDGE * (x * x - y * y)
        slopes[15, 0] = -_THREE * _C3 * (x * x - y * y)
        slopes[15, 1] = _SIX * _C3 * x * y
