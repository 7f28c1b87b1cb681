"""States that are kept while a text is drawn: those of its last tokens, however it was read and stepped back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from hypothesis import example, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from structgen.draft_training.last_states import LastStates  # noqa: E402
from structgen.generation.drafting import RowStates  # noqa: E402
from structgen.models.hidden_states import HiddenStates  # noqa: E402

LAYERS = (1, 2, 5)
LONGEST = 6


def states_of(tokens: Sequence[int]) -> torch.Tensor:
    """The states after each token, which depend on all tokens before it, ``[tokens, layers, 2]``."""
    states, last = torch.empty((len(tokens), len(LAYERS), 2), dtype=torch.float64), 0.5
    for place, token in enumerate(tokens):
        last = (last * 7.3 + token * 0.61803398875) % 1
        states[place] = last + torch.arange(6).reshape(3, 2)
    return states


@dataclass(frozen=True, slots=True)
class CountedStates(RowStates):
    """States that count how many of them are read."""

    counted: Any = None

    def since(self, start: int, layers: Sequence[int]) -> Any:
        self.counted.append(self.count - start)
        return RowStates.since(self, start, layers)


class Text:
    """A text, what a session has of it, and what is kept of that."""

    def __init__(self, layers: tuple[int, ...]) -> None:
        self.tokens: list[int] = []
        self.session = HiddenStates(LAYERS, 1)
        self.states = LastStates(layers, LONGEST)
        self.seen: list[int] = []
        """The tokens at the last draft."""
        self.counted: list[int] = []

    def extend(self, run: Sequence[int], draft: Sequence[int], path: Sequence[int], *, drafts: bool) -> None:
        """Read tokens and a tree. The nodes of a path are accepted. Find the next draft, or not."""
        before = len(self.tokens)
        self.tokens += run
        read = len(self.tokens)
        along = {node: place for place, node in enumerate(path)}
        accepted = [draft[node] for node in path]
        right = states_of([*self.tokens, *accepted])
        wrong = torch.full((1, len(LAYERS), 2), -1.0, dtype=torch.float64)
        nodes = [right[read + along[node], None] if node in along else wrong for node in range(len(draft))]
        self.session.append(0, torch.cat([right[before:read], *nodes]))
        self.tokens += accepted
        if drafts:
            shared = next(
                (
                    place
                    for place, pair in enumerate(zip(self.seen, self.tokens, strict=False))
                    if len({*pair}) > 1
                ),
                min(len(self.seen), len(self.tokens)),
            )
            self.states.cut(shared)
            states = CountedStates(self.session.of(0), LAYERS, read, tuple(path), counted=self.counted)
            self.states.read(states, [*self.tokens, 9])
            self.states.read(states, [*self.tokens, 9])  # another call for the same draft
            self.seen = list(self.tokens)
        self.session.keep(0, path, len(draft))

    def step_back(self, count: int) -> None:
        """Remove the last tokens."""
        count = min(count, len(self.tokens))
        if count:
            del self.tokens[-count:]
            self.session.crop(0, count)


Steps = st.lists(
    st.one_of(
        st.integers(1, 12),
        st.tuples(
            st.lists(st.integers(2, 4), max_size=9),
            st.lists(st.integers(2, 4), max_size=4),
            st.integers(0, 15),
            st.booleans(),
        ),
    ),
    max_size=14,
)


@settings(max_examples=300, deadline=None)
@example([([2] * 7, [], 0, True), 1, ([], [], 0, True)], LAYERS)  # a step back, and nothing new
@given(steps=Steps, layers=st.sampled_from([LAYERS, (1, 5), (2,)]))
def test_they_are_those_of_the_text(steps: list[Any], layers: tuple[int, ...]) -> None:
    """Also after steps back, before the last draft and after it."""
    text, is_drafted = Text(layers), False
    for step in steps:
        if isinstance(step, int):
            text.step_back(step)
            is_drafted = False
        else:
            run, draft, chosen, drafts = step
            path = [node for node in range(len(draft)) if chosen >> node & 1]
            if text.tokens or run:
                text.extend(run, draft, path, drafts=drafts)
                is_drafted = drafts
    found = text.states.end([*text.tokens, 9])
    if found is None:
        assert not is_drafted or not text.tokens
        return
    first, states = found
    wanted = states_of(text.tokens)[:, [LAYERS.index(layer) for layer in layers]]
    assert torch.equal(states, wanted[first : first + len(states)])
    if is_drafted:
        assert first + len(states) == len(text.tokens)
        assert len(states) >= min(LONGEST, len(text.tokens))
    assert text.states.end(text.tokens) is None


def test_each_state_is_read_once_and_few_are_kept() -> None:
    text, random = Text(LAYERS), np.random.default_rng(0)
    text.extend([2] * 40, (), (), drafts=True)
    assert text.counted == [LONGEST]
    for _ in range(30):
        text.extend([3], random.integers(2, 5, size=4).tolist(), [1, 3], drafts=True)
        assert text.counted[-1] == 3 and text.states._size < 2 * LONGEST + 3
    assert len(text.counted) == 31
    text.extend([4] * 20, (), (), drafts=False)  # a pause: what is too old is not read
    text.extend([4], (), (), drafts=True)
    assert text.counted[-1] == LONGEST and text.states._size == LONGEST
    text.extend([4], (), (), drafts=True)
    text.step_back(4)
    text.extend([2], (), (), drafts=True)  # two new tokens have been read, and some are missing before them
    assert text.counted[-1] == LONGEST


def test_what_a_text_replaced_before_its_end_is_left_out() -> None:
    text = Text(LAYERS)
    text.extend([2, 3, 4, 2], (), (), drafts=True)
    text.step_back(2)
    text.extend([3, 2], (), (), drafts=False)
    found = text.states.end(text.tokens)
    assert found is not None and found[0] == 0
    assert torch.equal(found[1], states_of([2, 3]))


def test_they_share_no_memory_with_the_session() -> None:
    text = Text(LAYERS)
    text.extend([2, 3, 4], (), (), drafts=True)
    text.step_back(2)
    text.extend([2, 2], (), (), drafts=False)
    text.step_back(2)
    found = text.states.end([2, 3, 4])  # drawn again, and not read again
    assert found is not None and torch.equal(found[1], states_of([2, 3, 4]))
