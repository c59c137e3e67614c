"""Point clouds: colors in the units that files have."""

from __future__ import annotations

import numpy as np
import pytest

from scene.io.points import load_points


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("uchar", "51 102 255"),
        ("float", "0.2 0.4 1"),
        ("float", "51 102 255"),
        ("double", "51 102 255"),
    ],
)
def test_colors_are_brought_to_one(tmp_path, kind, values):
    path = tmp_path / "cloud.ply"
    names = ("red", "green", "blue")
    path.write_text("\n".join([
        "ply", "format ascii 1.0", "element vertex 2",
        *(f"property float {n}" for n in "xyz"), *(f"property {kind} {n}" for n in names),
        "end_header", f"1 2 3 {values}", "4 5 nan 0 0 0", "",
    ]))  # fmt: skip
    cloud = load_points(path)
    points, colors = cloud.points, cloud.colors
    np.testing.assert_array_equal(points, [[1, 2, 3]])
    assert cloud.notes == ("1 of 2 points hold NaN or infinity and are left out",)
    assert colors is not None
    np.testing.assert_allclose(colors, [[0.2, 0.4, 1]], atol=1e-6)
