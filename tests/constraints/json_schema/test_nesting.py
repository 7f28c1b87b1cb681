"""A limit on open containers that every value exceeds is reported before the first token; other limits are not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import structgen as sg

BYTES = [bytes([byte]) for byte in range(256)]


def within(depth: int) -> sg.Vocabulary:
    return sg.Vocabulary.from_tokens(BYTES, eos_ids=[256], size=257).with_limits(max_depth=depth)


def deeper(inner: st.SearchStrategy[tuple[Any, int]]) -> st.SearchStrategy[tuple[Any, int]]:
    """Schemas around others, each with the least nesting of its values."""
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        inner.map(lambda part: ({"type": "array", "items": part[0], "minItems": 1}, part[1] + 1)),
        inner.map(lambda part: ({"type": "array", "items": part[0]}, 1)),
        several.map(
            lambda parts: (
                {"type": "array", "prefixItems": [part for part, _ in parts], "minItems": len(parts)},
                max(depth for _, depth in parts) + 1,
            )
        ),
        several.map(
            lambda parts: (
                {
                    "type": "object",
                    "properties": {f"k{i}": part for i, (part, _) in enumerate(parts)},
                    "required": [f"k{i}" for i in range(len(parts))],
                },
                max(depth for _, depth in parts) + 1,
            )
        ),
        several.map(lambda parts: ({"anyOf": [part for part, _ in parts]}, min(depth for _, depth in parts))),
    )


SCHEMAS = st.recursive(st.just(({"type": "integer"}, 0)), deeper, max_leaves=12)


@given(SCHEMAS)
def test_values_that_must_be_deeper_than_the_limit_are_refused(case: tuple[Any, int]) -> None:
    schema, least = case
    constraint = sg.json_schema(schema)
    if least > 1:
        with pytest.raises(sg.errors.LimitExceeded) as raised:
            sg.Matcher(constraint, within(least - 1))
        assert raised.value.limit == "max_depth"
        assert f"at least {least} deep" in raised.value.message
    matcher = sg.Matcher(constraint, within(max(least, 1)))
    assert matcher.witness() is not None


def test_recursion_that_may_end_is_not_deep() -> None:
    rest = {"anyOf": [{"$ref": "#"}, {"type": "null"}]}
    node = {"type": "object", "properties": {"next": rest}, "required": ["next"]}
    assert sg.Matcher(sg.json_schema(node), within(1)).witness() is not None
