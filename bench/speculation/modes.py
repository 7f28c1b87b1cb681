"""Named combinations of drafters and verifiers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from structgen.speculative import (
    Confidence,
    Copying,
    DraftModel,
    Fixed,
    ForcedBytes,
    GreedyTransport,
    KSeq,
    LayerSkip,
    LogitNGrams,
    Recursive,
    Rejection,
    Speculation,
    SuffixStore,
    TokenLookup,
    TokenRecycling,
    TriGrams,
    default_drafters,
)

__all__ = ["COMMON", "LEARNED", "MODES", "learned_modes"]

Make = Callable[[Any], Speculation]


def _draft_model(model: Any) -> Speculation:
    """The model itself in bfloat16: the best draft there is, at two thirds of the cost."""
    import structgen as sg

    small = _draft_models.setdefault(id(model), sg.load(dtype="bfloat16"))
    return Speculation([ForcedBytes(), DraftModel(small)], controller=Confidence(0.3))


_draft_models: dict[int, Any] = {}


def _learning() -> list[Any]:
    return [LogitNGrams(), TriGrams()]


MODES: dict[str, Make] = {
    "default": lambda model: Speculation(default_drafters(model)),
    "default in sequences": lambda model: Speculation(default_drafters(model), branching=False),
    "without learned drafters": lambda model: Speculation(),
    "without learned drafters, in trees": lambda model: Speculation(branching=True),
    "forced bytes": lambda model: Speculation([ForcedBytes()]),
    "copying": lambda model: Speculation([Copying()]),
    "look-up": lambda model: Speculation([TokenLookup()]),
    "suffix store": lambda model: Speculation([SuffixStore()]),
    "recycling": lambda model: Speculation([TokenRecycling()]),
    "n-grams of logits": lambda model: Speculation([LogitNGrams()]),
    "tri-grams": lambda model: Speculation([TriGrams()]),
    "layer skip": lambda model: Speculation([LayerSkip()], controller=Confidence(0.4)),
    "draft model": _draft_model,
    "all tables": lambda model: Speculation(
        [ForcedBytes(), Copying(), TokenLookup(), SuffixStore(), *_learning()], branching=True
    ),
    "default with 8 at a time": lambda model: Speculation(default_drafters(model), controller=Fixed(8)),
    "default with confidence": lambda model: Speculation(default_drafters(model), controller=Confidence(0.3)),
    "tables with match": lambda model: Speculation([ForcedBytes(), *_learning()], branching=True),
    "tables with rejection": lambda model: Speculation([ForcedBytes(), *_learning()], Rejection()),
    "tables with recursive": lambda model: Speculation(
        [ForcedBytes(), *_learning()], Recursive(), branching=True
    ),
    "tables with k-seq": lambda model: Speculation([ForcedBytes(), *_learning()], KSeq(), branching=True),
    "tables with greedy": lambda model: Speculation(
        [ForcedBytes(), *_learning()], GreedyTransport(), branching=True
    ),
}
COMMON = ("default",)
LEARNED = (
    "with drafter",
    "with drafter in sequences",
    "drafter with 8 in trees",
    "drafter of all tokens with 8 in trees",
)
"""The modes with a learned drafter, `learned_modes`."""


def learned_modes(path: str) -> dict[str, Make]:
    """Return the modes with the learned drafter of a file."""
    from structgen.speculative.learned import load_drafter

    def with_default(*, branching: bool) -> Make:
        return lambda model: Speculation(
            [*Speculation().drafters, load_drafter(path, model)], branching=branching
        )

    def alone(model: Any, *, trimmed: bool) -> Speculation:
        drafter = load_drafter(path, model, least=0.1)
        if not trimmed:
            every = replace(drafter.weights, token_ids=np.arange(model.vocabulary.size))
            drafter = type(drafter)(every, least=0.1)
        return Speculation([drafter], controller=Fixed(8), branching=True)

    makes: tuple[Make, ...] = (
        with_default(branching=True),
        with_default(branching=False),
        partial(alone, trimmed=True),
        partial(alone, trimmed=False),
    )
    return dict(zip(LEARNED, makes, strict=True))
