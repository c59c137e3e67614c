"""The Gaussians value: validation, selection, rotation conventions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from scene.errors import InputError
from scene.gaussians import Gaussians, matrices_to_quaternions, quaternions_to_matrices


def rows(n: int, k: int = 1) -> dict[str, np.ndarray]:
    return {
        "means": np.arange(3.0 * n).reshape(n, 3), "quats": np.tile([1.0, 0, 0, 0], (n, 1)),
        "scales": np.ones((n, 3)), "opacities": np.full(n, 0.5), "sh": np.zeros((n, k, 3)),
    }  # fmt: skip


def test_validation_drops_counts_and_maps_rows():
    columns = rows(6)
    columns["means"][0, 1] = np.nan
    columns["sh"][1, 0, 2] = np.inf
    columns["quats"][2] = 0
    columns["scales"][3, 0] = 0
    columns["quats"][4] = [0, 0, 0, 3e20]
    columns["opacities"][5] = 1.5
    gaussians, report = Gaussians.validated(**columns)
    assert report.kept.tolist() == [4, 5]
    assert (report.not_finite, report.zero_quaternion, report.bad_scale, report.total) == (
        2,
        1,
        1,
        4,
    )
    np.testing.assert_allclose(gaussians.quats[0], [0, 0, 0, 1])
    assert gaussians.opacities[1] == 1
    with pytest.raises(InputError, match="no usable Gaussian"):
        Gaussians.validated(**{**rows(2), "scales": np.zeros((2, 3))})


def test_values_are_frozen_and_shapes_checked():
    gaussians = Gaussians(**rows(3))
    with pytest.raises(ValueError, match="read-only"):
        gaussians.means[0] = 0
    with pytest.raises(ValueError, match="quats: wanted shape"):
        Gaussians(**{**rows(3), "quats": np.ones((3, 3))})
    with pytest.raises(ValueError, match="sh: wanted shape"):
        Gaussians(**{**rows(3), "sh": np.zeros((3, 5, 3))})


@given(st.tuples(*[st.floats(-1, 1)] * 4).filter(lambda q: np.linalg.norm(q) > 0.1))
def test_quaternions_are_w_first(quat):
    quat = np.array(quat) / np.linalg.norm(quat)
    matrix = quaternions_to_matrices(quat)
    np.testing.assert_allclose(
        matrix, Rotation.from_quat(quat[[1, 2, 3, 0]]).as_matrix(), atol=1e-9
    )
    again = matrices_to_quaternions(matrix[None])[0]
    assert abs(again @ quat) == pytest.approx(1, abs=1e-6)
    assert again[0] >= 0


def test_select_and_concatenate_keep_order_and_pad_harmonics():
    a, b = Gaussians(**rows(3, 1)), Gaussians(**{**rows(2, 4), "sh": np.ones((2, 4, 3))})
    joined = Gaussians.concatenate([a, b])
    assert (len(joined), joined.sh_degree) == (5, 1)
    np.testing.assert_array_equal(joined.sh[:3, 1:], 0)
    np.testing.assert_array_equal(joined.sh[3:], 1)
    np.testing.assert_array_equal(joined.select(np.array([4, 0])).means, [b.means[1], a.means[0]])
