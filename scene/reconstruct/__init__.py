"""Posed photos to Gaussians: start points, densification, losses, the training loop.

Owns everything between a `Capture` and a finished `Gaussians`; reads no capture format, writes no
scene file. `train.reconstruct` is the way in. Import it lazily: it brings in Numba.
"""
