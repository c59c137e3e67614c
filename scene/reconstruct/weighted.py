"""The photometric loss where not every pixel counts: what does not count is made to agree.

Before it is compared, a picture is drawn towards its photo by 1 - weight. The absolute difference
is then multiplied by the weight exactly, and SSIM's windows that reach over a mask's edge see the
photo itself there, so that nothing behind a mask pulls at what stands beside it.
"""

from __future__ import annotations

import numpy as np

from scene.reconstruct.losses import FloatArray, LossValue, PhotometricLoss


def agreeing(picture: FloatArray, photo: FloatArray, weight: FloatArray) -> FloatArray:
    """(3, H, W): the picture where weight (H, W) is 1, the photo where it is 0."""
    return np.ascontiguousarray(photo + weight * (picture[:3] - photo))


def weighted_loss(
    loss: PhotometricLoss, picture: FloatArray, photo: FloatArray, weight: FloatArray | None
) -> tuple[LossValue, FloatArray]:
    """Loss and dL/dpicture (3, H, W), means over all pixels; weight None: every pixel fully."""
    if weight is None:
        return loss(picture, photo)
    value, gradient = loss(agreeing(picture, photo, weight), photo)
    np.multiply(gradient, weight, out=gradient)
    return value, gradient
