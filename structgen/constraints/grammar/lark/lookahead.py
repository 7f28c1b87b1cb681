r"""Look-ahead at the end of a terminal, judged by what may stand behind it.

Why: ``/if\b/``, or Python's ``"(?!"")...`` and ``0(?![1-9])``, ask for a character that is not part of the lexeme,
while a scanner of ours sees the lexeme only. Let V be the forbidden texts: a match and one excluded character, where
that is not a match again. Where the longest match is followed by an excluded character, the text begins with one of
V that is longer than all matches; elsewhere the longest match is longer than all of V. So a scanner for matches and
V at once tells the two apart: what it finds is a lexeme, or a forbidden text, which is no terminal and an error.
An error is right there if no other terminal can take the forbidden text up:
  - a shorter match of the pattern, or of a terminal that is tried later, must be one behind which no terminal fits
    that may follow it, so that the text is wrong anyway; what a terminal takes that is tried before is left out;
  - a terminal whose matches there are as long as the forbidden text at least is tried first, on such texts alone;
    its matches that are shorter, where it has no others, must be wrong anyway as well.
Invariant: what this cannot prove is refused, with the terminal and its place.
Cost: some questions of emptiness to the regex engine for each such terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NoReturn

from structgen.constraints.expressions import (
    ANY,
    EPSILON,
    RE,
    TEXT,
    alternate,
    character_class,
    complement,
    concat,
    intersect,
    negate_ranges,
)

from .preferred_match import Condition
from .terminal_languages import Languages

__all__ = ["Entry", "Follow", "Refuse", "Scanner", "followed_as_allowed", "guard_longest", "guard_ordered"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A kind of lexeme that a scanner finds."""

    name: str
    language: RE
    ignored: bool = False


@dataclass(frozen=True, slots=True)
class Scanner:
    """A pattern: the longest text of `language` is its match."""

    name: str
    language: RE
    entries: tuple[Entry, ...] = ()
    conditions: tuple[Condition, ...] = ()
    matches: RE | None = None
    """All that the pattern matches, where it prefers short matches."""
    host: str = ""
    """The terminal whose pattern it is."""


Follow = Callable[[Iterable[str]], list[RE] | None]
"""The languages of the terminals that may follow these; None if anything may. Of a terminal with look-ahead, the texts
that begin with a match that the look-ahead allows there."""
Refuse = Callable[[str, str], NoReturn]
"""Of the terminal, and why."""


@dataclass(frozen=True, slots=True)
class _Judge:
    """`forbidden` is V."""

    languages: Languages
    follow: Follow
    refuse: Refuse

    def forbidden(self, scanner: Scanner) -> RE | None:
        if not scanner.conditions:
            return None
        wrong = alternate(concat([one.language, character_class(one.excluded)]) for one in scanner.conditions)
        wrong = intersect([wrong, complement(scanner.language)])
        if not self.languages.meet(wrong, TEXT):
            return None
        if scanner.matches is not None and self.languages.meet(concat([wrong, TEXT]), scanner.matches):
            self.refuse(scanner.name, "where a character after it is excluded, a longer match may be taken")
        return wrong

    def shorter(self, scanner: Scanner, forbidden: RE) -> bool:
        """Does the pattern itself have a shorter match there? If so, nothing may follow it."""
        if not self.languages.meet(_allowed(scanner, concat([ANY, TEXT])), forbidden):
            return False
        following = self.follow([entry.name for entry in scanner.entries])
        texts = concat([forbidden, TEXT])
        if following is None or self._meets(
            following, lambda one: _allowed(scanner, concat([one, TEXT])), texts
        ):
            self.refuse(scanner.name, "a shorter match may be taken, and another terminal follow it")
        return True

    def takes_over(self, other: Scanner, forbidden: RE) -> bool:
        """Where a text begins with a forbidden one: is every match of this, the longest, at least as long?"""
        if self.languages.apart(other.language, forbidden):
            return True
        if self.languages.includes(other.language, forbidden):
            return True
        return not self.languages.meet(concat([other.language, ANY, TEXT]), forbidden)

    def doomed(self, other: Scanner, forbidden: RE, taken: Sequence[RE] = ()) -> bool:
        """Where a text begins with a forbidden one: can nothing follow a match that is shorter than that?

        Texts that begin with one of `taken` do not count: another scanner, which is tried first, takes those.
        """
        texts = concat([forbidden, TEXT])
        if taken:
            texts = intersect([texts, *(complement(self.languages.followed(one)) for one in taken)])
        left = other.language
        for entry in other.entries:
            lexemes = intersect([left, entry.language])
            left = intersect([left, complement(entry.language)])
            if not self.languages.meet(concat([lexemes, ANY, TEXT]), forbidden):
                continue
            following = self.follow([entry.name])
            if following is None or self._meets(following, partial(_between, lexemes), texts):
                return False
        return True

    def _meets(self, following: list[RE], after: Callable[[RE], RE], texts: RE) -> bool:
        """May a text be in `texts` and in `after(one)`, for a terminal that may follow?

        In most grammars the answer is no, and one question about the union of all of them shows it.
        """
        if len(following) > 1 and not self.languages.meet(after(alternate(following)), texts):
            return False
        return any(self.languages.meet(after(one), texts) for one in following)


