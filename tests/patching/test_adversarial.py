from __future__ import annotations

import numpy as np
import pytest

from patching.adversarial import AdversarialScene
from patching.anchor import Anchor
from patching.edit import GaussianEdit, no_gaussians
from patching.placement import Placement
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.scene import Scene


@pytest.fixture
def scene(wall: Gaussians) -> Scene:
    return Scene(wall, "wall")


@pytest.fixture
def adversarial(scene: Scene, placed: Placement) -> AdversarialScene:
    rng = np.random.default_rng(1)
    image = rng.random((120, 160, 3)).astype(np.float32)
    mask = np.zeros((120, 160), bool)
    mask[40:60, 70:99] = True
    anchor = Anchor(
        placed.camera, image, mask, image * 0.5, placed.surface, placed, None, (0.1, 0.2, 0.3)
    )
    edits = {
        kind: GaussianEdit(
            np.array([i]), np.array([0.5]), np.full((1, 3), float(i)), no_gaussians(),
            len(scene.gaussians),
        )
        for i, kind in enumerate(("gray", "adversarial"))
    }  # fmt: skip
    return AdversarialScene(scene, anchor, edits, {"gray": {"iterations": 3}})


def test_clean_is_the_shared_base(adversarial: AdversarialScene, wall: Gaussians) -> None:
    assert adversarial.gaussians("clean") is wall
    assert adversarial.kinds == ("clean", "gray", "adversarial")
    assert adversarial.gaussians("adversarial").sh[1, 0, 0] == 1.0
    with pytest.raises(InputError, match="'noise'"):
        adversarial.gaussians("noise")


def test_folder_round_trip(adversarial: AdversarialScene, scene: Scene, tmp_path) -> None:  # type: ignore[no-untyped-def]
    adversarial.save(tmp_path / "run")
    again = AdversarialScene.load(tmp_path / "run", scene)
    assert again.kinds == adversarial.kinds and again.reports["gray"] == {"iterations": 3}
    np.testing.assert_allclose(again.anchor.image, adversarial.anchor.image, atol=0.5 / 255 + 1e-6)
    np.testing.assert_array_equal(again.anchor.mask, adversarial.anchor.mask)
    assert again.anchor.background == (0.1, 0.2, 0.3)
    assert again.anchor.placement is not None
    np.testing.assert_array_equal(
        again.anchor.placement.corners(), adversarial.anchor.placement.corners()
    )
    for kind in ("gray", "adversarial"):
        np.testing.assert_array_equal(again.gaussians(kind).sh, adversarial.gaussians(kind).sh)
    assert not list((tmp_path / "run").glob("*.part"))


def test_more_kinds_can_be_added(adversarial: AdversarialScene) -> None:
    more = adversarial.with_edit("noise", adversarial.edits["gray"], {"iterations": 1})
    assert more.kinds == ("clean", "gray", "adversarial", "noise")
    assert "noise" not in adversarial.edits


def test_unfinished_or_foreign_folder_is_refused(adversarial, scene, tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match="found none"):
        AdversarialScene.load(tmp_path, scene)
    (tmp_path / "adversarial.json").write_text("{}")
    with pytest.raises(InputError, match="other content"):
        AdversarialScene.load(tmp_path, scene)
    adversarial.save(tmp_path / "run")
    (tmp_path / "run" / "gray.safetensors").unlink()
    with pytest.raises(InputError, match="no such edit"):
        AdversarialScene.load(tmp_path / "run", scene)
