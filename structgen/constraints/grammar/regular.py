"""Find the regular parts of a scannerless grammar and build their regular expressions.

Why: a table reads a regular part byte by byte, and its masks are computed once per vocabulary, so the parser sees only
the rest. Grammars without a lexer define words, numbers, strings and white space as rules, so most of them is regular.
Invariant: the expression of a body has exactly the body's language. A part without an expression stays a rule.
Cost: linear; each body is visited once. Expressions of rules that share rules could be exponentially large, and those
of chains of rules quadratically large. So an expression is measured before it is built, and all of them share a budget.
"""

from __future__ import annotations

from collections.abc import Sequence

from structgen.constraints.expressions import EPSILON, NOTHING, RE, alternate, concat, repeat
from structgen.ir.grammar import Body, Grammar, subbodies

from .bodies import EMPTY

__all__ = ["Regular", "used_rules"]

_LARGEST = 5_000
"""The largest size of an expression; a larger one stays a rule, since each use would copy it."""
_HIGHEST = 300
"""The most levels of an expression; a deeper one stays a rule."""
_BUDGET = 100_000
_BUDGET_PER_SIZE = 8
"""The total size of expressions: `_BUDGET` plus `_BUDGET_PER_SIZE` times the size of the grammar as written."""
_CHARACTERS = 32
"""Characters of texts, or ranges of classes, that count as one node of an expression."""
_LEAST_OF_TEXT = 4
"""Extra characters that each text in a set of texts counts as."""


