"""A tiny model without a tokenizer, and a drafter that watches its hidden states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structgen.models.session import start_session
from structgen.speculative.drafters import Context, Proposal, Start
from structgen.vocabulary import Vocabulary
from tests.models.tiny import SIZE, tiny_model
from tests.oracles.naive_matcher import NaiveVocabulary

LETTERS = [chr(97 + i % 26).encode() for i in range(SIZE - 2)]
VOCABULARY = Vocabulary.from_tokens([None, None, *LETTERS], [1], size=SIZE)


class Model:
    """A tiny model without a tokenizer."""

    context_length = 256
    layer_count = 2
    cache_bytes_per_token = 1024

    def __init__(self, name: str, attention: str | None = None) -> None:
        self.model = tiny_model(name, attention)
        self.vocabulary = VOCABULARY
        self.passes: list[list[int]] = []
        self.trees = 0

    def start(self, prompts: Any) -> Any:
        """See `LanguageModel.start`."""
        return self.start_with_hidden_states(prompts, ())

    def start_with_hidden_states(self, prompts: Any, layers: Any) -> Any:
        """See `HiddenStatesModel.start_with_hidden_states`."""
        session = start_session(self.model, SIZE, prompts, layers)
        inner = session.append_scored

        def counted(tokens: Any) -> Any:
            self.passes.append([len(new) for new in tokens])
            return inner(tokens)

        session.append_scored = counted  # type: ignore[method-assign]
        if session.capabilities.reads_trees:
            inner_trees = session.append_trees

            def counted_trees(tokens: Any, trees: Any) -> Any:
                self.trees += 1
                self.passes.append(
                    [len(run) + len(nodes) for run, (nodes, _) in zip(tokens, trees, strict=True)]
                )
                return inner_trees(tokens, trees)

            session.append_trees = counted_trees
        return session


class Watcher:
    """Proposes nothing, and notes the hidden states that it gets."""

    hidden_layers = (1, 2)

    def __init__(self) -> None:
        self.seen: list[tuple[list[int], Any]] = []

    def start(self, start: Start) -> Watcher:
        return self

    def propose(self, context: Context) -> list[Proposal]:
        if not context.drafted:
            hidden = context.hidden
            states = (
                None if hidden is None else [hidden.since(0, (1, 2)).clone(), hidden.since(3, (2,)).clone()]
            )
            self.seen.append((list(context.tokens), states))
        return []

    def observe(self, tokens: Sequence[int], start: int) -> None:
        pass


NAIVE = NaiveVocabulary([None, None, *LETTERS], [1], size=SIZE)
DEAD = [b"ab" + bytes([97 + i]) * 9 for i in range(26)]
"""Texts that masks promise and that there are not."""
