"""What a camera does to a scene: light, exposure, white balance, blur, noise, JPEG."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from envelope.victims.demo.textures import FloatArray, fractal_noise


def photographed(
    rng: np.random.Generator, scene: FloatArray, strength: float = 1.0
) -> NDArray[np.uint8]:
    """(H, W, 3) float 0..255 -> uint8 photograph of it; strength 0..1 scales how often."""
    picture = _lit(rng, scene, strength)
    picture = _exposed(rng, picture)
    image = Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8))
    image = _blurred(rng, image, strength)
    if rng.random() < 0.5 * strength:
        noise = rng.standard_normal(picture.shape, dtype=np.float32) * float(rng.uniform(1, 11))
        if rng.random() < 0.4:  # color noise of a demosaiced sensor is smooth over a few pixels
            noise = (noise + np.roll(noise, 1, 0) + np.roll(noise, 1, 1)) * 0.7
        noisy = np.asarray(image, np.float32) + noise
        image = Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))
    if rng.random() < 0.45 * strength:
        image = _jpeg(image, int(rng.integers(18, 96)))
    return np.asarray(image)


def _lit(rng: np.random.Generator, picture: FloatArray, strength: float) -> FloatArray:
    height, width = picture.shape[:2]
    if rng.random() < 0.35 * strength:
        light = 0.6 + 0.8 * fractal_noise(rng, height, width, 2, 2)
        picture = picture * light[..., None]
    if rng.random() < 0.3 * strength:  # vignetting
        rows = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
        columns = np.linspace(-1, 1, width, dtype=np.float32)[None, :]
        picture = picture * (1 - rng.uniform(0.1, 0.5) * (rows**2 + columns**2) / 2)[..., None]
    if rng.random() < 0.15 * strength:  # haze
        haze = rng.uniform(0.1, 0.45)
        picture = picture * (1 - haze) + haze * rng.uniform(120, 230)
    return picture


def _exposed(rng: np.random.Generator, picture: FloatArray) -> FloatArray:
    gamma = float(np.exp(rng.normal(0, 0.2)))
    gain = float(np.exp(rng.normal(0, 0.18)))
    if rng.random() < 0.15:  # dusk, or a sign against the light
        gain *= float(rng.uniform(0.35, 0.7))
    balance = (1 + rng.normal(0, 0.06, 3)).astype(np.float32)
    picture = 255 * np.clip(picture / 255, 0, 1.5) ** gamma * gain * balance
    gray = picture.mean(axis=-1, keepdims=True)
    picture = gray + (picture - gray) * float(rng.uniform(0.65, 1.3))
    return (picture - 128) * float(rng.uniform(0.8, 1.15)) + 128


def _blurred(rng: np.random.Generator, image: Image.Image, strength: float) -> Image.Image:
    chance = rng.random()
    if chance < 0.3 * strength:
        return image.filter(ImageFilter.GaussianBlur(float(rng.uniform(0.3, 1.6))))
    if chance < 0.45 * strength:  # a lower resolution, enlarged again
        factor = float(rng.uniform(1.2, 2.6))
        small = (max(8, int(image.width / factor)), max(8, int(image.height / factor)))
        return image.resize(small, Image.Resampling.BOX).resize(
            image.size, Image.Resampling.BILINEAR
        )
    if chance < 0.53 * strength:  # motion along the rows
        pixels = np.asarray(image, np.float32)
        steps = int(rng.integers(2, 6))
        moved = sum(np.roll(pixels, shift, axis=1) for shift in range(steps))
        return Image.fromarray(np.clip(moved / steps, 0, 255).astype(np.uint8))
    if chance < 0.6 * strength:
        return image.filter(ImageFilter.UnsharpMask(2, int(rng.integers(50, 200)), 2))
    return image


def _jpeg(image: Image.Image, quality: int) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    buffer.seek(0)
    return Image.open(buffer).convert("RGB")
