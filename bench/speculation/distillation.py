"""Compare a draft model with the same one after distillation: tokens per forward pass, paired over prompts.

    python -m bench.speculation.distillation DIRECTORY --corpus FILE ... [--corpus-tokens N] [--epochs N]
        [--on-policy SHARE] [--selected SHARE] [--recipes NAME ...] [--prompts N] [--tokens N] [--length N]

DIRECTORY has the model's texts and their hidden states: ``structgen draft train --directory DIRECTORY`` collects them.
All draft models have two layers, start from the model's first layers, and draft the same tokens of the vocabulary.

undistilled  reads the corpora once, which are texts of others, and learns their tokens
sequences    then learns the tokens of the model's texts (distillation of sequences)
distilled    instead learns the model's distributions there, with forward KL (DistillSpec)
on-policy    the same, with a share of batches that the draft model writes itself (DistillSpec)
selective    as distilled, at the positions from which it can still learn most; the reference is distilled (AdaSPEC)

What was trained is kept in DIRECTORY and not trained again. Weights of other options are an error. Times are not
measured. ``python -m bench.speculation.corpora DIRECTORY`` writes the corpora of the published figures.

Results: docs/learned-drafts.md, "Measured".
Source: Zhou et al. 2024 (DistillSpec); Hu et al. 2025 (AdaSPEC).
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import structgen as sg
from bench.command import argument_parser
from structgen.draft_training.corpus import read_corpus
from structgen.draft_training.features import Features, load_features
from structgen.draft_training.recipes import Recipe, train_drafter
from structgen.draft_training.training import TrainingOptions, most_frequent_tokens
from structgen.models.hugging_face import HuggingFaceModel
from structgen.speculative.learned import DraftWeights, load_weights, save_weights

from .drafters import table, tokens_per_pass

__all__ = ["main"]

_RECIPES = ("undistilled", "sequences", "distilled", "on-policy", "selective")
_DRAFTED = 8192


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.speculation.distillation", __doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--corpus", type=Path, nargs="+", required=True)
    parser.add_argument("--corpus-tokens", type=int, default=200_000, help="of each corpus (200000)")
    parser.add_argument("--epochs", type=float, default=3.0, help="on the model's texts (3)")
    parser.add_argument("--on-policy", type=float, default=0.3)
    parser.add_argument("--selected", type=float, default=0.4)
    parser.add_argument("--recipes", nargs="+", default=list(_RECIPES), choices=_RECIPES)
    parser.add_argument("--prompts", type=int, default=50, help="at most 100 (50)")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--length", type=int, default=3, help="draft tokens at each step (3)")
    parser.add_argument("--threads", type=int, default=2)
    chosen = parser.parse_args(arguments)
    if not 2 <= chosen.prompts <= 100:
        parser.error(f"--prompts is {chosen.prompts}; it is a number from 2 to 100")
    paths = {name: chosen.directory / f"{name}.safetensors" for name in chosen.recipes}
    model = sg.load(threads=chosen.threads, dtype="bfloat16", pack=False)
    features = load_features(chosen.directory / "states")
    for path in chosen.corpus:
        if not path.is_file():
            parser.error(f"there is no file {path}")
    for name in _RECIPES:  # before any training
        _check_weights(name, features, chosen)
    for name in chosen.recipes:
        _weights(name, model, features, chosen)
    model = sg.load(threads=chosen.threads, dtype="bfloat16")  # packed: faster, and not for a training
    rates = {
        name: tokens_per_pass(model, path, prompts=chosen.prompts, tokens=chosen.tokens, length=chosen.length)
        for name, path in paths.items()
    }
    print(table(rates))
    if "distilled" in rates and next(iter(rates)) != "distilled":
        print("\n" + table({"distilled": rates.pop("distilled"), **rates}))


def _weights(
    name: str, model: HuggingFaceModel, features: Features, chosen: argparse.Namespace
) -> DraftWeights:
    """Return the weights of one of the recipes, of an earlier run or trained now."""
    path = chosen.directory / f"{name}.safetensors"
    if not path.exists():
        weights = _trained(name, model, features, chosen)
        notes = {**weights.notes, "bench": _options_of(name, features, chosen)}
        save_weights(replace(weights, notes=notes), path)
    return load_weights(path)


def _check_weights(name: str, features: Features, chosen: argparse.Namespace) -> None:
    """Raise `SystemExit` if a recipe was trained with other options or on other texts."""
    path = chosen.directory / f"{name}.safetensors"
    if path.exists():
        known = load_weights(path).notes.get("bench", "(no note of them)")
        if known != _options_of(name, features, chosen):
            raise SystemExit(f"{path} was trained with other options or texts: {known}; remove it")


def _options_of(name: str, features: Features, chosen: argparse.Namespace) -> dict[str, Any]:
    """Return what the weights of a recipe depend on, as JSON values."""
    options: dict[str, Any] = {
        "texts": hashlib.sha256(features.tokens.tobytes()).hexdigest()[:16],
        "corpora": [[path.name, path.stat().st_size] for path in chosen.corpus],
        "corpus_tokens": chosen.corpus_tokens,
    }
    if name != "undistilled":
        options["epochs"] = chosen.epochs
    if name == "on-policy":
        options["on_policy"] = chosen.on_policy
    if name == "selective":
        options["selected"] = chosen.selected
    return options


def _trained(
    name: str, model: HuggingFaceModel, features: Features, chosen: argparse.Namespace
) -> DraftWeights:
    """Train one of the recipes."""
    options = TrainingOptions(
        epochs=chosen.epochs,
        minutes=600.0,
        loss="cross-entropy" if name in ("undistilled", "sequences") else "forward-kl",
        on_policy=chosen.on_policy if name == "on-policy" else 0.0,
        selected=chosen.selected,
        patience=1000,
    )
    recipe = Recipe("layers", _DRAFTED, options=options, exits=(2,))
    if name != "undistilled":
        reference = _weights("distilled", model, features, chosen) if name == "selective" else None
        start = _weights("undistilled", model, features, chosen)
        recipe = replace(recipe, start=start, reference=reference)
        return _train(name, model, features, recipe)
    recipe = replace(recipe, options=replace(options, epochs=1.0))
    for path in chosen.corpus:
        corpus = read_corpus(model, path, most_tokens=chosen.corpus_tokens, shortest=options.steps_ahead + 2)
        recipe = replace(recipe, start=_train(f"{name}, {path.name}", model, corpus.features, recipe))
    assert recipe.start is not None
    # The corpora have other frequent tokens, and the layers do not depend on them.
    return replace(recipe.start, token_ids=most_frequent_tokens(features, _DRAFTED))


def _train(name: str, model: HuggingFaceModel, features: Features, recipe: Recipe) -> DraftWeights:
    weights, training = train_drafter(model, features, recipe, progress=True)
    print(
        f"{name}: {training.best.tokens_per_pass:.3f} tokens a pass on texts set apart, "
        f"{training.seconds:.0f} s",
        flush=True,
    )
    return weights


if __name__ == "__main__":
    main()
