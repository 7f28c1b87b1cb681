"""What a request may ask of our own server beyond what other engines take: tool calls, ready grammars, plans.

Why: these are built from data as the others are, so they go the same way: tried out in a process of their own first.
Invariant: a spec is a JSON object whose keys are checked by name; nothing in it is code.

    tools   {"tools": [definitions], ...} with the options of `structgen.tools`
    shelf   {"name": "sql", ...} with the options of `structgen.grammar`
    plan    {"actions": ..., "formulas": [...], "format": ..., "max_steps": ...}, as `structgen.plan` takes them
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from structgen.constraints.base import Constraint
from structgen.errors import ConstraintError, OptionError, a_kind

__all__ = ["TOOL_OPTIONS", "own_constraint", "preload"]

TOOL_OPTIONS = (
    "format", "tool_choice", "parallel", "max_calls", "reasoning", "max_reasoning", "max_text", "order", "earlier",
    "max_later",
)  # fmt: skip
_PLAN = ("actions", "formulas", "format", "max_steps")
_MOST_STEPS = 10_000


def own_constraint(kind: str, spec: Any) -> Constraint:
    """The constraint of a spec; raises `StructgenError`."""
    if not isinstance(spec, Mapping):
        raise ConstraintError(f"a request for {kind} is an object, not {a_kind(spec)}")
    return _MAKERS[kind](dict(spec))


def preload() -> None:
    """Import what constraints are read with, before a process is forked that would import it again and again."""
    import lark  # noqa: F401

    import structgen.constraints.plans
    import structgen.serving.structural_tags
    import structgen.shelf
    import structgen.tools  # noqa: F401


def _tools(spec: dict[str, Any]) -> Constraint:
    from structgen.tools import tools

    definitions = spec.pop("tools", None)
    _check_keys(spec, TOOL_OPTIONS)
    return tools(definitions if definitions is not None else [], **spec)


def _shelf(spec: dict[str, Any]) -> Constraint:
    from structgen.shelf import grammar

    name = spec.pop("name", None)
    if not isinstance(name, str):
        raise OptionError(f"the name of a grammar is a text, not {a_kind(name)}")
    return grammar(name, **spec)


def _plan(spec: dict[str, Any]) -> Constraint:
    from structgen.constraints.plans import plan

    _check_keys(spec, _PLAN)
    if spec.get("format", "lines") not in ("lines", "json", "calls"):
        raise OptionError(f"the format of a plan is {spec['format']!r:.40}; it is 'lines', 'json' or 'calls'")
    steps = spec.get("max_steps")
    if isinstance(steps, int) and steps > _MOST_STEPS:
        raise OptionError(f"max_steps is {steps}; it is {_MOST_STEPS} at most")
    formulas = spec.pop("formulas", ())
    return plan(spec.pop("actions", None), formulas, **spec)


def _check_keys(spec: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in spec:
        if key not in known:
            raise OptionError(f"there is no option {key!r:.60}", hint=f"The options are {', '.join(known)}.")


_MAKERS: Mapping[str, Callable[[dict[str, Any]], Constraint]] = {
    "tools": _tools,
    "shelf": _shelf,
    "plan": _plan,
}
