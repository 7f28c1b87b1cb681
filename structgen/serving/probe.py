"""A compile probe: read a spec, compile it, compute its first masks, and time each of these.

Why: whether a stranger's spec is harmless is known only after it was compiled. A probe does that in a worker process
(`probe_worker`), and its measurements decide how the serving process treats the spec.
Invariant: a probe changes nothing but the caches of its vocabulary.
Cost: compiling and a few dozen masks, about a millisecond for most specs.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from structgen import _core
from structgen.constraints.base import IR, Constraint
from structgen.constraints.failures import limit_exceeded
from structgen.errors import LimitExceeded
from structgen.matcher import compile_constraint
from structgen.tools.forms import Forms, are_forms
from structgen.tools.turn import ToolTurn
from structgen.vocabulary import Vocabulary

from .limits import RequestLimits
from .requests import Kind, constraint_of
from .wire import Garbled, dump_tree, load_tree, pack

__all__ = [
    "DeferredConstraint",
    "LoweredConstraint",
    "ProbeResult",
    "probe_compile",
    "serving_vocabulary",
    "special_names",
]

_MOST_TOKENS = 24
"""Tokens for which a probe computes masks."""
_ANY_ROOM = (1 << 63) - 1
_WORK_SECONDS = 20e-9
"""Seconds of one unit of the core's work."""
_READ_SECONDS = 80e-9
"""Seconds in which one byte of the lowered form is read, which the core does not count as work. Measured values are
between 6 ns (long texts) and 85 ns (classes with many ranges)."""
_MASK_SECONDS = 0.05
"""CPU time after which a probe computes no more masks."""
_SERVING_LIMITS = {
    "mask_steps": 500_000,
    "oracle_budget": 10_000,
    "earley_items": 20_000,
    "space_bytes": 64 << 20,
}
"""Default limits of the core for serving, under which one mask delays a batch only briefly (docs/vllm.md)."""


class LoweredConstraint(Constraint):
    """A constraint that another process has read: its IR as bytes (`wire.dump_tree`), and its description.

    Constraints with equal bytes are equal.
    """

    __slots__ = ("content", "description")

    content: bytes
    description: str

    def __init__(self, content: bytes, description: str) -> None:
        object.__setattr__(self, "content", content)
        object.__setattr__(self, "description", description)

    def lower(self) -> IR:
        """Return the IR. Raises `LimitExceeded` if the bytes are invalid."""
        try:
            found: IR = load_tree(self.content)
        except Garbled:
            raise LimitExceeded(
                "the process that compiled the request's constraint sent an invalid answer",
                limit="internal",
                hint="Please report it with the constraint.",
            ) from None
        return found

    def describe(self) -> str:
        """Return the description that the other process sent."""
        return self.description

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoweredConstraint) and self.content == other.content

    def __hash__(self) -> int:
        return hash(self.content)

    def __repr__(self) -> str:
        return f"<{self.description}>"


class DeferredConstraint(Constraint):
    """A spec that is read when its IR is needed."""

    __slots__ = ("description", "kind", "limits", "spec", "specials")

    description: str
    kind: Kind
    spec: Any
    limits: RequestLimits
    specials: tuple[str, ...]

    def __init__(
        self, kind: Kind, spec: Any, limits: RequestLimits, specials: tuple[str, ...], description: str
    ) -> None:
        for name, value in (
            ("kind", kind),
            ("spec", spec),
            ("limits", limits),
            ("specials", specials),
            ("description", description),
        ):
            object.__setattr__(self, name, value)

    def lower(self) -> IR:
        """Read the spec and return its IR."""
        return constraint_of(self.kind, self.spec, self.limits, specials=self.specials).lower()

    def describe(self) -> str:
        """Return the description that was found when the spec was probed."""
        return self.description

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<{self.description}>"


