"""The constraint of plans: each step is possible in a world, and the whole plan satisfies formulas.

What: the automaton is unfolded while a text is read (`ir.regex.UnfoldingSource`). A state is a state of the product of
world and formulas, with the number of remaining steps. Its edges are the texts of the steps after which the plan can
still be finished. So a token is allowed only if some whole plan continues with it, and the automaton is never built.
Invariant: from each state that an edge leads to, a plan can be finished within the remaining steps, unless the search
for it exceeded its budget (`unproven` counts these).
"""

from __future__ import annotations

import difflib
import functools
import json
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from structgen.argument_names import checks_names
from structgen.constraints.base import IR, Constraint, RuleViolation, Stop
from structgen.constraints.expressions import RE, literal, literals
from structgen.errors import (
    ConstraintError,
    LimitExceeded,
    OptionError,
    OutputInvalid,
    UnsatisfiableFormula,
    with_kind,
)
from structgen.formulas import Formula, all_of, english, least_conflict
from structgen.formulas.conflicts import trace_or_conflict
from structgen.formulas.formula import as_formula
from structgen.formulas.product import NEVER, Product, ProductState

from .actions import Step, World, as_steps, as_world, atoms_of
from .formats import PlanFormat, as_format
from .world_steps import WorldSteps, reachable_labels

__all__ = ["PlanConstraint", "plan"]

_END = 0
_MOST_LISTED = 100
"""The most actions that `instructions` lists."""
_TRIED_FOR_LABELS = 500
"""The most steps of a world that are tried to collect its labels."""


class PlanConstraint(Constraint):
    """The texts of plans. `plan` builds it."""

    __slots__ = ("_source", "_texts", "formulas", "layout", "max_steps", "steps", "world")

    steps: tuple[Step, ...]
    """All ground actions."""
    formulas: tuple[Formula, ...]
    world: World
    layout: PlanFormat
    max_steps: int | None
    _source: _Unfolding
    _texts: dict[str, Step]

    def __init__(
        self,
        steps: Sequence[Step],
        formulas: Sequence[Formula],
        world: World,
        layout: PlanFormat,
        max_steps: int | None,
        budget: int,
    ) -> None:
        texts = layout.texts(steps)
        product = _product(steps, formulas, world, budget)
        for name, value in (
            ("steps", tuple(steps)),
            ("formulas", tuple(formulas)),
            ("world", world),
            ("layout", layout),
            ("max_steps", max_steps),
            ("_texts", texts),
            ("_source", _Unfolding(product, layout, list(texts), steps, max_steps)),
        ):
            object.__setattr__(self, name, value)

    @property
    def formula(self) -> Formula:
        """The conjunction of all formulas."""
        return all_of(self.formulas)

    @property
    def unproven(self) -> int:
        """The number of steps that were allowed although the search for a completion exceeded its budget."""
        return self._source.unproven

    @property
    def expanded(self) -> int:
        """The number of product states from which all steps have been tried so far."""
        return self._source.product.expanded

    def shortest(self, after: Sequence[Step | str] = ()) -> list[Step] | None:
        """Return the fewest steps that finish a plan that begins with `after`; None if it cannot be finished."""
        return self._source.shortest([self._step(step) for step in after])

    def read(self, text: str) -> list[Step]:
        """Return the steps of a text, without checking the world and the formulas.

        Raises:
            OutputInvalid: The text is not in the plan's format.
        """
        layout = self.layout
        inside = text[len(layout.open) : len(text) - len(layout.close)]
        if layout.open + inside + layout.close != text:
            raise OutputInvalid(f"this text is not a plan in this format: {text!r:.60}")
        steps = []
        for piece in inside.split(layout.separator):
            if piece not in self._texts:
                raise OutputInvalid(
                    f"{piece!r:.60} is not a step of this plan",
                    hint=f"A step is written like {next(iter(self._texts))!r:.60}, with {layout.separator!r} between "
                    "two.",
                )
            steps.append(self._texts[piece])
        return steps

    def write(self, steps: Iterable[Step | str]) -> str:
        """Return the text of some steps."""
        return self.layout.text([self._step(step) for step in steps])

    def _step(self, wanted: Step | str) -> Step:
        for step in self.steps:
            if wanted in (step, step.text):
                return step
        raise OptionError(f"{wanted!s:.60} is not a step of this plan")

    def lower(self) -> IR:
        """Return the automaton of the plans, as a regular expression."""
        return ("regex", self.regular())

    def regular(self) -> RE:
        """Return an expression whose states the core unfolds when it reaches them."""
        return ("unfold", self._source)

    def describe(self) -> str:
        """Return the number of actions, as a phrase."""
        return f"a plan of {len(self.steps)} actions"

    def instructions(self) -> str:
        """Return the actions, the separator, the limit of steps and the formulas in English."""
        shown = list(self._texts)[:_MOST_LISTED]
        more = " and others like them" if len(self._texts) > _MOST_LISTED else ""
        length = f" It has at most {self.max_steps} actions." if self.max_steps is not None else ""
        rules = f" Its rules: {' '.join(map(english, self.formulas))}" if self.formulas else ""
        return (
            f"Write a plan. Its actions are {json.dumps(shown, ensure_ascii=False)}{more}, with "
            f"{json.dumps(self.layout.separator)} between two.{length}{rules}"
        )

    def empty_hint(self) -> str:
        """Return a hint about the tokenizer: a plan that cannot be finished raises when it is built."""
        return "The tokenizer cannot spell the steps that are needed."

    def find_broken_rules(self, stop: Stop, checks: list[Callable[[IR], bool]]) -> list[RuleViolation]:
        """Return what forbids the step: the world, `max_steps`, single formulas, or all of them together."""
        max_steps = self.max_steps
        within = "" if max_steps is None else f" within {max_steps} steps"

        def goes_on(formulas: Sequence[Formula], world: World, max_steps: int | None) -> bool:
            budget = self._source.product.budget
            return checks[-1](
                PlanConstraint(self.steps, formulas, world, self.layout, max_steps, budget).lower()
            )

        if not goes_on((), as_world(None), None):  # it is not a step at all
            return []
        if not goes_on((), self.world, None):
            return [_broken("environment", "must be possible in the environment")]
        if max_steps is not None and not goes_on((), self.world, max_steps):
            return [_broken("max_steps", f"must end{within}", str(max_steps))]
        # subtle: `max_steps` is passed, since without it a search may not terminate.
        broken = [formula for formula in self.formulas if not goes_on([formula], self.world, max_steps)]
        if broken:
            return [_broken("formula", f"must satisfy {formula}{within}", str(formula)) for formula in broken]
        together = "; ".join(map(str, self.formulas))
        return [_broken("formula", f"must satisfy its formulas together{within}: {together:.200}", together)]

    def __repr__(self) -> str:
        return f"<plan: {len(self.steps)} actions, {len(self.formulas)} formulas>"

    def __reduce__(self) -> tuple[Any, ...]:
        product = self._source.product
        arguments = (self.steps, self.formulas, self.world, self.layout, self.max_steps, product.budget)
        return PlanConstraint, arguments


