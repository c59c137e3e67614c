"""Boxes and tiles: drawn where they are said to be, in the colors of the legend."""

from __future__ import annotations

import numpy as np
import pytest

from app.draw import PAPER, Mark, as_pixels, fitted, marked, on_checkers, tiled

GRAY = np.full((48, 64, 3), 100, np.uint8)


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_a_box_is_drawn_at_its_pixels(scale):
    picture = marked(GRAY, [Mark((10, 20, 40, 30), (255, 0, 0))], scale)
    assert picture.shape == (48 * scale, 64 * scale, 3)
    red = (picture == (255, 0, 0)).all(axis=2)
    rows, columns = np.nonzero(red)
    assert columns.min() == 10 * scale and columns.max() == 40 * scale
    assert rows.min() == 20 * scale and rows.max() == 30 * scale
    assert not red[int(25 * scale), int(25 * scale)]


def test_boxes_outside_the_picture_are_cut_and_backward_ones_drawn():
    picture = marked(GRAY, [Mark((-50, -50, 500, 500), (255, 0, 0), "x")])
    assert (picture[0, 32] == (255, 0, 0)).all()
    marked(
        GRAY,
        [Mark((40, 30, 10, 20), (0, 255, 0), dashed=True), Mark((70, 70, 90, 90), (0, 0, 255))],
    )


def test_a_dashed_edge_has_gaps():
    picture = marked(
        np.full((200, 200, 3), 100, np.uint8), [Mark((20, 20, 180, 180), (255, 0, 0), dashed=True)]
    )
    row = (picture[20, 20:180] == (255, 0, 0)).all(axis=1)
    assert 0.3 < row.mean() < 0.9


def test_floats_become_bytes_rounded_and_clipped():
    assert as_pixels(np.array([[[0.0, 0.5, 1.7]]])).tolist() == [[[0, 128, 255]]]
    assert as_pixels(GRAY) is GRAY


def test_fitting_keeps_the_aspect_and_centers():
    picture, factor = fitted(np.full((10, 20, 3), 200, np.uint8), 100, 100)
    assert factor == 5 and picture.shape == (100, 100, 3)
    assert (picture[50, 50] == 200).all() and (picture[10, 50] == PAPER).all()


def test_tiles_stand_two_by_two_with_their_captions_inside():
    tiles = [(str(i), np.full((90, 120, 3), 50 * i, np.uint8)) for i in range(4)]
    sheet = tiled(tiles, gap=8)
    assert sheet.shape == (188, 248, 3)
    for index in range(4):
        y, x = index // 2 * 98, index % 2 * 128
        assert (sheet[y + 80, x + 100] == 50 * index).all()
        assert (sheet[y, x] == PAPER).all()
    assert (sheet[94, 10] == PAPER).all() and (sheet[10, 124] == PAPER).all()


def test_transparent_patches_show_the_board():
    rgba = np.zeros((16, 16, 4), np.float32)
    rgba[:8] = (1, 0, 0, 1)
    picture = on_checkers(rgba, 16)
    assert (picture[2, 8] == (255, 0, 0)).all()
    assert len(np.unique(picture[12:15].reshape(-1, 3), axis=0)) >= 2
