"""How the values of parameters are written, as far as a text alone does not tell it.

Why: finding out takes compiling each parameter's schema. That is done once, where the constraint is made and limited;
the reader of a finished text, perhaps in another process, gets the answers.
Invariant: forms are plain data: names of tools to names of parameters to one of three texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeGuard, get_args

__all__ = ["Form", "Forms", "are_forms"]

Form = Literal["string", "string or null", "json"]
Forms = Mapping[str, Mapping[str, Form]]
"""Of each parameter of each tool that can be called; of formats that need none it has nothing."""


def are_forms(given: Any) -> TypeGuard[Forms]:
    """Whether data from another process is what it should be."""
    return isinstance(given, dict) and all(
        isinstance(of_tool, dict) and all(form in get_args(Form) for form in of_tool.values())
        for of_tool in given.values()
    )
