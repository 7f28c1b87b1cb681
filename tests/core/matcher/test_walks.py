"""Walks of `bench.walks` with a real tokenizer: random schemas and some of MaskBench, each strategy.

The walks of test_liveness use a vocabulary of a few hundred tokens. Tokens of real models cross many more states at
once, and handwritten schemas differ from random ones. Every walk must end in a text that jsonschema-rs or the exact
validator accepts, or be counted as unproven.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest

from structgen.vocabulary import Vocabulary
from tests import shared
from tests.real_tokenizers import tokenizer_path

pytest.importorskip("jsonschema_rs")

from bench.tokenizers import vocabulary_of
from bench.walks import STRATEGIES, Walker, random_schemas, token_frequencies


@functools.cache
def vocabulary() -> Vocabulary:
    return vocabulary_of(str(tokenizer_path("smollm2")))


EXAMPLES: list[dict[str, Any]] = [
    {"tests": [{"data": {"name": "a", "tags": ["b", "c"], "age": 12, "open": True, "next": None}}]}
]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_random_schemas(strategy: str) -> None:
    walker = Walker(vocabulary(), token_frequencies(vocabulary(), EXAMPLES), steps=30)
    for place, schema in enumerate(random_schemas(80, seed=7)):
        walker.walk_all(schema, f"random schema {place}", 0, [strategy])
    assert walker.faults == []
    assert walker.figures["walks without completion"] == 0
    assert walker.figures["texts finished and accepted"] > 20


def test_schemas_of_maskbench() -> None:
    listed = list(shared.maskbench(every=120))
    walker = Walker(vocabulary(), token_frequencies(vocabulary(), listed), steps=40)
    for place, record in enumerate(listed):
        strategy = STRATEGIES[place % len(STRATEGIES)]
        walker.walk_all(record["schema"], record["_file"], 0, [strategy])
    assert walker.faults == []
    assert walker.figures["walks without completion"] == 0
    assert walker.figures["texts finished and accepted"] > len(listed) * 0.9
