"""Random requests of all types, each with a check of its answer that does not use structgen.

The judges are independent: `jsonschema_rs` for JSON Schema, `re` for patterns and regular grammars, membership for
choices.

Invariant: the same seed makes the same requests. Schemas are distinct, because names and bounds are random, and small,
so that a whole answer fits `MAX_TOKENS`. A poisonous request must get a 400; a hostile one, which is expensive to
compile, may get one.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jsonschema_rs

__all__ = ["MAX_TOKENS", "Case", "draw_case", "draw_cases", "draw_poison"]

MAX_TOKENS = 192
_WORDS = (
    "alpha",
    "beta",
    "city",
    "count",
    "date",
    "eta",
    "flag",
    "grade",
    "item",
    "kind",
    "label",
    "name",
    "price",
)
_STRINGS = ("x", "red", "a b", "Zürich", "7", "new\nline", 'quo"te')


@dataclass(frozen=True)
class Case:
    """One request: its kind, what it adds to a call of the client, and what is wrong with an answer (None: nothing)."""

    kind: str
    options: dict[str, Any]
    fault: Callable[[str, list[tuple[str, str]]], str | None]
    """Return what is wrong with the text and the tool calls, given as (name, arguments)."""
    kind_and_spec: tuple[str, Any] | None = None
    """The constraint in structgen's terms, to check answers that were cut off."""
    is_poison: bool = False
    """A 400 is right."""
    may_answer: bool = False
    """An answer is right, too, though a 400 is."""
    stream: bool = False
    seed: int | None = 0


@dataclass
class _Draw:
    random: random.Random
    names: list[str] = field(default_factory=list)

    def name(self) -> str:
        return f"{self.random.choice(_WORDS)}_{self.random.randrange(1000)}"


def draw_cases(count: int, seed: int, poison: float, *, seeded: bool = True) -> list[Case]:
    """`count` requests; the share `poison` of them must be refused. `seeded`: they send a seed of their own."""
    draw = random.Random(seed)
    made = [draw_poison(draw) if draw.random() < poison else draw_case(draw) for _ in range(count)]
    return made if seeded else [replace(case, seed=None) for case in made]


def draw_case(draw: random.Random) -> Case:
    make = draw.choice(
        (_schema, _schema, _schema, _object, _regex, _choice, _ebnf, _lark, _named_tool, _required, _tag)
    )
    return replace(make(draw), stream=draw.random() < 0.4, seed=draw.randrange(1 << 30))


# What must be answered.


def _small(draw: random.Random, depth: int = 0) -> dict[str, Any]:
    kinds: list[Callable[[], dict[str, Any]]] = [
        lambda: {
            "type": "integer",
            "minimum": (low := draw.randrange(50)),
            "maximum": low + draw.randrange(1, 99),
        },
        lambda: {"type": "string", "maxLength": draw.randrange(1, 9)},
        lambda: {"type": "boolean"},
        lambda: {"enum": draw.sample(_STRINGS, draw.randrange(1, 4))},
        lambda: {"type": "string", "pattern": f"^[a-{draw.choice('cmz')}]{{{draw.randrange(1, 4)},5}}$"},
        lambda: {"type": "number", "minimum": 0, "exclusiveMaximum": 10, "multipleOf": 0.5},
        lambda: {"type": "string", "format": "date"},
        lambda: {"type": ["null", "integer"], "minimum": -5, "maximum": 5},
    ]
    if depth < 2:
        kinds += [
            lambda: {
                "type": "array",
                "items": _small(draw, depth + 1),
                "minItems": draw.randrange(2),
                "maxItems": draw.randrange(1, 4),
            },
            lambda: _properties(draw, depth + 1, draw.randrange(1, 3)),
            lambda: {"anyOf": [_small(draw, 2), _small(draw, 2)]},
        ]
    return draw.choice(kinds)()


def _properties(draw: random.Random, depth: int, count: int) -> dict[str, Any]:
    names = list(dict.fromkeys(_Draw(draw).name() for _ in range(count)))
    required = [name for name in names if draw.random() < 0.8] or names[:1]
    return {
        "type": "object",
        "properties": {name: _small(draw, depth) for name in names},
        "required": required,
        "additionalProperties": False,
    }


def _schema(draw: random.Random) -> Case:
    schema = _properties(draw, 0, draw.randrange(1, 4))
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    return Case("json", {"response_format": form}, _json_fault(schema), ("json", schema))


