"""Lower a grammar from the form of its front end to productions over numbered symbols.

Why: the core has only rules, terminals and productions. This module finds the regular parts of scannerless grammars;
the core's lowering (`_core/grammar/lowering.h`) turns the rest into productions, once for all front ends.
Invariant: the language stays the same.
Cost: linear in the grammar; a repetition count adds its logarithm.
"""

from __future__ import annotations

from typing import Any

from structgen import _core
from structgen.constraints.base import Constraint
from structgen.constraints.expressions import RE, nullable
from structgen.constraints.failures import limit_exceeded
from structgen.ir.grammar import Body, Grammar, GrammarIR, Keyword, Terminal

from .bodies import nesting_error
from .bracket_depth import Brackets, with_brackets
from .regular import Regular
from .separate_text import SeparateText
from .token_limits import has_limits, with_limits
from .token_sets import shown_tokens

__all__ = ["lower", "lower_bodies", "text_of"]


def lower(grammar: Grammar) -> tuple[str, Any]:
    """Return the plan of a grammar: a regular expression if all of it is regular."""
    if has_limits(grammar):
        grammar = with_limits(grammar, lower)
    warm = frozenset(rule.name for rule in grammar.rules if rule.temperature is not None)
    regular = Regular(grammar, opaque=warm) if grammar.lexer is None else None
    if regular is not None and (whole := regular.rule(grammar.start)) is not None:
        return ("regex", whole)
    bodies = regular.lowered_bodies() if regular else {rule.name: rule.body for rule in grammar.rules}
    return ("grammar", lower_bodies(grammar, bodies, regular)[0])


def lower_bodies(
    grammar: Grammar, bodies: dict[str, Body], regular: Regular | None
) -> tuple[GrammarIR, list[Body]]:
    """Return the IR of a grammar with these bodies of its rules, and the bodies of its terminals by index."""
    lexer = grammar.lexer
    lexed = {} if lexer is None else {terminal.name: terminal for terminal in lexer.terminals}
    temperatures = {rule.name: rule.temperature for rule in grammar.rules if rule.temperature is not None}
    try:
        start, rules, productions, leaves = _core.lower_bodies(
            bodies, grammar.start, list(lexed), nullable, tuple(temperatures)
        )
    except _core.LimitError as error:
        raise limit_exceeded(error) from None
    except RecursionError:
        raise nesting_error() from None
    texts = {} if regular is None else regular.names()
    terminals = [_terminal(leaf, lexed, texts) for leaf in leaves]
    indentation = None
    if lexer is not None and lexer.indentation is not None:
        made = lexer.indentation
        index = {leaf[1]: number for number, leaf in enumerate(leaves) if leaf[0] == "terminal"}
        for name in (made.newline, made.indent, made.dedent):
            if name not in index:
                index[name] = len(terminals)
                terminals.append(("declared", name, None, 0))
        brackets = Brackets(
            opening=frozenset(~index[name] for name in made.open_brackets),
            closing=frozenset(~index[name] for name in made.close_brackets),
            outside=frozenset(~index[name] for name in (made.newline, made.indent)),
        )
        start, rules, productions = with_brackets(start, rules, productions, brackets)
        indentation = (
            *(index[name] for name in (made.newline, made.indent, made.dedent)),
            tuple(index[name] for name in made.open_brackets),
            tuple(index[name] for name in made.close_brackets),
            made.tab_width,
        )
    numbers = {} if lexer is None else {name: number for number, name in enumerate(lexed)}
    ir = GrammarIR(
        lexing="scannerless" if lexer is None else lexer.rule,
        contextual=lexer is not None and lexer.contextual,
        start=start,
        rules=rules,
        terminals=tuple(terminals),
        scanners=() if lexer is None else lexer.scanners,
        ignore=() if lexer is None else tuple(numbers[name] for name in lexer.ignore),
        lazy=()
        if lexer is None
        else tuple(numbers[terminal.name] for terminal in lexer.terminals if terminal.lazy),
        keywords=() if lexer is None else tuple(_keyword(keyword, numbers) for keyword in lexer.keywords),
        indentation=indentation,
        productions=productions,
        within=None,
    )
    if temperatures:
        ir["temperatures"] = tuple(
            (number, temperatures[name]) for number, name in enumerate(rules) if name in temperatures
        )
    return ir, leaves


def _terminal(leaf: Body, lexed: dict[str, Terminal], names: dict[int, str]) -> tuple[str, str, Any, int]:
    """Return the type, name, content and scanner of a terminal, as the core takes them."""
    kind, content = leaf
    if kind == "terminal":
        known = lexed.get(content)
        if known is None:  # only the indentation produces it
            return "declared", content, None, 0
        shown = text_of(known.language) or content
        return "text", "" if shown.startswith("__") else shown, known.language, known.scanner
    if kind == "text":
        return "text", names.get(id(content)) or text_of(content) or "", content, 0
    if kind == "special":
        return "special", content, content, 0
    if kind == "tokens":
        return "tokens", shown_tokens(content), content, 0
    constraint: Constraint = content
    if isinstance(constraint, SeparateText):
        return "text", "", constraint.expression, 0
    return "constraint", constraint.describe(), constraint.lower(), 0


def _keyword(keyword: Keyword, numbers: dict[str, int]) -> tuple[int, tuple[tuple[int, int, bool], ...]]:
    finders = ((numbers[found], numbers[pattern], replaces) for found, pattern, replaces in keyword.finders)
    return numbers[keyword.own], tuple(finders)


def text_of(expression: RE) -> str | None:
    """Return the single text of an expression, up to the case of letters, as messages show it; None if several."""
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
"""The most characters that are one letter in different cases: I, i and the two Turkish ones."""
