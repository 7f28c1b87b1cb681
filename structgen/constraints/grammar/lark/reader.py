"""Read a grammar in Lark's language into an `ir.grammar.Grammar`.

Why: many grammars are written for lark, and tools for language models (llguidance, XGrammar) use its language. What
lark accepts has the same meaning here: definitions are those of its loader (in a fiftieth of the time), its lexer
orders the terminals, and Python's `re` decides what a pattern matches.
Invariant: nothing is approximated. What cannot be represented exactly is refused, with its position and an alternative.
Every error is a `StructgenError`.
Cost: about a microsecond a token for plain grammars, and about ten microseconds a rule for others. The package's
docstring explains the readers.

Supported
    lark 1.3: all of its syntax; `%import` of the modules that come with lark, and from `import_paths`.
    llguidance: `%json`, `%lark`, `%regex` (substrings), special tokens, `@name`, `x{2,5}`, `&` and `~` in terminals,
    rules with parameters, rules with options (`rule_options`), and options of grammars (`grammar_options`).

Differences from lark
    With ``contextual``, a terminal is tried exactly where a rule allows it. Lark follows the states of its LALR parser,
    which merges some.
    A rule or terminal with `[lazy]`, `[suffix=...]` or `[stop=...]` ends where it first matches, even if another
    terminal matches more. The text of a stop or suffix is part of the output; captures leave it out.
    Aliases, `!`, `?` and priorities of rules only shape trees. A constraint has no tree, so they have no effect. Rules
    that lark refuses because two alternatives would build the same tree are accepted.
    With lexer "longest", a terminal that matches the empty text is optional in the rules.
    A terminal named "not X" marks an error: no rule uses it, so a text in which it is the lexeme is wrong.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Any, Literal

from lark.indenter import Indenter

from structgen.constraints.base import Constraint
from structgen.constraints.token_limits import AtLimit, check_token_limit
from structgen.errors import LimitExceeded, OptionError, a_kind
from structgen.ir.grammar import Body, Grammar, Indentation, Lexer, Rule

from ..bodies import EMPTY, nesting_error
from ..characters import check_characters
from ..constraint import GrammarConstraint
from .dialect import rewrite
from .lark_loader import ImportPath, Loaded, load
from .parameters import instantiate
from .plain_reader import read_plain
from .rewritten import UNBOUNDED, Rewritten
from .rule_bodies import Following, rule_bodies
from .source import Source
from .templates import read_modules
from .terminals import Lexemes, lexemes_longest, lexemes_ordered

__all__ = ["ENTRIES", "read_lark"]

ENTRIES = 50_000
"""The most tokens of a grammar with extensions of Lark's language, or with a mistake."""

_NESTED = 16
"""The most levels of grammars inside grammars (``%lark``)."""


def read_lark(
    source: str,
    start: str = "start",
    *,
    lexer: Literal["longest", "ordered"],
    contextual: bool = False,
    indenter: Indenter | type[Indenter] | Indentation | None = None,
    import_paths: Sequence[ImportPath] = (),
    constraints: Mapping[str, Constraint] | None = None,
    at_limit: AtLimit = "cut",
    json: Mapping[str, Any] | None = None,
) -> Grammar:
    """Read a grammar in Lark's language.

    Args:
        source: The grammar.
        start: The rule that the whole text must match.
        lexer: "ordered": as lark's basic lexer; "longest": the longest lexeme, as in most lexers.
        contextual: Whether only terminals compete that the grammar allows at the position.
        indenter: Lark's `Indenter` (`lark.indenter.PythonIndenter`), or the same as an `Indentation`.
        import_paths: Folders (or lark's loaders) in which `%import` looks before lark's own modules.
        constraints: The constraints that ``@name`` in rules refers to.
        at_limit: How rules end that have used up their `max_tokens` (see `limit_tokens`).
        json: Options of the schemas in ``%json``, as `json_schema` takes them.

    Raises:
        GrammarSyntaxError: The grammar has a mistake.
        GrammarUnsupported: Something cannot be represented exactly.
        LimitExceeded: The grammar is too large.
        OptionError: An option has the wrong type or value.
    """
    if lexer not in ("longest", "ordered"):
        raise OptionError(
            f"unknown lexer rule {lexer!r}", hint="The rules are 'ordered' (lark's) and 'longest'."
        )
    if not isinstance(start, str):
        raise OptionError(
            f"start is {a_kind(start)}; it must be the name of a rule", hint="A grammar has one start rule."
        )
    if not isinstance(source, str):
        raise OptionError(f"a grammar must be a str, not {a_kind(source)}", hint="Read the file first.")
    check_token_limit(0, at_limit)
    options = _Options(lexer, contextual, import_paths, constraints, json, at_limit)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # `re` warns about brackets in sets
            text = Source(source)
            check_characters(text.text, text.error)
            return _read(text, start, _indentation(indenter), options)
    except RecursionError:
        raise nesting_error() from None


