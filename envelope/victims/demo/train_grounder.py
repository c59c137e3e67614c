"""Trains the demo grounder.

What makes so small a PaliGemma learn to point, on two processor cores: a dense auxiliary head on
the vision tower (thrown away afterwards), windows of 8x8 patches for most steps (a third of the
cost), soft labels over neighbouring locations that are sharpened as training goes on, and few
locations in use, so that plain greedy decoding is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from envelope.victims.demo.dataset import Pictures
from envelope.victims.demo.grounder_data import (
    BINS,
    STEP,
    Sign,
    Texts,
    Window,
    crops_at,
    dense_targets,
    packed,
    questions,
    random_window,
)
from envelope.victims.demo.grounder_model import (
    FIRST_LOCATION,
    GRID,
    DenseHead,
    build_model,
    vision_tower,
)
from envelope.victims.demo.muon import FloatMuon
from envelope.victims.demo.signs import CLASSES
from envelope.victims.demo.training import LoopSettings, Progress, run_loop


@dataclass(frozen=True)
class GrounderRecipe:
    """vision_steps: the dense head alone; steps: all together.

    whole_from: share of the steps after which half of them see whole pictures; whole_only_from:
    after which all do. batch: crops a step, half of them where whole pictures are seen.
    spreads: (until this share of the steps, width of the soft labels in locations in use).
    absent: how often a class that is not there is asked for beside one that is.
    hold: share of the steps at the full rate.
    """

    vision_steps: int = 800
    steps: int = 2200
    whole_from: float = 0.75
    whole_only_from: float = 0.9
    spreads: tuple[tuple[float, float], ...] = ((0.5, 2.5), (0.65, 1.25), (0.85, 0.6), (1.0, 0.35))
    absent: float = 0.4
    hold: float = 0.5
    batch: int = 32
    rate: float = 1e-3
    seed: int = 0

    def window_at(self, step: int, rng: np.random.Generator) -> Window:
        """The window of patches that a step looks at."""
        progress = step / self.steps
        whole = progress >= self.whole_from and (
            progress >= self.whole_only_from or rng.random() < 0.5
        )
        return Window(0, 0, GRID) if whole else random_window(rng, 8)

    def spread_at(self, step: int) -> float:
        """Standard deviation of the soft labels, in locations in use."""
        progress = step / self.steps
        return next(spread for until, spread in self.spreads if progress < until)


STAGES = (
    GrounderRecipe(),
    GrounderRecipe(
        vision_steps=0,
        steps=1100,
        whole_from=0.45,
        whole_only_from=0.75,
        spreads=((0.3, 1.25), (0.6, 0.6), (1.0, 0.35)),
        absent=0.25,
        hold=0.4,
        seed=1,
    ),
)
"""On drawn pictures first, then on drawn, street and close-up pictures together."""


class GrounderTrainer(nn.Module):
    """The model and its auxiliary head."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.dense = DenseHead(model.config.vision_config.hidden_size)

    def vision(self, pixels: torch.Tensor, window: Window) -> torch.Tensor:
        """(B, P, width) features of a window's patches, other patches left out."""
        tower = vision_tower(self.model)
        low_y, low_x, side = window.row * 16, window.column * 16, window.side * 16
        shown = pixels[:, :, low_y : low_y + side, low_x : low_x + side]
        patches = tower.embeddings.patch_embedding(shown).flatten(2).transpose(1, 2)
        patches = patches + tower.embeddings.position_embedding(window.patches())[None]
        return tower.post_layernorm(tower.encoder(inputs_embeds=patches).last_hidden_state)

    def dense_loss(
        self, features: torch.Tensor, signs: list[list[Sign]], window: Window
    ) -> torch.Tensor:
        """Class and box sides of every patch."""
        classes, sides = dense_targets(signs, window)
        out = self.dense(features)
        kinds = 1 + len(CLASSES)
        weights = torch.full((kinds,), 2.0)
        weights[0] = 0.6
        loss = functional.cross_entropy(out[..., :kinds].flatten(0, 1), classes.flatten(), weights)
        inside = classes > 0
        if inside.any():
            loss = loss + 8 * (out[..., kinds:][inside] - sides[inside]).abs().mean()
        return loss

    def text_loss(self, features: torch.Tensor, texts: Texts, spread: float) -> torch.Tensor:
        """Cross entropy of the answers; locations with soft labels."""
        from transformers.modeling_outputs import BaseModelOutputWithPooling

        projected = self.model.model.multi_modal_projector(features)[texts.crops]
        hidden = self.model.model(
            input_ids=texts.ids,
            attention_mask=texts.mask,
            position_ids=texts.positions,
            token_type_ids=texts.types,
            mm_encoder_outputs={"image": BaseModelOutputWithPooling(pooler_output=projected)},
            use_cache=False,
        ).last_hidden_state
        learnt = texts.labels[:, 1:] != -100
        logits = self.model.lm_head(hidden[:, :-1][learnt])
        return answer_loss(logits, texts.labels[:, 1:][learnt], spread)


