"""Inputs from small grammars of the notations: correct in form, absurd in content.

Mutation stays near what people wrote. It hardly reaches deep nesting, empty parts, rules that only call themselves, or
formulas that repeat one operator.

Invariant: the same generator gives the same text; a rule that is expanded too often gives its first, short alternative.
"""

# ruff: noqa: E501  (tables of words and small texts)
from __future__ import annotations

import json
import random
import re
from typing import Any

from bench.shared_structure import GRAMMARS, LEAVES, STEPS

from .tags import written_tag

__all__ = ["written"]

_HOLE = re.compile(r"<(\w+)>")

# A rule is a list of alternatives; <name> stands for another rule. The first alternative of each ends.
_RULES: dict[str, dict[str, list[str]]] = {
    "regex": {
        "start": ["<alt>", "(?<flag>)<alt>", "^<alt>$", "<alt><alt>"],
        "alt": ["<seq>", "<seq>|<alt>", "|<seq>", "<seq>|"],
        "seq": ["<piece>", "<piece><seq>", "<piece><seq><seq>"],
        "piece": ["<atom>", "<atom><many>", "<atom><many>"],
        "atom": ["a", "b", ".", "<set>", "[<not><members>]", "(<alt>)", "(?:<alt>)", "<look>", "<anchor>", "é", r"\.", "😀", "\\n"],
        "look": ["(?=a)", "(?=<alt>)", "(?!<alt>)", "(?<=a)", "(?<!<atom>)", "(?<flag>:<alt>)", "(?P<name><alt>)", "(?<flag>-<flag>:<seq>)"],
        "name": ["<open>n<close>"],
        "open": ["<lt>"],
        "lt": ["\x01"],
        "close": ["\x02"],
        "many": ["*", "+", "?", "{2}", "{1,3}", "{0}", "{,2}", "{3,}", "{0,<number>}", "<many>?", "{<number>}"],
        "number": ["3", "40", "300", "1000", "5000", "100000"],
        "set": [r"\d", r"\D", r"\w", r"\W", r"\s", r"\S"],
        "not": ["", "^"],
        "members": ["a", "a-z", "<set>", "<members><members>", "]", "\\]", "\\-", "0-9", "é-ü", "\\x00-\\U0010ffff", "^", "&&"],
        "anchor": ["^", "$", r"\b", r"\B", r"\A", r"\Z"],
        "flag": ["i", "s", "m", "x", "a", "u"],
    },
    "lark": {
        "start": ["start: <alt>\n<rules>", "?start: <alt>\n%ignore <term>\n<rules>", "!start: <alt>\n%import common.<lib>\n<rules>"],
        "rules": ["a: \"a\"\nb: B\nA: /a/\nB: \"b\"\n", "<rule><rules>", "<rule><rule><rules>"],
        "rule": ["a: <alt>\n", "b: <alt>\n", "?c: <alt>\n", "A: <pattern>\n", "A.2: <pattern>\n", "B: <pattern>\n", "_T{x, y}: x <alt> y\n", "%declare D\n", "<given>", "%llguidance {\"<switch>\": <truth>}\n", "a[<options>]: <alt>\n", "b[<options>]: <pattern>\n"],
        "given": ["p::_: <alt> %if <when>\n  | \"x\" p::<value>\n"],
        "value": ["0x1", "_", "set_bit(<bit>)", "incr([0:<bit>])", "decr(_)", "bit_and(5)"],
        "when": ["true", "bit_clear(<bit>)", "lt([0:<bit>], 3)", "bit_count_ge(_, <bit>)", "not(<when>)", "and(<when>, <when>)"],
        "bit": ["0", "1", "2", "3", "64"],
        "switch": ["ignore_once", "allow_initial_skip", "no_forcing", "other"],
        "truth": ["true", "false", "1"],
        "options": ["<option>", "<option>, <options>"],
        "option": ["lazy", "capture", "capture=\"c\"", "capture=\"\"", "stop=\"x\"", "stop=\"\"", "stop=/<inner>/", "suffix=B", "suffix=b",
                   "stop_capture=\"s\"", "temperature=0.5", "temperature=0", "temperature=1e9999", "max_chars=3", "max_chars=0",
                   "max_chars=99999999999", "max_tokens=3"],
        "alt": ["<seq>", "<seq> | <alt>", "<seq> -> n\n  | <alt>", " | <seq>", "(<alt>)"],
        "seq": ["<item>", "<item> <seq>", "<item> <item>"],
        "item": ["<term>", "<name>", "<name>", "(<alt>)<many>", "[<alt>]", "<term><many>", "<name><many>", "_T{<item>, <item>}", "p::<value>", "\"\"", "%lark { start: <alt> }", "%json {\"x-guidance\": {\"whitespace_flexible\": <truth>, \"item_separator\": \"<gap>,<gap>\"}}"],
        "gap": ["", " ", " ?", "\\\\s{0,3}", "[ \\\\t]+"],
        "name": ["a", "b", "c", "start"],
        "tokens": ["97", "97-99", "0-300", "5,97", "^97", "*", "^*", "99999", "9-5"],
        "term": ["A", "B", "\x01[<tokens>]\x02", "\"x\"", "\"and\"i", "/[a-c]+/", "/<inner>/", "\"a\"..\"f\"", "D", "WS", "INT"],
        "pattern": ["\"a\"", "/<inner>/", "<pattern> | <pattern>", "<term> <pattern>", "(<pattern>)<many>", "\"a\"..\"z\"", "A", "B"],
        "inner": ["a", "a|b", "[^a]*", "(?=a)b", "a*b*", "(?!ab)[ab]+", "\\w+", ".", "(?i:x)", "$", "\\b", "a{2,3}", ""],
        "many": ["*", "+", "?", "~2", "~0..3", "~50", "~3..1", "~2..500"],
        "lib": ["INT", "WS", "ESCAPED_STRING", "NUMBER", "CNAME", "NOPE"],
    },
    "gbnf": {
        "start": ["root ::= <alt>\n<rules>"],
        "rules": ["a ::= \"a\"\nb ::= [b-d]\n", "<rule><rules>", "<rule><rule><rules>"],
        "rule": ["a ::= <alt>\n", "b ::= <alt>\n", "c ::= <alt>\n", "a ::= a <alt> | b\n", "b ::= \"\" | b b\n"],
        "alt": ["<seq>", "<seq> | <alt>", "<seq> | ", "(\n<alt>)"],
        "seq": ["<item>", "<item> <seq>", "<item> <item> <item>"],
        "tokens": ["97", "97-99", "0-300", "5,97", "^97", "*", "^*", "99999", "9-5"],
        "item": ["\"x\"", "<name>", "\x01[<tokens>]\x02", "!\x01[97]\x02", "!\x01a\x02", "<name>", "<set>", "(<alt>)", "<item><many>", "\"\"", "\"\\n\"", "\"\\u00e9\"", "."],
        "name": ["a", "b", "root"],
        "set": ["[a-z]", "[^a]", "[^\"\\\\]", "[0-9]", "[\\n\\t ]", "[é-ü]", "[\\x41-\\x5A]", "[]", "[^]", "[z-a]"],
        "many": ["*", "+", "?", "{2}", "{2,3}", "{0,}", "{,4}", "{0,0}", "{300}", "{1000,5000}", "**"],
    },
    "ltl": {
        "start": ["<f>", "<f> & <f>", "G (<f>)", "!(<f>)"],
        "f": ["<atom>", "<un> <f>", "<un> <f>", "(<f>) <bin> (<f>)", "(<f>) <bin> (<f>)", "<f> <bin> <f>"],
        "un": ["!", "X", "N", "F", "G", "G F", "F G", "X X X", "~", "[]", "<eventually>"],
        "eventually": ["\x01\x02"],
        "bin": ["&", "|", "->", "<iff>", "U", "W", "R", "M", "xor", "&&", "=>"],
        "iff": ["\x01-\x02"],
        "atom": ["a", "b", "c", "d", "true", "false", "last", "'x y'", "e", "f"],
    },
}  # fmt: skip
_RULES["ebnf"] = _RULES["gbnf"] | {
    "item": [*(item for item in _RULES["gbnf"]["item"] if "\x01" not in item), "<macro>"],
    "token": ["97", "98", "300", '"a"', '"ab"', "99999"],
    "macro": [
        "Token(<token>)",
        "Token(<token>, <token>)",
        "ExcludeToken()",
        "ExcludeToken(<token>, <token>)",
        "TokenTagDispatch((<token>, <name>))",
        "TokenTagDispatch((<token>, <name>), excludes=(<token>,))",
        "TokenTagDispatch((<token>, <name>), (<token>, <name>), loop_after_dispatch=false)",
    ],
}
_DEEP = {
    "regex": ("(", "a", ")"), "lark": ("(", '"a"', ")"), "gbnf": ("(", '"a"', ")"), "ebnf": ("(", '"a"', ")"),
    "ltl": ("X (", "a", ")"), "schema": ('{"items": ', "{}", "}"),
    "tags": ('{"type": "optional", "content": ', '{"type": "const_string", "value": "x"}', "}"),
}  # fmt: skip
_AROUND = {"lark": "start: {}", "gbnf": "root ::= {}", "ebnf": "root ::= {}", "tags": '{{"format": {}}}'}
_DEEPER = (10, 100, 400, 1_000, 3_000)