def _broken(keyword: str, message: str, detail: str = "") -> RuleViolation:
    return RuleViolation("", keyword, detail, message=message, subject="the plan")


class _Unfolding:
    """The automaton that the core unfolds: states by number, their edges, and whether a text may end there.

    Constraints on different vocabularies share one, so a lock guards it.
    """

    def __init__(
        self,
        product: Product,
        layout: PlanFormat,
        texts: Sequence[str],
        steps: Sequence[Step],
        max_steps: int | None,
    ) -> None:
        self.product = product
        self.unproven = 0
        self._layout = layout
        self._texts = texts
        self._steps = steps
        self._numbers: dict[tuple[int, int | None], int] = {}
        # State 0 is the end. The start has a number of its own, even if a plan returns to its product state.
        self._states: list[tuple[ProductState, int | None]] = [(product.start, 0), (product.start, max_steps)]
        self.start = 1
        self._lock = threading.RLock()

    def accepts(self, state: int) -> bool:
        """Return whether the text may end in a state."""
        return state == _END or (not self._layout.close and self._states[state][0].ends)

    def edges(self, state: int) -> list[tuple[RE, int]]:
        """Return the texts that lead on from a state, each with the next state."""
        if state == _END:
            return []
        with self._lock:
            product_state, left = self._states[state]
            before = self._layout.open if state == self.start else self._layout.separator
            texts_by_state: dict[int, list[str]] = {}
            for number, target in self._after(product_state, left):
                rest = None if left is None else left - 1
                texts_by_state.setdefault(self._number(target, rest), []).append(before + self._texts[number])
            edges = [(literals(texts), target_number) for target_number, texts in texts_by_state.items()]
            if product_state.ends and self._layout.close:
                edges.append((literal(self._layout.close), _END))
            return edges

    def completion(self, state: int) -> str | None:
        """Return a shortest completion as text, or another one; None if the search exceeded its budget."""
        if state == _END:
            return ""
        with self._lock:
            product_state, _ = self._states[state]
            steps = self.product.shortest_completion(product_state)
            if steps is None:  # some completion, which may be longer
                steps = self.product.find_completion(product_state)
            if steps is None:
                return None
            texts = [self._texts[number] for number in steps]
            before = self._layout.open if state == self.start else self._layout.separator if texts else ""
            return before + self._layout.separator.join(texts) + self._layout.close

    def shortest(self, after: Sequence[Step]) -> list[Step] | None:
        """See `PlanConstraint.shortest`."""
        with self._lock:
            product_state, left = self._states[self.start]
            for step in after:
                targets = [
                    target
                    for number, target in self._after(product_state, left)
                    if self._steps[number] == step
                ]
                if not targets:
                    return None
                product_state, left = targets[0], None if left is None else left - 1
            numbers = self.product.shortest_completion(product_state)
            return None if numbers is None else [self._steps[number] for number in numbers]

    def _after(self, product_state: ProductState, left: int | None) -> list[tuple[int, ProductState]]:
        """Return the steps after which a plan can be finished within the remaining steps."""
        self.product.evict(kept for kept, _ in self._states)
        steps, undecided = self.product.finishable_steps(
            product_state, NEVER - 1 if left is None else left - 1
        )
        self.unproven += undecided
        return steps

    def _number(self, product_state: ProductState, left: int | None) -> int:
        key = (id(product_state), left)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._states)
            self._states.append((product_state, left))
        return number


