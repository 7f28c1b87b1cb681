"""How a request contains its constraint: one table of dialects, from the richest to none.

Why: OpenAI-compatible servers differ most in structured outputs.
What: a dialect says which kinds of constraints it can express, and under which keys. `request_part` returns the part of
the request body for one output type, and whether the answer is wrapped in an object, for servers that accept only
schemas of objects.
Invariant: what is sent allows every value of the type, so it excludes no right answer (as far as the server reads
patterns and formats as we do). What a dialect cannot express is not sent (None); the local check covers it.
Source: the request formats of OpenAI, vLLM (`structured_outputs`), SGLang and llama.cpp's server, November 2026.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from structgen.constraints.choice import ChoiceConstraint
from structgen.constraints.grammar.constraint import GrammarConstraint
from structgen.constraints.regex import RegexConstraint, regex
from structgen.errors import OptionError
from structgen.types import OutputType

__all__ = ["DIALECTS", "WRAPPED", "Dialect", "RequestPart", "dialect_named", "request_part", "weaker"]

WRAPPED = "value"
"""The key of the value in the object that may wrap an answer."""
_LONGEST_SCHEMA = 1 << 20


@dataclass(frozen=True)
class RequestPart:
    """The part of a request body that contains the constraint."""

    body: dict[str, Any]
    wrapped: bool = False
    """Whether the answer is an object with the value under `WRAPPED`."""
    enforced: bool = True
    """Whether the server promises to enforce it."""


Carry = Callable[[Any], dict[str, Any]]


@dataclass(frozen=True)
class Dialect:
    """One form of structured outputs."""

    name: str
    schema: Carry | None = None
    choice: Carry | None = None
    regex: Carry | None = None
    grammar: Callable[[str, str], dict[str, Any] | None] | None = None
    """Takes a format (``Lark``, ``GBNF``, ``EBNF``) and a source; returns None for other formats than the server's."""
    objects_only: bool = False
    """Schemas must describe objects."""
    json_only: dict[str, Any] | None = None
    """The part of a body that requires any JSON object."""
    options: frozenset[str] = frozenset()
    """Sampling options beyond those of the OpenAI API."""

    def __reduce__(self) -> tuple[Any, ...]:
        return dialect_named, (self.name,)


def _structured(key: str) -> Carry:
    return lambda value: {"structured_outputs": {key: value}}


def _named_schema(schema: Any) -> dict[str, Any]:
    return {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema, "strict": True},
        }
    }


def _vllm_grammar(format: str, source: str) -> dict[str, Any]:
    return {"structured_outputs": {"grammar": source}}


def _sglang_grammar(format: str, source: str) -> dict[str, Any] | None:
    return {"ebnf": source} if format == "EBNF" else None


def _llama_grammar(format: str, source: str) -> dict[str, Any] | None:
    return {"grammar": source} if format == "GBNF" else None


_MORE = frozenset({"top_k", "min_p", "repetition_penalty"})
_ANY_OBJECT = {"response_format": {"type": "json_object"}}

DIALECTS: dict[str, Dialect] = {
    each.name: each
    for each in (
        Dialect(
            "structured_outputs",
            schema=_structured("json"),
            choice=_structured("choice"),
            regex=_structured("regex"),
            grammar=_vllm_grammar,
            options=_MORE,
        ),
        Dialect(
            "sglang",
            schema=_named_schema,
            regex=lambda pattern: {"regex": pattern},
            grammar=_sglang_grammar,
            options=_MORE,
        ),
        Dialect(
            "llama.cpp", schema=_named_schema, grammar=_llama_grammar, options=_MORE - {"repetition_penalty"}
        ),
        Dialect("json_schema", schema=_named_schema, objects_only=True),
        Dialect("json_object", json_only=_ANY_OBJECT),
        Dialect("none"),
    )
}
"""By name, richest first."""

_WEAKER = {
    "structured_outputs": "json_schema",
    "sglang": "json_schema",
    "llama.cpp": "json_schema",
    "json_schema": "json_object",
    "json_object": "none",
}


def dialect_named(name: object) -> Dialect:
    """Return the dialect of a name. Raises `OptionError`."""
    if isinstance(name, str) and name in DIALECTS:
        return DIALECTS[name]
    raise OptionError(f"there is no dialect {name!r:.60}", hint=f"The dialects are {', '.join(DIALECTS)}.")


def weaker(dialect: Dialect) -> Dialect | None:
    """Return the next dialect after a server refused `dialect`; None after the last."""
    name = _WEAKER.get(dialect.name)
    return None if name is None else DIALECTS[name]


def request_part(dialect: Dialect, output: OutputType) -> RequestPart | None:
    """Return the part of a request for a constraint; None if the dialect cannot express it.

    Args:
        dialect: The dialect.
        output: The output type with its constraint.
    """
    constraint = output.constraint
    if isinstance(constraint, RegexConstraint) and dialect.regex is not None and _is_its_pattern(constraint):
        return RequestPart(dialect.regex(constraint.pattern))
    if isinstance(constraint, ChoiceConstraint) and dialect.choice is not None:
        return RequestPart(dialect.choice(list(constraint.texts)))
    if isinstance(constraint, GrammarConstraint) and dialect.grammar is not None:
        source = constraint.grammar.source
        default = "start" if constraint.format == "Lark" else "root"
        body = dialect.grammar(constraint.format, source) if source and constraint.start == default else None
        return None if body is None else RequestPart(body)
    schema = _schema_of(output)
    if schema is None:
        return None
    if dialect.schema is not None:
        if output.is_json and not (dialect.objects_only and schema.get("type") != "object"):
            return RequestPart(dialect.schema(schema))
        wrapped = _wrapped(schema)
        return None if wrapped is None else RequestPart(dialect.schema(wrapped), wrapped=True)
    if dialect.json_only is not None and output.is_json and schema.get("type") == "object":
        return RequestPart(dialect.json_only, enforced=False)
    return None


def _is_its_pattern(constraint: RegexConstraint) -> bool:
    """Return whether the pattern alone, without flags, is the constraint."""
    return regex(constraint.pattern, dialect=constraint.dialect) == constraint


def _schema_of(output: OutputType) -> dict[str, Any] | None:
    constraint = output.constraint
    if isinstance(constraint, ChoiceConstraint):
        return {"type": "string", "enum": list(constraint.texts)}
    if output.schema is None or len(output.schema) > _LONGEST_SCHEMA:
        return None
    schema = json.loads(output.schema)
    if isinstance(schema, dict) and "$ref" in schema and schema.keys() <= {"$ref", "$defs"}:
        # A recursive model at the top: servers expect a type at the root.
        name = str(schema["$ref"]).rpartition("/")[2]
        inner = schema.get("$defs", {}).get(name)
        if isinstance(inner, dict):
            schema = {**inner, "$defs": schema["$defs"]}
    return schema if isinstance(schema, dict) else None


def _wrapped(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema of an object that contains a value; None if references would then point elsewhere."""
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "$schema", "$id")}
    found = [part for part in _references(inner) if not part.startswith("#/$defs/")]
    if found or any(not part.startswith("#/$defs/") for part in _references(schema.get("$defs", {}))):
        return None
    outer: dict[str, Any] = {
        "type": "object",
        "properties": {WRAPPED: inner},
        "required": [WRAPPED],
        "additionalProperties": False,
    }
    if "$defs" in schema:
        outer["$defs"] = schema["$defs"]
    return outer


def _references(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
        return own + [found for value in part.values() for found in _references(value)]
    if isinstance(part, list):
        return [found for value in part for found in _references(value)]
    return []
