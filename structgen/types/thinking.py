"""Reasoning as an output type: a text with reasoning followed by the answer becomes a `Thinking`.

What: `structgen.reasoning(Person)` and the annotation ``Thinking[Person]`` are the same type. A growing text gives
the reasoning so far, then partial values of the answer.

Invariant: the value is validated as the type of the answer validates it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin

from pydantic import ConfigDict

from structgen.brief import short_repr
from structgen.constraints.base import Constraint, Literal
from structgen.constraints.composition import CappedReasoning, Reasoning, ReasoningOptions

from .views import GrowingValue

__all__ = ["GrowingThinking", "Thinking", "answer_of", "as_reasoning", "thinking_of"]

T = TypeVar("T")


@short_repr
@dataclass(frozen=True)
class Thinking(Generic[T]):
    """The value of an output type with reasoning, and in annotations that type: ``-> sg.Thinking[Person]``.

    Options are given by ``Annotated[sg.Thinking[Person], sg.ReasoningOptions(max_tokens=200)]``. ``sg.Thinking``
    alone is ``sg.Thinking[str]``.
    """

    __pydantic_config__ = ConfigDict(json_schema_extra=lambda schema: _drop_description(schema))

    thinking: str
    """The text between the markers; empty if the answer came without reasoning."""
    value: T
    """The validated answer. Partial values have the part that exists so far; None during the reasoning."""


def _drop_description(schema: dict[str, Any]) -> None:
    """Remove the docstring, which is for programmers, not for models."""
    schema.pop("description", None)


def as_reasoning(annotation: object) -> Reasoning | CappedReasoning | None:
    """Return the constraint of a `Thinking` annotation; None for other annotations."""
    options = ReasoningOptions()
    if get_origin(annotation) is Annotated:
        annotation, *notes = get_args(annotation)
        options = next((note for note in notes if isinstance(note, ReasoningOptions)), options)
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
    """Return the function from a complete text to its value.

    Args:
        reasoning: The constraint.
        validate: The function from the text of the answer to its value.
    """

    def read(text: str) -> Thinking[T]:
        thought = reasoning.read(text)
        return Thinking(thought.reasoning or "", validate(thought.answer))

    return read


class GrowingThinking:
    """Reads one growing text: first the reasoning so far, then partial values of the answer."""

    def __init__(self, reasoning: Reasoning | CappedReasoning, growing: GrowingValue) -> None:
        self._markers = _plain(reasoning)
        self._answer = growing
        self._has_reasoned = False

    def __call__(self, text: str, whole: bool = False) -> Thinking[Any] | None:
        """Return the value so far, where `text` is the whole text so far; None if there is no value yet."""
        begin, end = self._markers.open, self._markers.close
        self._has_reasoned = False
        if not text.startswith(begin):
            if begin.startswith(text):
                return None
            self._has_reasoned = True  # an answer without reasoning
            return Thinking("", self._answer(text, whole))
        thought, separator, answer = text[len(begin) :].partition(end)
        if separator:
            self._has_reasoned = True
            return Thinking(thought, self._answer(answer.removeprefix("\n").removeprefix("\n"), whole))
        return Thinking(_without_partial_marker(thought, end), None) if thought or begin else None

    def is_complete(self, path: str | Sequence[str | int] = ()) -> bool:
        """Return whether the part at `path` is complete: ``thinking``, or ``value`` and its parts."""
        first, *inner = (path.split(".") if isinstance(path, str) and path else list(path)) or ["value"]
        if first == "thinking":
            return self._has_reasoned
        return first == "value" and self._has_reasoned and self._answer.is_complete(tuple(inner))

    def holds_array(self, path: Sequence[str]) -> bool:
        """Return whether the type may have an array at `path`."""
        return bool(path) and path[0] == "value" and self._answer.holds_array(path[1:])

    def arrays(self) -> list[str]:
        """Return the fields of the answer that may be arrays, as paths of the whole value."""
        return [f"value.{name}" for name in self._answer.arrays()]


def _plain(reasoning: Constraint) -> Reasoning:
    if isinstance(reasoning, CappedReasoning):
        return reasoning.reasoning
    assert isinstance(reasoning, Reasoning)
    return reasoning


def _without_partial_marker(text: str, marker: str) -> str:
    """Return the text without the longest suffix that is a proper prefix of the marker."""
    for size in range(min(len(text), len(marker) - 1), 0, -1):
        if marker.startswith(text[-size:]):
            return text[:-size]
    return text
