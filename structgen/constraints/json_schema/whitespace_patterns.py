"""Compile patterns for white space into the table of states that the core reads.

Why: llguidance and Outlines let a pattern describe what may stand between the tokens of a JSON text.

Invariant: a gap holds exactly the JSON white space (space, tab, line feed, carriage return) that its pattern
matches, or none. A separator is a comma or a colon with such white space on both sides, and the two sides are
independent.

Cost: one state for each state of the patterns, at most `MAX_STATES`; computed once for each choice of patterns.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from structgen import _core
from structgen.constraints.expressions import RE, character_class, concat, intersect, repeat
from structgen.constraints.regex import regex
from structgen.errors import LimitExceeded, OptionError, StructgenError

__all__ = ["MAX_STATES", "WhitespaceTable", "compile_patterns"]

MAX_STATES = 2_000
"""Limit on the states of the white space of one constraint."""

_BLANKS = b" \t\n\r"
_BLANK = character_class(((0x09, 0x0A), (0x0D, 0x0D), (0x20, 0x20)))
_CLOSES, _CONTINUES = (-1, -1, -1, -1, False, True), (-1, -1, -1, -1, True, False)
"""The first two rows: before tokens that close a container, and before other tokens."""


class WhitespaceTable:
    """`ir` is what the core reads; `separators` are a shortest comma and colon with their white space."""

    def __init__(self, ir: tuple[object, ...], separators: tuple[str, str]) -> None:
        self.ir = ir
        self.separators = separators


@lru_cache(maxsize=64)
def compile_patterns(gap: str | None, item: str, key: str) -> WhitespaceTable:
    """Return the table of these patterns.

    Args:
        gap: Pattern of the white space in a gap, which may also be empty; None means that no gap holds any.
        item: Pattern of the separator of items, with a comma.
        key: Pattern of the separator of a key and its value, with a colon.

    Raises:
        OptionError: A pattern cannot be parsed, or matches more than white space and its separator.
        LimitExceeded: The patterns have too many states.
    """
    return _Builder(gap, item, key).build()


class _Builder:
    def __init__(self, gap: str | None, item: str, key: str) -> None:
        self.space = _core.RegexSpace()
        blanks = repeat(_BLANK, 0, None)
        self.optional: RE = (
            repeat(intersect([self._parse("gap", gap), blanks]), 0, 1) if gap else ("literal", "")
        )
        self.item = self._separator("item_separator", item, ",")
        self.key = self._separator("key_separator", key, ":")
        self.rows: list[tuple[Any, ...]] = [_CLOSES, _CONTINUES]
        self.numbers: dict[tuple[str, int, int], int] = {}

    @staticmethod
    def _parse(name: str, pattern: str) -> RE:
        try:
            expression = regex(pattern).regular()
        except StructgenError as error:
            raise OptionError(f"{name}={pattern!r:.60} is not a valid pattern: {error}") from None
        assert expression is not None
        return expression

    def _separator(self, name: str, pattern: str, character: str) -> int:
        """Return the state of a separator with the gaps around it."""
        separator = self._parse(name, pattern)
        loosest = self.space.compile(self._parse(name, rf"\s*{character}\s*"))
        if self.space.alive(
            self.space.intersect(self.space.compile(separator), self.space.complement(loosest))
        ):
            raise OptionError(
                f"{name}={pattern!r:.60} matches more than {character!r} and white space around it",
                hint=f"Such as {character!r} or '\\\\s?{character}\\\\s?'; other texts are not JSON.",
            )
        inner = repeat(_BLANK, 0, None)
        bounded = intersect([separator, concat([inner, ("literal", character), inner])])
        return self.space.compile(concat([self.optional, bounded, self.optional]))

    def build(self) -> WhitespaceTable:
        gap = self.space.compile(self.optional)
        start = self._add_rows("gap", gap, gap)
        after_value = self._add_rows("value", self.item, gap)
        after_key = self._add_rows("before", self.key, 0)
        after_comma = self._add_rows("after", self._state_after("item_separator", self.item, ","), 0)
        after_colon = self._add_rows("after", self._state_after("key_separator", self.key, ":"), 0)
        starts = (1, start, after_key, after_colon, after_comma, after_value)
        ir = ("table", starts, tuple(self.rows))
        return WhitespaceTable(ir, (self._shortest(self.item), self._shortest(self.key)))

    def _shortest(self, state: int) -> str:
        return (self.space.witness(state) or b"").decode()

    def _state_after(self, name: str, state: int, character: str) -> int:
        """Return the state after the separator, which must not depend on the white space before it."""
        states: set[int] = set()
        pending, seen = [state], {state}
        while pending:
            row = self.space.row(pending.pop())
            if self.space.alive(row[ord(character)]):
                states.add(row[ord(character)])
            for byte in _BLANKS:
                if row[byte] not in seen and self.space.alive(row[byte]):
                    if len(seen) > MAX_STATES:
                        raise _too_many_states()
                    seen.add(row[byte])
                    pending.append(row[byte])
        first = states.pop() if states else self.space.EMPTY
        for other in states:
            for left, right in ((first, other), (other, first)):
                if self.space.alive(self.space.intersect(left, self.space.complement(right))):
                    raise OptionError(
                        f"{name}: the white space after {character!r} depends on what precedes it",
                        hint="Let each side of the separator have its own white space.",
                    )
        if first == self.space.EMPTY:
            raise OptionError(f"{name}: no text matches it")
        return first

    def _add_rows(self, kind: str, state: int, closing_state: int) -> int:
        """Add the rows of a state and its successors, and return its number; `kind` says which tokens may follow."""
        start = (kind, state, closing_state)
        pending = [start] if self._number(start) else []
        while pending:
            key = pending.pop()
            kind, state, closing_state = key
            following = []
            rows = self.space.row(state), self.space.row(closing_state) if kind == "value" else None
            for byte in _BLANKS:
                after = rows[0][byte], rows[1][byte] if rows[1] is not None else 0
                if not (self.space.alive(after[0]) or (kind == "value" and self.space.alive(after[1]))):
                    following.append(-1)
                    continue
                successor = (kind, *after)
                if self._number(successor):
                    pending.append(successor)
                following.append(self.numbers[successor])
            character = {"value": ",", "before": ":"}.get(kind)
            continues = self.space.alive(rows[0][ord(character)]) if character else self.space.nullable(state)
            closes = (
                self.space.nullable(closing_state if kind == "value" else state)
                if kind in ("value", "gap")
                else False
            )
            self.rows[self.numbers[key]] = (*following, continues, closes)
        return self.numbers[start]

    def _number(self, key: tuple[str, int, int]) -> bool:
        """Number a state; return whether it is new."""
        if key in self.numbers:
            return False
        if len(self.rows) >= MAX_STATES:
            raise _too_many_states()
        self.numbers[key] = len(self.rows)
        self.rows.append(())
        return True


def _too_many_states() -> LimitExceeded:
    return LimitExceeded(
        f"the patterns for white space have more than {MAX_STATES:,} states",
        limit="whitespace_states",
        hint="Use smaller counts, or an unbounded repetition: \\s+ has two states.",
    )
