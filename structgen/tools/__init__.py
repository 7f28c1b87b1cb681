"""Tool calls: the constraint of a turn that may call tools, the reader of a finished one, and the loop that runs them.

This package can be called: ``structgen.tools(...)`` is its function `tools`, and ``structgen.tools.FORMATS`` is there,
too, whichever of the two was used first.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from .definitions import Tool, ToolCall, read_tools
from .formats import FORMATS, ToolFormat
from .loop import CallResult, Conversation, Round, run_tools
from .prompting import instructions
from .reading import AssistantTurn
from .turn import ToolTurn, tools

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
    "instructions",
    "read_tools",
    "run_tools",
    "tools",
]


class _CallablePackage(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> ToolTurn:
        return tools(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
