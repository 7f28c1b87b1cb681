"""The base class of compositions: a body of the grammar IR whose terminals are expressions and constraints.

Why: repetition, dispatch and tool calls are built from the same few bodies, and nest without cost: a composition inside
another becomes part of its body, unless it has rules of its own.
Invariant: the language of a body is that of its constraint. A regular operand is an expression whose look-around does
not see its neighbours. A composition that is regular as a whole lowers to one regular expression.
Cost: linear in the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from structgen.constraints.algebra import SequenceConstraint, Union, check_tree_size
from structgen.constraints.base import CaptureParser, Constraint, join_instructions
from structgen.constraints.expressions import add_nodes, literal, scope, tree_size
from structgen.constraints.grammar.bodies import choice_of, sequence_of
from structgen.constraints.grammar.capture_grammar import CaptureGrammar
from structgen.constraints.grammar.lowered import Lowered
from structgen.constraints.grammar.lowering import lower
from structgen.constraints.grammar.separate_text import SeparateText
from structgen.ir.grammar import Body, Grammar, Rule, subbodies

from .emptiness import accepts_empty

__all__ = ["Composition", "Fragment", "body_of", "named", "text_of"]


_TREE_PER_PART = 200
"""A composition may have so many times as many nodes of expressions as parts, where shared ones count each time."""


class Composition(Lowered):
    """A constraint given by a body, with a name for messages."""

    __slots__ = ("_size", "body", "name", "parts", "rules")

    body: Body
    name: str
    rules: tuple[Rule, ...]
    """The rules that bodies refer to: recursive parts."""
    _size: int
    parts: tuple[Constraint, ...]
    """The operands that prompts describe, since the body contains regular operands only as expressions."""

    def __init__(
        self, body: Body, name: str, rules: Sequence[Rule] = (), parts: Iterable[Constraint] = ()
    ) -> None:
        object.__setattr__(self, "body", body)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "rules", tuple(rules))
        object.__setattr__(self, "parts", tuple(parts))
        object.__setattr__(self, "_size", _tree_size([body, *(rule.body for rule in rules)]))
        check_tree_size(self._size)
        object.__setattr__(self, "_ir", lower(_grammar(body, name, rules)))

    def tree_size(self) -> int:
        """Return the number of parts of the body and the rules."""
        return self._size

    def _bodies(self) -> Iterable[Body]:
        return (self.body, *(rule.body for rule in self.rules))

    def parsed(self, compose: Callable[[Constraint], CaptureParser]) -> CaptureParser:
        """Return the grammar of the body and the rules."""
        return CaptureGrammar(_grammar(self.body, self.name, self.rules))

    def instructions(self) -> str:
        """Return the instructions of the operands; without operands, those of constraints inside the body."""
        return join_instructions(self.parts) if self.parts else super().instructions()

    def describe(self) -> str:
        """Return the name."""
        return self.name

    def __repr__(self) -> str:
        return f"<{self.name}>"


class Fragment(Composition):
    """A composition that is usually part of another one, and is lowered only if it is used alone.

    Why: otherwise hundreds of tags of a structural tag would be lowered one by one, and then again as a whole.
    """

    __slots__ = ()

    def __init__(self, body: Body, name: str) -> None:
        object.__setattr__(self, "body", body)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "rules", ())
        object.__setattr__(self, "parts", ())

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 — depends on the slot
        """Fill the slots that are computed on first access."""
        if name not in ("_ir", "_size"):
            raise AttributeError(name)
        whole = self.whole()
        for slot in ("_ir", "_size"):
            object.__setattr__(self, slot, getattr(whole, slot))
        return getattr(whole, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return Fragment, (self.body, self.name)

    def whole(self) -> Composition:
        """Return the same constraint as a `Composition`."""
        return Composition(self.body, self.name)


def _tree_size(bodies: Sequence[Body]) -> int:
    """Return the number of nodes in the bodies, counting shared ones each time, but expressions once.

    Functions over expressions visit each node once, except for hashes, so their size as trees is bounded, too.
    """
    sizes: dict[int, int] = {}
    seen: set[int] = set()
    trees: dict[int, int] = {}
    total = 0
    pending = list(bodies)
    while pending:
        node = pending[-1]
        kind = node[0]
        inside = node[1] if kind in ("sequence", "choice") else node[-1:] if kind == "named" else ()
        if kind == "repeat":
            inside = node[1:2]
        open_parts = [part for part in inside if id(part) not in sizes]
        if open_parts:
            pending.extend(open_parts)
            continue
        own = 1
        text = node[1] if kind == "text" else None
        if kind == "constraint":
            if isinstance(node[1], SeparateText):
                text = node[1].expression
            else:
                own = node[1].tree_size()
        if text is not None:
            add_nodes(text, seen)
            total += tree_size(text, trees)
        sizes[id(node)] = own + sum(sizes[id(part)] for part in inside)
        pending.pop()
    check_tree_size(total // _TREE_PER_PART)
    return sum(sizes[id(body)] for body in bodies) + len(seen)


def named(name: str, body: Body) -> Body:
    """Return a body that explanations call `name`."""
    return ("named", name, body)


def _grammar(body: Body, name: str, inner_rules: Sequence[Rule]) -> Grammar:
    """Return the grammar with a rule for each named body, since explanations list the open rules."""
    rules: dict[str, Body] = {name: body, **{rule.name: rule.body for rule in inner_rules}}
    names: dict[Body, str] = {}
    for part in [part for body_of_rule in rules.values() for part in subbodies(body_of_rule)]:
        if part[0] == "named" and part not in names:
            shown = part[1]
            while shown in rules:
                shown += "'"
            names[part], rules[shown] = shown, part[2]
    if names:
        rules = {rule_name: _with_rules(content, names) for rule_name, content in rules.items()}
    return Grammar(tuple(Rule(rule_name, content) for rule_name, content in rules.items()), name)


def _with_rules(body: Body, names: Mapping[Body, str]) -> Body:
    if body[0] == "named":
        return ("rule", names[body])
    if body[0] in ("sequence", "choice"):
        return (body[0], tuple(_with_rules(part, names) for part in body[1]))
    if body[0] == "repeat":
        return ("repeat", _with_rules(body[1], names), *body[2:])
    return body


def body_of(constraint: Constraint) -> Body:
    """Return a body with the language of a constraint."""
    if isinstance(constraint, Fragment):
        return constraint.body
    expression = constraint.regular()
    if expression is not None and not constraint.holds_captures():
        return ("text", scope(expression))
    if isinstance(constraint, Composition) and not constraint.rules:
        return constraint.body
    if isinstance(constraint, SequenceConstraint):
        return sequence_of(map(body_of, constraint.operands))
    if isinstance(constraint, Union):
        return choice_of(map(body_of, constraint.operands))
    whole: Body = ("constraint", constraint)
    return ("repeat", whole, 0, 1) if accepts_empty(constraint.lower()) else whole


def text_of(text: str) -> Body:
    """Return the body of exactly this text."""
    return ("text", literal(text))
