"""From a grammar as its front end read it to productions over numbered symbols, as the core takes them.

Why: the core knows rules, terminals and productions alone; repetition, choices inside sequences and what of a
scannerless grammar is regular are settled here, once for all front ends.
Invariant: the language stays the same. A repetition becomes a rule that repeats itself on the left, where an item
keeps its origin, or (counted) a chain whose length is the logarithm of the count; each text of it has one
derivation, so that nothing becomes ambiguous by being counted, nor by being repeated twice.
Cost: linear in the grammar; a count adds its logarithm.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from structgen.constraints.base import Constraint
from structgen.constraints.expressions import RE

from .brackets import Brackets, with_brackets
from .ir import Body, Grammar, Terminal
from .regular import Regular
from .repetition import Repetitions

__all__ = ["GrammarIR", "lower", "text_of"]

_FEW = 8
"""Counts up to this are written out."""


class GrammarIR(dict[str, Any]):
    """The IR as one value that never changes and can be hashed."""

    __slots__ = ("_hash",)

    def __hash__(self) -> int:  # type: ignore[override]
        try:
            return self._hash  # type: ignore[no-any-return,has-type]
        except AttributeError:
            productions = self["productions"]
            self._hash = hash((self["rules"], len(productions), productions[:8], self["terminals"][:8]))
            return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return GrammarIR, (dict(self),)


def lower(grammar: Grammar) -> tuple[str, Any]:
    """The core's IR of `grammar`: of a regular expression, where the whole of it is regular."""
    regular = Regular(grammar) if grammar.lexer is None else None
    if regular is not None and (whole := regular.rule(grammar.start)) is not None:
        return ("regex", whole)
    return ("grammar", _Lowering(grammar, regular).run())


