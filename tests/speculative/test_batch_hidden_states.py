"""Hidden states in a running batch: rows that join, leave and draw late get those of their own tokens.

With draft trees, these are also the states at the nodes that a row has just drawn, before the session keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import structgen as sg  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.generation.continuous_batch import ContinuousBatch  # noqa: E402
from structgen.generation.prefix_cache import PrefixCache  # noqa: E402
from structgen.matcher import Matcher  # noqa: E402
from structgen.models.batched_session import BatchedSession  # noqa: E402
from structgen.models.recurrent_session import RecurrentSession  # noqa: E402
from structgen.models.session import start_session  # noqa: E402
from structgen.speculative import Fixed, Speculation  # noqa: E402
from structgen.speculative.drafters import Context, Proposal, Start  # noqa: E402
from tests.models.test_session import tolerance  # noqa: E402
from tests.models.tiny import SIZE  # noqa: E402
from tests.oracles.naive_matcher import NaiveMatcher  # noqa: E402

from .test_batch_drafts import LateThreads, row_of, run  # noqa: E402
from .tiny_sessions import DEAD, NAIVE, VOCABULARY, Model  # noqa: E402

LAYERS = (0, 2)


class Plain(Model):
    """The tiny model, whose sessions are not counted: a count would not follow a fork."""

    def start_with_hidden_states(self, prompts: Any, layers: Any) -> Any:
        """See `HiddenStatesModel.start_with_hidden_states`."""
        return start_session(self.model, SIZE, prompts, layers)


class Siblings:
    """Proposes the token that will be drawn among wrong ones, in any order."""

    def __init__(self, texts: dict[tuple[int, ...], list[int]]) -> None:
        self._random = np.random.default_rng(0)
        self._texts = texts
        """The text of each prompt."""

    def start(self, start: Start) -> SiblingsRow:
        return SiblingsRow(self._random, len(start.prompt), self._texts[tuple(start.prompt)])


class SiblingsRow:
    def __init__(self, random: np.random.Generator, start: int, text: list[int]) -> None:
        self._random, self._start, self._text = random, start, text

    def propose(self, context: Context) -> list[Proposal]:
        drawn = len(context.tokens) - self._start
        tokens = [int(i) for i in self._random.integers(2, SIZE, size=2)] + self._text[drawn : drawn + 1]
        return [
            Proposal([token], f"sibling {rank}", 0.5)  # no rank is right more often than others
            for rank, token in enumerate(self._random.permutation(tokens).tolist())
        ]

    def observe(self, tokens: Sequence[int], start: int) -> None:
        pass


class Checking:
    """Proposes nothing, and compares its states with those of a plain pass."""

    hidden_layers = LAYERS

    def __init__(self, model: Model, atol: float) -> None:
        self.model, self.atol, self.checked, self.after_steps_back = model, atol, 0, 0

    def start(self, start: Start) -> CheckingRow:
        return CheckingRow(self, len(start.prompt))


class CheckingRow:
    def __init__(self, owner: Checking, prompt: int) -> None:
        self._owner, self._count, self._prompt = owner, 0, prompt

    def propose(self, context: Context) -> list[Proposal]:
        if context.drafted:
            return []
        owner, hidden = self._owner, context.hidden
        assert hidden is not None
        count, read = hidden.count, context.tokens[: hidden.count]
        assert count >= self._prompt - 1
        with torch.inference_mode():
            output = owner.model.model(input_ids=torch.tensor([read]), output_hidden_states=True)
        wanted = torch.stack([output.hidden_states[layer][0] for layer in LAYERS], dim=1)
        atol = owner.atol * max(1.0, float(wanted.abs().max()) / 4)
        np.testing.assert_allclose(hidden.since(0, LAYERS), wanted, rtol=1e-3, atol=atol)
        for start in {self._prompt, max(0, count - 1), count}:  # as drafters that read what is new
            assert torch.equal(hidden.since(start, LAYERS), hidden.since(0, LAYERS)[start:])
        assert torch.equal(hidden.since(1, (2,)), hidden.since(1, LAYERS)[:, 1:])
        owner.after_steps_back += count < self._count
        owner.checked, self._count = owner.checked + 1, count
        return []

    def observe(self, tokens: Sequence[int], start: int) -> None:
        pass


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The nodes that sessions keep."""
    noted: list[list[int]] = []
    for kind in (BatchedSession, RecurrentSession):

        def keep(session: Any, row: int, nodes: Sequence[int], inner: Any = kind.keep) -> None:
            noted.append(list(nodes))
            inner(session, row, nodes)

        monkeypatch.setattr(kind, "keep", keep)
    return noted


SHARED = [int(i) for i in np.random.default_rng(0).integers(2, 40, size=40)]
ROWS: list[tuple[list[int], Any, int]] = [
    ([*SHARED, 7], lambda: None, 24),
    ([*SHARED, 8, 9], lambda: Matcher(sg.regex("(abcde|abdef|xyzab){3,12}"), VOCABULARY), 24),
    ([7, 8], lambda: NaiveMatcher([b"ab", b"abc", b"ba"], NAIVE, DEAD), 12),
    ([*SHARED, *SHARED], lambda: None, 24),
    ([9, 9, 9], lambda: Matcher(sg.regex("[a-z]{5,40}"), VOCABULARY), 30),
]
"""The prompts, their matchers, and the largest numbers of tokens. The third one steps back from dead ends."""


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("late", [0.0, 0.3])
@pytest.mark.parametrize("name", ["llama", "gpt2", "lfm2"])
def test_rows_of_a_running_batch(name: str, late: float, branching: bool, kept: list[list[int]]) -> None:
    model: Any = Plain(name)
    options = [
        SamplingOptions(temperature=1.5, seed=(4, number), max_tokens=most, forced=number != 1)
        for number, (_, _, most) in enumerate(ROWS)
    ]
    plain = [
        generate_tokens(model, [prompt], [matcher()], [one])[0]
        for (prompt, matcher, _), one in zip(ROWS, options, strict=True)
    ]
    texts = {tuple(prompt): one.tokens for (prompt, _, _), one in zip(ROWS, plain, strict=True)}
    checking = Checking(model, 4 * tolerance(name))
    speculation = Speculation((checking, Siblings(texts)), controller=Fixed(6), branching=branching)
    batch: Any = ContinuousBatch(
        model, most_rows=3, patience=1e6, prompt_tokens=5, drafting=speculation.start(model)
    )
    batch.close()
    batch._threads = LateThreads(3, late)
    batch.prefixes = PrefixCache(1 << 20, 64)
    rows = []
    for number, ((prompt, matcher, _), one) in enumerate(zip(ROWS, options, strict=True)):
        row = row_of(number, matcher(), one, VOCABULARY)
        row.prompt = list(prompt)
        rows.append(row)
    run(batch, rows, 1, None)
    assert [row.tokens for row in rows] == [one.tokens for one in plain]
    assert rows[2].retries > 0 and checking.after_steps_back > 0
    assert batch.counts.accepted > 10 and checking.checked > 40
    if name in ("llama", "gpt2"):
        assert batch.counts.cached_prompts > 0
    # Trees were read, and paths were kept that are not their first nodes.
    assert branching == (sum(nodes != list(range(len(nodes))) for nodes in kept) > 5)
    assert branching == (sum(len(nodes) > 1 for nodes in kept) > 2)
