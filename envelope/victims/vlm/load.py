"""Gets a grounding model from a checkpoint's folder."""

from __future__ import annotations

from envelope.victims.hub_checkpoint import Checkpoint, load_checkpoint
from envelope.victims.hub_models import checkpoint_source
from envelope.victims.hub_victim import HubRequest
from envelope.victims.protocols import VictimInfo
from envelope.victims.vlm.family import VARIANTS, Family
from envelope.victims.vlm.victim import VlmSettings, VlmVictim
from scene.errors import InputError
from scene.io.json_file import read_json_object


def load_vlm(request: HubRequest, family: Family) -> VlmVictim:
    """The model of a folder, asked and read as its family wants."""
    _check_type(request, family)
    checkpoint = load_checkpoint(
        request.folder, request.spec, "AutoModelForImageTextToText", "AutoProcessor",
        request.device,
    )  # fmt: skip
    if not getattr(checkpoint.processor, "chat_template", None):
        raise InputError(
            f"victim {request.spec!r}: {request.folder} has no chat template "
            "(chat_template.jinja), without which the model cannot be asked"
        )
    settings = vlm_settings(request, family)
    _plain_greedy(checkpoint)
    return VlmVictim(
        checkpoint, _info(request, checkpoint, family, settings), family, settings, request.threads
    )


def vlm_settings(request: HubRequest, family: Family) -> VlmSettings:
    """What the question mark's options say."""
    variant = request.options.get("prompt", "native")
    if variant not in VARIANTS:
        raise InputError(
            f"victim {request.spec!r}: prompt wants {', '.join(VARIANTS)}, found {variant!r}"
        )
    native = request.options.get("size") == "native"
    side = 0 if native else int(request.number("size", 448, 56, 4096))
    tokens = int(request.number("tokens", family.max_new_tokens, 4, 4096))
    return VlmSettings(variant, side, tokens)


def _check_type(request: HubRequest, family: Family) -> None:
    from envelope.victims.vlm.families import FAMILIES

    file = request.folder / "config.json"
    found = str(read_json_object(file).get("model_type", "")) if file.is_file() else ""
    if found in family.model_types or not found:
        return
    if found in ("minicpmv", "minicpmo"):
        raise InputError(
            f"victim {request.spec!r}: MiniCPM-V before 4.6 runs code of its own, which is never "
            "executed here; serve it (vLLM, llama.cpp) and use api:ADDRESS?profile=minicpm-v"
        )
    fitting = next((f.name for f in FAMILIES.values() if found in f.model_types), None)
    hint = f"; write {fitting}:{request.folder}" if fitting else ""
    raise InputError(
        f"victim {request.spec!r}: wanted a {family.title} checkpoint "
        f"({', '.join(family.model_types)}), found {found!r} in {request.folder}{hint}"
    )


def _plain_greedy(checkpoint: Checkpoint) -> None:
    """Only what ends an answer is kept of the checkpoint's own generation settings.

    Released ones carry temperatures and repetition penalties; a penalty changes digits.
    """
    from transformers import GenerationConfig

    own = checkpoint.model.generation_config
    pad = checkpoint.processor.tokenizer.pad_token_id
    ends = own.eos_token_id or checkpoint.processor.tokenizer.eos_token_id
    checkpoint.model.generation_config = GenerationConfig(
        bos_token_id=own.bos_token_id,
        eos_token_id=ends,
        pad_token_id=own.pad_token_id if pad is None else pad,
    )


def _info(
    request: HubRequest, checkpoint: Checkpoint, family: Family, settings: VlmSettings
) -> VictimInfo:
    row = request.row
    side = settings.side or (row.input_size[0] if row else 0)
    return VictimInfo(
        name=request.spec,
        kind="grounder",
        licence=row.licence if row else "the checkpoint's own",
        source=checkpoint_source(request.folder),
        input_size=(side, side),
        threshold=0.0,
        weights_hash=checkpoint.weights_hash,
        settings={
            "family": family.name,
            "prompt_variant": settings.variant,
            "side": settings.side,
            "decoding": "greedy, no penalties, until the box is complete",
            "max_new_tokens": settings.max_new_tokens,
            "setup_hash": checkpoint.setup_hash,
            "device": checkpoint.device.type,
        },
        extra=row.extra if row else "",
        command=row.command if row else "",
        coordinates=f"{family.convention} ({family.evidence})",
    )
