"""A grammar as lark's own loader reads it: terminals as patterns, rules as trees.

Why: imports, templates, priorities, `%extend` and the names of anonymous terminals are lark's business; all of that
is asked of lark itself. Lark's last step, which spells every optional part out as alternatives (2^k of them) and
counted repetitions as copies, is left out: a tree that says "repeat" is smaller and means the same.
Invariant: the terminals are those that `Lark(grammar).terminals` would have, in that order, with those patterns.
Cost: that of lark, about a millisecond for a rule; templates that are used in templates are bounded here, terminals
that are used in terminals in `lark_dialect`.
Source: lark 1.3, load_grammar.Grammar.compile.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lark.grammar import NonTerminal
from lark.grammar import Terminal as LarkTerminal
from lark.lexer import Pattern, PatternRE, TerminalDef
from lark.load_grammar import (
    ApplyTemplates,
    GrammarBuilder,
    PackageResource,
    PrepareAnonTerminals,
    PrepareLiterals,
    TerminalTreeToPattern,
    ValidateSymbols,
    nr_deepcopy_tree,
)

from structgen.errors import GrammarSyntaxError, LimitExceeded

from .lark_dialect import UNBOUNDED, Rewritten
from .lark_errors import explain

__all__ = ["ImportPath", "Loaded", "Node", "count_of", "load"]

Node = Any
"""A tree of lark, or one of its symbols."""

ImportPath = str | Path | Callable[[Any, str], tuple[Any, str]]

_INSTANCES = 2_000
"""Uses of templates with different arguments."""

_MANY = 50
"""Counts from which on lark makes rules of their own for a repetition."""


@dataclass(frozen=True)
class Loaded:
    """What lark loaded."""

    terminals: list[TerminalDef]
    """Those that count: of rules that are used, to ignore, to keep."""
    all_terminals: dict[str, TerminalDef]
    rules: dict[str, Node]
    """In order; those that lark would keep."""
    ignore: list[str]
    declared: frozenset[str]
    """Terminals without a pattern."""


def load(rewritten: Rewritten, start: str, keep: Iterable[str], import_paths: Sequence[ImportPath]) -> Loaded:
    """Reads the text with lark; raises errors of ours."""
    paths = [path if callable(path) else str(path) for path in import_paths]
    builder = GrammarBuilder(False, paths, {})
    try:
        builder.load_grammar(rewritten.text, "<string>")
        return _compile(builder, rewritten, start, frozenset(keep))
    except Exception as error:  # lark raises what Python raises, too: assertions, key errors
        files: list[object] = list(builder.used_files)
        raise explain(error, rewritten, files, _read) from (
            None if isinstance(error, RecursionError) else error
        )


def _read(file: Any) -> str:
    """The text of an imported file, for messages; empty if it is not to be had."""
    try:
        if isinstance(file, PackageResource):
            content = pkgutil.get_data(file.pkg_name, file.path)
            return (content or b"").decode("utf-8")
        return Path(file).read_text(encoding="utf-8")
    except (OSError, TypeError, ValueError):
        return ""


class _Patterns(TerminalTreeToPattern):
    """Lark's own, with a count that has no upper bound."""

    def expr(self, args: list[Any]) -> Pattern:
        if args[1] == "~" and len(args) == 4 and int(args[3]) == UNBOUNDED:
            return PatternRE(f"(?:{args[0].to_regexp()}){{{int(args[2])},}}", args[0].flags)
        return super().expr(args)


