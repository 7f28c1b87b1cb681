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
from structgen.constraints.expressions import NOTHING, RE, TEXT, concat, intersect, literal
from structgen.constraints.failures import limit_exceeded
from structgen.vocabulary import Vocabulary

__all__ = ["Restriction", "RestrictionsInForce", "open_restriction"]

_MAX_PROGRAMS = 128
"""The number of compiled languages that are kept for each vocabulary."""
_MAX_JOINED_BYTES = 4_096
"""Up to this many bytes of text, restrictions are intersected with the constraint."""
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
        if self.end is not None and self.end <= length:
            return  # it has read no token after its end
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


class RestrictionsInForce:
    """The restrictions of one text, in the order in which they came into force; they are rolled back with the text.

    Args:
        vocabulary: The vocabulary of the text.
        base: The constraint of the whole text, if it is regular and not free text.
    """

    __slots__ = ("_base", "_restrictions", "_vocabulary")

    def __init__(self, vocabulary: Vocabulary, base: RE | None) -> None:
        self._vocabulary = vocabulary
        self._base = base
        self._restrictions: list[Restriction] = []

    def __len__(self) -> int:
        return len(self._restrictions)

    def live(self) -> list[Restriction]:
        """Return those that still exclude some text."""
        return [restriction for restriction in self._restrictions if restriction.end is None]

    def add(self, expression: RE, rest: bytes, text: bytes, length: int) -> bool:
        """Put a language in force that begins before `rest`, the end of `text`.

        Args:
            expression: The language.
            rest: The part of it that is already written.
            text: The text so far.
            length: The number of its tokens.

        Returns:
            Whether any text can follow. If not, nothing is added.
        """
        added = open_restriction(expression, rest, length, self._vocabulary)
        if added is None:
            return False
        offset = len(text) - len(rest)
        if added.end is None and offset >= 0 and len(text) <= _MAX_JOINED_BYTES:
            added.part = offset, expression
            in_force = (*self.live(), added)
            parts = [restriction.part for restriction in in_force if restriction.part is not None]
            # Each may continue alone where all together cannot: such a dead end is found at once.
            if self._base is not None or len(parts) > 1:
                base = TEXT if self._base is None else self._base
                joint = _joint_matcher(base, parts, text, self._vocabulary)
                if joint is None:
                    return False
                added.join(joint)
        self._restrictions.append(added)
        return True

    def forbid_all(self, length: int) -> None:
        """Allow no token after a text of `length` tokens, because no token can spell a suggestion."""
        native = _core.Matcher(self._vocabulary.engine.compile(("regex", ("empty",))))
        self._restrictions.append(Restriction(native, length))

    def advance(self, token: int, length: int) -> bool:
        """Read the token that makes the text `length` tokens long; return False, and change nothing, if one refuses."""
        for restriction in self.live():
            if not restriction.advance(token, length):
                self.rollback(length - 1)
                return False
        return True

    def rollback(self, length: int) -> None:
        """Roll back to a text of `length` tokens."""
        self._restrictions = [
            restriction for restriction in self._restrictions if restriction.start <= length
        ]
        for restriction in self._restrictions:
            restriction.rollback(length)

    def keep_first(self, count: int) -> None:
        """Remove all but the first `count` restrictions."""
        del self._restrictions[count:]

    def fork(self) -> RestrictionsInForce:
        """Return a copy that advances independently."""
        other = RestrictionsInForce(self._vocabulary, self._base)
        other._restrictions = [restriction.fork() for restriction in self._restrictions]
        return other


def _joint_matcher(
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


def open_restriction(expression: RE, rest: bytes, start: int, vocabulary: Vocabulary) -> Restriction | None:
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
    if len(known) > _MAX_PROGRAMS:
        known.popitem(last=False)
    return program
