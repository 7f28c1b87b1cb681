"""``structgen draft train-acceptance``: train what judges the tokens of a drafter."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from structgen.extras import needed

from .draft_inputs import add_model, add_texts, features_of, model_of
from .inputs import InputError

__all__ = ["add_train_acceptance"]


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
    parser.set_defaults(run=_train_acceptance)


def _train_acceptance(arguments: argparse.Namespace) -> int:
    with needed("structgen draft", "transformers"):
        from structgen.draft_training.acceptance import acceptances, train_acceptance_head
        from structgen.draft_training.guesses import guesses_in_texts
        from structgen.speculative.learned import load_weights, save_weights
        from structgen.speculative.learned.acceptance import network_tensors

    weights = load_weights(arguments.weights)
    weights = replace(weights, tensors=network_tensors(weights))
    if weights.kind == "prompt-tokens":
        raise InputError("an acceptance head reads a drafter's states, and prompt tokens have none")
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
