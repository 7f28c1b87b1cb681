"""What a request asks for, as a constraint: one function for the plugins and the server.

Why: engines name the same six kinds of structured output, each with its own spelling; a bad request must be refused by
its message before any engine sees it.
Invariant: a constraint that comes back is exactly what the request describes, but for the form of JSON, which is
`RequestLimits`' to choose (a narrower form loses no value); what cannot be exact is refused, by name. Nothing is read
from disk or the network.
Cost: reading is linear in the request, except for grammars with lark's own loader (about a millisecond a rule).

    json             a schema: dict, bool or JSON text
    json_object      any JSON object; the spec is not looked at
    regex            a pattern in Python's dialect, for the whole text
    choice           a list of texts, or such a list as JSON
    grammar          EBNF (XGrammar), GBNF (llama.cpp) or Lark; found out by how rules are written
    structural_tag   free text with tags in it, in both forms: see `structural_tags`
    tools, shelf, plan, answer   what our own server takes beyond that: see `own_requests`
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from structgen.constraints.base import Constraint
from structgen.constraints.choice import choice
from structgen.constraints.grammar.constraint import ebnf, gbnf, lark
from structgen.constraints.grammar.wrong_notation import is_like_gbnf
from structgen.constraints.json_schema import json_schema
from structgen.constraints.json_schema.constraint import JsonSchemaConstraint
from structgen.constraints.json_schema.options import Integers
from structgen.constraints.json_schema.unique_keys import loads_unique
from structgen.constraints.json_schema.whitespace import WhitespaceName
from structgen.constraints.regex import regex
from structgen.errors import (
    ConstraintError,
    GrammarError,
    GrammarSyntaxError,
    GrammarUnsupported,
    LimitExceeded,
    OptionError,
    SchemaInvalid,
    a_kind,
)

__all__ = ["DEFAULT_LIMITS", "KINDS", "Kind", "RequestLimits", "constraint_of", "spec_text"]

Kind = Literal[
    "json", "json_object", "regex", "grammar", "choice", "structural_tag", "tools", "shelf", "plan", "answer"
]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class RequestLimits:
    """What one request may take, how its JSON is written, and what the compiler may keep."""

    max_bytes: int = 1 << 20
    """UTF-8 of a spec as JSON or text."""
    max_choices: int = 100_000
    max_tags: int = 4_096
    """Formats in one structural tag."""
    max_depth: int = 64
    """Formats inside one another."""
    whitespace: WhitespaceName = "flexible"
    """Of JSON texts; every one of them bounds the white space."""
    ordered: bool = True
    """Keys of JSON objects in the order in which the schema declares them, as OpenAI's interface promises."""
    integers: Integers = "digits"
    """Integers are written without a fraction or an exponent."""
    compile_seconds: float = 5.0
    """CPU time to read and compile one spec and to make its first masks, in its worker."""
    quick_seconds: float = 0.05
    """A spec that takes more CPU time keeps its worker only while another one is left for the others."""
    compile_bytes: int = 1 << 30
    """Memory that a worker may take beyond what its vocabulary needs."""
    install_seconds: float = 0.05
    """CPU time to build the automaton in the serving process, during which no other Python code runs there. (Our own
    server refuses nothing for it: see `laned`.)"""
    slow_mask_seconds: float = 0.005
    """A mask that took longer in the worker marks its spec as slow: it gets an engine of its own, or a lane."""
    max_lanes: int = 16
    """Processes for specs that take long, one for each that is in use (our own server alone)."""
    lane_bytes: int = 256 << 20
    """Memory of a lane beyond what its vocabulary needs."""
    step_seconds: float = 1.0
    """CPU time for one token in a lane."""
    cache_entries: int = 512
    """Compiled specs that are kept for requests to come."""
    max_pending: int = 256
    """Specs that wait for a worker; more are refused at once."""

    def once_passed(self) -> RequestLimits:
        """For a process that is sent only what passed these limits in another one. What is measured differs from one
        time to the next, and a refusal there would be an error of the server."""
        return replace(
            self,
            compile_seconds=4 * self.compile_seconds,
            install_seconds=4 * self.install_seconds,
            compile_bytes=2 * self.compile_bytes,
            max_pending=16 * self.max_pending,
        )


DEFAULT_LIMITS = RequestLimits()


def constraint_of(
    kind: Kind, spec: Any, limits: RequestLimits = DEFAULT_LIMITS, *, specials: Collection[str] = ()
) -> Constraint:
    """The constraint that a request describes.

    `specials` are the special tokens of the vocabulary, by their texts; where the texts of a structural tag hold one,
    that token is meant. Raises `StructgenError`, whose message says what is wrong with the request.
    """
    read = _READERS.get(kind)
    if read is None:
        raise OptionError(
            f"there is no kind of structured output {kind!r:.60}", hint=f"The kinds are {', '.join(KINDS)}."
        )
    if kind != "json_object":
        _check_size(spec_text(spec), limits)
    return read(spec, limits, specials)


