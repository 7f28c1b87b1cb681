"""The shelf's JSON is RFC 8259."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.corpora.json_files import is_valid
from tests.grammars.reading import assert_accepted, assert_rejected, disagreements, reader

ACCEPTED = [
    "null", "true", "false", "0", "-0", "12", "0.5", "-1.25e+30", "1E5", "1e-0", '""', '"a b"', "[]", "{}",
    '"\\u00e9\\n\\\\\\/\\""', '"\\ud83d"', '"é日\U0001f600\x7f"', "[[], [[]], {}]",
    '{"a": {"a": []}, "a": 1}', "[1,2 , 3]", '\r\n\t {"a" :\n[ 1 ]\n}\n', '{"": "", "b": -1.0}',
    "[" * 100 + "]" * 100, "1" * 400, " " * 100 + "1" + "\n" * 100,
]  # fmt: skip

REJECTED = [
    "‸", " ‸", "nul‸", "n‸il", "t‸True", "0‸1", "-‸a", "1.‸", "1.‸e5", "‸.5", "‸+1", "1e‸", "0‸x1",
    "1e5‸.0", '"‸', '"a‸\n"', '"‸\x1f"', '"\\‸x"', '"\\u12‸g4"', "‸'a'", "[1,‸]", "[‸,1]", "[1 ‸2]", "[1‸",
    "[1]‸]", "{‸a: 1}", '{"a"‸}', '{"a":‸}', '{"a": 1,‸}', '{"a": 1 ‸"b": 2}', "{‸1: 2}", '{"a": tru‸}',
    "[1, 2‸", "1‸}", "1 ‸2", "‸NaN", "-‸Infinity", "[1, ‸// one\n2]", "‸\ufeff1", "‸\u00a01", "1‸\x00",
    " " * 100 + "‸ 1",
]  # fmt: skip

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text: str) -> None:
    assert is_valid(text)
    assert_accepted("json", text)


@pytest.mark.parametrize("text", REJECTED)
def test_rejected(text: str) -> None:
    assert_rejected("json", text)


@given(values, st.booleans(), st.sampled_from([None, 0, 3, "\t"]))
def test_what_python_writes(value: Any, ensure_ascii: bool, indent: int | str | None) -> None:
    text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)
    assert reader("json").accepts(text)


@pytest.mark.parametrize("seed", range(20))
def test_edited_texts_have_the_verdict_of_python(seed: int) -> None:
    assert disagreements("json", ACCEPTED[:-1], is_valid, seed=seed) == []
