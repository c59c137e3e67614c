"""Surfaces in a scene: depth to points, planes, height fields, and what lies under a click.

Owns geometry read off renders and Gaussians; knows nothing of patches.
"""

from scene.surface.depth import depth_cluster, depth_quantile, incidence_deg, unproject
from scene.surface.fit import SurfaceFit, fit_masked_surface, fit_surface
from scene.surface.heightfield import HeightField
from scene.surface.pick import SurfaceHit, pick, pick_along_ray
from scene.surface.plane import Plane, PlaneFit, Surface, fit_plane

__all__ = [
    "HeightField",
    "Plane",
    "PlaneFit",
    "Surface",
    "SurfaceFit",
    "SurfaceHit",
    "depth_cluster",
    "depth_quantile",
    "fit_masked_surface",
    "fit_plane",
    "fit_surface",
    "incidence_deg",
    "pick",
    "pick_along_ray",
    "unproject",
]
