"""Surfaces as JSON fields, for placement and anchor files."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError
from scene.surface import HeightField, Plane, Surface


def surface_to_dict(surface: Surface) -> dict[str, Any]:
    """The JSON fields of a plane or a height field."""
    if isinstance(surface, Plane):
        return {"kind": "plane", **_plane_fields(surface)}
    if isinstance(surface, HeightField):
        return {
            "kind": "height field",
            "plane": _plane_fields(surface.plane),
            "axes": surface.axes.tolist(),
            "low": surface.low.tolist(),
            "extent": surface.extent.tolist(),
            "coefficients": surface.coefficients.tolist(),
        }
    raise TypeError(f"no JSON form for a surface of type {type(surface).__name__}")


def surface_from_dict(fields: Any, source: str) -> Surface:
    """Inverse of `surface_to_dict`; InputError, which starts with `source`, says what is wrong."""
    kind = fields.get("kind") if isinstance(fields, dict) else None
    try:
        if kind == "plane":
            return _plane(fields)
        if kind == "height field":
            coefficients = np.asarray(fields["coefficients"], dtype=np.float64)
            if coefficients.ndim != 2 or not np.isfinite(coefficients).all():
                raise ValueError("coefficients: wanted a table of finite numbers")
            return HeightField(
                _plane(fields["plane"]),
                _numbers(fields["axes"], (2, 3), "axes"),
                _numbers(fields["low"], (2,), "low"),
                _numbers(fields["extent"], (2,), "extent"),
                coefficients,
            )
    except (KeyError, TypeError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise InputError(f"{source}: surface: {what}") from error
    raise InputError(f'{source}: surface kind: wanted "plane" or "height field", found {kind!r}')


def _plane_fields(plane: Plane) -> dict[str, Any]:
    return {"point": plane.point.tolist(), "normal": plane.normal.tolist()}


def _plane(fields: Any) -> Plane:
    return Plane(
        _numbers(fields["point"], (3,), "point"), _numbers(fields["normal"], (3,), "normal")
    )


def _numbers(value: Any, shape: tuple[int, ...], name: str) -> NDArray[np.float64]:
    array = np.asarray(value, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        raise ValueError(f"{name}: wanted {shape} finite numbers, found shape {array.shape}")
    return array
