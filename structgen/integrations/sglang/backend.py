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
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from sglang.srt.constrained.base_grammar_backend import (
    BaseGrammarBackend,
    BaseGrammarObject,
    GrammarStats,
    InvalidGrammarObject,
    register_grammar_backend,
)

from structgen.errors import LimitExceeded, StructgenError
from structgen.matcher import warn_of_temperatures
from structgen.serving.compiler import ConstraintCompiler
from structgen.serving.requests import Kind
from structgen.serving.sequence import ConstrainedSequence, fill_rows
from structgen.serving.settings import read_settings
from structgen.vocabulary import Vocabulary

__all__ = ["NAME", "StructgenGrammarBackend", "StructgenGrammarObject", "register_backend"]

NAME = "structgen"
_log = logging.getLogger("sglang.structgen")
_MOST_FORCED = 256
"""The most bytes of a jump forward."""


class StructgenGrammarObject(BaseGrammarObject):  # type: ignore[misc, unused-ignore]
    """The constraint of one request."""

    def __init__(self, sequence: ConstrainedSequence, threads: int, stats: Any = None) -> None:
        super().__init__()
        self.sequence = sequence
        self.grammar_stats = stats
        self._threads = threads

    def accept_token(self, token: int) -> None:
        """Advance by a token that was generated. Raises ValueError if the constraint forbids it."""
        if self.sequence.is_ended:
            return
        if not self.sequence.advance(token):
            raise ValueError(self.sequence.failure or f"token {token} is not allowed by the constraint")
        self.current_token = token

    def rollback(self, k: int) -> None:
        """Remove the last `k` tokens."""
        self.sequence.rollback(k)

    def is_terminated(self) -> bool:
        """Return whether the answer has ended: a stop token was read, or nothing may follow."""
        return self.sequence.is_ended

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
        """Return masks for `batch_size` rows that allow all tokens."""
        return _mask_of(vocab_size, batch_size)

    def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
        """Write the mask of the next token into row `idx`."""
        self.sequence.fill(vocab_mask.numpy(), idx)

    @staticmethod
    def fill_vocab_mask_batched(entries: Sequence[Any], vocab_mask: torch.Tensor) -> None:
        """Fill the given rows; neighbouring rows are filled in one call of the core."""
        own = [entry.grammar for entry in entries if isinstance(entry.grammar, StructgenGrammarObject)]
        rows = [entry.row for entry in entries]
        if len(own) < len(entries) or not rows or rows != list(range(rows[0], rows[0] + len(rows))):
            for entry in entries:
                entry.grammar.fill_vocab_mask(vocab_mask, entry.row)
            return
        fill_rows([grammar.sequence for grammar in own], vocab_mask.numpy()[rows[0] :], own[0]._threads)

    @staticmethod
    def reset_vocab_mask(vocab_mask: torch.Tensor) -> None:
        """Allow all tokens in all rows."""
        vocab_mask.fill_(-1)

    @staticmethod
    def move_vocab_mask(vocab_mask: torch.Tensor, device: Any) -> torch.Tensor:
        """Return a copy of the masks on the device, without waiting for it."""
        return vocab_mask.to(device, non_blocking=True)

    @staticmethod
    def apply_vocab_mask(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
        """Set the logits of tokens that are not allowed to minus infinity, in place, on their device."""
        size = logits.shape[-1]
        places = torch.arange(size, device=logits.device)
        words = vocab_mask.to(logits.device)
        # subtle: logits may be wider than the vocabulary; tokens outside it are not allowed.
        covered = min(size, 32 * words.shape[-1])
        bits = (words[..., places[:covered] // 32] >> (places[:covered] % 32)) & 1
        logits[..., :covered].masked_fill_(bits == 0, float("-inf"))
        logits[..., covered:] = float("-inf")

    def copy(self) -> StructgenGrammarObject:
        """Return a fork for another request with the same constraint."""
        stats = None if self.grammar_stats is None else GrammarStats(is_cache_hit=True)
        return StructgenGrammarObject(self.sequence.fork(), self._threads, stats)

    def try_jump_forward(self, tokenizer: Any) -> tuple[list[int], str] | None:
        """Return the text that every continuation begins with, in whole characters."""
        if self.sequence.is_ended or self.sequence.failure is not None:
            return None
        try:
            text = self.sequence.matcher.forced_bytes(_MOST_FORCED)
        except LimitExceeded:  # the engine must survive; the next mask reports the error
            return None
        shown = text.decode("utf-8", "ignore")
        # "ignore" would drop bytes in the middle that are not a complete character.
        return ([], shown) if shown and text.startswith(shown.encode()) else None

    def jump_forward_str_state(self, helper: tuple[list[int], str]) -> tuple[str, int]:
        """Return the text to jump forward by, and -1: the constraint has no numbered states."""
        return helper[1], -1

    def jump_and_retokenize(
        self, old_output_ids: list[int], new_output_ids: list[int], next_state: int
    ) -> None:
        """Replace the tokens so far: roll back to where they differ, and append the new ones."""
        same = 0
        for old, new in zip(old_output_ids, new_output_ids, strict=False):
            if old != new:
                break
            same += 1
        self.sequence.rollback(len(old_output_ids) - same)
        for token in new_output_ids[same:]:
            if not self.sequence.advance(token):
                raise ValueError(f"token {token} is not allowed by the constraint after a jump forward")


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
        return StructgenGrammarObject(sequence, self.settings.mask_threads, stats)

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


def _made(server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Any = None) -> Any:
    """Create the backend for SGLang. SGLang wraps only its own backends for reasoning, so that happens here."""
    from sglang.srt.runtime_context import get_serving

    backend = StructgenGrammarBackend(tokenizer, vocab_size, eos_token_ids)
    if not get_serving().reasoning_parser:
        return backend
    from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    parser = ReasoningParser(
        model_type=get_serving().reasoning_parser, stream_reasoning=False, tokenizer=tokenizer
    )
    return ReasonerGrammarBackend(
        backend, parser, tokenizer, enable_strict_thinking=get_serving().enable_strict_thinking
    )


def _mask_of(vocab_size: int, rows: int) -> torch.Tensor:
    pinned = torch.cuda.is_available()
    return torch.full((rows, (vocab_size + 31) // 32), -1, dtype=torch.int32, pin_memory=pinned)
