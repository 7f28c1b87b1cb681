"""The constraint of one request in vLLM's protocol, and the rows of its masks; does not import vLLM.

Why: `backend` adds vLLM's base classes. Without them, the same code runs where vLLM is not installed, and the fuzzer
(`python -m fuzz --target rollback`) drives it.
Invariant: `validate_tokens` and `row_sequences` do not advance; `rollback` undoes tokens that were accepted.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from structgen.errors import OptionError
from structgen.serving.closing import Closing, KeptNeeds
from structgen.serving.sequence import ConstrainedSequence, after_drafts

from .metrics import MaskTimes

if TYPE_CHECKING:
    import torch

__all__ = [
    "CLOSE",
    "RequestGrammar",
    "closes_within_budget",
    "room_of",
    "row_sequences",
    "without_padding",
]

_log = logging.getLogger("vllm.structgen")


class RequestGrammar:
    """The constraint of one request, with the methods of vLLM's `StructuredOutputGrammar`."""

    def __init__(
        self,
        sequence: ConstrainedSequence,
        times: MaskTimes,
        key: bytes = b"",
        needs: KeptNeeds | None = None,
    ) -> None:
        self.sequence = sequence
        self._limit = 0
        self._needs = needs
        self.key = key
        """The hash of its kind and spec."""
        self._times = times

    def close_within(self, room: int) -> None:
        """Require that the text is complete after at most `room` more tokens, its end included."""
        self._limit = len(self.sequence.matcher.tokens) + room
        if self.sequence.closing is None:
            self.sequence.closing = Closing(
                lambda: self._limit, OrderedDict() if self._needs is None else self._needs
            )

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Advance by tokens that were generated. Return False, and log why, at the first forbidden one."""
        for token in tokens:
            if not self.sequence.advance(token):
                why = self.sequence.failure or f"token {token} is not allowed"
                _log.error("request %s ends: %s", request_id, why)
                return False
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


def without_padding(drafts: Sequence[int]) -> list[int]:
    """Return the draft tokens before the padding, which is negative."""
    return list(drafts[: next((i for i, token in enumerate(drafts) if token < 0), len(drafts))])


def row_sequences(
    sequence: ConstrainedSequence, drafts: Sequence[int], first_read: int = 0, first_masked: int = 0
) -> tuple[list[ConstrainedSequence | None], list[int]]:
    """Return what fills the rows of one request: one before each draft token, and one after all of them.

    Args:
        sequence: The request's text so far.
        drafts: Draft tokens; negative ones at their end are padding.
        first_read: The index of the first draft token that belongs to the constrained text. Those before it are
            reasoning.
        first_masked: The index of the first row that has a mask.

    Returns:
        The sequences, None for a row that allows everything; and, for each row, the row whose mask it has. That is
        another one after a draft token that cannot follow: nothing drawn there is used.
    """
    tokens = without_padding(drafts)
    ahead = after_drafts(sequence, tokens[first_read:])
    last = min(first_read, len(tokens)) + len(ahead) - 1
    is_refused = last < len(tokens)
    rows: list[ConstrainedSequence | None] = []
    for row in range(len(drafts) + 1):
        is_masked = max(first_read, first_masked) <= row <= last
        rows.append(ahead[row - first_read] if is_masked else None)
    return rows, [last if is_refused and row > last else row for row in range(len(rows))]


CLOSE = "close_within_budget"
"""The name of the option, in vLLM's `vllm_xargs` (`extra_args` in Python)."""
_VALUES = {True: True, False: False, "true": True, "false": False}


def closes_within_budget(params: Any) -> bool:
    """Return whether the sampling parameters of a request have the option.

    Raises:
        OptionError: Its value is neither true nor false.
    """
    extra = getattr(params, "extra_args", None) or {}
    value = extra.get(CLOSE, False)
    if not isinstance(value, (bool, int, float, str)) or value not in _VALUES:
        raise OptionError(f"{CLOSE} is {value!r:.40}; it must be true or false")
    return _VALUES[value]


def room_of(request: Any, model_length: int) -> int:
    """Return how many tokens the answer to a request may still have."""
    most = min(request.max_tokens, model_length - request.num_prompt_tokens)
    return int(most - request.num_output_tokens)
