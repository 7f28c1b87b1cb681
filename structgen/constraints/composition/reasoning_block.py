"""Reasoning before the answer: ``<think>...</think>`` in front of any constraint or type.

What: `reasoning` builds a composition, an automaton like any other. With `max_tokens` it builds a `CappedReasoning`: no
automaton over texts can count tokens, so its matcher does (`structgen.capped_matcher`).
Invariant: the reasoning ends at the first `close`, so all text after it is the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from structgen.argument_names import checks_names, checks_names_of_init
from structgen.brief import short_repr
from structgen.constraints.base import (
    IR,
    CaptureParser,
    Constraint,
    Operand,
    RuleViolation,
    Stop,
    as_constraint,
)
from structgen.constraints.expressions import TEXT, complement, concat, intersect, literal, repeat, scope
from structgen.constraints.grammar.bodies import EMPTY, choice_of, sequence_of
from structgen.constraints.token_limits import limit_tokens
from structgen.errors import CombinationError, OptionError, OutputInvalid, TypeNotSupported
from structgen.ir.grammar import Body

from .composed import Composition, body_of, text_of
from .elements import Special, checked_count, checked_texts
from .trigger_dispatch import stretch_until

__all__ = ["CappedReasoning", "Reasoning", "ReasoningOptions", "Thought", "counted_reasoning", "reasoning"]

_TOKENS = re.compile(r"(<[^<>\s]+>)")
"""Special tokens inside a longer marker, as in ``<|channel>thought``."""
_MOST_LINES = 2
"""The most newlines between the reasoning and the answer."""


class Thought(NamedTuple):
    """A text split by `Reasoning.read`."""

    reasoning: str | None
    """The reasoning; None if the text has none."""
    answer: str


class Reasoning(Composition):
    """Reasoning and an answer; `reasoning` builds it."""

    __slots__ = ("answer", "close", "is_optional", "open")

    open: str
    close: str
    is_optional: bool
    spells_specials = True
    """Whether texts name special tokens: the markers may be special tokens, and `read` searches for them."""
    answer: Operand
    """The constraint, the string or the type of the answer."""

    def __init__(
        self, body: Body, open: str, close: str, is_optional: bool, answer: Operand, part: Constraint
    ) -> None:
        object.__setattr__(self, "open", open)
        object.__setattr__(self, "close", close)
        object.__setattr__(self, "is_optional", is_optional)
        object.__setattr__(self, "answer", answer)
        super().__init__(body, f"reasoning until {close!r}, then the answer", parts=[part])

    @property
    def markers(self) -> tuple[str, str]:
        """The texts before and after the reasoning; the first is empty if the prompt already contains it."""
        return self.open, self.close

    def read(self, text: str) -> Thought:
        """Split a finished text, as `Vocabulary.spelled` returns it, into the reasoning and the answer."""
        if not text.startswith(self.open) or self.is_optional and self.close not in text:
            if self.is_optional:
                return Thought(None, text)
            raise OutputInvalid(f"the text does not begin with {self.open!r}", text=text)
        thought, found, answer = text[len(self.open) :].partition(self.close)
        if not found:
            raise OutputInvalid(
                f"the reasoning does not end with {self.close!r}", text=text, hint="Raise max_tokens."
            )
        for _ in range(_MOST_LINES):
            answer = answer.removeprefix("\n")
        return Thought(thought, answer)


class CappedReasoning(Constraint):
    """Reasoning with a limit of tokens, and an answer; `reasoning` with `max_tokens` builds it."""

    __slots__ = ("max_tokens", "reasoning")

    reasoning: Reasoning
    """The same without the limit."""
    spells_specials = True
    max_tokens: int

    def __init__(self, reasoning: Reasoning, max_tokens: int) -> None:
        object.__setattr__(self, "reasoning", reasoning)
        object.__setattr__(self, "max_tokens", max_tokens)

    def counts_tokens(self) -> bool:
        """Return True: the reasoning has a limit of tokens."""
        return True

    def matcher_class(self) -> type[Any]:
        """Return the class of its matchers, which is in a layer above this one."""
        found: type[Any] = import_module("structgen.capped_matcher").CappedMatcher
        return found

    @property
    def markers(self) -> tuple[str, str]:
        """See `Reasoning.markers`."""
        return self.reasoning.markers

    def read(self, text: str) -> Thought:
        """See `Reasoning.read`."""
        return self.reasoning.read(text)

    def holds_captures(self) -> bool:
        """Return whether rules in the reasoning or the answer capture parts of the text."""
        return self.reasoning.holds_captures()

    def parsed(self, compose: Callable[[Constraint], CaptureParser]) -> CaptureParser:
        """Return how texts are parsed without the limit, which does not change the captures."""
        return self.reasoning.parsed(compose)

    def lower(self) -> IR:
        """Raise `CombinationError`: no automaton over texts counts tokens."""
        raise CombinationError(
            "reasoning with max_tokens cannot be part of another constraint, since its matcher counts tokens",
            hint="Limit the reasoning with max_chars, put the other constraint into its answer, or build it from "
            "limit_tokens(text('</think>'), ...).",
        )

    def tree_size(self) -> int:
        """Return the number of parts without the limit."""
        return self.reasoning.tree_size()

    def describe(self) -> str:
        """Return the phrase of the reasoning, with the limit of tokens."""
        return f"{self.reasoning.describe()}, at most {self.max_tokens} tokens of reasoning"

    def instructions(self) -> str:
        """Return the instructions of the answer; the limit needs none."""
        return self.reasoning.instructions()

    def shown(self, names: Sequence[str]) -> list[str]:
        """Return terminals and rules as the reasoning without the limit names them."""
        return self.reasoning.shown(names)

    def find_broken_rules(self, stop: Stop, checks: list[Callable[[IR], bool]]) -> list[RuleViolation]:
        """Return the rules that the text breaks without the limit of tokens."""
        return self.reasoning.find_broken_rules(stop, checks)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CappedReasoning):
            return False if isinstance(other, Constraint) else NotImplemented
        return self.max_tokens == other.max_tokens and self.reasoning == other.reasoning

    def __hash__(self) -> int:
        return hash((self.max_tokens, self.reasoning))

    def __repr__(self) -> str:
        return f"<{self.describe()}>"


@checks_names_of_init
@short_repr
@dataclass(frozen=True)
class ReasoningOptions:
    """The options of `reasoning`, for annotations.

    Example: ``Annotated[sg.Thinking[Person], sg.ReasoningOptions(max_tokens=200)]``.
    """

    open: str | Special | None = "<think>"
    close: str | Special = "</think>"
    max_chars: int | None = None
    max_tokens: int | None = None
    optional: bool = False

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> NoReturn:
        """Raise an error, since pydantic calls this only where the options would have no effect."""
        raise TypeNotSupported(
            f"ReasoningOptions have no effect on {source!r:.60}",
            hint="Annotate the whole output type: Annotated[sg.Thinking[Person], sg.ReasoningOptions(...)].",
        )

    def around(self, answer: Operand) -> Reasoning | CappedReasoning:
        """Return `reasoning(answer)` with these options."""
        return reasoning(answer, **{name: getattr(self, name) for name in self.__dataclass_fields__})


@checks_names
def reasoning(
    answer: Operand,
    *,
    open: str | Special | None = "<think>",
    close: str | Special = "</think>",
    max_chars: int | None = None,
    max_tokens: int | None = None,
    optional: bool = False,
) -> Reasoning | CappedReasoning:
    """Return the constraint of free text between `open` and `close`, followed by `answer`.

    As an output type of `generate`, `run`, `stream` and `sample` it returns a `Thinking`: the reasoning, and the value
    of the answer.

    Args:
        answer: The type, constraint or string after the reasoning. One or two newlines may precede it.
        open: The text or special token before the reasoning. None if the prompt already ends with it, as with the chat
            templates of some models. A marker is a special token if the tokenizer has it as one.
        close: The text or special token that ends the reasoning.
        max_chars: The most characters of reasoning.
        max_tokens: The most tokens of reasoning. The tokens of the markers do not count. The answer is not limited.
        optional: Whether the answer may come without reasoning.

    Raises:
        OptionError: `optional` is given without `open`, or a limit is not a whole number.
        TypeNotSupported: `answer` is neither a constraint nor a string nor a type.
    """
    if max_tokens is not None:
        checked_count(max_tokens, "max_tokens")
    made = _reasoning(answer, open, close, optional, max_chars, None)
    return made if max_tokens is None else CappedReasoning(made, max_tokens)


def counted_reasoning(
    answer: Operand,
    *,
    open: str | Special | None = "<think>",
    close: str | Special = "</think>",
    max_chars: int | None = None,
    max_tokens: int | None = None,
    optional: bool = False,
) -> Reasoning:
    """Return the same as `reasoning`, with a limit of tokens that every matcher counts.

    A `CappedReasoning` has a matcher of its own; a server needs constraints that are an automaton alone. The reasoning
    ends at the first end of a token from the `max_tokens`-th on.
    """
    return _reasoning(answer, open, close, optional, max_chars, max_tokens)


def _reasoning(
    answer: Operand,
    open: str | Special | None,
    close: str | Special,
    optional: bool,
    max_chars: int | None,
    max_tokens: int | None,
) -> Reasoning:
    (end,) = checked_texts(close.token if isinstance(close, Special) else close, "close=")
    begin = open.token if isinstance(open, Special) else open or ""
    if begin:
        checked_texts(begin, "open=")
    elif optional:
        raise OptionError(
            "reasoning that starts in the prompt cannot be optional",
            hint="Pass open=, the text before the reasoning, or remove optional=True.",
        )
    if not isinstance(optional, bool):
        raise OptionError(f"optional is {optional!r:.40}; it must be True or False")
    if max_chars is not None:
        checked_count(max_chars, "max_chars")
    lines: Body = ("text", repeat(literal("\n"), 0, _MOST_LINES))
    thought = thought_of(begin, end, max_chars, max_tokens)
    given = as_constraint(answer)
    last = _answer(given, begin if optional else "")
    first = sequence_of((thought, lines))
    body = sequence_of((choice_of((EMPTY, first)) if optional else first, last))
    return Reasoning(body, begin, end, optional, answer, given)


def _answer(answer: Constraint, begin: str) -> Body:
    """Return the body of the answer. If the reasoning is optional, a regular answer must not begin with `begin`."""
    expression = answer.regular()
    if not begin or expression is None:
        return body_of(answer)
    return ("text", intersect([scope(expression), complement(concat([literal(begin), TEXT]))]))


def thought_of(begin: str, end: str, max_chars: int | None, max_tokens: int | None = None) -> Body:
    """Return the body of the reasoning with its markers."""
    inside = stretch_until(end, True, (end,), (), max_chars)
    assert inside is not None  # a text does not contain itself
    if max_tokens is not None:
        text, mark = inside
        inside = (body_of(limit_tokens(Composition(text, "the reasoning"), max_tokens)), mark)
    return sequence_of((_opening(begin), *inside))


def _opening(begin: str) -> Body:
    """Return the body of the text before the reasoning: one special token, or such tokens and text."""
    parts = [part for part in _TOKENS.split(begin) if part]
    if len(parts) < 2:
        return ("special", begin) if begin else EMPTY
    return sequence_of(("special", part) if _TOKENS.fullmatch(part) else text_of(part) for part in parts)
