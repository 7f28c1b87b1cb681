"""A case as a constraint: what a peer does by default, said in options of structgen.

The first form of a case is the peer's own. The others change one option (of JSON Schemas also two), to see whether an
option decides about a text on which the two differ.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple

import structgen as sg
from structgen.constraints.base import Constraint
from structgen.errors import StructgenError
from structgen.serving.limits import DEFAULT_LIMITS
from structgen.serving.spec_readers import grammar_constraint
from structgen.serving.structural_tags import read_structural_tag

from .cases import Case

__all__ = ["Form", "forms"]


class Form(NamedTuple):
    """A way to read a case; `name` is empty for the peer's own."""

    name: str
    make: Callable[[], Constraint]


def forms(case: Case, specials: tuple[str, ...] = ()) -> Iterator[Form]:
    """The forms of a case, the peer's own first; `specials` are the special tokens of its vocabulary."""
    yield from _KINDS[case.kind](case.peer, case.spec, case.options, specials)


# JSON Schema.

_OTHERS: Mapping[str, tuple[Any, ...]] = {
    "ordered": (True, False),
    "escapes": ("all", "canonical"),
    "integers": ("digits", "any"),
    "formats": ("assert", "annotate"),
    "strict": (True, False),
    "whitespace": ("flexible", "compact", "json.dumps", sg.Whitespace.flexible(64, 64)),
}


def _json_schema(peer: str, spec: Any, options: Mapping[str, Any], _: tuple[str, ...]) -> Iterator[Form]:
    base = _json_options(peer, options)
    yield Form("", lambda: _schema(spec, base))
    changes = [(key, value) for key, values in _OTHERS.items() for value in values if value != base[key]]
    for key, value in changes:
        yield Form(_said(key, value), functools.partial(_schema, spec, {**base, key: value}))
    for one, two in itertools.combinations(changes, 2):
        if one[0] != two[0] and "whitespace" not in (one[0], two[0]):
            name = f"{_said(*one)}, {_said(*two)}"
            yield Form(name, functools.partial(_schema, spec, {**base, one[0]: one[1], two[0]: two[1]}))


def _said(key: str, value: Any) -> str:
    return f"{key}={value if isinstance(value, (str, bool)) else 'wide'}"


def _schema(spec: Any, options: Mapping[str, Any]) -> Constraint:
    rest = {key: value for key, value in options.items() if key != "strict"}
    return sg.json_schema(closed(spec) if options["strict"] else spec, **rest)


def _json_options(peer: str, options: Mapping[str, Any]) -> dict[str, Any]:
    base: dict[str, Any] = {
        "whitespace": "flexible",
        "ordered": True,
        "escapes": "all",
        "integers": "digits",
        "formats": "assert",
        "strict": False,
    }
    changes = _PEERS.get(peer)
    return base if changes is None else base | changes(options)


def _of_xgrammar(options: Mapping[str, Any]) -> dict[str, Any]:
    strict = options.get("strict_mode", True) and not options.get("builtin_json")
    if not options.get("any_whitespace", True):
        white: Any = _layout(options.get("indent"), options.get("separators"))
    elif (most := options.get("max_whitespace_cnt")) is not None:
        white = sg.Whitespace.flexible(most, most)
    else:
        white = "flexible"
    return {"ordered": not options.get("any_order", False), "strict": strict, "whitespace": white}


def _of_guidance(options: Mapping[str, Any]) -> dict[str, Any]:
    separators = (options.get("item_separator", ", "), options.get("key_separator", ": "))
    white = "flexible" if options.get("whitespace_flexible") else _layout(None, separators)
    return {"escapes": "canonical", "whitespace": white}


def _of_vllm(options: Mapping[str, Any]) -> dict[str, Any]:
    if "max_whitespace_cnt" in options:
        most = options["max_whitespace_cnt"] or 64
        return {"ordered": False, "whitespace": sg.Whitespace.flexible(most, most)}
    return {"ordered": False, "whitespace": options.get("whitespace", "flexible")}


def _of_lm_format_enforcer(options: Mapping[str, Any]) -> dict[str, Any]:
    most = int(options.get("LMFE_MAX_CONSECUTIVE_WHITESPACES", 12))
    ordered = "LMFE_STRICT_JSON_FIELD_ORDER" in options
    return {"ordered": ordered, "strict": True, "whitespace": sg.Whitespace.flexible(most, most)}


