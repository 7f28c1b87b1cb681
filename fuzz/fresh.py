"""Random cases for target rollback, and the slow reading of a text that they are compared with.

What: a case is a constraint over a vocabulary with random tokens of several bytes, and the stop tokens of a request.
`Fresh` reads a text from its start, with a matcher and an engine of its own: it knows no rollback, no fork of a text
and no cache that the fast path has filled.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from structgen import _core
from structgen.constraints.base import Constraint
from structgen.errors import StructgenError
from structgen.matcher import Matcher
from structgen.serving.probe import serving_vocabulary, special_names
from structgen.serving.requests import Kind, constraint_of
from structgen.vocabulary import Vocabulary

from .tags import SEEDS
from .writing import written

__all__ = ["END_OF_REASONING", "Case", "Fresh", "cases", "random_vocabulary"]

END_OF_REASONING = "</think>"
_KINDS: dict[str, Kind] = {
    "schema": "json",
    "regex": "regex",
    "lark": "grammar",
    "gbnf": "grammar",
    "tags": "structural_tag",
}
_KNOWN: tuple[tuple[Kind, str], ...] = (
    (
        "json",
        '{"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}',
    ),
    (
        "json",
        '{"type": "array", "items": {"enum": ["a", "ab", 1, null]}, "minItems": 1, "uniqueItems": true}',
    ),
    ("json", '{"$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "$ref": "#/$defs/t"}'),
    (
        "json",
        '{"type": "object", "additionalProperties": {"type": "number", "multipleOf": 0.5}, "maxProperties": 3}',
    ),
    ("json_object", ""),
    ("regex", r"(ab|abc|a[b-d]{2})*x?"),
    ("regex", r"\d{4}-(0[1-9]|1[0-2])( [a-zé]{1,9}){0,3}"),
    ("choice", '["true", "tree", "t", "the end"]'),
    ("grammar", 'root ::= item ("," item)*\nitem ::= [a-z]+ | "(" root ")"\n'),
    (
        "grammar",
        'start: sum\nsum: term (("+"|"-") term)*\nterm: INT | "(" sum ")"\nINT: /[0-9]+/\n%ignore " "\n',
    ),
    *(("structural_tag", tag) for tag in SEEDS),
)
_PIECES = (  # noqa: SIM905  (short enough to be read as one text)
    '{"|":|": "|"}|{"a":|, "|"a"|"b"|[]|[1|],|true|false|null|10|0.5|-1|\\n|é|€|  |\n  |ab|abc|the |tr|ee|12|(a|)\n|'
    "<f>|</f|f>|<a>|</|-0|1-| a|x=|end"
).split("|")
_LIMITS = {
    "automaton_states": 20_000,
    "oracle_budget": 20_000,
    "emptiness_budget": 20_000,
    "mask_steps": 50_000,
}
_CASES = 25
"""The cases of a vocabulary."""
_ATTEMPTS = 100
_MOST_WORK = 30_000_000
"""The steps of work of a call that compiles a case, below half a second: a limit on time would not be repeatable."""


@dataclass(frozen=True, eq=False)
class Case:
    """A constraint, compiled twice, with a request's stop tokens."""

    kind: Kind
    spec: str
    constraint: Constraint
    vocabulary: Vocabulary
    program: _core.Program
    fresh: _core.Program
    """The same constraint in another engine."""
    stops: tuple[int, ...]
    """The stop tokens of the request, which may be text to the constraint."""
    ends: frozenset[int]
    """The stop tokens and the vocabulary's ends of text."""

    def open(self) -> Matcher:
        """Return a matcher of the fast path."""
        return Matcher.of_program(self.constraint, self.vocabulary, self.program)

    def __str__(self) -> str:
        return f"{self.kind} {self.spec!r}, stop tokens {self.stops}"


