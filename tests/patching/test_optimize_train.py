from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from patching.optimize.eot import Background, Box
from patching.optimize.losses import regularizers, targeted_margin, untargeted_margin
from patching.optimize.paste import centered_square
from patching.optimize.settings import EotSettings, MakeSettings, PatchWeights
from patching.optimize.train import make_patch, mean_loss
from patching.patch import load_patch, save_patch
from patching.printing import non_printability, printable_colors, total_variation
from scene.errors import InputError

BOX = (8.0, 6.0, 40.0, 34.0)


def backgrounds(count: int, start: int = 0) -> list[Background]:
    """Noise pictures, 40 x 48, with a square patch of 14 px in the middle of a box."""
    pictures = (np.random.default_rng(start + n).random((3, 40, 48)) for n in range(count))
    return [
        Background(
            torch.from_numpy(picture.astype(np.float32)),
            centered_square(BOX, 0.5),
            BOX,
            name=f"view {start + n}",
        )
        for n, picture in enumerate(pictures)
    ]


def redness(images: torch.Tensor, boxes: Sequence[Box | None]) -> torch.Tensor:
    """A victim that sees its class where the patch's place is red rather than green."""
    inside = images[:, :, 14:26, 18:30]
    return (inside[:, 0] - inside[:, 1]).mean(dim=(1, 2)) + 1


SETTINGS = MakeSettings(
    size_px=16, steps=30, restarts=2, rate=0.4, check_every=5,
    eot=EotSettings.of("weak", ("geometry", "blur")), weights=PatchWeights(0.0, 0.0, 0.0),
)  # fmt: skip


def test_a_toy_victim_is_driven_down() -> None:
    views = backgrounds(6)
    aside = backgrounds(4, start=50)
    gray = torch.full((3, 16, 16), 0.5)
    patch = make_patch(redness, views, SETTINGS, aside=aside)
    rgb = torch.from_numpy(patch.rgb.transpose(2, 0, 1).copy())
    before, after = mean_loss(redness, gray, aside), mean_loss(redness, rgb, aside)
    assert before == pytest.approx(1, abs=0.03)  # gray: red = green
    assert after < 0.25
    middle = patch.rgb[4:12, 4:12].mean(axis=(0, 1))
    assert middle[0] < 0.15 and middle[1] > 0.85
    # blue moves nobody: it stays about its start
    assert 0.35 < middle[2] < 0.65


def test_provenance_says_what_was_done(tmp_path) -> None:  # type: ignore[no-untyped-def]
    patch = make_patch(
        redness, backgrounds(3), SETTINGS, aside=backgrounds(2, start=50),
        about={"victim": "toy", "weights_hash": "ab12"}, name="demo",
    )  # fmt: skip
    about = patch.provenance
    assert about["victim"] == "toy" and about["settings"]["steps"] == 30
    assert about["views"] == ["view 0", "view 1", "view 2"]
    assert about["views_aside"] == ["view 50", "view 51"]
    losses = [restart["loss"] for restart in about["restarts"]]
    assert len(losses) == 2 and about["chosen_restart"] == int(np.argmin(losses))
    chosen = about["restarts"][about["chosen_restart"]]
    assert chosen["loss"] == min(value for _, value in chosen["looks"])
    # what was chosen is what the file holds
    save_patch(patch, tmp_path / "p.png")
    again = load_patch(tmp_path / "p.png")
    np.testing.assert_allclose(again.rgb, patch.rgb, atol=1e-6)
    rgb = torch.from_numpy(again.rgb.transpose(2, 0, 1).copy())
    assert mean_loss(redness, rgb, backgrounds(2, start=50)) == pytest.approx(chosen["loss"])
    assert json.loads((tmp_path / "p.json").read_text())["weights_hash"] == "ab12"


def test_same_seed_same_patch() -> None:
    short = MakeSettings(size_px=8, steps=4, restarts=1, eot=EotSettings.of("very strong"))
    first, again = (make_patch(redness, backgrounds(3), short).rgb for _ in range(2))
    np.testing.assert_array_equal(first, again)
    other = MakeSettings(size_px=8, steps=4, restarts=1, seed=1, eot=short.eot)
    assert not np.array_equal(first, make_patch(redness, backgrounds(3), other).rgb)


def test_a_patch_that_cannot_get_better_ends_early() -> None:
    def indifferent(images: torch.Tensor, boxes: Sequence[Box | None]) -> torch.Tensor:
        return 0.0 * images.mean(dim=(1, 2, 3)) + 1

    settings = MakeSettings(
        size_px=8, steps=100, restarts=1, check_every=5, patience=2, eot=EotSettings(views=1)
    )
    about = make_patch(indifferent, backgrounds(2), settings).provenance
    assert about["restarts"][0]["steps"] == 15


