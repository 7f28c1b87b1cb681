"""The messages of a request: the prompt, what the model is told of the form, and what was wrong with its last answer.

Why: a server that enforces nothing leaves it to the model to keep to a form, so it must be told of it; and a model that
is shown its mistake, and the place, mends it more often than one that is asked again.
Invariant: the user's messages are unchanged where the server enforces the constraint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from structgen.constraints.choice import ChoiceConstraint
from structgen.errors import PromptError
from structgen.types import OutputType

from .judging import Verdict

__all__ = ["Message", "feedback", "messages_of", "told"]

Message = dict[str, Any]
_MOST_SCHEMA = 16_000
_MOST_QUOTED = 4_000


def messages_of(prompt: Any) -> list[Message]:
    """The prompt as messages: a text is what the user says."""
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    if isinstance(prompt, Sequence) and prompt and all(isinstance(one, Mapping) for one in prompt):
        return [dict(one) for one in prompt]
    raise PromptError(
        f"a prompt is a text or a list of messages, not {prompt!r:.60}",
        hint='Messages look like {"role": "user", "content": "..."}.',
    )


def told(messages: Sequence[Message], output: OutputType) -> list[Message]:
    """The messages with what the answer must look like in the last of them."""
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


def feedback(verdict: Verdict, was_cut: bool) -> list[Message]:
    """What is said after a wrong answer."""
    shown = verdict.text if len(verdict.text) <= _MOST_QUOTED else verdict.text[:_MOST_QUOTED] + " ..."
    wanted = "Answer again, shorter." if was_cut else "Answer again, and mend exactly that."
    shown = shown.encode("utf-8", "replace").decode()
    said = f"That answer is wrong: {verdict.problem}\n\n{wanted} Write the answer alone, nothing before or after it."
    return [{"role": "assistant", "content": shown or "(nothing)"}, {"role": "user", "content": said}]


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
