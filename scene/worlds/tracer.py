"""Ray queries against triangles: a thin, typed wrapper of embreex."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Hits:
    """First hits of n rays.

    triangle: (n,) int32, -1 where nothing was hit. distance: (n,) float32 metres along the (unit)
    ray. b1, b2: (n,) float32 barycentric weights of the triangle's second and third corner.
    """

    triangle: NDArray[np.int32]
    distance: FloatArray
    b1: FloatArray
    b2: FloatArray


class Tracer:
    """Triangles prepared for ray queries; all directions are unit vectors."""

    def __init__(self, vertices: NDArray[np.floating], faces: NDArray[np.integer]) -> None:
        rtcore_scene, mesh_construction = _embreex()
        self._scene = rtcore_scene.EmbreeScene()
        corners = np.ascontiguousarray(np.asarray(vertices, np.float32)[faces])
        mesh_construction.TriangleMesh(self._scene, corners)

    def nearest(self, origins: FloatArray, directions: FloatArray) -> Hits:
        """First hit of each ray; origins and directions are (n, 3)."""
        found = self._scene.run(
            np.ascontiguousarray(origins, np.float32),
            np.ascontiguousarray(directions, np.float32),
            query="INTERSECT",
            output=True,
        )
        triangle = np.where(found["geomID"] >= 0, found["primID"], -1).astype(np.int32)
        return Hits(triangle, found["tfar"], found["u"], found["v"])

    def blocked(self, origins: FloatArray, directions: FloatArray) -> NDArray[np.bool_]:
        """(n,) True where a ray hits anything at any distance."""
        found = self._scene.run(
            np.ascontiguousarray(origins, np.float32),
            np.ascontiguousarray(directions, np.float32),
            query="OCCLUDED",
        )
        blocked: NDArray[np.bool_] = found != -1
        return blocked


def _embreex() -> tuple[ModuleType, ModuleType]:
    try:
        from embreex import mesh_construction, rtcore_scene
    except ImportError as error:
        raise InputError(
            "ray-traced worlds need the package embreex, which is not installed: "
            'pip install "advscene-inspector[worlds]"'
        ) from error
    return rtcore_scene, mesh_construction
