"""``structgen draft train-acceptance`` and ``train-judge``: train what decides on the tokens of a drafter."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from structgen.extras import needed

from .draft_inputs import (
    add_model,
    add_texts,
    check_files,
    check_target,
    check_text_options,
    directory_of,
    features_of,
    model_of,
    with_options,
)
from .inputs import InputError

__all__ = ["add_train_acceptance", "add_train_judge"]

_MOST_BLOCKS = 16
_LARGEST_WEIGHT = 1e6


def add_train_acceptance(actions: Any) -> None:
    """Add ``train-acceptance`` to the actions."""
    parser = actions.add_parser(
        "train-acceptance",
        help="let a drafter estimate which of its tokens will be accepted",
        description="Let the model write texts, and train an acceptance head of a drafter on them (SpecDec++). The "
        "head is written into a copy of the drafter's file, and is used wherever that file is.",
    )
    add = parser.add_argument
    add("weights", type=Path, help="the drafter's weights")
    add("written", type=Path, help="the file that is written: the drafter with its head")
    add_model(parser)
    add_texts(parser, tokens=40_000, seed=1)
    add("--blocks", type=int, default=1, help="residual blocks of the head (1)")
    add("--rejection-weight", type=float, default=6.0, help="of a rejected token in the loss (6)")
    add("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(run=with_options(_train_acceptance))


def add_train_judge(actions: Any) -> None:
    """Add ``train-judge`` to the actions."""
    parser = actions.add_parser(
        "train-judge",
        help="train a probe that accepts more draft tokens, and changes texts (lossy)",
        description="Let the model write answers with constraints, and train a linear probe on draft tokens that it "
        "would not have drawn (Judge Decoding). A token counts as fine if the answer that goes on from it has the same "
        "value. Verification with a judge changes texts, so nothing uses it unless a caller allows that.",
    )
    add = parser.add_argument
    add("weights", type=Path, help="the drafter's weights")
    add("written", type=Path, help="the file that is written: the judge")
    add_model(parser)
    add_texts(parser, tokens=40_000, seed=2)
    add(
        "--labels",
        type=int,
        default=400,
        help="the most draft tokens that are labelled, an answer each (400)",
    )
    add("--threshold", type=float, default=0.5, help='the probability of "fine" from which it accepts (0.5)')
    add("--rejection-weight", type=float, default=1.0, help="of a token that is not fine in the loss (1)")
    add("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(run=with_options(_train_judge))


def _train_judge(arguments: argparse.Namespace) -> int:
    with needed("structgen draft", "transformers"):
        from structgen.draft_training.judging import fit_judge, label_drafts
        from structgen.speculative.learned import save_judge
        from structgen.speculative.learned.loading import checked_weights

    if arguments.prompts is None:
        raise InputError(
            "a judge is trained on answers with a constraint, which prompts of the model's own do not have",
            hint="Add --prompts FILE.",
        )
    if arguments.labels < 1:
        raise InputError("--labels is a number above 0")
    if not 0 < arguments.threshold < 1:
        raise InputError("--threshold is between 0 and 1")
    _check_rejection_weight(arguments.rejection_weight)
    weights = checked_weights(arguments.weights)
    _check_has_states(weights.kind)
    check_target(arguments.written, arguments.weights, arguments.prompts)
    check_files(prompts=arguments.prompts)
    check_text_options(arguments)
    directory_of(arguments, arguments.written)
    model = model_of(arguments)
    features = features_of(model, arguments, arguments.written)
    given = label_drafts(
        weights, model, features, most=arguments.labels, seed=arguments.seed, progress=not arguments.quiet
    )
    judge, report = fit_judge(
        given,
        threshold=arguments.threshold,
        rejection_weight=arguments.rejection_weight,
        seed=arguments.seed,
    )
    notes = {"labels": len(given.labels), "fine": int(given.labels.sum())}
    save_judge(judge, arguments.written, model.vocabulary.fingerprint, notes)
    print(
        f"{arguments.written}: of {report.tokens} draft tokens that the model would not have drawn, in texts that were "
        f"set apart, {report.fine:.0%} lead to the same value. The judge accepts {report.accepted}, of which "
        f"{report.right} lead to it."
    )
    return 0


def _check_rejection_weight(weight: float) -> None:
    if not 0 < weight <= _LARGEST_WEIGHT:
        raise InputError(
            f"--rejection-weight is {weight:g}; it is a number above 0, at most {_LARGEST_WEIGHT:g}"
        )


def _check_has_states(kind: str) -> None:
    """Raise `InputError`, before anything is collected, for prompt tokens."""
    if kind == "prompt-tokens":
        raise InputError(
            f"this reads the state of a drafter at each of its tokens, and the kind {kind!r} has none",
            hint="Use a drafter of another kind.",
        )


def _train_acceptance(arguments: argparse.Namespace) -> int:
    with needed("structgen draft", "transformers"):
        from structgen.draft_training.acceptance import acceptances, train_acceptance_head
        from structgen.draft_training.guesses import guesses_in_texts
        from structgen.speculative.learned import save_weights
        from structgen.speculative.learned.acceptance import network_tensors
        from structgen.speculative.learned.loading import checked_weights

    if not 0 <= arguments.blocks <= _MOST_BLOCKS:
        raise InputError(f"--blocks is {arguments.blocks}; it is a number from 0 to {_MOST_BLOCKS}")
    _check_rejection_weight(arguments.rejection_weight)
    weights = checked_weights(arguments.weights)
    weights = replace(weights, tensors=network_tensors(weights))
    _check_has_states(weights.kind)
    check_target(arguments.written, arguments.weights, *([arguments.prompts] if arguments.prompts else []))
    check_files(prompts=arguments.prompts)
    check_text_options(arguments)
    directory_of(arguments, arguments.written)
    model = model_of(arguments)
    features = features_of(model, arguments, arguments.written)
    guesses = guesses_in_texts(weights, model, features, progress=not arguments.quiet)
    given = acceptances(guesses, features.tokens, features.offsets, weights.token_ids)
    head, report = train_acceptance_head(
        given,
        blocks=arguments.blocks,
        rejection_weight=arguments.rejection_weight,
        seed=arguments.seed,
    )
    save_weights(replace(weights, tensors={**weights.tensors, **head.tensors()}), arguments.written)
    print(
        f"{arguments.written}: on {report.guesses} draft tokens of texts that were set apart, {report.accepted:.0%} "
        "are accepted. Of an accepted and a rejected one, the head prefers the accepted one in "
        f"{report.ranking:.1%} of the pairs, the drafter's own probability in {report.own_ranking:.1%}."
    )
    if report.ranking <= report.own_ranking:
        print("The head is no better than the drafter's own probability: use the file without it.")
    return 0
