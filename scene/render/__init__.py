"""Drawing Gaussians: one API (`api`), three back ends (CPU kernels, CUDA by gsplat, reference).

Owns pictures, alpha and depth of Gaussians seen by a camera, and their gradients. Knows nothing of
patches, victims or files. Everything above imports it through `scene.render.api`.
"""
