"""A cache of prompts that the model has read: a prompt that begins as an earlier one is read from the difference on.

Why: the requests of one application begin alike, with a system prompt and the definitions of tools.
What: the session of a prompt is kept after its prefill. A new prompt takes a copy of the session with which it has the
longest common beginning, cropped to it. Sessions are kept for each scope, least recently used ones are evicted first.
Invariant: a prompt of one scope is never compared with one of another, so that the time of a request says nothing about
the prompts of others. The logits are those of a prefill of the whole prompt, up to rounding. A copy that fails, mostly
for lack of memory, empties the cache and costs time only.
Cost: a copy of the KV cache of the common part, and of each prompt that is kept.
Source: Kwon et al. 2023 (vLLM); Zheng et al. 2024 (SGLang) keep blocks and a tree of them.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from structgen.protocols import capabilities_of

from .prefix_logits import common_length

__all__ = ["PrefixCache"]

logger = logging.getLogger(__name__)

_LEAST_TOKENS = 32
"""A prompt with fewer tokens in common is read whole. One is kept only if it has this many that no kept prompt has."""


class PrefixCache:
    """Sessions of prompts.

    Args:
        most_bytes: The largest size of their KV caches.
        token_bytes: The size of the KV cache of one token (`LanguageModel.cache_bytes_per_token`).
    """

    def __init__(self, most_bytes: int, token_bytes: int) -> None:
        self.most_tokens = most_bytes // token_bytes if token_bytes else 0
        """The largest number of tokens of all prompts together; 0 if their size is not known."""
        self._sessions: OrderedDict[tuple[Any, tuple[int, ...]], Any] = OrderedDict()
        """The session of each prompt, by its scope and tokens, the least recently used first."""
        self.tokens = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def start(self, prompt: Sequence[int], scope: Any) -> tuple[Any, int] | None:
        """Return a session that holds the first tokens of a prompt, and their number.

        None: no kept prompt has enough in common. At least one token of the prompt is left to read.
        """
        key, common = self._longest(prompt, scope)
        common = min(common, len(prompt) - 1)
        if key is None or common < _LEAST_TOKENS:
            return None
        self._sessions.move_to_end(key)
        session = self._copy(self._sessions[key])
        if session is None:
            return None
        if common < len(key[1]):
            session.rollback(0, len(key[1]) - common)
        return session, common

    def keep(self, prompt: Sequence[int], scope: Any, session: Any) -> None:
        """Keep a copy of a session of one row, which has read a prompt and nothing else."""
        can = capabilities_of(session)
        key, common = self._longest(prompt, scope)
        if not (can.forks and can.crops_cheaply and can.joins) or len(prompt) - common < _LEAST_TOKENS:
            return
        if len(prompt) > self.most_tokens:
            return
        if key is not None and common == len(key[1]):
            self._evict(key)  # the new one begins with it
        while self.tokens + len(prompt) > self.most_tokens:
            self._evict(next(iter(self._sessions)))
        if (copied := self._copy(session)) is not None:
            self._sessions[scope, tuple(prompt)] = copied
            self.tokens += len(prompt)

    def clear(self) -> None:
        """Forget all prompts."""
        self._sessions.clear()
        self.tokens = 0

    def _longest(self, prompt: Sequence[int], scope: Any) -> tuple[tuple[Any, tuple[int, ...]] | None, int]:
        """Return the key of the prompt of this scope with the longest common beginning, and its length."""
        best, length = None, 0
        for key in self._sessions:
            if key[0] == scope and (common := common_length(key[1], prompt)) > length:
                best, length = key, common
        return best, length

    def _copy(self, session: Any) -> Any:
        """Return a copy of a session of one row; None, and an empty cache, if that fails."""
        try:
            return session.fork([0])
        except Exception:
            logger.exception("the cache of prompts is emptied, because a copy of a prompt failed")
            self.clear()
            return None

    def _evict(self, key: tuple[Any, tuple[int, ...]]) -> None:
        del self._sessions[key]
        self.tokens -= len(key[1])
