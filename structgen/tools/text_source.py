"""A text that arrives in pieces, and the steps of coroutines that read it.

What: each step is a generator that yields when it needs more text. A reader that consists of such steps stops at the
end of the text and continues when there is more.
Invariant: a step never passes on a character that a later piece could turn into the beginning of a marker.
Cost: each character is copied and looked at a constant number of times, if markers have a bounded length. Only text
that was not read yet is kept together; `whole` joins the pieces when an error shows them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence

from structgen.errors import OutputInvalid

__all__ = ["CutOff", "Found", "Grow", "GrowingText", "Steps", "TextSource"]

Steps = Generator[None, None, None]
Found = Generator[None, None, str | None]
Grow = Callable[[str], None]
"""Called with each piece that is certain."""
_SHOWN = 40


class CutOff(Exception):
    """The text ends in the middle of a part."""


class GrowingText:
    """A text that grows by pieces, each in constant time. They are joined when the text is read."""

    __slots__ = ("_pieces", "length")

    def __init__(self, text: str = "") -> None:
        self._pieces = [text]
        self.length = len(text)

    def append(self, piece: str) -> None:
        """Add a piece at the end."""
        self._pieces.append(piece)
        self.length += len(piece)

    def __str__(self) -> str:
        """Return the whole text."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0]


