"""The texture kernel gives SciPy's bits."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import map_coordinates

from patching.texture_kernel import sample_texture


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
