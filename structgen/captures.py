"""Captures: the parts of a text that rules of a grammar name, `name[capture]: ...` in Lark's notation.

Why: users want the named parts without parsing the text themselves.
What: when captures are requested, the text is parsed again, and one parse is used (`grammar/parsing.py`).
Invariant: masks and steps do not depend on captures. Of several parses the first in a fixed order counts; see
docs/grammars.md.
Cost: that of reading the text again, and of a parse in Python: about 0.1 ms for each terminal of an unambiguous
grammar. The limits are `capture_steps` and those of the core.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from structgen import _core
from structgen.argument_names import checks_names
from structgen.brief import brief
from structgen.constraints.base import CaptureParser, Constraint
from structgen.constraints.composition.composed import Composition, body_of
from structgen.constraints.expressions import RE, nullable, scope
from structgen.constraints.failures import limit_exceeded
from structgen.constraints.grammar.parsing import Event, Parse, Trace
from structgen.constraints.token_limits import TokenLimit
from structgen.errors import GrammarUnsupported
from structgen.ir.grammar import Body, Ending
from structgen.vocabulary import Vocabulary

__all__ = ["Capture", "CapturedText", "captures_of"]

_SPECIAL = 256


class Capture(NamedTuple):
    """A part of a text that a rule captured.

    `start` and `end` are offsets in bytes. `text` is the text between them, without the stops of rules inside it.
    """

    name: str
    text: str
    start: int
    end: int

    def __repr__(self) -> str:
        return (
            f"Capture(name={brief(self.name)}, text={brief(self.text)}, start={self.start}, end={self.end})"
        )


class _Text(NamedTuple):
    """A text as the core reads it: units, and the bytes that each unit stands for."""

    units: list[int]
    """Bytes, and special tokens from 256 on."""
    ends: Sequence[int]
    """The numbers of units of the whole text after which a token ends, in ascending order."""
    begin: int
    """The number of units of the whole text before these."""
    offsets: list[int]
    """For each unit and for the end, the number of bytes before it."""
    data: bytes

    def part(self, start: int, end: int) -> _Text:
        """Return the units of a part; offsets stay those of the whole text."""
        return _Text(
            self.units[start:end], self.ends, self.begin + start, self.offsets[start : end + 1], self.data
        )

    def tokens(self, start: int, end: int) -> int:
        """Return the number of tokens that contain a unit of a part."""
        if start == end:
            return 0
        first, last = self.begin + start, self.begin + end
        return bisect_left(self.ends, last) - bisect_right(self.ends, first) + 1


@checks_names
def captures_of(
    constraint: Constraint,
    vocabulary: Vocabulary,
    tokens: Sequence[int],
    *,
    before: bytes = b"",
    spells_specials: bool = False,
) -> list[Capture]:
    """Return the captures of a text, in the order in which the parts begin, outer parts first.

    Args:
        constraint: The constraint that the text, or a text that it begins, satisfies.
        vocabulary: The vocabulary of the tokens.
        tokens: The text, without an end-of-sequence token.
        before: Bytes of the text before its first token.
        spells_specials: Whether the text contains special tokens by their names, as results of `structgen.reasoning`.

    Returns:
        The captures of rules that are complete. For a complete text, those of the whole text.

    Raises:
        LimitExceeded: The text has too many parses.
        GrammarUnsupported: The constraint does not preserve the grammar's rules, or the text cannot be read again by
            its bytes: `max_tokens` has cut a part, or a token of text was read as a whole.
    """
    if not constraint.holds_captures():
        return []
    named = {number: name for name, number in vocabulary.specials.items()} if spells_specials else {}
    units = list(before)
    lengths = [1] * len(before)
    data = [before]
    ends = [len(units)] if units else []
    for token in tokens:
        content = vocabulary.token_bytes(token)
        if content:
            units.extend(content)
            lengths.extend([1] * len(content))
            data.append(content)
        else:
            units.append(_SPECIAL + token)
            name = named.get(token, "").encode()
            lengths.append(len(name))
            data.append(name)
        ends.append(len(units))
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + length)
    text = _Text(units, ends, 0, offsets, b"".join(data))
    try:
        return _CaptureReader(vocabulary).read(constraint, text)
    except _core.LimitError as error:
        raise limit_exceeded(error) from None


@dataclass(frozen=True)
class CapturedText:
    """A text whose captures are computed on first access."""

    constraint: Constraint
    vocabulary: Vocabulary
    tokens: tuple[int, ...]
    spells_specials: bool

    @cached_property
    def captures(self) -> list[Capture]:
        """The captures of the text; see `captures_of`."""
        return captures_of(
            self.constraint, self.vocabulary, self.tokens, spells_specials=self.spells_specials
        )


class _CapturedRange(NamedTuple):
    """A capture by its first and last byte."""

    name: str
    start: int
    end: int
    is_ending: bool = False
    """Whether it is a stop or suffix itself."""


class _OpenCapture:
    """A capture whose text is being read. Without a first terminal it is empty."""

    __slots__ = ("end", "fallback", "name", "start")

    def __init__(self, name: str, fallback: int) -> None:
        self.name = name
        self.fallback = fallback
        """Where it stands if it stays empty."""
        self.start: int | None = None
        self.end: int | None = None


def _parsed_as_one(constraint: Constraint) -> CaptureParser:
    """Return the grammar as which a union or a sequence is parsed."""
    return Composition(body_of(constraint), "the text").parsed(_parsed_as_one)


class _CaptureReader:
    """Parses texts of constraints, and lists what their rules captured."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.languages = _Languages()

    def read(self, constraint: Constraint, text: _Text) -> list[Capture]:
        hidden: list[tuple[int, int]] = []
        ranges = self.ranges(constraint, text, hidden)
        hidden = sorted(set(hidden))
        return [_capture(text.data, captured, hidden) for captured in ranges]

    def ranges(
        self, constraint: Constraint, text: _Text, hidden: list[tuple[int, int]]
    ) -> list[_CapturedRange]:
        """Return the captures with their first and last bytes; add the hidden ranges of stops to `hidden`."""
        parsed = constraint.parsed(_parsed_as_one)
        if parsed is None:
            raise GrammarUnsupported(
                f"captures of {constraint.describe()} are not supported",
                hint="Use the grammar itself as the constraint, or combine it with +, | and the other operators.",
            )
        if isinstance(constraint, TokenLimit) and text.tokens(0, len(text.units)) > constraint.max_tokens:
            raise _not_by_bytes(text.offsets[0])
        program = self.vocabulary.engine.compile(parsed.ir)
        positions, accepting, edges, open_places, read = _core.Matcher(program).trace(text.units)
        if read < len(text.units) or not positions:
            raise _not_by_bytes(text.offsets[read])
        trace = Trace(positions, accepting, edges, open_places)
        parse = Parse(parsed.rules, parsed.grammar.start, parsed.terminals, self._has_empty, trace)
        return _CaptureWalk(self, parsed, trace, text, hidden).ranges(parse)

    def _has_empty(self, leaf: Body) -> bool:
        if leaf[0] == "text":
            return self.languages.has_empty(leaf[1])
        if leaf[0] != "constraint":
            return False
        return _core.Matcher(self.vocabulary.engine.compile(leaf[1].lower())).is_complete()