def _between(before: RE, one: RE) -> RE:
    return concat([before, one, TEXT])


def _allowed(scanner: Scanner, rest: RE) -> RE:
    """Matches that what follows them allows, and this behind them."""
    conditional = alternate(condition.language for condition in scanner.conditions)
    cases = [concat([intersect([scanner.language, complement(conditional)]), rest])]
    for condition in scanner.conditions:
        first = concat([character_class(negate_ranges(condition.excluded)), TEXT])
        cases.append(concat([condition.language, intersect([rest, first])]))
    return alternate(cases)


def followed_as_allowed(matches: RE, conditions: Sequence[Condition]) -> RE:
    """The texts that begin with one of `matches`, in front of what its condition allows."""
    conditional = alternate(condition.language for condition in conditions)
    cases = [concat([intersect([matches, complement(conditional)]), TEXT])]
    for condition in conditions:
        other = concat([character_class(negate_ranges(condition.excluded)), TEXT])
        cases.append(concat([condition.language, alternate([EPSILON, other])]))
    return alternate(cases)


def guard_ordered(
    scanners: list[Scanner], languages: Languages, follow: Follow, contextual: bool, refuse: Refuse
) -> list[Scanner]:
    """The scanners of rule "ordered", those with look-ahead made to find what it forbids as well.

    Where only terminals that the grammar allows compete (`contextual`), those that are tried first may be absent.
    """
    judge = _Judge(languages, follow, refuse)
    result = list(scanners)
    for scanner in reversed(scanners):
        languages.subject = f"the terminal {scanner.host}"
        forbidden = judge.forbidden(scanner)
        if forbidden is None:
            continue
        texts = languages.followed(forbidden)
        goes_on = languages.meet(texts, scanner.language)
        lost = [_allowed(scanner, concat([ANY, TEXT]))] if judge.shorter(scanner, forbidden) else []
        first: list[Scanner] = []
        place = result.index(scanner)
        taken = [one.language for one in result[:place] if not one.conditions and not contextual]
        taken = [one for one in taken if not languages.apart(one, forbidden)]
        for other in result[place + 1 :]:
            if languages.apart(other.language, forbidden):
                continue
            if not languages.meet(languages.followed(other.language), texts):
                continue
            only = intersect([other.language, texts])
            longer = languages.meet(only, TEXT)
            short = not judge.takes_over(other, forbidden)
            if (longer and (goes_on or other.conditions)) or (
                short and not judge.doomed(other, forbidden, taken)
            ):
                refuse(scanner.name, f"where it is forbidden, {other.name} may match instead")
            if longer and any(languages.meet(concat([only, TEXT]), one) for one in lost):
                refuse(scanner.name, f"where it is forbidden, {other.name} may match, but not before others")
            if short:
                lost.append(intersect([concat([other.language, TEXT]), complement(concat([only, TEXT]))]))
            if longer and languages.includes(texts, other.language):
                result.remove(other)
                first.append(other)
            elif longer:
                entries = tuple(
                    replace(one, language=intersect([one.language, only])) for one in other.entries
                )
                first.append(replace(other, name=f"not {scanner.name}", language=only, entries=entries))
            if longer and not contextual:
                taken.append(only)
        place = result.index(scanner)
        result[place : place + 1] = [*first, _with_errors(scanner, forbidden)]
    return result


def _with_errors(scanner: Scanner, forbidden: RE) -> Scanner:
    """The scanner that finds what is forbidden, too, but as no terminal."""
    entries = (replace(one, language=intersect([one.language, scanner.language])) for one in scanner.entries)
    language = alternate([scanner.language, forbidden])
    return replace(scanner, language=language, entries=tuple(entries), conditions=())


def guard_longest(
    terminals: list[Scanner], languages: Languages, follow: Follow, contextual: bool, refuse: Refuse
) -> list[Scanner]:
    """Terminals to add, after all others, for the look-ahead of these under rule "longest".

    Where only terminals that the grammar allows compete (`contextual`), none can be added: there the rules must say
    that what is excluded does not follow.
    """
    judge = _Judge(languages, follow, refuse)
    result: list[Scanner] = []
    for terminal in terminals:
        languages.subject = f"the terminal {terminal.host}"
        forbidden = judge.forbidden(terminal)
        if forbidden is None:
            continue
        others = [
            one for one in terminals if one is not terminal and not languages.apart(one.language, forbidden)
        ]
        if not contextual and languages.includes(alternate([one.language for one in others]), forbidden):
            continue  # a longer match always wins
        judge.shorter(terminal, forbidden)
        for other in others:
            if not judge.takes_over(other, forbidden) and not judge.doomed(other, forbidden):
                refuse(terminal.name, f"where it is forbidden, {other.name} may match a shorter text")
        if not contextual:
            result.append(Scanner(f"not {terminal.name}", forbidden))
            continue
        following = follow([entry.name for entry in terminal.entries])
        excluded = [concat([character_class(one.excluded), TEXT]) for one in terminal.conditions]
        if following is None or any(languages.meet(one, two) for one in following for two in excluded):
            refuse(terminal.name, "with contextual=True, no terminal that begins so may follow; one does")
    return result
