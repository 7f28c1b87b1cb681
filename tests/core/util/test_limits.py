"""Untrusted patterns and schemas: bounded time and memory, a clear error, and no effect on other constraints."""

from __future__ import annotations

import json
import multiprocessing
import random
import resource
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from structgen.constraints.json_schema import json_schema
from structgen.constraints.regex import regex
from structgen.errors import LimitExceeded, SchemaInvalid, UnsatisfiableSchema
from structgen.matcher import Matcher, compile_constraint, fill_masks
from tests.core.small_vocabulary import byte_vocabulary, json_vocabulary, renewed, text_ids
from tests.oracles.json_spelling import accepts

DEEP = 100_000


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema, "minItems": 1}
    return schema


# ------------------------------------------------------------------ patterns

LOOKS = "".join(f"(?=.*{letter})" for letter in "abcdefghijkl") + ".*"
CATASTROPHIC = [
    ("(a+)+b", "a" * 3000 + "b", "a" * 3000 + "c"),
    ("(a|a)*c", "a" * 3000 + "c", "a" * 3000 + "b"),
    ("(.*a){30}", "ba" * 30, "ba" * 29),
    ("((a{0,100}){0,100}){0,100}", "a" * 2000, "a" * 2000 + "b"),
    ("(a?){1000}a{1000}", "a" * 1500, "a" * 999),
    (".*a.{20}", "b" * 100 + "a" + "b" * 20, "a" * 20),
    ("((a|b){1000}){1000}", None, "ab" * 500),
    (LOOKS, "lkjihgfedcba", "abcdefghijk"),
    ("(?!.*ab)(?!.*bc)(?!.*cd)(?!.*de)[a-e]*", "aceacebd", "acde"),
    ("|".join(str(number * 7919) for number in range(20_000)), str(7919 * 19_999), "7920"),
]


@pytest.mark.parametrize(("pattern", "inside", "outside"), CATASTROPHIC, ids=range(len(CATASTROPHIC)))
def test_catastrophic_patterns(pattern: str, inside: str | None, outside: str) -> None:
    matcher = Matcher(regex(pattern), json_vocabulary())
    matcher.mask()
    assert inside is None or accepts(matcher, inside)
    assert not accepts(matcher, outside)


@pytest.mark.parametrize("pattern", ["(" * DEEP + "a" + ")" * DEEP, "(a" * 5_000 + ")*" * 5_000, "(?=" * 500])
def test_deep_patterns(pattern: str) -> None:
    with pytest.raises(LimitExceeded, match="nested more than"):
        regex(pattern)


# ------------------------------------------------------------------ schemas


@pytest.mark.parametrize(
    "schema", [lambda: '{"items":' * DEEP + "{}" + "}" * DEEP, lambda: nested(DEEP)], ids=["text", "object"]
)
def test_deep_schemas(schema: Callable[[], Any]) -> None:
    with pytest.raises(LimitExceeded, match="deep"):
        json_schema(schema())


def test_schemas_as_deep_as_allowed() -> None:
    matcher = Matcher(json_schema(nested(400)), byte_vocabulary())
    assert accepts(matcher, "[" * 400 + '""' + "]" * 400) and not accepts(matcher, "[" * 399 + "]" * 399)


def test_values_deeper_than_the_limit_are_not_offered() -> None:
    schema = {"$defs": {"tree": {"items": {"$ref": "#/$defs/tree"}}}, "$ref": "#/$defs/tree"}
    matcher = Matcher(json_schema(schema), renewed(byte_vocabulary(), max_depth=50))
    assert matcher.viable_bytes(b"[" * 80) == 50
    assert accepts(matcher, b"[" * 50 + b"]" * 50)


@pytest.mark.slow
def test_a_pattern_of_ten_megabytes() -> None:
    text = json.dumps({"properties": {f"key{i}": {"type": "string", "maxLength": i} for i in range(200_000)}})
    matcher = Matcher(json_schema(text, whitespace="compact"), renewed(byte_vocabulary()))
    assert accepts(matcher, '{"key3":"abc","key199999":"abcd"}')
    assert not accepts(matcher, '{"key3":"abcd"}')


@pytest.mark.slow
def test_many_texts_in_an_enumeration() -> None:
    matcher = Matcher(json_schema({"enum": [f"value {i}" for i in range(DEEP)]}), renewed(byte_vocabulary()))
    assert accepts(matcher, '"value 99999"') and not accepts(matcher, '"value 100000"')


