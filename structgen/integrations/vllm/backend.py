"""Implement vLLM's interface of structured output: `StructuredOutputBackend` and `StructuredOutputGrammar`.

Invariant: a request whose constraint meets a limit while its text grows ends with a refused token, and does not affect
others. `grammar` has the rest.
Cost: a cached mask is a look-up of a few microseconds; a grammar is compiled on one of vLLM's threads, not on the
scheduler's.
Source: vllm/v1/structured_output/backend_types.py of 0.29 to 0.33.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
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

from .grammar import RequestGrammar, row_sequences
from .metrics import MaskTimes

__all__ = ["KIND_OF", "Rows", "StructgenBackend", "StructgenGrammar", "fill_batch", "vocabulary_of"]

_log = logging.getLogger("vllm.structgen")

KIND_OF: dict[StructuredOutputOptions, Kind] = {
    StructuredOutputOptions.JSON: "json",
    StructuredOutputOptions.JSON_OBJECT: "json_object",
    StructuredOutputOptions.REGEX: "regex",
    StructuredOutputOptions.GRAMMAR: "grammar",
    StructuredOutputOptions.CHOICE: "choice",
    StructuredOutputOptions.STRUCTURAL_TAG: "structural_tag",
}


class StructgenGrammar(RequestGrammar, StructuredOutputGrammar):  # type: ignore[misc, unused-ignore]
    """The constraint of one request."""


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
        sequence = ConstrainedSequence(matcher, stop_token_ids or ())
        return StructgenGrammar(sequence, self.times, compiled.key, compiled.needs)

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


@dataclass(frozen=True)
class Rows:
    """The rows of one request in a step: see `row_sequences`."""

    grammar: RequestGrammar
    drafts: Sequence[int] = ()
    first_read: int = 0
    first_masked: int = 0


def fill_batch(
    backend: StructgenBackend, requests: Sequence[Rows], bitmask: torch.Tensor
) -> NDArray[np.int32]:
    """Fill the rows of all requests in one call: those before their draft tokens, and one after each draft."""
    sequences: list[ConstrainedSequence | None] = []
    sources: list[int] = []
    for one in requests:
        rows, own = row_sequences(one.grammar.sequence, one.drafts, one.first_read, one.first_masked)
        sources += [len(sequences) + source for source in own]
        sequences += rows
    out: NDArray[np.int32] = bitmask.numpy()[: len(sequences)]
    with backend.times.measured(len(sequences)):
        fill_rows(sequences, out, backend.settings.mask_threads)
    for row, source in enumerate(sources):
        if source != row:
            out[row] = out[source]
    backend.times.tell(backend.compiler.stats)
    return out