def written(target: str, rng: random.Random) -> str:
    """Return a new input of a target. Targets core and served have no inputs of their own: theirs are made of the others'."""
    if rng.random() < 0.03:
        opening, middle, closing = _DEEP[target]
        depth = rng.choice(_DEEPER)
        return _AROUND.get(target, "{}").format(opening * depth + middle + closing * depth)
    if rng.random() < 0.04 and (shared := _shared(target, rng)):
        return shared
    if target == "schema":
        return json.dumps(_schema(rng, rng.randint(0, 4), {"a", "b"}))
    if target == "tags":
        return written_tag(rng, lambda: _schema(rng, rng.randint(0, 3), {"a", "b"}))
    text = "<start>"
    rules, most = _RULES[target], rng.choice((20, 60, 200))
    for expanded in range(4_000):
        hole = _HOLE.search(text)
        if hole is None or len(text) > 20_000:
            break
        alternatives = rules[hole[1]]
        chosen = alternatives[0] if expanded > most else rng.choice(alternatives)
        text = text[: hole.start()] + chosen + text[hole.end() :]
    return text.replace("\x01", "<").replace("\x02", ">")


def _shared(target: str, rng: random.Random) -> str | None:
    """An input whose levels use the next one twice, each in a way of its own; None: the notation has no references."""
    n = rng.choice((5, 30, 60, 200, 500))
    if target == "schema":
        steps = rng.sample(sorted(STEPS), rng.randint(1, 3))
        levels: dict[str, Any] = {
            f"d{i}": STEPS[rng.choice(steps)]({"$ref": f"#/$defs/d{i + 1}"}, i) for i in range(n)
        }
        levels[f"d{n}"] = LEAVES[rng.choice(sorted(LEAVES))]
        root = {"$ref": "#/$defs/d0"}
        name = rng.choice(("additionalProperties", "items", "propertyNames", "contains", "allOf"))
        return json.dumps({name: [root] if name == "allOf" else root, "$defs": levels})
    known = [text for notation, text in GRAMMARS.values() if notation == target]
    return rng.choice(known)(n) if known else None


