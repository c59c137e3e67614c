"""Files of Gaussians: one reader per format, path -> Gaussians; two writers.

Owns formats and nothing else; cameras and photos are read by `scene.captures`.
"""

from scene.io.compressed_ply import save_compressed_ply
from scene.io.load import load_gaussians, save_gaussians
from scene.io.loaded import LoadedGaussians
from scene.io.ply import save_ply

__all__ = [
    "LoadedGaussians",
    "load_gaussians",
    "save_compressed_ply",
    "save_gaussians",
    "save_ply",
]
