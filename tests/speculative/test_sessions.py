"""Sessions of `transformers` that read ahead and step back: the same tokens in batches of any shape.

Nothing is read ahead where a memory cannot step back.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import structgen as sg
from structgen.matcher import Matcher
from structgen.models.session import start_session
from structgen.sampling import SamplingOptions, generate_tokens
from structgen.speculative.controllers import Fixed
from structgen.speculative.drafters import ForcedBytes, TokenLookup
from structgen.speculative.driver import Speculation
from structgen.speculative.recycling import TokenRecycling, TriGrams
from structgen.vocabulary import Vocabulary
from tests.models.tiny import CONFIGS, SIZE, tiny_model

DRAFTERS = (ForcedBytes(), TokenLookup(), TokenRecycling(), TriGrams())
LETTERS = [chr(97 + i % 26).encode() for i in range(SIZE - 2)]
VOCABULARY = Vocabulary.from_tokens([None, None, *LETTERS], [1], size=SIZE)


class Model:
    """A tiny model without a tokenizer."""

    context_length = 256

    def __init__(self, name: str) -> None:
        self.model = tiny_model(name)
        self.vocabulary = VOCABULARY
        self.passes: list[list[int]] = []

    def start(self, prompts: Any) -> Any:
        """See `LanguageModel.start`."""
        session = start_session(self.model, SIZE, prompts)
        inner = session.append_scored

        def counted(tokens: Any) -> Any:
            self.passes.append([len(new) for new in tokens])
            return inner(tokens)

        session.append_scored = counted  # type: ignore[method-assign]
        if hasattr(session, "append_trees"):
            inner_trees = session.append_trees

            def counted_trees(tokens: Any, trees: Any) -> Any:
                self.passes.append(
                    [len(run) + len(nodes) for run, (nodes, _) in zip(tokens, trees, strict=True)]
                )
                return inner_trees(tokens, trees)

            session.append_trees = counted_trees
        return session


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("temperature", [0, 0.7, 1.5])
@pytest.mark.parametrize("name", list(CONFIGS))
def test_batches_draw_the_same_tokens(name: str, temperature: float, branching: bool) -> None:
    model = Model(name)
    prompts = [[5, 6, 7, 5, 6, 7, 5, 6], [9, 9, 9, 9], [3, 4, 5, 6, 3, 4]]
    constraints = [sg.regex("[a-z]{5,40}"), sg.regex("(abc|abd){3,12}"), None]
    options = SamplingOptions(temperature=temperature, seed=3, max_tokens=36)

    def drawn(drafting: Any) -> list[Any]:
        matchers = [None if one is None else Matcher(one, VOCABULARY) for one in constraints]
        return generate_tokens(model, prompts, matchers, options, drafting=drafting)  # type: ignore[arg-type]

    plain = drawn(None)
    model.passes.clear()
    speculation = Speculation(DRAFTERS, controller=Fixed(5), branching=branching)
    found = drawn(speculation.start(model))
    assert [one.tokens for one in found] == [one.tokens for one in plain]
    for one, other in zip(found, plain, strict=True):
        assert one.log_weight == pytest.approx(other.log_weight, abs=1e-3)
    drafted = sum(one.drafted_tokens for one in found)
    assert (drafted > 0) == (name in ("llama", "gpt2", "falcon")) == any(max(one) > 1 for one in model.passes)
