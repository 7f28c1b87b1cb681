"""A running batch with drafts on sessions of `transformers` draws the same tokens as without."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import structgen as sg
from structgen.generation import SamplingOptions, generate_tokens
from structgen.matcher import Matcher
from structgen.speculative.controllers import Fixed
from structgen.speculative.drafters import ForcedBytes, TokenLookup
from structgen.speculative.recycling import SuffixStore, TriGrams
from structgen.speculative.speculation import Speculation
from tests.models.tiny import CONFIGS
from tests.speculative.test_batch_drafts import batch_of, row_of, run
from tests.speculative.tiny_sessions import VOCABULARY, Model

pytestmark = pytest.mark.filterwarnings("ignore::structgen.models.ModelWarning")

PROMPTS = [[5, 6, 7, 5, 6, 7, 5, 6], [9, 9, 9, 9], [3, 4, 5, 6, 3, 4], [7, 8], [9, 9, 9]]
CONSTRAINTS: list[Any] = [
    sg.regex("[a-z]{5,40}"),
    sg.regex("(abc|abd){3,12}"),
    None,
    sg.regex("(abcde|abdef|xyzab){3,12}"),
    sg.regex("(abc|abd){3,12}"),
]


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("temperature", [0, 1.0])
@pytest.mark.parametrize("name", list(CONFIGS))
def test_a_running_batch_draws_the_same_tokens(name: str, temperature: float, branching: bool) -> None:
    model: Any = Model(name)
    speculation = Speculation(
        [ForcedBytes(), TokenLookup(), SuffixStore(), TriGrams()], controller=Fixed(5), branching=branching
    )
    options = [
        SamplingOptions(temperature=temperature, seed=row, max_tokens=30, exact_weight=row % 2 == 0)
        for row in range(len(PROMPTS))
    ]

    def matcher(constraint: Any) -> Any:
        return None if constraint is None else Matcher(constraint, VOCABULARY)

    batch = batch_of(model, speculation, 1, 0.2)
    rows = []
    for number, (prompt, constraint) in enumerate(zip(PROMPTS, CONSTRAINTS, strict=True)):
        row = row_of(number, matcher(constraint), options[number], VOCABULARY)
        row.prompt = list(prompt)
        rows.append(row)
    run(batch, rows, 2, None)
    for row, prompt, constraint, chosen in zip(rows, PROMPTS, CONSTRAINTS, options, strict=True):
        (alone,) = generate_tokens(model, [prompt], [matcher(constraint)], chosen)
        assert row.tokens == alone.tokens
        if alone.log_weight is not None:
            assert row.log_weight == pytest.approx(alone.log_weight, rel=1e-4, abs=1e-3)
    assert sum(row.drafted_tokens for row in rows) > 0
