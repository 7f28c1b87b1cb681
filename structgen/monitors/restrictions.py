"""The languages in force at a position of a text, each from the position at which a monitor was queried.

Why: a suggestion constrains the text after a position; that position may be in the middle of a token, and the text may
be rolled back to before it.
Invariant: after any sequence of readings and rollbacks, exactly those are in force that began at or before the end of
the text and still exclude some text.
Cost: one native matcher for each; a compiled language is kept per vocabulary.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Sequence

from structgen import _core
from structgen.constraints.expressions import NOTHING, RE, concat, intersect, literal
from structgen.constraints.failures import limit_exceeded
from structgen.vocabulary import Vocabulary

__all__ = ["Restriction", "joint_matcher", "restriction"]

_PROGRAMS = 128
_programs: weakref.WeakKeyDictionary[Vocabulary, OrderedDict[RE, _core.Program | None]] = (
    weakref.WeakKeyDictionary()
)


class Restriction:
    """One language in force, read from its beginning.

    Attributes:
        start: Number of tokens of the text when it came into force.
        end: Number of tokens of the text when it allowed everything; None while it is in force.
    """

    __slots__ = ("_alone", "end", "native", "part", "start")

    def __init__(
        self,
        alone: _core.Matcher,
        start: int,
        end: int | None = None,
        part: tuple[int, RE] | None = None,
        joint: _core.Matcher | None = None,
    ) -> None:
        self._alone, self.start, self.end = alone, start, end
        self.part = part
        """The byte offset at which the language begins, and its expression."""
        self.native = alone if joint is None else joint
        """The matcher that gives masks: of this language alone, or of all that are in force."""

    def join(self, joint: _core.Matcher) -> None:
        """Use the masks of a matcher of this language and others."""
        self.native = joint

    def advance(self, token: int, length: int) -> bool:
        """Read the token that makes the text `length` tokens long."""
        if not self.native.advance(token):
            return False
        if self.native is not self._alone:
            self._alone.advance(token)
        if self._alone.is_universal:
            self.end = length
        return True

    def rollback(self, length: int) -> None:
        """Roll back to a text of `length` tokens, `start` or more."""
        read = len(self.native.tokens)
        if length - self.start < read:
            self.native.rollback(read - (length - self.start))
            if self.native is not self._alone:
                self._alone.rollback(read - (length - self.start))
            self.end = None

    def fork(self) -> Restriction:
        """Return a copy that advances independently."""
        joint = None if self.native is self._alone else self.native.fork()
        return Restriction(self._alone.fork(), self.start, self.end, self.part, joint)


def joint_matcher(
    base: RE, parts: Sequence[tuple[int, RE]], text: bytes, vocabulary: Vocabulary
) -> _core.Matcher | None:
    """Return a matcher of the texts of `base` that are in each language from its offset on, after `text`.

    Return None if there is no such text.
    """
    beginnings = [concat((literal(text[:offset].decode()), rest)) for offset, rest in parts]
    try:
        program = vocabulary.engine.compile(("regex", intersect([base, *beginnings])))
        if program.empty_parts() is not None:
            return None
        native = _core.Matcher(program)
        return native if native.begin(text) else None
    except _core.LimitError as error:
        raise limit_exceeded(error, "a monitor's suggestion") from None


def restriction(expression: RE, rest: bytes, start: int, vocabulary: Vocabulary) -> Restriction | None:
    """Return the restriction of `expression` after `rest`; None if no text of it begins so."""
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
