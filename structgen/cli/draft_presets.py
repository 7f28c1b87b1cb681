"""``structgen draft train --preset``: recipes of several stages under one name."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .draft_inputs import outcome
from .inputs import InputError

if TYPE_CHECKING:
    from structgen.draft_training.corpus import Corpus
    from structgen.draft_training.features import Features
    from structgen.draft_training.recipes import Recipe
    from structgen.draft_training.training import Training
    from structgen.speculative.learned import DraftWeights

__all__ = ["add_preset", "check_corpora", "kind_of", "read_corpora", "train_preset"]

_CORPUS_TOKENS = 1_000_000
_KINDS = {"fastdraft": "layers"}
"""The presets, and the kind of drafter that each trains."""


def add_preset(parser: argparse.ArgumentParser) -> None:
    """Add the options of presets."""
    add = parser.add_argument
    add(
        "--preset",
        choices=tuple(_KINDS),
        help="fastdraft: a draft model that learns from --corpus first, and from the model's own texts then",
    )
    add(
        "--corpus",
        type=Path,
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="with --preset, texts to learn from, a stage each: UTF-8, or JSON lines with a text in each (.jsonl)",
    )
    add(
        "--corpus-tokens",
        type=int,
        help="the most tokens of each corpus; text beyond them is left out (1000000)",
    )


def kind_of(arguments: argparse.Namespace) -> str:
    """Return the kind of drafter that is trained.

    Raises:
        InputError: The preset is for another kind than ``--kind``, or there is a corpus and no preset.
    """
    if arguments.preset is None:
        if arguments.corpus:
            raise InputError(
                f"--corpus {arguments.corpus[0]}: only a preset trains on a corpus",
                hint="Add --preset fastdraft.",
            )
        return arguments.kind or "eagle"
    kind = _KINDS[arguments.preset]
    if arguments.kind not in (None, kind):
        raise InputError(
            f"--preset {arguments.preset} trains the kind {kind}, and --kind is {arguments.kind}",
            hint="Leave out one of them.",
        )
    return kind


def check_corpora(arguments: argparse.Namespace) -> None:
    """Read the corpora once, so that a fault in one is an error before a model is loaded."""
    from structgen.draft_training.corpus import check_corpus

    if arguments.corpus_tokens is not None and arguments.corpus_tokens < 1:
        raise InputError(f"--corpus-tokens is {arguments.corpus_tokens}; it is a number above 0")
    if arguments.corpus_tokens is not None and not arguments.corpus:
        raise InputError(
            "--corpus-tokens has no effect without --corpus", hint="Leave it out, or add --corpus FILE."
        )
    for path in arguments.corpus:
        check_corpus(path)


def read_corpora(model: Any, arguments: argparse.Namespace) -> list[Corpus]:
    """Return the corpora as tokens of the model."""
    from structgen.draft_training.corpus import read_corpus

    most = _CORPUS_TOKENS if arguments.corpus_tokens is None else arguments.corpus_tokens
    shortest = arguments.steps_ahead + 2  # a shorter piece has no position to learn from
    return [read_corpus(model, path, most_tokens=most, shortest=shortest) for path in arguments.corpus]


def train_preset(
    model: Any,
    corpora: list[Corpus],
    features: Features,
    recipe: Recipe,
    arguments: argparse.Namespace,
    save: Path,
) -> tuple[DraftWeights, Training]:
    """Train with a preset, and print a line for each stage on a corpus.

    Args:
        model: The model.
        corpora: What `read_corpora` returned.
        features: The model's own texts.
        recipe: That of the last stage.
        arguments: Those of ``train``.
        save: Where the state of the last stage is saved.

    Returns:
        The weights, and the training of the last stage.
    """
    from structgen.draft_training.fastdraft import train_in_stages

    if not corpora:
        print(
            "There is no --corpus: the draft model starts from the model's own layers, and learns from the model's own "
            "texts only.",
            flush=True,
        )

    def report(number: int, training: Training) -> None:
        corpus = corpora[number]
        tokens = f"{'' if corpus.is_whole else 'the first '}{len(corpus.features.tokens):,} tokens"
        print(
            f"stage {number + 1} of {len(corpora) + 1}, {corpus.path}: {tokens} in {len(corpus.features):,} pieces; "
            f"{outcome(training)}",
            flush=True,
        )

    return train_in_stages(
        model,
        corpora,
        features,
        recipe,
        save=save,
        resume=True,
        progress=not arguments.quiet,
        on_stage=report,
    )
