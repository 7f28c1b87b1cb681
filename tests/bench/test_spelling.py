"""Rewritten texts read as their value and stay within what the options offer."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.spelling import Speller, number_spellings, read
from tests.oracles.json_spelling import has_offered_form
from tests.oracles.json_text import identity, parse
from tests.strategies.json_schemas import values
from tests.strategies.json_texts import plain_text


@given(values, st.randoms(use_true_random=False), st.sampled_from(["canonical", "all"]))
def test_rewritten_texts_read_as_their_value(value: Any, source: random.Random, escapes: str) -> None:
    text = plain_text(value)
    rewritten = Speller(source, escapes=escapes == "all").text(read(text))
    assert identity(parse(rewritten)) == identity(parse(text))
    assert has_offered_form(rewritten, escapes=escapes)


@pytest.mark.parametrize(
    "text", ["0", "-0", "1", "-120", "1e300", "1.50", "0.001", "123456789012345678901234"]
)
def test_spellings_of_numbers(text: str) -> None:
    found = number_spellings(Decimal(text))
    assert len(found) > 1 and len({Decimal(one) for one in found}) == 1
    assert all(map(has_offered_form, found))


def test_what_is_switched_off_stays() -> None:
    value = {"b": [1, 2.5, "é/"], "a": None}
    plain = Speller(random.Random(0), shuffle=False, spaces=False, numbers=False)
    assert plain.text(read('{"b":[1,2.5,"é/"],"a":null}')) == '{"b":[1,2.5,"é/"],"a":null}'
    shuffled = {Speller(random.Random(seed), spaces=False, numbers=False).text(value) for seed in range(9)}
    assert shuffled == {'{"b":[1,2.5,"é/"],"a":null}', '{"a":null,"b":[1,2.5,"é/"]}'}
    draft4 = Speller(random.Random(0), integers=False)
    assert {draft4.text(Decimal(7)) for _ in range(20)} == {"7"}
