"""White space that patterns describe, as the table of states that the core reads.

Why: llguidance and outlines let a pattern say what may stand between the tokens of a JSON text.
Invariant: a gap holds exactly the JSON white space (space, tab, line feed, carriage return) that its pattern matches,
or none. A separator is a comma or a colon with such white space on both sides, which do not depend on one another.
Cost: a state for each place in the patterns, `MOST_STATES` at most; found once for each choice of patterns.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from structgen import _core
from structgen.constraints.expressions import RE, character_class, concat, intersect, repeat
from structgen.constraints.regex import regex
from structgen.errors import LimitExceeded, OptionError, StructgenError

__all__ = ["MOST_STATES", "Gaps", "gaps"]

MOST_STATES = 2_000
"""States of the white space of one constraint."""

_BLANKS = b" \t\n\r"
_BLANK = character_class(((0x09, 0x0A), (0x0D, 0x0D), (0x20, 0x20)))
_CLOSES, _GOES_ON = (-1, -1, -1, -1, False, True), (-1, -1, -1, -1, True, False)
"""The first two rows, of tokens that close a container and of others."""


class Gaps:
    """`ir` is what the core reads, `separators` are a shortest comma and colon with their white space."""

    def __init__(self, ir: tuple[object, ...], separators: tuple[str, str]) -> None:
        self.ir = ir
        self.separators = separators


@lru_cache(maxsize=64)
def gaps(gap: str | None, item: str, key: str) -> Gaps:
    """Return the table of these patterns.

    Args:
        gap: Of the white space in a gap, which may also be empty; None: no gap holds any.
        item: Of what stands between items, with a comma.
        key: Of what stands between a key and its value, with a colon.

    Raises:
        OptionError: A pattern cannot be read, or matches more than white space and its sign.
        LimitExceeded: The patterns have too many states.
    """
    return _Table(gap, item, key).build()


class _Table:
    def __init__(self, gap: str | None, item: str, key: str) -> None:
        self.space = _core.RegexSpace()
        blanks = repeat(_BLANK, 0, None)
        self.optional: RE = (
            repeat(intersect([self._read("gap", gap), blanks]), 0, 1) if gap else ("literal", "")
        )
        self.item = self._separator("item_separator", item, ",")
        self.key = self._separator("key_separator", key, ":")
        self.rows: list[tuple[Any, ...]] = [_CLOSES, _GOES_ON]
        self.known: dict[tuple[str, int, int], int] = {}

    @staticmethod
    def _read(name: str, pattern: str) -> RE:
        try:
            found = regex(pattern).regular()
        except StructgenError as error:
            raise OptionError(f"{name}={pattern!r:.60} is no pattern: {error}") from None
        assert found is not None
        return found

    def _separator(self, name: str, pattern: str, sign: str) -> int:
        """The state of a separator with the gaps around it."""
        found = self._read(name, pattern)
        whole = self.space.compile(self._read(name, rf"\s*{sign}\s*"))
        if self.space.alive(self.space.intersect(self.space.compile(found), self.space.complement(whole))):
            raise OptionError(
                f"{name}={pattern!r:.60} matches more than {sign!r} and white space around it",
                hint=f"Such as {sign!r} or '\\\\s?{sign}\\\\s?'; other texts are no JSON.",
            )
        inner = repeat(_BLANK, 0, None)
        written = intersect([found, concat([inner, ("literal", sign), inner])])
        return self.space.compile(concat([self.optional, written, self.optional]))

    def build(self) -> Gaps:
        gap = self.space.compile(self.optional)
        start = self._row("gap", gap, gap)
        after_value = self._row("value", self.item, gap)
        after_key = self._row("before", self.key, 0)
        after_comma = self._row("after", self._after("item_separator", self.item, ","), 0)
        after_colon = self._row("after", self._after("key_separator", self.key, ":"), 0)
        starts = (1, start, after_key, after_colon, after_comma, after_value)
        ir = ("table", starts, tuple(self.rows))
        return Gaps(ir, (self._shortest(self.item), self._shortest(self.key)))

    def _shortest(self, state: int) -> str:
        return (self.space.witness(state) or b"").decode()

    def _after(self, name: str, state: int, sign: str) -> int:
        """What may follow the sign, whatever stands before it."""
        found: set[int] = set()
        pending, seen = [state], {state}
        while pending:
            row = self.space.row(pending.pop())
            if self.space.alive(row[ord(sign)]):
                found.add(row[ord(sign)])
            for byte in _BLANKS:
                if row[byte] not in seen and self.space.alive(row[byte]):
                    if len(seen) > MOST_STATES:
                        raise _too_many()
                    seen.add(row[byte])
                    pending.append(row[byte])
        first = found.pop() if found else self.space.EMPTY
        for other in found:
            for one, two in ((first, other), (other, first)):
                if self.space.alive(self.space.intersect(one, self.space.complement(two))):
                    raise OptionError(
                        f"{name}: the white space after {sign!r} depends on what stands before it",
                        hint="Let each side of the separator have its own white space.",
                    )
        if first == self.space.EMPTY:
            raise OptionError(f"{name}: no text matches it")
        return first

    def _row(self, kind: str, one: int, other: int) -> int:
        """The number of a state; `kind` says which tokens may follow where."""
        start = (kind, one, other)
        pending = [start] if self._number(start) else []
        while pending:
            key = pending.pop()
            kind, one, other = key
            nexts = []
            rows = self.space.row(one), self.space.row(other) if kind == "value" else None
            for byte in _BLANKS:
                after = rows[0][byte], rows[1][byte] if rows[1] is not None else 0
                if not (self.space.alive(after[0]) or (kind == "value" and self.space.alive(after[1]))):
                    nexts.append(-1)
                    continue
                made = (kind, *after)
                if self._number(made):
                    pending.append(made)
                nexts.append(self.known[made])
            sign = {"value": ",", "before": ":"}.get(kind)
            goes_on = self.space.alive(rows[0][ord(sign)]) if sign else self.space.nullable(one)
            closes = (
                self.space.nullable(other if kind == "value" else one) if kind in ("value", "gap") else False
            )
            self.rows[self.known[key]] = (*nexts, goes_on, closes)
        return self.known[start]

    def _number(self, key: tuple[str, int, int]) -> bool:
        """Is it new?"""
        if key in self.known:
            return False
        if len(self.rows) >= MOST_STATES:
            raise _too_many()
        self.known[key] = len(self.rows)
        self.rows.append(())
        return True


def _too_many() -> LimitExceeded:
    return LimitExceeded(
        f"the patterns for white space have more than {MOST_STATES:,} states",
        limit="whitespace_states",
        hint="Use smaller counts, or none: \\s+ has two states.",
    )
