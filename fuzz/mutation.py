"""Inputs near known ones: changed characters and words, parts of two inputs, changed members of JSON.

An input that is nearly right gets further into a front end than noise, and faults are at the boundary between right and
wrong.

Invariant: the same generator gives the same input; no input is longer than `MOST` characters.
"""

# ruff: noqa: E501  (tables of words and small texts)
from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from typing import Any

__all__ = ["MOST", "WORDS", "mutated"]

MOST = 6_000
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_CHARACTERS = "\x00\x07\n\r\t \"'\\/()[]{}<>|&!?*+-.,:;=^$#@%~_0aA9é\u0301\u2028\ud800\udfff\U0001f600\U0010ffff\ufeffß\u0130"
_NUMBERS = ("0", "1", "-1", "2", "3", "10", "255", "256", "1000", "65536", "2147483648", "99999999999999999999", "1e9",
            "1e400", "-0", "0.1", "1e-400")  # fmt: skip
WORDS: dict[str, tuple[str, ...]] = {
    "schema": (
        '"$ref": "#"', '"$ref": "#/$defs/a"', '"$dynamicRef": "#a"', '"$anchor": "a"', '"$id": "http://x/"', '"not": {}',
        '"anyOf": []', '"oneOf": [true, false]', '"unevaluatedProperties": false', '"pattern": "(a+)+$"', '"const": null',
        '"multipleOf": 1e-9', '"uniqueItems": true', '"format": "date-time"', '"maxLength": 1e3', '"propertyNames": {}',
        '"dependentSchemas": {}', '"$schema": "http://json-schema.org/draft-04/schema#"', "NaN", "Infinity", "true", "{}",
    ),
    "regex": (
        "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?P<a>", "(?P=a)", r"\1", "(?i)", "(?s:", "(?-i:", "(?a)", "(?x)", "{2,5}",
        "{,3}", "{1000}", "{1000,2000}", r"\b", r"\B", r"\A", r"\Z", r"\d", r"\W", r"\p{L}", r"\u{1F600}", r"\x4", r"\N{DASH}",
        "[^", "[[:alpha:]]", "[a-", "]", ")", "*+", "??", "(?>", "(?(1)a|b)", "$", "^", "|", r"\U00110000", "(?#",
        "++", "?+", "{1,3}+", "(?>a|ab)", "(?>a*?)", "(?:a|b)*+", "(a|b)", r"(a|b)c\1", r"\2", r"(?<n>a|b)\k<n>", "(?P<n>ab?)(?P=n)",
    ),
    "lark": (
        "%import common.WORD\n", "%ignore /\\s/\n", "%declare X\n", "%override", "%extend", "start:", "?start:", "!x:", "_x{a}:",
        "_x{_x{a}}", " -> y", "~3..5", "~1000", '"a"i', "/a/i", "/(?=a)/", "..", '"a".."z"', "A.2:", "A.-99999999999:", "[x]",
        "(x|)", "x*", "@name", "<[97]>", "<[^97]>", "<[*]>", "%json {}", "%lark { start: A }", 'p::_: "a" p::incr(_)\n', "p::0", " %if lt(_, 9)", '""',
        "%grammar_options {}\n", "%regex {}", "start[stop=/a/]:", '[capture, suffix="b"]:', "[temperature=0.5, lazy]", "[max_chars=3]", 'stop_capture="s"',
        "[max_tokens=2]", "\nstart: start\n", "\\", "//", "#", "|", "x: x x",
        '%regex {"substring_words": "a b, a c"}', '%regex {"substring_chunks": ["ab", "a", "", "b"]}',
        '%regex {"substring_chars": "abab"}',
    ),
    "gbnf": (
        "root ::= ", "root ::= root\n", "{2,3}", "{,3}", "{0,0}", "{9999}", "[^\\n]", "[\\u00e9-\\U0001F600]", "[\\x00-", "[z-a]", '"\\""',
        "<[12]>", "!<think>", "!<[97]>", "<[*]>", "( )", "(|)", "::=", "|", "#", "\\", ".", "x*+?", 'x ::= x "a" | ""\n', "x-y", "(((((((((",
    ),
    "ebnf": (
        "root ::= ", "::=", "TagDispatch(", 'Token(1, 2)', 'ExcludeToken(1)', "TokenTagDispatch((97, root))", "(=", "lookahead", "{1,3}", "/a/", "[a-z]", '""',
        "stop_eos=true", "loop_after_dispatch=false", "|", "#", "(", ")", "root ::= root | root root\n",
        'Regex("a+b?")', 'Regex("(a|b)+", flags="is", json_string=true)', "Regex(", 'Substring("ab", "a", "")', "Substring()",
        'x[lazy] ::= [a-z]+ "b"\n', "x[max_chars=3] ::= [^]*\n", '[lazy, max_chars=2, capture="x"] ::= ', '(= "a" [b-c])', "flags=",
    ),
    "ltl": ("G ", "F ", "X ", "N ", " U ", " W ", " R ", " M ", "!", " & ", " | ", " -> ", " <-> ", " xor ", "(", ")", "true",
            "false", "last", "<>", "[]", "a", "b", "'c d'", "Y a", "&&", "~", "((((((((", "!!!!!!!!", "X X X X X X "),
    "tags": (
        '"type": "json_schema"', '"style": "cohere_xml"', '"any_order": true', '"excludes": ["<a>"]', '"max_whitespace_cnt": 0',
        '"type": "tag"', '"end": ["", "a"]', '"begin": ""', '"at_least_one": true', '"stop_after_first": true', '"max_chars": 3',
    ),
    "core": (),
    "served": (),
}  # fmt: skip


