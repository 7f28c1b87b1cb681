"""Lists whose items come in an order that temporal logic allows.

What: each item has a type, which is a constraint with a name. The names are the atoms of a formula, one for each item.
The minimal automaton of the formula becomes a right-linear grammar whose terminals are the constraints of the items. So
items may be anything: JSON schemas, grammars, plans.
Invariant: an item is allowed only if the list can still be completed. A list without items satisfies no formula, since
a trace has at least one position.
Cost: a rule for each state of the automaton, times `max_items` if given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from structgen.argument_names import checks_names
from structgen.constraints.base import IR, Constraint, Operand, RuleViolation, Stop, as_constraint
from structgen.constraints.grammar.bodies import choice_of, sequence_of
from structgen.constraints.grammar.lowered import Lowered
from structgen.constraints.grammar.lowering import lower
from structgen.errors import (
    LimitExceeded,
    OptionError,
    UnsatisfiableFormula,
    a_kind,
)
from structgen.formulas import Automaton, Formula, all_of, any_of, atom, automaton, conflict, english
from structgen.formulas.formula import TRUE, as_formula, make
from structgen.ir.grammar import Body, Grammar, Rule

from .composed import body_of, text_of

__all__ = ["OrderedItems", "ltl_over"]

_MOST_RULES = 20_000


class OrderedItems(Lowered):
    """A list of items under formulas; `ltl_over` builds it."""

    __slots__ = ("formulas", "items", "options")

    items: dict[str, Constraint]
    formulas: tuple[Formula, ...]
    options: Mapping[str, Any]
    """The other arguments of `ltl_over`."""

    def __init__(
        self,
        items: dict[str, Constraint],
        formulas: Sequence[Formula],
        grammar: Grammar,
        options: Mapping[str, Any],
    ) -> None:
        object.__setattr__(self, "items", items)
        object.__setattr__(self, "formulas", tuple(formulas))
        object.__setattr__(self, "options", options)
        object.__setattr__(self, "_ir", lower(grammar))

    def _bodies(self) -> Iterable[Body]:
        return [body_of(one) for one in self.items.values()]

    @property
    def formula(self) -> Formula:
        """The conjunction of all formulas."""
        return all_of(self.formulas)

    def find_broken_rules(self, stop: Stop, checks: list[Callable[[IR], bool]]) -> list[RuleViolation]:
        """Return the formulas, or `max_items`, that forbid the text."""

        def goes_on(formulas: Sequence[Formula], options: Mapping[str, Any]) -> bool:
            try:
                return checks[-1](ltl_over(self.items, formulas, **options).lower())
            except UnsatisfiableFormula:
                return False

        unlimited = {**self.options, "max_items": None}
        if not goes_on([TRUE], unlimited):
            return [] if stop.place == "text" else super().find_broken_rules(stop, checks)
        broken = [formula for formula in self.formulas if not goes_on([formula], unlimited)]
        if not broken and goes_on(self.formulas, unlimited):
            limit = self.options["max_items"]
            return [
                RuleViolation("", "max_items", message=f"must end within {limit} items", subject="the list")
            ]
        return [
            RuleViolation("", "formula", str(formula), message=f"must satisfy {formula}", subject="the list")
            for formula in broken or [self.formula]
        ]

    def describe(self) -> str:
        """Return the names of the items and the formula, shortened to 60 characters."""
        return f"a list of {', '.join(self.items)} under {str(self.formula)!r:.60}"

    def instructions(self) -> str:
        """Return the items, the limit of their number and the formulas in English, then the items' instructions."""
        limit = self.options["max_items"]
        length = f" It has at most {limit} items." if limit is not None else ""
        order = " ".join(map(english, self.formulas))
        inner = super().instructions()
        description = (
            f"Write a list of these kinds of items: {', '.join(self.items)}.{length} Its order: {order}"
        )
        return f"{description}\n\n{inner}" if inner else description

    def __repr__(self) -> str:
        return f"<{self.describe()}>"


