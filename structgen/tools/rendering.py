"""Write a finished turn as a model of a family writes it: the inverse of the parser.

Why: examples, tests and histories need the exact text. It comes from the same description as the constraint.
"""

from __future__ import annotations

from .events import AssistantTurn
from .format_texts import ToolFormat
from .forms import Forms

__all__ = ["render_turn"]


def render_turn(
    format: ToolFormat,
    turn: AssistantTurn,
    forms: Forms | None = None,
    *,
    is_opened: bool = False,
    is_answer_opened: bool = False,
) -> str:
    """Return the text of a turn.

    Args:
        format: How the family writes.
        turn: The turn.
        forms: The forms of the parameters, from the constraint.
        is_opened: The prompt has opened the reasoning.
        is_answer_opened: The prompt has opened the answer, or the text before calls.
    """
    text = ""
    if turn.reasoning is not None:
        begin, end = format.think
        text += ("" if is_opened else begin) + turn.reasoning + end
    reply_begin, reply_end = format.reply
    return text + reply_begin + _reply(format, turn, forms, is_opened=is_answer_opened) + reply_end


def _reply(format: ToolFormat, turn: AssistantTurn, forms: Forms | None, *, is_opened: bool) -> str:
    """Return the answer, or text and calls. `is_opened`: the prompt ends with the marker before them."""
    if not turn.calls:
        return ("" if is_opened else format.answer[0]) + turn.text + format.answer[1]
    said = ""
    if turn.text or format.says_always or is_opened:
        said = ("" if is_opened else format.say[0]) + turn.text + format.say[1]
    return said + format.write_calls([(call.name, call.arguments) for call in turn.calls], forms)
