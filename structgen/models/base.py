"""What a language model is to structgen: a vocabulary, prompts to tokens, and sessions that give logits.

Why: samplers, speculation and diffusion are written once, against these protocols; Hugging Face models, remote
engines and the in-memory models of the tests stand behind them.
What: a session holds a batch of rows (token sequences) and whatever the model remembers of them (its KV cache).
Rows may have different lengths, take different numbers of tokens at a time, leave, be duplicated and step back.
Invariant: ``logits()`` is a function of each row's tokens alone: how they were appended, taken back, selected,
or batched does not change it (up to the rounding of the model's arithmetic).
Cost: of an implementation, nothing worth noting beside the model's own forward pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from structgen.vocabulary import Vocabulary

__all__ = [
    "JoiningSession",
    "LanguageModel",
    "Message",
    "ModelSession",
    "ModelWarning",
    "Prompt",
    "ScoringSession",
    "TreeSession",
]

Message = Mapping[str, Any]
"""One turn of a conversation: ``{"role": "system" | "user" | "assistant", "content": ...}``.

The content is a text or a list of parts of text; calls of tools and their results are written as the OpenAI protocol
writes them (see `models.messages`)."""

Prompt = str | Sequence[Message]


class ModelWarning(UserWarning):
    """A model is slower than others of its size for a reason that its user may not know; what is drawn is right."""


class ModelSession(Protocol):
    """A batch of rows and what the model remembers of them."""

    def logits(self) -> NDArray[np.float32]:
        """Logits of each row's next token, float32 ``[rows, vocabulary.size]``. Not to be written to.

        The array is valid until the session changes.
        """
        ...

    def append(self, tokens: Sequence[Sequence[int]]) -> None:
        """Give each row its next tokens: none, one, or a run of several, in one forward pass."""
        ...

    def select(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order. A row that is named twice is duplicated, one that is not leaves."""
        ...

    def rollback(self, row: int, n: int) -> None:
        """Take back the last `n` tokens of a row, tokens of its prompt included."""
        ...


@runtime_checkable
class ScoringSession(ModelSession, Protocol):
    """A session that also tells the logits inside a run of tokens, as scoring and speculation need them.

    Tokens are read ahead, and taken back where they were not drawn, in sessions with ``steps_back_cheaply = True``.
    With ``takes_padding = True`` they may be tokens that no text goes on with, where a longer pass takes less time.
    """

    def append_scored(self, tokens: Sequence[Sequence[int]]) -> Sequence[NDArray[np.float32]]:
        """`append`, and for each row the logits after each of its new tokens, ``[new tokens, size]``."""
        ...


class JoiningSession(ModelSession, Protocol):
    """A session that takes in the rows of another one of the same model, as a batch does that never stops."""

    def join(self, other: Any) -> None:
        """The rows of `other` come behind those that there are; `other` is used up."""
        ...


class TreeSession(ScoringSession, Protocol):
    """A session that reads several ways on at once (``reads_trees = True``).

    Optional: ``keeps_hidden``, set by those who want `hidden()`, a list with the model's last hidden state behind each
    row's last token, or None where the last pass did not read it.
    """

    def append_trees(
        self, tokens: Sequence[Sequence[int]], trees: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> Sequence[NDArray[np.float32]]:
        """Give each row a run of tokens, and behind it a tree: its nodes' tokens, and the node that each stands behind
        (-1: the end of the run). The logits after each token of the run and each node, ``[run + nodes, size]``.

        Before anything else `keep` is called once for each row.
        """
        ...

    def keep(self, row: int, nodes: Sequence[int]) -> None:
        """The row goes on with the tokens of these nodes, a path from the first one down; others are taken back."""
        ...


class LanguageModel(Protocol):
    """A model with its tokenizer."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Tokens as bytes; its `size` is the width of the logits."""
        ...

    @property
    def context_length(self) -> int | None:
        """The most tokens that a row may have, prompt included; None if there is no bound."""
        ...

    def encode(self, prompt: Prompt) -> list[int]:
        """The tokens of a prompt, as the model expects a user's turn."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens; bytes that are no UTF-8 are shown as replacement characters."""
        ...

    def start(self, prompts: Sequence[Sequence[int]]) -> ModelSession:
        """A session with one row per prompt, already read by the model."""
        ...
