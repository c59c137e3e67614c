"""All surfaces of a world in flat arrays, so that hits on any of them are shaded together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scene.worlds.surfaces import Surface
from scene.worlds.textures import TextureAtlas
from scene.worlds.tracer import Hits, Tracer

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Samples:
    """What is known at the hit points of n rays; zeros where nothing was hit.

    points: (n, 3). normals, flat_normals: (n, 3) smooth and geometric, on the side looked at.
    light: (n, 3) baked irradiance and glow. albedo: (n, 3) linear. footprint: (n,) metres across
    a sample. surface: (n,) index, -1 where nothing was hit.
    """

    points: FloatArray
    normals: FloatArray
    flat_normals: FloatArray
    light: FloatArray
    albedo: FloatArray
    footprint: FloatArray
    surface: IntArray


class MergedSurfaces:
    """Vertices, faces and materials of many surfaces.

    vertices: (V, 3). normals: (V, 3). faces: (F, 3). surface_of_face: (F,),
    surface_of_vertex: (V,) indices. gloss, glow: per surface. tracer: ray queries against all.
    """

    def __init__(self, surfaces: Sequence[Surface]) -> None:
        starts = np.cumsum([0] + [len(s.vertices) for s in surfaces[:-1]])
        faces = [s.faces + start for s, start in zip(surfaces, starts, strict=True)]
        self.vertices = np.concatenate([s.vertices for s in surfaces]).astype(np.float32)
        self.normals = np.concatenate([s.normals for s in surfaces]).astype(np.float32)
        self.faces = np.concatenate(faces).astype(np.int32)
        self.surface_of_face = np.repeat(
            np.arange(len(surfaces), dtype=np.int32), [len(f) for f in faces]
        )
        counts = [len(surface.vertices) for surface in surfaces]
        self.surface_of_vertex = np.repeat(np.arange(len(surfaces)), counts)
        self.gloss = np.array([s.material.gloss for s in surfaces], np.float32)
        self.glow = np.array([s.material.glow for s in surfaces], np.float32)
        self.tracer = Tracer(self.vertices, self.faces)
        self._uv = np.concatenate([s.uv for s in surfaces]).astype(np.float32)
        textures = {id(s.material.texture): s.material.texture for s in surfaces}
        order = {key: i for i, key in enumerate(textures)}
        self._atlas = TextureAtlas(list(textures.values()))
        self._texture = np.array([order[id(s.material.texture)] for s in surfaces], np.int32)
        self._tint = np.array([s.material.tint for s in surfaces], np.float32)
        self._density = np.array([_texels_per_metre(s) for s in surfaces], np.float32)
        corners = self.vertices[self.faces]
        flat = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        length = np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), np.float32(1e-20))
        self._flat_normals = (flat / length).astype(np.float32)
        self._mend_normals()

    def _mend_normals(self) -> None:
        """Give vertices without a usable normal (collapsed rows of a sheet) their faces' one."""
        bad = ~(np.linalg.norm(self.normals, axis=1) > 0.5)
        total = np.zeros((len(self.normals), 3))
        for corner in self.faces.T:
            np.add.at(total, corner, self._flat_normals)
        length = np.linalg.norm(total, axis=1, keepdims=True)
        total = np.where(length > 1e-9, total / np.maximum(length, 1e-9), (0.0, 0.0, 1.0))
        self.normals[bad] = total[bad]

    def mixed(self, per_vertex: FloatArray, hits: Hits, out: FloatArray) -> None:
        """Interpolate values (V, 3) at hits into out (n, 3); misses are left alone."""
        from scene.worlds.kernels import mixed_values

        mixed_values(
            np.ascontiguousarray(per_vertex, np.float32),
            self.faces, hits.triangle, hits.b1, hits.b2, out,
        )  # fmt: skip

    def samples(
        self,
        hits: Hits,
        origins: FloatArray,
        directions: FloatArray,
        spacing: float,
        dither: FloatArray,
        baked: FloatArray,
    ) -> Samples:
        """Look up all that is known at hit points; `baked` is (V, 3) irradiance."""
        from scene.worlds.kernels import surface_samples

        n, atlas = len(directions), self._atlas
        five = [np.zeros((n, 3), np.float32) for _ in range(5)]
        footprint, surface = np.zeros(n, np.float32), np.empty(n, np.int64)
        samples = Samples(five[0], five[1], five[2], five[3], five[4], footprint, surface)
        surface_samples(
            origins, directions, hits.triangle, hits.distance, hits.b1, hits.b2, dither, spacing,
            self.faces, self.surface_of_face, self._flat_normals, self.normals, self._uv, baked,
            self.glow, self._tint, self._density, self._texture,
            atlas.texels, atlas.start, atlas.width, atlas.height, atlas.levels,
            samples.points, samples.normals, samples.flat_normals, samples.light, samples.albedo,
            samples.footprint, samples.surface,
        )  # fmt: skip
        return samples

    def vertex_albedo(self, footprint: float) -> FloatArray:
        """(V, 3) linear reflectance at every vertex, blurred over `footprint` metres."""
        surface = self.surface_of_vertex
        texels = np.float32(footprint) * self._density[surface]
        color = self._atlas.sample(self._texture[surface], self._uv, texels)
        return self._tint[surface] * color

    def neighbour_means(self, per_vertex: FloatArray) -> FloatArray:
        """(V, k) means over each vertex's faces of the face's mean value."""
        face_means = per_vertex[self.faces].mean(axis=1)
        total = np.zeros_like(per_vertex, dtype=np.float64)
        counts = np.zeros(len(per_vertex))
        for corner in self.faces.T:
            counts += np.bincount(corner, minlength=len(per_vertex))
            for channel in range(per_vertex.shape[1]):
                total[:, channel] += np.bincount(
                    corner, weights=face_means[:, channel], minlength=len(per_vertex)
                )
        means: FloatArray = (total / np.maximum(counts, 1)[:, None]).astype(np.float32)
        return means


def _texels_per_metre(surface: Surface) -> float:
    """Density of the finest texels over the whole surface."""
    corners = surface.vertices[surface.faces]
    area = np.linalg.norm(
        np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
    ).sum()
    uv = surface.uv[surface.faces]
    side_a, side_b = uv[:, 1] - uv[:, 0], uv[:, 2] - uv[:, 0]
    uv_area = np.abs(side_a[:, 0] * side_b[:, 1] - side_a[:, 1] * side_b[:, 0]).sum()
    height, width = surface.material.texture.size
    return float(np.sqrt(uv_area * height * width / max(area, 1e-12)))
