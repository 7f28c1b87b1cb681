"""The text of a row as a client may see it: whole characters, up to a stop string, never taken back.

Why: a stop string or a tool call may begin in one token and end in another, so what could be the beginning of one is
held back until it is decided.
Cost: decoding of the new tokens alone.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence

__all__ = ["RowText", "held_back"]


class RowText:
    """Follows one row. `spell` turns tokens into text bytes, special tokens as the client may see them."""

    def __init__(self, spell: Callable[[Sequence[int]], bytes], stops: Sequence[str] = ()) -> None:
        self._spell = spell
        self._stops = tuple(stops)
        self._longest = max(map(len, stops), default=0)
        self._start_over()
        self.stopped = False
        """Has a stop string come? Then `text` ends before it."""

    def _start_over(self) -> None:
        self._tokens: list[int] = []
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.text = ""

    def follow(self, tokens: Sequence[int]) -> None:
        """The tokens so far; mostly those of last time and a few more."""
        if self.stopped:
            return
        had = len(self._tokens)
        if len(tokens) < had or list(tokens[:had]) != self._tokens:  # it went back from a dead end
            self._start_over()
            had = 0
        new = list(tokens[had:])
        if not new:
            return
        self._tokens += new
        searched = max(0, len(self.text) - self._longest)
        self.text += self._decoder.decode(self._spell(new))
        places = [place for stop in self._stops if (place := self.text.find(stop, searched)) >= 0]
        if places:
            self.text = self.text[: min(places)]
            self.stopped = True

    @property
    def settled(self) -> str:
        """As much of it as no stop string can take back."""
        return self.text if self.stopped else held_back(self.text, self._stops)


def held_back(text: str, markers: Sequence[str]) -> str:
    """`text` without an end that one of `markers` may begin with."""
    longest = 0
    for marker in markers:
        for length in range(min(len(marker) - 1, len(text)), longest, -1):
            if text.endswith(marker[:length]):
                longest = length
                break
    return text[: len(text) - longest]
