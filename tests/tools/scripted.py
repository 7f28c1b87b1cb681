"""A model that writes given turns, and one call run in both loops."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from structgen.tools import CallResult, run_tools, run_tools_async
from tests.oracles.scripted_model import ScriptedModel

__all__ = ["call", "content_of", "run_once", "scripted"]


def call(name: str, /, **arguments: Any) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


def scripted(*texts: str) -> ScriptedModel:
    """Return a model that writes one of the texts in each turn."""
    left = list(texts)
    return ScriptedModel(lambda prompt: left.pop(0))


def run_once(tool: Any, text: str, **options: Any) -> CallResult:
    """Run one call in both loops, and check that the results agree."""
    done = run_tools(scripted(text, "Done."), "Go.", [tool], **options)
    again = asyncio.run(run_tools_async(scripted(text, "Done."), "Go.", [tool], **options))
    assert done.answer == again.answer == "Done."
    assert [one.content for one in done.results] == [one.content for one in again.results]
    return done.results[0]


def content_of(done: CallResult) -> Any:
    return json.loads(done.content)