def _of_outlines_core(options: Mapping[str, Any]) -> dict[str, Any]:
    free = "whitespace_pattern" in options
    return {"strict": True, "whitespace": "flexible" if free else sg.Whitespace.flexible(1, 0)}


_PEERS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "xgrammar": _of_xgrammar,
    "guidance": _of_guidance,
    "vllm": _of_vllm,
    "lm-format-enforcer": _of_lm_format_enforcer,
    "outlines-core": _of_outlines_core,
    "llguidance": lambda options: {
        "escapes": "canonical",
        "whitespace": options.get("whitespace", "flexible"),
    },
    "llama.cpp": lambda options: {"strict": options.get("engine") != "llguidance"},
}


def _layout(indent: Any, separators: Any) -> Any:
    try:
        return sg.Whitespace.written(indent, tuple(separators) if separators else None)
    except StructgenError:
        return "flexible"


_OF_NAMES = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_OF_SCHEMAS = (
    "items", "additionalItems", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else",
    "unevaluatedItems", "unevaluatedProperties", "prefixItems", "anyOf", "oneOf",
)  # fmt: skip
_COMBINED = {"allOf", "anyOf", "oneOf", "$ref", "if", "dependentSchemas"}
_OPEN = {"additionalProperties", "unevaluatedProperties"}


