"""SGLang's wrapper for reasoning, with rows that are filled together.

Why: SGLang fills the rows of its own wrapper one by one. Here, the rows of requests that have ended their reasoning are
filled in one call of the core.
Invariant: each row is the one that SGLang's wrapper fills.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sglang.srt.constrained.base_grammar_backend import GrammarRow
from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend, ReasonerGrammarObject

from .grammar import RequestGrammar

__all__ = ["BatchedReasonerBackend", "BatchedReasonerObject"]


class BatchedReasonerObject(ReasonerGrammarObject):  # type: ignore[misc, unused-ignore]
    """The constraint of one request whose reasoning is free."""

    @staticmethod
    def fill_vocab_mask_batched(entries: Sequence[Any], vocab_mask: Any) -> None:
        """Fill the given rows. Those of requests that reason are left as SGLang leaves them."""
        together = []
        for entry in entries:
            inner = _active_grammar(entry.grammar)
            if inner is None:
                entry.grammar.fill_vocab_mask(vocab_mask, entry.row)
            else:
                together.append(GrammarRow(entry.row, inner))
        if together:
            RequestGrammar.fill_vocab_mask_batched(together, vocab_mask)

    def copy(self) -> BatchedReasonerObject:
        """Return an independent object in the same state."""
        return _batched(super().copy())


class BatchedReasonerBackend(ReasonerGrammarBackend):  # type: ignore[misc, unused-ignore]
    """SGLang's backend for reasoning; its objects fill their rows together."""

    def _make_grammar_object(self, grammar: Any, reasoning: bool) -> BatchedReasonerObject:
        return _batched(super()._make_grammar_object(grammar, reasoning))


def _batched(made: Any) -> BatchedReasonerObject:
    made.__class__ = BatchedReasonerObject  # SGLang's constructors name its own class
    batched: BatchedReasonerObject = made
    return batched


def _active_grammar(grammar: Any) -> RequestGrammar | None:
    """Return the grammar that alone fills the row; None if the wrapper has a part in it."""
    if isinstance(grammar, ReasonerGrammarObject):
        if grammar.reasoning_in_grammar or not grammar._is_generation():
            return None
        grammar = grammar.grammar
    return grammar if isinstance(grammar, RequestGrammar) else None
