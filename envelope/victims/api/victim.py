"""A grounding model behind an OpenAI-compatible address, asked and read as its profile says."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from envelope.victims.api.address import KEY_VARIABLE, key_of, parse_address
from envelope.victims.api.client import ApiError, Client, Patience
from envelope.victims.api.usage import Meter, Prices, Usage
from envelope.victims.letterbox import letterboxed, stretch_to
from envelope.victims.protocols import Grounding, Images, PicturesFailed, VictimInfo, check_images
from envelope.victims.roster import Request, number_option
from envelope.victims.vlm.any_json import any_json
from envelope.victims.vlm.families import FAMILIES
from envelope.victims.vlm.family import VARIANTS, Family
from scene.errors import InputError

_MOST_KEPT = 64
_SPARE_S = 10.0
"""For what a call does beside waiting: making PNGs, reading answers."""


class BatchFailed(ApiError, PicturesFailed):
    """The first error of a batch, with the answers to its other pictures."""


@dataclass(frozen=True)
class ApiSettings:
    """How a model is asked.

    side: pictures are stretched to side x side pixels, 0: they are sent as they are.
    penalty: for repetition; None leaves it to the server, which may have one by default.
    """

    model: str
    variant: str = "native"
    side: int = 448
    max_tokens: int = 256
    concurrency: int = 4
    penalty: float | None = None


class ApiVictim:
    """Follows the Grounder protocol. Pictures go out as PNG; errors are raised, never read."""

    def __init__(
        self,
        client: Client,
        meter: Meter,
        info: VictimInfo,
        family: Family,
        settings: ApiSettings,
    ) -> None:
        self.info = info
        self.family = family
        self.settings = settings
        self._client = client
        self._meter = meter
        self._kept: dict[bytes, Grounding] = {}

    @property
    def usage(self) -> Usage:
        """Requests, tokens and cost so far."""
        return self._meter.usage

    @property
    def concurrency(self) -> int:
        """How many pictures are asked about at the same time."""
        return self.settings.concurrency

    def call_limit_s(self, pictures: int) -> float:
        """Seconds by which a call has ended: rounds of `concurrency`, each of one timeout."""
        return self._rounds_s(pictures) + _SPARE_S

    def _rounds_s(self, pictures: int) -> float:
        rounds = math.ceil(pictures / self.settings.concurrency)
        return rounds * self._client.patience.timeout_s

    def prompt_for(self, label: str) -> str:
        """The chosen variant of the profile's prompt for a class."""
        return self.family.prompts.of(self.settings.variant, label)

    def predict(self, images: Images, prompt: str | Sequence[str]) -> list[Grounding]:
        """images: (B, H, W, 3) uint8 RGB; prompt: one for all or B -> B answers.

        Raises BatchFailed when a picture got no answer; answers to the others of the batch are in
        it, and kept, so that asking again costs nothing.
        """
        images = check_images(images)
        prompts = [prompt] * len(images) if isinstance(prompt, str) else list(prompt)
        if len(prompts) != len(images):
            raise InputError(f"{len(images)} pictures but {len(prompts)} prompts")
        if not prompts:
            return []
        start = time.perf_counter()
        latest = time.monotonic() + self._rounds_s(len(images))
        tried = partial(self._tried, latest)
        with ThreadPoolExecutor(min(self.settings.concurrency, len(images))) as pool:
            answers = list(pool.map(tried, images, prompts))
        failed = [answer for answer in answers if isinstance(answer, ApiError)]
        if failed:
            for image, text, answer in zip(images, prompts, answers, strict=True):
                if isinstance(answer, Grounding):
                    self._kept[_digest(image, text)] = answer
            while len(self._kept) > _MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
            told = BatchFailed(str(failed[0]))
            told.answers = answers
            raise told from failed[0]
        if self.info.seconds_per_picture is None:
            seconds = (time.perf_counter() - start) / len(images)
            self.info = replace(self.info, seconds_per_picture=seconds)
        return [answer for answer in answers if isinstance(answer, Grounding)]

    def _tried(self, latest: float, image: np.ndarray, prompt: str) -> Grounding | ApiError:
        kept = self._kept.pop(_digest(image, prompt), None)
        if kept is not None:
            return kept
        try:
            return self._asked(image, prompt, latest)
        except ApiError as error:
            return error  # the others of the batch go on

    def _asked(self, image: np.ndarray, prompt: str, latest: float) -> Grounding:
        shown = image
        if self.settings.side:
            fit = stretch_to(image.shape[1], image.shape[0], self.settings.side, self.settings.side)
            shown = letterboxed(image[None], fit, 0)[0]
        answer = self._client.post("/chat/completions", self._body(shown, prompt), latest)
        self._meter.answer(answer.get("usage"))
        try:
            text, refused, notes = _message(answer, self._client.cleaned)
        except ApiError:
            self._meter.failure()
            raise
        text = self._client.without_key(text)
        frame = self.family.frame_at(
            (image.shape[1], image.shape[0]), (shown.shape[1], shown.shape[0])
        )
        if refused:
            return Grounding(text, None, "refused", notes)
        reading = self.family.reads(text, frame)
        return Grounding(text, reading.box, reading.status, (*reading.notes, *notes))

    def _body(self, shown: np.ndarray, prompt: str) -> dict[str, Any]:
        url = f"data:image/png;base64,{_png(shown)}"
        content = [
            {"type": "image_url", "image_url": {"url": url}},
            {"type": "text", "text": prompt},
        ]
        penalty = self.settings.penalty
        return {
            "model": self.settings.model,
            "messages": [{"role": "user", "content": content}],
            "temperature": 0,
            "max_tokens": self.settings.max_tokens,
            "stream": False,
            **({} if penalty is None else {"repetition_penalty": penalty}),
        }