def _compile(builder: GrammarBuilder, rewritten: Rewritten, start: str, keep: frozenset[str]) -> Loaded:
    grammar = builder.build()
    to_pattern = PrepareLiterals() * _Patterns()
    terminals = []
    for name, (tree, priority) in grammar.term_defs:
        if tree is not None:
            expansions = list(tree.find_data("expansion"))
            if len(expansions) == 1 and not expansions[0].children:
                rewritten.source.fail(
                    f"the terminal {name} is empty",
                    rewritten.source.definition(name),
                    len(name),
                    hint="Give it a text; what may be left out is marked by '?' in the rule.",
                )
            terminals.append(TerminalDef(name, to_pattern.transform(_copy(tree)), priority))
    declared = frozenset(name for name, (tree, _) in grammar.term_defs if tree is None)

    definitions = [one for one in grammar.rule_defs if one[2] is not None]
    placeholders = {one[0] for one in grammar.rule_defs if one[2] is None}
    anonymous = PrepareAnonTerminals(terminals)  # type: ignore[no-untyped-call]
    templates = ApplyTemplates(definitions)  # type: ignore[no-untyped-call]
    transformer = PrepareLiterals() * ValidateSymbols() * anonymous * templates
    rules: dict[str, Node] = {}
    for name, parameters, tree, options in definitions:  # grows while templates are used
        if len(definitions) > _INSTANCES + len(grammar.rule_defs):
            raise LimitExceeded(
                f"templates are used with more than {_INSTANCES} different arguments",
                limit="_INSTANCES",
                hint="A template that uses itself with larger arguments has no end; write it as a rule.",
            )
        if not parameters:
            anonymous.rule_options = options if options is not None and options.keep_all_tokens else None
            rules[str(name)] = transformer.transform(_copy(tree))
    _check_rules(rules, placeholders, rewritten, start)
    kept = _used(rules, start)
    used = {symbol.name for name in kept for symbol, _ in _symbols(rules[name]) if symbol.is_term}
    wanted = used | set(grammar.ignore) | keep
    return Loaded(
        terminals=[one for one in terminals if one.name in wanted],
        all_terminals={one.name: one for one in terminals},
        rules={name: rules[name] for name in kept},
        ignore=list(dict.fromkeys(grammar.ignore)),
        declared=declared & wanted,
    )


def _copy(tree: Node) -> Node:
    """A tree that may be changed, as lark does in place."""
    return nr_deepcopy_tree(tree)  # type: ignore[no-untyped-call]


def _check_rules(rules: Mapping[str, Node], placeholders: set[str], rewritten: Rewritten, start: str) -> None:
    source = rewritten.source
    if start not in rules:
        near = source.near(start)
        hint = f"Did you mean start={near!r}?" if near else "Name the rule to start from: start=..."
        raise GrammarSyntaxError(f"there is no rule {start!r} to start from", hint=hint)
    for name in placeholders - set(rewritten.bodies):
        source.fail(
            f"the rule {name} is declared, but never defined",
            source.definition(name),
            len(name),
            hint=f"Define it ({name}: ...); only terminals can be left to others.",
        )
    known = {*rules, *placeholders}
    for tree in rules.values():
        for symbol, _ in _symbols(tree):
            if not symbol.is_term and symbol.name not in known:
                source.fail(
                    f"there is no rule {symbol.name}",
                    source.use(symbol.name),
                    len(symbol.name),
                    hint="If it is a template, give it arguments; if it is a terminal, its name is in upper case.",
                )


def count_of(expression: Node) -> tuple[Node, int, int | None]:
    """What an ``expr`` node repeats, and how often."""
    inner, operator, *counts = expression.children
    if operator != "~":
        return (inner, *_OPERATORS[str(operator)])
    low, high = int(counts[0]), int(counts[-1])
    if not 0 <= low <= high:
        raise GrammarSyntaxError(
            f"the counts {low}..{high} of a repetition are out of order",
            hint="The smaller count comes first.",
        )
    return inner, low, None if high == UNBOUNDED else high


_OPERATORS: dict[str, tuple[int, int | None]] = {"?": (0, 1), "*": (0, None), "+": (1, None)}


def _symbols(tree: Node) -> Iterator[tuple[Any, bool]]:
    """The symbols in a rule's tree, and whether lark would put each into a helper rule."""
    pending = [(tree, False)]
    while pending:
        node, helper = pending.pop()
        if isinstance(node, (NonTerminal, LarkTerminal)):
            yield node, helper
        elif node.data == "expr":
            inner, _, high = count_of(node)
            if high != 0:
                pending.append((inner, helper or high is None or high >= _MANY))
        elif node.data == "alias":
            pending.append((node.children[0], helper))
        else:
            pending.extend((child, helper) for child in node.children if child is not None)


def _used(rules: Mapping[str, Node], start: str) -> list[str]:
    """The rules that lark keeps.

    subtle: not those that can be reached, but those that others mention; a rule that mentions itself only through a
    helper rule stays. Lark's lexer knows the terminals of all of them.
    """
    mentions = {
        name: {symbol.name for symbol, helper in _symbols(tree) if helper or symbol.name != name}
        for name, tree in rules.items()
    }
    kept = list(rules)
    while True:
        used = {start}.union(*(mentions[name] for name in kept))
        left = [name for name in kept if name in used]
        if len(left) == len(kept):
            return kept
        kept = left
