"""Small ultralytics networks whose heads are set by hand, so that their one box is known.

A random network's features are calibrated on one picture; the class layer is then solved so that
one cell alone, the one at the picture's object, is sure. The box layers are constants.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from envelope.victims.coco_names import COCO_NAMES
from envelope.victims.ultralytics_model import import_ultralytics, place_for

SIZE = 160
CLASS = COCO_NAMES.index("stop sign")
REACH = (1.0, 2.0, 3.0, 1.0)
"""Left, top, right, bottom of the box from the cell's centre, in strides."""


def picture() -> np.ndarray:
    """(1, 120, 200, 3): soft noise, and a red disc right of the middle, near the top."""
    rng = np.random.default_rng(5)
    coarse = rng.integers(90, 150, (15, 25, 3)).repeat(8, 0).repeat(8, 1)
    y, x = np.mgrid[:120, :200] + 0.5
    coarse[(x - 145) ** 2 + (y - 35) ** 2 < 18**2] = (220, 20, 30)
    return coarse[None].astype(np.uint8)


def _batch(head: str) -> torch.Tensor:
    from envelope.victims.ultralytics_model import _input

    images = picture()
    return _input(images, place_for(head, SIZE)(200, 120))  # type: ignore[arg-type]


def calibrate(model: Any, batch: torch.Tensor) -> None:
    """Give every normalisation the statistics of this picture."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
    model.train()
    with torch.no_grad():
        model(batch)
    model.eval()


def single_out(features: torch.Tensor, index: int) -> tuple[torch.Tensor, float]:
    """(c,) weights and a bias: +6 at row `index` of (n, c) features, -6 or less elsewhere."""
    rows = features.double()
    center = rows.mean(dim=0)
    rows = rows - center
    spread = rows.T @ rows / len(rows)
    spread += 1e-4 * spread.trace() / len(spread) * torch.eye(len(spread))
    weights = torch.linalg.solve(spread, rows[index])
    scores = rows @ weights
    others = torch.cat([scores[:index], scores[index + 1 :]]).max()
    assert scores[index] > others
    gain = 12 / (scores[index] - others)
    bias = 6 - gain * scores[index] - gain * (weights @ center)
    return (gain * weights).float(), float(bias)


def cell_of(head: str, stride: int) -> tuple[int, int, int]:
    """(column, row, columns) of the cell in the model's input at the disc's centre."""
    box = place_for(head, SIZE)(200, 120)  # type: ignore[arg-type]
    x, y = box.to_input(np.array([[145.0, 35, 145, 35]]))[0, :2]
    return int(x // stride), int(y // stride), box.width // stride


def expected_box(head: str) -> np.ndarray:
    """The one box that a dense or end-to-end model answers, in the picture's pixels."""
    column, row, _ = cell_of(head, 8)
    x, y = (column + 0.5) * 8, (row + 0.5) * 8
    left, top, right, bottom = (8 * reach for reach in REACH)
    box = place_for(head, SIZE)(200, 120)  # type: ignore[arg-type]
    return box.to_source(np.array([[x - left, y - top, x + right, y + bottom]]))[0]


def set_dense(model: Any, head: str, one2one: bool = False) -> None:
    """One sure cell of level 0, constant boxes."""
    last = model.model[-1]
    boxes = last.one2one_cv2 if one2one else last.cv2
    classes = last.one2one_cv3 if one2one else last.cv3
    batch = _batch(head)
    seen: dict[str, torch.Tensor] = {}
    hook = classes[0][-1].register_forward_pre_hook(lambda _, given: seen.update(f=given[0]))
    with torch.no_grad():
        model(batch)
    hook.remove()
    column, row, columns = cell_of(head, 8)
    weights, bias = single_out(seen["f"][0].flatten(1).T, row * columns + column)
    bins = last.reg_max
    with torch.no_grad():
        for level, layers in enumerate(classes):
            layers[-1].weight.zero_()
            layers[-1].bias.fill_(-8.0)
            if level == 0:
                layers[-1].weight[CLASS, :, 0, 0] = weights
                layers[-1].bias[CLASS] = bias
        for layers in boxes:
            layers[-1].weight.zero_()
            layers[-1].bias.zero_()
            for side, reach in enumerate(REACH):
                if bins == 1:
                    layers[-1].bias[side] = reach
                else:
                    layers[-1].bias[side * bins + int(reach)] = 50.0


