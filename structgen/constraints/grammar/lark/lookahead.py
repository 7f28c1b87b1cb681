r"""Look-ahead at the end of a terminal, decided by the terminals that may follow it.

Why: ``/if\b/``, or Python's ``"(?!"")...`` and ``0(?![1-9])``, test a character after the lexeme, but a scanner sees
the lexeme only. Let V be the forbidden texts: a match and one excluded character that together are not a match. If the
longest match is followed by an excluded character, the text begins with a text of V that is longer than all matches.
Otherwise the longest match is longer than all of V. So one scanner for matches and V distinguishes the two: it finds a
lexeme, or a forbidden text, which is an error. The error is correct if no other terminal can match at the forbidden
text:
  - A shorter match of the pattern, or of a terminal that is tried later, must be one that no terminal can follow, so
    that the text is wrong anyway. Matches of terminals that are tried earlier do not count.
  - A terminal whose matches there are at least as long as the forbidden text is tried first, on such texts only. Its
    shorter matches, where it has no others, must be wrong anyway as well.
Invariant: what cannot be proven is refused, with the terminal and its position.
Cost: some emptiness queries to the regex engine for each such terminal.
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
    """A terminal that a scanner may find."""

    name: str
    language: RE
    ignored: bool = False


@dataclass(frozen=True, slots=True)
class Scanner:
    """A pattern, whose match is the longest text of `language`."""

    name: str
    language: RE
    entries: tuple[Entry, ...] = ()
    conditions: tuple[Condition, ...] = ()
    matches: RE | None = None
    """All texts that the pattern matches, if it prefers shorter ones."""
    host: str = ""
    """The terminal that the pattern belongs to."""


Follow = Callable[[Iterable[str]], list[RE] | None]
"""Returns the languages of the terminals that may follow the given ones; None if any text may. For a terminal with
look-ahead, the language is the texts that begin with an allowed match."""
Refuse = Callable[[str, str], NoReturn]
"""Raises the error for a terminal, with the reason."""


@dataclass(frozen=True, slots=True)
class _Proofs:
    """The proofs for one grammar; the arguments `forbidden` are V."""

    languages: Languages
    follow: Follow
    refuse: Refuse

    def forbidden(self, scanner: Scanner) -> RE | None:
        if not scanner.conditions:
            return None
        wrong = alternate(
            concat([condition.language, character_class(condition.excluded)])
            for condition in scanner.conditions
        )
        wrong = intersect([wrong, complement(scanner.language)])
        if not self.languages.meet(wrong, TEXT):
            return None
        if scanner.matches is not None and self.languages.meet(concat([wrong, TEXT]), scanner.matches):
            self.refuse(scanner.name, "if the next character is excluded, a longer match may be preferred")
        return wrong

    def shorter(self, scanner: Scanner, forbidden: RE) -> bool:
        """Return whether the pattern has a shorter match there. Refuse it if a terminal may follow that match."""
        if not self.languages.meet(_allowed(scanner, concat([ANY, TEXT])), forbidden):
            return False
        following = self.follow([entry.name for entry in scanner.entries])
        texts = concat([forbidden, TEXT])
        if following is None or self._meets(
            following, lambda texts_after: _allowed(scanner, concat([texts_after, TEXT])), texts
        ):
            self.refuse(scanner.name, "a shorter match is possible, and another terminal may follow it")
        return True

    def takes_over(self, other: Scanner, forbidden: RE) -> bool:
        """Return whether the longest match on a text with a forbidden beginning is at least as long as that."""
        if self.languages.apart(other.language, forbidden):
            return True
        if self.languages.includes(other.language, forbidden):
            return True
        return not self.languages.meet(concat([other.language, ANY, TEXT]), forbidden)

    def cannot_continue(self, other: Scanner, forbidden: RE, taken: Sequence[RE] = ()) -> bool:
        """Return whether, on a text with a forbidden beginning, nothing can follow a shorter match.

        Texts that begin with one of `taken` do not count, since another scanner, which is tried first, matches those.
        """
        texts = concat([forbidden, TEXT])
        if taken:
            texts = intersect([texts, *(complement(self.languages.followed(earlier)) for earlier in taken)])
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
        """Return whether a text may be in `texts` and in `after(one)`, for some terminal that may follow.

        In most grammars no text is, and one query about the union of all of them proves it.
        """
        if len(following) > 1 and not self.languages.meet(after(alternate(following)), texts):
            return False
        return any(self.languages.meet(after(language), texts) for language in following)


def _between(before: RE, language: RE) -> RE:
    return concat([before, language, TEXT])


def _allowed(scanner: Scanner, rest: RE) -> RE:
    """Return the matches followed by `rest`, where the look-ahead allows that."""
    conditional = alternate(condition.language for condition in scanner.conditions)
    cases = [concat([intersect([scanner.language, complement(conditional)]), rest])]
    for condition in scanner.conditions:
        first = concat([character_class(negate_ranges(condition.excluded)), TEXT])
        cases.append(concat([condition.language, intersect([rest, first])]))
    return alternate(cases)


def followed_as_allowed(matches: RE, conditions: Sequence[Condition]) -> RE:
    """Return the texts that begin with one of `matches`, followed by what its condition allows."""
    conditional = alternate(condition.language for condition in conditions)
    cases = [concat([intersect([matches, complement(conditional)]), TEXT])]
    for condition in conditions:
        other = concat([character_class(negate_ranges(condition.excluded)), TEXT])
        cases.append(concat([condition.language, alternate([EPSILON, other])]))
    return alternate(cases)


def guard_ordered(
    scanners: list[Scanner], languages: Languages, follow: Follow, contextual: bool, refuse: Refuse
) -> list[Scanner]:
    """Return the scanners of rule "ordered"; those with look-ahead also find the forbidden texts.

    With `contextual`, terminals that are tried earlier may be absent, so they prove nothing.
    """
    proofs = _Proofs(languages, follow, refuse)
    result = list(scanners)
    for scanner in reversed(scanners):
        languages.subject = f"the terminal {scanner.host}"
        forbidden = proofs.forbidden(scanner)
        if forbidden is None:
            continue
        texts = languages.followed(forbidden)
        goes_on = languages.meet(texts, scanner.language)
        lost = [_allowed(scanner, concat([ANY, TEXT]))] if proofs.shorter(scanner, forbidden) else []
        first: list[Scanner] = []
        index = result.index(scanner)
        taken = [scanner.language for scanner in result[:index] if not scanner.conditions and not contextual]
        taken = [language for language in taken if not languages.apart(language, forbidden)]
        for other in result[index + 1 :]:
            if languages.apart(other.language, forbidden):
                continue
            if not languages.meet(languages.followed(other.language), texts):
                continue
            only = intersect([other.language, texts])
            longer = languages.meet(only, TEXT)
            short = not proofs.takes_over(other, forbidden)
            if (longer and (goes_on or other.conditions)) or (
                short and not proofs.cannot_continue(other, forbidden, taken)
            ):
                refuse(scanner.name, f"where it must not match, {other.name} may match instead")
            if longer and any(languages.meet(concat([only, TEXT]), language) for language in lost):
                refuse(
                    scanner.name, f"where it must not match, {other.name} may match, but not before others"
                )
            if short:
                lost.append(intersect([concat([other.language, TEXT]), complement(concat([only, TEXT]))]))
            if longer and languages.includes(texts, other.language):
                result.remove(other)
                first.append(other)
            elif longer:
                entries = tuple(
                    replace(entry, language=intersect([entry.language, only])) for entry in other.entries
                )
                first.append(replace(other, name=f"not {scanner.name}", language=only, entries=entries))
            if longer and not contextual:
                taken.append(only)
        index = result.index(scanner)
        result[index : index + 1] = [*first, _with_errors(scanner, forbidden)]
    return result


def _with_errors(scanner: Scanner, forbidden: RE) -> Scanner:
    """Return the scanner that also finds the forbidden texts, which are no terminal."""
    entries = (
        replace(entry, language=intersect([entry.language, scanner.language])) for entry in scanner.entries
    )
    language = alternate([scanner.language, forbidden])
    return replace(scanner, language=language, entries=tuple(entries), conditions=())


def guard_longest(
    terminals: list[Scanner], languages: Languages, follow: Follow, contextual: bool, refuse: Refuse
) -> list[Scanner]:
    """Return terminals to add after all others, for the look-ahead of these with rule "longest".

    With `contextual`, none can be added, since the parser would not allow them. The rules themselves must exclude what
    may not follow then.
    """
    proofs = _Proofs(languages, follow, refuse)
    result: list[Scanner] = []
    for terminal in terminals:
        languages.subject = f"the terminal {terminal.host}"
        forbidden = proofs.forbidden(terminal)
        if forbidden is None:
            continue
        others = [
            other
            for other in terminals
            if other is not terminal and not languages.apart(other.language, forbidden)
        ]
        if not contextual and languages.includes(alternate([other.language for other in others]), forbidden):
            continue  # a longer match always wins
        proofs.shorter(terminal, forbidden)
        for other in others:
            if not proofs.takes_over(other, forbidden) and not proofs.cannot_continue(other, forbidden):
                refuse(terminal.name, f"where it must not match, {other.name} may match a shorter text")
        if not contextual:
            result.append(Scanner(f"not {terminal.name}", forbidden))
            continue
        following = follow([entry.name for entry in terminal.entries])
        excluded = [concat([character_class(condition.excluded), TEXT]) for condition in terminal.conditions]
        if following is None or any(languages.meet(one, two) for one in following for two in excluded):
            refuse(
                terminal.name,
                "with contextual=True, a terminal that may follow begins with an excluded character",
            )
    return result