class _CaptureWalk:
    """One walk through the events of a parse, which collects the captures of its rules."""

    def __init__(
        self,
        reader: _CaptureReader,
        parsed: CaptureParser,
        trace: Trace,
        text: _Text,
        hidden: list[tuple[int, int]],
    ) -> None:
        self._reader, self._parsed, self._trace, self._text = reader, parsed, trace, text
        self._hidden = hidden
        """The ranges of hidden stops, to which the walk adds its own."""
        self._captures: list[_OpenCapture | _CapturedRange] = []
        """All captures, in the order in which they begin."""
        self._open: list[_OpenCapture] = []
        """The enclosing captures, innermost last."""
        self._endings: list[tuple[Ending, int] | None] = []
        """For each enclosing rule: its ending, and the number of captures that were open before its own."""
        self._begins: list[int] = []
        """For each enclosing rule: the number of units before it."""

    def ranges(self, parse: Parse) -> list[_CapturedRange]:
        """Return the captures of complete rules."""
        handlers = {"leaf": self._leaf, "open": self._open_leaf, "begin": self._begin, "end": self._end}
        for event in parse.events():
            handlers[event.kind](event)
        listed = []
        least = 0
        for capture in self._captures:
            if isinstance(capture, _OpenCapture):
                if capture in self._open or capture.start is None or capture.end is None:
                    continue
                capture = _CapturedRange(capture.name, capture.start, capture.end)
            if capture.start == capture.end < least:
                # It is empty, and ignored text separates it from the next part.
                capture = capture._replace(start=least, end=least)
            least = capture.start
            listed.append(capture)
        return listed

    def _leaf(self, event: Event) -> None:
        """Extend the open captures by a terminal or an embedded constraint."""
        start, end = self._trace.positions[event.start], self._trace.positions[event.end]
        assert event.leaf is not None
        ending = self._endings[-1] if self._endings else None
        if not self._open and ending is None and event.leaf[0] != "constraint":
            return
        start += self._ignored(event.leaf, self._text.units[start:end])
        first, last = self._text.offsets[start], self._text.offsets[end]
        for capture in self._open:
            capture.start = first if capture.start is None else capture.start
            capture.end = last
        if event.leaf[0] == "constraint" and event.leaf[1].holds_captures():
            part = self._text.part(start, end)
            self._captures.extend(self._reader.ranges(event.leaf[1], part, self._hidden))
        if ending is not None:
            self._divide(ending[0], self._open[ending[1] :], self._text.data[first:last], first)

    def _divide(self, ending: Ending, own: list[_OpenCapture], data: bytes, first: int) -> None:
        """Separate the ending from the text of its rule: it belongs to no capture of the rule itself."""
        offset = self._reader.languages.ending_start(ending, data)
        if offset is None:
            return
        for capture in own:
            capture.end = first + offset
        if ending.capture is not None:
            self._captures.append(
                _CapturedRange(ending.capture, first + offset, first + len(data), is_ending=True)
            )
        if ending.hidden:
            self._hidden.append((first + offset, first + len(data)))

    def _open_leaf(self, event: Event) -> None:
        """Add the captures of an embedded constraint that the text ends in."""
        assert event.leaf is not None
        if event.leaf[0] == "constraint" and event.leaf[1].holds_captures():
            part = self._text.part(self._trace.positions[event.start], len(self._text.units))
            self._captures.extend(self._reader.ranges(event.leaf[1], part, self._hidden))

    def _begin(self, event: Event) -> None:
        assert event.rule is not None
        rule, begin = event.rule, self._trace.positions[event.start]
        self._endings.append(None if rule.ending is None else (rule.ending, len(self._open)))
        self._begins.append(begin)
        if rule.capture is not None:
            capture = _OpenCapture(rule.capture, self._text.offsets[begin])
            self._captures.append(capture)
            self._open.append(capture)

    def _end(self, event: Event) -> None:
        assert event.rule is not None
        self._endings.pop()
        limit, begin = event.rule.token_limit, self._begins.pop()
        if limit is not None and self._text.tokens(begin, self._trace.positions[event.end]) > limit[0]:
            raise _not_by_bytes(self._text.offsets[begin])
        if event.rule.capture is not None:
            capture = self._open.pop()
            if capture.start is None:
                capture.start = capture.end = capture.fallback

    def _ignored(self, leaf: Body, units: list[int]) -> int:
        """Return the number of ignored units before a terminal: the fewest after which the rest is the terminal."""
        lexer = self._parsed.grammar.lexer
        if lexer is None or not lexer.ignore or leaf[0] != "terminal" or max(units, default=0) >= _SPECIAL:
            return 0
        terminals = {terminal.name: terminal for terminal in lexer.terminals}
        if leaf[1] not in terminals:
            return 0
        ignored = [terminals[name].language for name in lexer.ignore]
        return self._reader.languages.ignored(ignored, terminals[leaf[1]].language, bytes(units))