def _object(draw: random.Random) -> Case:
    schema = {"type": "object"}
    return Case(
        "json_object",
        {"response_format": {"type": "json_object"}},
        _json_fault(schema),
        ("json_object", None),
    )


def _structured(kind: str, spec: Any, fault: Callable[[str], str | None], name: str = "") -> Case:
    extra = {"extra_body": {"structured_outputs": {kind: spec}}}
    return Case(name or kind, extra, lambda text, _: fault(text), (kind, spec))


def _full(pattern: str) -> Callable[[str], str | None]:
    return lambda text: None if re.fullmatch(pattern, text) else f"{text!r:.80} is not {pattern!r}"


def _regex(draw: random.Random) -> Case:
    pattern = draw.choice(
        (
            rf"[A-Z]{{2,{draw.randrange(2, 6)}}}-[0-9]{{{draw.randrange(1, 6)}}}",
            rf"(red|green|blue){{1,{draw.randrange(1, 4)}}}[.!?]",
            rf"v{draw.randrange(100)}\.[0-9]\.[0-9]{{1,2}}(-rc[1-9])?",
            rf"(?!ab)[a-d]{{{draw.randrange(3, 8)}}}",
            r"[^\W\d_]{1,12} [0-9a-f]{4}",
        )
    )
    return _structured("regex", pattern, _full(pattern))


def _choice(draw: random.Random) -> Case:
    texts = list(dict.fromkeys(_Draw(draw).name() for _ in range(draw.randrange(1, 9))))
    return _structured("choice", texts, lambda text: None if text in texts else f"{text!r:.80} is no choice")


def _ebnf(draw: random.Random) -> Case:
    most, word = draw.randrange(1, 6), draw.choice(_WORDS)
    grammar = f'root ::= "{word}(" list? ")"\nlist ::= number ("," number){{0,{most}}}\nnumber ::= [1-9] [0-9]{{0,2}}\n'
    number = "[1-9][0-9]{0,2}"
    return _structured("grammar", grammar, _full(rf"{word}\(({number}(,{number}){{0,{most}}})?\)"), "ebnf")


def _lark(draw: random.Random) -> Case:
    most, word = draw.randrange(1, 4), draw.choice(_WORDS)
    grammar = (
        f'start: "{word}" "=" value ("+" value)~0..{most}\nvalue: INT | NAME\n'
        "INT: /[0-9]{1,3}/\nNAME: /[a-z]{1,5}/\n"
    )
    value = "([0-9]{1,3}|[a-z]{1,5})"
    return _structured("grammar", grammar, _full(rf"{word}={value}(\+{value}){{0,{most}}}"), "lark")


def _tools(draw: random.Random) -> dict[str, dict[str, Any]]:
    return {
        _Draw(draw).name(): _properties(draw, 1, draw.randrange(1, 3)) for _ in range(draw.randrange(1, 4))
    }


def _offered(tools: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"type": "function", "function": {"name": name, "parameters": parameters, "strict": True}}
        for name, parameters in tools.items()
    ]


def _named_tool(draw: random.Random) -> Case:
    tools = _tools(draw)
    name = draw.choice(list(tools))
    chosen = {"type": "function", "function": {"name": name}}
    return Case(
        "tool", {"tools": _offered(tools), "tool_choice": chosen}, _call_fault({name: tools[name]}, at_most=1)
    )


def _required(draw: random.Random) -> Case:
    tools = _tools(draw)
    return Case(
        "tools", {"tools": _offered(tools), "tool_choice": "required"}, _call_fault(tools, at_most=None)
    )


def _tag(draw: random.Random) -> Case:
    schema, word = _properties(draw, 1, 1), draw.choice(_WORDS)
    tag = {
        "type": "tag",
        "begin": f"<{word}>",
        "content": {"type": "json_schema", "json_schema": schema},
        "end": f"</{word}>",
    }
    form = {
        "type": "structural_tag",
        "format": {
            "type": "triggered_tags",
            "triggers": [f"<{word}"],
            "tags": [tag],
            "at_least_one": True,
            "stop_after_first": True,
        },
    }
    inner = _json_fault(schema)

    def fault(text: str, calls: list[tuple[str, str]]) -> str | None:
        match = re.fullmatch(rf"<{word}>(.*)</{word}>", text, re.DOTALL)
        return inner(match[1], calls) if match else f"{text!r:.80} is no <{word}>"

    return Case("structural_tag", {"response_format": form}, fault, ("structural_tag", form))


