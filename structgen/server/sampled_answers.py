"""Answers of requests that name a sampler (``structgen.sampler``).

Why: samplers drive sessions of the model themselves. Their passes run on the model's thread, between those of the
batch (`SharedModel`); everything else runs on a thread of the sampler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from structgen.errors import LimitExceeded
from structgen.inference.sampling import sample
from structgen.serving.compiler import CompiledConstraint
from structgen.serving.isolatable_constraint import IsolatableConstraint
from structgen.vocabulary import Vocabulary

from .answers import Choice, finite, whole_turn
from .completion_request import CompletionRequest
from .model_thread import ModelThread
from .shared_model import SharedModel

__all__ = ["draw_choices"]

_MOST_SHOWN = 10
"""Texts in the sampler's report."""


def draw_choices(
    request: CompletionRequest,
    prompt: Sequence[int],
    constraint: CompiledConstraint | IsolatableConstraint | None,
    model_thread: ModelThread,
    spell: Callable[[Sequence[int]], bytes],
    *,
    max_seconds: float,
    cancel: Callable[[], bool],
) -> tuple[list[Choice], int, dict[str, Any]]:
    """Draw the answers of a request with its sampler, on the calling thread.

    Args:
        request: The request, whose `sampler` is not None.
        prompt: The prompt's tokens.
        constraint: Its constraint; None for free text.
        model_thread: The thread that runs the model.
        spell: Returns the bytes of tokens, with special tokens by their names.
        max_seconds: The time limit, unless the request sets a lower one.
        cancel: Called repeatedly; True ends the sampler.

    Returns:
        The choices, their number of tokens, and what the sampler reports.

    Raises:
        StructgenError: The sampler has failed.
    """
    assert request.sampler is not None
    if isinstance(constraint, IsolatableConstraint):
        constraint = constraint.in_own_engine()
        if constraint is None:
            raise LimitExceeded(
                "the constraint takes too long for a sampler", limit="sampler", hint="Send a smaller one."
            )
    model = model_thread.model
    vocabulary: Vocabulary = model.vocabulary if constraint is None else constraint.vocabulary
    shared: Any = SharedModel(model, vocabulary, model_thread.call, model_thread.most_call_tokens, prompt)
    options = request.options
    posterior = sample(
        shared,
        "",
        str if constraint is None else constraint.constraint,
        n=request.n,
        sampler=request.sampler.sampler,
        temperature=options.effective_temperature,
        max_tokens=options.max_tokens,
        seed=options.seed,
        cancel=cancel,
        speculate=False,
        **{"max_seconds": max_seconds, **request.sampler.limits},
    )
    choices, tokens = [], 0
    for index in _chosen(posterior, request.n, options.seed):
        draw = posterior.draws[index]
        tokens += len(draw.tokens)
        text, calls, reasoning = posterior.texts[index], [], None
        if (reader := request.reader()) is not None:
            spelled = spell(draw.tokens).decode("utf-8", "replace")
            turn = whole_turn(reader, spelled, is_cut_off=constraint is None)
            text, calls, reasoning = turn.text, turn.calls, turn.reasoning
        details = {"weight": float(posterior.weights[index]), "logprob": finite(draw.log_prob)}
        choices.append(Choice(text, "tool_calls" if calls else "stop", calls, reasoning, details=details))
    return choices, tokens, _report(posterior, request.sampler.name)


def _chosen(posterior: Any, n: int, seed: Any) -> Sequence[int]:
    """Return which draws are the answers: all of them if they weigh the same, or `n` by weight."""
    weights = posterior.weights
    if len(posterior.draws) == n and np.ptp(posterior.log_weights) < 1e-9:
        return range(n)
    random = np.random.default_rng(seed)
    return [int(index) for index in random.choice(len(weights), size=n, p=weights)]


def _report(posterior: Any, name: str) -> dict[str, Any]:
    account = posterior.account
    return {
        "sampler": name,
        "draws": len(posterior.draws),
        "effective": float(posterior.ess),
        "log_z": finite(posterior.log_z),
        "model_calls": account.calls,
        "stopped": account.stopped,
        "texts": [
            {"text": text.text, "weight": text.weight, "draws": text.draws}
            for text in posterior.merged[:_MOST_SHOWN]
        ],
    }