def closed(schema: Any) -> Any:
    """Nothing beyond what the schema names, in objects and arrays: what XGrammar calls strict."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _OF_NAMES and isinstance(value, dict):
            made[key] = {name: closed(one) for name, one in value.items()}
        elif key in _OF_SCHEMAS:
            made[key] = closed(value)
        elif key == "allOf" and isinstance(value, list):
            made[key] = [_values_closed(one) for one in value]
        else:
            made[key] = value
    if {"properties", "patternProperties"} & set(made):
        if not _OPEN & set(made):
            made["unevaluatedProperties" if _COMBINED & set(made) else "additionalProperties"] = False
    elif not _OPEN & set(made) and any(
        isinstance(one, dict) and {"properties", "$ref"} & set(one) for one in made.get("allOf", ())
    ):
        made["unevaluatedProperties"] = False
    if "prefixItems" in made and not {"items", "unevaluatedItems"} & set(made):
        made["items"] = False
    if isinstance(made.get("items"), list):
        made.setdefault("additionalItems", False)
    return made


def _values_closed(branch: Any) -> Any:
    """A branch of allOf stays open, as the others add keys; the values of its keys are closed."""
    if not isinstance(branch, dict) or not isinstance(branch.get("properties"), dict):
        return branch
    return {**branch, "properties": {name: closed(one) for name, one in branch["properties"].items()}}


# Patterns and grammars.


def _regex(peer: str, spec: Any, options: Mapping[str, Any], _: tuple[str, ...]) -> Iterator[Form]:
    dialects: tuple[Literal["ecma", "python"], ...] = (
        ("ecma", "python") if peer == "xgrammar" else ("python", "ecma")
    )
    for dialect in dialects:
        name = "" if dialect == dialects[0] else f"dialect={dialect}"
        yield Form(name, functools.partial(sg.regex, spec, dialect=dialect))
    if dialects[0] == "python":
        yield Form("(?a)", lambda: sg.regex(f"(?a){spec}"))


def _lark(peer: str, spec: Any, options: Mapping[str, Any], _: tuple[str, ...]) -> Iterator[Form]:
    lexer = options.get("lexer", "longest")
    choices = [(one, contextual) for one in ("longest", "lark") for contextual in (True, False)]
    # A peer that says how its lexer works means lark's own, which is not contextual by default.
    choices.sort(key=lambda choice: (choice[0] != lexer, choice[1] == ("lexer" in options)))
    for place, (rule, contextual) in enumerate(choices):
        how: dict[str, Any] = {"lexer": rule, "contextual": contextual}
        if options.get("indenter") == "python":
            how["indenter"] = _blocks()
        name = f"lexer={rule}, contextual={contextual}" if place else ""
        yield Form(name, functools.partial(_lark_of, peer, spec, options, how | _LARK_OPTIONS.get(peer, {})))
    if "%json" in spec:
        how = {"lexer": choices[0][0], "contextual": choices[0][1], "json": {"escapes": "all"}}
        yield Form("escapes=all", functools.partial(_lark_of, peer, spec, options, how))


# How rules end whose tokens are used up, and how integers are written.
_LARK_OPTIONS: Mapping[str, dict[str, Any]] = {
    "xgrammar": {"at_limit": "complete", "json": {"integers": "digits"}}
}
_NOT_AT_FIRST = '\n%llguidance {"allow_initial_skip": false}\n'


def _lark_of(peer: str, spec: str, options: Mapping[str, Any], how: dict[str, Any]) -> Constraint:
    # Where nothing else is said, these two ignore no text at the beginning.
    if (
        peer in ("xgrammar", "llguidance")
        and "%ignore" in spec
        and not {"%lark", "allow_initial_skip"} & _words(spec)
    ):
        spec += _NOT_AT_FIRST
    parts: dict[str, Any] = {
        name: sg.lark(grammar, **how)
        for name, grammar in (options.get("named_grammars") or {}).items()
        if isinstance(grammar, str)
    }
    if sub := options.get("sub"):
        parts["sub"] = (
            sg.lark(sub["spec"], **how)
            if sub["kind"] == "lark"
            else _schema(sub["spec"], _json_options(peer, {}))
        )
    return sg.lark(spec, constraints=parts or None, **how)


def _words(spec: str) -> set[str]:
    return {word for word in ("%lark", "allow_initial_skip") if word in spec}


@functools.cache
def _blocks() -> Any:
    from lark.indenter import Indenter

    class Blocks(Indenter):
        NL_type = "_NL"
        OPEN_PAREN_types: ClassVar = ["LPAR", "LSQB", "LBRACE"]
        CLOSE_PAREN_types: ClassVar = ["RPAR", "RSQB", "RBRACE"]
        INDENT_type = "_INDENT"
        DEDENT_type = "_DEDENT"
        tab_len = 4

    return Blocks


def _structural_tag(
    peer: str, spec: Any, options: Mapping[str, Any], specials: tuple[str, ...]
) -> Iterator[Form]:
    strict = peer == "xgrammar"
    limits = replace(DEFAULT_LIMITS, whitespace="flexible")
    shut = _tags_closed(spec) if strict else spec
    yield Form("", lambda: read_structural_tag(shut, limits, specials))
    if strict:
        yield Form("strict=False", lambda: read_structural_tag(spec, limits, specials))
    others: tuple[tuple[str, Any], ...] = (
        ("ordered", False),
        ("whitespace", "json.dumps"),
        ("integers", "any"),
    )
    for key, value in others:
        changed = replace(limits, **{key: value})
        yield Form(_said(key, value), functools.partial(read_structural_tag, shut, changed, specials))


def _tags_closed(node: Any) -> Any:
    if isinstance(node, list):
        return [_tags_closed(one) for one in node]
    if not isinstance(node, dict):
        return node
    return {
        key: closed(value)
        if key in ("json_schema", "schema") and isinstance(value, dict)
        else _tags_closed(value)
        for key, value in node.items()
    }


def _joined(peer: str, spec: Any, union: bool) -> Constraint:
    parts = [
        next(_KINDS[one["kind"]](peer, one["spec"], one.get("options") or {}, ())).make() for one in spec
    ]
    return functools.reduce(lambda left, right: left | right if union else left + right, parts)


_KINDS: Mapping[str, Callable[[str, Any, Mapping[str, Any], tuple[str, ...]], Iterator[Form]]] = {
    "json_schema": _json_schema,
    "regex": _regex,
    "lark": _lark,
    "structural_tag": _structural_tag,
    "gbnf": lambda peer, spec, options, _: iter([Form("", lambda: sg.gbnf(spec))]),
    "ebnf": lambda peer, spec, options, _: iter(
        [Form("", lambda: sg.ebnf(spec, start=options.get("root", "root")))]
    ),
    "text": lambda peer, spec, options, _: iter([Form("", lambda: sg.choice([spec]))]),
    "choice": lambda peer, spec, options, _: iter([Form("", lambda: sg.choice(spec))]),
    "concat": lambda peer, spec, options, _: iter([Form("", lambda: _joined(peer, spec, False))]),
    "union": lambda peer, spec, options, _: iter([Form("", lambda: _joined(peer, spec, True))]),
    # As the plugin for vLLM reads it: Lark, GBNF or EBNF.
    "grammar": lambda peer, spec, options, _: iter([Form("", lambda: grammar_constraint(spec))]),
}
