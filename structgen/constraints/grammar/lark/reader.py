"""Grammars in Lark's language, read as lark reads them, as `ir.Grammar`.

Why: people have grammars for lark, and tools for language models (llguidance, XGrammar) have made its language their
own. Whatever lark accepts means here what it means there: texts are read as its loader reads them,
in a fiftieth of the time, its lexer orders the terminals, and Python's `re` decides what a pattern takes.
Invariant: no approximation: what cannot be said exactly is refused, with its place and what to write instead; every
error is a `StructgenError`.
Cost: of a plain grammar, about a microsecond a token; of others, some ten for the additions, a rule and a use of a
template. Lark's loader itself, about a millisecond for a rule, only words mistakes, and reads what `templates`
leaves.

What is read
    lark 1.3: all of its syntax; `%import` of the modules that come with lark, and from `import_paths`.
    llguidance: `%json`, `%lark`, `%regex` (substrings), special tokens, `@name`, `x{2,5}`, `&` and `~` in terminals,
    rules with parameters, rules with options (`rule_options`), and options of grammars (`grammar_options`).

What differs from lark
    Whether a terminal is tried only where a rule allows it (``contextual``) follows the grammar exactly here, where
    lark follows the states of its LALR parser, and merges some.
    A rule or terminal with `[lazy]`, `[suffix=...]` or `[stop=...]` ends where it first matches, whatever else
    matches more. What a stop or suffix matches is a part of the text; captures leave it out.
    Aliases, `!`, `?` and priorities of rules shape trees; a constraint has none, so they change nothing, and rules
    that lark refuses only because two alternatives would make the same tree are taken.
    Under rule "longest" a terminal may match the empty text: then it may be left out where it stands.
    A terminal called "not X" is an error: no rule names it, so that where it is the lexeme the text is wrong.
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
from structgen.constraints.token_limits import AtLimit, checked_token_limit
from structgen.errors import LimitExceeded, OptionError, a_kind
from structgen.ir.grammar import Body, Grammar, Indentation, Lexer, Rule

from ..bodies import EMPTY, nesting_error
from ..characters import check_characters
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
"""Names, texts and signs of a grammar with additions to Lark's language, or with a mistake."""

_NESTED = 16
"""Grammars in grammars, by ``%lark``."""


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
    """The grammar that `source` describes.

    lexer         "ordered": as lark's basic lexer; "longest": the longest lexeme, as most lexers
    contextual    only terminals that the grammar allows at a place compete there
    indenter      lark's `Indenter` (`lark.indenter.PythonIndenter`), or what it says as `ir.Indentation`
    import_paths  folders (or lark's loaders) in which `%import` looks, before lark's own modules
    constraints   what ``@name`` in rules stands for
    at_limit      how rules end that have used up their `max_tokens` (see `limit_tokens`)
    json          options of the schemas in ``%json``, as `json_schema` takes them

    Raises `GrammarSyntaxError`, `GrammarUnsupported`, `LimitExceeded` or `OptionError`.
    """
    if lexer not in ("longest", "ordered"):
        raise OptionError(
            f"there is no lexer {lexer!r}", hint="The rules are 'ordered' (lark's) and 'longest'."
        )
    if not isinstance(start, str):
        raise OptionError(
            f"start is {a_kind(start)}; it takes a rule's name", hint="A grammar has one start."
        )
    if not isinstance(source, str):
        raise OptionError(f"a grammar is a str, not {a_kind(source)}", hint="Read the file first.")
    checked_token_limit(0, at_limit)
    options = _Options(lexer, contextual, import_paths, constraints, json, at_limit)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of `re`, about brackets in sets
            text = Source(source)
            check_characters(text.text, text.error)
            return _read(text, start, _indentation(indenter), options)
    except RecursionError:
        raise nesting_error() from None


