"""One spec tried out: read, compiled, its first masks made, and each of these timed.

Why: whether a spec from a stranger is harmless is known only after it was compiled, so that is done where nothing else
runs (`worker`), and what was seen there decides how the serving process takes it.
Invariant: a trial has no effect but on the vocabulary's caches.
Cost: compiling and a few dozen masks, about a millisecond for most specs.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from structgen import _core
from structgen.constraints.base import Constraint
from structgen.constraints.failures import limit_exceeded
from structgen.matcher import compile_constraint
from structgen.vocabulary import Vocabulary

from .requests import Kind, RequestLimits, constraint_of

__all__ = ["Trial", "serving_vocabulary", "special_names", "try_out"]

_STEPS = 24
_ANY_ROOM = (1 << 63) - 1
_SECONDS = 0.05
"""A trial makes masks for so many tokens, or so long in CPU time."""
_SERVING_LIMITS = {
    "mask_steps": 500_000,
    "oracle_budget": 10_000,
    "earley_items": 20_000,
    "space_bytes": 64 << 20,
}
"""Limits of the core under which one mask delays a batch by little (docs/vllm.md), where the vocabulary sets none."""


@dataclass(frozen=True)
class Trial:
    """What was seen of a spec."""

    pickled: bytes
    """The constraint."""
    seconds: float
    """Reading, compiling and the masks together."""
    install_seconds: float
    """CPU time to have it in another process: to unpickle it and to build its automaton, holding the GIL."""
    slowest_mask: float
    """Seconds of CPU time, which a busy machine does not stretch."""
    least_tokens: int | None = None
    """Of the shortest text that was found at once; None if none was."""

    def constraint(self) -> Constraint:
        made = pickle.loads(self.pickled)
        assert isinstance(made, Constraint)
        return made


def try_out(kind: Kind, spec: Any, vocabulary: Vocabulary, limits: RequestLimits) -> Trial:
    """Raises `StructgenError` where the spec is refused."""
    begin = perf_counter()
    constraint = constraint_of(kind, spec, limits, specials=special_names(vocabulary))
    pickled = pickle.dumps(constraint, pickle.HIGHEST_PROTOCOL)
    started = thread_time()
    copy = pickle.loads(pickled)
    lowered = copy.lower()
    try:
        program = vocabulary.engine.compile(lowered)
    except _core.LimitError as error:
        raise limit_exceeded(error, constraint.describe()) from None
    install = thread_time() - started
    compile_constraint(constraint, vocabulary)  # tells what is wrong with an empty one
    slowest = _slowest_mask(program, vocabulary)
    least = _least_tokens(program)
    return Trial(pickled, perf_counter() - begin, install, slowest, least)


def special_names(vocabulary: Vocabulary) -> tuple[str, ...]:
    """The special tokens that a constraint may name, without those that end a text."""
    return tuple(text for text, i in vocabulary.specials.items() if i not in vocabulary.eos_ids)


def serving_vocabulary(vocabulary: Vocabulary) -> Vocabulary:
    """The same tokens with an engine of its own under limits for serving; the native trie is shared."""
    made = vocabulary.with_limits(**{**_SERVING_LIMITS, **vocabulary.limits})
    made.__dict__["native"] = vocabulary.native
    return made


def _slowest_mask(program: _core.Program, vocabulary: Vocabulary) -> float:
    """CPU time that the slowest mask of a random text took, with the token read before it."""
    draw = random.Random(0)
    matcher = _core.Matcher(program)
    slowest, begin = 0.0, thread_time()
    token: int | None = None
    for _ in range(_STEPS):
        started = thread_time()
        try:
            if token is not None and not matcher.advance(token):
                break
            mask = matcher.mask()
            matcher.forced()  # asked for at each token, too
        except _core.LimitError as error:
            raise limit_exceeded(error) from None
        slowest = max(slowest, thread_time() - started)
        if thread_time() - begin > _SECONDS or matcher.is_finished:
            break
        token = _one_of(mask, vocabulary.eos_ids, draw)
        if token is None:
            break
    return slowest


def _least_tokens(program: _core.Program) -> int | None:
    try:
        return _core.Matcher(program).least_tokens(_ANY_ROOM)
    except _core.LimitError:
        return None


def _one_of(mask: Any, eos_ids: Sequence[int], draw: random.Random) -> int | None:
    """An allowed token, no end of text if there is another one; None if there is none."""
    allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
    going_on = allowed[~np.isin(allowed, eos_ids)]
    return int(draw.choice(going_on)) if len(going_on) else None
