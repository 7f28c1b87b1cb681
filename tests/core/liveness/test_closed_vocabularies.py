"""Vocabularies that cannot spell every text: no mask leads where tokens cannot complete the text.

Regular constraints decide it exactly, even where a byte occurs only inside longer tokens. For schemas the bytes
that no token holds leave the alphabet.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import structgen as sg
from structgen.constraints.base import Constraint
from structgen.constraints.choice import choice
from structgen.constraints.json_schema import json_schema
from structgen.constraints.regex import regex
from structgen.errors import EmptyConstraint, UnsatisfiableSchema
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary
from tests.core.liveness.live_texts import LETTERS, RELAXED, live_texts
from tests.core.small_vocabulary import EOS, allowed, byte_vocabulary
from tests.oracles import regex_twin
from tests.oracles.json_spelling import SUPPORTED, expected, matcher_of
from tests.oracles.json_validator import SchemaError
from tests.strategies.json_schemas import schemas
from tests.strategies.patterns import patterns

CLOSED = [b"a", b"ab", b"aab", b"ba1", b"1", b"1_", b"_a", b"bb"]  # no token is just "b" or "_"


def spellable(tokens: list[bytes], longest: int) -> set[bytes]:
    """Every text of so many bytes at most that the tokens spell."""
    found, layer = {b""}, {b""}
    while layer:
        layer = {text + token for text in layer for token in tokens if len(text + token) <= longest}
        found |= layer
    return found


SPELLED = spellable(CLOSED, 7)


@settings(max_examples=80, suppress_health_check=RELAXED)
@given(patterns(looks=False))
def test_closed_vocabularies(pattern: str) -> None:
    never_stuck(regex(pattern), {text for text in SPELLED if re.fullmatch(pattern, text.decode())})


@pytest.mark.parametrize("seed", range(40))
def test_small_vocabularies(seed: int) -> None:
    """Masks are those of single steps, and lead to a text, where the vocabulary has few tokens of few bytes."""
    rng = random.Random(seed)
    tokens = sorted(
        {"".join(rng.choices("abc", k=rng.randint(1, 3))).encode() for _ in range(rng.randint(2, 6))}
    )
    vocabulary = Vocabulary.from_tokens([*tokens, None], [len(tokens)])
    for pattern in ("bac", "a+b?", "(ab|c)*", "[abc]{2,4}", "b*ac|ca"):
        try:
            matcher = Matcher(regex(pattern), vocabulary)
            matcher.mask()
        except EmptyConstraint:
            continue
        for _ in range(4):
            found = {one for one in range(len(tokens)) if int(matcher.mask()[0]) >> one & 1}
            assert found == {one for one in range(len(tokens)) if matcher.accepts([one])}, (
                tokens,
                pattern,
                matcher.text,
            )
            assert matcher.witness() is not None, (tokens, pattern, matcher.text)
            if not found or not matcher.advance(rng.choice(sorted(found))):
                break


CHOICES = st.lists(st.text(LETTERS, min_size=1, max_size=6), min_size=1, max_size=6, unique=True)


@settings(max_examples=80, suppress_health_check=RELAXED)
@given(CHOICES)
def test_choices_in_closed_vocabularies(texts: list[str]) -> None:
    never_stuck(choice(texts), {text.encode() for text in texts} & SPELLED)


def never_stuck(constraint: Constraint, texts: set[bytes]) -> None:
    """Every token of the mask has a completion in tokens, and every text that they spell is accepted."""
    vocabulary = Vocabulary.from_tokens([None, None, *CLOSED], EOS)
    try:
        matcher = Matcher(constraint, vocabulary)
    except EmptyConstraint:
        assert not texts
        return
    expression = constraint.regular()
    assert expression is not None
    reached = {b""}
    pending = [matcher]
    while pending and len(reached) < 80:
        state = pending.pop(0)
        ids = allowed(state.mask())
        assert ids
        rest = state.witness()
        assert rest is not None
        assert state.accepts([*rest, EOS[0]]) == len(rest) + 1
        assert regex_twin.accepts(expression, (state.text + vocabulary.decode(rest)).decode())
        for token in ids - set(EOS):
            after = state.fork()
            assert after.advance(token)
            if after.text not in reached:
                reached.add(after.text)
                pending.append(after)
    assert all(state.text in reached for state in pending)
    for text in texts:
        assert spells(matcher, text)


def spells(matcher: Matcher, text: bytes) -> bool:
    """Does some tokenisation of `text` pass?"""
    if not text:
        return matcher.is_complete()
    for token in allowed(matcher.mask()) - set(EOS):
        piece = matcher.vocabulary.token_bytes(token) or b""
        if text.startswith(piece):
            after = matcher.fork()
            after.advance(token)
            if spells(after, text[len(piece) :]):
                return True
    return False


MISSING = [b"b", b"c", b"u", b"-.eE", b"0123456789", b"\\", b"\n\t\r", bytes(range(0xF0, 0xF5))]


@pytest.mark.parametrize("missing", MISSING)
def test_schemas_without_some_bytes(missing: bytes) -> None:
    vocabulary = byte_vocabulary(bytes(byte for byte in range(256) if byte not in missing))

    @settings(max_examples=60, suppress_health_check=RELAXED)
    @given(schemas(SUPPORTED), st.randoms(use_true_random=False))
    def walks(schema: Any, source: random.Random) -> None:
        try:
            matcher = matcher_of(schema, vocabulary)
        except EmptyConstraint:
            return
        if matcher is None:
            return
        for _ in range(20):
            rest = matcher.witness()
            if rest is None:
                assert matcher.unproven > 0
            else:
                text = (matcher.text + vocabulary.decode(rest)).decode()
                assert not set(text.encode()) & set(missing)
                try:
                    assert expected(schema, text)
                except SchemaError:
                    assume(False)
            ids = sorted(allowed(matcher.mask()) - set(EOS))
            if not ids:
                break
            assert matcher.advance(source.choice(ids))

    walks()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"},
        {"const": "d"},
        {"enum": [True, None]},
        {"type": "array", "items": {"type": "string", "pattern": "d"}, "minItems": 1},
        {"type": "array", "items": {"type": "number"}, "minItems": 1},
        {"type": "array", "prefixItems": [{"type": "number", "format": "date"}], "minItems": 1},
    ],
)
def test_a_schema_that_cannot_be_spelled(schema: Any) -> None:
    with pytest.raises(UnsatisfiableSchema):
        Matcher(json_schema({"type": ["array", "boolean", "integer", "null", "string"], **schema}), NO_D)


NO_D = byte_vocabulary(b'"abc{}[]:,')
UNSPELLED: list[Any] = [
    {"const": [None]},
    {"type": "object", "required": ["d"]},
    {"type": "object", "properties": {"ad": {}}, "additionalProperties": False},
    {"type": "object", "properties": {"d": {}}, "additionalProperties": False, "minProperties": 1},
]


@pytest.mark.parametrize("schema", UNSPELLED)
def test_parts_that_cannot_be_spelled(schema: Any) -> None:
    try:
        matcher = Matcher(json_schema(schema, whitespace="compact"), NO_D)
    except UnsatisfiableSchema:
        return
    for text in live_texts(matcher, NO_D.decode(range(NO_D.size)), 12):
        rest = matcher.witness_text(text)
        assert rest is not None and b"d" not in rest


def test_escapes_that_cannot_be_spelled_do_not_start() -> None:
    without_digits = byte_vocabulary(bytes(byte for byte in range(256) if chr(byte) not in "0123456789"))
    matcher = Matcher(json_schema(True), without_digits)
    assert matcher.viable_bytes('"\\u') == 2
    assert matcher.viable_bytes('"\\n"') == 4
    assert matcher.witness_text(b'{"":null,') is not None
    with pytest.raises(UnsatisfiableSchema):
        Matcher(json_schema({"const": "\x01"}), without_digits)


# ------------------------------------------------------------------ JSON without some of its characters


def without(missing: str, longer: Sequence[str] = (), specials: Sequence[str] = ()) -> Vocabulary:
    """Bytes but these, and longer tokens."""
    kept = [bytes([byte]) for byte in range(256) if bytes([byte]) not in missing.encode()]
    tokens = [*kept, *(token.encode() for token in longer), None, *[None] * len(specials)]
    end = len(kept) + len(longer)
    return Vocabulary.from_tokens(
        tokens, [end], specials={name: end + 1 + i for i, name in enumerate(specials)}
    )


def walks_end_well(constraint: Constraint, vocabulary: Vocabulary) -> None:
    """No mask leads into a dead end, and what is read can be completed with tokens."""
    matcher = Matcher(constraint, vocabulary)
    for seed in range(12):
        source, walk = random.Random(seed), matcher.fork()
        for _ in range(25):
            rest = walk.witness()
            assert rest is not None, walk.text
            assert walk.accepts([*rest, *vocabulary.eos_ids]) == len(rest) + 1
            ids = [token for token in allowed(walk.mask()) if token not in vocabulary.eos_ids]
            if not ids:
                break
            assert walk.advance(source.choice(ids))


COUPLE = {
    "type": "object",
    "properties": {"a": {"type": "null"}, "b": {"type": "null"}},
    "required": ["a", "b"],
}


@pytest.mark.parametrize(
    ("missing", "schema"),
    [
        ("{", {"type": "object"}),
        ("}", {"type": "object"}),
        ("[", {"type": "array"}),
        ("]", {"type": "array", "items": {"type": "integer"}}),
        ('"', {"type": "string"}),
        ('"', {"type": "object", "required": ["a"]}),
        (":", {"type": "object", "minProperties": 1}),
        (",", COUPLE),
        (",", {"type": "array", "minItems": 2}),
        (",", {"oneOf": [COUPLE, {"type": "array", "minItems": 3}]}),
        ("[", {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]}),
        ("0123456789", {"type": "integer"}),
        ("t", {"const": True}),
        ("l", {"type": "null"}),
        ("-", {"type": "integer", "maximum": -1}),
        ("\\", {"const": '"'}),
        ("x", {"required": ["x"], "type": "object"}),
    ],
)
def test_a_schema_that_needs_a_missing_character_is_empty(missing: str, schema: Any) -> None:
    with pytest.raises((EmptyConstraint, UnsatisfiableSchema)) as caught:
        Matcher(json_schema(schema), without(missing))
    assert any(repr(character) in str(caught.value) for character in missing)


@pytest.mark.parametrize("missing", [*'{}[],:"', "{}", "[]", '{"', "\n", " ", "\\", "-", "e", "truefalsn"])
@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"anyOf": [{"type": "object"}, {"type": "array"}, {"type": "integer"}]},
        {"type": ["object", "array", "number"], "properties": {"a": {}}, "items": {"type": "object"}},
        {"oneOf": [COUPLE, {"type": "array", "minItems": 1}, {"type": "number"}]},
        {"type": ["array", "integer"], "contains": {"type": "object"}, "uniqueItems": True},
        {"not": {"type": "string"}},
    ],
)
def test_other_values_remain(missing: str, schema: Any) -> None:
    walks_end_well(json_schema(schema), without(missing))


@pytest.mark.parametrize(
    ("missing", "whitespace", "schema", "is_empty"),
    [
        (" ", "json.dumps", {"type": "object", "minProperties": 1}, True),
        (" ", "json.dumps", {"type": "object"}, False),
        (" ", "json.dumps", {"type": "array", "minItems": 1}, False),
        (" ", "json.dumps", {"type": "array", "minItems": 2}, True),
        (" ", "compact", COUPLE, False),
        ("\n", "indented", {"type": "array", "minItems": 1}, True),
        ("\n", "indented", {"type": "array"}, False),
        ("\n", "flexible", COUPLE, False),
    ],
)
def test_white_space_that_a_style_owes(missing: str, whitespace: Any, schema: Any, is_empty: bool) -> None:
    constraint = json_schema(schema, whitespace=whitespace)
    if is_empty:
        with pytest.raises((EmptyConstraint, UnsatisfiableSchema), match="no token spells"):
            Matcher(constraint, without(missing))
    else:
        walks_end_well(constraint, without(missing))


def test_structure_inside_longer_tokens() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    vocabulary = without('{":', ['{"', '":'])
    matcher = Matcher(json_schema(schema, whitespace="compact"), vocabulary)
    rest = matcher.witness()
    assert rest is not None and matcher.accepts([*rest, *vocabulary.eos_ids]) == len(rest) + 1
    assert vocabulary.decode(rest).startswith(b'{"')  # the empty object is not spelled
    with pytest.raises((EmptyConstraint, UnsatisfiableSchema), match="cannot be combined"):
        Matcher(json_schema({"const": {}}), vocabulary)
    with pytest.raises((EmptyConstraint, UnsatisfiableSchema), match="cannot be combined"):
        Matcher(json_schema({"type": "array", "items": {"const": 1}, "minItems": 1}), without("[", ["[["]))


@pytest.mark.parametrize("missing", ["{", "<", "p"])
def test_structure_of_tools_tags_and_grammars(missing: str) -> None:
    vocabulary = without(missing, specials=["<|call|>"])
    parameters = {"type": "object", "properties": {"p": {"type": "integer"}}, "required": ["p"]}
    tool = {"type": "function", "function": {"name": "map", "parameters": parameters}}
    tag = choice(["<t>"]) + json_schema(parameters) + choice(["</t>"])
    for constraint in (
        sg.tools([tool], format="hermes", tool_choice="required"),
        tag,
        sg.special("<|call|>") + tag,
        sg.repeat(tag, 1, 3),
        sg.lark('start: "<p>{" %json {"const": {"p": 1}} "}</p>"'),
        sg.gbnf('root ::= "<p>{" [0-9]+ "}</p>"'),
    ):
        with pytest.raises((EmptyConstraint, UnsatisfiableSchema)) as caught:
            Matcher(constraint, vocabulary)
        assert repr(missing) in str(caught.value)
