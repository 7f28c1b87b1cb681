"""The compiler of a server under untrusted constraints, together with harmless ones that must not be affected.

A server runs the constraints of all its clients in one process. It may refuse a hostile one or move it to a process of
its own. A hostile one may not delay the core, make a neighbour's masks wrong, or have a neighbour refused.

Checked: no call in the server's process takes more than `_CALL_SECONDS` of CPU time; a token of the mask is accepted; a
harmless neighbour has the same masks as alone; nothing ends in an internal error. An input is one of target core
(``kind``, ``source``, ``walk``); the rest of it is ignored. Cost: two processes in addition to the worker, and one more
for each slow constraint.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from structgen.errors import LimitExceeded, OptionError
from structgen.generation.distributions import allowed_ids
from structgen.serving.isolating_compiler import IsolatingCompiler
from structgen.serving.limits import RequestLimits
from structgen.serving.requests import Kind
from structgen.vocabulary import Vocabulary

from .walking import Broken, vocabularies

__all__ = ["check_served"]

_KINDS: dict[str, Kind] = {
    "schema": "json",
    "regex": "regex",
    "lark": "grammar",
    "gbnf": "grammar",
    "ebnf": "grammar",
}
_LIMITS = RequestLimits(compile_seconds=2.0, step_seconds=1.0, max_matcher_processes=4)
_STEPS = 16
_WALK_SECONDS = 3.0
_CALL_SECONDS = 0.25
"""Far beyond what a call may take (30 ms), so that what cannot be interrupted for a moment is no finding."""
_FAULTS = ("internal", "closed")
_NEIGHBOURS: tuple[tuple[Kind, Any], ...] = (
    (
        "json",
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 9},
                "age": {"type": "integer", "maximum": 99},
            },
            "required": ["name", "age"],
            "additionalProperties": False,
        },
    ),
    (
        "json",
        {"type": "array", "items": {"type": "number", "multipleOf": 5}, "minItems": 2, "uniqueItems": True},
    ),
    ("regex", r"[A-Z]{2}-\d{4}( \w+){0,3}"),
    ("grammar", 'root ::= item ("," item)*\nitem ::= [a-z]+ | "(" root ")"\n'),
    ("choice", ["true", "trust", "tab", "the end"]),
)


def check_served(text: str, stage: Callable[[str], None]) -> None:
    """One input of target served; an input of another form is refused with `OptionError`."""
    stage("read")
    try:
        case = json.loads(text)
        kind, source, seed = _KINDS[case["kind"]], str(case["source"]), int(case.get("walk", 0))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise OptionError("not an input of target served") from None
    served = _served()
    rng = random.Random(seed)
    try:
        stage("serve")
        _walk(served, kind, source, rng)
    except LimitExceeded as error:
        if error.limit in _FAULTS:
            raise Broken("nothing ends in an internal error", str(error)) from error
        raise
    finally:
        stage("neighbour")
        served.check_neighbour(rng.randrange(len(_NEIGHBOURS)))


class _Served:
    """A compiler, and what its harmless users saw when they were alone."""

    def __init__(self) -> None:
        self.vocabulary: Vocabulary = vocabularies()[1]
        self.compiler = IsolatingCompiler(self.vocabulary, _LIMITS, workers=1)
        self._alone = [self._neighbour(index) for index in range(len(_NEIGHBOURS))]

    def check_neighbour(self, index: int) -> None:
        """It has the masks that it has alone."""
        try:
            masks = self._neighbour(index)
        except LimitExceeded as error:
            if error.limit in ("busy", "max_matcher_processes"):  # so is the machine
                return
            raise Broken("a harmless neighbour is not refused", f"{_NEIGHBOURS[index]}: {error}") from error
        if masks != self._alone[index]:
            raise Broken("a harmless neighbour has the masks that it has alone", str(_NEIGHBOURS[index]))

    def _neighbour(self, index: int) -> list[str]:
        kind, spec = _NEIGHBOURS[index]
        rng = random.Random(index)
        matcher = self.compiler.compile(kind, spec).open()
        seen = []
        for _ in range(_STEPS):
            mask = _timed(matcher.mask)
            seen.append(hashlib.sha256(mask.tobytes()).hexdigest())
            token = _one_of(mask, self.vocabulary, rng)
            if token is None or not _timed(partial(matcher.advance, token)):
                break
        return seen


@cache
def _served() -> _Served:
    return _Served()


def _walk(served: _Served, kind: Kind, source: str, rng: random.Random) -> None:
    matcher = served.compiler.compile(kind, source).open()
    until = time.monotonic() + _WALK_SECONDS
    try:
        _timed(lambda: matcher.least_tokens(64))
        for _ in range(_STEPS):
            mask = _timed(matcher.mask)
            _timed(matcher.forced)
            token = _one_of(mask, served.vocabulary, rng)
            if token is None or time.monotonic() > until:
                break
            if not _timed(partial(matcher.advance, token)):
                raise Broken("a token that the mask allows is taken", f"{matcher.tokens}, then token {token}")
            if rng.random() < 0.2:
                _timed(lambda: matcher.rollback(1))
                if not np.array_equal(mask, _timed(matcher.mask)):
                    raise Broken("going back brings the mask back", str(matcher.tokens))
    finally:
        matcher.on_disconnect()


def _timed(call: Callable[[], Any]) -> Any:
    """Return the result of a call. Raise `Broken` if it takes too much CPU time in this process."""
    started = time.thread_time()
    try:
        return call()
    finally:
        seconds = time.thread_time() - started
        if seconds > _CALL_SECONDS:
            raise Broken("a call in the server's process is short", f"{seconds:.2f} s of CPU time")


def _one_of(mask: Any, vocabulary: Vocabulary, rng: random.Random) -> int | None:
    """Return an allowed token that goes on, or None."""
    bits = allowed_ids(mask, vocabulary.size)
    onwards = [int(token) for token in bits if token not in vocabulary.eos_ids]
    return rng.choice(onwards) if onwards else None
