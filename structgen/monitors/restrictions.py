"""The languages that are in force at some place of a text: each from the place where a monitor was asked.

Why: a suggestion says something of the text that follows a place; that place may be in the middle of a token, and the
text may be taken back before it.
Invariant: after any sequence of readings and rollbacks, exactly those are in force that began at or before the end of
the text and do not allow everything by now.
Cost: one native matcher for each; a compiled language is kept per vocabulary.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict

from structgen import _core
from structgen.constraints.expressions import NOTHING, RE
from structgen.constraints.failures import limit_exceeded
from structgen.vocabulary import Vocabulary

__all__ = ["Restriction", "restriction"]

_PROGRAMS = 128
_programs: weakref.WeakKeyDictionary[Vocabulary, OrderedDict[RE, _core.Program | None]] = (
    weakref.WeakKeyDictionary()
)


class Restriction:
    """One language, read from its beginning.

    start  tokens of the text when it came into force
    end    tokens of the text when it allowed everything; None: it is in force
    """

    __slots__ = ("end", "native", "start")

    def __init__(self, native: _core.Matcher, start: int, end: int | None = None) -> None:
        self.native, self.start, self.end = native, start, end

    def advance(self, token: int, length: int) -> bool:
        """Read the token that makes the text `length` tokens long."""
        if not self.native.advance(token):
            return False
        if self.native.is_universal:
            self.end = length
        return True

    def rollback(self, length: int) -> None:
        """Back to a text of `length` tokens, `start` or more."""
        read = len(self.native.tokens)
        if length - self.start < read:
            self.native.rollback(read - (length - self.start))
            self.end = None

    def fork(self) -> Restriction:
        """The same for another reader."""
        return Restriction(self.native.fork(), self.start, self.end)


def restriction(expression: RE, rest: bytes, start: int, vocabulary: Vocabulary) -> Restriction | None:
    """The language of `expression`, of which `rest` was read; None where nothing goes on with that."""
    program = _program(expression, vocabulary)
    if program is None:
        return None
    native = _core.Matcher(program)
    if rest and not native.begin(rest):
        return None
    return Restriction(native, start, start if native.is_universal else None)


def _program(expression: RE, vocabulary: Vocabulary) -> _core.Program | None:
    known = _programs.setdefault(vocabulary, OrderedDict())
    if expression in known:
        known.move_to_end(expression)
        return known[expression]
    try:
        program: _core.Program | None = None
        if expression != NOTHING:
            program = vocabulary.engine.compile(("regex", expression))
            if program.empty_parts() is not None:
                program = None
    except _core.LimitError as error:
        raise limit_exceeded(error, "a monitor's suggestion") from None
    known[expression] = program
    if len(known) > _PROGRAMS:
        known.popitem(last=False)
    return program
