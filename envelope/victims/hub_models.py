"""Weights that come from the Hugging Face hub: one table, and where they lie on this machine.

Nothing here reaches the network. A checkpoint is a local folder, or what `hf download` has put
into the hub's cache; a missing one is answered with the command that gets it.

The revisions are "main" unless a row says otherwise: no commit of these repositories could be
verified where this table was written. What was scored is still pinned: the commit that lies in
the cache goes into the victim's source, the sha256 of the weights into every score's key.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from envelope.victims.protocols import Kind
from scene.errors import InputError


@dataclass(frozen=True)
class HubWeights:
    """One checkpoint of the roster.

    name: what a user calls the victim. family: the spec that loads a folder of the same kind.
    hub_id, revision: where the weights come from. kind: the protocol it follows.
    licence: of the weights. gated: its page wants the licence accepted before a download.
    input_size: (width, height) in pixels that it works at as released; a family that keeps the
    aspect ratio takes it as the largest. threshold: the conventional confidence, 0 for grounders.
    extra: of pyproject, "" when the core installation is enough.
    """

    name: str
    family: str
    hub_id: str
    kind: Kind
    licence: str
    input_size: tuple[int, int]
    threshold: float = 0.0
    revision: str = "main"
    gated: bool = False
    extra: str = ""

    @property
    def command(self) -> str:
        """What gets the weights."""
        pinned = "" if self.revision == "main" else f" --revision {self.revision}"
        return f"hf download {self.hub_id}{pinned}"

    @property
    def missing(self) -> str:
        """One sentence for a user who does not have the weights."""
        first = (
            f"accept the licence on https://huggingface.co/{self.hub_id}, `hf auth login`, then "
            if self.gated
            else ""
        )
        return (
            f"{self.name} is not on this machine: {first}run `{self.command}` "
            f"(licence of the weights: {self.licence})"
        )


_APACHE = "Apache-2.0"
_LFM = "LFM Open License v1.0"

HUB_WEIGHTS: tuple[HubWeights, ...] = (
    HubWeights("rtdetr", "rtdetr", "PekingU/rtdetr_r50vd", "detector", _APACHE, (640, 640), 0.5),
    HubWeights(
        "rtdetrv2", "rtdetr", "PekingU/rtdetr_v2_r18vd", "detector", _APACHE, (640, 640), 0.5
    ),
    HubWeights(
        "d-fine", "rtdetr", "ustc-community/dfine-small-coco", "detector", _APACHE, (640, 640), 0.5
    ),
    HubWeights(
        "gdino-tiny", "gdino", "IDEA-Research/grounding-dino-tiny", "detector", _APACHE,
        (1066, 640), 0.3,
    ),
    HubWeights(
        "gdino-base", "gdino", "IDEA-Research/grounding-dino-base", "detector", _APACHE,
        (1066, 640), 0.3,
    ),
    HubWeights(
        "owlv2", "owlv2", "google/owlv2-base-patch16-ensemble", "detector", _APACHE,
        (960, 960), 0.3,
    ),
    HubWeights(
        "vit-b16", "classifier", "google/vit-base-patch16-224", "classifier", _APACHE,
        (224, 224), 0.5,
    ),
    HubWeights(
        "resnet50", "classifier", "microsoft/resnet-50", "classifier", _APACHE, (224, 224), 0.5
    ),
    HubWeights(
        "convnext", "classifier", "facebook/convnext-base-224", "classifier", _APACHE,
        (224, 224), 0.5,
    ),
    HubWeights(
        "paligemma2-3b", "paligemma", "google/paligemma2-3b-mix-448", "grounder",
        "Gemma Terms of Use", (448, 448), gated=True,
    ),
    HubWeights(
        "internvl3-2b", "internvl3", "OpenGVLab/InternVL3-2B-hf", "grounder",
        "Qwen licence (of its language model)", (448, 448),
    ),
    HubWeights(
        "qwen3-vl-2b", "qwen3-vl", "Qwen/Qwen3-VL-2B-Instruct", "grounder", _APACHE, (448, 448)
    ),
    HubWeights(
        "qwen2.5-vl", "qwen2.5-vl", "Qwen/Qwen2.5-VL-3B-Instruct", "grounder",
        "Qwen Research License (not for commercial use)", (448, 448),
    ),
    HubWeights(
        "lfm2.5-vl-450m", "lfm2.5-vl", "LiquidAI/LFM2.5-VL-450M", "grounder", _LFM, (448, 448)
    ),
    HubWeights(
        "lfm2.5-vl-1.6b", "lfm2.5-vl", "LiquidAI/LFM2.5-VL-1.6B", "grounder", _LFM, (448, 448)
    ),
    HubWeights(
        "lfm2.5-vl-3b", "lfm2.5-vl-3b", "LiquidAI/LFM2.5-VL-3B", "grounder", _LFM, (448, 448)
    ),
    HubWeights(
        "minicpm-v-4.6", "minicpm-v", "openbmb/MiniCPM-V-4.6", "grounder",
        "the model's own (see its page)", (448, 448),
    ),
)  # fmt: skip


def hub_weights(name: str) -> HubWeights:
    """The table's row of a name."""
    for row in HUB_WEIGHTS:
        if row.name == name:
            return row
    raise InputError(f"no weights are known by the name {name!r}")


def cached_folder(row: HubWeights) -> Path | None:
    """The folder of a checkpoint in the hub's cache on this machine, None when it is not there."""
    return _cached(row.hub_id, row.revision)


def weights_folder(row: HubWeights) -> Path:
    """The same, or an InputError that names the command that gets it."""
    folder = cached_folder(row)
    if folder is None:
        raise InputError(row.missing)
    return folder


def local_folder(location: str, spec: str) -> Path:
    """The checkpoint that a spec names: a folder's path, or a hub id that lies in the cache.

    location: what follows the colon, as in `rtdetr:runs/mine` or `rtdetr:PekingU/rtdetr_r18vd`.
    """
    folder = Path(location).expanduser()
    if (folder / "config.json").is_file():
        return folder
    if not location or folder.is_dir() or folder.is_absolute() or location.count("/") != 1:
        family = spec.partition(":")[0]
        raise InputError(
            f"victim {spec!r}: wanted a folder with a checkpoint (config.json, *.safetensors and "
            f"the processor's files), as in {family}:FOLDER"
        )
    cached = _cached(location, "main")
    if cached is None:
        raise InputError(
            f"victim {spec!r}: there is no folder {location}, and no such checkpoint in the hub's "
            f"cache; run `hf download {location}`"
        )
    return cached


def checkpoint_source(folder: Path) -> str:
    """Where a checkpoint came from: hub id and commit when it lies in the cache, else its path."""
    if folder.parent.name == "snapshots" and folder.parents[1].name.startswith("models--"):
        hub_id = folder.parents[1].name.removeprefix("models--").replace("--", "/")
        return f"https://huggingface.co/{hub_id} at {folder.name}"
    return str(folder)


def _cached(hub_id: str, revision: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(hub_id, "config.json", revision=revision)
    except HFValidationError:
        return None
    return Path(found).parent if isinstance(found, str) else None
