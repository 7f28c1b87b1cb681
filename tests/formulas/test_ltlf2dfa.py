"""The automata of `ltlf2dfa`, which calls MONA, against ours, if both are installed: pip install ltlf2dfa, apt install
mona."""

from __future__ import annotations

import itertools
import random
import re
import shutil
from typing import Any

import pytest

from structgen.formulas import Formula, atom, automaton, parse
from structgen.formulas.formula import LAST, Op, make

if shutil.which("mona") is None:
    pytest.skip("mona is not installed", allow_module_level=True)
parser = pytest.importorskip("ltlf2dfa.parser.ltlf", reason="ltlf2dfa is not installed").LTLfParser()

ATOMS = ("a", "b")
LETTERS = [
    frozenset(name for name, bit in zip(ATOMS, bits, strict=True) if bit)
    for bits in itertools.product((0, 1), repeat=2)
]


def random_formula(chance: random.Random, size: int) -> Formula:
    if size <= 1:
        return chance.choice([atom("a"), atom("b"), atom("a"), atom("b"), LAST])
    if chance.random() < 0.4:
        op: Op = chance.choice(["not", "X", "N", "F", "G"])
        return make(op, random_formula(chance, size - 1))
    left = chance.randint(1, size - 1)
    op = chance.choice(["and", "or", "implies", "iff", "U", "R"])
    return make(op, random_formula(chance, left), random_formula(chance, size - left))


def spelled(formula: Formula) -> str:
    """Return the formula with all parentheses, since operators bind differently there."""
    if not formula.args:
        return formula.name or formula.op
    if len(formula.args) == 1:
        sign = {"not": "!", "N": "WX "}.get(formula.op, formula.op + " ")
        return f"{sign}({spelled(formula.args[0])})"
    sign = {"and": "&", "or": "|", "implies": "->", "iff": "<->"}.get(formula.op, formula.op)
    return f" {sign} ".join(f"({spelled(one)})" for one in formula.args)


def theirs(text: str) -> Any:
    """Return the accepting states and the edges by state of ltlf2dfa's automaton."""
    dot = parser(text).to_dfa()
    (listed,) = re.findall(r"doublecircle\]([^\n]*)", dot)
    accepting = {int(one) for one in re.findall(r"(\d+);", listed)}
    edges: dict[int, list[tuple[Formula, int]]] = {}
    for source, target, label in re.findall(r"(\d+) -> (\d+) \[label=\"([^\"]*)\"\]", dot):
        edges.setdefault(int(source), []).append((parse(label, dialect="ltlf2dfa"), int(target)))
    return accepting, edges


def accepts(dfa: Any, trace: tuple[frozenset[str], ...]) -> bool:
    accepting, edges = dfa
    state = 1
    for letter in trace:
        state = next(there for guard, there in edges[state] if _holds(guard, letter))
    return state in accepting


def _holds(guard: Formula, letter: frozenset[str]) -> bool:
    return automaton(guard, alphabet="propositional").accepts([letter])


@pytest.mark.parametrize("seed", range(60))
def test_the_same_language(seed: int) -> None:
    formula = random_formula(random.Random(seed), 7)
    text = spelled(formula)
    assert parse(text, dialect="ltlf2dfa") == parse(str(formula))
    dfa, ours = theirs(text), automaton(formula, alphabet="propositional")
    for length in (1, 2, 3, 4):
        for trace in itertools.product(LETTERS, repeat=length):
            assert ours.accepts(trace) == accepts(dfa, trace), (text, trace)
