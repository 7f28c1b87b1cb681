"""What a monitor suggests, as a regular language of the rest of the text.

Why: what a monitor knows is a set of names or a pattern; the native core makes token masks of either.
Invariant: a name is complete only where a byte that cannot belong to it follows, or the text ends; what follows the
name is unconstrained.
Cost: linear in the names; the trie is the core's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from structgen.constraints.base import Constraint, constraint_of, is_type
from structgen.constraints.expressions import (
    EPSILON,
    NOTHING,
    RE,
    TEXT,
    Ranges,
    alternate,
    character_class,
    complement,
    concat,
    intersect,
    literal,
    negate_ranges,
    normalise_ranges,
    repeat,
)
from structgen.errors import OptionError, with_kind

from .languages import Language

__all__ = ["MOST_NAMES", "Names", "Rest", "Suggestion", "expression_of", "folded"]

MOST_NAMES = 50_000


@dataclass(frozen=True)
class Names:
    """The names that may come at a position.

    Attributes:
        names: The allowed names, or, with `excluded`, the forbidden ones.
        optional: Whether something that is no name may come as well, such as a number or a bracket.
        new: Whether any name may come if ``=``, ``:`` or ``,`` follows, which defines it (``self.x = 1``).
        excluded: Whether `names` are those that may *not* come.
    """

    names: frozenset[str]
    optional: bool = False
    new: bool = False
    excluded: bool = False

    def __init__(
        self, names: Collection[str], *, optional: bool = False, new: bool = False, excluded: bool = False
    ) -> None:
        if isinstance(names, str):
            raise OptionError(
                f"names is the text {names!r:.60}; it is several names", hint=f"Write [{names!r:.60}]."
            )
        if not isinstance(names, Collection):
            raise OptionError(f"names is {with_kind(names)}", hint="Give a list of names.")
        object.__setattr__(self, "names", frozenset(names))
        object.__setattr__(self, "optional", optional)
        object.__setattr__(self, "new", new)
        object.__setattr__(self, "excluded", excluded)


class Rest(NamedTuple):
    """A regular language of all the text that follows."""

    expression: RE


Suggestion = Names | Constraint | Rest | Collection[str] | bool | None
"""Names; a constraint on all of the text that follows; True for anything; None for nothing known; False to refuse."""


def expression_of(given: object, language: Language, *, spaces: str = " \t") -> RE | None:
    """Return the language of what may follow; None if anything may.

    Args:
        given: A suggestion of a monitor.
        language: The language of the document.
        spaces: Characters that may stand before a name.

    Raises:
        OptionError: `given` is not a suggestion.
    """
    if given is None or given is True:
        return None
    if given is False:
        return NOTHING
    if isinstance(given, Rest):
        return given.expression
    if isinstance(given, Constraint) or is_type(given):
        suggested: Constraint = constraint_of(given)
        expression = suggested.regular()
        if expression is None:
            raise OptionError(
                f"a monitor suggested {given!r:.60}, which is no regular language",
                hint="Suggest names, or a constraint made with regex(), choice() and text().",
            )
        return expression
    if isinstance(given, Collection) and not isinstance(given, str | bytes | Names):
        if not all(isinstance(name, str) for name in given):
            raise OptionError(f"a monitor suggested {given!r:.60}, which are not all texts")
        given = Names(given)
    if not isinstance(given, Names):
        raise OptionError(
            f"a monitor suggested {with_kind(given)}",
            hint="Suggest a list of names, a constraint, False or None.",
        )
    if len(given.names) > MOST_NAMES or not all(isinstance(name, str) for name in given.names):
        raise OptionError(
            f"a monitor suggested {len(given.names)} names; they are at most {MOST_NAMES} texts"
        )
    if not given.names and not (given.optional or given.new or given.excluded):
        return NOTHING
    return _names(given, language, spaces)


def _names(given: Names, language: Language, before: str) -> RE:
    letters, word = _characters(language)
    spaces = repeat(_class(" \t" if language.line_statements else " \t\r\n"), 0, None)
    ends = alternate([EPSILON, concat((character_class(negate_ranges(word)), TEXT))])
    listed = ("literals", tuple(sorted(given.names))) if len(given.names) > 1 else _all(given.names)
    if language.folds and given.names:
        listed = folded(given.names)
    any_name = concat((character_class(letters), repeat(character_class(word), 0, None)))
    name = intersect((any_name, complement(listed))) if given.excluded else listed
    branches = [concat((name, ends))]
    if given.new:
        branches.append(concat((any_name, spaces, _made())))
    if given.optional:
        other = negate_ranges(normalise_ranges([*letters, (9, 10), (13, 13), (32, 32)]))
        branches.append(alternate([EPSILON, concat((character_class(other), TEXT))]))
    return concat((repeat(_class(before), 0, None), alternate(branches))) if before else alternate(branches)


def _made() -> RE:
    """Return what may follow a new name: an annotation, another target or an assignment, but no comparison."""
    assigned = concat((literal("="), alternate([EPSILON, concat((_not("="), TEXT))])))
    return alternate([concat((literal(":"), TEXT)), concat((literal(","), TEXT)), assigned])


def _all(names: Collection[str]) -> RE:
    return alternate([literal(name) for name in names]) if names else NOTHING


def _not(character: str) -> RE:
    return character_class(negate_ranges(((ord(character), ord(character)),)))


def _class(characters: str) -> RE:
    return character_class(normalise_ranges([(ord(character), ord(character)) for character in characters]))


def folded(names: Collection[str]) -> RE:
    """Return the language of these names, in upper or lower case."""
    return alternate([_folded(name) for name in sorted(names)])


def _folded(name: str) -> RE:
    return concat(
        [
            _class(character.lower() + character.upper()) if character.isascii() else literal(character)
            for character in name
        ]
    )


def _characters(language: Language) -> tuple[Ranges, Ranges]:
    """Return the characters that begin a name, and those that continue it."""
    extra = [(character, character) for character in language.extra]
    letters = normalise_ranges([(65, 90), (95, 95), (97, 122), (128, 0x10FFFF), *extra])
    return letters, normalise_ranges([*letters, (48, 57)])
