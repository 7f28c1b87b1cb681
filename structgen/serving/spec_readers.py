"""Readers of the kinds of constraints that all serving engines share: JSON Schema, regular expression, grammar, choice.

Each reader takes the spec that a request sends, the limits, and the names of special tokens, and returns a constraint.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from structgen.constraints.base import Constraint
from structgen.constraints.choice import choice
from structgen.constraints.grammar.builders import ebnf, gbnf, lark
from structgen.constraints.grammar.wrong_notation import error_if_gbnf
from structgen.constraints.json_schema.constraint import JsonSchemaConstraint, constraint_of_parsed
from structgen.constraints.json_schema.options import make_options
from structgen.constraints.json_schema.parsing import parse_schema
from structgen.constraints.json_schema.unique_keys import loads_unique
from structgen.constraints.regex import regex
from structgen.errors import (
    ConstraintError,
    GrammarError,
    GrammarSyntaxError,
    GrammarUnsupported,
    LimitExceeded,
    SchemaInvalid,
    a_kind,
)
from structgen.ir.schema import JsonValue

from .limits import RequestLimits

__all__ = [
    "SpecReader",
    "grammar_constraint",
    "parse_json",
    "read_choice",
    "read_grammar",
    "read_json",
    "read_json_object",
    "read_regex",
    "schema_constraint",
]

SpecReader = Callable[[Any, RequestLimits, Collection[str]], Constraint]


def schema_constraint(
    schema: Any,
    limits: RequestLimits,
    *,
    ordered: bool | None = None,
    whitespace: Any = None,
    closed: bool = False,
    parsed: JsonValue = None,
) -> JsonSchemaConstraint:
    """Return the constraint of a JSON Schema, written in the form of JSON that the limits choose.

    Args:
        schema: A dict, a bool or JSON text.
        limits: Their `whitespace`, `ordered` and `integers` are the defaults.
        ordered: Write keys in declared order; None is the limits' choice.
        whitespace: A setting of white space; None is the limits' choice.
        closed: Objects that declare their keys have no others, unless the schema mentions others.
        parsed: What `parse_schema` returned for the schema, if it was called before.

    Raises:
        StructgenError: The schema is invalid or has an unsupported keyword.
    """
    if not isinstance(schema, (str, bytes, bytearray, dict, bool)):
        raise SchemaInvalid(f"a schema is an object, a boolean or JSON text, not {a_kind(schema)}")
    given = bytes(schema) if isinstance(schema, bytearray) else schema
    options = make_options(
        {
            "whitespace": limits.whitespace if whitespace is None else whitespace,
            "ordered": limits.ordered if ordered is None else ordered,
            "integers": limits.integers,
            "closed": closed,
        }
    )
    return constraint_of_parsed(parse_schema(given) if parsed is None else parsed, given, options)


def grammar_constraint(source: Any) -> Constraint:
    """Return the constraint of a grammar, whose notation is found from how its rules are written.

    ``name ::= ...`` is EBNF as XGrammar reads it, or else GBNF. Anything else is Lark's notation, with longest-match
    lexing as serving engines do it.

    Raises:
        StructgenError: The grammar has a fault, or uses an unsupported feature.
    """
    if not isinstance(source, str):
        raise ConstraintError(f"a grammar is a text, not {a_kind(source)}")
    if not source.strip():
        raise GrammarSyntaxError("the grammar is empty", hint='Write, for example, root ::= "yes" | "no".')
    if error_if_gbnf(source) is None:
        return lark(source, lexer="longest")
    try:
        return ebnf(source)
    except GrammarError as error:
        try:
            return gbnf(source)
        except GrammarError as other:
            # The parser that got further reports the actual fault.
            further = (other.line, other.column) > (error.line, error.column)
            raise (other if further or _is_gbnf(error, other) else error) from None


def _is_gbnf(error: GrammarError, other: GrammarError) -> bool:
    return isinstance(other, GrammarUnsupported) and not isinstance(error, GrammarUnsupported)


def read_json(spec: Any, limits: RequestLimits, specials: Collection[str]) -> Constraint:
    """Return the constraint of a JSON Schema."""
    return schema_constraint(spec, limits)


def read_json_object(spec: Any, limits: RequestLimits, specials: Collection[str]) -> Constraint:
    """Return the constraint of any JSON object; the spec is ignored."""
    return schema_constraint({"type": "object"}, limits)


def read_regex(spec: Any, limits: RequestLimits, specials: Collection[str]) -> Constraint:
    """Return the constraint of a pattern."""
    if not isinstance(spec, str):
        raise ConstraintError(f"a pattern is a text, not {a_kind(spec)}")
    return regex(spec)


def read_grammar(spec: Any, limits: RequestLimits, specials: Collection[str]) -> Constraint:
    """Return the constraint of a grammar."""
    return grammar_constraint(spec)


def read_choice(spec: Any, limits: RequestLimits, specials: Collection[str]) -> Constraint:
    """Return the constraint of a list of texts, given as a list or as JSON."""
    texts = parse_json(spec, "a choice") if isinstance(spec, str) else spec
    if not isinstance(texts, (list, tuple)):
        raise ConstraintError(f"a choice is a list of texts, not {a_kind(texts)}")
    if len(texts) > limits.max_choices:
        raise LimitExceeded(
            f"the choice has {len(texts):,} texts, more than {limits.max_choices:,}",
            limit="max_choices",
            hint="Send fewer; the operator of the server can raise max_choices.",
        )
    return choice(texts)


def parse_json(text: str | bytes | bytearray, what: str) -> Any:
    """Parse JSON without duplicate keys. `what` names it in errors."""
    try:
        return loads_unique(text)
    except RecursionError:
        raise LimitExceeded(f"{what} is nested too deep", limit="request_depth", hint="Nest less.") from None
    except ValueError as error:
        raise ConstraintError(f"{what} is not valid JSON: {error}") from None
