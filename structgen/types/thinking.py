"""Reasoning as an output type: a text that holds the reasoning, then the answer, becomes a `Thinking`.

What: `structgen.reasoning(Person)` and the annotation ``Thinking[Person]`` are the same type. A growing text gives the
reasoning so far, then partial values of the answer.
Invariant: the value is validated as the answer's own type would validate it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin

from structgen.constraints.base import Constraint, Literal
from structgen.constraints.composition import CappedReasoning, Reasoning, ReasoningOptions

__all__ = ["Thinking", "answer_of", "as_reasoning", "growing_thinking", "thinking_of"]

T = TypeVar("T")


@dataclass(frozen=True)
class Thinking(Generic[T]):
    """The value of an output type with reasoning, and in annotations that type: ``-> sg.Thinking[Person]``.

    Options stand beside it: ``Annotated[sg.Thinking[Person], sg.ReasoningOptions(max_tokens=200)]``.
    """

    thinking: str
    """The text between the markers; empty if the answer came without reasoning."""
    value: T
    """The validated answer. In partial values what there is of it; None while the reasoning goes on."""


def as_reasoning(annotation: Any) -> Reasoning | CappedReasoning | None:
    """Return the constraint of a `Thinking` annotation; None for other annotations."""
    options = ReasoningOptions()
    if get_origin(annotation) is Annotated:
        annotation, *notes = get_args(annotation)
        options = next((one for one in notes if isinstance(one, ReasoningOptions)), options)
    if annotation is Thinking:
        return options.around(str)
    if get_origin(annotation) is Thinking:
        return options.around(*get_args(annotation))
    return None


def answer_of(reasoning: Reasoning | CappedReasoning) -> Any:
    """Return the output type of what follows the reasoning."""
    answer = _plain(reasoning).answer
    return Literal(answer) if isinstance(answer, str) else answer


def thinking_of(
    reasoning: Reasoning | CappedReasoning, validate: Callable[[str], T]
) -> Callable[[str], Thinking[T]]:
    """Return the function from a whole text to its value; `validate` is that of the answer."""

    def read(text: str) -> Thinking[T]:
        thought = reasoning.read(text)
        return Thinking(thought.reasoning or "", validate(thought.answer))

    return read


def growing_thinking(
    reasoning: Reasoning | CappedReasoning, growing: Callable[[str], Any]
) -> Callable[[str], Thinking[Any] | None]:
    """Return a reader of one growing text; `growing` is that of the answer."""
    plain = _plain(reasoning)

    def read(text: str) -> Thinking[Any] | None:
        if not text.startswith(plain.open):
            if plain.open.startswith(text):
                return None
            return Thinking("", growing(text))  # an answer without reasoning
        thought, found, answer = text[len(plain.open) :].partition(plain.close)
        if found:
            return Thinking(thought, growing(answer.removeprefix("\n").removeprefix("\n")))
        return Thinking(_without_beginning(thought, plain.close), None) if thought or plain.open else None

    return read


def _plain(reasoning: Constraint) -> Reasoning:
    if isinstance(reasoning, CappedReasoning):
        return reasoning.reasoning
    assert isinstance(reasoning, Reasoning)
    return reasoning


def _without_beginning(text: str, marker: str) -> str:
    """The text without the longest end that the marker begins with."""
    for size in range(min(len(text), len(marker) - 1), 0, -1):
        if marker.startswith(text[-size:]):
            return text[:-size]
    return text
