"""Read a grammar with lark's own loader: terminals as patterns, rules as bodies over lark's terminals.

Why: lark defines imports, templates, priorities, `%extend` and the names of anonymous terminals. Its loader words the
errors, and reads the few grammars that the faster readers do not. Lark's last step is left out: it expands optional
parts into alternatives (2^k of them) and counted repetitions into copies. A body with "repeat" is smaller and means the
same.
Invariant: the terminals are those of `Lark(grammar).terminals`, in that order, with those patterns.
Cost: that of lark, about a millisecond a rule. This module bounds templates inside templates, `dialect` bounds
terminals inside terminals.
Source: lark 1.3, load_grammar.Grammar.compile.
"""

from __future__ import annotations

import pkgutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from errno import ENOENT
from os import PathLike
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
    stdlib_loader,
)

from structgen.errors import GrammarSyntaxError, LimitExceeded
from structgen.ir.grammar import Body

from .errors import explain
from .rewritten import UNBOUNDED, Rewritten

__all__ = ["ARGUMENTS", "INSTANCES", "ImportPath", "Loaded", "find_import", "load", "select", "symbols_of"]

_Node = Any
"""A tree of lark, or one of its symbols."""

ImportPath = str | Path | Callable[[Any, str], tuple[Any, str]]

INSTANCES = 2_000
"""The most uses of templates with different arguments."""

ARGUMENTS = 10_000
"""The most characters of the arguments of one use of a template, with uses of templates in them expanded."""

_MANY = 50
"""The repetition count from which on lark uses helper rules."""


@dataclass(frozen=True)
class Loaded:
    """A loaded grammar."""

    terminals: list[TerminalDef]
    """The terminals that the lexer knows: those of used rules, ignored ones, and those to keep."""
    all_terminals: dict[str, TerminalDef]
    rules: dict[str, Body]
    """The rules that lark would keep, in order. Repetitions may have extra items, which are to be ignored."""
    ignore: list[str]
    declared: frozenset[str] = frozenset()
    """Terminals without a pattern."""
    literals: Mapping[str, str] = field(default_factory=dict)
    """The terminals of texts and patterns that rules contain as they are written."""


def load(rewritten: Rewritten, start: str, keep: Iterable[str], import_paths: Sequence[ImportPath]) -> Loaded:
    """Read the grammar with lark.

    Args:
        rewritten: The grammar, in lark's own language.
        start: The start rule.
        keep: Terminals to keep even if no rule uses them.
        import_paths: Folders, or lark's loaders, in which ``%import`` looks.

    Raises:
        GrammarError: Lark refuses the grammar.
        LimitExceeded: Templates are used too often, or with arguments that are too long.
    """
    paths = [*(path if callable(path) else str(path) for path in import_paths), find_import]
    builder = _Builder(False, paths, {})
    try:
        builder.load_grammar(rewritten.text, "<string>")
        return _compile(builder, rewritten, start, frozenset(keep))
    except _Missing as error:
        missing = FileNotFoundError(ENOENT, "no such grammar", str(error))
        raise explain(missing, rewritten, list(builder.used_files), _read) from None
    except Exception as error:  # noqa: BLE001 — lark also raises AssertionError, KeyError and others
        files: list[object] = list(builder.used_files)
        raise explain(error, rewritten, files, _read) from (
            None if isinstance(error, RecursionError) else error
        )


class _Builder(GrammarBuilder):
    """Lark's builder, restricted to the files that `import_paths` offers.

    In lark, ``%import .name`` in a text that is not a file reads from the folder of the running program. Grammars may
    come from untrusted users, so they must not. Imported files are read by lark's own builders and may import files
    from their folder.
    """

    def do_import(
        self,
        dotted_path: tuple[str, ...],
        base_path: str | None,
        aliases: dict[str, str],
        base_mangle: Callable[[str], str] | None = None,
    ) -> None:
        super().do_import(dotted_path, None, aliases, base_mangle)


