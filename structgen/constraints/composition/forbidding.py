"""Exclude patterns anywhere in a text, or lexemes in some rules of a grammar.

Why: some texts of a grammar are known to be harmful (calls of `gets`, `DROP TABLE`, a label that must not be given).
Removing them from the language is exact, while checking finished texts is too late.
What: without a terminal, the result is an intersection with the texts in which no pattern occurs. With a terminal, its
lexemes are split into those that a pattern matches as a whole and all others, and the given rules accept only the
others. Lexemes stay the same, so a forbidden name is not read as two.
Invariant: exact: only texts that contain a forbidden part are excluded.
Cost: that of ``&`` without a terminal; one more terminal with it.
Source: vulnerability-constrained decoding (forbidden labels or patterns, by complement).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from difflib import get_close_matches

from structgen.argument_names import checks_names
from structgen.constraints.base import Constraint, Operand, as_constraint
from structgen.constraints.expressions import RE, complement, intersect, scope
from structgen.constraints.grammar.bodies import choice_of
from structgen.constraints.grammar.constraint import GrammarConstraint
from structgen.constraints.regex import regex
from structgen.errors import CombinationError, OptionError, RegexSyntaxError, a_kind
from structgen.ir.grammar import Body, Grammar, Lexer, Rule, Terminal

from .composed import Composition
from .elements import checked_texts

__all__ = ["forbid"]

_SPLIT_OFF = " (forbidden)"


@checks_names
def forbid(
    constraint: Operand,
    patterns: str | Iterable[str],
    *,
    terminal: str | None = None,
    rules: str | Collection[str] | None = None,
) -> Constraint:
    """Exclude texts that contain a match of a pattern.

    Only the text itself is checked, not what a program does with it later (macros, names built at run time).

    Args:
        constraint: The constraint to restrict.
        patterns: Regular expressions in Python's notation.
        terminal: A terminal of a grammar in Lark's notation without a contextual lexer. The patterns then apply to
            whole lexemes of this terminal, not to the whole text. The empty text is not a lexeme.
        rules: The rules in which the terminal is restricted; None: everywhere.

    Raises:
        CombinationError: The constraint cannot be intersected with a regular language.
        OptionError: There is no such terminal or rule, or no pattern was given.
    """
    pattern_texts = checked_texts(patterns, "forbid()")
    if not pattern_texts:
        raise OptionError("forbid() needs a pattern", hint='For example forbid(constraint, r"\\bgets\\(").')
    if terminal is None:
        if rules is not None:
            raise OptionError(
                "forbid() with rules needs a terminal", hint='Pass it: forbid(..., terminal="NAME").'
            )
        alternatives = "|".join(f"(?:{pattern})" for pattern in pattern_texts)
        containing = _join_patterns(f"(?s:.*)(?:{alternatives})(?s:.*)", pattern_texts).regular()
        assert containing is not None
        shown = ", ".join(pattern_texts)[:60]
        whole = as_constraint(constraint)
        try:
            return whole & Composition(("text", complement(scope(containing))), f"text without {shown}")
        except CombinationError as error:
            if isinstance(whole, GrammarConstraint) and whole.grammar.lexer is not None:
                error.hint = 'Exclude lexemes of one terminal instead: forbid(..., terminal="NAME").'
            raise
    if not isinstance(constraint, GrammarConstraint) or constraint.grammar.lexer is None:
        raise OptionError(
            f"forbid(terminal=...) needs a grammar with terminals, not {a_kind(constraint)}",
            hint="Use a grammar in Lark's notation: sg.lark(...), and most of sg.grammars().",
        )
    if constraint.grammar.lexer.contextual:
        raise OptionError(
            "forbid(terminal=...) does not support a contextual lexer: a forbidden lexeme would not compete at its "
            "position, and would be read as something else",
            hint="Read the grammar without contextual=True, or omit `terminal` to exclude the pattern anywhere.",
        )
    matched = _join_patterns("|".join(f"(?:{pattern})" for pattern in pattern_texts), pattern_texts).regular()
    assert matched is not None
    names = None if rules is None else {rules} if isinstance(rules, str) else set(rules)
    return GrammarConstraint(
        _split_terminal(constraint.grammar, terminal, scope(matched), names), constraint.format
    )


def _join_patterns(whole: str, patterns: Iterable[str]) -> Constraint:
    """Return the expression of joined patterns; each must be valid by itself."""
    for pattern in patterns:
        regex(pattern)
    try:
        return regex(whole)
    except RegexSyntaxError as error:
        raise OptionError(
            f"forbid() cannot combine its patterns: {error.message}",
            hint="Write flags as a group: (?i:drop).",
        ) from None


def _split_terminal(grammar: Grammar, name: str, forbidden: RE, rules: set[str] | None) -> Grammar:
    lexer = grammar.lexer
    assert lexer is not None
    # The parts that an earlier `forbid` split off belong to the terminal as well.
    parts = (f"{name}@", f"{name}{_SPLIT_OFF}")
    own_names = {
        terminal.name
        for terminal in lexer.terminals
        if terminal.name == name or terminal.name.startswith(parts)
    }
    _check(grammar, lexer, name, own_names, rules)
    terminals: list[Terminal] = []
    replacements: dict[str, Body] = {}
    for terminal in lexer.terminals:
        if terminal.name not in own_names:
            terminals.append(terminal)
            continue
        forbidden_name = f"{terminal.name}{_SPLIT_OFF} {len(lexer.terminals)}"
        terminals.append(replace(terminal, language=intersect([terminal.language, complement(forbidden)])))
        terminals.append(
            replace(terminal, name=forbidden_name, language=intersect([terminal.language, forbidden]))
        )
        replacements[terminal.name] = choice_of([("terminal", terminal.name), ("terminal", forbidden_name)])
    return replace(
        grammar,
        rules=tuple(
            rule if rules is None or rule.name in rules else _with_both(rule, replacements)
            for rule in grammar.rules
        ),
        lexer=replace(lexer, terminals=tuple(terminals)),
    )


def _with_both(rule: Rule, replacements: dict[str, Body]) -> Rule:
    """Return the rule with both parts of the terminal wherever it uses the terminal."""

    def body(part: Body) -> Body:
        kind = part[0]
        if kind == "terminal":
            return replacements.get(part[1], part)
        if kind in ("sequence", "choice"):
            return (kind, tuple(map(body, part[1])))
        return (kind, body(part[1]), *part[2:]) if kind == "repeat" else part

    return replace(rule, body=body(rule.body))


def _check(grammar: Grammar, lexer: Lexer, name: str, own_names: set[str], rules: set[str] | None) -> None:
    if not own_names:
        known = [terminal.name for terminal in lexer.terminals if not terminal.name.startswith("__")]
        known.sort(key=lambda terminal: (terminal not in _variable_terminals(lexer), terminal))
        raise OptionError(f"the grammar has no terminal {name!r}", hint=_suggest(name, known))
    if own_names & set(lexer.ignore):
        raise OptionError(
            f"the grammar ignores the terminal {name}, so no rule uses it",
            hint="Omit `terminal` to exclude the pattern anywhere.",
        )
    indentation = lexer.indentation
    if indentation is not None and own_names & {
        indentation.newline,
        *indentation.open_brackets,
        *indentation.close_brackets,
    }:
        raise OptionError(f"the terminal {name} is part of the indentation and cannot be split")
    names = [rule.name for rule in grammar.rules]
    for rule in sorted((rules or set()) - set(names)):
        raise OptionError(f"the grammar has no rule {rule!r}", hint=_suggest(rule, names))


def _variable_terminals(lexer: Lexer) -> set[str]:
    """Return the terminals that are not a single fixed text."""
    return {terminal.name for terminal in lexer.terminals if terminal.language[0] != "literal"}


def _suggest(name: str, known: list[str]) -> str | None:
    near = get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"The names are {', '.join(known[:24])}."
