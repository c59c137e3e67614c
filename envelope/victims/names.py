"""Class names, joined across vendors: 'stop sign', 'stop-sign' and 'Stop Sign' are one class."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from functools import lru_cache

from envelope.victims.coco_names import COCO_NAMES
from scene.errors import InputError

# Pascal VOC's, OpenImages', LVIS' and older COCO lists' spellings -> COCO's.
_SYNONYMS = {
    "tvmonitor": "tv",
    "tv monitor": "tv",
    "monitor tv": "tv",
    "television": "tv",
    "television set": "tv",
    "aeroplane": "airplane",
    "motorbike": "motorcycle",
    "sofa": "couch",
    "houseplant": "potted plant",
    "cellphone": "cell phone",
    "mobile phone": "cell phone",
    "cellular telephone": "cell phone",
    "hair drier": "hair dryer",
    "hairdrier": "hair dryer",
    "doughnut": "donut",
    "tennis racquet": "tennis racket",
}
# written as one word: 'stopsign', 'trafficlight', 'diningtable'
_SYNONYMS |= {name.replace(" ", ""): name for name in COCO_NAMES if " " in name}
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@lru_cache(maxsize=1 << 14)  # asked for every stored row whenever the page reads them again
def normalised(name: str) -> str:
    """Lower case, words separated by single spaces, vendors' spellings joined.

    'stop_sign', 'Stop-Sign', 'StopSign' -> 'stop sign'; 'tvmonitor' -> 'tv'.
    """
    words = re.sub(r"[\W_]+", " ", _CAMEL.sub(" ", name).lower()).strip()
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
