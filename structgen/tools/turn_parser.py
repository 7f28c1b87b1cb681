"""Parse a turn from pieces of any size into typed events.

    parser = turn.parser()
    for piece in pieces:             texts, or bytes; special tokens by their names
        for event in parser.feed(piece):
            print(event.kind, event.text)
    parser.finish()
    parser.turn                      what `turn.read` returns for the whole text

Why: the parser is made from the description from which the constraint is made, so it reads each text that the
constraint allows, and reads it in one way.
Invariant: see `events`.
Cost: linear in the text, in pieces of any size.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from structgen.errors import OptionError
from structgen.vocabulary import Vocabulary

from .events import AssistantTurn, TurnEvent
from .partial_turn import PartialTurn

__all__ = ["TurnParser"]


class TurnParser:
    """Parses one turn; `ToolTurn.parser` returns it."""

    def __init__(self, reader: PartialTurn) -> None:
        """Start with an empty text."""
        self._reader = reader
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._has_ended = False

    @property
    def is_whole(self) -> bool:
        """Whether the text is a complete turn. It is known after `finish`."""
        return self._reader.is_whole

    @property
    def turn(self) -> AssistantTurn:
        """The finished turn. Raises `OutputInvalid` if the text is not a complete turn."""
        return self._reader.whole()

    def feed(self, piece: str | bytes) -> list[TurnEvent]:
        """Read the next piece.

        Args:
            piece: Text, or bytes that may end in the middle of a character. Special tokens are spelled by name.

        Returns:
            The events that are certain. Text that may be the beginning of a marker waits for the next piece.

        Raises:
            OutputInvalid: The text is not a turn.
        """
        self._check_open()
        return self._reader.feed(self._decoder.decode(piece) if isinstance(piece, bytes) else piece)

    def feed_tokens(self, tokens: Iterable[int], vocabulary: Vocabulary) -> list[TurnEvent]:
        """Read the next tokens. Special tokens have the names that they have in the vocabulary."""
        return self.feed(vocabulary.spelled_bytes(tokens))

    def finish(self, *, is_cut_off: bool = False) -> list[TurnEvent]:
        """Read the end of the text, and return the last events.

        Args:
            is_cut_off: The text may end anywhere; it is read as far as it goes.

        Raises:
            OutputInvalid: The text is not a complete turn.
        """
        self._check_open()
        self._has_ended = True
        events = self._reader.feed(self._decoder.decode(b"", True), ends=True)
        if not is_cut_off:
            self._reader.whole()
        return events

    def _check_open(self) -> None:
        if self._has_ended:
            raise OptionError("the parser has finished its turn", hint="Make another one: turn.parser().")
