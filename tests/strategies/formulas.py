"""Random formulas of temporal logic and traces."""

from __future__ import annotations

from hypothesis import strategies as st

from structgen.formulas import FALSE, LAST, TRUE, Formula, atom
from structgen.formulas.formula import make

__all__ = ["ATOMS", "formulas", "one_hot_traces", "traces"]

ATOMS = ("a", "b", "c")


def formulas(atoms: tuple[str, ...] = ATOMS, leaves: int = 8) -> st.SearchStrategy[Formula]:
    """All operators, over these atoms."""
    parts = st.sampled_from(
        [*(atom(name) for name in atoms), *(atom(name) for name in atoms), TRUE, FALSE, LAST]
    )
    return st.recursive(parts, _larger, max_leaves=leaves)


def _larger(parts: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
    unary = st.builds(lambda op, one: make(op, one), st.sampled_from(["not", "X", "N", "F", "G"]), parts)
    binary = st.builds(
        lambda op, one, other: make(op, one, other),
        st.sampled_from(["and", "or", "implies", "iff", "U", "W", "R", "M"]),
        parts,
        parts,
    )
    return unary | binary


def traces(atoms: tuple[str, ...] = ATOMS, most: int = 6) -> st.SearchStrategy[list[frozenset[str]]]:
    """Any set of atoms at each of one to `most` positions."""
    return st.lists(st.frozensets(st.sampled_from(atoms)), min_size=1, max_size=most)


def one_hot_traces(atoms: tuple[str, ...] = ATOMS, most: int = 6) -> st.SearchStrategy[list[frozenset[str]]]:
    """One atom, or none of them, at each position."""
    letters = [frozenset([name]) for name in atoms] + [frozenset()]
    return st.lists(st.sampled_from(letters), min_size=1, max_size=most)
