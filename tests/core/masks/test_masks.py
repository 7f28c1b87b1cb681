"""A mask allows a token if and only if reading the token leaves the state live.

Masks are assembled from shared parts: fragments of the vocabulary, rests after a closing quote, buckets by length,
caches by the frames read. Single steps use none of these. So the tests compare each bit of a mask with `advance`, with
`accepts` and with the bytes of its token, on tokens that are hard for these parts. A mask must also be the same however
it is reached: again, in another matcher, after a rollback, in a new engine.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from structgen.constraints.base import Constraint
from structgen.constraints.choice import choice
from structgen.constraints.json_schema import Whitespace, json_schema
from structgen.constraints.regex import regex
from structgen.errors import EmptyConstraint, StructgenError
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary
from tests.core.masks.mask_checks import check_mask, walk
from tests.core.small_vocabulary import EOS, allowed, json_vocabulary, renewed, spell
from tests.oracles.json_spelling import SUPPORTED, expected, matcher_of
from tests.oracles.json_validator import SchemaError
from tests.real_tokenizers import NAMES, tokenizer_path
from tests.shared import maskbench
from tests.strategies.json_instances import instances
from tests.strategies.json_schemas import schemas
from tests.strategies.json_texts import texts
from tests.strategies.patterns import patterns

RELAXED = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


# ------------------------------------------------------------------ every bit


@settings(max_examples=120, suppress_health_check=RELAXED)
@given(schemas(SUPPORTED), st.randoms(use_true_random=False))
def test_schemas(schema: Any, source: random.Random) -> None:
    matcher = matcher_of(schema, json_vocabulary(more=100))
    if matcher is not None:
        for _ in walk(matcher, 8, source):
            check_mask(matcher)


@settings(max_examples=120, suppress_health_check=RELAXED)
@given(st.data(), schemas(SUPPORTED), st.randoms(use_true_random=False))
def test_prefixes_of_instances(data: st.DataObject, schema: Any, source: random.Random) -> None:
    text = data.draw(instances(schema, mutate=False).flatmap(texts))
    vocabulary = json_vocabulary(more=100)
    matcher = matcher_of(schema, vocabulary)
    try:
        assume(matcher is not None and expected(schema, text))
    except SchemaError:
        assume(False)
    assert matcher is not None
    ids = spell(vocabulary, text.encode(), source)
    looked_at = {source.randrange(len(ids) + 1) for _ in range(4)} | {len(ids)}
    for place, token in enumerate([*ids, EOS[0]]):
        if place in looked_at:
            assert token in check_mask(matcher)
        assert matcher.advance(token)
    assert not allowed(matcher.mask())


HARD: list[Any] = [
    {"type": "string", "maxLength": 9},
    {"type": "string", "minLength": 4, "maxLength": 6, "pattern": "^a"},
    {"type": "string", "pattern": "^(a|bc|é)+$", "maxLength": 7},
    {"type": "string", "pattern": '^[^a]*"'},
    {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 3},
    {"enum": ["abc", "ab", "a\n", 'q"', "\\", 1, 10, 1.5, True, None, {"a": [1, "ab"]}, [], {}]},
    {"properties": {"a": {"type": "string"}, "ab": {"type": "null"}}, "required": ["ab"]},
    {
        "properties": {"a": {"maxLength": 2}, "a\n": False, 'q"': {}},
        "additionalProperties": {"type": "integer"},
    },
    {"type": "object", "propertyNames": {"maxLength": 2}, "minProperties": 2, "maxProperties": 2},
    {"patternProperties": {"^a": {"type": "number", "maximum": 12}, "b$": {"multipleOf": 5}}},
    {"oneOf": [{"type": "string", "maxLength": 4}, {"type": "string", "minLength": 3}, {"pattern": "^a"}]},
    {"not": {"properties": {"a": {"type": "string"}}}, "type": "object"},
    {"type": ["number", "string"], "exclusiveMaximum": 100.5, "multipleOf": 0.5},
    {"$defs": {"t": {"items": {"$ref": "#/$defs/t"}, "type": "array", "maxItems": 2}}, "$ref": "#/$defs/t"},
    {"type": "string", "format": "date-time"},
]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"escapes": "all"},
        {"whitespace": "compact"},
        {"whitespace": "json.dumps"},
        {"whitespace": "indented"},
        {"whitespace": Whitespace.written("\t", (" , ", ": "))},
    ],
    ids=str,
)
@pytest.mark.parametrize("schema", HARD, ids=range(len(HARD)))
def test_hard_schemas(schema: Any, options: dict[str, Any]) -> None:
    source = random.Random(5)
    vocabulary = json_vocabulary(more=300, seed=1)
    for _ in range(2):
        matcher = Matcher(json_schema(schema, **options), vocabulary)
        for _ in walk(matcher, 12, source):
            check_mask(matcher)


@pytest.mark.parametrize("character", ["\0", "\x01", "\n", "\x1f"])
@pytest.mark.parametrize("keyword", ["const", "properties"])
def test_declared_keys_with_control_characters(keyword: str, character: str) -> None:
    """They are written as escapes: the character itself must not be offered."""
    schema: dict[str, Any] = {keyword: {"a": True, character: True, "b" + character: True}}
    if keyword == "properties":
        schema["additionalProperties"] = False
    for vocabulary in (Vocabulary.of_bytes(), json_vocabulary(more=300, seed=1)):
        for seed in range(3):
            matcher = Matcher(json_schema(schema), vocabulary)
            for _ in walk(matcher, 10, random.Random(seed)):
                check_mask(matcher)


@pytest.mark.parametrize("started", ["\\", "\\u000", "a\\", "a\\u000", "aa\\", "aa\\u000"])
def test_escapes_near_the_length_limit(started: str) -> None:
    vocabulary = json_vocabulary(more=300, seed=1)
    matcher = Matcher(json_schema({"type": "string", "maxLength": 3}), vocabulary)
    assert all(map(matcher.advance, spell(vocabulary, b'"' + started.encode(), random.Random(0))))
    check_mask(matcher)


@settings(max_examples=120, suppress_health_check=RELAXED)
@given(patterns(), st.randoms(use_true_random=False))
def test_patterns(pattern: str, source: random.Random) -> None:
    try:
        matcher = Matcher(regex(pattern), json_vocabulary())
    except EmptyConstraint:
        return
    for _ in walk(matcher, 6, source):
        check_mask(matcher)


COMBINED: list[Constraint] = [
    "<" + json_schema({"type": "integer", "maximum": 12}) + ">",
    regex("a*") + json_schema({"maxLength": 2}) + regex("[ab]*"),
    json_schema({"type": "string"}) | regex('"a+') | choice(["null", "nul"]),
    json_schema({"type": "array"}) + json_schema({"type": "number"}) + json_schema({"type": "number"}),
    (regex("(ab)*") | json_schema({"enum": [1, 10, 100]})) + "0",
    regex(".*") + json_schema({"properties": {"a": {"type": "string"}}}),
    choice(["a", "ab", "abc", "1", "é", "\U0001f600a"]) & regex(".{1,2}"),
]


@pytest.mark.parametrize("constraint", COMBINED, ids=range(len(COMBINED)))
def test_combinations(constraint: Constraint) -> None:
    source = random.Random(3)
    for _ in range(4):
        matcher = Matcher(constraint, json_vocabulary(more=100))
        for _ in walk(matcher, 8, source):
            check_mask(matcher)


# ------------------------------------------------------------------ the same however it is reached


@settings(max_examples=80, suppress_health_check=RELAXED)
@given(schemas(SUPPORTED), st.randoms(use_true_random=False))
def test_masks_do_not_depend_on_the_caches(schema: Any, source: random.Random) -> None:
    vocabulary = renewed(json_vocabulary())
    first = matcher_of(schema, vocabulary)
    if first is None:
        return
    seen = []
    for _ in walk(first, 8, source):
        seen.append((first.tokens, first.mask().copy()))
    for vocabulary_again in (vocabulary, renewed(vocabulary)):
        again = Matcher(first.constraint, vocabulary_again)
        for tokens, mask in source.sample(seen, len(seen)):
            again.reset()
            assert all(map(again.advance, tokens))
            assert (again.mask() == mask).all()
            assert (again.mask() == mask).all()
    first.rollback(len(first.tokens) - len(seen[-1][0]))
    for tokens, mask in reversed(seen):
        first.rollback(len(first.tokens) - len(tokens))
        assert (first.mask() == mask).all()


@pytest.mark.parametrize("started", ["-", "1.", "1e"])
def test_numbers_at_the_root_and_inside(started: str) -> None:
    vocabulary = renewed(json_vocabulary())
    for prefix in ("", "[", '{"a":'):
        matcher = Matcher(json_schema(True), vocabulary)
        assert all(map(matcher.advance, spell(vocabulary, (prefix + started).encode(), random.Random(0))))
        check_mask(matcher)


@pytest.mark.parametrize(
    "patterns",
    [
        {"^a": {"type": "integer"}},
        {"^a": {"type": "integer"}, "b$": {"type": "string"}},
        {f"^{'a' * n}$": {"minimum": n} for n in range(1, 9)},  # too many to tell keys apart beforehand
    ],
)
def test_keys_of_several_kinds(patterns: dict[str, Any]) -> None:
    """One program, and keys that match other patterns: no mask may serve two kinds."""
    vocabulary = renewed(json_vocabulary(more=400, seed=3))
    matcher = Matcher(json_schema({"type": "object", "patternProperties": patterns}), vocabulary)
    for key in ("", "x", "a", "b", "ab", "aa", "xb", "aaa"):
        matcher.reset()
        assert all(map(matcher.advance, spell(vocabulary, b'{"' + key.encode(), random.Random(0))))
        check_mask(matcher)


# ------------------------------------------------------------------ tokenizers of real models


@pytest.fixture(scope="module", params=NAMES)
def real(request: pytest.FixtureRequest) -> Vocabulary:
    from transformers import AutoTokenizer

    folder = tokenizer_path(request.param)
    return Vocabulary.from_tokenizer(AutoTokenizer.from_pretrained(folder))


@pytest.mark.slow
def test_real_tokenizers(real: Vocabulary) -> None:
    source = random.Random(11)
    met = 0
    for record in maskbench(every=60):
        for test in record["tests"]:
            text = json.dumps(
                test["data"], ensure_ascii=False, separators=source.choice([(",", ":"), (", ", ": ")])
            )
            try:
                matcher = Matcher(json_schema(record["schema"]), real)
            except StructgenError:
                break  # refused: what is refused, and how, is tested elsewhere
            ids = real.encode(text)
            assert ids is not None
            looked_at = {source.randrange(len(ids) + 1) for _ in range(4)}
            for place, token in enumerate([*ids, real.eos_ids[0]]):
                if place in looked_at:
                    inside = sorted(allowed(matcher.mask()))
                    sample = source.sample(inside, min(40, len(inside))) + source.choices(
                        range(real.size), k=80
                    )
                    assert (token in check_mask(matcher, sample)) == matcher.accepts([token])
                    met += 1
                if not matcher.advance(token):
                    assert not test["valid"] or token not in allowed(matcher.mask())
                    break
    assert met > 100
