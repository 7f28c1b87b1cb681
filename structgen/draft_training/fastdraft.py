"""FastDraft: train a draft model on corpora first, and then on the model's own texts.

Why: the model writes slowly, so its own texts are few. A draft model that has learned the language from other texts
needs few of them to learn how the model writes.
What: one stage for each corpus, in their order, which learns its tokens with cross-entropy; the paper has text first,
and then code. The last stage aligns the draft model with the model: it learns the model's own texts with the loss of
the recipe. A stage starts from the best weights of the stage before, and the first one from the model's own layers.
Stages share the minutes equally, and each reads its texts as often as the epochs of the recipe say.
Invariant: the result depends on the seed, the texts and the options only, as that of each training. Each stage has a
save of its own. An interrupted training goes on in the stage in which it has ended.
Source: Zafrir et al. 2024 (FastDraft: How to Train Your Draft), https://arxiv.org/abs/2411.11055. There draft models
start from random weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from structgen.errors import OptionError
from structgen.speculative.learned import DraftWeights

from .corpus import Corpus
from .features import Features
from .recipes import Recipe, train_drafter
from .training import Training

if TYPE_CHECKING:
    from structgen.models.hugging_face import HuggingFaceModel

__all__ = ["KIND", "stage_recipes", "train_in_stages"]

KIND = "layers"
"""The kind of drafter: a draft model, which reads tokens only."""


def stage_recipes(recipe: Recipe, corpora: int) -> list[Recipe]:
    """Return the recipe of each stage: those on corpora, and the last one on the model's own texts.

    Args:
        recipe: That of the last stage, with the minutes of all stages together.
        corpora: The number of corpora.

    Raises:
        OptionError: The recipe is not for a draft model.
    """
    if recipe.kind != KIND:
        raise OptionError(
            f"FastDraft trains a draft model, of the kind {KIND!r}, and the recipe is for the kind {recipe.kind!r}"
        )
    aligned = replace(recipe.options, minutes=recipe.options.minutes / (corpora + 1))
    learned = replace(aligned, loss="cross-entropy", on_policy=0.0)
    return [replace(recipe, reference=None, options=learned)] * corpora + [replace(recipe, options=aligned)]


def train_in_stages(
    model: HuggingFaceModel,
    corpora: Sequence[Corpus],
    features: Features,
    recipe: Recipe,
    *,
    save: Path | None = None,
    resume: bool = False,
    progress: bool = False,
    on_stage: Callable[[int, Training], None] | None = None,
) -> tuple[DraftWeights, Training]:
    """Train a draft model in stages.

    Args:
        model: The transformers model.
        corpora: The corpora of the first stages.
        features: The model's own texts and their states.
        recipe: What to train, see `stage_recipes`. The first stage starts from its `start`.
        save: Where the state of the last stage is saved; those of others are next to it, as ``corpus-1.`` and its name.
        resume: Whether to go on from there.
        progress: Whether to show a progress bar.
        on_stage: Called after each stage on a corpus, with its number from 0 and its training.

    Returns:
        The weights, and the training of the last stage.
    """
    *stages, last = stage_recipes(recipe, len(corpora))
    start, seconds = recipe.start, 0.0
    for number, (corpus, stage) in enumerate(zip(corpora, stages, strict=True)):
        start, training = train_drafter(
            model,
            corpus.features,
            replace(stage, start=start),
            save=save and save.with_name(f"corpus-{number + 1}.{save.name}"),
            resume=resume,
            progress=progress,
        )
        seconds += training.seconds
        if on_stage is not None:
            on_stage(number, training)
    weights, training = train_drafter(
        model, features, replace(last, start=start), save=save, resume=resume, progress=progress
    )
    notes = {
        "preset": "fastdraft",
        "corpus_tokens": [len(corpus.features.tokens) for corpus in corpora],
        "minutes": round((seconds + training.seconds) / 60, 1),
    }
    return replace(weights, notes={**weights.notes, **notes}), training
