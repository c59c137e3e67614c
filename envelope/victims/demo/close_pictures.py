"""Close-ups: pictures that one sign nearly fills, which chance alone seldom draws."""

from __future__ import annotations

import numpy as np

from envelope.victims.demo.pictures import Picture, PictureSettings, make_picture
from envelope.victims.demo.signs import CLASSES, STOP

_SIDE = 320


def close_picture(seed: int, index: int) -> Picture:
    """Picture number `index` of the close-ups `seed`; two thirds are stop signs."""
    rng = np.random.default_rng([seed, index, 5])
    class_index = STOP if rng.random() < 0.66 else int(rng.integers(1, len(CLASSES)))
    center = _SIDE * (0.5 + rng.normal(0, 0.03, 2))
    settings = PictureSettings(
        size=_SIDE,
        signs=1,
        class_index=class_index,
        height=_SIDE * float(rng.uniform(0.65, 1.02)),
        center=(float(center[0]), float(center[1])),
        yaw_deg=float(rng.normal(0, 18)),
        sticker=0.3,
    )
    return make_picture(seed, index, settings)
