"""Implement vLLM's interface of structured output: `StructuredOutputBackend` and `StructuredOutputGrammar`.

Invariant: `validate_tokens` does not advance; `rollback` undoes tokens that were accepted; a request whose constraint
meets a limit while its text grows ends with a refused token, and does not affect others.
Cost: a cached mask is a look-up of a few microseconds; a grammar is compiled on one of vLLM's threads, not on the
scheduler's.
Source: vllm/v1/structured_output/backend_types.py of 0.29 to 0.33.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from vllm.v1.structured_output.backend_types import (
    StructuredOutputBackend,
    StructuredOutputGrammar,
    StructuredOutputOptions,
)

from structgen.matcher import warn_of_temperatures
from structgen.serving.compiler import ConstraintCompiler
from structgen.serving.requests import Kind
from structgen.serving.sequence import ConstrainedSequence, fill_rows
from structgen.serving.settings import Settings, read_settings
from structgen.vocabulary import Vocabulary

from .metrics import MaskTimes

__all__ = ["KIND_OF", "StructgenBackend", "StructgenGrammar", "fill_batch", "vocabulary_of"]

_log = logging.getLogger("vllm.structgen")

KIND_OF: dict[StructuredOutputOptions, Kind] = {
    StructuredOutputOptions.JSON: "json",
    StructuredOutputOptions.JSON_OBJECT: "json_object",
    StructuredOutputOptions.REGEX: "regex",
    StructuredOutputOptions.GRAMMAR: "grammar",
    StructuredOutputOptions.CHOICE: "choice",
    StructuredOutputOptions.STRUCTURAL_TAG: "structural_tag",
}


class StructgenGrammar(StructuredOutputGrammar):  # type: ignore[misc, unused-ignore]
    """The constraint of one request."""

    def __init__(self, sequence: ConstrainedSequence, times: MaskTimes) -> None:
        self.sequence = sequence
        self._times = times

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Advance by tokens that were generated. Return False, and log why, at the first forbidden one."""
        for token in tokens:
            if not self.sequence.advance(token):
                why = self.sequence.failure or f"token {token} is not allowed"
                _log.error("request %s ends: %s", request_id, why)
                return False
            if self.sequence.is_ended:
                break
        return True

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """Return the longest prefix of the draft tokens that the constraint accepts; change nothing."""
        return tokens[: self.sequence.accepted(tokens)]

    def rollback(self, num_tokens: int) -> None:
        """Remove the last `num_tokens` tokens."""
        self.sequence.rollback(num_tokens)

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        """Write the mask of the next token into row `batch_index`."""
        with self._times.measured(1):
            self.sequence.fill(bitmask.numpy(), batch_index)

    def is_terminated(self) -> bool:
        """Return whether the answer has ended: a stop token was read, or nothing may follow."""
        return self.sequence.is_ended

    def reset(self) -> None:
        """Go back to the start of the answer."""
        self.sequence.reset()


@dataclass
class StructgenBackend(StructuredOutputBackend):  # type: ignore[misc, unused-ignore]
    """The backend of one engine; the structured-output manager creates it."""

    def __post_init__(self) -> None:
        self.settings: Settings = read_settings()
        self.vocabulary = vocabulary_of(self.tokenizer, self.vocab_size)
        self.times = MaskTimes()
        # Specs were already probed where requests come in, so one process is enough.
        self.compiler = ConstraintCompiler(self.vocabulary, self.settings.limits.relaxed(), workers=1)
        _log.info("structgen constrains structured output, over %r", self.vocabulary)

    def compile_grammar(
        self,
        request_type: StructuredOutputOptions,
        grammar_spec: str,
        stop_token_ids: set[int] | None = None,
    ) -> StructgenGrammar:
        """Compile the constraint of a request, and warn if it sets temperatures."""
        compiled = self.compiler.compile(KIND_OF[request_type], grammar_spec)
        matcher = compiled.open()
        warn_of_temperatures(matcher, "vLLM")
        return StructgenGrammar(ConstrainedSequence(matcher, stop_token_ids or ()), self.times)

    def allocate_token_bitmask(self, max_num_seqs: int) -> torch.Tensor:
        """Return masks for `max_num_seqs` rows that allow all tokens."""
        return torch.full((max_num_seqs, self.vocabulary.words), -1, dtype=torch.int32)

    def destroy(self) -> None:
        """Stop the compiler's workers and log the statistics."""
        self.compiler.close()
        self.times.tell(self.compiler.stats, last=True)


def vocabulary_of(tokenizer: Any, vocab_size: int) -> Vocabulary:
    """Return the vocabulary of vLLM's tokenizer, as wide as the model's logits."""
    return Vocabulary.from_tokenizer(tokenizer, size=vocab_size)


def fill_batch(
    backend: StructgenBackend, grammars: list[StructgenGrammar], bitmask: torch.Tensor
) -> NDArray[np.int32]:
    """Fill one row for each grammar, all of them in one call."""
    out: NDArray[np.int32] = bitmask.numpy()[: len(grammars)]
    with backend.times.measured(len(grammars)):
        fill_rows([grammar.sequence for grammar in grammars], out, backend.settings.mask_threads)
    backend.times.tell(backend.compiler.stats)
    return out
