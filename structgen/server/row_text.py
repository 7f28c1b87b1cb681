"""The text of a row as a client may see it: whole characters, up to a stop string, never revoked.

Why: a stop string or a tool call may begin in one token and end in another. What could be the beginning of one is held
back until more tokens decide it.
Invariant: where a text stops depends on its tokens alone, not on how many of them arrive at once.
Cost: only new tokens are decoded.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence

__all__ = ["RowText", "held_back"]


class RowText:
    """Decodes the tokens of one row as they arrive."""

    def __init__(self, spell: Callable[[Sequence[int]], bytes], stops: Sequence[str] = ()) -> None:
        """Start with an empty text.

        Args:
            spell: Returns the bytes of tokens, with special tokens as the client may see them.
            stops: The text ends before the first of these that is complete.
        """
        self._spell = spell
        self._stops = tuple(stops)
        self._longest = max(map(len, stops), default=0)
        self._start_over()
        self.stopped = False
        """Whether a stop string has occurred. `text` ends before it."""

    def _start_over(self) -> None:
        self._tokens: list[int] = []
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.text = ""

    def follow(self, tokens: Sequence[int]) -> None:
        """Decode the tokens so far: usually those of the last call and a few more."""
        if self.stopped:
            return
        had = len(self._tokens)
        if len(tokens) < had or list(tokens[:had]) != self._tokens:  # the row has backtracked from a dead end
            self._start_over()
            had = 0
        new = list(tokens[had:])
        if not new:
            return
        if not self._stops:
            self._read(new)
        for token in new if self._stops else ():
            self._read([token])
            if self.stopped:
                return

    def _read(self, new: list[int]) -> None:
        self._tokens += new
        searched = max(0, len(self.text) - self._longest)
        self.text += self._decoder.decode(self._spell(new))
        found = [(at + len(stop), at) for stop in self._stops if (at := self.text.find(stop, searched)) >= 0]
        if found:
            self.text = self.text[: min(found)[1]]
            self.stopped = True

    @property
    def length(self) -> int:
        """The number of tokens that were decoded, up to the one that completes a stop string."""
        return len(self._tokens)

    @property
    def settled(self) -> str:
        """The part of the text that no stop string can cut off any more."""
        return self.text if self.stopped else held_back(self.text, self._stops)


def held_back(text: str, markers: Sequence[str]) -> str:
    """Return `text` without a suffix that may be the beginning of one of `markers`."""
    longest = 0
    for marker in markers:
        for length in range(min(len(marker) - 1, len(text)), longest, -1):
            if text.endswith(marker[:length]):
                longest = length
                break
    return text[: len(text) - longest]
