"""Class names, joined across vendors: 'stop sign', 'stop-sign' and 'Stop Sign' are one class."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from scene.errors import InputError

# Pascal VOC's and older COCO lists' spellings -> COCO's.
_SYNONYMS = {
    "tvmonitor": "tv",
    "tv monitor": "tv",
    "television": "tv",
    "aeroplane": "airplane",
    "motorbike": "motorcycle",
    "diningtable": "dining table",
    "pottedplant": "potted plant",
    "sofa": "couch",
    "stopsign": "stop sign",
    "trafficlight": "traffic light",
    "cellphone": "cell phone",
    "mobile phone": "cell phone",
    "hairdryer": "hair dryer",
    "hair drier": "hair dryer",
    "doughnut": "donut",
}


def normalised(name: str) -> str:
    """Lower case, words separated by single spaces, vendors' spellings joined.

    'stop_sign', 'Stop-Sign' -> 'stop sign'; 'tvmonitor' -> 'tv'.
    """
    words = re.sub(r"[^0-9a-z]+", " ", name.lower()).strip()
    return _SYNONYMS.get(words, words)


def same_class(first: str, second: str) -> bool:
    """Whether two vendors' names mean the same class."""
    return normalised(first) == normalised(second)


def phrase_has_class(phrase: str, label: str) -> bool:
    """Whether an open-vocabulary phrase contains the class as whole words."""
    return f" {normalised(label)} " in f" {normalised(phrase)} "


def find_class(label: str, vocabulary: Sequence[str], victim: str) -> int:
    """Index of a class in a victim's vocabulary; an unknown one lists the near names."""
    wanted = normalised(label)
    known = [normalised(name) for name in vocabulary]
    if wanted in known:
        return known.index(wanted)
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
    near += [name for name in known if name not in near and set(name.split()) & set(wanted.split())]
    near = near[:5]
    hint = f"near names: {', '.join(near)}" if near else f"it knows: {', '.join(known[:12])}"
    raise InputError(f"{victim} has no class {label!r}; {hint}")
