"""The texture kernel gives SciPy's bits."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import map_coordinates

from patching.texture_kernel import paste_texture, sample_texture


def test_samples_equal_map_coordinates():
    rng = np.random.default_rng(0)
    for height, width in ((17, 31), (1, 5), (160, 90)):
        texture = rng.random((height, width, 4), dtype=np.float32)
        rows = rng.uniform(-0.6, height - 0.4, 5000)  # half a texel beyond every edge too
        columns = rng.uniform(-0.6, width - 0.4, 5000)
        rows[:3], columns[:3] = (0, height - 1, height - 0.5), (width - 1, 0, width - 0.5)
        samples = np.empty((5000, 4), np.float32)
        sample_texture(texture, rows, columns, samples)
        for channel in range(4):
            wanted = map_coordinates(
                texture[..., channel], [rows, columns], order=1, mode="nearest"
            )
            np.testing.assert_array_equal(samples[:, channel], wanted)


def test_pasted_pixels_are_the_means_of_their_samples():
    rng = np.random.default_rng(1)
    texture = rng.random((7, 5, 4), dtype=np.float32)
    texture[..., :3] *= texture[..., 3:]
    before = rng.random((9, 12, 3), dtype=np.float32)
    picture, turn = before.copy(), (np.cos(0.4), np.sin(0.4))
    x, y = (np.arange(36) + 0.5) / 3 - 5.2, (np.arange(27) + 0.5) / 3 - 4.1
    paste_texture(texture, picture, x, y, turn, (6.0, 4.0), 3)
    dx, dy = np.meshgrid(x, y)
    u = (turn[0] * dx + turn[1] * dy) / 6 + 0.5
    v = (turn[0] * dy - turn[1] * dx) / 4 + 0.5
    inside = (u >= 0) & (u <= 1) & (v >= 0) & (v <= 1)
    samples = np.stack(
        [
            map_coordinates(texture[..., c], [v * 7 - 0.5, u * 5 - 0.5], order=1, mode="nearest")
            for c in range(4)
        ],
        axis=-1,
    )  # fmt: skip
    pooled = (samples * inside[..., None]).reshape(9, 3, 12, 3, 4).mean(axis=(1, 3))
    wanted = pooled[..., :3] + (1 - pooled[..., 3:]) * before
    np.testing.assert_allclose(picture, wanted, atol=1e-6)
    untouched = ~inside.reshape(9, 3, 12, 3).any(axis=(1, 3))
    assert 20 < untouched.sum() < 90
    np.testing.assert_array_equal(picture[untouched], before[untouched])
