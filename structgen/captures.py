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
from typing import Any, NamedTuple

from structgen import _core
from structgen.argument_names import checks_names
from structgen.brief import brief
from structgen.constraints.base import Constraint
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


class _Found(NamedTuple):
    name: str
    start: int
    end: int
    is_ending: bool = False
    """Whether it is a stop or suffix itself."""


class _Span:
    """A capture whose text is being read. Without a first terminal it is empty."""

    __slots__ = ("end", "fallback", "name", "start")

    def __init__(self, name: str, fallback: int) -> None:
        self.name = name
        self.fallback = fallback
        self.start: int | None = None
        self.end: int | None = None


def _parsed_as_one(constraint: Constraint) -> Any:
    """Return the grammar as which a union or a sequence is parsed."""
    return Composition(body_of(constraint), "the text").parsed(_parsed_as_one)


class _CaptureReader:
    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.languages = _Languages()

    def read(self, constraint: Constraint, text: _Text) -> list[Capture]:
        hidden: list[tuple[int, int]] = []
        spans = self._spans(constraint, text, hidden)
        hidden = sorted(set(hidden))
        return [_capture(text.data, span, hidden) for span in spans]

    def _spans(self, constraint: Constraint, text: _Text, hidden: list[tuple[int, int]]) -> list[_Found]:
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
        return self._listed(parsed, parse, trace, text, hidden)

    def _listed(
        self, parsed: Any, parse: Parse, trace: Trace, text: _Text, hidden: list[tuple[int, int]]
    ) -> list[_Found]:
        found: list[_Span | _Found] = []
        open_spans: list[_Span] = []
        """The enclosing captures, innermost last."""
        endings: list[tuple[Ending, int] | None] = []
        """For each enclosing rule: its ending, and the number of captures that were open before its own."""
        begins: list[int] = []
        """For each enclosing rule: the number of units before it."""

        def position(place: int) -> int:
            return text.offsets[trace.positions[place]]

        def leaf(event: Event) -> None:
            start, end = trace.positions[event.start], trace.positions[event.end]
            assert event.leaf is not None
            if not open_spans and not endings_around() and event.leaf[0] != "constraint":
                return
            start += self._ignored(parsed, event.leaf, text.units[start:end])
            first, last = text.offsets[start], text.offsets[end]
            for span in open_spans:
                span.start = first if span.start is None else span.start
                span.end = last
            if event.leaf[0] == "constraint" and event.leaf[1].holds_captures():
                found.extend(self._spans(event.leaf[1], text.part(start, end), hidden))
            ending = endings[-1] if endings else None
            if ending is not None:
                divide(ending[0], open_spans[ending[1] :], text.data[first:last], first)

        def endings_around() -> bool:
            return bool(endings) and endings[-1] is not None

        def divide(ending: Ending, own: list[_Span], data: bytes, first: int) -> None:
            at = self.languages.ending_start(ending, data)
            if at is None:
                return
            for span in own:
                span.end = first + at
            if ending.capture is not None:
                found.append(_Found(ending.capture, first + at, first + len(data), is_ending=True))
            if ending.hidden:
                hidden.append((first + at, first + len(data)))

        for event in parse.events():
            if event.kind == "leaf":
                leaf(event)
            elif event.kind == "open":
                assert event.leaf is not None
                if event.leaf[0] == "constraint" and event.leaf[1].holds_captures():
                    start = trace.positions[event.start]
                    found.extend(self._spans(event.leaf[1], text.part(start, len(text.units)), hidden))
            elif event.kind == "begin":
                assert event.rule is not None
                rule = event.rule
                endings.append(None if rule.ending is None else (rule.ending, len(open_spans)))
                begins.append(trace.positions[event.start])
                if rule.capture is not None:
                    span = _Span(rule.capture, position(event.start))
                    found.append(span)
                    open_spans.append(span)
            else:
                assert event.rule is not None
                endings.pop()
                limit, begin = event.rule.token_limit, begins.pop()
                if limit is not None and text.tokens(begin, trace.positions[event.end]) > limit[0]:
                    raise _not_by_bytes(text.offsets[begin])
                if event.rule.capture is not None:
                    span = open_spans.pop()
                    if span.start is None:
                        span.start = span.end = span.fallback
        listed = []
        least = 0
        for one in found:
            if isinstance(one, _Span):
                if one in open_spans or one.start is None or one.end is None:
                    continue
                one = _Found(one.name, one.start, one.end)
            if one.start == one.end < least:  # it is empty, and ignored text separates it from the next part
                one = one._replace(start=least, end=least)
            least = one.start
            listed.append(one)
        return listed

    def _has_empty(self, leaf: Body) -> bool:
        if leaf[0] == "text":
            return self.languages.has_empty(leaf[1])
        if leaf[0] != "constraint":
            return False
        return _core.Matcher(self.vocabulary.engine.compile(leaf[1].lower())).is_complete()

    def _ignored(self, parsed: Any, leaf: Body, units: list[int]) -> int:
        """Return the number of ignored units before a terminal: the fewest after which the rest is the terminal."""
        lexer = parsed.grammar.lexer
        if lexer is None or not lexer.ignore or leaf[0] != "terminal" or max(units, default=0) >= _SPECIAL:
            return 0
        terminals = {one.name: one for one in lexer.terminals}
        if leaf[1] not in terminals:
            return 0
        ignored = [terminals[name].language for name in lexer.ignore]
        return self.languages.ignored(ignored, terminals[leaf[1]].language, bytes(units))


def _not_by_bytes(offset: int) -> GrammarUnsupported:
    return GrammarUnsupported(
        f"the captures of this text cannot be determined from byte {offset} on",
        hint="The text is read again by its bytes. That fails if max_tokens cut a part or a token was read as a whole.",
    )


def _capture(data: bytes, span: _Found, hidden: Sequence[tuple[int, int]]) -> Capture:
    text = bytearray()
    at = span.start
    for number in range(bisect_left(hidden, (span.start, 0)), len(hidden)):
        first, last = hidden[number]
        if span.is_ending or first >= span.end:
            break
        if at <= first and last <= span.end:
            text += data[at:first]
            at = last
    text += data[at : span.end]
    return Capture(span.name, text.decode("utf-8", "replace"), span.start, span.end)


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
        found = [0] if space.nullable(state) else []
        for at, byte in enumerate(data, 1):
            state = space.row(state)[byte]
            if state == space.EMPTY:
                break
            if space.nullable(state):
                found.append(at)
        return found

    def ending_start(self, ending: Ending, data: bytes) -> int | None:
        """Return the earliest offset at which the ending begins; None if it does not occur."""
        end = self._state(ending.text)
        for at in self._ends(ending.before, data):
            if self._space.matches(end, data[at:]):
                return at
        return None

    def ignored(self, ignored: Sequence[RE], language: RE, data: bytes) -> int:
        """Return the length of the ignored text before a terminal that is the rest of `data`."""
        whole = self._state(language)
        pending, seen = [0], {0}
        while pending:
            at = min(pending)
            pending.remove(at)
            if self._space.matches(whole, data[at:]):
                return at
            for length in (length for one in ignored for length in self._ends(one, data[at:])):
                if length and at + length < len(data) and at + length not in seen:
                    seen.add(at + length)
                    pending.append(at + length)
        return 0
