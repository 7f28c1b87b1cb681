"""Implement SGLang's interface of constrained decoding: `BaseGrammarBackend` and `BaseGrammarObject`.

Why: SGLang has a registry of grammar backends, so its code is not changed.
Invariant: masks are int32 words, least significant bit first, where a set bit means allowed. They are on the CPU until
SGLang moves them. `copy` returns an independent state. A token that is not allowed raises `ValueError`, and SGLang then
ends that request.
Cost: that of the matcher; compiling runs on SGLang's threads, after a probe in a worker process.
Source: sglang/srt/constrained/base_grammar_backend.py and speculative/spec_utils.py of 0.5.23.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import torch
from sglang.srt.constrained.base_grammar_backend import (
    BaseGrammarBackend,
    BaseGrammarObject,
    GrammarStats,
    InvalidGrammarObject,
    register_grammar_backend,
)

from structgen.errors import StructgenError
from structgen.matcher import warn_of_temperatures
from structgen.serving.compiler import ConstraintCompiler
from structgen.serving.requests import Kind
from structgen.serving.sequence import ConstrainedSequence
from structgen.serving.settings import read_settings
from structgen.vocabulary import Vocabulary

from .budgets import patch_budgets
from .grammar import RequestGrammar

__all__ = ["NAME", "StructgenGrammarBackend", "StructgenGrammarObject", "register_backend"]

NAME = "structgen"
_log = logging.getLogger("sglang.structgen")


class StructgenGrammarObject(RequestGrammar, BaseGrammarObject):  # type: ignore[misc, unused-ignore]
    """The constraint of one request."""

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
        """Return masks for `batch_size` rows that allow all tokens."""
        return _mask_of(vocab_size, batch_size)

    def copy(self) -> StructgenGrammarObject:
        """Return a fork for another request with the same constraint."""
        stats = None if self.grammar_stats is None else GrammarStats(is_cache_hit=True)
        return StructgenGrammarObject(self.sequence.fork(), self.threads, stats, self.needs)


class StructgenGrammarBackend(BaseGrammarBackend):  # type: ignore[misc, unused-ignore]
    """The backend of one scheduler."""

    def __init__(
        self, tokenizer: Any, vocab_size: int, eos_token_ids: Iterable[int] | int | None = None
    ) -> None:
        super().__init__()
        settings = read_settings()
        self.settings = settings
        self.vocabulary = Vocabulary.from_tokenizer(tokenizer, size=vocab_size)
        given = [eos_token_ids] if isinstance(eos_token_ids, int) else eos_token_ids or ()
        self._stop_ids = tuple(given)
        self.compiler = ConstraintCompiler(self.vocabulary, settings.limits, workers=settings.workers)
        _log.info("structgen constrains structured output, over %r", self.vocabulary)

    def initialize_vocab_mask_buffer(self, name: str, vocab_size: int, max_rows: int, device: Any) -> Any:
        """Register masks under a name that all rows of the scheduler share, and return them."""
        from sglang.srt.constrained.base_grammar_backend import register_vocab_mask_buffer

        return register_vocab_mask_buffer(name, _mask_of(vocab_size, max_rows), max_rows)

    def dispatch_json(self, key_string: str) -> Any:
        """Compile a JSON Schema."""
        # SGLang's way to write "any JSON object".
        return self._dispatched("json_object" if key_string == "$$ANY$$" else "json", key_string)

    def dispatch_regex(self, key_string: str) -> Any:
        """Compile a regular expression."""
        return self._dispatched("regex", key_string)

    def dispatch_ebnf(self, key_string: str) -> Any:
        """Compile a grammar."""
        return self._dispatched("grammar", key_string)

    def dispatch_structural_tag(self, key_string: str) -> Any:
        """Compile a structural tag."""
        return self._dispatched("structural_tag", key_string)

    def _dispatched(self, kind: Kind, spec: str) -> Any:
        try:
            compiled = self.compiler.compile(kind, spec)
        except StructgenError as error:
            return InvalidGrammarObject(str(error))
        stats = GrammarStats(dispatch_type=kind)
        matcher = compiled.open()
        warn_of_temperatures(matcher, "SGLang")
        sequence = ConstrainedSequence(matcher, self._stop_ids)
        return StructgenGrammarObject(sequence, self.settings.mask_threads, stats, compiled.needs)

    def set_cache(self, key: tuple[str, str], value: Any) -> None:
        """Bound SGLang's cache, which has no bound itself. Evicted constraints stay in the compiler's cache."""
        while len(self.cache) >= self.settings.limits.cache_entries:
            self.cache.pop(next(iter(self.cache)))
        super().set_cache(key, value)

    def close(self) -> None:
        """Stop the compiler's workers."""
        self.compiler.close()


def register_backend() -> None:
    """Register the backend for ``--grammar-backend structgen``. Raises if SGLang has no registry."""
    register_grammar_backend(NAME, _made)
    from sglang.srt import server_args

    server_args.add_grammar_backend_choices([NAME])
    patch_budgets()


def _made(server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Any = None) -> Any:
    """Create the backend for SGLang. SGLang wraps only its own backends for reasoning, so that happens here."""
    from sglang.srt.runtime_context import get_serving

    backend = StructgenGrammarBackend(tokenizer, vocab_size, eos_token_ids)
    if not get_serving().reasoning_parser:
        return backend
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    from .reasoning import BatchedReasonerBackend

    parser = ReasoningParser(
        model_type=get_serving().reasoning_parser, stream_reasoning=False, tokenizer=tokenizer
    )
    return BatchedReasonerBackend(
        backend, parser, tokenizer, enable_strict_thinking=get_serving().enable_strict_thinking
    )


def _mask_of(vocab_size: int, rows: int) -> torch.Tensor:
    pinned = torch.cuda.is_available()
    return torch.full((rows, (vocab_size + 31) // 32), -1, dtype=torch.int32, pin_memory=pinned)
