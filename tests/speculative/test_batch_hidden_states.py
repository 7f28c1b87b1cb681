"""Hidden states in a running batch: rows that join, leave and draw late get those of their own tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.generation import SamplingOptions  # noqa: E402
from structgen.generation.continuous_batch import ContinuousBatch  # noqa: E402
from structgen.generation.prefix_cache import PrefixCache  # noqa: E402
from structgen.generation.row import Row  # noqa: E402
from structgen.models.session import start_session  # noqa: E402
from structgen.speculative import Fixed, Speculation, TokenLookup, TriGrams  # noqa: E402
from structgen.speculative.drafters import Context, Proposal, Start  # noqa: E402
from tests.models.tiny import SIZE  # noqa: E402

from .test_batch_drafts import LateThreads  # noqa: E402
from .tiny_sessions import VOCABULARY, Model  # noqa: E402


class Plain(Model):
    """The tiny model, whose sessions are not counted: a count would not follow a fork."""

    def start_with_hidden_states(self, prompts: Any, layers: Any) -> Any:
        """See `HiddenStatesModel.start_with_hidden_states`."""
        return start_session(self.model, SIZE, prompts, layers)


class Checking:
    """Proposes nothing, and compares its states with those of a plain pass."""

    hidden_layers = (0, 2)

    def __init__(self, model: Model) -> None:
        self.model, self.checked, self.longest, self.unknown = model, 0, 0, 0

    def start(self, start: Start) -> Checking:
        return self

    def propose(self, context: Context) -> list[Proposal]:
        if context.drafted:
            return []
        if context.hidden is None:
            self.unknown += 1
            return []
        read = context.tokens[: context.hidden.count]
        assert len(context.tokens) - len(read) <= 8
        with torch.inference_mode():
            output = self.model.model(input_ids=torch.tensor([read]), output_hidden_states=True)
        wanted = torch.stack([output.hidden_states[layer][0] for layer in (0, 2)], dim=1)
        np.testing.assert_allclose(context.hidden.since(0, (0, 2)), wanted, rtol=1e-3, atol=2e-4)
        self.checked += 1
        self.longest = max(self.longest, len(context.tokens) - len(read))
        return []

    def observe(self, tokens: Sequence[int], start: int) -> None:
        pass


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("late", [0.0, 0.3])
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_rows_of_a_running_batch(name: str, late: float, branching: bool) -> None:
    model = Plain(name)
    checking = Checking(model)
    speculation = Speculation((checking, TokenLookup(), TriGrams()), controller=Fixed(4), branching=branching)
    batch: Any = ContinuousBatch(
        model,
        most_rows=3,
        patience=1e6,
        prompt_tokens=5,
        drafting=speculation.start(model),  # type: ignore[arg-type]
    )
    batch.close()
    batch._threads = LateThreads(3, late)
    batch.prefixes = PrefixCache(1 << 20, 64)
    rng = np.random.default_rng(0)
    shared = [int(i) for i in rng.integers(2, 40, size=40)]
    prompts = [[*shared, 7], [*shared, 8, 9], [5, 6, 5, 6, 5], [*shared, *shared], [9, 9, 9]]
    rows = []
    for number, prompt in enumerate(prompts):
        options = SamplingOptions(temperature=0.3, max_tokens=24, speculate=True)
        row = Row(number, prompt, None, options, VOCABULARY, (1, number))
        row.prepare(model.context_length)
        rows.append(row)
    waiting = list(rows)
    for _ in range(600):
        if waiting and rng.random() < 0.4:
            batch.add([waiting.pop(0)])
        batch.step()
        if batch.is_idle and not waiting:
            break
    assert all(row.finish in ("budget", "complete", "length") for row in rows), [row.finish for row in rows]
    assert batch.counts.accepted > 0 and batch.counts.cached_prompts > 0
    assert checking.checked > (2 if branching else 40)
    assert branching == (checking.unknown > 0)  # nodes of a tree have no place in the row before `keep`