def mutated(target: str, known: Sequence[str], rng: random.Random) -> str:
    """Return one of the known inputs, altered once or a few times."""
    text = rng.choice(known)
    if target in ("core", "served"):
        return _altered_case(text, known, rng)
    times = (1, 1, 1, 2, 2, 3, 5, 9) if target in ("schema", "regex", "tags") else (1, 1, 1, 1, 1, 2, 3, 6)
    for _ in range(rng.choice(times)):
        if target in ("schema", "tags") and rng.random() < 0.6:
            text = _altered_json(text, known, rng)
        else:
            rules = target in ("lark", "gbnf", "ebnf") and rng.random() < 0.4
            text = _altered_text(text, known, WORDS[target], rng, rules=rules)
    return text[:MOST]


def _altered_text(
    text: str, known: Sequence[str], words: Sequence[str], rng: random.Random, rules: bool = False
) -> str:
    """With `rules` lines are what is moved about, otherwise words or characters."""
    parts = (
        text.splitlines(keepends=True) if rules else _WORD.findall(text) if rng.random() < 0.7 else list(text)
    )
    at = rng.randrange(len(parts) + 1)
    end = min(len(parts), at + rng.choice((1, 1, 2, 5, 20)))
    match rng.randrange(9):
        case 0:
            parts[at:end] = []
        case 1:
            parts[at:at] = parts[at:end] * rng.choice((1, 1, 2, 30))
        case 2:
            parts[at:end] = [rng.choice(_CHARACTERS)]
        case 3:
            parts[at:at] = [rng.choice(_CHARACTERS)]
        case 4:
            parts[at:end] = [rng.choice(_NUMBERS)]
        case 5:
            parts[at : at + 1] = parts[end : end + 1]
        case 6 if words:
            parts[at:at] = [rng.choice(words)]
        case 7:
            other = rng.choice(known)
            start = rng.randrange(len(other) + 1)
            parts[at:end] = [other[start : start + rng.choice((5, 30, 200, 2000))]]
        case _:
            start = rng.randrange(len(parts) + 1)
            parts[at:at] = parts[start : start + 8]
    return "".join(parts)[:MOST]


def _altered_json(text: str, known: Sequence[str], rng: random.Random) -> str:
    try:
        value = json.loads(text)
        other = json.loads(rng.choice(known))
    except (ValueError, RecursionError):
        return text
    parents = list(_places(value))
    parts = [part for _, part in _places(other)]
    keeper, key = rng.choice(parents)[0] or ((None, None))
    new: Any = rng.choice(parts) if rng.random() < 0.6 else rng.choice(_VALUES)
    if keeper is None:
        value = new if rng.random() < 0.1 else {"allOf": [value, new]} if rng.random() < 0.3 else value
    elif rng.random() < 0.3:
        del keeper[key]
    elif isinstance(keeper, dict) and rng.random() < 0.5:
        if isinstance(other, dict) and other:
            name = rng.choice(list(other))
            keeper[name] = other[name]
        else:
            keeper[rng.choice(_KEYWORDS)] = new
    else:
        keeper[key] = new
    try:
        return json.dumps(value, ensure_ascii=rng.random() < 0.5)
    except (ValueError, RecursionError):
        return text


_KEYWORDS = (
    "type", "enum", "const", "properties", "required", "items", "prefixItems", "allOf", "anyOf", "oneOf", "not", "if", "then",
    "else", "$ref", "$defs", "definitions", "$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "pattern",
    "format", "minLength", "maxItems", "contains", "minContains", "uniqueItems", "multipleOf", "minimum", "patternProperties",
    "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "dependencies", "propertyNames", "nullable", "$schema",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (None, True, False, 0, 1, -1, 1.5, 10**30, "", "a", "#", "#/$defs/a", "object", "string", [], {}, [{}], [[]], {"a": {}},
           ["a", "a"], "^(a|b)*$", "integer", {"type": "string"}, {"$ref": "#"})  # fmt: skip


def _places(value: Any, at: tuple[Any, Any] | None = None) -> list[tuple[tuple[Any, Any] | None, Any]]:
    """Return each part of a value with its parent and its key there."""
    parts = [(at, value)]
    todo = [value]
    while todo and len(parts) < 2_000:
        part = todo.pop()
        inner = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
        for key, child in inner:
            parts.append(((part, key), child))
            todo.append(child)
    return parts


def _altered_case(text: str, known: Sequence[str], rng: random.Random) -> str:
    """An input of the core: another source of its kind, other seeds, other limits."""
    case = json.loads(text)
    other = json.loads(rng.choice(known))
    for _ in range(rng.choice((1, 2, 3))):
        match rng.randrange(6):
            case 0:
                case["kind"], case["source"] = other["kind"], other["source"]
            case 1:
                same = [
                    candidate["source"]
                    for candidate in (json.loads(text), other)
                    if candidate["kind"] == case["kind"]
                ]
                case["source"] = mutated(case["kind"], same, rng)
            case 2:
                case["alter"] = rng.choice((0, 0, rng.randrange(1, 10**6)))
            case 3:
                case["vocabulary"] = rng.randrange(40)
            case 4:
                case["walk"] = rng.randrange(10**6)
            case _:
                names = ("automaton_states", "regex_nodes", "mask_cache_bytes", "space_bytes", "max_depth", "earley_items",
                         "mask_steps", "max_alternatives", "listed_containers", "fragment_cache_bytes")  # fmt: skip
                case["limits"] = (
                    {rng.choice(names): rng.choice((1, 7, 100, 3_000))} if rng.random() < 0.7 else {}
                )
    return json.dumps(case)