@pytest.mark.slow
def test_many_properties() -> None:
    properties = {f"key {i}": {"type": "integer"} for i in range(DEEP)}
    matcher = Matcher(
        json_schema({"properties": properties, "additionalProperties": False}), renewed(byte_vocabulary())
    )
    assert accepts(matcher, '{"key 99999": 1, "key 0": 2}')
    assert not accepts(matcher, '{"key 100000": 1}') and not accepts(matcher, '{"key 0": 1, "key 0": 1}')


def test_many_numbers_in_an_enumeration() -> None:
    matcher = Matcher(json_schema({"enum": list(range(100_000))}), renewed(byte_vocabulary()))
    assert accepts(matcher, "99999") and not accepts(matcher, "100000")


OWED = {"type": "object", "required": ["a"]}


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "string", "minLength": 3, "maxLength": 2}, "#"),
        ({**OWED, "properties": {"a": {"type": "integer", "exclusiveMinimum": 1, "maximum": 1}}}, "#"),
        ({"allOf": [{"type": "object"}, {"enum": [1, "a"]}]}, "#"),
        ({"$defs": {"x": {**OWED, "properties": {"a": {"$ref": "#/$defs/x"}}}}, "$ref": "#/$defs/x"}, "#"),
        ({"type": "array", "minItems": 2, "items": {"not": {}}}, "#"),
    ],
)
def test_unsatisfiable_parts_are_named(schema: Any, place: str) -> None:
    with pytest.raises(UnsatisfiableSchema) as caught:
        Matcher(json_schema(schema), byte_vocabulary())
    assert caught.value.pointer.startswith(place)
    message = str(caught.value)
    assert "contradict" in message or "rules out every value" in message or "without end" in message


# ------------------------------------------------------------------ others are not affected

EXPLODES = "(a|b)*a(a|b){60}"
SMALL = {"regex_nodes": 3_000, "automaton_states": 300}


def test_a_matcher_that_meets_a_limit_stays_as_it_was() -> None:
    vocabulary = renewed(byte_vocabulary(), **SMALL)
    good = Matcher(json_schema({"enum": ["abc", "abd"]}), vocabulary)
    before = good.mask().copy()
    bad = Matcher(regex(EXPLODES), vocabulary)
    read = met = 0
    for byte in random.Random(1).choices(b"ab", k=2_000):
        state = (bad.tokens, bad.text)
        try:
            read += bad.advance(byte + 2)
        except LimitExceeded as error:
            assert "limit" in str(error)
            met += 1
            assert (bad.tokens, bad.text) == state
            break
    assert met and read > 10
    assert (good.mask() == before).all()
    assert all(good.advance(byte + 2) for byte in b'"abc"') and good.is_complete()
    bad.rollback(len(bad.tokens))
    assert bad.text == b"" and bad.allowed_count() == 2


def test_a_row_that_fails_is_empty_and_the_others_are_filled() -> None:
    vocabulary = renewed(json_vocabulary(), **SMALL)
    good = Matcher(json_schema({"enum": ["abc", "abd"]}), vocabulary)
    wanted = good.mask().copy()
    bad = Matcher(regex(EXPLODES), vocabulary)
    ids = [token for token in text_ids(vocabulary) if vocabulary.token_bytes(token) in (b"a", b"b")]
    with pytest.raises(LimitExceeded):
        assert all(map(bad.advance, random.Random(3).choices(ids, k=1_000)))
    out = np.full((2, vocabulary.words), -1, dtype=np.int32)
    with pytest.raises(LimitExceeded):
        fill_masks([bad, good], out, 2)
    assert not out[0].any()
    assert (out[1] == wanted).all()