@checks_names
def ltl_over(
    items: Mapping[str, Operand],
    formula: Formula | str | Sequence[Formula | str],
    *,
    max_items: int | None = None,
    separator: Operand = ", ",
    open: Operand = "[",
    close: Operand = "]",
) -> OrderedItems:
    """Return the constraint of a list whose items satisfy a formula of temporal logic; by default a JSON array.

    Args:
        items: The constraint of each type of item, by name. The names are the atoms of the formula. A text that
            matches several types counts as any of them.
        formula: One formula or several, all of which must hold.
        max_items: The most items.
        separator: The text or constraint between two items.
        open: The text or constraint before the first item.
        close: The text or constraint after the last item.

    Raises:
        UnsatisfiableFormula: No list satisfies the formulas. The error names a minimal set of them in conflict.

    Example:
        ``sg.ltl.ltl_over({"backup": backup, "delete": delete}, "!delete W backup")``
    """
    if not isinstance(items, Mapping) or not items:
        raise OptionError(
            f"items is {a_kind(items)}" if not isinstance(items, Mapping) else "items is empty",
            hint='Pass the constraint of each type of item: {"backup": ..., "delete": ...}.',
        )
    if max_items is not None and (
        isinstance(max_items, bool) or not isinstance(max_items, int) or max_items < 1
    ):
        raise OptionError(f"max_items is {max_items!r:.40}; it must be a whole number, 1 or more")
    kinds = {name: as_constraint(item) for name, item in items.items()}
    texts = [formula] if isinstance(formula, Formula | str) else list(formula)
    formulas = [as_formula(text) for text in texts]
    for part in formulas:
        for name in sorted(part.atoms - kinds.keys()):
            raise OptionError(
                f"{name!r} is not a type of item: {str(part)!r:.80}",
                hint=f"The types are {', '.join(kinds)}.",
            )
    conjunction = all_of(formulas)
    dfa = automaton(conjunction, atoms=list(kinds))
    remaining = _remaining_items(dfa, len(kinds))
    if remaining[dfa.start] is None or (max_items is not None and remaining[dfa.start] > max_items):  # type: ignore[operator]
        _raise_impossible(formulas, list(kinds), remaining[dfa.start], max_items)
    bodies = {name: body_of(item) for name, item in kinds.items()}
    rules = _rules(dfa, remaining, bodies, max_items, _piece(separator), _piece(close))
    first = Rule("list", sequence_of((_piece(open), ("rule", _name(dfa.start, max_items)))))
    options = {"max_items": max_items, "separator": separator, "open": open, "close": close}
    return OrderedItems(kinds, formulas, Grammar((first, *rules), "list"), options)


def _piece(given: Operand) -> Body:
    return text_of(given) if isinstance(given, str) else body_of(as_constraint(given))


def _remaining_items(dfa: Automaton, kinds: int) -> list[int | None]:
    """Return the fewest further items that each state needs; None if it cannot be completed."""
    remaining: list[int | None] = [0 if is_accepting else None for is_accepting in dfa.accepting]
    for distance in range(len(dfa)):
        before = [
            state
            for state, row in enumerate(dfa.rows)
            if remaining[state] is None and any(remaining[target] == distance for target in row[:kinds])
        ]
        if not before:
            break
        for state in before:
            remaining[state] = distance + 1
    return remaining


def _rules(
    dfa: Automaton,
    remaining: Sequence[int | None],
    bodies: Mapping[str, Body],
    max_items: int | None,
    separator: Body,
    close: Body,
) -> list[Rule]:
    """Return a rule for each state: an item, then the end or more items."""
    rules: list[Rule] = []
    pending, seen = [(dfa.start, max_items)], {(dfa.start, max_items)}
    for state, room in pending:
        rest = None if room is None else room - 1
        alternatives: list[Body] = []
        for (_, body), target in zip(bodies.items(), dfa.rows[state], strict=False):
            if not _fits(remaining[target], room):
                continue
            ends: list[Body] = [close] if dfa.accepting[target] else []
            if any(_fits(remaining[following], rest) for following in dfa.rows[target][: len(bodies)]):
                goes_on = sequence_of((separator, ("rule", _name(target, rest))))
                ends.append(goes_on)
                if (target, rest) not in seen:
                    seen.add((target, rest))
                    pending.append((target, rest))
            alternatives.append(sequence_of((body, choice_of(ends))))
        rules.append(Rule(_name(state, room), choice_of(alternatives)))
        if len(seen) > _MOST_RULES:
            raise LimitExceeded(
                f"the list has more than {_MOST_RULES} states: those of the formula times max_items",
                limit="list_states",
                hint="Omit max_items.",
            )
    return rules


def _fits(needed: int | None, room: int | None) -> bool:
    """Return whether there is room for one item and `needed` more."""
    return needed is not None and (room is None or needed < room)


def _name(state: int, room: int | None) -> str:
    return (
        f"__items {state}" if room is None else f"__items {state} of {room}"
    )  # messages skip names that begin with underscores


def _raise_impossible(
    formulas: Sequence[Formula], kinds: Sequence[str], needed: int | None, max_items: int | None
) -> None:
    if needed is not None:
        raise UnsatisfiableFormula(f"a list needs at least {needed} items, but max_items is {max_items}")
    always = make("G", any_of(map(atom, kinds)))
    core = [str(formulas[index - 1]) for index in conflict([always, *formulas]) or () if index]
    named = "; ".join(core)
    raise UnsatisfiableFormula(
        f"no list satisfies {named}" + (" together" if len(core) > 1 else ""), core=tuple(core)
    )
