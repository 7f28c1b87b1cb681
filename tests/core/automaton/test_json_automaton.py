"""The JSON Schema automaton accepts a text if and only if the exact validator does and its spelling is offered.

The tests use random schemas of all supported keywords, texts of instances near them in many spellings, and texts with
one byte changed. Others cover the options. The Boolean algebra of schemas is in test_schema_algebra.
"""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from structgen.constraints.json_schema import json_schema
from structgen.matcher import Matcher
from tests.core.small_vocabulary import EOS, byte_vocabulary, json_vocabulary, spell
from tests.oracles.json_spelling import SUPPORTED, accepts, expected, matcher_of
from tests.oracles.json_text import JSONTextError, parse
from tests.oracles.json_validator import SchemaError
from tests.strategies.json_instances import instances
from tests.strategies.json_schemas import names, schemas
from tests.strategies.json_texts import texts

RELAXED = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
PLAIN_BODY = SUPPORTED - {"$ref"}
BYTES = [bytes([byte]) for byte in b'"\\{}[],:019-.eE+ \t\n\rabunt/\x7f\x00\xc3\xa9\xf0']


def oracle(schema: Any, text: str, whitespace: str = "flexible", escapes: str = "canonical") -> bool:
    try:
        return expected(schema, text, whitespace, escapes)
    except SchemaError:
        assume(False)
        raise


@settings(max_examples=400, suppress_health_check=RELAXED)
@given(st.data(), schemas(SUPPORTED))
def test_verdicts_are_those_of_the_validator(data: st.DataObject, schema: Any) -> None:
    text = data.draw(instances(schema).flatmap(texts))
    matcher = matcher_of(schema, byte_vocabulary())
    assert accepts(matcher, text) == oracle(schema, text)


@settings(max_examples=150, suppress_health_check=RELAXED)
@given(st.data(), schemas(SUPPORTED))
def test_each_byte_of_an_accepted_text_may_follow(data: st.DataObject, schema: Any) -> None:
    """The same through the tokens of a sequence, where each state is kept."""
    text = data.draw(instances(schema, mutate=False).flatmap(texts))
    vocabulary = byte_vocabulary()
    matcher = matcher_of(schema, vocabulary)
    wanted = oracle(schema, text)
    if matcher is None:
        assert not wanted
        return
    ids = [byte + len(EOS) for byte in text.encode("utf-8", "surrogatepass")]
    read = all(matcher.advance(token) for token in ids)
    assert (read and matcher.is_complete()) == wanted
    assert (read and matcher.advance(EOS[0])) == wanted


@settings(max_examples=250, suppress_health_check=RELAXED)
@given(st.data(), schemas(SUPPORTED), st.randoms(use_true_random=False))
def test_texts_with_a_byte_changed(data: st.DataObject, schema: Any, source: Any) -> None:
    text = data.draw(instances(schema, mutate=False).flatmap(texts)).encode("utf-8", "surrogatepass")
    matcher = matcher_of(schema, byte_vocabulary())
    at = source.randint(0, len(text))
    for other in (
        text[:at] + text[at + 1 :],
        *(text[:at] + b + text[at + d :] for b in BYTES for d in (0, 1)),
    ):
        if accepts(matcher, other):
            assert oracle(schema, other.decode())
        else:
            try:
                changed = other.decode()
                parse(changed)
            except (UnicodeDecodeError, JSONTextError):
                continue
            assert not oracle(schema, changed)


def test_trivial_subschemas_with_unevaluated_keywords() -> None:
    schema = {"unevaluatedProperties": {"type": "string"}, "unevaluatedItems": True}
    matcher = Matcher(json_schema(schema), byte_vocabulary())
    assert [accepts(matcher, text) for text in ('{"a":""}', '{"a":1}', "[1]")] == [True, False, True]


# ------------------------------------------------------------------ options


@settings(max_examples=200, suppress_health_check=RELAXED)
@given(
    st.data(),
    schemas(SUPPORTED, depth=1),
    st.sampled_from(["flexible", "compact", "json.dumps"]),
    st.sampled_from(["canonical", "all"]),
)
def test_white_space_and_escapes(data: st.DataObject, schema: Any, whitespace: str, escapes: str) -> None:
    instance = data.draw(instances(schema))
    separators = {"json.dumps": (", ", ": "), "compact": (",", ":")}.get(whitespace, (",\n\t", " :\r\n "))
    spaced = json.dumps(instance, default=float, separators=separators, ensure_ascii=escapes == "all")
    matcher = matcher_of(schema, byte_vocabulary(), whitespace=whitespace, escapes=escapes)
    for text in (spaced, data.draw(texts(instance))):
        assert accepts(matcher, text) == oracle(schema, text, whitespace, escapes)


_MEMBERS = st.dictionaries(names, schemas(PLAIN_BODY, depth=0), min_size=2, max_size=4)
_OTHERS = schemas(PLAIN_BODY - {"properties", "required"}, depth=0)


