"""One spec tried out: read, compiled, its first masks made, and each of these timed.

Why: whether a spec from a stranger is harmless is known only after it was compiled, so that is done where nothing else
runs (`worker`), and what was seen there decides how the serving process takes it.
Invariant: a trial has no effect but on the vocabulary's caches.
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
from structgen.vocabulary import Vocabulary

from .requests import Kind, RequestLimits, constraint_of
from .wire import Garbled, dump_tree, load_tree, pack

__all__ = ["Lowered", "Trial", "Unread", "serving_vocabulary", "special_names", "try_out"]

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


class Lowered(Constraint):
    """A constraint that was read in another process: its IR (`wire.dump_tree`), and how it is described.

    Equal bytes are an equal constraint.
    """

    __slots__ = ("content", "description")

    content: bytes
    description: str

    def __init__(self, content: bytes, description: str) -> None:
        object.__setattr__(self, "content", content)
        object.__setattr__(self, "description", description)

    def lower(self) -> IR:
        try:
            found: IR = load_tree(self.content)
        except Garbled:
            raise LimitExceeded(
                "the process that compiled the request's constraint answered nonsense",
                limit="internal",
                hint="Please report it with the constraint.",
            ) from None
        return found

    def describe(self) -> str:
        return self.description

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lowered) and self.content == other.content

    def __hash__(self) -> int:
        return hash(self.content)

    def __repr__(self) -> str:
        return f"<{self.description}>"


class Unread(Constraint):
    """A spec that is read where its IR is wanted."""

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
        return constraint_of(self.kind, self.spec, self.limits, specials=self.specials).lower()

    def describe(self) -> str:
        return self.description

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<{self.description}>"


@dataclass(frozen=True)
class Trial:
    """What was found out about a spec."""

    description: str
    lowered: bytes | None
    """The IR as bytes; None where it is not data (plans unfold as they are read). Then the spec is read again."""
    seconds: float
    """Reading, compiling and the masks together."""
    install_seconds: float
    """CPU time to have it in another process: to read the IR and to build its automaton, holding the GIL."""
    slowest_mask: float
    """Seconds of CPU time, which a busy machine does not stretch."""
    least_tokens: int | None = None
    """Of the shortest text that was found at once; None if none was."""
    forms: Forms = field(default_factory=dict)
    """Of a turn with tools: how the values of parameters are written, for the reader of its text."""

    def constraint(self, kind: Kind, spec: Any, vocabulary: Vocabulary, limits: RequestLimits) -> Constraint:
        """What the spec describes, without anything being read yet."""
        return _sent(kind, spec, self.lowered, self.description, vocabulary, limits)

    def pack(self) -> bytes:
        """As a message."""
        numbers = [self.seconds, self.install_seconds, self.slowest_mask, self.least_tokens]
        content = [self.description, self.lowered is not None, *numbers, self.forms]
        return pack("trial", content, self.lowered or b"")

    @classmethod
    def unpacked(cls, content: Any, tail: bytes) -> Trial:
        """From a message. Raises `Garbled`."""
        if not isinstance(content, list) or len(content) != 7 or not isinstance(content[0], str):
            raise Garbled("not a trial")
        seconds, install, slowest, least, forms = content[2:]
        if not all(type(one) in (int, float) and one >= 0 for one in (seconds, install, slowest)):
            raise Garbled("not the times of a trial")
        if least is not None and type(least) is not int:
            raise Garbled("not the length of a text")
        if not are_forms(forms):
            raise Garbled("not the forms of parameters")
        return cls(content[0], tail if content[1] is True else None, seconds, install, slowest, least, forms)


def try_out(kind: Kind, spec: Any, vocabulary: Vocabulary, limits: RequestLimits) -> Trial:
    """Raises `StructgenError` where the spec is refused."""
    begin = perf_counter()
    constraint = constraint_of(kind, spec, limits, specials=special_names(vocabulary))
    lowered = dump_tree(constraint.lower())
    started = thread_time()
    ir = _sent(kind, spec, lowered, constraint.describe(), vocabulary, limits).lower()
    try:
        program = vocabulary.engine.compile(ir)
    except _core.LimitError as error:
        raise limit_exceeded(error, constraint.describe()) from None
    install = thread_time() - started
    compile_constraint(constraint, vocabulary)  # tells what is wrong with an empty one
    slowest = _slowest_mask(program, vocabulary)
    least = _least_tokens(program)
    forms: Forms = getattr(constraint, "forms", {})
    return Trial(constraint.describe(), lowered, perf_counter() - begin, install, slowest, least, forms)


def _sent(
    kind: Kind,
    spec: Any,
    lowered: bytes | None,
    description: str,
    vocabulary: Vocabulary,
    limits: RequestLimits,
) -> Constraint:
    if lowered is not None:
        return Lowered(lowered, description)
    return Unread(kind, spec, limits, special_names(vocabulary), description)


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
    # subtle: with a seed that is known a spec could be written that is slow on every text but this one.
    draw = random.Random(secrets.randbits(64))
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