class _Missing(Exception):
    """Raised for a grammar that does not exist. After an `OSError` lark would also search the current folder."""


def find_import(base_path: str | PackageResource | None, grammar_path: str) -> tuple[Any, str]:
    """Find an imported grammar in the importing file's folder or in lark. Lark calls it after other paths."""
    try:
        if isinstance(base_path, str):
            file = Path(base_path) / grammar_path
            return str(file), file.read_text("utf-8")
    except OSError:
        pass
    try:
        return stdlib_loader(base_path, grammar_path)
    except OSError:
        raise _Missing(grammar_path) from None


def _read(file: object) -> str:
    """Return the text of an imported file for messages; empty if it cannot be read."""
    try:
        if isinstance(file, PackageResource):
            content = pkgutil.get_data(file.pkg_name, file.path)
            return (content or b"").decode("utf-8")
        return Path(file).read_text(encoding="utf-8") if isinstance(file, str | PathLike) else ""
    except (OSError, ValueError):
        return ""


class _Templates(ApplyTemplates):
    """Lark's transformer, with a limit: it names a use by its arguments, so names of nested uses double."""

    def template_usage(self, children: list[Any]) -> Any:
        if sum(len(argument.name) for argument in children[1:]) > ARGUMENTS:
            raise LimitExceeded(
                f"the expanded arguments of a template have more than {ARGUMENTS} characters",
                limit="template_arguments",
                hint="Define a rule for the inner use of the template, and pass its name.",
            )
        return super().template_usage(children)  # type: ignore[no-untyped-call]


class _Patterns(TerminalTreeToPattern):
    """Lark's transformer, extended by counts without an upper bound."""

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
                    hint="Give it a text. Write '?' after it in the rule if it is optional.",
                )
            terminals.append(TerminalDef(name, to_pattern.transform(_copy(tree)), priority))
    declared = frozenset(name for name, (tree, _) in grammar.term_defs if tree is None)

    definitions = [definition for definition in grammar.rule_defs if definition[2] is not None]
    placeholders = {definition[0] for definition in grammar.rule_defs if definition[2] is None}
    anonymous = PrepareAnonTerminals(terminals)  # type: ignore[no-untyped-call]
    templates = _Templates(definitions)  # type: ignore[no-untyped-call]
    transformer = PrepareLiterals() * ValidateSymbols() * anonymous * templates
    rules: dict[str, Body] = {}
    for name, parameters, tree, options in definitions:  # the list grows while templates are used
        if len(definitions) > INSTANCES + len(grammar.rule_defs):
            raise LimitExceeded(
                f"templates are used with more than {INSTANCES} different arguments",
                limit="template_instances",
                hint="A template that uses itself with larger arguments never ends. Write it as a rule.",
            )
        if not parameters:
            anonymous.rule_options = options if options is not None and options.keep_all_tokens else None
            rules[str(name)] = _body(transformer.transform(_copy(tree)))
    _check_rules(rules, placeholders, rewritten, start)
    names = {name: {one for _, one, _ in symbols_of(body)} for name, body in rules.items()}
    return select(terminals, rules, names, {}, grammar.ignore, start, keep, declared)


