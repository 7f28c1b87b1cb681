"""The arguments of a call by its signature: names of keyword arguments, and how many are allowed and required.

What: after ``(`` and ``,`` a name that is followed by ``=`` must belong to a parameter without an argument. Once no
positional parameter is left, a keyword argument or the end must follow. The bracket closes only after every required
parameter has an argument. Of overloads, all that any of them allows.
Unknown, and so unconstrained: a call whose signature is not known or takes anything, and what follows ``*`` or ``...``.
Approximate: a comparison with a name that is no parameter must have a space before ``==``, so that a wrong keyword
argument is known before its value is written.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from structgen.constraints.expressions import (
    EPSILON,
    RE,
    TEXT,
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

from .futures import then
from .language_server import Analyser, Signature, Signatures
from .members import path_of
from .monitor import Context, Monitor
from .suggestions import Rest

__all__ = ["ArgumentMonitor"]

_KEPT = 256
_CUT = re.compile(r"\bfor\b(?!.*\bin\b)|\blambda\b[^:]*$", re.DOTALL)
"""Texts that a comma split although it separates no arguments: ``x for k, v in y``, ``lambda a, b: a``."""
_KEYWORD = re.compile(r"([A-Za-z_]\w*)\s*=(?!=)")
_LETTER = normalise_ranges([(65, 90), (95, 95), (97, 122), (128, 0x10FFFF)])
_WORD = normalise_ranges([*_LETTER, (48, 57)])
_SPACES = repeat(character_class(normalise_ranges([(9, 10), (13, 13), (32, 32)])), 0, None)
_NAME = concat((character_class(_LETTER), repeat(character_class(_WORD), 0, None)))


class _Room(NamedTuple):
    """What one signature still allows after the arguments so far."""

    positional: bool
    """Whether a positional argument may follow."""
    names: frozenset[str] | None
    """Names of the keyword arguments that may follow; None: any."""
    missing: bool
    """Whether a required parameter has no argument yet."""


class ArgumentMonitor(Monitor):
    """Require arguments to fit the signature of the function that is called."""

    def __init__(self, analyser: Analyser, *, keywords: bool = True) -> None:
        """Query `analyser` for signatures; `keywords`: the language has keyword arguments, as Python has."""
        super().__init__(f"arguments ({analyser.name})", ("call", "argument", "close"))
        self.analyser = analyser
        self._keywords = keywords
        self._kept: OrderedDict[Hashable, Future[Signatures | None]] = OrderedDict()

    def suggest(self, context: Context) -> Future[Any] | None:
        """Return what may come as the next argument; at the end False where one is missing."""
        given = context.given
        if not given or not context.callee or any(map(_CUT.search, given)):
            return None
        return then(self._signatures(context), lambda signatures: self._allowed(signatures, context, given))

    def _signatures(self, context: Context) -> Future[Signatures | None]:
        """Return the signatures of the call, which are requested once."""
        # The query is about the call and not about its arguments so far, so that one answer serves all of them.
        opened = context.text[: context.opening + 1]
        key = context.callee, context.digest(len(opened))
        known = self._kept.get(key)
        if known is None or (known.done() and (known.cancelled() or known.result() is None)):
            known = self.analyser.signatures(path_of(context), context.document_at(len(opened)), len(opened))
            self._kept[key] = known
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return known

    def _allowed(self, signatures: Signatures | None, context: Context, given: Sequence[str]) -> Any:
        if signatures is None or not signatures.items:
            return None
        closing = context.place == "close"
        before = [argument for argument in given if argument] if closing else given[:-1]
        if any(argument.startswith(("*", "...")) for argument in before):
            return None
        rooms = [_room(signature, before, self._keywords) for signature in signatures.items]
        if any(room is None for room in rooms):
            return None
        known = [room for room in rooms if room is not None]
        if closing:
            return not all(room.missing for room in known)
        return _next(known, self._keywords)

    def close(self) -> None:
        """End the analyser."""
        self.analyser.close()


def _room(signature: Signature, before: Sequence[str], keywords: bool) -> _Room | None:
    """Return what a signature still allows; None if it does not say."""
    if signature.is_open:
        return None
    named = [match[1] for argument in before if keywords and (match := _KEYWORD.match(argument))]
    placed = len(before) - len(named)
    by_place = [
        parameter for parameter in signature.parameters if parameter.kind in ("positional-only", "positional")
    ]
    takes_more = any(parameter.kind == "var-positional" for parameter in signature.parameters)
    free = by_place[placed:]
    names: frozenset[str] | None = (
        frozenset(
            parameter.name
            for parameter in [*free, *signature.parameters]
            if parameter.kind in ("positional", "keyword")
        )
        - {parameter.name for parameter in by_place[:placed]}
        - set(named)
    )
    if any(parameter.kind == "var-keyword" for parameter in signature.parameters):
        names = None
    needed = [
        parameter
        for parameter in [
            *free,
            *(parameter for parameter in signature.parameters if parameter.kind == "keyword"),
        ]
        if not parameter.has_default and parameter.name not in named
    ]
    return _Room((bool(free) or takes_more) and not named, names if keywords else frozenset(), bool(needed))


def _next(rooms: Sequence[_Room], keywords: bool) -> Rest | bool:
    """Return what the next argument may be under any of these signatures."""
    allows_positional = any(room.positional for room in rooms)
    is_any = keywords and any(room.names is None for room in rooms)
    names = sorted(frozenset[str]().union(*(room.names or () for room in rooms)))
    if allows_positional:
        if is_any or not keywords:
            return True
        return Rest(complement(_wrong_name(names)))
    ends = concat((alternate([literal(")"), literal("#"), literal("//"), literal("/*")]), TEXT))
    branches: list[RE] = [ends, concat((literal("*" if keywords else "..."), TEXT))]
    if keywords:
        name = (
            _NAME
            if is_any
            else ("literals", tuple(names))
            if len(names) > 1
            else alternate(map(literal, names))
        )
        assigned = concat((literal("="), alternate([EPSILON, concat((_not("="), TEXT))])))
        branches.append(concat((name, _SPACES, assigned)))
    return Rest(concat((_SPACES, alternate(branches))))


def _wrong_name(names: Sequence[str]) -> RE:
    """Return the language of keyword arguments with another name."""
    listed = alternate([literal(name) for name in names])
    other = intersect((_NAME, complement(listed))) if names else _NAME
    spaced = concat((_SPACES, literal("="), _not("="), TEXT))
    return concat((_SPACES, other, alternate([concat((literal("="), TEXT)), spaced])))


def _not(character: str) -> RE:
    return character_class(negate_ranges(((ord(character), ord(character)),)))