def answer_loss(logits: torch.Tensor, labels: torch.Tensor, spread: float) -> torch.Tensor:
    """Of logits (n, V), labels (n,); spread in locations in use; locations weigh half."""
    chances = torch.log_softmax(logits, dim=-1)
    places = torch.arange(BINS + 1) * STEP
    places[-1] = 1023
    columns = FIRST_LOCATION + places
    located = (labels >= FIRST_LOCATION) & (labels < FIRST_LOCATION + 1024)
    words = -chances[~located].gather(1, labels[~located, None]).mean()
    if not located.any():
        return words
    wanted = ((labels[located] - FIRST_LOCATION + 1) // STEP).float()  # 1023 -> the last one
    away = torch.arange(BINS + 1).float()[None] - wanted[:, None]
    soft = torch.softmax(-0.5 * (away / spread) ** 2, dim=1)
    return words + 0.5 * -(soft * chances[located][:, columns]).sum(dim=1).mean()


def train_grounder(
    pictures: Pictures,
    recipe: GrounderRecipe,
    folder: Path,
    progress: Progress | None = None,
    start: GrounderTrainer | None = None,
) -> GrounderTrainer:
    """The averaged trainer; goes on from a checkpoint in `folder`, or from `start`'s weights."""
    torch.manual_seed(recipe.seed)
    trainer = start if start is not None else GrounderTrainer(build_model())
    trainer.requires_grad_(True)

    def loss_at(step: int, rng: np.random.Generator) -> torch.Tensor:
        window = recipe.window_at(step, rng)
        count = recipe.batch // 2 if window.whole else recipe.batch
        pixels, signs = crops_at(pictures, rng, count, window)
        features = trainer.vision(pixels, window)
        loss = trainer.dense_loss(features, signs, window)
        if step < recipe.vision_steps:
            return loss
        asked = [
            (number, class_index, sign)
            for number, found in enumerate(signs)
            for class_index, sign in questions(rng, found, window, recipe.absent)
        ]
        texts = packed(asked, window)
        return 0.5 * loss + trainer.text_loss(features, texts, recipe.spread_at(step))

    settings = LoopSettings(
        "grounder",
        recipe.steps,
        warmup=min(200, recipe.steps // 10 + 1),
        hold=recipe.hold,
        average=0.99,
        clip=1.0,
        seed=recipe.seed,
    )
    averaged = run_loop(trainer, _optimizers(trainer, recipe), settings, loss_at, folder, progress)
    assert isinstance(averaged, GrounderTrainer)
    averaged.model.tie_weights()
    return averaged


def _optimizers(trainer: GrounderTrainer, recipe: GrounderRecipe) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for everything else."""
    matrices = [p for n, p in trainer.named_parameters() if p.ndim == 2 and ".layers." in n]
    taken = {id(p) for p in matrices}
    others = [p for p in trainer.parameters() if id(p) not in taken]
    groups = [
        {"params": [p for p in others if p.ndim > 1], "weight_decay": 0.02},
        {"params": [p for p in others if p.ndim <= 1], "weight_decay": 0.0},
    ]
    adam = torch.optim.AdamW(groups, lr=recipe.rate, betas=(0.9, 0.98))
    muon = FloatMuon(matrices, lr=2 * recipe.rate, weight_decay=0.02)
    return [adam, muon]
