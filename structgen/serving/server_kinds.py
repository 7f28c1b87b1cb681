"""Kinds of specs that only the OpenAI-compatible server takes: tool calls, ready-made grammars, plans, answers.

Why: these are built from data like the other kinds, and are compiled in a probe first like them.
Invariant: a spec is a JSON object whose keys are checked by name; nothing in it is code.

    tools   {"tools": [definitions], ...} with the options of `structgen.tools`; its answer is a spec of kind `answer`
    shelf   {"name": "sql", ...} with the options of `structgen.grammar`
    plan    {"actions": ..., "formulas": [...], "format": ..., "max_steps": ...}, as `structgen.plan` takes them
    answer  {"kind": ..., "spec": ...} of any other kind, or {"kind": "text"}; with "closed": true, objects of a schema
            are closed; with "reasoning": {...}, the options of `structgen.reasoning`, reasoning comes first; with
            "turn": {...}, the options of `structgen.tools.answer_turn`, the answer has the markers of a format
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from structgen.constraints.base import Constraint
from structgen.constraints.composition import text
from structgen.constraints.composition.reasoning_block import counted_reasoning
from structgen.constraints.plans import plan
from structgen.errors import ConstraintError, OptionError, a_kind
from structgen.shelf import grammar
from structgen.tools import tools
from structgen.tools.answer_turn import answer_turn

from .limits import RequestLimits
from .spec_readers import schema_constraint

__all__ = ["SERVER_KINDS", "preload_parsers", "server_constraint"]

_TOOL_OPTIONS = (
    "format", "tool_choice", "parallel", "max_calls", "reasoning", "max_reasoning", "max_reasoning_tokens",
    "max_text", "order", "earlier",
    "max_later",
)  # fmt: skip
_PLAN = ("actions", "formulas", "format", "max_steps")
_ANSWER = ("kind", "spec", "closed", "reasoning", "turn")
_TURN = ("format", "reasoning", "max_reasoning", "max_reasoning_tokens")
_REASONING = ("open", "close", "max_chars", "max_tokens", "optional")
_MOST_STEPS = 10_000


class ReadNested(Protocol):
    """Reads a spec inside another one: `requests.constraint_of`."""

    def __call__(
        self, kind: Any, spec: Any, limits: RequestLimits, *, specials: Collection[str]
    ) -> Constraint: ...


def server_constraint(
    kind: str, spec: Any, limits: RequestLimits, specials: Collection[str], read_nested: ReadNested
) -> Constraint:
    """Return the constraint of a spec of one of `SERVER_KINDS`.

    Args:
        kind: The kind.
        spec: A JSON object; see the module's table.
        limits: Bounds on the size of the spec, and the form of JSON.
        specials: The texts of the vocabulary's special tokens.
        read_nested: Reads the spec of an answer.

    Raises:
        StructgenError: What is wrong with the spec.
    """
    if not isinstance(spec, Mapping):
        raise ConstraintError(f"a spec of kind {kind!r} is an object, not {a_kind(spec)}")
    return _MAKERS[kind](dict(spec), limits, specials, read_nested)


def preload_parsers() -> None:
    """Import what parsing a spec imports when it is first needed, before the process forks workers."""
    import lark  # noqa: F401


def _tools(
    spec: dict[str, Any], limits: RequestLimits, specials: Collection[str], read_nested: ReadNested
) -> Constraint:
    definitions, answer = spec.pop("tools", None), spec.pop("answer", None)
    _check_keys(spec, _TOOL_OPTIONS)
    constraint = (
        None if answer is None else server_constraint("answer", answer, limits, specials, read_nested)
    )
    return tools(definitions if definitions is not None else [], answer=constraint, **spec)


def _answer(
    spec: dict[str, Any], limits: RequestLimits, specials: Collection[str], read_nested: ReadNested
) -> Constraint:
    _check_keys(spec, _ANSWER)
    kind, options, turn = spec.get("kind"), spec.get("reasoning"), spec.get("turn")
    if kind == "text":
        answer: Constraint = text()
    elif kind == "json" and spec.get("closed"):
        answer = schema_constraint(spec.get("spec"), limits, closed=True)
    else:
        answer = read_nested(kind, spec.get("spec"), limits, specials=specials)
    if turn is not None:
        _check_keys(turn, _TURN)
        return answer_turn(None if kind == "text" else answer, **turn)
    if options is None:
        return answer
    _check_keys(options, _REASONING)
    return counted_reasoning(answer, **options)


def _shelf(
    spec: dict[str, Any], limits: RequestLimits, specials: Collection[str], read_nested: ReadNested
) -> Constraint:
    name = spec.pop("name", None)
    if not isinstance(name, str):
        raise OptionError(f"the name of a grammar is a text, not {a_kind(name)}")
    return grammar(name, **spec)


def _plan(
    spec: dict[str, Any], limits: RequestLimits, specials: Collection[str], read_nested: ReadNested
) -> Constraint:
    _check_keys(spec, _PLAN)
    if spec.get("format", "lines") not in ("lines", "json", "calls"):
        raise OptionError(
            f"there is no plan format {spec['format']!r:.40}", hint='Use "lines", "json" or "calls".'
        )
    steps = spec.get("max_steps")
    if isinstance(steps, int) and steps > _MOST_STEPS:
        raise OptionError(f"max_steps is {steps}, more than {_MOST_STEPS}")
    formulas = spec.pop("formulas", ())
    return plan(spec.pop("actions", None), formulas, **spec)


def _check_keys(spec: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in spec:
        if key not in known:
            raise OptionError(f"there is no option {key!r:.60}", hint=f"The options are {', '.join(known)}.")


_MAKERS = {"answer": _answer, "tools": _tools, "shelf": _shelf, "plan": _plan}
SERVER_KINDS = ("tools", "shelf", "plan", "answer")
