"""A matcher that runs in a matcher process.

What: `IsolatedMatcher` keeps the tokens that it was given, and sends them with the next query. One query per token is
enough: its answer, a `MatcherView`, holds everything that generation needs after that token.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.protocols import TokenMatcher

from .matcher_answers import MatcherView
from .matcher_process import MatcherProcess

__all__ = ["IsolatedMatcher", "open_isolated_matcher"]


def open_isolated_matcher(process: MatcherProcess) -> IsolatedMatcher | None:
    """Return a new matcher in a process; None if the process has ended."""
    number = process.new_matcher()
    return None if number is None else IsolatedMatcher(process, number)


class IsolatedMatcher(TokenMatcher):
    """A matcher of one row, in a matcher process."""

    def __init__(self, process: MatcherProcess, number: int) -> None:
        self._process = process
        self._number = number
        self._rollback = 0
        """Tokens to remove there, before `_unsent` are appended."""
        self._unsent: list[int] = []
        """Tokens that were appended here only."""
        self._sent: list[int] = []
        """Tokens that were appended there, too."""
        self._view: MatcherView | None = None
        """The view after all tokens, once it was queried."""
        self._forced: list[int] = []
        """Tokens that are known to be the only choice from here on."""
        self._search_failure: str | None = None
        """Why the last search for a completion found none."""
        weakref.finalize(self, process.release, self._number)

    @property
    def can_draft(self) -> bool:
        """False: each step waits for the other process, and the constraint is slow."""
        return False

    @property
    def tokens(self) -> list[int]:
        """The tokens so far."""
        return [*self._sent, *self._unsent]

    def mask(self) -> NDArray[np.int32]:
        """Return the mask of the next token, one bit a token."""
        return np.frombuffer(self._current_view().mask, dtype=np.int32)

    def advance(self, token_id: int) -> bool:
        """Read a token. Return False, and change nothing, if it is not allowed."""
        if self._view is None and self._forced and self._forced[0] == token_id:
            del self._forced[0]
        else:
            mask = self.mask().view(np.uint32)
            if not (0 <= token_id < 32 * len(mask) and mask[token_id >> 5] >> np.uint32(token_id & 31) & 1):
                return False
            forced = self._current_view().forced
            self._forced = list(forced[1:]) if forced and forced[0] == token_id else []
        self._unsent.append(token_id)
        self._view = None
        return True

    def replay(self, tokens: Sequence[int]) -> None:
        """Append tokens that are known to be allowed."""
        self._unsent += tokens
        self._view, self._forced = None, []

    def rollback(self, n: int) -> None:
        """Remove the last `n` tokens. Raises ValueError if fewer were read."""
        here = min(n, len(self._unsent))
        if n > here + len(self._sent):
            raise ValueError(f"cannot roll back {n} tokens: {len(self.tokens)} were read")
        if here:
            del self._unsent[len(self._unsent) - here :]
        if n > here:
            del self._sent[len(self._sent) - (n - here) :]
            self._rollback += n - here
        if n:
            self._view, self._forced = None, []

    def allowed_count(self) -> int:
        """Return the number of tokens that the mask allows."""
        return self._current_view().allowed

    def is_complete(self) -> bool:
        """Return whether the text satisfies the constraint as it is."""
        return self._current_view().is_complete

    @property
    def must_stop(self) -> bool:
        """Return whether nothing but an end token may follow."""
        return self._current_view().must_stop

    @property
    def sets_temperature(self) -> bool:
        """True: only the view at a position says whether the constraint sets one there."""
        return True

    @property
    def temperature(self) -> float | None:
        """Return the temperature that the constraint sets for the next token, or None."""
        return self._current_view().temperature

    def forced(self, most: int = 256) -> list[int]:
        """Return the tokens that must come next, at most `most`."""
        return list(self._current_view().forced[:most])

    def on_disconnect(self) -> None:
        """Called, from any thread, when no one needs the text any more; another thread may wait for an answer."""
        self._process.on_disconnect(self._number)

    def forced_bytes(self, most: int = 4096) -> bytes:
        """Return the bytes that every completion begins with, at most `most`."""
        found: bytes = self._query("forced_bytes", most)
        return found

    def witness(self, max_tokens: int | None = None) -> list[int] | None:
        """Return tokens that complete the text, or None if none were found or more than `max_tokens` are needed."""
        found: list[int] | None = self._query("witness_tokens")
        self._search_failure = self._query("search_failure") if found is None else None
        return None if found is None or (max_tokens is not None and len(found) > max_tokens) else found

    @property
    def search_failure(self) -> str | None:
        """Return why the last call of `witness` found nothing, or None."""
        return self._search_failure

    def least_tokens(self, room: int) -> int | None:
        """Return the least number of tokens that complete the text, or None if more than `room` are needed."""
        found: int | None = self._query("least_tokens", room)
        return found

    def _current_view(self) -> MatcherView:
        if self._view is None:
            self._view = self._query("view")
            assert self._view is not None
            self._forced = []
        return self._view

    def _query(self, name: str, *arguments: Any) -> Any:
        answer = self._process.query(self._number, self._rollback, self._unsent, name, arguments)
        self._sent += self._unsent
        self._rollback, self._unsent = 0, []
        return answer
