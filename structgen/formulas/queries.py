"""Queries about formulas: satisfiability, example traces, equivalence, and formulas that contradict each other.

What: each query searches for a shortest trace. With one-hot letters the search builds the product of the formulas'
automata on demand (`conflicts`, `product`). With sets of atoms it is a breadth-first search over the states of the
conjunction.
Cost: the number of steps that are tried until a trace is found; more than `most` raise LimitExceeded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from structgen.argument_names import checks_names
from structgen.errors import LimitExceeded

from .automaton import Alphabet, Letter, check_alphabet, letters_of
from .conflicts import least_conflict, trace_or_conflict
from .formula import Formula, all_of, as_formula, make
from .product import NEVER, Product
from .progression import Progression

__all__ = ["conflict", "difference", "equivalent", "example", "satisfiable"]

_MOST = 500_000

Formulas = Formula | str | Sequence[Formula | str]


@checks_names
def satisfiable(formulas: Formulas, *, alphabet: Alphabet = "one-hot", most: int = _MOST) -> bool:
    """Return whether some trace satisfies a formula, or all formulas of a list.

    Args:
        formulas: A formula, its text, or a list of these.
        alphabet: The letters: one atom at each position ("one-hot"), or any set of atoms ("propositional").
        most: The most steps of the search.

    Raises:
        LimitExceeded: The search needs more than `most` steps.
    """
    return _Search(_listed(formulas), alphabet, most).trace(is_short=False)[0] is not None


@checks_names
def example(formulas: Formulas, *, alphabet: Alphabet = "one-hot", most: int = _MOST) -> list[Letter] | None:
    """Return a shortest trace that satisfies a formula, or all formulas of a list; None if no trace does.

    Args:
        formulas: A formula, its text, or a list of these.
        alphabet: The letters: one atom at each position ("one-hot"), or any set of atoms ("propositional").
        most: The most steps of the search.

    Raises:
        LimitExceeded: The search needs more than `most` steps.
    """
    return _Search(_listed(formulas), alphabet, most).trace(is_short=True)[0]


@checks_names
def equivalent(
    one: Formula | str, other: Formula | str, *, alphabet: Alphabet = "one-hot", most: int = _MOST
) -> bool:
    """Return whether the same traces satisfy two formulas; see `difference`."""
    return difference(one, other, alphabet=alphabet, most=most) is None


@checks_names
def difference(
    one: Formula | str, other: Formula | str, *, alphabet: Alphabet = "one-hot", most: int = _MOST
) -> list[Letter] | None:
    """Return a shortest trace that satisfies exactly one of two formulas; None if they are equivalent.

    Args:
        one: A formula, or its text.
        other: The other formula.
        alphabet: The letters: one atom at each position ("one-hot"), or any set of atoms ("propositional").
        most: The most steps of the search.

    Raises:
        LimitExceeded: The search needs more than `most` steps.
    """
    one, other = as_formula(one), as_formula(other)
    if one is other:
        return None
    return example(~make("iff", one, other), alphabet=alphabet, most=most)


@checks_names
def conflict(
    formulas: Sequence[Formula | str], *, alphabet: Alphabet = "one-hot", most: int = _MOST
) -> list[int] | None:
    """Return the indices of a minimal set of formulas that no trace satisfies together.

    Return None if some trace satisfies all. Each proper subset is satisfiable.
    Another contradictory set may have fewer formulas.

    Args:
        formulas: The formulas, or their texts.
        alphabet: The letters: one atom at each position ("one-hot"), or any set of atoms ("propositional").
        most: The most steps of the search.

    Raises:
        LimitExceeded: The search needs more than `most` steps.
    """
    listed = _listed(formulas)
    _, places = _Search(listed, alphabet, most).trace(is_short=False)
    if places is None:
        return None
    few = [listed[index] for index in places]
    least = least_conflict(few, lambda some: satisfiable(some, alphabet=alphabet, most=most))
    return [places[index] for index in least]


def _listed(formulas: Formulas) -> list[Formula]:
    given = [formulas] if isinstance(formulas, Formula | str) else list(formulas)
    return [as_formula(formula) for formula in given]


class _Search:
    """A search for a trace of some formulas."""

    def __init__(self, formulas: Sequence[Formula], alphabet: Alphabet, most: int) -> None:
        check_alphabet(alphabet)
        self._formulas = formulas
        self._alphabet = alphabet
        self._most = most
        self._left = most
        self._automata: dict[int, Progression] = {}

    def trace(self, *, is_short: bool) -> tuple[list[Letter] | None, list[int] | None]:
        """One that `is_short` as can be, or any; or the places of formulas that contradict each other."""

        def found(some: Sequence[Formula]) -> list[Letter] | None:
            one_hot = self._alphabet == "one-hot"
            return self._one_hot(some, is_short) if one_hot else self._by_sets(all_of(some))

        def breaks(trace: list[Letter]) -> list[int]:
            return [index for index in range(len(self._formulas)) if not self._holds(index, trace)]

        trace, places = trace_or_conflict(self._formulas, found, breaks)
        return trace, places if trace is None else None

    def _one_hot(self, some: Sequence[Formula], is_short: bool) -> list[Letter] | None:
        letters = letters_of(sorted(frozenset[str]().union(*(formula.atoms for formula in some))))
        product = Product(letters, some, budget=self._left, lookahead=len(some) > 1)
        find = product.shortest_completion if is_short else product.find_completion
        numbers = find(product.start)
        self._left -= product.tried
        if numbers is None and product.start.least < NEVER:
            raise self._too_many()
        return None if numbers is None else [letters[number] for number in numbers]

    def _by_sets(self, formula: Formula) -> list[Letter] | None:
        progression = Progression(formula)
        came: dict[int, tuple[int, Letter] | None] = {progression.start: None}
        todo = [progression.start]
        for state in todo:
            for letter, target in _successors(progression, state):
                self._left -= 1
                if self._left < 0:
                    raise self._too_many()
                if target in came or not target:
                    continue  # (0 is the function that is false: nothing is accepted from there)
                came[target] = state, letter
                if progression.accepting(target):
                    return _way(came, target)
                todo.append(target)
        return None

    def _holds(self, index: int, trace: Sequence[Letter]) -> bool:
        if index not in self._automata:
            self._automata[index] = Progression(self._formulas[index])
        automaton = self._automata[index]
        state = automaton.start
        for letter in trace:
            state = automaton.step(state, letter)
        return automaton.accepting(state)

    def _too_many(self) -> LimitExceeded:
        text = "; ".join(map(str, self._formulas))
        shown = text if len(text) <= 100 else text[:97] + "..."
        return LimitExceeded(
            f"more than {self._most} steps were tried for a trace of {shown!r}",
            limit="most",
            hint="Give a greater `most`, or fewer formulas.",
        )


def _successors(progression: Progression, state: int) -> Iterator[tuple[Letter, int]]:
    for guard, target in progression.successors(state):
        yield frozenset(name for name, holds in guard.items() if holds), target


def _way(came: dict[int, tuple[int, Letter] | None], state: int) -> list[Letter]:
    letters = []
    while (before := came[state]) is not None:
        state, letter = before
        letters.append(letter)
    return letters[::-1]