class TextSource:
    """The text so far, and the position up to which it was read."""

    def __init__(self) -> None:
        self.text = ""
        """The end of the text so far. What was read before the last piece is not in it."""
        self.position = 0
        """The index in `text` of the first character that was not read."""
        self.ends = False
        """Whether no more text follows."""
        self._start = 0
        """The index of the first character of `text` in the whole text."""
        self._whole = GrowingText()
        self._later: list[str] = []
        """Pieces that are not in `text` yet, since the reader waits for the end."""
        self._waits_for_end = False

    def add(self, piece: str, *, ends: bool = False) -> None:
        """Add a piece at the end of the text. `ends`: no more text follows."""
        self._whole.append(piece)
        self._later.append(piece)
        self.ends = ends
        if self._waits_for_end and not ends:
            return
        unread = self.text[self.position :]
        self.text = "".join([unread, *self._later]) if unread or len(self._later) > 1 else piece
        self._start += self.position
        self.position = 0
        self._later.clear()

    @property
    def whole(self) -> str:
        """The whole text so far."""
        return str(self._whole)

    @property
    def length(self) -> int:
        """The number of characters so far."""
        return self._whole.length

    @property
    def index(self) -> int:
        """The index of the first unread character in the whole text."""
        return self._start + self.position

    @property
    def rest(self) -> str:
        """The text that was not read yet."""
        return self.text[self.position :]

    @property
    def has_more(self) -> bool:
        """Whether some text was not read yet."""
        return self.position < len(self.text)

    def starts_with(self, wanted: str) -> bool:
        """Return whether the unread text starts with this one."""
        return self.text.startswith(wanted, self.position)

    def is_cut_off_in(self, *wanted: str) -> bool:
        """Return whether the text ends inside one of these."""
        rest = self.text[self.position : self.position + max(map(len, wanted), default=0)]
        return self.ends and any(len(text) > len(rest) and text.startswith(rest) for text in wanted)

    def pass_on(self, end: int, grow: Grow) -> None:
        """Read up to this position, and pass that text on."""
        if end > self.position:
            piece = self.text[self.position : end]
            self.position = end
            grow(piece)

    def wait_for_end(self) -> Steps:
        """Wait until no more text follows, without looking at it."""
        self._waits_for_end = True
        while not self.ends:
            yield

    def more(self) -> Steps:
        """Wait for more text. Raises `CutOff` at the end of the text."""
        if self.ends:
            raise CutOff
        yield

    def one_of(self, *wanted: str, ahead: bool = False) -> Found:
        """Read the longest of these texts that is here. Returns None without one.

        Args:
            *wanted: The texts.
            ahead: Only find it, and read nothing.
        """
        longest = max(map(len, wanted), default=0)
        while True:
            rest = self.text[self.position : self.position + longest]
            may_follow = any(len(text) > len(rest) and text.startswith(rest) for text in wanted)
            if not may_follow or self.ends:
                here = [text for text in wanted if rest.startswith(text)]
                found = max(here, key=len, default=None)
                self.position += len(found) if found is not None and not ahead else 0
                return found
            yield

    def is_next(self, wanted: str) -> Generator[None, None, bool]:
        """Return whether this text comes next, without reading it."""
        return (yield from self.one_of(wanted, ahead=True)) is not None

    def until(self, wanted: str, grow: Grow, *, must_come: bool = False) -> Found:
        """Pass text on up to `wanted`, which is returned and not read.

        Without one, all text is passed on. With `must_come`, a suffix that may be the beginning of it is kept.
        """
        while True:
            start = self.text.find(wanted, self.position) if wanted else -1
            if start >= 0:
                self.pass_on(start, grow)
                return wanted
            held = 0 if self.ends and not must_come else _overlap(self.text, self.position, wanted)
            self.pass_on(len(self.text) - held, grow)
            if self.ends:
                return None
            yield

    def until_one_of(self, wanted: Sequence[str], grow: Grow) -> Generator[None, None, str]:
        """Pass text on up to the first of these texts, which is returned and not read. None contains another."""
        while True:
            starts = {text: self.text.find(text, self.position) for text in wanted}
            here = [text for text, start in starts.items() if start >= 0]
            if here:
                first = min(here, key=starts.__getitem__)
                self.pass_on(starts[first], grow)
                return first
            self.pass_on(
                len(self.text) - max(_overlap(self.text, self.position, text) for text in wanted), grow
            )
            yield from self.more()

    def up_to_mark(self, marks: re.Pattern[str], grow: Grow) -> Generator[None, None, str]:
        """Pass text on up to a match of one character, which is returned and not read."""
        while True:
            found = marks.search(self.text, self.position)
            if found is not None:
                self.pass_on(found.start(), grow)
                return found[0]
            self.pass_on(len(self.text), grow)
            yield from self.more()

    def through(self, wanted: str, grow: Grow) -> Steps:
        """Pass text on up to `wanted`, and read `wanted`, too."""
        if (yield from self.until(wanted, grow, must_come=True)) is None:
            raise CutOff
        self.position += len(wanted)

    def up_to_last(self, end: str, grow: Grow) -> Generator[None, None, bool]:
        """Pass the whole rest on, without `end` if it ends with that. Returns whether it does."""
        while not self.ends:
            held = 0
            if end:
                is_whole = self.text.endswith(end) and len(self.text) - len(end) >= self.position
                held = len(end) if is_whole else _overlap(self.text, self.position, end)
            self.pass_on(len(self.text) - held, grow)
            yield
        stop = len(self.text) - len(end)
        ends_so = stop >= self.position and self.text.endswith(end)
        self.pass_on(stop if ends_so else len(self.text), grow)
        self.position = len(self.text)
        return ends_so

    def characters(self, allowed: str, grow: Grow) -> Steps:
        """Pass on all characters that are among these."""
        while True:
            stop = self.position
            while stop < len(self.text) and self.text[stop] in allowed:
                stop += 1
            self.pass_on(stop, grow)
            if self.ends or stop < len(self.text):
                return
            yield

    def counter(self, allowed: str, least: int, most: int) -> Steps:
        """Read as many of these characters as are here, at least `least` and at most `most`."""
        while True:
            rest = self.text[self.position : self.position + most]
            length = len(rest) - len(rest.lstrip(allowed))
            if length == most or length < len(rest) or self.ends:
                break
            yield
        if length < least:
            if length == len(rest):
                raise CutOff
            raise self.invalid(f"fewer than {least} of the characters {allowed[:20]!r}")
        self.position += length

    def expect(self, wanted: str, specials: Sequence[str] = ()) -> Steps:
        """Read exactly this text. One of `specials` may be missing at the very end: it has ended the text."""
        if not wanted or (yield from self.one_of(wanted)) is not None:
            return
        if self.has_more or wanted not in specials:
            raise self.missing(wanted)

    def missing(self, *wanted: str) -> Exception:
        """Return the error of a text that has none of these here, or is cut off inside one."""
        if self.is_cut_off_in(*wanted):
            return CutOff()
        return self.invalid(f"{wanted[0]!r} is missing at character {self.index}")

    def invalid(self, message: str) -> OutputInvalid:
        """Return the error of a text that is not a turn, with what is there."""
        shown = self.text[self.position : self.position + _SHOWN]
        return OutputInvalid(
            f"{message}: {shown!r}",
            text=self.whole,
            hint="Read the text with its special tokens, from Vocabulary.spelled.",
        )


def _overlap(text: str, start: int, wanted: str) -> int:
    """Return how many characters at the end of the text may be the beginning of `wanted`."""
    for length in range(min(len(wanted) - 1, len(text) - start), 0, -1):
        if text.endswith(wanted[:length]):
            return length
    return 0