@dataclass(frozen=True)
class _Options:
    """The options of a grammar and of the grammars inside it."""

    lexer: Literal["longest", "ordered"]
    contextual: bool
    import_paths: Sequence[ImportPath]
    constraints: Mapping[str, Constraint] | None
    json: Mapping[str, Any] | None
    at_limit: AtLimit
    depth: int = 0
    """The number of enclosing grammars."""

    def nested(self, source: Source) -> Constraint:
        """Return the constraint of a ``%lark``."""
        if self.depth >= _NESTED:
            raise LimitExceeded(
                f"grammars are nested more than {_NESTED} deep",
                limit="grammar_depth",
                where="line {}, column {}".format(*source.position(0)),
                hint="Pass the inner ones as constraints={...}, and write @name.",
            )
        inner = replace(self, depth=self.depth + 1)
        return GrammarConstraint(_read(source, "start", None, inner), "Lark")


def _read(text: Source, start: str, indentation: Indentation | None, options: _Options) -> Grammar:
    keep = [indentation.newline] if indentation else []
    loaded = read_plain(text, start, keep, imports=not options.import_paths)
    rewritten = Rewritten(text)
    if loaded is None:
        loaded = read_modules(text.text, start, keep, options.import_paths)
    if loaded is None:
        _check_entries(text)
        rewritten = rewrite(text, options.constraints, options.nested, options.json)
        if indentation is not None and not rewritten.settings.are_larks:
            raise OptionError(
                "options about ignored text cannot be combined with an indenter",
                hint="Pass no indenter, or remove allow_initial_skip and ignore_once from the grammar.",
            )
        if start in rewritten.parametric:
            text.fail(
                f"the rule {start} has a parameter, so it cannot be the start",
                text.definition(rewritten.written(start)),
                len(start),
                hint=f"Start from a rule without a parameter: main: {start}::0, with start='main'.",
            )
        loaded = read_modules(rewritten.text, start, keep, options.import_paths, rewritten.bodies, UNBOUNDED)
    if loaded is None:  # lark reads the rest, and words the mistakes
        loaded = load(rewritten, start, keep, options.import_paths)
    return _grammar(loaded, rewritten, start, options, indentation)


def _check_entries(source: Source) -> None:
    """Limit the number of tokens, since Python and lark's loader take a fiftieth of a millisecond for each."""
    entries = (piece for piece in source.pieces if piece.kind not in ("space", "comment", "newline"))
    last = next(islice(entries, ENTRIES, None), None)
    if last is not None:
        position = source.position(last.offset)
        raise LimitExceeded(
            f"the grammar has more than {ENTRIES} tokens",
            limit="grammar_entries",
            where=f"line {position.line}, column {position.column}",
            hint="Split the grammar into several constraints, or avoid extensions of Lark's language: without them "
            "the limit is higher.",
        )