@dataclass(frozen=True)
class ProbeResult:
    """What a probe measured."""

    description: str
    lowered: bytes | None
    """The IR as bytes. None if it is not data (plans unfold while they are read); then the spec is read again."""
    seconds: float
    """Wall time of reading, compiling and the masks together."""
    install_seconds: float
    """CPU time to load it in another process: to read the IR and to build the automaton, which holds the GIL."""
    install_work: float
    """An estimate of that time, in seconds: the work that the core counted, and the size of the lowered form. It is
    the same on every machine, however busy, unless there is no lowered form; then reading counts with its CPU time."""
    slowest_mask: float
    """CPU time of the slowest mask, in seconds. Other work on the machine does not lengthen it."""
    least_tokens: int | None = None
    """Tokens of a short text, if one was found at once."""
    forms: Forms = field(default_factory=dict)
    """For a turn with tools: how the values of parameters are written, for the reader of its text."""

    def constraint(self, kind: Kind, spec: Any, vocabulary: Vocabulary, limits: RequestLimits) -> Constraint:
        """Return the spec's constraint, which reads nothing before it is lowered."""
        return _deferred(kind, spec, self.lowered, self.description, vocabulary, limits)

    def pack(self) -> bytes:
        """Return the result as a message."""
        numbers = [
            self.seconds,
            self.install_seconds,
            self.install_work,
            self.slowest_mask,
            self.least_tokens,
        ]
        content = [self.description, self.lowered is not None, *numbers, self.forms]
        return pack("probe", content, self.lowered or b"")

    @classmethod
    def unpacked(cls, content: Any, tail: bytes) -> ProbeResult:
        """Read a message. Raises `Garbled`."""
        if not isinstance(content, list) or len(content) != 8 or not isinstance(content[0], str):
            raise Garbled("not a probe")
        seconds, install, work, slowest, least, forms = content[2:]
        times = (seconds, install, work, slowest)
        if not all(type(number) in (int, float) and number >= 0 for number in times):
            raise Garbled("not the times of a probe")
        if least is not None and type(least) is not int:
            raise Garbled("not the length of a text")
        if not are_forms(forms):
            raise Garbled("not the forms of parameters")
        lowered = tail if content[1] is True else None
        return cls(content[0], lowered, seconds, install, work, slowest, least, forms)


def probe_compile(kind: Kind, spec: Any, vocabulary: Vocabulary, limits: RequestLimits) -> ProbeResult:
    """Compile a spec in this process and measure it. Raises `StructgenError` if it is refused."""
    begin = perf_counter()
    constraint = constraint_of(kind, spec, limits, specials=special_names(vocabulary))
    lowered = dump_tree(constraint.lower())
    started, work = thread_time(), _core.work_done()
    ir = _deferred(kind, spec, lowered, constraint.describe(), vocabulary, limits).lower()
    reading = thread_time() - started if lowered is None else _READ_SECONDS * len(lowered)
    try:
        program = vocabulary.engine.compile(ir)
    except _core.LimitError as error:
        raise limit_exceeded(error, constraint.describe()) from None
    install, work = thread_time() - started, _core.work_done() - work
    if program.empty_parts() is not None:
        compile_constraint(constraint, vocabulary)  # raises the error that explains why
    slowest = _slowest_mask(program, vocabulary)
    least = _least_tokens(program)
    forms = constraint.forms if isinstance(constraint, ToolTurn) else {}
    return ProbeResult(
        constraint.describe(),
        lowered,
        perf_counter() - begin,
        install,
        reading + work * _WORK_SECONDS,
        slowest,
        least,
        forms,
    )


def _deferred(
    kind: Kind,
    spec: Any,
    lowered: bytes | None,
    description: str,
    vocabulary: Vocabulary,
    limits: RequestLimits,
) -> Constraint:
    if lowered is not None:
        return LoweredConstraint(lowered, description)
    return DeferredConstraint(kind, spec, limits, special_names(vocabulary), description)


def special_names(vocabulary: Vocabulary) -> tuple[str, ...]:
    """Return the special tokens that a constraint may name: all but those that end a text."""
    return tuple(text for text, i in vocabulary.specials.items() if i not in vocabulary.eos_ids)


def serving_vocabulary(vocabulary: Vocabulary) -> Vocabulary:
    """Return the same tokens with an engine of their own, under limits for serving. They share the native trie."""
    made = vocabulary.with_limits(**{**_SERVING_LIMITS, **vocabulary.limits})
    made.__dict__["native"] = vocabulary.native
    return made


def _slowest_mask(program: _core.Program, vocabulary: Vocabulary) -> float:
    """Return the CPU time of the slowest mask along a random text, including the token that is read before it."""
    # subtle: with a known seed, a spec could be written that is slow on every text but this one.
    draw = random.Random(secrets.randbits(64))
    matcher = _core.Matcher(program)
    slowest, begin = 0.0, thread_time()
    token: int | None = None
    for _ in range(_MOST_TOKENS):
        started = thread_time()
        try:
            if token is not None and not matcher.advance(token):
                break
            mask = matcher.mask()
            matcher.forced()  # generation calls it at each token, too
        except _core.LimitError as error:
            raise limit_exceeded(error) from None
        slowest = max(slowest, thread_time() - started)
        if thread_time() - begin > _MASK_SECONDS or matcher.is_finished:
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
    """Return a random allowed token, an end of text only if there is no other. Return None if none is allowed."""
    allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
    going_on = allowed[~np.isin(allowed, eos_ids)]
    return int(draw.choice(going_on)) if len(going_on) else None
