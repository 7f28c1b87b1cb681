"""Lists whose items come in an order that temporal logic allows.

What: items are of named kinds, each a constraint; a formula is about the kinds, one for each item. The minimal
automaton of the formula becomes a right-linear grammar whose terminals are the items' constraints, so that items may
be anything: JSON schemas, grammars, plans.
Invariant: an item is begun only if the list can still be ended as the formula wants; no list without an item
satisfies a formula (a trace has a position at least).
Cost: a rule for each state of the automaton, times `max_items` where that is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from structgen.constraints.base import Constraint, as_constraint
from structgen.constraints.grammar.bodies import choice_of, sequence_of
from structgen.constraints.grammar.ir import Body, Grammar, Rule
from structgen.constraints.grammar.lowered import Lowered
from structgen.constraints.grammar.lowering import lower
from structgen.constraints.ltl import Automaton, Formula, all_of, any_of, atom, automaton, conflict
from structgen.constraints.ltl.formula import as_formula, make
from structgen.errors import LimitExceeded, OptionError, UnsatisfiableFormula, a_kind

from .composed import body_of, text_of

__all__ = ["OrderedItems", "ltl_over"]

_MOST_RULES = 20_000


class OrderedItems(Lowered):
    """Made by `ltl_over`."""

    __slots__ = ("formula", "items")

    items: dict[str, Constraint]
    formula: Formula

    def __init__(self, items: dict[str, Constraint], formula: Formula, grammar: Grammar) -> None:
        object.__setattr__(self, "items", items)
        object.__setattr__(self, "formula", formula)
        object.__setattr__(self, "_ir", lower(grammar))

    def _bodies(self) -> Iterable[Body]:
        return [body_of(one) for one in self.items.values()]

    def describe(self) -> str:
        return f"a list of {', '.join(self.items)} under {str(self.formula)!r:.60}"

    def __repr__(self) -> str:
        return f"<{self.describe()}>"


def ltl_over(
    items: Mapping[str, Constraint | str],
    formula: Formula | str | Sequence[Formula | str],
    *,
    max_items: int | None = None,
    separator: str = ", ",
    open: str = "[",
    close: str = "]",
) -> OrderedItems:
    """A list of items whose kinds satisfy a formula of temporal logic on finite traces; by default a JSON array.

        sg.ltl_over({"backup": backup, "delete": delete}, "!delete W backup")

    Parameters
    ----------
    items
        The constraint of each kind of item; the kinds are the atoms of the formula. Where a text is of several kinds,
        the list is right if some reading of it is.
    formula
        One or several, all of which have to hold.
    max_items
        The most items.

    Raises
    ------
    UnsatisfiableFormula
        If no list satisfies the formulas, with as few of them as are in conflict.
    """
    if not isinstance(items, Mapping) or not items:
        raise OptionError(
            f"items is {a_kind(items)}" if not isinstance(items, Mapping) else "items is empty",
            hint='Give the constraint of each kind of item: {"backup": ..., "delete": ...}.',
        )
    if max_items is not None and (
        isinstance(max_items, bool) or not isinstance(max_items, int) or max_items < 1
    ):
        raise OptionError(f"max_items is {max_items!r:.40}; it must be a whole number, 1 or more")
    kinds = {name: as_constraint(one) for name, one in items.items()}
    given = [formula] if isinstance(formula, Formula | str) else list(formula)
    formulas = [as_formula(one) for one in given]
    for one in formulas:
        for name in sorted(one.atoms - kinds.keys()):
            raise OptionError(
                f"{name!r} is no kind of item: {str(one)!r:.80}", hint=f"There are {', '.join(kinds)}."
            )
    whole = all_of(formulas)
    found = automaton(whole, atoms=list(kinds))
    left = _left(found, len(kinds))
    if left[found.start] is None or (max_items is not None and left[found.start] > max_items):  # type: ignore[operator]
        _raise_impossible(formulas, list(kinds), left[found.start], max_items)
    bodies = {name: body_of(one) for name, one in kinds.items()}
    rules = _rules(found, left, bodies, max_items, text_of(separator), text_of(close))
    first = Rule("list", sequence_of((text_of(open), ("rule", _name(found.start, max_items)))))
    return OrderedItems(kinds, whole, Grammar((first, *rules), "list"))


def _left(found: Automaton, kinds: int) -> list[int | None]:
    """Of each state how many items are needed at least; each is of a kind."""
    left: list[int | None] = [0 if good else None for good in found.accepting]
    for distance in range(len(found)):
        before = [
            state
            for state, row in enumerate(found.rows)
            if left[state] is None and any(left[there] == distance for there in row[:kinds])
        ]
        if not before:
            break
        for state in before:
            left[state] = distance + 1
    return left


def _rules(
    found: Automaton,
    left: Sequence[int | None],
    bodies: Mapping[str, Body],
    most: int | None,
    separator: Body,
    close: Body,
) -> list[Rule]:
    """A rule for each state with what may still come: an item, then the end or more."""
    rules: list[Rule] = []
    todo, met = [(found.start, most)], {(found.start, most)}
    for state, room in todo:
        rest = None if room is None else room - 1
        ways: list[Body] = []
        for (_, body), there in zip(bodies.items(), found.rows[state], strict=False):
            if not _fits(left[there], room):
                continue
            ends: list[Body] = [close] if found.accepting[there] else []
            if any(_fits(left[one], rest) for one in found.rows[there][: len(bodies)]):
                goes_on = sequence_of((separator, ("rule", _name(there, rest))))
                ends.append(goes_on)
                if (there, rest) not in met:
                    met.add((there, rest))
                    todo.append((there, rest))
            ways.append(sequence_of((body, choice_of(ends))))
        rules.append(Rule(_name(state, room), choice_of(ways)))
        if len(met) > _MOST_RULES:
            raise LimitExceeded(
                f"the list has more than {_MOST_RULES} states: those of the formula times max_items",
                limit="ltl_over_states",
                hint="Leave out max_items.",
            )
    return rules


def _fits(needed: int | None, room: int | None) -> bool:
    """Whether one item and then `needed` more are not too many."""
    return needed is not None and (room is None or needed < room)


def _name(state: int, room: int | None) -> str:
    return f"items {state}" if room is None else f"items {state} of {room}"


def _raise_impossible(
    formulas: Sequence[Formula], kinds: Sequence[str], needed: int | None, most: int | None
) -> None:
    if needed is not None:
        raise UnsatisfiableFormula(f"a list needs {needed} items at least, and max_items is {most}")
    always = make("G", any_of(map(atom, kinds)))
    core = [str(formulas[place - 1]) for place in conflict([always, *formulas]) or () if place]
    named = "; ".join(core)
    raise UnsatisfiableFormula(
        f"no list satisfies {named}" + (" together" if len(core) > 1 else ""), core=tuple(core)
    )
