"""Generate whole instances of a schema: a random one, and a shortest one.

Why: tests and documentation need values that a schema allows, and the size of the smallest one.

What: the automaton of the schema over single bytes tells after every text which bytes can follow. `_Writer`
proposes what a person would write (words, small numbers, the declared keys, a few items), and writes byte by byte
if a pattern admits no proposal. Once the text is long, it appends the automaton's own completion.

Invariant: the automaton accepts every text, so it is valid under any keywords. A schema and a seed give the same
text on every machine, independent of earlier compilations, since each schema has its own engine.

Cost: compiling the schema, then microseconds for each byte and each proposal.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import TypeVar

from structgen import _core
from structgen.constraints.base import IR, Constraint
from structgen.constraints.failures import empty_constraint, limit_exceeded
from structgen.errors import LimitExceeded, OptionError
from structgen.ir.schema import JsonValue, SchemaIR

from .proposals import number, phrase, plain, texts
from .whitespace import Whitespace

__all__ = ["example_text", "minimal_text", "value_of"]

_T = TypeVar("_T")

_BYTES: list[bytes | None] = [*(bytes([byte]) for byte in range(256)), None]
_END = 256
_LIMIT_HINT = (
    "Examples and shortest instances are generated under the default limits. Under other limits, call "
    "Matcher(constraint, vocabulary.with_limits({name}=...)).witness_text() for a short text."
)

_BRIEF_AFTER = 400
"""Number of bytes after which only required parts are written."""
_FINISH_AFTER = 4_000
"""Number of bytes after which the shortest completion is appended."""
_MAX_STRING = 60
_MAX_NUMBER = 24
_ATTEMPTS = 4
_MAX_RESTARTS = 3
_MAX_GUESSED_KEYS = 12
"""Keys that are written because an object needs more keys, without knowing which."""
_MAX_DEPTH = 12
_MAX_PADDING = 400


def example_text(constraint: Constraint, ir: SchemaIR, seed: int) -> str:
    """Return a random instance as compact JSON."""
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise OptionError(
            f"the seed of an example must be an int, not {seed!r:.60}",
            hint="Different ints give different examples.",
        )
    program = _program(constraint, ir)
    try:
        for attempt in range(_ATTEMPTS):
            writer = _Writer(_core.Matcher(program), random.Random(f"{seed}/{attempt}"))
            if writer.write():
                return writer.text.decode()
    except _core.LimitError as error:
        raise limit_exceeded(error, constraint.describe(), _LIMIT_HINT) from None
    return _shortest(constraint, program)[0]


def minimal_text(constraint: Constraint, ir: SchemaIR) -> tuple[str, bool]:
    """Return a shortest instance as compact JSON, and whether it is proven that none is shorter."""
    return _shortest(constraint, _program(constraint, ir))


def value_of(text: str) -> JsonValue:
    """Return the value of a text; a whole number with an exponent becomes an int."""
    return json.loads(text, parse_float=_number)


def _number(text: str) -> float | int:
    if "e" in text or "E" in text:
        exact = Decimal(text)
        if exact == exact.to_integral_value():
            return int(exact)
    return float(text)


def _program(constraint: Constraint, ir: SchemaIR) -> _core.Program:
    """Compile the schema over single bytes, without optional white space and in an engine of its own."""
    engine = _core.Engine(_core.Vocabulary(_BYTES, [_END], len(_BYTES)))
    options = {**ir["options"], "whitespace": Whitespace.compact().lower(), "escapes": "canonical"}

    def compiled(part: IR) -> _core.Program:
        return engine.compile(part)

    try:
        program = compiled(("json", SchemaIR(nodes=ir["nodes"], root=ir["root"], options=options)))
        parts = program.empty_parts()
    except _core.LimitError as error:
        raise limit_exceeded(error, constraint.describe(), _LIMIT_HINT) from None
    if parts is not None:
        raise empty_constraint(constraint, parts, lambda part: compiled(part).empty_parts() is not None)
    return program


def _shortest(constraint: Constraint, program: _core.Program) -> tuple[str, bool]:
    try:
        found = program.shortest()
    except _core.LimitError as error:
        raise limit_exceeded(error, constraint.describe(), _LIMIT_HINT) from None
    if found is None:
        raise LimitExceeded(
            f"no instance of {constraint.describe()} was found within the search budget",
            limit="completion_search",
            hint="Its instances are very long or very deep, or it contradicts itself in a way that was not proven.",
        )
    text, exact = found
    return text.decode(), exact


class _Writer:
    """Writes one text; the matcher has consumed all of it."""

    def __init__(self, matcher: _core.Matcher, source: random.Random) -> None:
        self.text = bytearray()
        self._matcher = matcher
        self._source = source
        self._open_values: list[int] = []
        """Offsets of the values that are not complete."""

    def write(self) -> bool:
        """Write a whole instance; return False if no completion of the text was found."""
        if self._value(0) and self._matcher.is_complete():
            return True
        offsets = sorted({len(self.text), *self._open_values}, reverse=True)
        for offset in offsets[:_MAX_RESTARTS]:
            # Restart at the value that could not be completed, or at one around it.
            self._matcher.rollback(len(self.text) - offset)
            del self.text[offset:]
            rest = self._matcher.witness(patient=False)
            if rest is not None:
                return self._append(rest)
        return False

    # -- the automaton

    def _is_viable(self, text: bytes) -> bool:
        return self._matcher.viable_bytes(text) == len(text)

    def _append(self, text: bytes) -> bool:
        if not self._is_viable(text):
            return False
        for byte in text:
            self._matcher.advance(byte)
        self.text += text
        return True

    def _next(self) -> bytes:
        return self._matcher.next_bytes()[0]

    def _chance(self, probability: float) -> bool:
        return self._source.random() < probability

    def _pick(self, weighted: Sequence[tuple[_T, float]]) -> _T:
        at = self._source.random() * math.fsum(weight for _, weight in weighted)
        for item, weight in weighted:
            at -= weight
            if at < 0:
                return item
        return weighted[-1][0]

    @property
    def _is_brief(self) -> bool:
        return len(self.text) > _BRIEF_AFTER

    # -- values; each method returns False to let the automaton complete the text

    def _value(self, depth: int) -> bool:
        self._open_values.append(len(self.text))
        if not self._value_of_kind(depth):
            return False
        self._open_values.pop()
        return True

    def _value_of_kind(self, depth: int) -> bool:
        if len(self.text) > _FINISH_AFTER or depth > _MAX_DEPTH:
            return False
        following = self._next()
        nested = 0.05 if self._is_brief else 3.0 * 0.6**depth
        weights = {'"': 4.0, "{": nested, "[": nested, "t": 1.0, "f": 1.0, "n": 0.4}
        kinds = [(kind, weight) for kind, weight in weights.items() if ord(kind) in following]
        if any(byte in following for byte in b"-0123456789"):
            kinds.append(("0", 3.0))
        if not kinds:
            return False
        kind = self._pick(kinds)
        if kind in "tfn":
            return self._append({"t": b"true", "f": b"false", "n": b"null"}[kind])
        if kind == "0":
            return self._number()
        if kind == '"':
            return self._append(b'"') and self._string()
        if kind == "{":
            return self._append(b"{") and self._object(depth)
        return self._append(b"[") and self._array(depth)

    def _object(self, depth: int) -> bool:
        offers = self._matcher.key_offers()
        if offers is None:
            return False
        declared, required, others = offers
        share_of_optional = 0.0 if self._is_brief else 0.7 * 0.75**depth
        wanted = [
            name
            for name, is_required in zip(declared, required, strict=True)
            if is_required or self._chance(share_of_optional)
        ]
        if not declared and others and not self._is_brief:
            wanted = [phrase(self._source, 1) for _ in range(int(self._source.random() * 3.5 * 0.7**depth))]
        for name in wanted:
            if len(self.text) > _FINISH_AFTER:
                return False
            if self._key(json.dumps(name, ensure_ascii=False).encode()) and not self._value(depth + 1):
                return False
        for _ in range(_MAX_GUESSED_KEYS):
            if b"}"[0] in self._next():
                break
            if len(self.text) > _FINISH_AFTER or not self._another_key() or not self._value(depth + 1):
                return False
        return self._append(b"}")

    def _key(self, written: bytes) -> bool:
        comma = b"" if self.text.endswith(b"{") else b","
        return self._append(comma + written + b":")

    def _another_key(self) -> bool:
        """Write a key that the object still needs, without knowing which one."""
        comma = b"" if self.text.endswith(b"{") else b","
        offers = self._matcher.key_offers(comma)
        if offers is None:
            return False
        declared, required, others = offers
        needed = [
            name for name, is_required in zip(declared, required, strict=True) if is_required
        ] or declared
        if needed:
            name = needed[int(self._source.random() * len(needed))]
            return self._key(json.dumps(name, ensure_ascii=False).encode())
        if not others:
            return False
        if self._key(b'"' + phrase(self._source, 1).encode() + b'"'):
            return True
        return self._append(comma + b'"') and self._string_by_bytes() and self._append(b":")

    def _array(self, depth: int) -> bool:
        wanted = 0 if self._is_brief else int(self._source.random() * (1 + 3 * 0.8**depth) + 0.8)
        count = 0
        while True:
            following = self._next()
            if b"]"[0] in following and (count >= wanted or following == b"]"):
                return self._append(b"]")
            if len(self.text) > _FINISH_AFTER or (count > 0 and not self._append(b",")):
                return False
            if not self._value(depth + 1):
                return False
            count += 1

    # -- scalars

    def _number(self) -> bool:
        for _ in range(6):
            proposed = number(self._source).encode()
            if self._can_end_after(proposed):
                return self._append(self._shortest_spelling(proposed))
        return self._number_by_bytes(b"-.0123456789", b"") or self._number_by_bytes(b"-0123456789", b".")

    def _number_by_bytes(self, usual: bytes, needed: bytes) -> bool:
        """Write a number byte by byte, from the `usual` bytes, or from the others if none of those is allowed."""
        digits = bytearray()
        while len(digits) < _MAX_NUMBER:
            following, may_end = self._matcher.next_bytes(bytes(digits))
            if digits and (may_end or any(byte in following for byte in b",]}")) and self._chance(0.5):
                return self._append(self._shortest_spelling(bytes(digits)))
            fitting = [(byte, 0.2 if byte in b"-." else 1.0) for byte in following if byte in usual]
            fitting = fitting or [(byte, 1.0) for byte in following if byte in needed]
            if not fitting:
                break
            digits.append(self._pick(fitting))
        return self._can_end_after(bytes(digits)) and self._append(self._shortest_spelling(bytes(digits)))

    def _shortest_spelling(self, written: bytes) -> bytes:
        """Return the number as a person would write it, unless its zeros matter (1.0 is not an integer in draft 4)."""
        shortest = plain(written.decode()).encode()
        for shown in (shortest, shortest + b".0"):
            if len(shown) < len(written) and self._can_end_after(shown):
                return shown
        return written

    def _can_end_after(self, text: bytes) -> bool:
        following, may_end = self._matcher.next_bytes(text)
        return may_end or any(byte in following for byte in b",]}")

    def _string(self) -> bool:
        """Write the contents of a string and its closing quote, after the opening one."""
        words = 1 if self._is_brief else 1 + int(self._source.random() * 2.5)
        text = phrase(self._source, words).encode()
        if self._append(text + b'"'):
            return True
        fitting = self._matcher.viable_bytes(text)
        if fitting == len(text):
            # All of it is allowed, but the string must be longer.
            while fitting == len(text) and len(text) < _MAX_PADDING:
                text += b" " + phrase(self._source, 1).encode()
                fitting = self._matcher.viable_bytes(text)
                if fitting == len(text) and self._append(text + b'"'):
                    return True
        for shorter in range(fitting, 0, -1):
            if self._is_viable(text[:shorter] + b'"'):
                return self._append(text[:shorter] + b'"')
        known = [proposed for proposed in texts(self._source) if self._is_viable(proposed.encode() + b'"')]
        if known:
            return self._append(known[int(self._source.random() * len(known))].encode() + b'"')
        return self._string_by_bytes()

    def _string_by_bytes(self) -> bool:
        """Write a text and its closing quote byte by byte, preferring letters and digits."""
        start = len(self.text)
        while len(self.text) - start < _MAX_STRING:
            following = self._next()
            if not following:
                return False
            closing = 0.5 if following != b'"' else 1.0
            if b'"'[0] in following and self._chance(closing):
                return self._append(b'"')
            fitting = [(byte, _weight_of_byte(byte)) for byte in following if byte != b'"'[0]]
            if not fitting:
                return self._append(b'"')
            self._append(bytes([self._pick(fitting)]))
        rest = self._matcher.witness()
        if rest is None:
            return False
        end = _closing_quote(rest)
        return end is not None and self._append(rest[: end + 1])


def _weight_of_byte(byte: int) -> float:
    if chr(byte).isascii() and chr(byte).isalnum():
        return 4.0
    if byte == ord("\\"):
        return 0.02
    return 1.0 if 0x20 <= byte < 0x7F else 0.01


def _closing_quote(rest: bytes) -> int | None:
    """Return where the string ends that `rest` starts inside of."""
    at = 0
    while at < len(rest):
        if rest[at] == ord("\\"):
            at += 1
        elif rest[at] == ord('"'):
            return at
        at += 1
    return None