_NAMES = ("a", "b", "ab", "", "é", "x y", "\x00", "__proto__", "a~1b", "\U0001f600")
_PATTERNS = ("^a", "b$", "^[a-c]*$", "^.{1,2}$", "[0-9]", "^(a|bc)*$", "^(?!ab).*$", r"^\S+$", "(a+)+$", "", r"\p{L}", "a{1,500}",
             r"^\d{3}-\d{4}$", "[", r"\1")  # fmt: skip
_FORMATS = ("date", "time", "date-time", "duration", "uuid", "ipv4", "ipv6", "email", "uri", "uri-reference", "hostname", "regex",
            "json-pointer", "idn-email", "iri", "nope")  # fmt: skip
_NUMBERS = (0, 1, 2, 3, -1, 0.5, 1.5, 7, 100, 1e3, 1e300, 10**40, -0.0, 1e-9, 2**53, 300)


def _schema(rng: random.Random, depth: int, known: set[str]) -> Any:
    """A schema of any keywords; what they hold is mostly of the right kind."""
    if rng.random() < 0.08:
        return rng.random() < 0.7
    if rng.random() < 0.03:
        return _value(rng, 1)
    schema: dict[str, Any] = {}
    inner = depth - 1

    def sub() -> Any:
        return _schema(rng, inner, known) if inner >= 0 else {}

    def named() -> dict[str, Any]:
        return {rng.choice(_NAMES): sub() for _ in range(rng.randint(0, 3))}

    for _ in range(rng.randint(0, 5)):
        match rng.randrange(16):
            case 0 | 1:
                kinds = ["null", "boolean", "object", "array", "number", "integer", "string"]
                schema["type"] = (
                    rng.choice(kinds) if rng.random() < 0.7 else rng.sample(kinds, rng.randint(1, 3))
                )
            case 2:
                schema["enum"] = [_value(rng, 2) for _ in range(rng.randint(1, 4))]
            case 3:
                schema["const"] = _value(rng, 2)
            case 4:
                name = rng.choice(
                    ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
                )
                schema[name] = rng.choice(_NUMBERS)
            case 5:
                name = rng.choice(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
                                   "minContains", "maxContains"))  # fmt: skip
                schema[name] = rng.choice((0, 1, 2, 3, 5, 40, 1000, 10**9))
            case 6:
                schema["pattern"] = rng.choice(_PATTERNS)
            case 7:
                schema["format"] = rng.choice(_FORMATS)
            case 8 | 9:
                schema[rng.choice(("properties", "properties", "dependentSchemas", "$defs"))] = named()
                schema.setdefault("required", rng.sample(_NAMES, rng.randint(0, 2)))
            case 10:
                schema["patternProperties"] = {rng.choice(_PATTERNS): sub() for _ in range(rng.randint(0, 2))}
            case 11:
                name = rng.choice(("additionalProperties", "propertyNames", "items", "contains", "not", "if", "then", "else",
                                   "unevaluatedItems", "unevaluatedProperties"))  # fmt: skip
                schema[name] = sub()
            case 12 | 13:
                schema[rng.choice(("allOf", "anyOf", "oneOf", "prefixItems"))] = [
                    sub() for _ in range(rng.randint(1, 4))
                ]
            case 14:
                schema["$ref"] = rng.choice(
                    ("#", "#/$defs/a", "#/$defs/b", "#a", "#/properties/a", "#/allOf/0", "#/nope")
                )
                schema.setdefault("$defs", {name: sub() for name in sorted(known)})
            case _:
                schema["uniqueItems"] = rng.random() < 0.8
    return schema


def _value(rng: random.Random, depth: int) -> Any:
    match rng.randrange(8 if depth else 6):
        case 0:
            return None
        case 1:
            return rng.random() < 0.5
        case 2 | 3:
            return rng.choice(_NUMBERS)
        case 4 | 5:
            return rng.choice((*_NAMES, "\ud800", '"', "\\", "\n", "a" * 300))
        case 6:
            return [_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
        case _:
            return {rng.choice(_NAMES): _value(rng, depth - 1) for _ in range(rng.randint(0, 3))}
