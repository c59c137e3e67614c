"""Rounded rotations are made exact, other matrices are told apart."""

from __future__ import annotations

import numpy as np
import pytest

from scene.captures.rotation import nearest_rotation

ABOUT_Z = np.array([[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, 1.0]])


def test_a_rounded_rotation_becomes_exact_and_hardly_moves():
    rounded = ABOUT_Z + np.random.default_rng(0).uniform(-5e-4, 5e-4, (3, 3))
    found = nearest_rotation(rounded)
    assert found is not None
    np.testing.assert_allclose(found @ found.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(found, ABOUT_Z, atol=1e-3)


@pytest.mark.parametrize(
    "change", [np.diag([1, 1, -1]), np.diag([1, 1, 1.1]), 1.1 * np.eye(3), np.zeros((3, 3))]
)
def test_mirrors_and_stretches_are_none(change):
    assert nearest_rotation(ABOUT_Z @ change) is None
