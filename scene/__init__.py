"""Scenes: Gaussians, cameras, files, rendering, surfaces, targets, reconstruction, known worlds.

Owns everything about the place that was captured. Knows nothing of patches, victims or pages, and
may be imported by every other package.
"""