def _not_by_bytes(offset: int) -> GrammarUnsupported:
    return GrammarUnsupported(
        f"the captures of this text cannot be determined from byte {offset} on",
        hint="The text is read again by its bytes. That fails if max_tokens cut a part or a token was read as a whole.",
    )


def _capture(data: bytes, captured: _CapturedRange, hidden: Sequence[tuple[int, int]]) -> Capture:
    """Return the capture with its text, without the hidden ranges inside it."""
    text = bytearray()
    start = captured.start
    for index in range(bisect_left(hidden, (captured.start, 0)), len(hidden)):
        first, last = hidden[index]
        if captured.is_ending or first >= captured.end:
            break
        if start <= first and last <= captured.end:
            text += data[start:first]
            start = last
    text += data[start : captured.end]
    return Capture(captured.name, text.decode("utf-8", "replace"), captured.start, captured.end)


class _Languages:
    """Queries about the texts of terminals and endings."""

    def __init__(self) -> None:
        self._space = _core.RegexSpace()
        self._known: dict[int, tuple[RE, int]] = {}

    def _state(self, expression: RE) -> int:
        known = self._known.get(id(expression))
        if known is None:
            known = self._known[id(expression)] = expression, self._space.compile(scope(expression))
        return known[1]

    def has_empty(self, expression: RE) -> bool:
        known = nullable(expression)
        return self._space.nullable(self._state(expression)) if known is None else known

    def _ends(self, expression: RE, data: bytes) -> list[int]:
        """Return the lengths of the prefixes of `data` that the expression matches."""
        space, state = self._space, self._state(expression)
        lengths = [0] if space.nullable(state) else []
        for length, byte in enumerate(data, 1):
            state = space.row(state)[byte]
            if state == space.EMPTY:
                break
            if space.nullable(state):
                lengths.append(length)
        return lengths

    def ending_start(self, ending: Ending, data: bytes) -> int | None:
        """Return the earliest offset at which the ending begins; None if it does not occur."""
        end = self._state(ending.text)
        for offset in self._ends(ending.before, data):
            if self._space.matches(end, data[offset:]):
                return offset
        return None

    def ignored(self, ignored: Sequence[RE], language: RE, data: bytes) -> int:
        """Return the length of the ignored text before a terminal that is the rest of `data`."""
        whole = self._state(language)
        pending, seen = [0], {0}
        while pending:
            offset = min(pending)
            pending.remove(offset)
            rest = data[offset:]
            if self._space.matches(whole, rest):
                return offset
            for length in (length for expression in ignored for length in self._ends(expression, rest)):
                if length and length < len(rest) and offset + length not in seen:
                    seen.add(offset + length)
                    pending.append(offset + length)
        return 0