class _Lowering:
    """Symbols are numbered when first met: rules from 0 up, terminals from -1 down."""

    def __init__(self, grammar: Grammar, regular: Regular | None) -> None:
        self._grammar = grammar
        self._regular = regular
        self._bodies = {rule.name: rule.body for rule in grammar.rules}
        self._rules: dict[Any, int] = {}
        self._names: list[str] = []
        self._terminals: list[tuple[str, str, Any, int]] = []
        self._terminal_index: dict[Any, int] = {}
        self._productions: list[tuple[int, ...]] = []
        self._repeats: dict[Any, int] = {}
        self._repetitions = Repetitions(grammar)
        self._regular_names: dict[int, str] = {}
        if regular is not None:
            for rule in grammar.rules:
                if (expression := regular.rule(rule.name)) is not None:
                    self._regular_names.setdefault(id(expression), rule.name)

    def run(self) -> GrammarIR:
        lexer = self._grammar.lexer
        if lexer is not None:
            for terminal in lexer.terminals:
                self._lexed(terminal)
        start = self._rule(self._grammar.start)
        done = 0
        names = list(self._rules)
        while done < len(names):
            name = names[done]
            done += 1
            self._alternatives(self._rules[name], self._bodies[name])
            if len(self._rules) > len(names):
                names = list(self._rules)
        indentation = None
        rules, productions = tuple(self._names), tuple(self._productions)
        if lexer is not None and lexer.indentation is not None:
            made = lexer.indentation
            brackets = Brackets(
                opening=frozenset(self._terminal_index[name] for name in made.open_brackets),
                closing=frozenset(self._terminal_index[name] for name in made.close_brackets),
                outside=frozenset(self._declared(name) for name in (made.newline, made.indent)),
            )
            start, rules, productions = with_brackets(start, rules, productions, brackets)
            indentation = (
                *(~self._declared(name) for name in (made.newline, made.indent, made.dedent)),
                tuple(~self._terminal_index[name] for name in made.open_brackets),
                tuple(~self._terminal_index[name] for name in made.close_brackets),
                made.tab_width,
            )
        return GrammarIR(
            lexing="scannerless" if lexer is None else lexer.rule,
            contextual=lexer is not None and lexer.contextual,
            start=start,
            rules=rules,
            terminals=tuple(self._terminals),
            scanners=() if lexer is None else lexer.scanners,
            ignore=() if lexer is None else tuple(~self._terminal_index[name] for name in lexer.ignore),
            indentation=indentation,
            productions=productions,
            within=None,
        )

    # Symbols.

    def _rule(self, name: str) -> int:
        known = self._rules.get(name)
        if known is None:
            known = self._rules[name] = self._new_rule(name)
        return known

    def _new_rule(self, name: str) -> int:
        self._names.append(name)
        return len(self._names) - 1

    def _terminal(self, key: Any, kind: str, name: str, payload: Any, scanner: int = 0) -> int:
        known = self._terminal_index.get(key)
        if known is None:
            self._terminals.append((kind, name, payload, scanner))
            known = self._terminal_index[key] = -len(self._terminals)
        return known

    def _lexed(self, terminal: Terminal) -> int:
        shown = text_of(terminal.language) or terminal.name
        return self._terminal(
            terminal.name,
            "text",
            "" if shown.startswith("__") else shown,
            terminal.language,
            terminal.scanner,
        )

    def _declared(self, name: str) -> int:
        """A terminal that only the indentation makes."""
        return self._terminal(name, "declared", name, None)

    # Bodies.

    def _alternatives(self, head: int, body: Body) -> None:
        for one in body[1] if body[0] == "choice" else (body,):
            self._productions.append((head, *self._sequence(one)))

    def _sequence(self, body: Body) -> list[int]:
        if body[0] != "sequence":
            return self._symbols(body)
        if self._regular is not None:
            return [symbol for part in self._regular.joined(body[1]) for symbol in self._symbols(part)]
        symbols: list[int] = []
        for part in body[1]:
            if part[0] == "terminal" and (known := self._terminal_index.get(part[1])) is not None:
                symbols.append(known)
            else:
                symbols += self._symbols(part)
        return symbols

    def _symbols(self, body: Body) -> list[int]:
        """The symbols that stand for `body`, one after the other."""
        kind = body[0]
        if self._regular is not None and (text := self._regular.body(body)) is not None:
            if text == ("literal", ""):
                return []
            shown = self._regular_names.get(id(text)) or text_of(text) or ""
            return [self._terminal(("text", text), "text", shown, text)]
        if kind == "rule":
            return [self._rule(body[1])]
        if kind == "terminal":
            known = self._terminal_index.get(body[1])
            return [self._declared(body[1]) if known is None else known]
        if kind == "special":
            return [self._terminal(body, "special", body[1], body[1])]
        if kind == "constraint":
            constraint: Constraint = body[1]
            return [self._terminal(body, "constraint", constraint.describe(), constraint.lower())]
        if kind == "sequence":
            return self._sequence(body)
        if kind == "repeat":
            body = self._repetitions.simplified(body)
            if body[0] != "repeat":
                return self._symbols(body)
        known = self._repeats.get(body)
        if known is None:
            known = self._repeats[body] = self._new_rule(_name_of(body))
            if kind == "choice":
                self._alternatives(known, body)
            else:
                self._repeat(known, body[1], body[2], body[3])
        return [known]

    # Repetition.

    def _repeat(self, head: int, body: Body, low: int, high: int | None) -> None:
        if high is not None and high < low:
            return  # no text
        if high is None:
            if low == 0:
                self._productions += [(head,), (head, head, *self._sequence(body))]
            elif low == 1:
                unit = self._unit(body)
                self._productions += [(head, *unit), (head, head, *unit)]
            else:
                self._productions.append((head, *self._exactly(body, low), *self._at_least(body, 0)))
        else:
            self._productions.append((head, *self._exactly(body, low), *self._at_most(body, high - low)))

    def _unit(self, body: Body) -> list[int]:
        return self._sequence(body)

    def _at_least(self, body: Body, low: int) -> list[int]:
        return self._symbols(("repeat", body, low, None))

    def _exactly(self, body: Body, count: int) -> list[int]:
        """`count` of them: small counts are written out, of others the powers of two that they are made of."""
        if count <= _FEW:
            return self._unit(body) * count
        return [self._power(body, power) for power in range(count.bit_length()) if count >> power & 1]

    def _power(self, body: Body, power: int) -> int:
        """2 ** power of them."""
        key = ("power", body, power)
        known = self._repeats.get(key)
        if known is None:
            known = self._repeats[key] = self._new_rule(f"{_name_of(body)}{{{2**power}}}")
            half = self._unit(body) if power == 0 else [self._power(body, power - 1)] * 2
            self._productions.append((known, *half))
        return known

    def _at_most(self, body: Body, count: int) -> list[int]:
        """0 to `count` of them, each number in one way.

        With 2 ** k the greatest power that is at most count + 1: fewer than 2 ** k of them, or 2 ** k and at
        most the rest.
        """
        if count == 0:
            return []
        key = ("at most", body, count)
        known = self._repeats.get(key)
        if known is None:
            known = self._repeats[key] = self._new_rule(f"{_name_of(body)}{{,{count}}}")
            if count == 1:
                self._productions += [(known,), (known, *self._unit(body))]
            elif count <= _FEW:
                self._productions += [(known,), (known, *self._unit(body), *self._at_most(body, count - 1))]
            else:
                power = (count + 1).bit_length() - 1
                below = 2**power - 1
                if below == count:
                    power -= 1
                    below = 2**power - 1
                self._productions.append((known, *self._at_most(body, below)))
                self._productions.append(
                    (known, self._power(body, power), *self._at_most(body, count - 2**power))
                )
        return [known]


def text_of(expression: RE) -> str | None:
    """The single text that an expression has, but for the case of its letters; as messages show it."""
    if expression[0] == "concat":
        letters = [_letter(part) for part in expression[1]]
        return None if None in letters else repr("".join(letters))  # type: ignore[arg-type]
    letter = _letter(expression)
    return None if letter is None else repr(letter)


def _letter(expression: RE) -> str | None:
    if expression[0] == "literal":
        return str(expression[1])
    if expression[0] == "class" and sum(high - low + 1 for low, high in expression[1]) <= _MOST_CASES:
        letters = [chr(code) for low, high in expression[1] for code in range(low, high + 1)]
        folded = {letter.casefold().replace("\u0131", "i")[0] for letter in letters}
        if len(folded) == 1 and len(letters) > 1:
            return min(letters)
    return None


_MOST_CASES = 4
"""Ways to write one letter: I, i and the two that Turkish has."""


def _name_of(body: Body) -> str:
    """A short name for messages."""
    names: Iterable[str] = (body[1],) if body[0] in ("rule", "terminal") else ("...",)
    return "".join(names)
