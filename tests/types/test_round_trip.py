"""From type to value, through the real engine: each text drawn under a type's constraint is a value of the type.

A random model draws texts and is steered to end in time. So every kind of value occurs, and pydantic validates
each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from structgen.generation import SamplingOptions, generate_tokens
from structgen.matcher import Matcher
from structgen.types import output_type
from structgen.types.output import OutputType
from structgen.vocabulary import Vocabulary
from tests.oracles.toy_model import ToyModel

from .zoo import NAMES, ZOO, send

PIECES = [
    b'{"',
    b'":',
    b'","',
    b'"}',
    b'":"',
    b"name",
    b"true",
    b"null",
    b"20",
    b"-0",
    "é".encode(),
    b"ing ",
    b'"},{"',
]
VOCABULARY = Vocabulary.from_tokens(
    [*(bytes([byte]) for byte in range(256)), *PIECES, None], eos_ids=[256 + len(PIECES)]
)


def noisy_distribution(seed: int) -> Any:
    """Return a random distribution that makes texts end and has few control characters."""
    rng = np.random.default_rng(seed)
    base = rng.dirichlet(np.full(VOCABULARY.size, 0.3)) + 1e-6
    base[:32] *= 0.01
    base[128:256] *= 0.1
    base[[ord(c) for c in '"}],']] += 0.05
    base[-1] += 0.2

    def distribution(tokens: tuple[int, ...]) -> Any:
        shifted = np.roll(base[32:128], 7 * len(tokens))
        now = base.copy()
        now[32:128] = np.maximum(base[32:128], shifted)
        return now / now.sum()

    return distribution


def draws(kind: OutputType, rows: int = 12) -> Iterator[str]:
    """Draw random texts of the type."""
    matcher = Matcher(kind.constraint, VOCABULARY)
    options = SamplingOptions(temperature=1, seed=4, max_tokens=160, close_within_budget=True)
    model = ToyModel(VOCABULARY, noisy_distribution(len(NAMES)))
    for draw in generate_tokens(model, [[0]] * rows, [matcher.fork() for _ in range(rows)], options):
        assert draw.finish == "complete", draw
        yield draw.text


@pytest.mark.parametrize(("annotation", "good", "bad"), [*ZOO, (send, [], [])], ids=[*NAMES, "send"])
def test_drawn_texts_are_valid(annotation: Any, good: list[Any], bad: list[str]) -> None:
    kind = output_type(annotation)
    for text in draws(kind):
        kind.validate(text)
        kind.partial(text)


@pytest.mark.parametrize(("annotation", "good", "bad"), ZOO, ids=NAMES)
def test_the_constraint_accepts_exactly_the_valid_texts(
    annotation: Any, good: list[tuple[str, Any]], bad: list[str]
) -> None:
    kind = output_type(annotation)

    def accepts(text: str) -> bool:
        matcher = Matcher(kind.constraint, VOCABULARY)
        return all(matcher.advance(byte) for byte in text.encode()) and matcher.is_complete()

    for text, _ in good:
        assert accepts(as_written(text)), text
    for text in bad:
        assert not accepts(as_written(text)), text


def as_written(text: str) -> str:
    """Return JSON with the white space that the constraints of types require."""
    if not text.startswith(("{", "[")):
        return text
    try:
        return json.dumps(json.loads(text))
    except ValueError:
        return text


def test_white_space_is_that_of_json_dumps() -> None:
    matcher = Matcher(output_type(list[int]).constraint, VOCABULARY)
    assert matcher.viable_bytes("[1, 2]") == 6
    assert matcher.viable_bytes("[1,2]") == 3
    assert matcher.viable_bytes(" [1]") == 0
    assert matcher.viable_bytes("[1] ") == 3