@checks_names
def plan(
    actions: object,
    formula: Formula | str | Sequence[Formula | str] = (),
    *,
    environment: World | None = None,
    format: Literal["lines", "json", "calls"] | PlanFormat = "lines",
    max_steps: int | None = None,
    budget: int = 200_000,
) -> PlanConstraint:
    """Constrain the output to plans: sequences of actions that a world allows and that satisfy a formula.

    A token is allowed only if some whole plan continues with it. The positions of the formula are the steps. At a step
    these atoms hold: its text (`go(kitchen)`), the bare name of its action (`go`) and the labels of the state after it.

    Args:
        actions: Names, `Action`s with parameters, or a mapping: ``{"go": {"room": ["hall", "kitchen"]}, "wait":
            None}``. A list in place of the inner mapping is the values of one parameter, `value`.
        formula: A formula of temporal logic on finite traces (`structgen.ltl`), or its text; or several, all of which
            must hold. Several are faster than their conjunction, since each has a small automaton.
        environment: The `World` that states which steps are possible. None: every step is always possible.
        format: "lines" (``go kitchen``), "calls" (``go("kitchen")``), "json" (``[{"action": "go", "room":
            "kitchen"}]``), or a `PlanFormat`.
        max_steps: The most steps of a plan. A step is not allowed if the rest would not fit.
        budget: The most steps that a search tries to decide after which next steps a plan can be finished. If it is
            exceeded, the next step is allowed, and `unproven` counts it.

    Raises:
        UnsatisfiableFormula: No plan satisfies the formulas. The error names a minimal set of them in conflict.
        OptionError: A formula has an atom that is neither an action nor a label, or an argument is wrong.
    """
    steps = as_steps(actions)
    world = as_world(environment)
    if not isinstance(formula, Formula | str | Sequence):
        raise OptionError(
            f"formula is {with_kind(formula)}", hint="Pass a formula, a list of formulas, or omit it."
        )
    texts = [formula] if isinstance(formula, Formula | str) else list(formula)
    formulas = [part for text in texts for part in _conjuncts(as_formula(text))]
    for name, number in (("max_steps", max_steps), ("budget", budget)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise OptionError(f"{name} is {number!r:.40}; it must be a whole number, 1 or more")
    _check_atoms(formulas, steps, world, max_steps, budget)
    constraint = PlanConstraint(steps, formulas, world, as_format(format), max_steps, budget)
    _check_possible(constraint)
    return constraint


def _conjuncts(formula: Formula) -> tuple[Formula, ...]:
    return formula.args if formula.op == "and" else (formula,)


def _check_atoms(
    formulas: Sequence[Formula], steps: Sequence[Step], world: World, max_steps: int | None, budget: int
) -> None:
    """Raise an error for unknown atoms, or warn if they may be labels, which cannot be listed."""
    known = atoms_of(steps)
    if all(formula.atoms <= known for formula in formulas):
        return
    wanted = frozenset().union(*(formula.atoms for formula in formulas)) - known
    labels = reachable_labels(
        WorldSteps(world, steps), len(steps), wanted, max_steps, min(budget, _TRIED_FOR_LABELS)
    )
    names = {step.name for step in steps}
    for formula in formulas:
        for name in sorted(formula.atoms - known - labels):
            similar = difflib.get_close_matches(name, known | labels, n=3, cutoff=0.75)
            is_action = name.partition("(")[0] in names
            if world.labels is not None and not is_action and not similar:
                continue
            message = f"{name!r} is not an action{'' if world.labels is None else ' or a label'}: {str(formula)!r:.80}"
            hint = (
                f"Did you mean {' or '.join(similar)}?"
                if similar
                else f"The actions are {', '.join(sorted(known)[:8])}{', ...' if len(known) > 8 else '.'}"
            )
            if world.labels is None or is_action:
                raise OptionError(message, hint=hint)
            warnings.warn(f"{message}, as far as the world was explored. {hint}", stacklevel=4)


def _check_possible(constraint: PlanConstraint) -> None:
    """Raise an error if no plan exists."""
    product = constraint._source.product
    max_steps = constraint.max_steps
    is_possible = product.can_finish(product.start, NEVER - 1 if max_steps is None else max_steps)
    if is_possible:
        return
    numbers = product.shortest_completion(product.start)
    if numbers is not None and max_steps is not None and len(numbers) > max_steps:
        shown = "; ".join(str(constraint.steps[number]) for number in numbers)
        raise UnsatisfiableFormula(
            f"the shortest plan has {len(numbers)} steps, but max_steps is {max_steps}",
            hint=f"The plan is: {shown:.200}",
        )
    core = _conflict(constraint)
    if core is None:
        if is_possible is False:  # only with max_steps; without it, a conflict would be known
            raise UnsatisfiableFormula(
                f"no plan of {max_steps} steps or fewer satisfies {'; '.join(map(str, constraint.formulas)):.200}",
                hint="Raise max_steps. It is unknown whether longer plans exist.",
            )
        return
    if not core:
        raise ConstraintError("no step is possible in the start state of the environment")
    named = "; ".join(map(str, core))
    together = (
        "together" if len(core) > 1 else "in this environment" if constraint.world.start != () else "at all"
    )
    raise UnsatisfiableFormula(
        f"no plan satisfies {named} {together}",
        core=tuple(map(str, core)),
        hint="If any one of them is removed, plans exist." if len(core) > 1 else None,
    )


def _conflict(constraint: PlanConstraint) -> list[Formula] | None:
    """Return a minimal set of formulas that no plan satisfies together; None if the searches find none."""
    formulas, budget = constraint.formulas, constraint._source.product.budget

    def search(chosen: Sequence[Formula]) -> list[int] | None:
        product = _product(constraint.steps, chosen, constraint.world, budget)
        numbers = product.find_completion(product.start)
        if numbers is None and product.start.least < NEVER:
            raise LimitExceeded("a search exceeded its budget", limit="budget", hint="Raise budget.")
        return numbers

    @functools.cache
    def alone(number: int) -> Product:
        return _product(constraint.steps, [formulas[number]], constraint.world, budget, lookahead=False)

    def breaks(plan: list[int]) -> list[int]:
        return [number for number in range(len(formulas)) if not holds(alone(number), plan)]

    def holds(product: Product, plan: Sequence[int]) -> bool:
        product_state: ProductState | None = product.start
        for number in plan:
            product_state = product_state and product.step(product_state, number)
        return product_state is not None and product_state.ends

    def possible(chosen: Sequence[Formula]) -> bool:
        try:
            return search(chosen) is not None
        except LimitExceeded:
            return True

    try:
        plan, positions = trace_or_conflict(formulas, search, breaks)
    except LimitExceeded:
        return None
    if plan is not None:
        return None
    core = [formulas[index] for index in positions]
    return [core[index] for index in least_conflict(core, possible)]


def _product(
    steps: Sequence[Step], formulas: Sequence[Formula], world: World, budget: int, *, lookahead: bool = True
) -> Product:
    letters = [frozenset({step.text, step.name}) for step in steps]
    return Product(letters, formulas, WorldSteps(world, steps), budget=budget, lookahead=lookahead)
