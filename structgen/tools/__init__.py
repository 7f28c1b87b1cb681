"""Tool calls: the constraint of a turn that may call tools, the reader of a finished one, and the loop that runs them.

    sg.tools(definitions)                        as Hermes and Qwen write calls, which is the default
    sg.tools(definitions, format="llama3_json")  as another family does: a name of sg.tools.FORMATS
    sg.tools(definitions, order="!b W a")        calls in an order that temporal logic allows

This package can be called: ``structgen.tools(...)`` is its function `tools`, and ``structgen.tools.FORMATS`` is there,
too, whichever of the two was used first.
"""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

from .call_runner import CallResult
from .conversation import Conversation, Round
from .definitions import Tool, ToolCall, read_tools
from .events import AssistantTurn, TurnEvent, merged, turn_of
from .format_texts import ToolFormat
from .formats import FORMATS, format_of_model, register_format
from .loop import run_tools, run_tools_async
from .prompting import instructions
from .turn import ToolTurn, tools
from .turn_parser import TurnParser
from .xml_styles import XmlStyle

__all__ = [
    "FORMATS",
    "AssistantTurn",
    "CallResult",
    "Conversation",
    "Round",
    "Tool",
    "ToolCall",
    "ToolFormat",
    "ToolTurn",
    "TurnEvent",
    "TurnParser",
    "XmlStyle",
    "format_of_model",
    "instructions",
    "merged",
    "read_tools",
    "register_format",
    "run_tools",
    "run_tools_async",
    "tools",
    "turn_of",
]


def _with_self(signature: inspect.Signature) -> inspect.Signature:
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    return signature.replace(parameters=[this, *signature.parameters.values()])


class _CallablePackage(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> ToolTurn:
        return tools(*args, **kwargs)

    # What help() and editors show of a call is the function's.
    __call__.__doc__ = tools.__doc__
    __call__.__signature__ = _with_self(inspect.signature(tools))  # type: ignore[attr-defined]


sys.modules[__name__].__class__ = _CallablePackage
