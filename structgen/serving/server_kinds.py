"""What a request may ask of our own server beyond what other engines take: tool calls, ready grammars, plans.

Why: these are built from data as the others are, so they go the same way: tried out in a process of their own first.
Invariant: a spec is a JSON object whose keys are checked by name; nothing in it is code.

    tools   {"tools": [definitions], ...} with the options of `structgen.tools`; its answer is one of the kind `answer`
    shelf   {"name": "sql", ...} with the options of `structgen.grammar`
    plan    {"actions": ..., "formulas": [...], "format": ..., "max_steps": ...}, as `structgen.plan` takes them
    answer  {"kind": ..., "spec": ...} of any other kind, or {"kind": "text"}; with "closed": true objects of a schema
            are closed; with "reasoning": {...}, the options of `structgen.reasoning`, that comes before it
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from structgen.constraints.base import Constraint
from structgen.errors import ConstraintError, OptionError, a_kind

from .requests import RequestLimits, constraint_of, schema_constraint

__all__ = ["TOOL_OPTIONS", "own_constraint", "preload"]

TOOL_OPTIONS = (
    "format", "tool_choice", "parallel", "max_calls", "reasoning", "max_reasoning", "max_text", "order", "earlier",
    "max_later",
)  # fmt: skip
_PLAN = ("actions", "formulas", "format", "max_steps")
_ANSWER = ("kind", "spec", "closed", "reasoning")
_REASONING = ("open", "close", "max_chars", "optional")
_MOST_STEPS = 10_000


def own_constraint(kind: str, spec: Any, limits: RequestLimits, specials: Collection[str] = ()) -> Constraint:
    """The constraint of a spec; raises `StructgenError`."""
    if not isinstance(spec, Mapping):
        raise ConstraintError(f"a request for {kind} is an object, not {a_kind(spec)}")
    return _MAKERS[kind](dict(spec), limits, specials)


def preload() -> None:
    """Import what constraints are read with, before a process is forked that would import it again and again."""
    import lark  # noqa: F401

    import structgen.constraints.plans
    import structgen.serving.structural_tags
    import structgen.shelf
    import structgen.tools  # noqa: F401


def _tools(spec: dict[str, Any], limits: RequestLimits, specials: Collection[str]) -> Constraint:
    from structgen.tools import tools

    definitions, answer = spec.pop("tools", None), spec.pop("answer", None)
    _check_keys(spec, TOOL_OPTIONS)
    constraint = None if answer is None else own_constraint("answer", answer, limits, specials)
    return tools(definitions if definitions is not None else [], answer=constraint, **spec)


def _answer(spec: dict[str, Any], limits: RequestLimits, specials: Collection[str]) -> Constraint:
    from structgen.constraints.composition import reasoning, text

    _check_keys(spec, _ANSWER)
    kind, thought = spec.get("kind"), spec.get("reasoning")
    if kind == "text":
        answer: Constraint = text()
    elif kind == "json" and spec.get("closed"):
        answer = schema_constraint(spec.get("spec"), limits, closed=True)
    else:
        answer = constraint_of(kind, spec.get("spec"), limits, specials=specials)  # type: ignore[arg-type]
    if thought is None:
        return answer
    _check_keys(thought, _REASONING)
    return reasoning(answer, **thought)


def _shelf(spec: dict[str, Any], limits: RequestLimits, specials: Collection[str]) -> Constraint:
    from structgen.shelf import grammar

    name = spec.pop("name", None)
    if not isinstance(name, str):
        raise OptionError(f"the name of a grammar is a text, not {a_kind(name)}")
    return grammar(name, **spec)


def _plan(spec: dict[str, Any], limits: RequestLimits, specials: Collection[str]) -> Constraint:
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


_MAKERS: Mapping[str, Callable[[dict[str, Any], RequestLimits, Collection[str]], Constraint]] = {
    "answer": _answer,
    "tools": _tools,
    "shelf": _shelf,
    "plan": _plan,
}
