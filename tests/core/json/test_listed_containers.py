"""Enumerations of many objects and arrays: exact masks, nothing unproven, memory linear in their size.

The slow twin writes every listed value with its keys in every order. A byte may follow if one of these texts continues
with it.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from structgen.constraints.json_schema import json_schema
from structgen.matcher import Matcher, compile_constraint
from tests.core.small_vocabulary import byte_vocabulary, renewed

FAMILIES: dict[str, Callable[[int], Any]] = {
    "one key, its own value": lambda i: {"id": f"{i}"},
    "three keys": lambda i: {"id": f"{i}", "name": f"n{i % 17}", "kind": i % 3 == 0},
    "keys of their own": lambda i: {f"k{i}": True, "kind": f"{i % 5}"},
    "some keys missing": lambda i: {key: f"{i}" for k, key in enumerate("abc") if i >> k & 1 or k == i % 3},
    "arrays": lambda i: [f"{i % 11}", f"n{i}"],
    "arrays of many lengths": lambda i: ["0"] * (i % 7) + [f"{i}"],
    "nested": lambda i: {"a": {"id": f"{i}"}, "b": [f"{i % 4}"]},
    "mixed": lambda i: [[f"{i}"], {"id": f"{i}"}, {"k": [f"{i}"]}, f"t{i}", None][i % 5],
}
"""Without numbers, which have many spellings."""


def spellings(value: Any) -> Iterator[str]:
    """The compact texts of a value, with its keys in every order."""
    if isinstance(value, list):
        for parts in itertools.product(*(list(spellings(item)) for item in value)):
            yield f"[{','.join(parts)}]"
    elif isinstance(value, dict):
        for keys in itertools.permutations(value):
            for parts in itertools.product(*(list(spellings(value[key])) for key in keys)):
                yield "{" + ",".join(f'"{key}":{part}' for key, part in zip(keys, parts, strict=True)) + "}"
    else:
        yield json.dumps(value)


def schemas(values: list[Any]) -> Iterator[dict[str, Any]]:
    """The enumeration, in several forms that mean the same."""
    yield {"enum": values}
    yield {"anyOf": [{"const": value} for value in values]}
    yield {
        "allOf": [
            {"enum": values},
            {"type": ["object", "array", "string", "null"]},
            {"maxProperties": 9},
        ]
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_every_byte_is_that_of_a_listed_text(family: str) -> None:
    source = random.Random(family)
    values = list({json.dumps(value): value for value in map(FAMILIES[family], range(40))}.values())
    texts = [text for value in values for text in spellings(value)]
    for schema in schemas(values):
        matcher = Matcher(json_schema(schema, whitespace="compact"), byte_vocabulary())
        for text in source.sample(texts, 8):
            for end in range(len(text)):
                found, may_end = matcher.native.next_bytes(text[:end].encode())
                assert set(found) == {
                    ord(one[end]) for one in texts if one.startswith(text[:end]) and len(one) > end
                }
                assert not may_end
            assert matcher.native.next_bytes(text.encode())[1]
        assert matcher.unproven == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_many_values(family: str) -> None:
    """No budget ends a question, and the memory grows with the number of values."""
    sizes = []
    for count in (400, 1_600):
        values = [FAMILIES[family](i) for i in range(count)]
        vocabulary = renewed(byte_vocabulary())
        matcher = Matcher(json_schema({"enum": values}, whitespace="compact"), vocabulary)
        for byte in json.dumps(values[count // 2], separators=(",", ":")).encode():
            offered = matcher.mask()
            assert int(offered[byte + 2 >> 5]) >> (byte + 2 & 31) & 1
            assert matcher.advance(byte + 2)
        assert matcher.is_complete()
        assert matcher.unproven == 0
        sizes.append(compile_constraint(matcher.constraint, vocabulary).memory + vocabulary.engine.memory)
    assert sizes[1] < 8 * sizes[0]
