"""PatchView: its picture is the renderer's, its gradients are those of the float64 reference."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from scene.camera import Camera
from scene.gaussians import SH_C0, Gaussians
from scene.render import reference
from scene.render.api import RenderSettings, make_renderer
from scene.render.patch_view import PatchView

BACKGROUND = (0.3, 0.6, 0.2)


def _gaussians(n: int, seed: int, low=(-1.2, -1.0, 2.0), high=(1.2, 1.0, 5.0)) -> Gaussians:
    rng = np.random.default_rng(seed)
    quats = rng.normal(size=(n, 4))
    return Gaussians(
        means=rng.uniform(low, high, (n, 3)),
        quats=quats / np.linalg.norm(quats, axis=1, keepdims=True),
        scales=np.exp(rng.normal(-2.3, 0.5, (n, 3))),
        opacities=np.clip(rng.beta(3, 1.5, n), 0.02, 0.98),
        sh=(rng.random((n, 1, 3)) - 0.5) / SH_C0,
    )


def _camera(width: int = 93, height: int = 77) -> Camera:
    # not square, principal point off centre, turned and moved
    pose = np.eye(4)
    a = 0.06
    pose[:3, :3] = [[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]]
    pose[:3, 3] = [0.05, 0.1, 0.02]
    K = np.array([[80.0, 0, 47.3], [0, 82.0, 36.1], [0, 0, 1]])
    return Camera(pose, K, width, height)


def _colors(gaussians: Gaussians) -> np.ndarray:
    return (0.5 + SH_C0 * gaussians.sh[:, 0]).astype(np.float32)


def _inputs(gaussians: Gaussians) -> list[torch.Tensor]:
    arrays = (gaussians.means, gaussians.scales, gaussians.opacities, _colors(gaussians))
    return [torch.tensor(np.array(a), requires_grad=True) for a in arrays]


def _together(first: Gaussians, second: Gaussians) -> Gaussians:
    names = ("means", "quats", "scales", "opacities", "sh")
    return Gaussians(*(np.concatenate([getattr(first, n), getattr(second, n)]) for n in names))


# the whole picture is touched; a patch in the middle; one that is cut by the picture's corner
@pytest.mark.parametrize(
    ("low", "high", "crop"),
    [
        ((-1.2, -1.0, 2.0), (1.2, 1.0, 5.0), (0, 77, 0, 93)),
        ((0.0, 0.0, 3.0), (0.1, 0.1, 3.1), None),
        ((1.3, 0.9, 3.0), (1.4, 1.0, 3.2), None),
    ],
)
@pytest.mark.parametrize("antialiased", [False, True])
def test_picture_is_the_renderers(low, high, crop, antialiased):
    static, editable = _gaussians(200, 1), _gaussians(40, 2, low, high)
    settings = RenderSettings(antialiased=antialiased)
    camera = _camera(120, 104) if crop is None else _camera()
    view = PatchView(static, camera, BACKGROUND, editable, margin_px=2, settings=settings)
    planes = view(*_inputs(editable)).detach().numpy()
    y0, y1, x0, x1 = view.crop
    if crop is not None:
        assert view.crop == crop
    else:
        assert (y1 - y0) * (x1 - x0) < 0.7 * camera.width * camera.height
    assert planes.shape == (4, y1 - y0, x1 - x0)
    full = make_renderer(_together(static, editable), "cpu", settings).render(camera, BACKGROUND)
    np.testing.assert_allclose(planes[:3], full.rgb[y0:y1, x0:x1].transpose(2, 0, 1), atol=5e-7)
    np.testing.assert_allclose(planes[3], full.alpha[y0:y1, x0:x1], atol=5e-7)
    # outside the crop the editable Gaussians change nothing
    alone = make_renderer(static, "cpu", settings).render(camera, BACKGROUND)
    changed = np.abs(full.rgb - alone.rgb).max(axis=2) > 1e-6
    changed[y0:y1, x0:x1] = False
    assert not changed.any()


@pytest.mark.parametrize("antialiased", [False, True])
def test_gradients_are_those_of_the_float64_reference(antialiased):
    static, editable = _gaussians(160, 1), _gaussians(100, 2)
    settings = RenderSettings(antialiased=antialiased)
    camera = _camera()
    view = PatchView(static, camera, BACKGROUND, editable, settings=settings)
    inputs = _inputs(editable)
    planes = view(*inputs)
    weights = torch.tensor(np.random.default_rng(5).normal(size=planes.shape), dtype=torch.float32)
    (planes * weights).sum().backward()

    exact = [t.detach().double().requires_grad_(True) for t in inputs]
    means, scales, opacities, colors = exact
    of_static = reference.SplatTensors.of(static)
    merged = reference.SplatTensors(
        means=torch.cat([of_static.means, means]),
        quats=torch.cat([of_static.quats, torch.tensor(np.array(editable.quats)).double()]),
        scales=torch.cat([of_static.scales, scales]),
        opacities=torch.cat([of_static.opacities, opacities]),
        sh=torch.cat([of_static.sh, ((colors - 0.5) / SH_C0)[:, None]]),
    )
    images = reference.render_tensors(merged, camera, settings)
    background = torch.tensor(BACKGROUND, dtype=torch.float64)
    rgb = images.rgb + (1 - images.alpha)[..., None] * background
    wanted = torch.cat([rgb.permute(2, 0, 1), images.alpha[None]])
    (wanted * weights.double()).sum().backward()

    assert float((planes.detach() - wanted.detach()).abs().mean()) < 1e-6
    for name, got, true in zip(
        ("means", "scales", "opacities", "colors"), inputs, exact, strict=True
    ):
        difference = (got.grad.double() - true.grad).norm() / true.grad.norm()
        assert float(difference) < 1e-5, name


def test_static_may_be_empty():
    editable = _gaussians(30, 4)
    none = Gaussians(
        *(getattr(editable, n)[:0] for n in ("means", "quats", "scales", "opacities", "sh"))
    )
    view = PatchView(none, _camera(), (0.0, 0.0, 0.0), editable)
    y0, y1, x0, x1 = view.crop
    alone = make_renderer(editable, "cpu").render(_camera())
    np.testing.assert_allclose(
        view(*_inputs(editable))[3].detach(), alone.alpha[y0:y1, x0:x1], atol=5e-7
    )


def test_moved_gaussians_are_merged_at_their_new_depth():
    # one opaque static wall at z = 3; a dot in front of it, then moved behind it
    wall = replace(_gaussians(1, 1), means=np.array([[0, 0, 3.0]]), scales=np.full((1, 3), [3, 3, 0.01]),
                   quats=np.array([[1.0, 0, 0, 0]]), opacities=np.array([0.95]),
                   sh=np.full((1, 1, 3), -0.5 / SH_C0))  # fmt: skip
    dot = replace(wall, means=np.array([[0, 0, 2.9]]), scales=np.full((1, 3), 0.05))
    view = PatchView(wall, _camera(), (0.0, 0.0, 0.0), dot)
    means, scales, opacities, _ = _inputs(dot)
    white = torch.ones(1, 3)
    front = view(means, scales, opacities, white)[:3].detach().max()
    behind = view(means + torch.tensor([0, 0, 0.2]), scales, opacities, white)[:3].detach().max()
    assert float(front) > 0.85
    # the wall lets 1 - 0.95 through
    assert float(behind) == pytest.approx(0.05 * float(front), rel=0.05)


# still behind what was in front of it at the start, and come forward through all of it
@pytest.mark.parametrize("shift", [0.05, -2.2])
def test_what_stands_in_front_is_blended_once_but_never_wrongly(shift):
    static = _gaussians(300, 1)
    editable = _gaussians(30, 2, (-0.2, -0.2, 4.4), (0.2, 0.2, 4.6))
    view = PatchView(static, _camera(), BACKGROUND, editable, margin_px=40)
    moved = replace(editable, means=editable.means + np.float32([0, 0, shift]))
    inputs = _inputs(moved)
    planes = view(*inputs)
    y0, y1, x0, x1 = view.crop
    full = make_renderer(_together(static, moved), "cpu").render(_camera(), BACKGROUND)
    wanted = full.rgb[y0:y1, x0:x1].transpose(2, 0, 1)
    np.testing.assert_allclose(planes[:3].detach(), wanted, atol=5e-7)
    # a view made where the Gaussians are now has another front, and the same gradients
    other_inputs = _inputs(moved)
    weights = torch.tensor(np.random.default_rng(5).normal(size=planes.shape), dtype=torch.float32)
    (planes * weights).sum().backward()
    there = PatchView(static, _camera(), BACKGROUND, moved, margin_px=60)
    y2, _, x2, _ = there.crop
    other = there(*other_inputs)[:, y0 - y2 : y1 - y2, x0 - x2 : x1 - x2]
    (other * weights).sum().backward()
    # little gets through to them, so rounding weighs more
    for one, two in zip(inputs, other_inputs, strict=True):
        difference = (one.grad - two.grad).norm() / two.grad.norm()
        assert float(difference) < 1e-4


def test_leaving_the_crop_is_noticed_and_a_grown_view_shows_it():
    editable = _gaussians(10, 3, (-0.1, -0.1, 3.0), (0.1, 0.1, 3.1))
    camera = _camera(160, 144)
    view = PatchView(_gaussians(50, 1), camera, BACKGROUND, editable, margin_px=0)
    view(*_inputs(editable))
    assert not view.outside
    moved = replace(editable, means=editable.means + np.array([1.0, 0.5, 0], np.float32))
    view(*_inputs(moved))
    assert view.outside
    grown = view.grown(moved)
    grown(*_inputs(moved))
    assert not grown.outside and grown.crop != view.crop


def test_not_finite_input_is_refused():
    editable = _gaussians(5, 3)
    view = PatchView(_gaussians(5, 1), _camera(), BACKGROUND, editable)
    means, scales, opacities, colors = _inputs(editable)
    with pytest.raises(ValueError, match="scales: holds NaN"):
        view(means, scales * float("nan"), opacities, colors)
    with pytest.raises(ValueError, match="opacities: wanted shape"):
        view(means, scales, opacities[:3], colors)


def test_two_python_threads_at_once():
    static, editable = _gaussians(300, 1), _gaussians(80, 2)
    view = PatchView(static, _camera(), BACKGROUND, editable)
    inputs = _inputs(editable)
    once = view(*inputs)
    (once**2).sum().backward()
    wanted = [t.grad.numpy().copy() for t in inputs]
    failures = []

    def work() -> None:
        for _ in range(20):
            mine = _inputs(editable)
            (view(*mine) ** 2).sum().backward()
            if not all(np.array_equal(t.grad, w) for t, w in zip(mine, wanted, strict=True)):
                failures.append("gradients differ")

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
