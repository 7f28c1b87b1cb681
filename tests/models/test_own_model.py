"""A user's own model: a class with the basic members of `LanguageModel`, whose sessions have four methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import AfterValidator

import structgen as sg
from structgen.protocols import (
    SessionCapabilities,
    capabilities_of,
    is_chat_model,
    rendered_prompt,
    token_cache_bytes,
)
from structgen.server.shared_model import SharedModel
from structgen.speculative.guarded import SpeculationWarning

VOCABULARY = sg.Vocabulary.of_bytes()


class OwnSession:
    """Rows whose next token is drawn from logits of their length and their last token."""

    def __init__(self, prompts: Sequence[Sequence[int]]) -> None:
        self.rows = [list(prompt) for prompt in prompts]

    def logits(self) -> NDArray[np.float32]:
        """See `Session.logits`."""
        seeds = [(len(row), row[-1]) for row in self.rows]
        return np.stack(
            [np.random.default_rng(seed).normal(size=VOCABULARY.size).astype(np.float32) for seed in seeds]
        )

    def append(self, tokens: Sequence[Sequence[int]]) -> None:
        """See `Session.append`."""
        for row, new in zip(self.rows, tokens, strict=True):
            row.extend(new)

    def select(self, rows: Sequence[int]) -> None:
        """See `Session.select`."""
        self.rows = [list(self.rows[row]) for row in rows]

    def rollback(self, row: int, n: int) -> None:
        """See `Session.rollback`."""
        del self.rows[row][len(self.rows[row]) - n :]


class OwnModel:
    """What a model needs at least."""

    vocabulary = VOCABULARY
    context_length = None

    def encode(self, prompt: Any) -> list[int]:
        """See `LanguageModel.encode`."""
        return list(str(prompt).encode())

    def decode(self, ids: Sequence[int]) -> str:
        """See `LanguageModel.decode`."""
        return VOCABULARY.decode(ids).decode()

    def start(self, prompts: Sequence[Sequence[int]]) -> OwnSession:
        """See `LanguageModel.start`."""
        return OwnSession(prompts)


MODEL: Any = OwnModel()
DIGITS = sg.regex("[0-9]{4}")


def test_members_that_are_omitted_have_defaults() -> None:
    session: Any = MODEL.start([[1]])
    assert capabilities_of(session) == SessionCapabilities()
    assert is_chat_model(MODEL)
    assert token_cache_bytes(MODEL) == 0
    assert rendered_prompt(MODEL, "x") is None


@pytest.mark.parametrize("options", [{}, {"seed": 1}, {"n": 2}])
def test_generate(options: dict[str, Any]) -> None:
    made = sg.generate(MODEL, "x", DIGITS, **options)
    assert all(text.isdigit() for text in (made if isinstance(made, list) else [made]))


def test_drafts_are_not_used() -> None:
    with pytest.warns(SpeculationWarning, match="no drafts are used"):
        assert sg.generate(MODEL, "x", DIGITS, speculate=sg.Speculation()) == sg.generate(MODEL, "x", DIGITS)


@pytest.mark.parametrize("sampler", ["exact", "smc", "awrs", "mh"])
def test_samplers(sampler: str) -> None:
    posterior = sg.inference.sample(MODEL, "x", sg.regex("[ab]{2}"), n=2, sampler=sampler, seed=1)
    assert {str(value) for value in posterior.values} <= {"aa", "ab", "ba", "bb"}


def test_beams_classification_and_infilling() -> None:
    assert len(sg.inference.beam(MODEL, "x", sg.regex("[ab]{2}"), width=2)) == 2
    assert sg.classify(MODEL, "x", ["a", "b"]).label in ("a", "b")
    assert str(sg.infill(MODEL, "{{day}}.", day=sg.regex("[0-9]{2}"), seed=1).text)[:2].isdigit()


def test_processors() -> None:
    processed = sg.models.with_processors(MODEL, lambda tokens, logits: logits)
    assert is_chat_model(processed) and token_cache_bytes(processed) == 0
    assert sg.generate(processed, "x", DIGITS).isdigit()


def test_the_model_of_a_server() -> None:
    shared: Any = SharedModel(
        MODEL, VOCABULARY, lambda function, reads=False: function(), lambda: 2, [1, 2, 3]
    )
    assert sg.generate(shared, "x", DIGITS, describe=False).isdigit()


def test_several_attempts() -> None:
    tried: list[str] = []

    def refuse_once(answer: str) -> str:
        tried.append(answer)
        if len(tried) == 1:
            raise ValueError("try again")
        return answer

    Answer = Annotated[Literal["yes", "no"], AfterValidator(refuse_once)]
    assert sg.generate(MODEL, "x", Answer, attempts=2) in ("yes", "no")
    assert len(tried) >= 2
