"""Samplers with drafts over sessions of `transformers`: the same draws in fewer passes."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import structgen as sg
from structgen.generation.potentials import Condition
from structgen.inference.drawing import Limits, Task, draw
from structgen.inference.samplers import Sampler
from structgen.matcher import Matcher
from structgen.speculative import Fixed, ForcedBytes, Speculation, SpeculationWarning
from structgen.speculative.defaults import sampler_drafts_of
from structgen.vocabulary import Vocabulary
from tests.models.tiny import CONFIGS, SIZE
from tests.speculative.tiny_sessions import Model

pytestmark = pytest.mark.filterwarnings("ignore::structgen.models.ModelWarning")

DECLINING = {"longrope", "dynamic"}
LETTERS = [chr(97 + i).encode() for i in range(26)]
VOCABULARY = Vocabulary(
    [None, None, *LETTERS, b"\x02", *[None] * (SIZE - 29)],
    [1],
    encoder=lambda text: [28 if byte == 2 else byte - 95 for byte in text.encode()],
)
CONSTRAINT = sg.regex("(abcdef[xyz]){2,3}")


@pytest.mark.parametrize(
    "sampler",
    [
        sg.inference.LocalMasking(1),
        sg.inference.LocalMasking(3),
        sg.inference.SMC(4),
        sg.inference.AWRS(parallel=2),
        sg.inference.ASAp(2),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", list(CONFIGS))
def test_the_same_draws_in_fewer_passes(name: str, sampler: Sampler) -> None:
    model: Any = Model(name)
    model.vocabulary = VOCABULARY
    matcher = Matcher(CONSTRAINT, VOCABULARY)
    prompt = [5, 6, 7, 8]

    def drawn(speculate: Any) -> tuple[list[Any], Task]:
        task = Task(model, prompt, matcher.fork(), Condition(()), 1.0, 24, (3, 0), Limits())
        task.drafting = sampler_drafts_of(
            model, speculate, prompt, matcher, temperature=1.0, max_tokens=24, sampler="any"
        )
        return list(draw(task, 4, sampler)), task

    plain, one = drawn(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if name in DECLINING else "error", SpeculationWarning)
        found, other = drawn(Speculation([ForcedBytes()], controller=Fixed(5)))
    assert [draw.tokens for draw in found] == [draw.tokens for draw in plain]
    for mine, theirs in zip(found, plain, strict=True):
        assert mine.log_weight == pytest.approx(theirs.log_weight, abs=1e-3)
    assert (one.account.calls, one.account.attempts) == (other.account.calls, other.account.attempts)
    if name not in DECLINING:
        assert other.account.passes < one.account.passes
    else:
        assert other.account.passes == one.account.passes