class Regular:
    """The regular parts of one grammar. Rules in `opaque` stay rules, even if they are regular."""

    def __init__(self, grammar: Grammar, *, opaque: frozenset[str] = frozenset()) -> None:
        self._opaque_rules = opaque
        self._bodies = {rule.name: rule.body for rule in grammar.rules}
        self._rules: dict[str, RE | None] = {}
        self._known: dict[int, tuple[Body, RE | None]] = {}  # by the id of the body, which is kept alive
        self._sizes: dict[int, tuple[int, int]] = {}
        self._free: dict[int, bool] = {}
        self._keep_alive: list[RE] = []  # expressions whose ids are keys above
        self._uses = {name: used_rules(body) for name, body in self._bodies.items()}
        self._budget = _BUDGET + _BUDGET_PER_SIZE * sum(map(self._written, self._bodies.values()))
        for name in _innermost_first(self._uses):
            self._rules[name] = self._of_rule(name)
        self._known.clear()  # for rules that use each other, more is known now

    def rule(self, name: str) -> RE | None:
        """Return the expression of a rule; None if it is not known to be regular."""
        return self._rules.get(name)

    def body(self, body: Body) -> RE | None:
        """Return the expression of a body; None if it is not known to be regular."""
        kind = body[0]
        if kind == "text":
            return body[1]  # type: ignore[no-any-return]
        if kind == "rule":
            return self._rules.get(body[1])
        if kind != "sequence" and kind != "repeat" and kind != "choice":
            return None
        known = self._known.get(id(body))
        if known is None:
            known = self._known[id(body)] = body, self._combined(body)
        return known[1]

    def _combined(self, body: Body) -> RE | None:
        kind = body[0]
        if kind == "repeat":
            inner = self.body(body[1])
            return None if inner is None else repeat(inner, body[2], body[3])
        parts = []
        for part in body[1]:
            expression = part[1] if part[0] == "text" else self.body(part)
            if expression is None:
                return None
            parts.append(expression)
        if not self._pays_for(parts):
            return None
        return concat(parts) if kind == "sequence" else _choice(parts)

    def _pays_for(self, parts: Sequence[RE]) -> bool:
        """Charge the budget for an expression of these parts. Return whether it suffices."""
        size = 0
        for part in parts:
            size += self._size(part)
            if size > _LARGEST:
                return False
        self._budget -= size
        return self._budget >= 0

    def _written(self, body: Body) -> int:
        """Return the size of a body as written, where a reference to a rule counts as one."""
        size = 0
        for part in subbodies(body):
            size += self._size(part[1]) if part[0] == "text" else 1
        return size

    def joined(self, parts: Sequence[Body]) -> list[Body]:
        """Return the parts of a sequence, where short regular neighbours are merged.

        Parts that contain free text stay separate: masks inside free text are cached by the remaining expression, and
        are shared only if that is the same.
        """
        out: list[Body] = []
        run: list[RE] = []
        for part in parts:
            expression = self.body(part)
            if expression is not None and not self._is_free(expression):
                if run and not self._pays_for([*run[-1:], expression]):
                    out.append(_joined(run))
                    run = []
                run.append(expression)
                continue
            if run:
                out.append(_joined(run))
                run = []
            out.append(part if expression is None else ("text", expression))
        if run:
            out.append(_joined(run))
        return out

    def lowered_bodies(self) -> dict[str, Body]:
        """Return the bodies of the rules that are not regular, with their regular parts as texts."""
        return {
            name: self._lowered(body) if name in self._opaque_rules else self._lowered_items(body)
            for name, body in self._bodies.items()
            if self._rules[name] is None
        }

    def _lowered(self, body: Body) -> Body:
        expression = self.body(body)
        if expression is not None:
            return ("text", expression) if expression != EPSILON else EMPTY
        return self._lowered_items(body)

    def _lowered_items(self, body: Body) -> Body:
        """Return the body with its items lowered, for a body that is not, or must not become, one text."""
        kind = body[0]
        if kind == "sequence":
            return ("sequence", tuple(map(self._lowered, self.joined(body[1]))))
        if kind == "choice":
            return ("choice", tuple(map(self._lowered, body[1])))
        return (kind, self._lowered(body[1]), *body[2:]) if kind == "repeat" else body

    def names(self) -> dict[int, str]:
        """Return the names of rules by the ids of their expressions."""
        found: dict[int, str] = {}
        for name, expression in self._rules.items():
            if expression is not None:
                found.setdefault(id(expression), name)
        return found

    def _is_free(self, expression: RE) -> bool:
        if expression[0] == "literal":
            return False
        known = self._free.get(id(expression))
        if known is None:
            known = self._free[id(expression)] = _holds_free_text(expression)
            self._keep_alive.append(expression)
        return known

    def _of_rule(self, name: str) -> RE | None:
        if name in self._opaque_rules:
            return None
        body = self._bodies[name]
        expression = self._linear(name, body) if name in self._uses[name] else self.body(body)
        if expression is None or self._size(expression) > _LARGEST:
            return None
        return expression

    def _linear(self, name: str, body: Body) -> RE | None:
        """Return the expression of a rule that is recursive on one side only: `A = x A | y` is `x* y`."""
        around: list[RE] = []
        ends: list[RE] = []
        sides = set()
        for parts in _distributed(body, name):
            places = [i for i, part in enumerate(parts) if name in used_rules(part)]
            if not places:
                expression = self.body(("sequence", tuple(parts)))
                if expression is None:
                    return None
                ends.append(expression)
                continue
            if len(places) > 1 or parts[places[0]] != ("rule", name):
                return None
            if len(parts) == 1:
                continue  # A = A adds no text
            place = places[0]
            if place not in (0, len(parts) - 1):
                return None
            sides.add("left" if place == 0 else "right")
            expression = self.body(("sequence", tuple(parts[:place] + parts[place + 1 :])))
            if expression is None:
                return None
            around.append(expression)
        if len(sides) > 1:
            return None
        loop, end = repeat(_choice(around), 0, None), _choice(ends)
        if end == NOTHING:
            return NOTHING
        return concat([end, loop] if sides == {"left"} else [loop, end])

    def _size(self, expression: RE) -> int:
        """Return the number of nodes, counting shared ones each time; more than `_LARGEST` if nested too deep."""
        return self._measured(expression)[0]

    def _measured(self, expression: RE) -> tuple[int, int]:
        """Return the size and the height."""
        known = self._sizes.get(id(expression))
        if known is not None:
            return known
        kind = expression[0]
        size = 1
        inner: tuple[RE, ...] = ()
        if kind in ("concat", "alternate", "intersect"):
            inner = expression[1]
        elif kind in ("repeat", "complement", "scope"):
            inner = (expression[1],)
        elif kind == "look":
            inner = (expression[3],)
        elif kind == "literal" or kind == "class":
            size = 1 + len(expression[1]) // _CHARACTERS
        elif kind == "literals":
            size = 1 + sum(_LEAST_OF_TEXT + len(text) for text in expression[1]) // _CHARACTERS
        measures = [self._measured(part) for part in inner]
        height = 1 + max((height for _, height in measures), default=0)
        size += sum(size for size, _ in measures) + (_LARGEST if height > _HIGHEST else 0)
        self._sizes[id(expression)] = size, height
        self._keep_alive.append(expression)
        return size, height