def select(
    terminals: list[TerminalDef],
    rules: Mapping[str, Body],
    named: Mapping[str, set[str]],
    literals: Mapping[str, str],
    ignore: Iterable[str],
    start: str,
    keep: frozenset[str],
    declared: frozenset[str] = frozenset(),
) -> Loaded:
    """Return what lark keeps of a grammar; `named` are the rules and terminals that each rule mentions.

    subtle: lark keeps the rules that other rules mention, whether or not the start reaches them. A rule that mentions
    itself only through a helper rule stays. Lark's lexer knows the terminals of all of them.
    """
    mentions = dict(named)
    for name, body in rules.items():
        if name in named[name] and not any(helper for _, one, helper in symbols_of(body) if one == name):
            mentions[name] = named[name] - {name}
    mentioned = Counter(used for name in rules for used in mentions[name])
    mentioned[start] += 1
    dropped = [name for name in rules if not mentioned[name]]
    for name in dropped:  # the list grows by rules that only dropped rules mention
        for other in mentions[name]:
            mentioned[other] -= 1
            if other in rules and not mentioned[other]:
                dropped.append(other)
    kept = [name for name in rules if mentioned[name]]
    used = set[str]().union(*(named[name] for name in kept))
    wanted = keep.union(ignore, used, (literals[text] for text in used & literals.keys()))
    return Loaded(
        terminals=[terminal for terminal in terminals if terminal.name in wanted],
        all_terminals={terminal.name: terminal for terminal in terminals},
        rules={name: rules[name] for name in kept},
        ignore=list(dict.fromkeys(ignore)),
        declared=declared & wanted,
        literals=literals,
    )


def _copy(tree: _Node) -> _Node:
    """Copy a tree, since lark changes trees in place."""
    return nr_deepcopy_tree(tree)  # type: ignore[no-untyped-call]


def _check_rules(rules: Mapping[str, Body], placeholders: set[str], rewritten: Rewritten, start: str) -> None:
    source = rewritten.source
    if start not in rules:
        suggestion = source.near(start)
        hint = f"Did you mean start={suggestion!r}?" if suggestion else "Pass the name of a rule: start=..."
        raise GrammarSyntaxError(f"there is no rule {start!r} to start from", hint=hint)
    for name in placeholders - set(rewritten.bodies):
        source.fail(
            f"the rule {name} is declared, but never defined",
            source.definition(name),
            len(name),
            hint=f"Define it ({name}: ...). Only terminals may be declared without a definition.",
        )
    known = {*rules, *placeholders}
    for body in rules.values():
        for kind, name, _ in symbols_of(body):
            if kind == "rule" and name not in known:
                source.fail(
                    f"there is no rule {name}",
                    source.use(name),
                    len(name),
                    hint="If it is a template, pass arguments. If it is a terminal, its name must be in upper case.",
                )


def _body(node: _Node) -> Body:
    """Return the body of a tree of lark."""
    if isinstance(node, NonTerminal):
        return ("rule", str(node.name))
    if isinstance(node, LarkTerminal):
        return ("terminal", str(node.name))
    if node.data == "expansions":
        return ("choice", tuple(_body(child) for child in node.children))
    if node.data == "expansion":
        return ("sequence", tuple(_body(child) for child in node.children))
    if node.data == "alias":
        return _body(node.children[0])
    if node.data == "maybe":
        return ("repeat", _body(node.children[0]), 0, 1)
    assert node.data == "expr", node.data
    return ("repeat", *_counted(node))


def _counted(expression: _Node) -> tuple[Body, int, int | None]:
    """Return the repeated body of an ``expr`` node, and its counts."""
    inner, operator, *counts = expression.children
    if operator != "~":
        return (_body(inner), *_OPERATORS[str(operator)])
    low, high = int(counts[0]), int(counts[-1])
    if not 0 <= low <= high:
        raise GrammarSyntaxError(
            f"repetition bounds are reversed: {low}..{high}",
            hint="Write the smaller number first.",
        )
    return _body(inner), low, None if high == UNBOUNDED else high


_OPERATORS: dict[str, tuple[int, int | None]] = {"?": (0, 1), "*": (0, None), "+": (1, None)}


def symbols_of(body: Body) -> Iterator[tuple[str, str, bool]]:
    """Yield the type and the name of each symbol in a body, and whether lark would put it into a helper rule."""
    pending = [(body, False)]
    while pending:
        part, helper = pending.pop()
        kind = part[0]
        if kind == "rule" or kind == "terminal":
            yield kind, part[1], helper
        elif kind == "repeat":
            high = part[3]
            if high != 0:
                pending.append((part[1], helper or high is None or high >= _MANY))
        else:
            pending.extend((part_of_body, helper) for part_of_body in part[1])
