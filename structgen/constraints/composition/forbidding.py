"""What must not be written: patterns anywhere in a text, or lexemes at a place in a grammar.

Why: some of what a grammar allows is known to be harmful (calls of `gets`, `DROP TABLE`, a label that is not to be
given); leaving it out of the language is exact, where looking at finished texts is too late.
What: without a terminal, the constraint's texts in which no pattern occurs: an intersection with a regular language.
With one, the lexemes of that terminal are two kinds, those that a pattern matches as a whole and all others; the rules
that are named have the others alone. What a text is cut into stays the same, so that a forbidden name is not read as
two.
Invariant: exact: texts that break it are left out, and no others.
Cost: of the first that of ``&``; of the second one more terminal.
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
    """The texts of `constraint` without what `patterns` match (Python's regular expressions).

    terminal  of a grammar in Lark's notation (not a contextual one): not anywhere in the text, but as a whole lexeme
              of this terminal; the empty text is no lexeme
    rules     only where these rules ask for the terminal; without it, everywhere

    What is forbidden is text: what a program makes of it later (macros, names put together at run time) is not seen.

    Raises `CombinationError` where `constraint` cannot be joined with a regular language, `OptionError` for a terminal
    or a rule that is not there.
    """
    wanted = checked_texts(patterns, "forbid()")
    if not wanted:
        raise OptionError("forbid() was given no pattern", hint='forbid(constraint, r"\\bgets\\(")')
    if terminal is None:
        if rules is not None:
            raise OptionError("forbid() takes rules beside a terminal", hint='forbid(..., terminal="NAME")')
        around = "|".join(f"(?:{one})" for one in wanted)
        found = _together(f"(?s:.*)(?:{around})(?s:.*)", wanted).regular()
        assert found is not None
        shown = ", ".join(wanted)[:60]
        whole = as_constraint(constraint)
        try:
            return whole & Composition(("text", complement(scope(found))), f"text without {shown}")
        except CombinationError as error:
            if isinstance(whole, GrammarConstraint) and whole.grammar.lexer is not None:
                error.hint = 'Forbid lexemes of one terminal instead: forbid(..., terminal="NAME").'
            raise
    if not isinstance(constraint, GrammarConstraint) or constraint.grammar.lexer is None:
        raise OptionError(
            f"forbid(terminal=...) is for grammars that have terminals; this is {a_kind(constraint)}",
            hint="Those are grammars in Lark's notation: sg.lark(...), and most of sg.grammars().",
        )
    if constraint.grammar.lexer.contextual:
        raise OptionError(
            "forbid(terminal=...) cannot follow a contextual lexer: a lexeme that is forbidden at a place would not "
            "compete there, and be read as something else",
            hint="Read the grammar without contextual=True, or forbid the pattern anywhere: leave `terminal` out.",
        )
    matched = _together("|".join(f"(?:{one})" for one in wanted), wanted).regular()
    assert matched is not None
    names = None if rules is None else {rules} if isinstance(rules, str) else set(rules)
    return GrammarConstraint(_split(constraint.grammar, terminal, scope(matched), names), constraint.format)


def _together(whole: str, patterns: Iterable[str]) -> Constraint:
    """The expression that was made of patterns, each of which has to be one by itself."""
    for one in patterns:
        regex(one)
    try:
        return regex(whole)
    except RegexSyntaxError as error:
        raise OptionError(
            f"forbid() cannot join its patterns: {error.message}", hint="Write flags as a group: (?i:drop)."
        ) from None


def _split(grammar: Grammar, name: str, forbidden: RE, rules: set[str] | None) -> Grammar:
    lexer = grammar.lexer
    assert lexer is not None
    # What an earlier `forbid` split off is of the terminal, too.
    parts = (f"{name}@", f"{name}{_SPLIT_OFF}")
    mine = {one.name for one in lexer.terminals if one.name == name or one.name.startswith(parts)}
    _check(grammar, lexer, name, mine, rules)
    terminals: list[Terminal] = []
    stands_for: dict[str, Body] = {}
    for one in lexer.terminals:
        if one.name not in mine:
            terminals.append(one)
            continue
        left = f"{one.name}{_SPLIT_OFF} {len(lexer.terminals)}"
        terminals.append(replace(one, language=intersect([one.language, complement(forbidden)])))
        terminals.append(replace(one, name=left, language=intersect([one.language, forbidden])))
        stands_for[one.name] = choice_of([("terminal", one.name), ("terminal", left)])
    return replace(
        grammar,
        rules=tuple(
            one if rules is None or one.name in rules else _with_both(one, stands_for)
            for one in grammar.rules
        ),
        lexer=replace(lexer, terminals=tuple(terminals)),
    )


def _with_both(rule: Rule, stands_for: dict[str, Body]) -> Rule:
    """The rule, with both kinds where it has the terminal."""

    def body(one: Body) -> Body:
        kind = one[0]
        if kind == "terminal":
            return stands_for.get(one[1], one)
        if kind in ("sequence", "choice"):
            return (kind, tuple(map(body, one[1])))
        return (kind, body(one[1]), *one[2:]) if kind == "repeat" else one

    return replace(rule, body=body(rule.body))


def _check(grammar: Grammar, lexer: Lexer, name: str, mine: set[str], rules: set[str] | None) -> None:
    if not mine:
        known = [one.name for one in lexer.terminals if not one.name.startswith("__")]
        known.sort(key=lambda one: (one not in _various(lexer), one))
        raise OptionError(f"the grammar has no terminal {name!r}", hint=_near(name, known))
    if mine & set(lexer.ignore):
        raise OptionError(
            f"the terminal {name} is ignored by the grammar, so that no rule asks for it",
            hint="Forbid the pattern anywhere in the text: leave `terminal` out.",
        )
    made = lexer.indentation
    if made is not None and mine & {made.newline, *made.open_brackets, *made.close_brackets}:
        raise OptionError(f"the terminal {name} shapes the indentation of lines and cannot be split")
    names = [one.name for one in grammar.rules]
    for one in sorted((rules or set()) - set(names)):
        raise OptionError(f"the grammar has no rule {one!r}", hint=_near(one, names))


def _various(lexer: Lexer) -> set[str]:
    """Terminals that are more than one fixed text."""
    return {one.name for one in lexer.terminals if one.language[0] != "literal"}


def _near(name: str, known: list[str]) -> str | None:
    near = get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(known[:24])}."
