"""The order of requests that the model writes itself: records, code and free text, by their shares."""

from __future__ import annotations

import itertools
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from structgen.draft_training import requests
from structgen.draft_training.texts import Request
from structgen.errors import ModelError

BATCH = 8


class Letters:
    """A model whose user's turn has one token before the text and one after it."""

    vocabulary = SimpleNamespace(encode=list)

    def encode(self, text: str) -> list[int]:
        return [300, *text.encode(), 301]


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let prompts be random, and end with the probability that the fixture is set to."""
    chance = SimpleNamespace(value=1.0)

    def generate(model: Any, openings: list[list[int]], matchers: Any, options: list[Any]) -> list[Any]:
        rngs = [np.random.default_rng(option.seed) for option in options]
        return [
            SimpleNamespace(
                tokens=rng.integers(97, 122, size=8).tolist(),
                end_token=301 if rng.random() < chance.value else None,
            )
            for rng in rngs
        ]

    def records(model: Any, batch: int, seed: tuple[int, ...]) -> list[Request]:
        return [Request([*seed, row], "JSON") for row in range(batch)]

    monkeypatch.setattr(requests, "generate_tokens", generate)
    monkeypatch.setattr(requests, "record_requests", records)
    return chance


def kinds(count: int, **options: Any) -> list[str]:
    written = requests.written_requests(Letters(), seed=1, batch=BATCH, **options)  # type: ignore[arg-type]
    return [request.kind for request in itertools.islice(written, count)]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.2, 0.25, 0.5, 0.75, 0.9, 1.0])
def test_no_share_of_records_removes_code(share: float, ends: Any) -> None:
    found = Counter(kinds(400 * BATCH, records=share))
    assert found["JSON"] == pytest.approx(share * 400 * BATCH, abs=BATCH)
    others = found["code"] + found["free text"]
    assert found["code"] == pytest.approx(others / 4, abs=BATCH)


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
def test_the_share_holds_for_requests_where_prompts_are_lost(share: float, ends: Any) -> None:
    ends.value = 0.3
    found = kinds(300 * BATCH, records=share)
    for count in range(20 * BATCH, len(found), 100):
        assert found[:count].count("JSON") == pytest.approx(share * count, abs=BATCH)


def test_the_share_holds_for_a_collection_that_is_interrupted_often(ends: Any) -> None:
    found: list[str] = []
    while len(found) < 200 * BATCH:
        found += kinds(2 * BATCH, records=0.1, first=len(found))
    counted = Counter(found)
    assert counted["JSON"] == pytest.approx(0.1 * len(found), rel=0.2)
    assert counted["code"] == pytest.approx(0.9 / 4 * len(found), rel=0.2)


def test_records_alone_cannot_have_a_share(ends: Any) -> None:
    """Where no other prompt ends, all requests would be for records."""
    ends.value = 0.0
    with pytest.raises(ModelError, match="has written no prompt"):
        kinds(4, records=0.5)
    assert kinds(20, records=1.0) == ["JSON"] * 20
