"""Partial JSON: the values that Python's parser reads, and a fault where it finds one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from structgen.constraints.json_schema.partial_json import UNKNOWN, PartialValue, parse_partial

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


def _as_python(value: PartialValue) -> Any:
    if value.kind == "{":
        return {child.path[-1]: _as_python(child) for child in value.children}
    return [_as_python(child) for child in value.children] if value.kind == "[" else value.scalar


@given(_VALUES, st.booleans())
def test_whole_texts_are_read_as_a_parser_reads_them(value: Any, is_escaped: bool) -> None:
    reading = parse_partial(json.dumps(value, ensure_ascii=is_escaped).encode())
    assert reading.fault is None
    assert _as_python(reading.root) == value


@given(_VALUES, st.data())
@example("\udc00", None)
def test_a_fault_is_one_for_a_parser(value: Any, data: st.DataObject | None) -> None:
    text = json.dumps(value)
    if data is not None:
        at = data.draw(st.integers(0, len(text)))
        other = data.draw(st.sampled_from(["", *"\"\\{}[],:' x1tu\n"]))
        text = text[:at] + other + text[at + data.draw(st.integers(0, 2)) :]
    fault = parse_partial(text.encode()).fault
    try:
        json.loads(text)
    except json.JSONDecodeError:
        # The text before the fault has no fault yet.
        assert fault is None or parse_partial(text[: fault.offset].encode()).fault is None
    else:
        assert fault is None or "surrogate pair" in fault.message


@pytest.mark.parametrize(
    "text", ["", "[", "[1", '{"a', '{"a":', "tru", '"\\', r'"\u00', r'"\ud800', r'"\ud800\ud', "-"]
)
def test_a_beginning_has_no_fault(text: str) -> None:
    assert parse_partial(text.encode()).fault is None


def test_half_a_pair_before_something_like_the_other() -> None:
    fault = parse_partial(rb'"\ud800\udc"00"').fault
    assert fault is not None and "surrogate pair" in fault.message


@pytest.mark.parametrize("text", ["03", "+1", ".5", "1.", "[1e+]"])
def test_faults_of_numbers_are_reported_elsewhere(text: str) -> None:
    reading = parse_partial(text.encode())
    assert reading.fault is None and reading.root.scalar is UNKNOWN


def test_keys_that_stand_twice() -> None:
    reading = parse_partial(b'{"a":1, "b":{"a":2}, "a":3}')
    assert [reading.repeated_key((), offset) for offset in (6, 19, 22, 23)] == [None, "a", "a", "a"]
    assert reading.repeated_key((), 24) is None
    assert reading.repeated_key(("b",), 13) is None
    assert reading.repeated_key(("c",), 13) is None
    assert parse_partial(b"[1,1]").repeated_key((), 2) is None


def test_deep_texts_are_read_to_a_depth() -> None:
    assert parse_partial(b"[" * 100_000).fault is None
