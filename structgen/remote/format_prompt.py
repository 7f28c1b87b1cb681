"""Describe the format of an answer in the prompt, for a server that does not enforce it.

Why: with such a server only the prompt can make the model follow the format.
Invariant: the user's messages are unchanged if the server enforces the constraint.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from structgen.attempts import Message
from structgen.constraints.choice import ChoiceConstraint
from structgen.types import OutputType

__all__ = ["with_format_description"]

_MOST_SCHEMA = 16_000


def with_format_description(messages: Sequence[Message], output: OutputType) -> list[Message]:
    """Return the messages, with a description of the answer's format at the end of the last one."""
    form = _form(output)
    if not form or not messages:
        return list(messages)
    *before, last = messages
    content = last.get("content")
    if isinstance(content, str):
        return [*before, {**last, "content": f"{content}\n\n{form}"}]
    if isinstance(content, Sequence):
        return [*before, {**last, "content": [*content, {"type": "text", "text": form}]}]
    return [*messages, {"role": "user", "content": form}]


def _form(output: OutputType) -> str:
    if output.is_free_text:
        return ""
    constraint = output.constraint
    if isinstance(constraint, ChoiceConstraint):
        return f"Answer with exactly one of these, and nothing else: {json.dumps(constraint.texts, ensure_ascii=False)}"
    if output.is_json and output.schema is not None and len(output.schema) <= _MOST_SCHEMA:
        schema = json.dumps(json.loads(output.schema), ensure_ascii=False)
        return f"Answer with one JSON value that satisfies this JSON Schema, and nothing else:\n{schema}"
    if output.description:
        return output.description
    return f"Answer with {constraint.describe()}, and nothing else."