def make(folder: Path, kind: str) -> Path:
    """A checkpoint of a kind: v8, 11, 26, world, rtdetr; written as ultralytics writes it."""
    ultralytics = import_ultralytics()
    configs = {
        "v8": "yolov8n.yaml", "11": "yolo11n.yaml", "26": "yolo26n.yaml",
        "world": "yolov8n-worldv2.yaml", "rtdetr": "yolov8n-rtdetr.yaml",
    }  # fmt: skip
    torch.manual_seed(3)
    loader = ultralytics.RTDETR if kind == "rtdetr" else ultralytics.YOLO
    loader = ultralytics.YOLOWorld if kind == "world" else loader
    wrapped = loader(str(_narrow(folder, configs[kind])) if kind in ("v8", "11", "26") else
                     configs[kind])  # fmt: skip
    model = wrapped.model
    model.names = dict(enumerate(COCO_NAMES))
    head = "rtdetr" if kind == "rtdetr" else "dense"
    calibrate(model, _batch(head))
    if kind == "world":
        set_world(model)
    elif kind == "rtdetr":
        set_rtdetr(model)
    else:
        if kind == "26":
            model.end2end = True
        set_dense(model, head, one2one=kind == "26")
    path = folder / f"{kind}.pt"
    wrapped.save(str(path))
    return path


def _narrow(folder: Path, name: str) -> Path:
    """The package's own description of a network, at half the width of its smallest."""
    from ultralytics.utils import YAML
    from ultralytics.utils.checks import check_yaml

    fields = YAML.load(check_yaml(name.replace("n.yaml", ".yaml")))
    fields["scales"] = {"n": [0.33, 0.125, 256]}
    YAML.save(folder / name, fields)
    return folder / name


def set_world(model: Any) -> None:
    """Text features are unit vectors; the embedding's component of the class singles a cell out."""
    last = model.model[-1]
    model.txt_feats = torch.eye(512)[:80][None].clone()
    column, row, columns = cell_of("dense", 8)
    seen: dict[str, torch.Tensor] = {}
    layers = last.cv3[0]
    hook = layers[-1].register_forward_pre_hook(lambda _, given: seen.update(f=given[0]))
    with torch.no_grad():
        model(_batch("dense"))
    hook.remove()
    weights, bias = single_out(seen["f"][0].flatten(1).T, row * columns + column)
    with torch.no_grad():
        for level, (embed, contrast) in enumerate(zip(last.cv3, last.cv4, strict=True)):
            embed[-1].weight.zero_()
            embed[-1].bias.fill_(-8.0)
            if level == 0:
                embed[-1].weight[CLASS, :, 0, 0] = weights
                embed[-1].bias[CLASS] = bias
            contrast.norm.reset_running_stats()
            contrast.norm.eps = 0.0
            contrast.logit_scale.zero_()
            contrast.bias.zero_()
        for layers in last.cv2:
            layers[-1].weight.zero_()
            layers[-1].bias.zero_()
            for side, reach in enumerate(REACH):
                layers[-1].bias[side * last.reg_max + int(reach)] = 50.0


def set_rtdetr(model: Any) -> None:
    """One query, chosen at the disc; its box is its anchor: a twentieth of the input, twice."""
    last = model.model[-1]
    column, row, columns = cell_of("rtdetr", 8)
    last.num_queries = 1
    seen: dict[str, torch.Tensor] = {}
    hook = last.enc_score_head.register_forward_pre_hook(lambda _, given: seen.update(f=given[0]))
    with torch.no_grad():
        model(_batch("rtdetr"))
    hook.remove()
    features = seen["f"][0]
    weights, bias = single_out(features, row * columns + column)
    with torch.no_grad():
        last.enc_score_head.weight.zero_()
        last.enc_score_head.bias.fill_(-8.0)
        last.enc_score_head.weight[CLASS] = weights
        last.enc_score_head.bias[CLASS] = bias
        for head in (last.enc_bbox_head, *last.dec_bbox_head):
            head.layers[-1].weight.zero_()
            head.layers[-1].bias.zero_()
        for score in last.dec_score_head:
            score.weight.zero_()
            score.bias.fill_(-8.0)
            score.bias[CLASS] = 2.0


def exported(path: Path, rows: np.ndarray, names: tuple[str, ...], **metadata: Any) -> Path:
    """An ONNX file as the package exports it, of a square input, that always answers `rows`."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("ReduceMax", ["images"], ["m"], keepdims=0),
        helper.make_node("Mul", ["m", "nothing"], ["n"]),
        helper.make_node("Add", ["n", "rows"], ["output0"]),
    ]
    graph = helper.make_graph(
        nodes, "rows",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIZE, SIZE])],
        [helper.make_tensor_value_info("output0", TensorProto.FLOAT, rows.shape)],
        [numpy_helper.from_array(rows.astype(np.float32), "rows"),
         numpy_helper.from_array(np.float32(0), "nothing")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    told = {"stride": 32, "task": "detect", "batch": 1, "imgsz": [SIZE, SIZE],
            "names": dict(enumerate(names)), **metadata}  # fmt: skip
    helper.set_model_props(model, {key: str(value) for key, value in told.items()})
    onnx.save(model, str(path))
    return path
