"""After a limit was exceeded, results are those without it: partial results of an abandoned search are not reused.

A program is used further after a limit, and so is another one of the same constraint over the same vocabulary,
which shares its automata. All masks and steps must be those of a vocabulary without limits, or exceed a limit
again.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from structgen import _core
from structgen.constraints.base import Constraint
from structgen.constraints.grammar.builders import gbnf, lark
from structgen.constraints.json_schema import json_schema
from structgen.constraints.regex import regex
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary
from tests.core.small_vocabulary import allowed

FEW = {"type": "string", "pattern": "^(ab)*$", "allOf": [{"pattern": "^(aba)*$"}, {"minLength": 1}]}
PAIRS = {"type": "string", "pattern": "^(ab)*$", "allOf": [{"pattern": "^(ababab)*$"}]}
CONTENDED = """
    start: (IF | NAME | NUM | NOTE | "(" start ")")+
    IF: "if"
    NAME: /[a-z]+(foo|bar)[0-9]{1,3}/
    NUM: /[0-9]+([.][0-9]{1,4})?/
    NOTE: /\\/[*]([^*]|[*][^\\/])*[*]\\//
    %ignore " "
"""


def tagged(tag: str) -> dict[str, Any]:
    text = {"type": "string", "pattern": f"^{tag}+[0-9]$"}
    return {"properties": {"tag": {"const": tag}, "text": text}, "required": ["tag", "text"]}


def an_object(**keywords: Any) -> Constraint:
    return json_schema({"type": "object", **keywords})


CASES = {
    "optional keys": an_object(properties={"a": {"type": "integer"}, "b": PAIRS}, additionalProperties=False),
    "impossible key": an_object(properties={"b": FEW, "z": {"type": "integer"}}, additionalProperties=False),
    "required key": an_object(properties={"b": PAIRS}, required=["b"], additionalProperties=False),
    "patterns of keys": an_object(
        patternProperties={"^a+$": {"type": "string", "pattern": "^a*b$"}, "b": {"type": "integer"}},
        additionalProperties=False,
        minProperties=1,
    ),
    "names of keys": an_object(
        propertyNames={"pattern": "^(a|b[cd]+)$"},
        additionalProperties={"type": "string", "pattern": "^[xy]z*$"},
        minProperties=1,
    ),
    "alternatives": an_object(oneOf=[tagged(tag) for tag in "abcd"]),
    "unique items": json_schema(
        {
            "type": "array",
            "items": {"type": "string", "pattern": "^(a|b|ab)$"},
            "uniqueItems": True,
            "minItems": 2,
        }
    ),
    "contains": json_schema(
        {
            "type": "array",
            "items": {"type": "string", "pattern": "^[ab]{1,3}$"},
            "contains": {"pattern": "^a*b$", "type": "string"},
            "maxItems": 3,
            "minContains": 2,
        }
    ),
    "tuple": json_schema({"type": "array", "prefixItems": [{"type": "integer"}, FEW], "items": False}),
    "long strings": json_schema(
        {"type": "string", "pattern": "^(?:[a-c]|x[0-9]{40}|z[0-9]{30})*$", "maxLength": 45}
    ),
    "either object": json_schema(
        {
            "anyOf": [
                {
                    "properties": {"a": {"type": "string", "pattern": "^[ab]+$"}, "b": PAIRS},
                    "required": ["a", "b"],
                },
                {
                    "properties": {"a": {"type": "string", "pattern": "^b+c$"}},
                    "required": ["a"],
                    "maxProperties": 1,
                },
            ],
            "type": "object",
        }
    ),
    "one object of two": json_schema(
        {
            "oneOf": [
                {"properties": {"a": {"type": "string", "pattern": "^a*b$"}}, "required": ["a"]},
                {
                    "properties": {"a": {"pattern": "^[ab]*$"}, "b": {"pattern": "^(x|y)+$"}},
                    "required": ["a", "b"],
                },
            ],
            "type": "object",
        }
    ),
    "conditions": an_object(
        properties={"a": {"type": "string"}},
        required=["a"],
        **{
            "if": {"properties": {"a": {"pattern": "^a+$"}}},
            "then": {"properties": {"b": {"type": "string", "pattern": "^(x|yz)*$"}}, "required": ["b"]},
            "else": {"properties": {"c": {"type": "string", "pattern": "^z+$"}}, "required": ["c"]},
        },
    ),
    "a tree": json_schema(
        {
            "$ref": "#/$defs/tree",
            "$defs": {
                "tree": {
                    "type": "object",
                    "properties": {
                        "leaf": {"type": "string", "pattern": "^[a-c]+x$"},
                        "next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
                    },
                    "required": ["leaf", "next"],
                    "additionalProperties": False,
                }
            },
        }
    ),
    "what nothing evaluated": an_object(
        anyOf=[{"properties": {"a": {"pattern": "^a+$"}}}, {"properties": {"b": PAIRS}}],
        unevaluatedProperties=False,
    ),
    "lexemes": lark(CONTENDED, lexer="longest"),
    "lexemes by their context": lark(
        'start: (IF NAME | NUM WORD | "(" start ")")+\nIF: "if"\nNAME: /[a-z]+(foo)?[0-9]{1,3}/\n'
        'WORD: /[a-y]+[0-9]?/\nNUM: /[0-9]+([.][0-9]{1,4})?/\n%ignore " "',
        lexer="longest",
        contextual=True,
    ),
    "a schema in a grammar": lark(
        'start: (IF | held)+\nIF: "if"\nheld: %json {"properties": {"a": {"pattern": "^[a-c]+x$"}}}\n%ignore " "',
        lexer="longest",
    ),
    "lexemes within a pattern": lark('start: (T | "ab")+\nT: /a(b|c(d|ex)*)*y/\n%ignore " "', lexer="longest")
    & regex("[^c]*"),
    "rules within a pattern": gbnf('root ::= "a" root "b" | [c-e]+ [0-9]?') & regex("a{2,5}(c|de*)*[0-9]?b+"),
    "patterns": regex("(a|b)*abb(c{2,5}|d)+") & regex("(a*b+)+c*d?c*"),
}
SWEEPS = [
    ("automaton_states", range(1, 130, 3)),
    ("regex_nodes", range(300, 3000, 150)),
    ("mask_steps", range(1, 40, 6)),
]


def vocabulary() -> Vocabulary:
    draw = random.Random(5)
    letters = [bytes([byte]) for byte in range(32, 127)]
    words = {bytes(draw.choices(b'ab"cx1,:{}[]0yzde if(', k=draw.randint(2, 6))) for _ in range(200)}
    words |= {b'{"', b'":"', b'","', b'"}', b"abab", b"foo1", b'"tag": "a"', b'["a', b"if(", b"/*", b"aab"}
    return Vocabulary.from_tokens([None, *letters, *sorted(words)], [0])


UNLIMITED = vocabulary()


@pytest.mark.parametrize("name", CASES)
def test_answers_after_calls_that_ended_anywhere(name: str) -> None:
    """Calls end after any number of steps, wherever the core is by then."""
    constraint = CASES[name]
    walks = [walk(constraint, seed) for seed in range(4)]
    compared = given_up = 0
    for first in range(0, 40, 2):
        fresh = UNLIMITED.with_limits(call_steps=10**9)
        program = fresh.engine.compile(constraint.lower())
        for attempt in range(24):
            with _core.CallLimits(steps=int((first + 1) * 1.4**attempt)):
                found, met = compare(program, walks[attempt % 4])
            compared, given_up = compared + (found if given_up else 0), given_up + met
    assert given_up > 100 and compared > 100


@pytest.mark.parametrize("name", CASES)
def test_answers_after_a_limit_are_those_without(name: str) -> None:
    constraint = CASES[name]
    walks = [walk(constraint, seed) for seed in range(4)]
    compared = 0
    for limit, values in SWEEPS:
        for value in values:
            limited, met = UNLIMITED.with_limits(**{limit: value}), 0
            programs: list[Any] = []
            for attempt in range(8):
                try:
                    if attempt % 2 == 0 or not programs:
                        programs.append(limited.engine.compile(constraint.lower()))
                        assert programs[-1].empty_parts() is None
                except _core.LimitError:
                    met += 1
                    continue
                for steps in walks[attempt % 2 :: 2]:
                    found, given_up = compare(programs[-1], steps)
                    compared, met = compared + (found if met else 0), met + given_up
    assert compared > 20  # after one was met


def walk(constraint: Constraint, seed: int) -> list[tuple[set[int], bool, int | None]]:
    """Masks on the way of a text, whether it may end there, and the token that was taken."""
    draw = random.Random(seed)
    matcher, steps = Matcher(constraint, UNLIMITED), []
    for _ in range(12):
        mask = allowed(matcher.mask())
        tokens = sorted(mask - {0})
        taken = draw.choice(tokens) if tokens else None
        if taken is not None and seed % 2:
            few = draw.sample(tokens, min(4, len(tokens)))
            taken = max(few, key=lambda token: len(UNLIMITED.token_bytes(token)))
        steps.append((mask, matcher.is_complete(), taken))
        if taken is None:
            break
        assert matcher.advance(taken)
    return steps


def compare(program: Any, steps: list[tuple[set[int], bool, int | None]]) -> tuple[int, int]:
    """How many answers were compared, and how many were given up."""
    met = compared = 0
    try:
        matcher = _core.Matcher(program)
    except _core.LimitError:
        return 0, 1
    for mask, is_complete, taken in steps:
        for _ in range(2):
            try:
                assert allowed(matcher.mask()) == mask
                assert matcher.is_complete() == is_complete
                compared += 1
                break
            except _core.LimitError:
                met += 1
        if taken is None:
            break
        try:
            assert matcher.advance(taken)
        except _core.LimitError:
            return compared, met + 1
    return compared, met