@settings(max_examples=150, suppress_health_check=RELAXED)
@given(st.data(), _MEMBERS, _OTHERS)
def test_keys_follow_the_order_of_the_schema(
    data: st.DataObject, members: dict[str, Any], others: Any
) -> None:
    declared = list(members)
    required = data.draw(st.lists(st.sampled_from(declared), unique=True))
    schema = {"properties": members, "required": required, "allOf": [others]}
    text = data.draw(instances({**schema, "type": "object"}, mutate=False).flatmap(texts))
    value = parse(text)
    keys = value if isinstance(value, dict) else {}
    # Objects in an enum are declared in an order, too; this is about the outer one.
    assume(not any("{" in json.dumps(member, default=float) for member in keys.values()))
    listed = [others.get(keyword) for keyword in ("enum", "const")] if isinstance(others, dict) else []
    assume("{" not in json.dumps(listed, default=float))
    places = [declared.index(key) if key in declared else len(declared) for key in keys]
    matcher = matcher_of(schema, byte_vocabulary(), ordered=True)
    assert accepts(matcher, text) == (oracle(schema, text) and places == sorted(places))


_FEW = st.sampled_from([True, {"type": "integer"}, {"type": "string"}, {"const": 1}, {"minimum": 5}, False])
_SOME_OF = st.dictionaries(st.sampled_from("abc"), _FEW, max_size=3)
_NEEDED = st.lists(st.sampled_from("abc"), unique=True, max_size=2)
_BRANCH = st.fixed_dictionaries(
    {},
    optional={
        "properties": _SOME_OF,
        "required": _NEEDED,
        "additionalProperties": st.just(False),
        "minProperties": st.integers(1, 3),
        "maxProperties": st.integers(0, 2),
    },
)
_BRANCHING = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.fixed_dictionaries(dict.fromkeys("abc", _FEW))},
    optional={
        "required": _NEEDED,
        "oneOf": st.lists(_BRANCH, min_size=1, max_size=3),
        "anyOf": st.lists(_BRANCH, min_size=1, max_size=3),
        "not": _BRANCH,
        "if": _BRANCH,
        "then": _BRANCH,
        "else": _BRANCH,
        "additionalProperties": st.just(False),
    },
)


@settings(max_examples=200, suppress_health_check=RELAXED)
@given(_BRANCHING, st.booleans(), st.randoms(use_true_random=False))
def test_all_small_objects(schema: dict[str, Any], ordered: bool, source: random.Random) -> None:
    schema = {**schema, "properties": dict(sorted(schema["properties"].items()))}
    matcher = matcher_of(schema, byte_vocabulary(), ordered=ordered)
    values = (None, 1, 7, "x")
    for choice in itertools.product(values, repeat=3):
        value = {key: one for key, one in zip("abc", choice, strict=True) if one is not None}
        text = json.dumps(value)
        assert accepts(matcher, text) == oracle(schema, text), text
        if len(value) > 1:
            backwards = json.dumps(dict(reversed(value.items())))
            assert accepts(matcher, backwards) == (oracle(schema, text) and not ordered), backwards
    if matcher is None:
        return
    for _ in range(30):
        ids = np.flatnonzero(np.unpackbits(matcher.mask().view(np.uint8), bitorder="little"))
        assert len(ids), matcher.text
        assert matcher.unproven or matcher.witness() is not None, matcher.text
        matcher.advance(int(source.choice(list(ids))))
        if matcher.is_finished:
            break


def test_declared_keys_come_before_required_undeclared_keys() -> None:
    schema = {"required": ["z", "x"], "allOf": [{"properties": {"a": True}}, {"properties": {"b": True}}]}
    matcher = matcher_of(schema, byte_vocabulary(), ordered=True)
    for keys in ("abzx", "zx", "bzx", "abzxq", "zxqc"):
        assert accepts(matcher, json.dumps(dict.fromkeys(keys, 1)))
    for keys in ("zabx", "xz", "bazx", "zxa", "qzx", "zqx"):
        assert not accepts(matcher, json.dumps(dict.fromkeys(keys, 1)))


@pytest.mark.parametrize("integers", ["any", "digits"])
def test_spellings_of_integers(integers: str) -> None:
    matcher = matcher_of({"type": "integer", "minimum": -7}, byte_vocabulary(), integers=integers)
    for text in ("7", "-7", "0", "-0", "120"):
        assert accepts(matcher, text)
    for text in ("7.0", "7e0", "1.5e1", "12.0", "0e5"):
        assert accepts(matcher, text) == (integers == "any")
    for text in ("7.5", "07", "+7", "-8", "15e-1", "7."):
        assert not accepts(matcher, text)


# ------------------------------------------------------------------ tokens


@settings(max_examples=100, suppress_health_check=RELAXED)
@given(st.data(), schemas(SUPPORTED), st.randoms(use_true_random=False))
def test_any_tokenisation_passes(data: st.DataObject, schema: Any, source: Any) -> None:
    text = data.draw(instances(schema, mutate=False).flatmap(texts))
    vocabulary = json_vocabulary(more=100)
    matcher = matcher_of(schema, vocabulary)
    assume(oracle(schema, text))
    assert matcher is not None
    for _ in range(4):
        ids = spell(vocabulary, text.encode(), source)
        assert matcher.accepts([*ids, EOS[1]]) == len(ids) + 1
