"""The parts of a turn as grammar bodies: reasoning, text, an answer, and calls, in one format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from structgen.constraints.base import Constraint
from structgen.constraints.composition import Composition, body_of
from structgen.constraints.expressions import (
    ANY,
    RE,
    TEXT,
    character_class,
    complement,
    concat,
    intersect,
    literal,
    normalise_ranges,
    repeat,
    scope,
)
from structgen.constraints.occurrences import before, without
from structgen.constraints.token_limits import limit_tokens
from structgen.ir.grammar import Body, Rule

from .answer_beginnings import check_beginnings
from .arguments import arguments_of
from .bodies import EMPTY, choice_of, pieces, sequence_of, text_of
from .definitions import Tool
from .format_texts import COUNTERS, ToolFormat
from .forms import Form
from .order import Order
from .ordered_calls import CallPieces, ordered_calls
from .partial_turn import MOST_LINES
from .xml_parameters import SharedParameters

__all__ = ["ReasoningChoice", "TurnParts"]

ReasoningChoice = bool | Literal["optional", "opened", "skipped"]


class TurnParts:
    """Builds the parts of a turn in one format."""

    def __init__(self, format: ToolFormat, reasoning: ReasoningChoice, max_text: int | None) -> None:
        self.format = format
        self.is_opened = reasoning == "skipped"
        """Whether the prompt has opened the answer, so that there is no reasoning."""
        reasoning = False if self.is_opened else reasoning
        self.reasoning: ReasoningChoice = reasoning
        self.max_text = max_text
        self.forms: dict[str, dict[str, Form]] = {}
        thinks = () if reasoning is False or format.marks_answers else format.think
        self.never = tuple(dict.fromkeys((*format.specials, *thinks)))
        # A marker of the reasoning that contains a special token is not one itself.
        marks = [mark for mark in format.think if not any(special in mark for special in format.specials)]
        self.lines = (
            [] if reasoning is False or format.marks_answers else [repeat(literal("\n"), 0, MOST_LINES)]
        )
        """Line ends after the reasoning, which do not belong to the text after them."""
        self.specials = tuple(dict.fromkeys((*format.specials, *(() if format.marks_answers else marks))))

    def thought(self, most: int | None, most_tokens: int | None) -> Body:
        """Return the reasoning with its markers, of at most so many characters and tokens."""
        if self.reasoning is False:
            return EMPTY
        begin, end = self.format.think
        first = next(special for special in self.specials if end.startswith(special))
        others = tuple(special for special in self.format.specials if special != first)
        inside: Body = ("text", _bounded(before(first, (first,), others), most))
        if most_tokens is not None:
            inside = body_of(limit_tokens(Composition(inside, "the reasoning"), most_tokens))
        lines: Body = ("text", self.lines[0]) if self.lines else EMPTY
        opened = EMPTY if self.reasoning == "opened" else pieces(begin, self.specials)
        whole = sequence_of((opened, inside, pieces(end, self.specials), lines))
        return choice_of((EMPTY, whole)) if self.reasoning == "optional" else whole

    def reply(self, parts: Sequence[Body]) -> Body:
        """Return what follows the reasoning, one of these, with the markers around it."""
        begin, end = self.format.reply
        return sequence_of((pieces(begin, self.specials), choice_of(parts), pieces(end, self.specials)))

    def answer(self, constraint: Constraint | None) -> Body:
        """Return the final answer with its markers. Raises `OptionError` if it may begin as a call does."""
        begin, end = self.format.answer
        begin = "" if self.is_opened else begin
        expression = _bounded(TEXT, self.max_text) if constraint is None else constraint.regular()
        if expression is None:
            assert constraint is not None
            check_beginnings(
                constraint,
                self.format,
                reasons=self.reasoning is not False,
                optional=self.reasoning == "optional",
                is_opened=self.is_opened,
            )
            inside = body_of(constraint)
        else:
            parts = [scope(expression), without(self.never)]
            if self.format.at_start:
                parts.append(complement(concat([*self.lines, literal(self.format.marker), TEXT])))
            inside = ("text", intersect(parts))
        return sequence_of((pieces(begin, self.specials), inside, pieces(end, self.specials)))

    def preamble(self, calls: Body) -> Body:
        """Return free text, if the format allows it before calls, then calls."""
        if self.format.at_start:
            return calls
        begin, end = self.format.say
        if self.format.is_framed and not begin:
            return calls
        if begin:
            said: Body = ("text", _bounded(without(self.never), self.max_text))
            opening = EMPTY if self.is_opened else pieces(begin, self.specials)
            framed = sequence_of((opening, said, pieces(end, self.specials)))
            is_always = self.format.says_always or self.is_opened
            return sequence_of((framed if is_always else choice_of((EMPTY, framed)), calls))
        marker = self.format.marker
        others = tuple(special for special in self.never if special not in marker)
        return sequence_of((("text", _bounded(before(marker, (marker,), others), self.max_text)), calls))

    def without_text(self, calls: Body) -> Body:
        """Return calls without text before them, after its markers if the format always has these."""
        if not (self.format.says_always or self.is_opened):
            return calls
        begin, end = self.format.say
        return sequence_of((pieces(end if self.is_opened else begin + end, self.specials), calls))

    def calls(self, called: Sequence[Tool], most: int | None) -> tuple[Body | None, list[Rule]]:
        """Return one call or several, with their markers, and the grammar rules that they use."""
        if not called:
            return None, []
        written = self.written(called)
        # The common beginning and end of all calls occur once in the grammar.
        call = sequence_of((written.start, choice_of(written.tools.values()), written.end))
        more: Body = ("repeat", sequence_of((written.between, call)), 0, None if most is None else most - 1)
        return self.framed(call if most == 1 else sequence_of((call, more))), []

    def in_order(
        self, order: Order, called: Sequence[Tool], most: int | None
    ) -> tuple[Body | None, list[Rule]]:
        """Return calls in an order, with their markers, and the grammar rules that they use."""
        rules = ordered_calls(order, called, most, self.written(called)) if called else []
        return (self.framed(("rule", rules[0].name)) if rules else None), rules

    def framed(self, calls: Body) -> Body:
        """Return calls with the markers before the first and after the last."""
        return sequence_of(
            (pieces(self.format.begin, self.specials), calls, pieces(self.format.end, self.specials))
        )

    def written(self, called: Sequence[Tool]) -> CallPieces:
        """Return the parts of a call to each tool."""
        start, middle, end = (sequence_of(part) for part in self._split_call())
        each = {}
        shared = SharedParameters()
        for tool in called:
            arguments, self.forms[tool.name] = arguments_of(
                tool, self.format, lambda text: pieces(text, self.specials), shared
            )
            each[tool.name] = sequence_of((text_of(tool.name), middle, arguments))
        between = pieces(self.format.between or "", self.specials)
        return CallPieces(start, each, end, between)

    def _split_call(self) -> list[list[Body]]:
        """Return the bodies before the name, between it and the arguments, and after them."""
        parts: list[list[Body]] = [[]]
        for kind, text in self.format.pieces:
            if kind in ("name", "arguments"):
                parts.append([])
            elif kind == "text":
                parts[-1].append(pieces(text, self.specials))
            else:
                allowed, least, most = COUNTERS[text]
                one = character_class(normalise_ranges((ord(letter), ord(letter)) for letter in allowed))
                parts[-1].append(("text", repeat(one, least, most)))
        return parts


def _bounded(expression: RE, most: int | None) -> RE:
    return expression if most is None else intersect([expression, repeat(ANY, 0, most)])