def load_api(request: Request) -> ApiVictim:
    """The victim of a spec such as `api:http://127.0.0.1:8000/v1?model=NAME&profile=qwen3-vl`."""
    address = parse_address(request.location)
    key = key_of(request.options.get("key", KEY_VARIABLE), address)
    family = _profile(request.options)
    settings = _settings(request)
    meter = Meter(_prices(request))
    patience = Patience(
        timeout_s=number_option(request, "timeout", 60.0, 0.1, 3600.0),
        tries=int(number_option(request, "tries", 5, 1, 20)),
    )
    told = {
        "address": str(address),
        "model": settings.model,
        "profile": family.name,
        "convention": family.convention,
        "prompt_variant": settings.variant,
        "side": settings.side,
        "max_tokens": settings.max_tokens,
        "temperature": 0,
        "repetition_penalty": settings.penalty,
    }
    info = VictimInfo(
        name=request.spec,
        kind="grounder",
        licence="the provider's terms",
        source=f"whatever {address} serves as {settings.model!r}",
        input_size=(settings.side, settings.side),
        threshold=0.0,
        weights_hash=hashlib.sha256(f"{address} {settings.model}".encode()).hexdigest(),
        settings=told,
        coordinates=f"{family.convention} ({family.evidence})",
    )
    return ApiVictim(Client(address, key, patience, meter), meter, info, family, settings)


def _profile(options: Mapping[str, str]) -> Family:
    name = options.get("profile", "json")
    if name == "json":
        return any_json(options.get("units", "1000"), options.get("order", "xyxy"))
    if name not in FAMILIES:
        raise InputError(f"api: there is no profile {name!r}; there are: {', '.join(FAMILIES)}")
    return FAMILIES[name]


def _settings(request: Request) -> ApiSettings:
    model = request.options.get("model", "")
    if not model:
        raise InputError("api: wanted the model's name, as in api:ADDRESS?model=NAME")
    variant = request.options.get("prompt", "native")
    if variant not in VARIANTS:
        raise InputError(f"api: prompt wants {', '.join(VARIANTS)}, found {variant!r}")
    native = request.options.get("size") == "native"
    return ApiSettings(
        model,
        variant,
        0 if native else int(number_option(request, "size", 448, 56, 4096)),
        int(number_option(request, "tokens", 256, 4, 8192)),
        int(number_option(request, "concurrency", 4, 1, 64)),
        number_option(request, "penalty", 1.0, 0.1, 10) if "penalty" in request.options else None,
    )


def _prices(request: Request) -> Prices:
    prompt, completion = (
        number_option(request, name, 0.0, 0.0, 1e6) if name in request.options else None
        for name in ("price_in", "price_out")
    )
    return Prices(prompt, completion)


def _message(
    answer: Mapping[str, Any], cleaned: Callable[[object], str]
) -> tuple[str, bool, tuple[str, ...]]:
    """(text, whether it is a refusal, notes) of a chat completion."""
    problem = answer.get("error")
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(message, Mapping):
        said = cleaned(json.dumps(problem)) if problem else "no choices[0].message"
        raise ApiError(f"the server's answer holds no text: {said}")
    content = message.get("content")
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, Mapping)]
        content = "".join(str(part.get("text", "")) for part in parts)
    text = content if isinstance(content, str) else ""
    reason = choice.get("finish_reason") if isinstance(choice, Mapping) else None
    notes = ("cut off at the token limit",) if reason == "length" else ()
    refusal = message.get("refusal")
    if refusal or reason == "content_filter":
        return text or str(refusal or ""), True, (*notes, "refused by the server")
    return text, False, notes


def _png(image: np.ndarray) -> str:
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "PNG", compress_level=1)
    return base64.b64encode(stream.getvalue()).decode("ascii")


def _digest(image: np.ndarray, prompt: str) -> bytes:
    return hashlib.sha256(image.tobytes() + prompt.encode()).digest()