def _joined(run: list[RE]) -> Body:
    return ("text", run[0] if len(run) == 1 else concat(run))


def _choice(parts: Sequence[RE]) -> RE:
    return alternate(parts) if parts else NOTHING


def _holds_free_text(expression: RE) -> bool:
    """Return whether an expression repeats a class of many characters."""
    pending = [expression]
    while pending:
        node = pending.pop()
        kind = node[0]
        if kind == "text":
            return True
        if kind == "repeat":
            if (node[3] is None or node[3] > 8) and _is_wide(node[1]):
                return True
            pending.append(node[1])
        elif kind in ("concat", "alternate", "intersect"):
            pending.extend(node[1])
        elif kind in ("complement", "scope"):
            pending.append(node[1])
    return False


def _is_wide(expression: RE) -> bool:
    pending = [expression]
    while pending:
        node = pending.pop()
        if node[0] == "any" or (node[0] == "class" and sum(high - low + 1 for low, high in node[1]) > 16):
            return True
        if node[0] in ("concat", "alternate", "intersect"):
            pending.extend(node[1])
        elif node[0] in ("repeat", "complement"):
            pending.append(node[1])
    return False


def used_rules(body: Body) -> set[str]:
    """Return the names of the rules in a body."""
    used: set[str] = set()
    pending = [body]
    while pending:
        name = pending.pop()
        kind = name[0]
        if kind == "sequence" or kind == "choice":
            for part in name[1]:
                if part[0] == "rule":
                    used.add(part[1])
                elif part[0] != "text":
                    pending.append(part)
        elif kind == "rule":
            used.add(name[1])
        elif kind == "repeat":
            pending.append(name[1])
    return used


_MOST_ALTERNATIVES = 64


def _distributed(body: Body, name: str) -> list[list[Body]]:
    """Return the alternatives of a body as flat sequences: choices and options that contain `name` are expanded."""
    if name not in used_rules(body):
        return [[body]]
    kind = body[0]
    if kind == "choice":
        out = [parts for item in body[1] for parts in _distributed(item, name)]
    elif kind == "repeat" and body[2] == 0 and body[3] == 1:
        out = [[("text", EPSILON)], *_distributed(body[1], name)]
    elif kind == "sequence":
        out = [[]]
        for part in body[1]:
            out = [before + after for before in out for after in _distributed(part, name)]
            if len(out) > _MOST_ALTERNATIVES:
                return [[body]]
    else:
        return [[body]]
    return out


def _innermost_first(uses: dict[str, set[str]]) -> list[str]:
    """Return the rule names such that a rule follows those it uses, as far as there is no cycle; without recursion."""
    order: list[str] = []
    met: set[str] = set()
    for root in uses:
        if root in met:
            continue
        met.add(root)
        stack = [(root, iter(sorted(uses[root])))]
        while stack:
            name, used_there = stack[-1]
            for used in used_there:
                if used in uses and used not in met:
                    met.add(used)
                    stack.append((used, iter(sorted(uses[used]))))
                    break
            else:
                order.append(name)
                stack.pop()
    return order
