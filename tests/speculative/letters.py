"""A toy model of three letters, and what tests of misbehaving drafters generate with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structgen as sg
from structgen.generation import Generation, SamplingOptions, generate_tokens
from structgen.matcher import Matcher
from structgen.speculative import (
    Speculation,
)
from structgen.speculative.drafters import Context, Start
from structgen.vocabulary import Vocabulary
from tests.inference.toys import random_distribution
from tests.oracles.toy_model import ToyModel

LETTERS = Vocabulary.from_tokens([b"a", b"b", b"c", b"ab", None], [4])
MODEL = ToyModel(LETTERS, random_distribution(3, 5))
CONSTRAINT = sg.regex("[abc]{3,30}")


class SilentDrafter:
    """A drafter that is its own row drafter, and proposes nothing."""

    def start(self, start: Start) -> Any:
        return self

    def propose(self, context: Context) -> Any:
        return []

    def observe(self, tokens: Sequence[int], start: int) -> None:
        pass


def generate(
    speculation: Speculation | None, seed: int = 1, model: Any = MODEL, **options: Any
) -> Generation:
    """Generate a text of `CONSTRAINT`, with drafts or without."""
    matcher = Matcher(CONSTRAINT, LETTERS)
    chosen = SamplingOptions(seed=seed, max_tokens=20, **options)
    drafting = None if speculation is None else speculation.start(model)
    return generate_tokens(model, [[0, 1, 2]], [matcher], chosen, drafting=drafting)[0]
