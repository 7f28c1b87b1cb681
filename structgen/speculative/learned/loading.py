"""`load_drafter`: the drafter of a file or a folder, of any kind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from structgen.errors import ModelError, OptionError

from ..speculation import Speculation
from .acceptance import acceptance_head, has_acceptance_head, network_tensors
from .checkpoints import check_checkpoint, is_checkpoint, load_checkpoint
from .eagle import Eagle
from .heads import Hydra, Medusa
from .kangaroo import Kangaroo
from .learned_drafter import LearnedDrafter
from .made_networks import network_of
from .nested_layers import NestedLayers
from .prompt_tokens import PromptTokens
from .weights import DraftWeights, load_weights

__all__ = [
    "check_drafter",
    "check_tensors",
    "checked_weights",
    "drafter_of",
    "load_drafter",
    "speculation_with",
]

_KINDS: dict[str, type[LearnedDrafter[Any]]] = {
    each.kind: each for each in (Eagle, Medusa, Hydra, Kangaroo, NestedLayers, PromptTokens)
}


def load_drafter(
    path: str | Path, model: Any = None, *, any_base: bool = False, **options: Any
) -> LearnedDrafter[Any]:
    """Return the drafter of a file that `structgen draft train` wrote, or of a checkpoint of another project.

    Args:
        path: The file. For a checkpoint of Medusa, EAGLE or `speculators`: its folder, see `load_checkpoint`.
        model: The model that it drafts for. Only checkpoints need it.
        any_base: Whether to load a checkpoint although it names another model, see `load_checkpoint`. Other files name
            none.
        options: Options of the drafter, such as ``most`` and ``width``. A file with an acceptance head
            (`structgen draft train-acceptance`) gives a drafter with it, unless ``acceptance=None`` leaves it out.

    Raises:
        ModelError: The file cannot be read, is not complete, or has weights of another kind; or a checkpoint is not for
            the model.
        OptionError: The drafter has no such option.
        VocabularyMismatch: The checkpoint has another tokenizer.
        VocabularyError: The checkpoint has a tokenizer that cannot be read.
    """
    if is_checkpoint(path):
        if model is None:
            raise ModelError(
                f"{path} is a checkpoint of another project, which is read for one model",
                hint="Give the model: load_drafter(path, model).",
            )
        return load_checkpoint(path, model, any_base=any_base, **options)
    return drafter_of(_known_weights(path), **options)


def check_drafter(path: str | Path, *, in_batches: bool = False) -> None:
    """Check the file or the folder of a drafter as far as that needs no model.

    Why: loading a model takes long, so what is wrong without it should be an error before.

    Args:
        path: What `load_drafter` takes.
        in_batches: Whether rows of a running batch will use it.

    Raises:
        ModelError: The file or folder cannot be read, is not complete, or has weights of another kind or shape. The
            model's sizes and tokenizer are compared later, when the drafter is made for it.
        OptionError: It does not draft in running batches.
    """
    if is_checkpoint(path):
        check_checkpoint(path)
    else:
        _check_batches(path, _KINDS[checked_weights(path).kind], in_batches=in_batches)


def checked_weights(path: str | Path) -> DraftWeights:
    """Return the weights of a file of `structgen draft train`, of a known kind and with tensors that fit their sizes.

    Raises:
        ModelError: The file cannot be read, is not complete, or has weights of another kind or shape.
    """
    weights = _known_weights(path)
    try:
        check_tensors(weights)
        drafter_of(weights)  # which reads an acceptance head, too
    except (ModelError, OptionError) as error:  # OptionError: prompt tokens have no acceptance head
        raise ModelError(f"{path}: {error.message}", hint=error.hint) from error
    return weights


def _known_weights(path: str | Path) -> DraftWeights:
    """Read weights of a kind for which there is a drafter."""
    if is_checkpoint(path) and os.path.exists(path):
        what = "a folder" if os.path.isdir(path) else "a file of another project"
        raise ModelError(
            f"{path} is {what}; only a file that structgen wrote can be used here",
            hint="Make one: structgen draft train.",
        )
    weights = load_weights(path)
    if weights.kind not in _KINDS:
        raise ModelError(
            f"{path} has weights of the kind {weights.kind!r:.40}, which this version does not know",
            hint=f"It knows {', '.join(sorted(_KINDS))}.",
        )
    return weights


def _check_batches(path: str | Path, drafter: type[LearnedDrafter[Any]], *, in_batches: bool) -> None:
    """Raise `OptionError` if a drafter is to draft in running batches and does not."""
    if in_batches and not drafter.drafts_in_batches:
        raise OptionError(
            f"{path} has a drafter of the kind {drafter.kind!r}, which does not draft in a running batch",
            hint="A server takes those of the kinds eagle, medusa, hydra and layers.",
        )


def drafter_of(weights: DraftWeights, **options: Any) -> LearnedDrafter[Any]:
    """Return the drafter of weights of a known kind; it has their acceptance head, if they contain one.

    Args:
        weights: The weights.
        options: Options of the drafter. ``acceptance=None`` leaves the head out.
    """
    made = _KINDS[weights.kind]
    made.check_options(options)
    if "acceptance" not in options and has_acceptance_head(weights):
        options["acceptance"] = acceptance_head(weights)
    return made(weights, **options)


def check_tensors(weights: DraftWeights) -> None:
    """Check that the tensors of weights of a known kind have the shapes that their sizes give.

    Raises:
        ModelError: They do not.
    """
    drafter = drafter_of(weights, acceptance=None)
    network_of(drafter.new_network, network_tensors(weights), "the drafter's weights")


def speculation_with(
    path: str | Path, model: Any, *, in_batches: bool = False, any_base: bool = False
) -> Speculation:
    """Return a `Speculation` with the default drafters and the one of a file, which is checked against the model.

    Args:
        path: The file or the folder, see `load_drafter`.
        model: The model.
        in_batches: Whether rows of a running batch will use it.
        any_base: See `load_drafter`.

    Raises:
        ModelError: The drafter cannot be read, or is not for the model.
        OptionError: It does not draft in running batches.
        VocabularyMismatch: It was trained with another tokenizer.
        VocabularyError: A checkpoint has a tokenizer that cannot be read.
    """
    drafter = load_drafter(path, model, any_base=any_base)
    _check_batches(path, type(drafter), in_batches=in_batches)
    drafter.prepare(model)
    return Speculation([*Speculation().drafters, drafter], branching=False if in_batches else None)
