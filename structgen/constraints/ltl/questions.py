"""Questions about formulas: can it be met, by what, do two mean the same, which of several contradict each other?

What: searches over states that are met, breadth first, so that the trace that is found is a shortest one. A list of
formulas is searched as a product: a state is one state of each.
Cost: the states of the product within the shortest trace; at most `most`, then LimitExceeded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from structgen.errors import LimitExceeded

from .automaton import Alphabet, Letter, check_alphabet, letters_of
from .formula import TRUE, Formula, all_of, as_formula, make
from .progression import Progression

__all__ = ["conflict", "difference", "equivalent", "example", "least_conflict", "satisfiable"]

_MOST = 200_000

Formulas = Formula | str | Sequence[Formula | str]


def satisfiable(formulas: Formulas, *, alphabet: Alphabet = "one-hot", most: int = _MOST) -> bool:
    """Whether some trace satisfies the formula, or all formulas of a list."""
    return example(formulas, alphabet=alphabet, most=most) is not None


def example(formulas: Formulas, *, alphabet: Alphabet = "one-hot", most: int = _MOST) -> list[Letter] | None:
    """A shortest trace that satisfies the formula, or all formulas of a list; None if there is none."""
    return _Product(_listed(formulas), alphabet).shortest(most)


def equivalent(
    one: Formula | str, other: Formula | str, *, alphabet: Alphabet = "one-hot", most: int = _MOST
) -> bool:
    """Whether the same traces satisfy both."""
    return difference(one, other, alphabet=alphabet, most=most) is None


def difference(
    one: Formula | str, other: Formula | str, *, alphabet: Alphabet = "one-hot", most: int = _MOST
) -> list[Letter] | None:
    """A shortest trace that satisfies one of them and not the other; None if there is none."""
    one, other = as_formula(one), as_formula(other)
    if one is other:
        return None
    return example(~make("iff", one, other), alphabet=alphabet, most=most)


def conflict(
    formulas: Sequence[Formula | str], *, alphabet: Alphabet = "one-hot", most: int = _MOST
) -> list[int] | None:
    """The places of formulas that no trace satisfies together, none of which could be left out; None if there are none.

    (Each of the smaller sets is satisfiable, though another set may have fewer formulas.)
    """
    listed = _listed(formulas)
    if satisfiable(listed, alphabet=alphabet, most=most):
        return None
    return least_conflict(listed, lambda some: satisfiable(some, alphabet=alphabet, most=most))


def least_conflict(formulas: Sequence[Formula], possible: Callable[[Sequence[Formula]], bool]) -> list[int]:
    """The places of formulas that are impossible together, where all of them are; without any one they are possible."""
    kept = list(range(len(formulas)))
    for place in range(len(formulas)):
        without = [one for one in kept if one != place]
        if not possible([formulas[one] for one in without]):
            kept = without
    return kept


def _listed(formulas: Formulas) -> list[Formula]:
    given = [formulas] if isinstance(formulas, Formula | str) else list(formulas)
    return [as_formula(one) for one in given] or [TRUE]


@dataclass
class _Product:
    formulas: list[Formula]
    alphabet: Alphabet

    def __post_init__(self) -> None:
        check_alphabet(self.alphabet)
        if self.alphabet == "propositional":
            # Letters of one diagram need not be listed.
            self.formulas = [all_of(self.formulas)]
        self._parts = [Progression(one) for one in self.formulas]
        self._letters = letters_of(sorted(frozenset().union(*(one.atoms for one in self.formulas))))

    def shortest(self, most: int) -> list[Letter] | None:
        """A shortest trace that is accepted by all."""
        start = tuple(one.start for one in self._parts)
        came: dict[tuple[int, ...], tuple[tuple[int, ...], Letter] | None] = {start: None}
        todo = [start]
        for state in todo:
            for letter, there in self._successors(state):
                if there in came or 0 in there:
                    continue  # (0 is the function that is false: nothing is accepted from there)
                came[there] = state, letter
                if all(part.accepting(own) for part, own in zip(self._parts, there, strict=True)):
                    return _way(came, there)
                todo.append(there)
                if len(came) > most:
                    raise LimitExceeded(
                        f"more than {most} states were searched for a trace of {_named(self.formulas)}",
                        limit="most",
                        hint="Give a greater `most`, or fewer formulas.",
                    )
        return None

    def _successors(self, state: tuple[int, ...]) -> Iterator[tuple[Letter, tuple[int, ...]]]:
        if self.alphabet == "propositional":
            for guard, there in self._parts[0].successors(state[0]):
                yield frozenset(name for name, holds in guard.items() if holds), (there,)
            return
        for letter in self._letters:
            yield letter, tuple(part.step(own, letter) for part, own in zip(self._parts, state, strict=True))


def _way(
    came: dict[tuple[int, ...], tuple[tuple[int, ...], Letter] | None], state: tuple[int, ...]
) -> list[Letter]:
    letters = []
    while (before := came[state]) is not None:
        state, letter = before
        letters.append(letter)
    return letters[::-1]


def _named(formulas: Sequence[Formula]) -> str:
    text = "; ".join(map(str, formulas))
    return repr(text) if len(text) <= 100 else repr(text[:97] + "...")