def _grammar(
    loaded: Loaded,
    rewritten: Rewritten,
    start: str,
    options: _Options,
    indentation: Indentation | None,
) -> Grammar:
    rule, contextual = options.lexer, options.contextual
    indentation_terminals = {indentation.indent, indentation.dedent} if indentation else set()
    _check_declared(loaded, rewritten, indentation_terminals)

    @cache
    def following() -> Following:
        bodies: dict[str, Body] = {
            terminal.name: ("terminal", terminal.name) for terminal in loaded.terminals
        }
        bodies |= dict.fromkeys(indentation_terminals, EMPTY)
        silent = [*loaded.ignore, *([indentation.newline] if indentation else [])]
        whole = {
            name: EMPTY if body[0] in ("instance", "condition") else body
            for name, body in rewritten.bodies.items()
        }
        return Following(rule_bodies(loaded, bodies, whole), silent)

    def after(names: Iterable[str]) -> frozenset[str] | None:
        return following().after(names)

    if rule == "ordered":
        lexemes = lexemes_ordered(loaded, rewritten, after, contextual)
    else:
        lexemes = lexemes_longest(loaded, rewritten, after, contextual)
    lexemes.bodies |= {name: ("terminal", name) for name in indentation_terminals}
    bodies = rule_bodies(loaded, lexemes.bodies, rewritten.bodies)
    if rewritten.parametric:
        bodies = instantiate(bodies, frozenset(rewritten.parametric))
    ignore = lexemes.ignore
    if ignore and not rewritten.settings.are_larks:
        bodies, ignore = rewritten.settings.with_ignored(bodies, start, ignore), []
    return Grammar(
        rules=tuple(_rule(name, body, rewritten, lexemes, options.at_limit) for name, body in bodies.items()),
        start=start,
        lexer=Lexer(
            rule=rule,
            terminals=tuple(lexemes.terminals),
            scanners=tuple(lexemes.scanners),
            ignore=tuple(ignore),
            contextual=contextual,
            keywords=lexemes.keywords,
            indentation=_renamed(indentation, lexemes, rewritten) if indentation else None,
        ),
        source=rewritten.source.text,
    )


def _rule(name: str, body: Body, rewritten: Rewritten, lexemes: Lexemes, at_limit: AtLimit) -> Rule:
    offset = rewritten.source.definition(rewritten.written(name))
    base = name.split("{")[0].split("::")[0]  # without the arguments of a template or a parameter
    options = rewritten.options.get(base)
    if options is None:
        return Rule(name, body, offset)
    limit = None if options.max_tokens is None else (options.max_tokens, at_limit == "cut")
    return Rule(name, body, offset, options.capture, options.temperature, lexemes.endings.get(base), limit)


def _check_declared(loaded: Loaded, rewritten: Rewritten, indentation_terminals: set[str]) -> None:
    for name in sorted(loaded.declared - indentation_terminals):
        rewritten.source.fail(
            f"the terminal {name} is declared, but never defined",
            rewritten.source.definition(rewritten.written(name)),
            len(name),
            hint="Define it, or pass the indenter that produces it: indenter=lark.indenter.PythonIndenter.",
        )


def _indentation(indenter: object) -> Indentation | None:
    """Return the indentation that an indenter of lark describes."""
    if indenter is None or isinstance(indenter, Indentation):
        return indenter
    if isinstance(indenter, type) and issubclass(indenter, Indenter):
        indenter = indenter()
    if not isinstance(indenter, Indenter):
        raise OptionError(
            f"indenter must be a lark.indenter.Indenter or an Indentation, not {a_kind(indenter)}",
            hint="For example indenter=lark.indenter.PythonIndenter.",
        )
    for method in ("process", "_process", "handle_NL"):
        if getattr(type(indenter), method) is not getattr(Indenter, method):
            raise OptionError(
                f"{type(indenter).__name__} overrides {method}() of lark's Indenter, which is not supported",
                hint="An indenter may only set the names of terminals and tab_len.",
            )
    return Indentation(
        indenter.NL_type,
        indenter.INDENT_type,
        indenter.DEDENT_type,
        tuple(indenter.OPEN_PAREN_types),
        tuple(indenter.CLOSE_PAREN_types),
        indenter.tab_len,
    )


def _renamed(indentation: Indentation, lexemes: Lexemes, rewritten: Rewritten) -> Indentation:
    """Return the indentation with the terminals of the lexer, without brackets that the grammar does not use."""
    newline = lexemes.names.get(indentation.newline, [])
    if len(newline) != 1:
        several = "is matched by several patterns" if newline else "is not in the grammar"
        rewritten.source.fail(
            f"the newline terminal {indentation.newline} of the indenter {several}",
            rewritten.source.definition(indentation.newline),
            hint="Define it as one pattern that is not ignored: _NEWLINE: /(\\r?\\n[\\t ]*)+/",
        )

    def known(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(part for name in names for part in lexemes.names.get(name, []))

    return Indentation(
        newline[0],
        indentation.indent,
        indentation.dedent,
        known(indentation.open_brackets),
        known(indentation.close_brackets),
        indentation.tab_width,
    )
