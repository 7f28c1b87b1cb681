"""The constraint of a turn that calls no tools: reasoning, then an answer, as a model family writes them.

Why: families such as gpt-oss write the answer between markers of its own. A constraint of the answer alone would
forbid these markers; a server with such a model constrains the turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from structgen.constraints.base import Constraint
from structgen.constraints.composition import Composition

from .bodies import sequence_of
from .format_texts import ToolFormat
from .formats import tool_format
from .partial_turn import PartialTurn
from .turn_parts import ReasoningChoice, TurnParts

__all__ = ["answer_turn", "answer_turn_reader"]


def answer_turn(
    answer: Constraint | None,
    *,
    format: str | ToolFormat | Mapping[str, Any],
    reasoning: ReasoningChoice = False,
    max_reasoning: int | None = None,
    max_reasoning_tokens: int | None = None,
) -> Composition:
    """Return the constraint of a turn without calls.

    Args:
        answer: The constraint of the answer; None is free text.
        format: The format of the model that writes the turn.
        reasoning: True if the turn starts with reasoning; "optional"; "opened" if the prompt has opened it; "skipped"
            if the prompt has opened the answer.
        max_reasoning: The most characters of reasoning.
        max_reasoning_tokens: The most tokens of reasoning. Its markers do not count.

    Raises:
        OptionError: The answer may begin as calls do.
    """
    chosen = tool_format(format)
    parts = TurnParts(chosen, reasoning, None)
    body = sequence_of(
        (parts.thought(max_reasoning, max_reasoning_tokens), parts.reply([parts.answer(answer)]))
    )
    return Composition(body, f"an answer as {chosen.name} writes it")


def answer_turn_reader(format: ToolFormat, *, reasoning: ReasoningChoice = False) -> PartialTurn:
    """Return a reader of the turns of `answer_turn`."""
    if reasoning == "skipped":
        return PartialTurn(format, answers=True, is_opened=True)
    begin, end = format.think
    think = None if reasoning is False else ("" if reasoning == "opened" else begin, end)
    return PartialTurn(format, think=think, optional=reasoning == "optional", answers=True)
