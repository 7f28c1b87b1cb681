"""Regular expressions as data: the node types that `structgen.constraints.expressions` builds.

Why: regex parsers, `choice`, grammars and schemas state their regular parts in one form.
Invariant: a node is a tuple whose first item is its type. It is frozen and hashable, and may be shared by several
parents: equal parts are often one object, which the core reads once. Texts hold Unicode scalar values only, no
surrogates.
Cost: one tuple a node.
Read by: `structgen/_core/bind/regex_ir.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias

__all__ = [
    "RE",
    "Alternation",
    "AnyCharacter",
    "AnyText",
    "CharacterClass",
    "Complement",
    "Concatenation",
    "HostNames",
    "Intersection",
    "LiteralText",
    "LiteralTexts",
    "Look",
    "NoText",
    "NumberText",
    "Ranges",
    "Repetition",
    "Scope",
    "Substring",
    "Unfolding",
    "UnfoldingSource",
]

RE: TypeAlias = tuple[Any, ...]
"""Any node below. Consumers branch on its first item, which type checkers cannot follow through a variable."""

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Ranges of code points, both ends included: sorted, not adjacent, without surrogates."""

LiteralText: TypeAlias = tuple[Literal["literal"], str]
"""Exactly this text. ``("literal", "")`` is the empty text."""
LiteralTexts: TypeAlias = tuple[Literal["literals"], tuple[str, ...]]
"""Exactly one of these texts."""
CharacterClass: TypeAlias = tuple[Literal["class"], Ranges]
"""One character of these ranges."""
AnyCharacter: TypeAlias = tuple[Literal["any"]]
"""One character."""
AnyText: TypeAlias = tuple[Literal["text"]]
"""Every text, the empty one included."""
NoText: TypeAlias = tuple[Literal["empty"]]
"""No text at all: the empty language."""
Concatenation: TypeAlias = tuple[Literal["concat"], tuple[RE, ...]]
"""The operands one after the other."""
Alternation: TypeAlias = tuple[Literal["alternate"], tuple[RE, ...]]
"""Any one of the operands."""
Intersection: TypeAlias = tuple[Literal["intersect"], tuple[RE, ...]]
"""The texts that all operands accept."""
Complement: TypeAlias = tuple[Literal["complement"], RE]
"""The texts that the operand does not accept."""
Repetition: TypeAlias = tuple[Literal["repeat"], RE, int, int | None]
"""The operand, the least and the most repetitions; None: no upper bound."""
Look: TypeAlias = tuple[Literal["look"], bool, bool, RE]
"""A zero-width assertion: whether it is a lookahead (else a lookbehind), whether it is negative, and its expression."""
Scope: TypeAlias = tuple[Literal["scope"], RE]
"""The operand, whose look-around sees nothing outside its own text. Intersections and complements are scopes."""
Substring: TypeAlias = tuple[Literal["substring"], str | tuple[str, ...], bool]
"""A run of neighbouring characters of a text, or of neighbouring pieces; and whether the empty run counts."""
HostNames: TypeAlias = tuple[Literal["host_names"], bool]
"""Internationalised host names (IDNA 2008); and whether their labels must be in normal form C."""
NumberText: TypeAlias = tuple[
    Literal["number"], str | None, str | None, str | None, str | None, str | None, bool
]
"""A JSON number: minimum, maximum, exclusive minimum, exclusive maximum, multiple of (decimal texts, or None), and
whether it must be whole."""
Unfolding: TypeAlias = tuple[Literal["unfold"], "UnfoldingSource"]
"""The language that a Python object unfolds state by state while a text is read."""


class UnfoldingSource(Protocol):
    """An automaton that is computed on demand. States are non-negative integers below 2**63.

    The core calls it while it holds a lock, on any thread. Its methods must not use the same vocabulary's core again.
    """

    @property
    def start(self) -> int:
        """The state before any text."""

    def accepts(self, state: int) -> bool:
        """Return whether the text may end in `state`."""

    def edges(self, state: int) -> Sequence[tuple[RE, int]]:
        """Return the texts that lead on, which must not be empty, each with the state that follows."""

    def completion(self, state: int) -> str | None:
        """Return a text that leads from `state` to acceptance, or None if none exists."""
