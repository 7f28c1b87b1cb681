"""Generated tools in the formats of model families, as a library and as a server compile them.

A server sends a structural tag, which XGrammar writes (`get_model_structural_tag`), as vLLM and SGLang do. The library
builds `structgen.tools` from the definitions.
"""

from __future__ import annotations

import json
import random
from typing import Any

from bench.schemas.generated import tools as generated_tools
from structgen import _core
from structgen.matcher import compile_constraint
from structgen.tools import tools
from structgen.vocabulary import Vocabulary

__all__ = ["FORMATS", "Definitions", "compile_turn", "definitions", "structural_tag"]

Definitions = list[dict[str, Any]]

FORMATS = {
    "hermes": "qwen_3",
    "qwen3_coder": "qwen_3_coder",
    "glm45": "glm_4_7",
    "glm47": "glm_4_7",
    "minimax_m2": "minimax",
    "deepseek_v32": "deepseek_v3_2",
}
"""The formats by name, with the names of their models in XGrammar."""


def definitions(source: random.Random, count: int) -> Definitions:
    """Return definitions of OpenAI's API of generated tools."""
    return [
        {
            "type": "function",
            "function": {"name": tool["name"], "parameters": tool["inputSchema"], "strict": True},
        }
        for tool in generated_tools(source, count)
    ]


def structural_tag(format: str, offered: Definitions) -> str:
    """Return the structural tag of free text and calls of these tools, as JSON."""
    import xgrammar

    made = xgrammar.get_model_structural_tag(FORMATS[format], tools=offered, reasoning=False)
    return json.dumps(made.model_dump(mode="json"))


def compile_turn(format: str, offered: Definitions, vocabulary: Vocabulary) -> None:
    """Build the constraint of a turn that may call these tools, and fill its first mask."""
    _core.Matcher(compile_constraint(tools(offered, format=format), vocabulary)).mask()