class Fresh:
    """A case after some tokens, read from the start."""

    def __init__(self, case: Case, tokens: Sequence[int]) -> None:
        self._case = case
        self._matcher = _core.Matcher(case.fresh)
        self.is_ended = False
        for token in tokens:
            if not self.reads(token):
                raise AssertionError(f"token {token} of {list(tokens)} cannot be read")

    def reads(self, token: int) -> bool:
        """Append a token; return False, and change nothing, if it is not allowed. After the end all are."""
        if self.is_ended:
            return True
        if token in self._case.ends:
            self.is_ended = self._matcher.is_complete()
            return self.is_ended
        return self._matcher.advance(token)

    def accepted(self, tokens: Sequence[int]) -> int:
        """Read tokens as a draft, up to the end of text; return how many can follow."""
        if self.is_ended:
            return 0
        for count, token in enumerate(tokens):
            if self.is_ended or not self.reads(token):
                return count
        return len(tokens)

    def row(self) -> NDArray[np.int32]:
        """Return the mask of the next token; all ones after the end, and where no token can follow."""
        if self.is_ended:
            return np.full(self._case.vocabulary.words, -1, np.int32)
        bits = np.unpackbits(self._matcher.mask().view(np.uint8), bitorder="little")
        bits[list(self._case.ends)] = self._matcher.is_complete()
        if not bits.any():
            bits[:] = 1
        return np.packbits(bits, bitorder="little").view(np.int32)

    def allowed(self) -> list[int]:
        """Return the tokens that may follow."""
        if self.is_ended:
            return []
        bits = np.unpackbits(self._matcher.mask().view(np.uint8), bitorder="little")
        bits[list(self._case.ends)] = self._matcher.is_complete()
        return [int(token) for token in np.flatnonzero(bits) if token < self._case.vocabulary.size]


def random_vocabulary(rng: random.Random) -> Vocabulary:
    """Return bytes and tokens of several bytes in random order, one or two ends of text, and special tokens."""
    pieces = {piece.encode() for piece in _PIECES if rng.random() < 0.7}
    pieces |= {
        bytes(rng.choices(b'{}[]":,ab01e.- \n\xc3\xa9<f>', k=rng.randint(2, 5)))
        for _ in range(rng.randint(0, 60))
    }
    tokens: list[bytes | None] = [bytes([byte]) for byte in range(256)]
    tokens += sorted(pieces)
    tokens += [None] * rng.randint(1, 2)
    rng.shuffle(tokens)
    ends = [at for at, token in enumerate(tokens) if token is None]
    specials = {"<think>": len(tokens), END_OF_REASONING: len(tokens) + 1}
    return Vocabulary([*tokens, None, None], ends, specials=specials, limits=_LIMITS)


def cases(rng: random.Random) -> Iterator[Case]:
    """Yield cases without end, each vocabulary for some of them. What does not compile is left out."""
    while True:
        vocabulary = random_vocabulary(rng)
        fast, slow = serving_vocabulary(vocabulary), serving_vocabulary(vocabulary)
        found = 0
        for _ in range(_ATTEMPTS):
            case = _case(rng, vocabulary, fast, slow)
            if case is None:
                continue
            yield case
            found += 1
            if found == _CASES:
                break


def _case(rng: random.Random, vocabulary: Vocabulary, fast: Vocabulary, slow: Vocabulary) -> Case | None:
    if rng.random() < 0.5:
        kind, spec = rng.choice(_KNOWN)
    else:
        target = rng.choice(list(_KINDS))
        kind, spec = _KINDS[target], written(target, rng)
    try:
        with _core.CallLimits(steps=_MOST_WORK):
            constraint = constraint_of(kind, spec, specials=special_names(vocabulary))
            tree = constraint.lower()
            program, fresh = fast.engine.compile(tree), slow.engine.compile(tree)
            if program.empty_parts() is not None:
                return None
    except (StructgenError, _core.LimitError):
        return None
    stops = tuple(rng.sample(range(vocabulary.size), rng.choice([0, 0, 1, 3])))
    return Case(kind, spec, constraint, fast, program, fresh, stops, frozenset((*vocabulary.eos_ids, *stops)))