def spec_text(spec: Any) -> str:
    """A spec as text: itself, or its JSON in the order given. Equal texts are equal requests."""
    if isinstance(spec, str):
        return spec
    if isinstance(spec, (bytes, bytearray)):
        return spec.decode("utf-8", "surrogateescape")
    try:
        return json.dumps(spec)
    except RecursionError:
        raise LimitExceeded(
            "the request is nested too deep", limit="request_depth", hint="Nest less."
        ) from None
    except (TypeError, ValueError) as error:
        raise ConstraintError(f"the request is no JSON: {error}") from None


def _check_size(text: str, limits: RequestLimits) -> None:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if size > limits.max_bytes:
        raise LimitExceeded(
            f"the request's constraint has {size:,} bytes, more than {limits.max_bytes:,}",
            limit="max_bytes",
            hint="Send a smaller one; the operator of the server can raise max_bytes.",
        )


def schema_constraint(
    schema: Any,
    limits: RequestLimits,
    *,
    ordered: bool | None = None,
    whitespace: Any = None,
    closed: bool = False,
) -> JsonSchemaConstraint:
    """The constraint of a schema under the form of JSON that the limits choose."""
    if not isinstance(schema, (str, bytes, bytearray, dict, bool)):
        raise SchemaInvalid(f"a schema is an object, a boolean or JSON text, not {a_kind(schema)}")
    return json_schema(
        bytes(schema) if isinstance(schema, bytearray) else schema,
        whitespace=limits.whitespace if whitespace is None else whitespace,
        ordered=limits.ordered if ordered is None else ordered,
        integers=limits.integers,
        closed=closed,
    )


def grammar_constraint(source: Any) -> Constraint:
    """The constraint of a grammar whose notation its rules show.

    ``name ::= ...`` is EBNF as XGrammar reads it, or what only GBNF can be; anything else is Lark's language, cut into
    the longest terminals, as engines do.
    """
    if not isinstance(source, str):
        raise ConstraintError(f"a grammar is a text, not {a_kind(source)}")
    if not source.strip():
        raise GrammarSyntaxError("the grammar is empty", hint='Write, for example, root ::= "yes" | "no".')
    if is_like_gbnf(source) is None:
        return lark(source, lexer="longest")
    try:
        return ebnf(source)
    except GrammarError as error:
        try:
            return gbnf(source)
        except GrammarError as other:
            # The reader that came further tells more of what is wrong.
            further = (other.line, other.column) > (error.line, error.column)
            raise (other if further or _is_gbnf(error, other) else error) from None


def _is_gbnf(error: GrammarError, other: GrammarError) -> bool:
    return isinstance(other, GrammarUnsupported) and not isinstance(error, GrammarUnsupported)


def _json(spec: Any, limits: RequestLimits, specials: Collection[str]) -> Constraint:
    return schema_constraint(spec, limits)


def _json_object(spec: Any, limits: RequestLimits, specials: Collection[str]) -> Constraint:
    return schema_constraint({"type": "object"}, limits)


def _regex(spec: Any, limits: RequestLimits, specials: Collection[str]) -> Constraint:
    if not isinstance(spec, str):
        raise ConstraintError(f"a pattern is a text, not {a_kind(spec)}")
    return regex(spec)


def _grammar(spec: Any, limits: RequestLimits, specials: Collection[str]) -> Constraint:
    return grammar_constraint(spec)


def _choice(spec: Any, limits: RequestLimits, specials: Collection[str]) -> Constraint:
    texts = _parsed(spec, "a choice") if isinstance(spec, str) else spec
    if not isinstance(texts, (list, tuple)):
        raise ConstraintError(f"a choice is a list of texts, not {a_kind(texts)}")
    if len(texts) > limits.max_choices:
        raise LimitExceeded(
            f"a choice of {len(texts):,} texts, at most {limits.max_choices:,}",
            limit="max_choices",
            hint="Send fewer; the operator of the server can raise max_choices.",
        )
    return choice(texts)


def _structural_tag(spec: Any, limits: RequestLimits, specials: Collection[str]) -> Constraint:
    from .structural_tags import read_structural_tag

    tag = _parsed(spec, "a structural tag") if isinstance(spec, (str, bytes, bytearray)) else spec
    return read_structural_tag(tag, limits, specials)


_Reader = Callable[[Any, RequestLimits, Collection[str]], Constraint]


def _own(kind: str) -> _Reader:
    def read(spec: Any, limits: RequestLimits, specials: Collection[str]) -> Constraint:
        from .server_kinds import own_constraint

        return own_constraint(kind, spec, limits, specials)

    return read


def _parsed(text: str | bytes | bytearray, what: str) -> Any:
    try:
        return loads_unique(text)
    except RecursionError:
        raise LimitExceeded(f"{what} is nested too deep", limit="request_depth", hint="Nest less.") from None
    except ValueError as error:
        raise ConstraintError(f"{what} is JSON, and this is not: {error}") from None


_READERS: Mapping[str, _Reader] = {
    "json": _json,
    "json_object": _json_object,
    "regex": _regex,
    "grammar": _grammar,
    "choice": _choice,
    "structural_tag": _structural_tag,
    **{kind: _own(kind) for kind in ("tools", "shelf", "plan", "answer")},
}
