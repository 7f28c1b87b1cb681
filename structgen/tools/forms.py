"""How the values of parameters are written, if the text alone does not show it.

Why: finding out requires compiling each parameter's schema. That happens once, under limits, when the constraint is
made. The reader of a finished text, perhaps in another process, gets the results.
Invariant: forms are plain data: names of tools to names of parameters to one of three texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeGuard, get_args

__all__ = ["Form", "Forms", "are_forms"]

Form = Literal["string", "string or null", "json"]
Forms = Mapping[str, Mapping[str, Form]]
"""The form of each parameter of each tool that may be called; empty for formats that need no forms."""


def are_forms(given: Any) -> TypeGuard[Forms]:
    """Return whether data from another process is `Forms`."""
    return isinstance(given, dict) and all(
        isinstance(of_tool, dict) and all(form in get_args(Form) for form in of_tool.values())
        for of_tool in given.values()
    )
