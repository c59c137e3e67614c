"""The model card of the demo victims, written from the measured figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TEXT = """# Demo victims: model card

Three small models trained from scratch by `advscene train-demo` on pictures that the project makes
(drawn signs on drawn backgrounds, photos of random ray-traced streets). No downloaded weights, no
photographs, no code or weights under AGPL. Licence: Apache-2.0.

| name | architecture | input |
|---|---|---|
| demo-detector ({detector_mb} MB) | ResNet-18 (width 24), pyramid, FCOS-like heads | 320 |
| demo-classifier ({classifier_mb} MB) | torchvision ResNet-18 at width 24 | 224 |
| demo-grounder ({grounder_mb} MB) | transformers PaliGemma: SigLIP 5x128, Gemma 3x128 | 224 |

The detector assigns targets as TOOD does; the grounder answers `detect stop sign`.
Classes: stop, yield, speed limit, no entry, parking and crossing sign (the classifier also says
"no sign"). float16 safetensors; they compute in float32.

## What they are for
To show the tool at work without any download, and to be attacked: each has a white-box handle
(`suppression_loss`). Signs with gray, flat, noisy and striped stickers over 10-45 % of the face
were part of the training, so that occlusion alone does not break them.

## What they are not
Not products, not stand-ins for products, not evidence about real recognition systems. They know
six kinds of signs and nothing else, have never seen a photograph, and are easy to fool. Their
numbers on the project's own pictures say little about other pictures.

## Measured
{figures}

{notes}
"""


def model_card(figures: Mapping[str, Any], notes: str = "") -> str:
    """Markdown; figures as train_demo returns them, with the weights' sizes."""
    sizes = figures["weights"]
    return (
        _TEXT.format(
            detector_mb=_megabytes(sizes["demo-detector"]),
            classifier_mb=_megabytes(sizes["demo-classifier"]),
            grounder_mb=_megabytes(sizes["demo-grounder"]),
            figures="\n".join(_lines(figures)),
            notes=notes,
        ).rstrip()
        + "\n"
    )


def _megabytes(row: Mapping[str, Any]) -> str:
    return f"{row['bytes'] / 1e6:.1f}"


def _lines(figures: Mapping[str, Any]) -> list[str]:
    detector, classifier, grounder = (figures[k] for k in ("detector", "classifier", "grounder"))
    lines = []
    for name, where in (("drawn", "held-out drawn pictures"), ("street", "held-out street photos")):
        if name in detector:
            row = detector[name]
            each = ", ".join(f"{label} {value:.2f}" for label, value in row["ap50"].items())
            lines.append(f"- detector, AP at IoU 0.5 on {row['pictures']} {where}: {each}")
    rates = detector["stop_signs"]
    lines.append(
        "- detector, single stop signs 30-280 px high localized at confidence 0.5: clean "
        f"{rates.get('clean', 0):.2f}, with a gray square over 15-30 % of the face "
        f"{rates.get('gray', 0):.2f}"
    )
    if "photos" in detector:
        row = detector["photos"]
        lines.append(
            "- detector, close-up photos of real stop signs (not shipped): found "
            f"{row['found']} of {row['photos']}"
        )
    for name, row in classifier.items():
        lines.append(
            f"- classifier, {row['crops']} held-out crops ({name}): accuracy "
            f"{row['accuracy']:.3f}, stop signs named {row['stop_recall']:.3f}"
        )
    for name, row in grounder.items():
        lines.append(
            f"- grounder, plain greedy decoding, held-out pictures ({name}), IoU >= 0.5 for signs "
            f"of at least 30 px in its input: stop signs {row['stop_30px']:.3f} "
            f"(n = {row['stops']}), all classes {row['all_30px']:.3f}; an absent stop sign is "
            f"answered with nothing {row['absent_empty']:.3f}"
        )
    return lines
