"""Draw automata, as text for Graphviz or with matplotlib.

What: accepting states have two rings, and an arrow marks the start. Edges are labelled with their letters, "else" for
all others. The dead state, from which nothing is accepted, is drawn on request.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from structgen.extras import needed

from .formula import FALSE, TRUE, Formula, all_of, any_of, atom
from .simplify import simplify

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .automaton import Automaton, Branch

__all__ = ["dot", "plot"]

_LONGEST = 40
_PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 1}


def dot(automaton: Automaton, *, dead: bool = False) -> str:
    """Return the automaton in Graphviz's language; with `dead`, including the state that accepts nothing."""
    lines = ["digraph {", "  rankdir = LR;", '  start [shape = point, label = ""];', "  start -> 0;"]
    for state in _shown(automaton, dead):
        shape = "doublecircle" if automaton.accepting[state] else "circle"
        lines.append(f"  {state} [shape = {shape}];")
    for state, target, label in _edges(automaton, dead):
        escaped = label.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'  {state} -> {target} [label = "{escaped}"];')
    return "\n".join([*lines, "}"])


def plot(automaton: Automaton, axes: Axes | None = None, *, dead: bool = False) -> Axes:
    """Draw the automaton with matplotlib and return the axes; with `dead`, including the state that accepts nothing."""
    if axes is None:
        with needed("plot() of an automaton", extra="plot"):
            from matplotlib import pyplot

        _, axes = pyplot.subplots(figsize=(8, 5))
    states = list(_shown(automaton, dead))
    places = _layout(automaton, states)
    for state, target, label in _edges(automaton, dead):
        (x, y), (to_x, to_y) = places[state], places[target]
        if state == target:
            loop = {"arrowstyle": "->", "connectionstyle": "arc3,rad=-2.2", "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", (x + 0.07, y + 0.13), xytext=(x - 0.07, y + 0.13), arrowprops=loop)
            axes.text(x, y + 0.36, label, ha="center", va="center", fontsize=8)
            continue
        bend = {"arrowstyle": "->", "connectionstyle": "arc3,rad=0.2", "shrinkA": 16, "shrinkB": 16}
        axes.annotate("", (to_x, to_y), xytext=(x, y), arrowprops=bend)
        # Next to the middle of the arc, to the right of its direction.
        length = math.hypot(to_x - x, to_y - y)
        side = ((to_y - y) / length, -(to_x - x) / length)
        middle = ((x + to_x) / 2 + 0.14 * side[0], (y + to_y) / 2 + 0.14 * side[1])
        axes.text(*middle, label, ha="center", va="center", fontsize=8, bbox=_PAPER)
    for state in states:
        axes.plot(*places[state], "o", markersize=26, markerfacecolor="white", markeredgecolor="black")
        if automaton.accepting[state]:
            axes.plot(*places[state], "o", markersize=21, markerfacecolor="white", markeredgecolor="black")
        axes.text(*places[state], str(state), ha="center", va="center")
    x, y = places[automaton.start]
    axes.annotate("", (x - 0.12, y), xytext=(x - 0.45, y), arrowprops={"arrowstyle": "->"})
    axes.margins(0.25)
    axes.set_axis_off()
    return axes


def _shown(automaton: Automaton, dead: bool) -> Iterator[int]:
    for state, distance in enumerate(automaton.distances):
        if dead or distance is not None or state == automaton.start:
            yield state


def _edges(automaton: Automaton, dead: bool) -> Iterator[tuple[int, int, str]]:
    shown = set(_shown(automaton, dead))
    for state in sorted(shown):
        guards = _guards(automaton, state, shown)
        for target, label in guards.items():
            if target in shown:
                yield state, target, label if len(label) <= _LONGEST else label[: _LONGEST - 3] + "..."


def _guards(automaton: Automaton, state: int, shown: set[int]) -> dict[int, str]:
    """Return the label of the edge to each successor. "else" stands for the letters without an edge of their own."""
    row = automaton.rows[state]
    if automaton.alphabet == "propositional":
        known: dict[Branch, dict[int, Formula]] = {}
        return {
            target: str(simplify(guard))
            for target, guard in _formulas_by_target(automaton, row[0], known).items()
        }
    names: dict[int, list[str]] = {}
    for name, target in zip(automaton.atoms, row, strict=False):
        names.setdefault(target, []).append(str(atom(name)))
    hidden = [name for target, listed in names.items() if target not in shown for name in listed]
    rest = "else" if len(set(row)) > 1 else "any"
    names[row[-1]] = [f"{rest}, not {', '.join(hidden)}" if hidden and row[-1] in shown else rest]
    return {target: " | ".join(listed) for target, listed in names.items()}


def _formulas_by_target(
    automaton: Automaton, branch: Branch, known: dict[Branch, dict[int, Formula]]
) -> dict[int, Formula]:
    if branch >= 0:
        return {branch: TRUE}
    if branch not in known:
        atom_index, low, high = automaton.decisions[~branch]
        name = atom(automaton.atoms[atom_index])
        formulas: dict[int, Formula] = {}
        for holds, part in ((name, high), (~name, low)):
            for target, guard in _formulas_by_target(automaton, part, known).items():
                formulas[target] = simplify(any_of([formulas.get(target, FALSE), all_of([holds, guard])]))
        known[branch] = formulas
    return known[branch]


def _layout(automaton: Automaton, states: list[int]) -> dict[int, tuple[float, float]]:
    """Return the coordinates of states, in columns by their distance from the start."""
    far = {automaton.start: 0}
    todo = [automaton.start]
    for state in todo:
        for _, target in automaton.edges(state):
            if target in states and target not in far:
                far[target] = far[state] + 1
                todo.append(target)
    columns: dict[int, list[int]] = {}
    for state in states:
        columns.setdefault(far[state], []).append(state)
    return {
        state: (1.6 * column, 1.1 * (row - (len(members) - 1) / 2))
        for column, members in columns.items()
        for row, state in enumerate(members)
    }
