"""Growing views: the same as a view made anew, with closed parts made once."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from structgen.types import output_type


class Entry(BaseModel):
    name: str
    days: list[dt.date]
    inner: Entry | None = None
    more: dict[str, Any] = {}


DATES = st.lists(st.dates(), max_size=3)
ENTRIES = st.recursive(
    st.builds(Entry, name=st.text(max_size=4), days=DATES),
    lambda inner: st.builds(
        Entry,
        name=st.text(max_size=4),
        days=DATES,
        inner=inner,
        more=st.dictionaries(st.text(max_size=2), st.lists(st.integers(0, 3), max_size=2), max_size=2),
    ),
    max_leaves=3,
)


@given(entries=st.lists(ENTRIES, max_size=3), seed=st.integers(1, 7))
def test_a_growing_view_is_the_view_of_the_text(entries: list[Entry], seed: int) -> None:
    kind = output_type(list[Entry])
    text = json.dumps([entry.model_dump(mode="json") for entry in entries], ensure_ascii=False)
    growing = kind.growing()
    for end in range(0, len(text) + seed, seed):
        assert growing(text[:end]) == kind.partial(text[:end])
    assert growing(text) == entries
    assert growing(text[:5]) == kind.partial(text[:5])  # back, and on
    assert growing(text) == entries


def test_what_is_closed_is_made_once() -> None:
    growing = output_type(list[Entry]).growing()
    begun = '[{"name": "a", "days": ["2024-01-01"]}, {"name": "b'
    first = growing(begun)
    second = growing(begun + 'c"')
    assert second[0] is first[0]
    assert (first[1].name, second[1].name) == ("b", "bc")


def test_raw_values_may_be_changed_by_who_gets_them() -> None:
    growing = output_type(Any).growing()
    growing("[[1], [2]")[0].append(9)
    assert growing("[[1], [2], [3]") == [[1], [2], [3]]