def _json_fault(schema: Any) -> Callable[[str, list[tuple[str, str]]], str | None]:
    validator = jsonschema_rs.validator_for({"$schema": _DIALECT, **schema}, validate_formats=True)

    def fault(text: str, calls: list[tuple[str, str]]) -> str | None:
        try:
            value = json.loads(text)
        except ValueError as error:
            return f"{text!r:.80} is no JSON: {error}"
        return next((str(error)[:200] for error in validator.iter_errors(value)), None)

    return fault


_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def _call_fault(
    tools: dict[str, dict[str, Any]], *, at_most: int | None
) -> Callable[[str, list[tuple[str, str]]], str | None]:
    def fault(text: str, calls: list[tuple[str, str]]) -> str | None:
        if not calls or (at_most is not None and len(calls) > at_most):
            return f"{len(calls)} calls, and the text {text!r:.120}"
        for name, arguments in calls:
            if name not in tools:
                return f"a call of {name!r}"
            if (reason := _json_fault(tools[name])(arguments, [])) is not None:
                return f"{name}: {reason}"
        return None

    return fault


# What must be refused.


def draw_poison(draw: random.Random) -> Case:
    """A request that is wrong or impossible, and must be refused, or one that is hostile, and may be answered."""
    salt = draw.randrange(1_000_000)
    if draw.random() < 0.3:
        kind, spec = draw.choice(_HOSTILE)(salt)
        options = _options(kind, spec)
        return Case(
            f"hostile {kind}", options, lambda *_: None, (kind, spec), is_poison=True, may_answer=True
        )
    kind, spec = draw.choice(_POISON)(salt)
    return Case(f"poison {kind}", _options(kind, spec), lambda *_: "it was answered", None, is_poison=True)


def _options(kind: str, spec: Any) -> dict[str, Any]:
    if kind == "json":
        return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": spec}}}
    if kind == "structural_tag":
        return {"response_format": spec}
    return {"extra_body": {"structured_outputs": {kind: spec}}}


_POISON: tuple[Callable[[int], tuple[str, Any]], ...] = (
    lambda salt: ("json", {"type": "objekt", "title": str(salt)}),
    lambda salt: ("json", {"type": "integer", "minimum": salt + 1, "maximum": salt}),
    lambda salt: ("json", {"$ref": f"https://example.org/{salt}.json"}),
    lambda salt: ("json", {"type": "string", "pattern": f"(a{salt}"}),
    lambda salt: ("json", {"properties": {"a": {"$ref": "#/$defs/b"}}, "title": str(salt)}),
    lambda salt: ("regex", f"({salt}"),
    lambda salt: ("regex", rf"(.*)\1x{salt}"),
    lambda salt: ("grammar", f'root ::= missing{salt} "a"'),
    lambda salt: ("grammar", f'root ::= "{salt}'),
    lambda salt: ("grammar", f'root ::= root "a{salt}"'),
    lambda salt: ("grammar", f"start: %%{salt}"),
    lambda salt: ("structural_tag", {"type": "structural_tag", "format": {"type": f"nothing{salt}"}}),
)

_HOSTILE: tuple[Callable[[int], tuple[str, Any]], ...] = (
    lambda salt: ("regex", f"((((a{{1,{900 + salt % 90}}}){{1,900}}){{1,900}}){{1,900}}){{1,900}}b(?<=c)"),
    lambda salt: ("regex", f"(?=.*a{{100}})(?=.*b{{100}}).{{900}}{salt}"),
    lambda salt: ("json", {"properties": {f"{salt}{k}": {"type": "integer"} for k in range(10_000)}}),
    lambda salt: (
        "json",
        {"oneOf": [{"properties": {f"{salt}{k}": {"type": "null"}}} for k in range(1_000)]},
    ),
    lambda salt: (
        "json",
        {"allOf": [{"not": {"properties": {f"{salt}{k}": {"type": "null"}}}} for k in range(200)]},
    ),
    lambda salt: ("choice", [f"{salt}-{k}" for k in range(40_000)]),
    lambda salt: ("grammar", "start: a+\na: " + " | ".join(f'"{salt}{k}" a?' for k in range(3_000))),
    lambda salt: ("grammar", f'root ::= e "{salt}"\ne ::= e e | "a" e | e "b" | "a" | "ab" | "(" e ")"'),
)
