"""White space as a JSON writer makes it: the language is exactly the writer's texts of valid values.

The writer is Python's `json.dumps` with every offered combination of `indent` and `separators`. The tests use random
schemas and instances, texts with one character changed, masks at all depths, completions, and sequences.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import structgen as sg
from structgen.constraints.json_schema import Whitespace, json_schema
from structgen.errors import LimitExceeded
from structgen.matcher import Matcher
from tests.core.masks.mask_checks import check_mask, walk
from tests.core.small_vocabulary import byte_vocabulary, json_vocabulary, renewed, spell
from tests.oracles.json_spelling import SUPPORTED, accepts, expected, laid_out, matcher_of
from tests.oracles.json_validator import SchemaError
from tests.strategies.json_instances import instances
from tests.strategies.json_schemas import schemas
from tests.strategies.json_texts import Variations, texts

RELAXED = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
INDENTS: list[int | str | None] = [None, 0, 1, 2, 4, "\t", " \t"]
SEPARATORS = [None, (",", ":"), (", ", ": "), (",", ": "), (" , ", " : "), ("  ,", ":   ")]
VALUES: list[Any] = [
    1,
    "a, b: [c]",
    [],
    {},
    [[]],
    [{}, [], 0],
    {"a": [1, {"b": []}, [2, [3]]], "c": {}, "d": 'x"'},
    {"a": {"b": {"c": [True]}}},
]
TREE = {
    "type": ["object", "array", "integer"],
    "items": {"$ref": "#"},
    "additionalProperties": {"$ref": "#"},
    "maxItems": 2,
    "maxProperties": 2,
    "minimum": 0,
    "maximum": 9,
}


@st.composite
def policies(draw: st.DrawFn) -> Whitespace:
    return Whitespace.written(draw(st.sampled_from(INDENTS)), draw(st.sampled_from(SEPARATORS)))


@pytest.mark.parametrize("separators", SEPARATORS, ids=str)
@pytest.mark.parametrize("indent", INDENTS, ids=repr)
def test_the_texts_of_json_dumps_and_no_others(indent: Any, separators: Any) -> None:
    policy = Whitespace.written(indent, separators)
    matcher = Matcher(json_schema(True, whitespace=policy), byte_vocabulary())
    for value in VALUES:
        text = json.dumps(value, indent=indent, separators=separators)
        assert accepts(matcher, text)
        assert laid_out(text, policy) == text  # the oracle of the tests below
        for at in range(len(text) + 1):
            for other in (text[:at] + text[at + 1 :], *(text[:at] + byte + text[at:] for byte in " \n\t\r")):
                try:
                    rewritten = json.dumps(json.loads(other), indent=indent, separators=separators)
                except ValueError:
                    rewritten = None
                assert accepts(matcher, other) == (other == rewritten)


@settings(max_examples=300, suppress_health_check=RELAXED)
@given(st.data(), schemas(SUPPORTED), policies())
def test_verdicts(data: st.DataObject, schema: Any, policy: Whitespace) -> None:
    """Valid or not, keys in any order, numbers spelled in any way."""
    text = data.draw(instances(schema).flatmap(lambda value: texts(value, Variations(whitespace=False))))
    written = laid_out(text, policy)
    matcher = matcher_of(schema, byte_vocabulary(), whitespace=policy)
    source = data.draw(st.randoms(use_true_random=False))
    at = source.randrange(len(written) + 1)
    changed = written[:at] + source.choice(" \n\t,]}") + written[at + source.randrange(2) :]
    for candidate in (written, text, changed):
        try:
            wanted = expected(schema, candidate, policy)
        except SchemaError:
            assume(False)
        except ValueError:  # no JSON at all
            wanted = False
        assert accepts(matcher, candidate) == wanted


# ------------------------------------------------------------------ masks


@settings(max_examples=80, suppress_health_check=RELAXED)
@given(schemas(SUPPORTED), policies(), st.randoms(use_true_random=False))
def test_masks(schema: Any, policy: Whitespace, source: random.Random) -> None:
    matcher = matcher_of(schema, json_vocabulary(more=100), whitespace=policy)
    if matcher is not None:
        for _ in walk(matcher, 8, source):
            check_mask(matcher)


@pytest.mark.parametrize("indent", [1, 2, 4])
def test_one_schema_at_all_depths(indent: int) -> None:
    """The same frames at other depths: the masks that are remembered must not be mixed up."""
    vocabulary = renewed(json_vocabulary(more=300, seed=2))
    source = random.Random(1)
    matcher = Matcher(json_schema(TREE, whitespace=Whitespace.indented(indent)), vocabulary)
    seen = []
    for value in ([[[1, 2]], 3], [1, [2, {"a": [3], "ab": {}}]], {"a": {"a": [{"b": 1}]}}, [[[[[[1]]]]]]):
        ids = spell(vocabulary, json.dumps(value, indent=indent).encode(), source)
        matcher.reset()
        for token in ids:
            check_mask(matcher, source.sample(range(vocabulary.size), 60) + [token])
            seen.append((matcher.tokens, matcher.mask().copy()))
            assert matcher.advance(token)
        assert matcher.is_complete()
    fresh = Matcher(matcher.constraint, renewed(vocabulary))
    for tokens, mask in source.sample(seen, len(seen)):
        fresh.reset()
        assert all(map(fresh.advance, tokens))
        assert (fresh.mask() == mask).all()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "uniqueItems": True, "items": {"type": "array", "items": {"enum": [1, 2]}}},
        {"type": "array", "uniqueItems": True, "items": {"enum": [[1], [2], {"a": 1}, {"a": [1]}, 1]}},
        {"type": "array", "uniqueItems": True, "items": {"additionalProperties": {"enum": ["a", "b"]}}},
        {"type": "array", "contains": {"type": "array", "contains": {"const": 1}}, "maxItems": 3},
    ],
    ids=range(4),
)
def test_what_a_line_feed_settles(schema: Any) -> None:
    """After an item a line feed ends the array: it may come only where the array may end."""
    source = random.Random(4)
    matcher = Matcher(json_schema(schema, whitespace="indented"), json_vocabulary(more=200, seed=5))
    for _ in range(6):
        matcher.reset()
        for _ in walk(matcher, 14, source):
            check_mask(matcher, source.sample(range(matcher.vocabulary.size), 80))
            rest = matcher.witness_text()
            assert rest is not None
            assert expected(schema, (matcher.text + rest).decode(), "indented")


# ------------------------------------------------------------------ inside other constraints


def test_inside_sequences_and_unions_lines_begin_at_the_margin() -> None:
    value = {"a": [1, {"b": 2}]}
    body = json_schema(True, whitespace="indented")
    text = json.dumps(value, indent=2)
    for constraint, before, after in (
        ("<" + body + ">", "<", ">"),
        ("<" + ("(" + body + ")") + ">", "<(", ")>"),
        (sg.choice(["no"]) | body, "", ""),
        (("a: " + body + "\n") + ("b: " + body), f"a: {text}\nb: ", ""),
    ):
        matcher = Matcher(constraint, byte_vocabulary())
        assert accepts(matcher, before + text + after)
        assert not accepts(matcher, before + text.replace("\n  ", "\n ") + after)
        assert not accepts(matcher, before + text.replace("\n", "\n ") + after)


@pytest.mark.slow
def test_containers_beyond_the_counted_depth_are_not_offered() -> None:
    """In a process of its own: the states of a text of 25 MB take 6 GB."""
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    program = f"from {__name__} import check_deepest_containers; check_deepest_containers()"
    run = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def check_deepest_containers() -> None:
    vocabulary = renewed(byte_vocabulary(), max_depth=5_000, call_steps=10**9)  # it is a text of 25 MB
    indent = 16
    matcher = Matcher(
        json_schema({"items": {"$ref": "#"}}, whitespace=Whitespace.indented(indent)), vocabulary
    )
    lines = ["\n" + " " * (indent * level) for level in range(1_600)]
    started = "".join("[" + line for line in lines[1:])
    deepest = started[: matcher.viable_bytes(started)].count("[")
    assert 1_000 < deepest < 1_599
    opened = "".join("[" + line for line in lines[1:deepest])
    assert accepts(matcher, opened + "[]" + "".join(line + "]" for line in lines[deepest - 2 :: -1]))


def test_the_bounds_of_flexible_white_space() -> None:
    matcher = Matcher(json_schema(True, whitespace=Whitespace.flexible(1, 2)), byte_vocabulary())
    assert accepts(matcher, "[ 1 ,\r\n\t 2\n]")
    assert not accepts(matcher, "[  1]")
    assert not accepts(matcher, "[\n   1]")
    none = Matcher(json_schema(True, whitespace=Whitespace.flexible(0, 0)), byte_vocabulary())
    assert accepts(none, "[\n1]") and not accepts(none, "[ 1]") and not accepts(none, "[\n 1]")


def test_long_tokens_of_white_space_on_a_small_stack() -> None:
    single = [bytes([b]) for b in range(256)]
    vocabulary = sg.Vocabulary.from_tokens([None, *single, b"\n" + b" " * 4_000], eos_ids=[0])
    outcomes: list[object] = []

    def mask() -> None:
        try:
            whitespace = Whitespace.flexible(4, 9_000)
            matcher = Matcher(json_schema({"type": "array"}, whitespace=whitespace), vocabulary)
            assert matcher.advance(1 + ord("["))
            outcomes.append(bool(matcher.mask()[257 // 32] >> (257 % 32) & 1))
        except LimitExceeded as error:
            outcomes.append(error.limit == "thread_stack")

    before = threading.stack_size(1 << 18)
    try:
        thread = threading.Thread(target=mask)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert outcomes == [True]
