"""How constraints are put into a request: one table of dialects, from the richest to none.

Why: servers that call themselves OpenAI-compatible differ in nothing as much as in structured outputs.
What: a dialect says which kinds of constraints it can carry and under which keys. `carried` makes the part of the
request body for one output type, and says whether the answer comes wrapped in an object, as servers need that take
nothing but schemas of objects.
Invariant: what is sent allows every value of the type, so that it excludes no right answer (as far as the server reads
patterns and formats as we do); what cannot be said is not sent (None) and is left to the local check.
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

__all__ = ["DIALECTS", "WRAPPED", "Carried", "Dialect", "carried", "dialect_named", "weaker"]

WRAPPED = "value"
"""The key of the object that an answer may be wrapped in."""
_LONGEST_SCHEMA = 1 << 20


@dataclass(frozen=True)
class Carried:
    """A part of a request body."""

    body: dict[str, Any]
    wrapped: bool = False
    """Is the answer an object with the value under `WRAPPED`?"""
    enforced: bool = True
    """Will the server keep the model to it (if it does what it says)?"""


Carry = Callable[[Any], dict[str, Any]]


@dataclass(frozen=True)
class Dialect:
    """One way to ask for structure."""

    name: str
    schema: Carry | None = None
    choice: Carry | None = None
    regex: Carry | None = None
    grammar: Callable[[str, str], dict[str, Any] | None] | None = None
    """From a format (``Lark``, ``GBNF``, ``EBNF``) and a source."""
    objects_only: bool = False
    """Schemas must describe objects."""
    json_only: dict[str, Any] | None = None
    """What asks for any JSON object."""
    options: frozenset[str] = frozenset()
    """Sampling options beyond those of the protocol."""

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


_MORE = frozenset({"top_k", "min_p"})
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
        Dialect("llama.cpp", schema=_named_schema, grammar=_llama_grammar, options=_MORE),
        Dialect("json_schema", schema=_named_schema, objects_only=True),
        Dialect("json_object", json_only=_ANY_OBJECT),
        Dialect("none"),
    )
}
"""By name, from the richest on."""

_WEAKER = {
    "structured_outputs": "json_schema",
    "sglang": "json_schema",
    "llama.cpp": "json_schema",
    "json_schema": "json_object",
    "json_object": "none",
}


def dialect_named(name: object) -> Dialect:
    """The dialect of a name."""
    if isinstance(name, str) and name in DIALECTS:
        return DIALECTS[name]
    raise OptionError(f"there is no dialect {name!r:.60}", hint=f"The dialects are {', '.join(DIALECTS)}.")


def weaker(dialect: Dialect) -> Dialect | None:
    """What to try where a server refuses a request in `dialect`; None after the last."""
    name = _WEAKER.get(dialect.name)
    return None if name is None else DIALECTS[name]


def carried(dialect: Dialect, output: OutputType) -> Carried | None:
    """How the constraint of `output` is put into a request; None where it cannot be."""
    constraint = output.constraint
    if isinstance(constraint, RegexConstraint) and dialect.regex is not None and _is_its_pattern(constraint):
        return Carried(dialect.regex(constraint.pattern))
    if isinstance(constraint, ChoiceConstraint) and dialect.choice is not None:
        return Carried(dialect.choice(list(constraint.texts)))
    if isinstance(constraint, GrammarConstraint) and dialect.grammar is not None:
        source = constraint.grammar.source
        default = "start" if constraint.format == "Lark" else "root"
        body = dialect.grammar(constraint.format, source) if source and constraint.start == default else None
        return None if body is None else Carried(body)
    schema = _schema_of(output)
    if schema is None:
        return None
    if dialect.schema is not None:
        if output.is_json and not (dialect.objects_only and schema.get("type") != "object"):
            return Carried(dialect.schema(schema))
        wrapped = _wrapped(schema)
        return None if wrapped is None else Carried(dialect.schema(wrapped), wrapped=True)
    if dialect.json_only is not None and output.is_json and schema.get("type") == "object":
        return Carried(dialect.json_only, enforced=False)
    return None


def _is_its_pattern(constraint: RegexConstraint) -> bool:
    """Is the pattern all there is to it, without flags?"""
    return regex(constraint.pattern, dialect=constraint.dialect) == constraint


def _schema_of(output: OutputType) -> dict[str, Any] | None:
    constraint = output.constraint
    if isinstance(constraint, ChoiceConstraint):
        return {"type": "string", "enum": list(constraint.texts)}
    if output.schema is None or len(output.schema) > _LONGEST_SCHEMA:
        return None
    schema = json.loads(output.schema)
    if isinstance(schema, dict) and "$ref" in schema and schema.keys() <= {"$ref", "$defs"}:
        # A recursive model at the top: servers look for a type there.
        name = str(schema["$ref"]).rpartition("/")[2]
        inner = schema.get("$defs", {}).get(name)
        if isinstance(inner, dict):
            schema = {**inner, "$defs": schema["$defs"]}
    return schema if isinstance(schema, dict) else None


def _wrapped(schema: dict[str, Any]) -> dict[str, Any] | None:
    """An object with a value of the schema; None where references would lead elsewhere then."""
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
