"""The constraint of one request in SGLang's protocol; does not import SGLang.

Why: `backend` adds SGLang's base class. Without it, the same code runs where SGLang is not installed, and the fuzzer
(`python -m fuzz --target rollback`) drives it.
Invariant: masks are int32 words, least significant bit first, where a set bit means allowed. A token that is not
allowed raises `ValueError`, and SGLang then ends that request.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from structgen.errors import LimitExceeded
from structgen.serving.closing import Closing, KeptNeeds
from structgen.serving.sequence import ConstrainedSequence, fill_rows

__all__ = ["RequestGrammar"]

_MOST_FORCED = 256
"""The most bytes of a jump forward."""


class RequestGrammar:
    """The constraint of one request, with the methods of SGLang's `BaseGrammarObject`."""

    current_token: int | None
    """The last token; SGLang reads it."""

    def __init__(
        self,
        sequence: ConstrainedSequence,
        threads: int = 1,
        stats: Any = None,
        needs: KeptNeeds | None = None,
    ) -> None:
        super().__init__()
        self.sequence = sequence
        self.needs = needs
        """See `Closing.kept`."""
        self.grammar_stats = stats
        self.threads = threads
        self._is_unread = False
        """Whether the last token met a limit of the core, so that the sequence does not have it."""

    def close_within(self, limit: Callable[[], int]) -> None:
        """Require that the text, its end included, is complete after at most `limit()` tokens."""
        self.sequence.closing = Closing(limit, OrderedDict() if self.needs is None else self.needs)

    def accept_token(self, token: int) -> None:
        """Advance by a token that was generated.

        Raises:
            ValueError: The constraint forbids it, or the sequence has failed. If this token is the first to meet a
                limit of the core, the error is that of the next one.
        """
        has_failed = self.sequence.failure is not None
        if not self.sequence.advance(token):
            # subtle: SGLang also accepts the draft tokens that a row allows, and an error there ends its scheduler.
            self._is_unread = not has_failed and self.sequence.failure is not None
            if not self._is_unread:
                raise ValueError(self.sequence.failure or f"token {token} is not allowed by the constraint")
        self.current_token = token

    def rollback(self, k: int) -> None:
        """Remove the last `k` tokens."""
        if k > 0 and self._is_unread:
            self._is_unread, self.sequence.failure = False, None
            k -= 1
        self.sequence.rollback(k)

    def is_terminated(self) -> bool:
        """Return whether the answer has ended: a stop token was read, or nothing may follow."""
        return self.sequence.is_ended

    def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
        """Write the mask of the next token into row `idx`."""
        out = vocab_mask.numpy()
        self.sequence.fill(out, idx)
        self._narrow_if_failed(out, idx)

    @staticmethod
    def fill_vocab_mask_batched(entries: Sequence[Any], vocab_mask: torch.Tensor) -> None:
        """Fill the given rows, in one call of the core if all of them are structgen's."""
        own = [entry.grammar for entry in entries if isinstance(entry.grammar, RequestGrammar)]
        if len(own) < len(entries) or not own:
            for entry in entries:
                entry.grammar.fill_vocab_mask(vocab_mask, entry.row)
            return
        out, rows = vocab_mask.numpy(), [entry.row for entry in entries]
        masks = out[rows]
        fill_rows([grammar.sequence for grammar in own], masks, own[0].threads)
        out[rows] = masks
        for grammar, row in zip(own, rows, strict=True):
            grammar._narrow_if_failed(out, row)

    def _narrow_if_failed(self, out: NDArray[np.int32], row: int) -> None:
        """Allow a single random token if the sequence has failed.

        Why: SGLang gives the draft tokens that a row allows to `accept_token`, and does not catch its error there. It
        does for the token that is drawn, which ends the request.
        """
        if self.sequence.failure is not None:
            token = secrets.randbelow(self.sequence.matcher.vocabulary.size)
            out[row] = 0
            out.view(np.uint32)[row, token >> 5] = 1 << (token & 31)

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