@dataclass(frozen=True)
class _Options:
    """What counts for a grammar and those inside it."""

    lexer: Literal["longest", "ordered"]
    contextual: bool
    import_paths: Sequence[ImportPath]
    constraints: Mapping[str, Constraint] | None
    json: Mapping[str, Any] | None
    at_limit: AtLimit
    depth: int = 0
    """How many grammars are around."""

    def nested(self, source: Source) -> Constraint:
        """The constraint of a ``%lark``."""
        from ..constraint import GrammarConstraint

        if self.depth >= _NESTED:
            raise LimitExceeded(
                f"grammars are nested more than {_NESTED} deep",
                limit="grammar_depth",
                where="line {}, column {}".format(*source.position(0)),
                hint="Name the inner ones with constraints={...}, and write @name.",
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
                "options of the grammar about ignored text do not join with an indenter",
                hint="Leave out the indenter, or allow_initial_skip and ignore_once in the grammar.",
            )
        if start in rewritten.parametric:
            text.fail(
                f"the rule {start} has a parameter, so that no text starts from it",
                text.definition(rewritten.written(start)),
                len(start),
                hint=f"Start from a rule without one: main: {start}::0, with start='main'.",
            )
        loaded = read_modules(rewritten.text, start, keep, options.import_paths, rewritten.bodies, UNBOUNDED)
    if loaded is None:  # lark words the mistake
        loaded = load(rewritten, start, keep, options.import_paths)
    return _grammar(loaded, rewritten, start, options, indentation)


def _check_entries(source: Source) -> None:
    """Additions are read in Python, and what is left by lark's own loader, a fiftieth of a millisecond for each."""
    entries = (piece for piece in source.pieces if piece.kind not in ("space", "comment", "newline"))
    last = next(islice(entries, ENTRIES, None), None)
    if last is not None:
        place = source.position(last.offset)
        raise LimitExceeded(
            f"the grammar has more than {ENTRIES} names, texts and signs",
            limit="grammar_entries",
            where=f"line {place.line}, column {place.column}",
            hint="Leave out additions to Lark's language, with which the limit is lower; or split the grammar into "
            "several constraints.",
        )


def _grammar(
    loaded: Loaded,
    rewritten: Rewritten,
    start: str,
    options: _Options,
    indentation: Indentation | None,
) -> Grammar:
    rule, contextual = options.lexer, options.contextual
    made = {indentation.indent, indentation.dedent} if indentation else set()
    _check_declared(loaded, rewritten, made)

    @cache
    def following() -> Following:
        bodies: dict[str, Body] = {one.name: ("terminal", one.name) for one in loaded.terminals}
        bodies |= dict.fromkeys(made, EMPTY)
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
    lexemes.bodies |= {name: ("terminal", name) for name in made}
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
    base = name.split("{")[0].split("::")[0]  # of a use with arguments or a number, the rule's
    options = rewritten.options.get(base)
    if options is None:
        return Rule(name, body, offset)
    limit = None if options.max_tokens is None else (options.max_tokens, at_limit == "cut")
    return Rule(name, body, offset, options.capture, options.temperature, lexemes.endings.get(base), limit)


def _check_declared(loaded: Loaded, rewritten: Rewritten, made: set[str]) -> None:
    for name in sorted(loaded.declared - made):
        rewritten.source.fail(
            f"the terminal {name} is declared, but nothing makes it",
            rewritten.source.definition(rewritten.written(name)),
            len(name),
            hint="Define it, or pass the indenter that makes it: indenter=lark.indenter.PythonIndenter.",
        )


def _indentation(indenter: object) -> Indentation | None:
    """What an indenter of lark says."""
    if indenter is None or isinstance(indenter, Indentation):
        return indenter
    if isinstance(indenter, type) and issubclass(indenter, Indenter):
        indenter = indenter()
    if not isinstance(indenter, Indenter):
        raise OptionError(
            f"an indenter is a lark.indenter.Indenter or an Indentation, not {a_kind(indenter)}",
            hint="As in indenter=lark.indenter.PythonIndenter.",
        )
    for method in ("process", "_process", "handle_NL"):
        if getattr(type(indenter), method) is not getattr(Indenter, method):
            raise OptionError(
                f"{type(indenter).__name__} does more than lark's Indenter: it has its own {method}()",
                hint="Only the names of terminals and tab_len may differ.",
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
    """In the names of the terminals here; brackets that the grammar does not have are left out."""
    newline = lexemes.names.get(indentation.newline, [])
    if len(newline) != 1:
        several = "is found by several patterns" if newline else "is not in the grammar"
        rewritten.source.fail(
            f"the newline terminal {indentation.newline} of the indenter {several}",
            rewritten.source.definition(indentation.newline),
            hint="Define it as one pattern that the grammar does not ignore: _NEWLINE: /(\\r?\\n[\\t ]*)+/",
        )

    def known(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(one for name in names for one in lexemes.names.get(name, []))

    return Indentation(
        newline[0],
        indentation.indent,
        indentation.dedent,
        known(indentation.open_brackets),
        known(indentation.close_brackets),
        indentation.tab_width,
    )
