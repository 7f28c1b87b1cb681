"""The strategies keep their promises: texts parse to their value, and instances are close to their schema."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.oracles.json_text import exact, identity, parse
from tests.oracles.json_validator import SchemaError, Validator
from tests.strategies.json_instances import instances
from tests.strategies.json_schemas import ALL, CORE, schemas, values
from tests.strategies.json_texts import PLAIN, Variations, plain_text, spellings, texts

RELAXED = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@given(st.data(), values)
def test_texts_read_as_their_value(data: st.DataObject, value: Any) -> None:
    text = data.draw(texts(value))
    assert identity(parse(text)) == identity(exact(value))


@given(st.data(), values)
def test_plain_texts_do_not_vary(data: st.DataObject, value: Any) -> None:
    assert data.draw(texts(value, PLAIN)) == plain_text(value)
    assert identity(parse(plain_text(value))) == identity(exact(value))
    assert " " not in data.draw(texts(1, Variations(whitespace=False)))


@pytest.mark.parametrize("plain", ["0", "-0", "1", "-120", "0.001", "-0.25", "12.5", "0.1"])
def test_spellings_are_equal(plain: str) -> None:
    assert len({Decimal(text) for text in spellings(plain)}) == 1


def keywords_in(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(keywords_in, schema))
    if not isinstance(schema, dict):
        return set()
    return set(schema).union(*map(keywords_in, schema.values()))


@settings(max_examples=50, suppress_health_check=RELAXED)
@given(schemas({"type", "minimum", "properties"}))
def test_only_the_requested_keywords(schema: Any) -> None:
    assert keywords_in(schema) & ALL <= {"type", "minimum", "properties"}


def test_unknown_keywords_are_refused() -> None:
    with pytest.raises(ValueError, match="no strategy for"):
        schemas({"minimun"})


@pytest.mark.parametrize("keywords", [CORE, ALL], ids=["core", "all"])
def test_instances_are_near_their_schema(keywords: frozenset[str]) -> None:
    verdicts: Counter[bool] = Counter()

    @settings(max_examples=300, derandomize=True, database=None, deadline=None, suppress_health_check=RELAXED)
    @given(st.data(), schemas(keywords))
    def collect(data: st.DataObject, schema: Any) -> None:
        instance = data.draw(instances(schema))
        with suppress(SchemaError):  # references that loop
            verdicts[Validator(schema).accepts(data.draw(texts(instance)))] += 1

    collect()
    assert verdicts[True] > 60 and verdicts[False] > 30
