"""Formulas of linear temporal logic on finite traces (LTLf).

Why: a plan, a list of tool calls and a session are finite traces of events. Temporal logic states concisely what must
hold of them ("first this", "never that after something else").
What: immutable, hash-consed trees: equal formulas are identical, so sets and caches of formulas are cheap. Atoms are
names, or any text in double quotes.
Semantics: a trace is a finite sequence of at least one position; each position is the set of atoms that hold there.

    true false last    `last` holds at the last position
    !f  f & g  f | g  f -> g  f <-> g
    X f                there is a next position, and f holds there (strong next)
    N f                if there is a next position, f holds there (weak next; also WX)
    F f   G f          at some position from here on; at all of them
    f U g              g at some position from here on, f at all before it
    f W g              f U g, or f at all positions from here on
    g R f              f up to a position where g holds as well, that one included, or at all positions
    g M f              the same, and g does come

Source: De Giacomo and Vardi 2013; W and M as in Manna and Pnueli, and in Spot.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Literal

from structgen.brief import cut
from structgen.errors import OptionError, a_kind

__all__ = [
    "FALSE",
    "LAST",
    "TRUE",
    "Formula",
    "Op",
    "all_of",
    "any_of",
    "as_formula",
    "atom",
    "install_parser",
]

Op = Literal[
    "true", "false", "last", "atom", "not", "and", "or", "implies", "iff",
    "X", "N", "F", "G", "U", "W", "R", "M",
]  # fmt: skip

MOST_NODES, MOST_DEPTH = 20_000, 100
"""Limits of the size and depth of formulas as trees, since they may come from untrusted users."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\([^()\"\s]*\))?")
_WORDS = frozenset(
    [
        "true",
        "false",
        "last",
        "tt",
        "ff",
        "X",
        "N",
        "WX",
        "F",
        "G",
        "U",
        "W",
        "R",
        "V",
        "M",
        "not",
        "and",
        "or",
        "xor",
    ]
)
"""The reserved words of all dialects."""
_SIGNS = {"and": " & ", "or": " | ", "implies": " -> ", "iff": " <-> ", **{op: f" {op} " for op in "UWRM"}}
_BINDING = {"iff": 1, "implies": 2, "or": 3, "and": 4, "U": 5, "W": 5, "R": 5, "M": 5}
_UNARY = 6

_known: weakref.WeakValueDictionary[tuple[Any, ...], Formula] = weakref.WeakValueDictionary()
_making = threading.Lock()


class Formula:
    """A formula. `parse`, `atom`, the functions of `patterns` and the operators ``&  |  ~  >>`` build it."""

    __slots__ = ("__weakref__", "_atoms", "args", "depth", "name", "op", "size")

    op: Op
    name: str
    """The name of an atom; empty for others."""
    args: tuple[Formula, ...]
    size: int
    """The number of nodes of the tree."""
    depth: int
    _atoms: frozenset[str] | None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("formulas are immutable")

    @property
    def atoms(self) -> frozenset[str]:
        """The names of all atoms in the formula."""
        names: frozenset[str] | None = self._atoms
        if names is None:
            names = frozenset([self.name]) if self.op == "atom" else frozenset()
            names = names.union(*(arg.atoms for arg in self.args))
            object.__setattr__(self, "_atoms", names)
        return names

    def __and__(self, other: Formula | str) -> Formula:
        return all_of([self, as_formula(other)])

    def __or__(self, other: Formula | str) -> Formula:
        return any_of([self, as_formula(other)])

    def __invert__(self) -> Formula:
        return make("not", self)

    def __rshift__(self, other: Formula | str) -> Formula:
        """Return the implication."""
        return make("implies", self, as_formula(other))

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.op, self.name, self.args)

    def __str__(self) -> str:
        return _written(self, 0)

    def __repr__(self) -> str:
        return cut(f"Formula({str(self)!r})")


def make(op: Op, *args: Formula) -> Formula:
    """Return the formula of an operator and its operands, without simplification."""
    return _again(op, "", args)


def atom(name: str) -> Formula:
    """Return the formula "the atom `name` holds here".

    Any text is a name. Names that are not identifiers are written in double quotes.
    """
    if not isinstance(name, str) or not name:
        raise OptionError(f"the name of an atom must be a non-empty text, not {name!r:.40}")
    return _again("atom", name, ())


def all_of(formulas: Iterable[Formula]) -> Formula:
    """Return the conjunction of formulas; true for an empty list."""
    return _joined("and", formulas)


def any_of(formulas: Iterable[Formula]) -> Formula:
    """Return the disjunction of formulas; false for an empty list."""
    return _joined("or", formulas)


def as_formula(value: Formula | str) -> Formula:
    """Return a formula, parsing a string."""
    if isinstance(value, Formula):
        return value
    if isinstance(value, str):
        return _parsers[0](value)
    raise OptionError(f"a formula must be a Formula or its text, not {a_kind(value)}")


_parsers: list[Callable[[str], Formula]] = []


def install_parser(parse: Callable[[str], Formula]) -> None:
    """Set the parser that `as_formula` uses. The module `parsing` calls it, since it depends on this one."""
    _parsers[:] = [parse]


def _again(op: Op, name: str, args: tuple[Formula, ...]) -> Formula:
    key = (op, name, args)
    with _making:
        known = _known.get(key)
        if known is not None:
            return known
        size = 1 + sum(arg.size for arg in args)
        depth = 1 + max((arg.depth for arg in args), default=0)
        if size > MOST_NODES or depth > MOST_DEPTH:
            raise OptionError(
                f"this formula has {size} nodes, {depth} deep; the limit is {MOST_NODES} nodes, {MOST_DEPTH} deep",
                hint="Split a conjunction: a list of formulas is accepted wherever a formula is.",
            )
        formula = object.__new__(Formula)
        for field, value in (("op", op), ("name", name), ("args", args), ("size", size), ("depth", depth)):
            object.__setattr__(formula, field, value)
        object.__setattr__(formula, "_atoms", None)
        _known[key] = formula
        return formula


def _joined(op: Literal["and", "or"], formulas: Iterable[Formula]) -> Formula:
    parts: dict[Formula, None] = {}
    for formula in formulas:
        parts.update(dict.fromkeys(formula.args if formula.op == op else (formula,)))
    if not parts:
        return TRUE if op == "and" else FALSE
    return next(iter(parts)) if len(parts) == 1 else make(op, *parts)


def _written(formula: Formula, outside: int) -> str:
    if formula.op == "atom":
        return formula.name if is_plain_name(formula.name) else _quoted(formula.name)
    if not formula.args:
        return formula.op
    if len(formula.args) == 1:
        (arg,) = formula.args
        inside = _written(arg, _UNARY)
        sign = "!" if formula.op == "not" else f"{formula.op} "
        return sign + inside
    binding = _BINDING[formula.op]
    text = _SIGNS[formula.op].join(_written(arg, binding + 1) for arg in formula.args)
    return f"({text})" if binding < outside else text


def is_plain_name(name: str) -> bool:
    """Return whether an atom of this name is written without quotes."""
    return _NAME.fullmatch(name) is not None and name.split("(")[0] not in _WORDS


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


TRUE, FALSE, LAST = (_again(op, "", ()) for op in ("true", "false", "last"))
