"""Whole instances of a schema: a random one, and a shortest one.

Why: tests and documents need values that a schema allows, and to know how small they can be.
What: the automaton of the schema over single bytes says after every text which bytes can follow. `_Writer`
proposes to it what a person would write (words, small numbers, the declared keys, a few items), walks byte by
byte where a pattern leaves nothing to propose, and takes the automaton's own completion once the text is long.
Invariant: every text passes the automaton, so it is valid whatever the keywords; the same schema and seed give
the same text on every machine, whatever was compiled before (the engine is the schema's own).
Cost: compiling the schema, then microseconds for each byte and each proposal.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from structgen import _core
from structgen.constraints.base import IR, Constraint
from structgen.constraints.failures import empty_constraint, limit_exceeded
from structgen.errors import LimitExceeded, OptionError
from structgen.ir.schema import SchemaIR

from .proposals import number, phrase, plain, texts
from .whitespace import Whitespace

__all__ = ["example_text", "minimal_text", "value_of"]

_BYTES: list[bytes | None] = [*(bytes([byte]) for byte in range(256)), None]
_END = 256
_HINT = (
    "Examples and shortest instances are made under the default limits. Under others a short text is "
    "Matcher(constraint, vocabulary.with_limits({name}=...)).witness_text()."
)

_TALKATIVE = 400
"""Bytes after which only what must be there is written."""
_ENOUGH = 4_000
"""Bytes after which the shortest way to the end is taken."""
_LONGEST_STRING = 60
_LONGEST_NUMBER = 24
_ATTEMPTS = 4
_PLACES = 3
_GUESSES = 12
"""Keys written because an object needs more, without knowing which."""
_DEEPEST = 12
_STRING_STEPS = 400


def example_text(constraint: Constraint, ir: SchemaIR, seed: int) -> str:
    """A random instance as compact JSON."""
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise OptionError(
            f"the seed of an example is an int, not {seed!r:.60}",
            hint="Each int gives an example of its own.",
        )
    program = _program(constraint, ir)
    try:
        for attempt in range(_ATTEMPTS):
            writer = _Writer(_core.Matcher(program), random.Random(f"{seed}/{attempt}"))
            if writer.write():
                return writer.text.decode()
    except _core.LimitError as error:
        raise limit_exceeded(error, constraint.describe(), _HINT) from None
    return _shortest(constraint, program)[0]


def minimal_text(constraint: Constraint, ir: SchemaIR) -> tuple[str, bool]:
    """A shortest instance as compact JSON, and whether it is known that none is shorter."""
    return _shortest(constraint, _program(constraint, ir))


def value_of(text: str) -> Any:
    """The value of a text; a number that is written with an exponent and is whole becomes an int."""
    return json.loads(text, parse_float=_number)


def _number(text: str) -> float | int:
    if "e" in text or "E" in text:
        exact = Decimal(text)
        if exact == exact.to_integral_value():
            return int(exact)
    return float(text)


def _program(constraint: Constraint, ir: SchemaIR) -> _core.Program:
    """The schema over single bytes, without optional white space and in an engine of its own."""
    engine = _core.Engine(_core.Vocabulary(_BYTES, [_END], len(_BYTES)))
    options = {**ir["options"], "whitespace": Whitespace.compact().lower(), "escapes": "canonical"}

    def compiled(part: IR) -> _core.Program:
        return engine.compile(part)

    try:
        program = compiled(("json", SchemaIR(nodes=ir["nodes"], root=ir["root"], options=options)))
        parts = program.empty_parts()
    except _core.LimitError as error:
        raise limit_exceeded(error, constraint.describe(), _HINT) from None
    if parts is not None:
        raise empty_constraint(constraint, parts, lambda part: compiled(part).empty_parts() is not None)
    return program


def _shortest(constraint: Constraint, program: _core.Program) -> tuple[str, bool]:
    try:
        found = program.shortest()
    except _core.LimitError as error:
        raise limit_exceeded(error, constraint.describe(), _HINT) from None
    if found is None:
        raise LimitExceeded(
            f"no instance of {constraint.describe()} was found within the search budget",
            limit="completion_search",
            hint="What it requires is very long or very deep, or contradicts itself in a way that was not proven.",
        )
    text, exact = found
    return text.decode(), exact


class _Writer:
    """One text while it grows; the matcher has read all of it."""

    def __init__(self, matcher: _core.Matcher, source: random.Random) -> None:
        self.text = bytearray()
        self._matcher = matcher
        self._source = source
        self._begun: list[int] = []
        """Where the values begin that are not at their end."""

    def write(self) -> bool:
        """Write a whole instance; False where no end was found of what has been written."""
        if self._value(0) and self._matcher.is_complete():
            return True
        places = sorted({len(self.text), *self._begun}, reverse=True)
        for place in places[:_PLACES]:
            # From the beginning of the value where the writing got stuck, or of one around it.
            self._matcher.rollback(len(self.text) - place)
            del self.text[place:]
            rest = self._matcher.witness(patient=False)
            if rest is not None:
                return self._read(rest)
        return False

    # -- reading

    def _fits(self, text: bytes) -> bool:
        return self._matcher.viable_bytes(text) == len(text)

    def _read(self, text: bytes) -> bool:
        if not self._fits(text):
            return False
        for byte in text:
            self._matcher.advance(byte)
        self.text += text
        return True

    def _next(self) -> bytes:
        return self._matcher.next_bytes()[0]

    def _chance(self, probability: float) -> bool:
        return self._source.random() < probability

    def _pick(self, weighted: Sequence[tuple[Any, float]]) -> Any:
        at = self._source.random() * math.fsum(weight for _, weight in weighted)
        for item, weight in weighted:
            at -= weight
            if at < 0:
                return item
        return weighted[-1][0]

    @property
    def _terse(self) -> bool:
        return len(self.text) > _TALKATIVE

    # -- values; each returns False to leave the rest to the automaton's own completion

    def _value(self, depth: int) -> bool:
        self._begun.append(len(self.text))
        if not self._begun_value(depth):
            return False
        self._begun.pop()
        return True

    def _begun_value(self, depth: int) -> bool:
        if len(self.text) > _ENOUGH or depth > _DEEPEST:
            return False
        following = self._next()
        nested = 0.05 if self._terse else 3.0 * 0.6**depth
        weights = {'"': 4.0, "{": nested, "[": nested, "t": 1.0, "f": 1.0, "n": 0.4}
        kinds = [(kind, weight) for kind, weight in weights.items() if ord(kind) in following]
        if any(byte in following for byte in b"-0123456789"):
            kinds.append(("0", 3.0))
        if not kinds:
            return False
        kind = self._pick(kinds)
        if kind in "tfn":
            return self._read({"t": b"true", "f": b"false", "n": b"null"}[kind])
        if kind == "0":
            return self._number()
        if kind == '"':
            return self._read(b'"') and self._string()
        if kind == "{":
            return self._read(b"{") and self._object(depth)
        return self._read(b"[") and self._array(depth)

    def _object(self, depth: int) -> bool:
        offers = self._matcher.key_offers()
        if offers is None:
            return False
        declared, owed, others = offers
        wish = 0.0 if self._terse else 0.7 * 0.75**depth
        wanted = [name for name, must in zip(declared, owed, strict=True) if must or self._chance(wish)]
        if not declared and others and not self._terse:
            wanted = [phrase(self._source, 1) for _ in range(int(self._source.random() * 3.5 * 0.7**depth))]
        for name in wanted:
            if len(self.text) > _ENOUGH:
                return False
            if self._key(json.dumps(name, ensure_ascii=False).encode()) and not self._value(depth + 1):
                return False
        for _ in range(_GUESSES):
            if b"}"[0] in self._next():
                break
            if len(self.text) > _ENOUGH or not self._another_key() or not self._value(depth + 1):
                return False
        return self._read(b"}")

    def _key(self, written: bytes) -> bool:
        comma = b"" if self.text.endswith(b"{") else b","
        return self._read(comma + written + b":")

    def _another_key(self) -> bool:
        """A key that the object needs still, of which it is not known which one it is."""
        comma = b"" if self.text.endswith(b"{") else b","
        offers = self._matcher.key_offers(comma)
        if offers is None:
            return False
        declared, owed, others = offers
        needed = [name for name, must in zip(declared, owed, strict=True) if must] or declared
        if needed:
            name = needed[int(self._source.random() * len(needed))]
            return self._key(json.dumps(name, ensure_ascii=False).encode())
        if not others:
            return False
        if self._key(b'"' + phrase(self._source, 1).encode() + b'"'):
            return True
        return self._read(comma + b'"') and self._walk() and self._read(b":")

    def _array(self, depth: int) -> bool:
        wanted = 0 if self._terse else int(self._source.random() * (1 + 3 * 0.8**depth) + 0.8)
        count = 0
        while True:
            following = self._next()
            if b"]"[0] in following and (count >= wanted or following == b"]"):
                return self._read(b"]")
            if len(self.text) > _ENOUGH or (count > 0 and not self._read(b",")):
                return False
            if not self._value(depth + 1):
                return False
            count += 1

    # -- scalars

    def _number(self) -> bool:
        for _ in range(6):
            proposed = number(self._source).encode()
            if self._ends(proposed):
                return self._read(self._plainest(proposed))
        return self._digits(b"-.0123456789", b"") or self._digits(b"-0123456789", b".")

    def _digits(self, usual: bytes, needed: bytes) -> bool:
        """A number byte by byte of the `usual` ones, or of the others where none of those fits."""
        digits = bytearray()
        while len(digits) < _LONGEST_NUMBER:
            following, may_end = self._matcher.next_bytes(bytes(digits))
            if digits and (may_end or any(byte in following for byte in b",]}")) and self._chance(0.5):
                return self._read(self._plainest(bytes(digits)))
            fitting = [(byte, 0.2 if byte in b"-." else 1.0) for byte in following if byte in usual]
            fitting = fitting or [(byte, 1.0) for byte in following if byte in needed]
            if not fitting:
                break
            digits.append(self._pick(fitting))
        return self._ends(bytes(digits)) and self._read(self._plainest(bytes(digits)))

    def _plainest(self, written: bytes) -> bytes:
        """The number as a person would write it, unless its zeros have a meaning (1.0 is no integer in draft 4)."""
        shortest = plain(written.decode()).encode()
        for shown in (shortest, shortest + b".0"):
            if len(shown) < len(written) and self._ends(shown):
                return shown
        return written

    def _ends(self, text: bytes) -> bool:
        following, may_end = self._matcher.next_bytes(text)
        return may_end or any(byte in following for byte in b",]}")

    def _string(self) -> bool:
        """The inside of a string and its closing quote; the opening one has been read."""
        words = 1 if self._terse else 1 + int(self._source.random() * 2.5)
        text = phrase(self._source, words).encode()
        if self._read(text + b'"'):
            return True
        fitting = self._matcher.viable_bytes(text)
        if fitting == len(text):
            # All of it stands, but more must come.
            while fitting == len(text) and len(text) < _STRING_STEPS:
                text += b" " + phrase(self._source, 1).encode()
                fitting = self._matcher.viable_bytes(text)
                if fitting == len(text) and self._read(text + b'"'):
                    return True
        for shorter in range(fitting, 0, -1):
            if self._fits(text[:shorter] + b'"'):
                return self._read(text[:shorter] + b'"')
        known = [proposed for proposed in texts(self._source) if self._fits(proposed.encode() + b'"')]
        if known:
            return self._read(known[int(self._source.random() * len(known))].encode() + b'"')
        return self._walk()

    def _walk(self) -> bool:
        """A text and its closing quote byte by byte, letters and digits preferred."""
        start = len(self.text)
        while len(self.text) - start < _LONGEST_STRING:
            following = self._next()
            if not following:
                return False
            closing = 0.5 if following != b'"' else 1.0
            if b'"'[0] in following and self._chance(closing):
                return self._read(b'"')
            fitting = [(byte, _weight(byte)) for byte in following if byte != b'"'[0]]
            if not fitting:
                return self._read(b'"')
            self._read(bytes([self._pick(fitting)]))
        rest = self._matcher.witness()
        if rest is None:
            return False
        end = _closing_quote(rest)
        return end is not None and self._read(rest[: end + 1])


def _weight(byte: int) -> float:
    if chr(byte).isascii() and chr(byte).isalnum():
        return 4.0
    if byte == ord("\\"):
        return 0.02
    return 1.0 if 0x20 <= byte < 0x7F else 0.01


def _closing_quote(rest: bytes) -> int | None:
    """Where the string that `rest` begins inside of ends."""
    at = 0
    while at < len(rest):
        if rest[at] == ord("\\"):
            at += 1
        elif rest[at] == ord('"'):
            return at
        at += 1
    return None