def test_stopping_keeps_the_best_so_far() -> None:
    seen: list[int] = []

    def stop_at_seven(step: int, total: int, terms: dict[str, float]) -> bool:
        seen.append(step)
        assert total == 60 and np.isfinite(terms["victim"])
        return step < 7

    patch = make_patch(redness, backgrounds(2), SETTINGS, stop_at_seven)
    assert seen == list(range(1, 8)) and patch.provenance["stopped_by_user"]
    assert patch.provenance["restarts"][0]["step"] == 5  # the last look


def test_a_stop_before_the_first_look_still_gives_a_patch() -> None:
    patch = make_patch(redness, backgrounds(2), SETTINGS, lambda *_: False)
    assert patch.rgb.shape == (16, 16, 3) and np.isfinite(patch.provenance["restarts"][0]["loss"])


def test_colors_themselves_stay_in_range() -> None:
    settings = MakeSettings(
        size_px=8, steps=30, restarts=1, rate=0.3, parameters="pixels", patience=60,
        eot=EotSettings(views=2), weights=PatchWeights(0.0, 0.0, 0.0),
    )  # fmt: skip
    patch = make_patch(redness, backgrounds(2), settings)
    assert patch.rgb.min() == 0 and patch.rgb.max() == 1


def test_the_loss_gets_the_boxes() -> None:
    got: list[Box | None] = []

    def boxed(images: torch.Tensor, boxes: Sequence[Box | None]) -> torch.Tensor:
        got.extend(boxes)
        return redness(images, boxes)

    make_patch(boxed, backgrounds(2), MakeSettings(size_px=8, steps=1, restarts=1,
                                                   eot=EotSettings.of("none")))  # fmt: skip
    assert got == [BOX] * 3  # one view of the step, two of the look


def test_no_or_unequal_backgrounds_are_refused() -> None:
    with pytest.raises(InputError, match="at least one"):
        make_patch(redness, [])
    mixed = [backgrounds(1)[0], backgrounds(1)[0].resized(20, 20)]
    with pytest.raises(ValueError, match="one size"):
        make_patch(redness, mixed)


def test_margins_by_hand() -> None:
    scores = torch.tensor([[2.0, 5.0, 1.0], [4.0, 1.0, 3.5]])
    # class 0: 2 - 5 and 4 - 3.5
    torch.testing.assert_close(untargeted_margin(scores, 0, 10), torch.tensor([-3.0, 0.5]))
    torch.testing.assert_close(untargeted_margin(scores, 0, 1), torch.tensor([-1.0, 0.5]))
    # target 2: 5 - 1 and 4 - 3.5
    torch.testing.assert_close(targeted_margin(scores, 2), torch.tensor([4.0, 0.5]))
    torch.testing.assert_close(targeted_margin(scores, 1, 2), torch.tensor([-2.0, 3.0]))


def test_regularizers_by_hand() -> None:
    rgb = torch.zeros(3, 2, 2)
    rgb[0] = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    # neighbours: red differs by 1 across, all else by 0: mean over 3 channels = 1/3
    assert float(total_variation(rgb)) == pytest.approx(1 / 3)
    colors = torch.tensor([[0.0, 0.0, 0.0], [0.7, 0.0, 0.0]])
    # half the pixels are black (distance 0), half red, 0.3 from the nearest
    assert float(non_printability(rgb, colors)) == pytest.approx(0.15, abs=1e-5)
    start = torch.zeros(3, 2, 2)
    # squares: 2 of 12 values are 1
    found = regularizers(rgb, start, colors, PatchWeights(2.0, 3.0, 5.0))
    assert float(found) == pytest.approx(2 * 0.15 + 3 / 3 + 5 * np.sqrt(2 / 12), abs=1e-4)


def test_regularizers_have_finite_gradients_at_the_start() -> None:
    rgb = torch.from_numpy(printable_colors()[:4].T.reshape(3, 2, 2).copy()).requires_grad_()
    colors = torch.from_numpy(printable_colors())
    regularizers(rgb, rgb.detach().clone(), colors, PatchWeights(1, 1, 1)).backward()
    assert rgb.grad is not None and torch.isfinite(rgb.grad).all()


def test_thirty_printable_colors() -> None:
    colors = printable_colors()
    assert colors.shape == (30, 3) and colors.min() > 0 and colors.max() < 1
    assert len(np.unique(colors.round(3), axis=0)) == 30
