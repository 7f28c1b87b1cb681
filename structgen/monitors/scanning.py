"""The dispatch automaton: from the bytes of a text to the positions at which monitors are queried.

What: the lexer of a language together with one automaton for each `Trigger` pattern, and the positions at which a name
is awaited. Invariant: a state is immutable and a function of the bytes read, not of how tokens cut them.
Cost: about two microseconds a byte. The patterns are one automaton, built as it is read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from structgen import _core
from structgen.constraints.expressions import RE
from structgen.constraints.regex import regex
from structgen.errors import OptionError, with_kind

from .languages import Language
from .lexer import ARGUMENT, CALL, CLOSE, IMPORT, MEMBER, Lexed, Lexer
from .monitor import Trigger

__all__ = ["PLACES", "Query", "Scan", "Scanner", "Written"]

PLACES = (MEMBER, CALL, ARGUMENT, CLOSE, IMPORT)
_MOST_KEPT = 1_000_000
"""How many states of single patterns the kept joint states may hold."""


class Query(NamedTuple):
    """A position at which a monitor is to be queried."""

    monitor: int
    place: str
    offset: int
    """Number of bytes before it, the document's beginning included."""


class Written(NamedTuple):
    """The name that was written at a trigger."""

    query: Query
    name: bytes


class Joint:
    """A state of all patterns together."""

    __slots__ = ("_hash", "after", "each")

    def __init__(self, each: tuple[int, ...]) -> None:
        self.each = each
        self._hash = hash(each)
        self.after: dict[int, tuple[Joint, tuple[int, ...]]] = {}
        """By byte: the next state, and the patterns that match there; filled when needed."""

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Joint) and self.each == other.each)

    def __hash__(self) -> int:
        return self._hash


class Scan(NamedTuple):
    """A state of the scanner."""

    lexed: Lexed
    patterns: Joint
    length: int
    """Number of bytes read."""
    statement: int
    """Offset at which the statement began."""
    awaited: tuple[tuple[Query, bytes], ...] = ()
    """Triggers that await a name, with the part of it that is written."""


def _ends_with(pattern: str) -> RE:
    """Return the language of texts that end with a match.

    The pattern is read together with the text before it, so that its anchors and look-behinds see that text.
    """
    flags = re.match(r"\(\?[aims]+\)", pattern)
    rest = pattern[flags.end() :] if flags else pattern
    regex(pattern)  # an error shows its own position
    return regex(f"{flags[0] if flags else ''}(?s:.*)(?:{rest})").regular()


class Scanner:
    """The automaton of a language and the triggers of monitors."""

    def __init__(self, language: Language, triggers: Sequence[Sequence[str | Trigger]]) -> None:
        self.lexer = Lexer(language)
        self._by_place: dict[str, list[int]] = {place: [] for place in PLACES}
        self._patterns: list[tuple[int, Trigger]] = []
        for monitor, each in enumerate(triggers):
            if isinstance(each, str) or not isinstance(each, Sequence):
                raise OptionError(
                    f"a monitor's triggers are {with_kind(each)}", hint='Write a list: ["member"].'
                )
            for trigger in each:
                if isinstance(trigger, Trigger):
                    self._patterns.append((monitor, trigger))
                elif isinstance(trigger, str) and trigger in self._by_place:
                    self._by_place[trigger].append(monitor)
                else:
                    raise OptionError(
                        f"a monitor has the trigger {with_kind(trigger)}",
                        hint=f"Triggers are {', '.join(PLACES)} and Trigger(pattern).",
                    )
        self._space = _core.RegexSpace()
        roots = Joint(tuple(self._compiled(trigger.pattern) for _, trigger in self._patterns))
        self._known = {roots: roots}
        queries = [
            Query(monitor, trigger.pattern, 0)
            for (monitor, trigger), root in zip(self._patterns, roots.each, strict=True)
            if self._space.nullable(root) and (trigger.everywhere or self.lexer.start.in_code)
        ]
        self.start = Scan(self.lexer.start, roots, 0, 0, tuple((query, b"") for query in queries))

    def _compiled(self, pattern: str) -> int:
        state: int = self._space.compile(_ends_with(pattern))
        if not self._space.alive(state):
            raise OptionError(
                f"the trigger {pattern!r:.80} matches nothing that a text ends with",
                hint="A look-ahead at its end sees nothing: a monitor is queried before the text continues.",
            )
        return state

    def triggers(self, lexed: Lexed) -> bytes:
        """Return the bytes after which a trigger may stand in a token that is read from here."""
        if self._patterns:
            return bytes(range(256))
        triggers = bytearray()
        for place, marks in ((MEMBER, b"."), (CALL, b"("), (ARGUMENT, b","), (CLOSE, b")")):
            if self._by_place[place]:
                triggers += marks
        if self._by_place[IMPORT] and (lexed.heading or lexed.fresh or lexed.in_word):
            triggers += b" ,.("
        return bytes(triggers)

    def read(self, scan: Scan, text: bytes) -> Scan:
        """Return the state after a text, without its triggers."""
        for byte in text:
            scan, _, _ = self.step(scan, byte)
        return scan

    def step(self, scan: Scan, byte: int) -> tuple[Scan, list[Query], list[Written]]:
        """Return the state after a byte, the triggers there, and the names that the byte ended."""
        lexed, place = self.lexer.step(scan.lexed, byte)
        length = scan.length + 1
        awaited, written = self._awaited(scan.awaited, byte) if scan.awaited else ((), [])
        queries: list[Query] = []
        if place is not None:
            queries += [Query(monitor, place, length) for monitor in self._by_place[place]]
        patterns = scan.patterns
        if self._patterns:
            patterns, matched = self._after(patterns, byte)
            for number in matched:
                monitor, trigger = self._patterns[number]
                if trigger.everywhere or lexed.in_code:
                    queries.append(Query(monitor, trigger.pattern, length))
        # subtle: for the lexer a statement still begins after the first letters of its first word
        statement = length if lexed.fresh and not lexed.in_word else scan.statement
        if queries:
            awaited = (*awaited, *((query, b"") for query in queries if query.place != CLOSE))
        return Scan(lexed, patterns, length, statement, awaited), queries, written

    def _after(self, state: Joint, byte: int) -> tuple[Joint, tuple[int, ...]]:
        """Return the patterns' state after a byte, and the patterns that match there."""
        known = state.after.get(byte)
        if known is None:
            space = self._space
            each = tuple(space.derivative(pattern_state, byte) for pattern_state in state.each)
            matched = tuple(number for number, derivative in enumerate(each) if space.nullable(derivative))
            if len(self._known) * len(each) > _MOST_KEPT:
                for one in self._known:
                    one.after.clear()
                self._known.clear()
            joint = Joint(each)
            known = state.after[byte] = self._known.setdefault(joint, joint), matched
        return known

    def _awaited(
        self, awaited: tuple[tuple[Query, bytes], ...], byte: int
    ) -> tuple[tuple[tuple[Query, bytes], ...], list[Written]]:
        rest: list[tuple[Query, bytes]] = []
        written: list[Written] = []
        for query, name in awaited:
            if self.lexer.is_word_byte(byte):
                rest.append((query, name + bytes((byte,))))
            elif not name and byte in b" \t\r\n":
                rest.append((query, name))
            else:
                written.append(Written(query, name))
        return tuple(rest), written
