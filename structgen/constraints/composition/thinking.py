"""Reasoning, then the answer: ``<think>...</think>`` in front of any constraint.

Invariant: the reasoning ends at the first `close`, so what comes after it is the answer and nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

from structgen.constraints.base import Constraint, Operand, as_constraint
from structgen.constraints.expressions import TEXT, complement, concat, intersect, literal, repeat, scope
from structgen.constraints.grammar.bodies import EMPTY, choice_of, sequence_of
from structgen.constraints.grammar.ir import Body
from structgen.errors import OptionError, OutputInvalid

from .composed import Composition, body_of
from .dispatching import stretch_until
from .parts import Special, checked_count, checked_texts

__all__ = ["Reasoning", "Thought", "reasoning"]

_MOST_LINES = 2
"""Line ends between the reasoning and the answer."""


class Thought(NamedTuple):
    """A text that was read by `Reasoning.read`."""

    reasoning: str | None
    """None: the text has none."""
    answer: str


class Reasoning(Composition):
    """Made by `reasoning`."""

    __slots__ = ("close", "is_optional", "open")

    open: str
    close: str
    is_optional: bool

    def __init__(self, body: Body, open: str, close: str, is_optional: bool, answer: Constraint) -> None:
        object.__setattr__(self, "open", open)
        object.__setattr__(self, "close", close)
        object.__setattr__(self, "is_optional", is_optional)
        super().__init__(body, f"reasoning until {close!r}, then the answer", parts=[answer])

    def read(self, text: str) -> Thought:
        """The reasoning and the answer of a finished text, as `Vocabulary.spelled` tells it from its tokens."""
        if not text.startswith(self.open) or self.is_optional and self.close not in text:
            if self.is_optional:
                return Thought(None, text)
            raise OutputInvalid(f"the text does not begin with {self.open!r}", text=text)
        thought, found, answer = text[len(self.open) :].partition(self.close)
        if not found:
            raise OutputInvalid(
                f"the reasoning has no end, {self.close!r}", text=text, hint="Raise max_tokens."
            )
        for _ in range(_MOST_LINES):
            answer = answer.removeprefix("\n")
        return Thought(thought, answer)


def reasoning(
    answer: Operand,
    *,
    open: str | Special | None = "<think>",
    close: str | Special = "</think>",
    max_chars: int | None = None,
    optional: bool = False,
) -> Reasoning:
    """Free text between `open` and `close`, at most `max_chars` characters of it, then `answer`.

    `open` is None where the prompt ends with it already, as the templates of some models do. Either marker is a
    special token where the tokenizer has it as one, and text elsewhere. One or two line ends may stand before the
    answer. With `optional` the answer may also come at once.
    """
    (end,) = checked_texts(close.token if isinstance(close, Special) else close, "close=")
    begin = open.token if isinstance(open, Special) else open or ""
    if begin:
        checked_texts(begin, "open=")
    elif optional:
        raise OptionError(
            "reasoning that the prompt has begun already is not optional",
            hint="Give open=, the text that it begins with, or leave out optional=True.",
        )
    if max_chars is not None:
        checked_count(max_chars, "max_chars")
    lines: Body = ("text", repeat(literal("\n"), 0, _MOST_LINES))
    thought = thought_of(begin, end, max_chars)
    given = as_constraint(answer)
    last = _answer(given, begin if optional else "")
    first = sequence_of((thought, lines))
    return Reasoning(
        sequence_of((choice_of((EMPTY, first)) if optional else first, last)), begin, end, optional, given
    )


def _answer(answer: Constraint, begin: str) -> Body:
    """The answer; where the reasoning may be missing, a regular one does not begin as reasoning does."""
    expression = answer.regular()
    if not begin or expression is None:
        return body_of(answer)
    return ("text", intersect([scope(expression), complement(concat([literal(begin), TEXT]))]))


def thought_of(begin: str, end: str, max_chars: int | None) -> Body:
    """The reasoning with its markers."""
    inside = stretch_until(end, True, (end,), (), max_chars)
    assert inside is not None  # a text is not inside itself
    return sequence_of((*([("special", begin)] if begin else []), *inside))
