"""The result of `run_tools`: the messages, the rounds, and the answer as a text and as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from structgen.brief import short_repr
from structgen.notebook import card, plain, table
from structgen.results import Result
from structgen.types import OutputType

from .call_runner import CallResult
from .events import AssistantTurn

__all__ = ["Conversation", "Round"]


@short_repr
@dataclass(frozen=True)
class Round:
    """One turn of the model, and the results of its calls."""

    turn: AssistantTurn
    results: tuple[CallResult, ...]
    generation: Result[str]


@short_repr
@dataclass
class Conversation:
    """The result of `run_tools`."""

    messages: list[dict[str, Any]]
    """All messages, as the model was shown them; the last one is the answer."""
    rounds: list[Round] = field(default_factory=list)
    output: OutputType | None = field(default=None, repr=False)
    """The type of the final answer, if one was given."""

    def _repr_html_(self) -> str:
        rows = [
            (f"<b>{plain(str(message.get('role', '')))}</b>", plain(str(message.get("content", "")), 600))
            for message in self.messages
        ]
        about = f"{len(self.rounds)} rounds, {len(self.results)} calls"
        return card("Conversation", about, table(("", ""), rows))

    @property
    def answer(self) -> str:
        """The text of the last turn."""
        return self.rounds[-1].turn.text

    @cached_property
    def value(self) -> Any:
        """The final answer, validated as the type of `answer=`; without one, its text.

        Raises `OutputInvalid` if a Python validator of the type refuses it.
        """
        return self.answer if self.output is None else self.output.validate(self.answer)

    @property
    def results(self) -> list[CallResult]:
        """Every call that was made, in order."""
        return [result for round_ in self.rounds for result in round_.results]