def test_failures_in_other_threads() -> None:
    vocabulary = renewed(byte_vocabulary(), **SMALL)
    wanted = {
        n: Matcher(json_schema({"type": "string", "maxLength": n}), byte_vocabulary()).mask()
        for n in range(9)
    }
    wrong: list[int] = []

    def good() -> None:
        for n in list(wanted) * 5:
            matcher = Matcher(json_schema({"type": "string", "maxLength": n}), vocabulary)
            if not (matcher.mask() == wanted[n]).all() or not accepts(matcher, '"' + "a" * n + '"'):
                wrong.append(n)

    def bad() -> None:
        for n in range(20):
            for make in (
                lambda n=n: regex(f"(a|b)*a(a|b){{{60 + n}}}"),
                lambda n=n: json_schema({"minLength": n, **NONE}),
            ):
                try:
                    matcher = Matcher(make(), vocabulary)
                    for byte in random.Random(2).choices(b"ab", k=500):
                        matcher.advance(byte + 2)
                except (LimitExceeded, UnsatisfiableSchema):
                    pass

    threads = [threading.Thread(target=work) for work in (good, bad, good, bad)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


NONE = {"type": "string", "pattern": "^a$", "maxLength": 0}


def test_a_failed_compilation_keeps_no_memory() -> None:
    vocabulary = renewed(byte_vocabulary())
    for schema in ({"type": "string", "minLength": 2, "maxLength": 1}, NONE, False):
        for _ in range(2):
            with pytest.raises(UnsatisfiableSchema):
                compile_constraint(json_schema(schema), vocabulary)
    with pytest.raises(SchemaInvalid):
        json_schema({"type": "strin"})
    assert accepts(Matcher(json_schema({"type": "string"}), vocabulary), '"a"')


@pytest.mark.parametrize("method", ["viable_bytes", "accepts", "explain", "witness_text"])
def test_every_method_reports_which_limit_was_met(method: str) -> None:
    matcher = Matcher(regex("(.|..|...){60}(a|b)*a(a|b){40}"), renewed(byte_vocabulary(), regex_nodes=2_000))
    text = b"ab" * 60
    argument = [byte + 2 for byte in text] if method == "accepts" else text
    with pytest.raises(LimitExceeded):
        getattr(matcher, method)(argument)


# ------------------------------------------------------------------ sizes, within a bounded memory

GIGABYTE = 1 << 30


def references() -> dict[str, Any]:
    return {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(DEEP)}


# Functions, so that only the test that needs a schema builds it: together they are 100 MB.
HUGE: list[tuple[Callable[[], Any], str, str]] = [
    (lambda: {"anyOf": [{"const": f"s{i}"} for i in range(DEEP)]}, '"s99999"', '"s100000"'),
    (lambda: {"anyOf": [{"const": i} for i in range(DEEP)]}, "99999", "100000"),
    (lambda: {"$defs": {**references(), f"d{DEEP}": {"type": "integer"}}, "$ref": "#/$defs/d0"}, "12", '"a"'),
    (lambda: {"type": "array", "uniqueItems": True, "items": {"enum": list(range(DEEP))}}, "[1,99999]", "[1,1]"),
    (lambda: {"type": "string", "pattern": "^(.|..|...|....){1000}$"}, f'"{"a" * 1000}"', f'"{"a" * 999}"'),
    (lambda: {"type": "string", "minLength": 10**9}, "", '"a"'),
    (lambda: {"type": "array", "minItems": 10**9}, "", "[1,2]"),
    (lambda: {"type": "object", "minProperties": 10**9}, "", '{"a":1}'),
    (lambda: {"type": "number", "multipleOf": 1e-300}, "1.5", "null"),
    (lambda: {"maxLength": 1e308}, '"abc"', ""),
]  # fmt: skip


def _in_bounded_memory(make: Callable[[], Any], inside: str, outside: str) -> None:
    schema = make()
    # What the tests before have mapped, models among it, is no part of this.
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + 2 * GIGABYTE, mapped + 2 * GIGABYTE))
    resource.setrlimit(resource.RLIMIT_CPU, (300, 300))
    for given in (schema, json.dumps(schema)):
        matcher = Matcher(json_schema(given), renewed(json_vocabulary()))
        matcher.mask()
        assert not inside or accepts(matcher, inside)
        assert not outside or not accepts(matcher, outside)


@pytest.mark.slow
@pytest.mark.parametrize(("schema", "inside", "outside"), HUGE, ids=range(len(HUGE)))
def test_huge_schemas(schema: Callable[[], Any], inside: str, outside: str) -> None:
    process = multiprocessing.get_context("fork").Process(
        target=_in_bounded_memory, args=(schema, inside, outside)
    )
    process.start()
    process.join()
    assert process.exitcode == 0


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ('{"const": 1e10001}', "exponent beyond 10000"),
        ('{"const": ' + "9" * DEEP + "}", "the schema's text contains an integer"),
        ('{"const": 0.' + "9" * DEEP + "}", "more than 1000 digits"),
        ({"pattern": ".{1000000000}"}, "limits=RegexLimits"),
        ({"multipleOf": 10**40 + 1}, "18 digits"),
        ({"$defs": {"a": nested(0)}, "allOf": [nested(0)] * 2, "minLength": 2**53}, "no text is that long"),
    ],
)
def test_limits_are_named(schema: Any, message: str) -> None:
    with pytest.raises(LimitExceeded) as caught:
        Matcher(json_schema(schema), byte_vocabulary())
    assert message in str(caught.value)
