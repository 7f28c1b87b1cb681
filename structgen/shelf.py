"""Ready grammars of data formats, programming languages and notations, by name.

    sg.grammar("json")
    sg.grammar("sql", start="select", tables=["users", "orders"], columns=["id", "name"])

Why: a grammar of a language takes work: its specification, its corner cases, and files to test it on. The files in
`grammars/` did that work once, so a name is enough here. A table states how each file is read.
Invariant: the constraint is that of the file, read as its header states. For SQL, given names fill the override points
of that header and change nothing else. Equal arguments return the same constraint.
Cost: a grammar is read at its first use (a second for the largest) and cached.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

from structgen.argument_names import checks_names
from structgen.brief import short_repr
from structgen.constraints.grammar.builders import LexerRule, gbnf, lark
from structgen.constraints.grammar.constraint import GrammarConstraint
from structgen.errors import OptionError, did_you_mean, with_kind
from structgen.notebook import card, plain, table

__all__ = ["ShelfGrammar", "folder", "grammar", "grammars"]

_KEPT = 64
"""The most constraints in the cache."""


@short_repr
@dataclass(frozen=True, slots=True)
class ShelfGrammar:
    """A ready grammar, and how it is read."""

    name: str
    about: str
    format: Literal["lark", "gbnf"]
    starts: tuple[str, ...]
    """The start rules; the first is the default."""
    lexer: LexerRule | None = None
    contextual: bool = False
    is_indented: bool = False
    """Whether indentation is part of the syntax, as in Python."""
    names: tuple[str, ...] = ()
    """Parameters that take lists of the names that exist."""
    switches: tuple[str, ...] = ()
    """Boolean options; see `_SWITCHED_OFF`."""
    off: tuple[str, ...] = ()
    """Starts for which the boolean options are False by default."""

    @property
    def path(self) -> Path:
        """The path of the file."""
        return folder() / f"{self.name}.{self.format}"

    def source(self) -> str:
        """Return the text of the file."""
        return self.path.read_text("utf-8")


def _gbnf(name: str, about: str, *switches: str) -> ShelfGrammar:
    return ShelfGrammar(name, about, "gbnf", ("root",), switches=switches)


_C_COMMENTS = (
    ("%ignore LINE_COMMENT\n%ignore BLOCK_COMMENT\n", ""),
    ("BROKEN_NUMBER | ", "BROKEN_NUMBER | LINE_COMMENT | BLOCK_COMMENT | "),
)
_SWITCHED_OFF: Mapping[tuple[str, str], tuple[tuple[str, str], ...]] = {
    ("cpp", "comments"): _C_COMMENTS,
    ("solidity", "comments"): _C_COMMENTS,
    ("graphql", "comments"): (("%ignore /#[^\\n\\r]*/\n", ""),),
    ("python", "comments"): (
        ("%ignore COMMENT\n", ""),
        ("(#[^\\r\\n\\x00]*)?", ""),
        ("(#[^\\r\\n]*|\\\\)[\\r\\n]", "\\\\[\\r\\n]"),
    ),
    ("sql", "comments"): (
        ("%ignore COMMENT\n", ""),
        ("broken: BROKEN broken", "broken: (BROKEN | COMMENT) broken"),
    ),
    ("sql", "parameters"): (
        ("        | VARIABLE\n", "        | VARIABLE broken\n"),
        ("_literal | VARIABLE | reserved_word", "_literal | reserved_word"),
    ),
    ("toml", "comments"): (
        ("comment | (key-value | table) ws comment?", "(key-value | table) ws"),
        ("breaks (comment newline breaks)*", "breaks"),
    ),
    ("xml", "comments"): (("(comment | instruction)", "instruction"), (" | comment", "")),
}
"""The replacements in a grammar's text for an option that is False.

subtle: a forbidden comment must still be one lexeme where its beginning could be read differently (``1--2`` is not
``1 - -2``). So it is followed by a symbol without a text.
"""


_SQL_NAMES = ("tables", "columns", "functions", "schemas", "aliases")
_SHELF = {
    entry.name: entry
    for entry in (
        ShelfGrammar("arithmetic", "arithmetic expressions in one line", "lark", ("start",), "longest"),
        ShelfGrammar(
            "cpp", "C++17, before the preprocessor", "lark", ("start",), "longest", switches=("comments",)
        ),
        _gbnf("csv", "CSV, RFC 4180"),
        ShelfGrammar(
            "graphql",
            "GraphQL documents, October 2021",
            "lark",
            ("start",),
            "longest",
            switches=("comments",),
        ),
        _gbnf("json", "JSON, RFC 8259"),
        ShelfGrammar(
            "python",
            "Python 3.12",
            "lark",
            ("file_input", "eval_input"),
            "longest",
            is_indented=True,
            switches=("comments",),
            off=("eval_input",),
        ),
        _gbnf("smiles", "molecules, OpenSMILES 1.0"),
        ShelfGrammar(
            "solidity", "Solidity 0.8, with Yul", "lark", ("start",), "longest", switches=("comments",)
        ),
        ShelfGrammar(
            "sql",
            "SQL of SQLite 3.39 and later",
            "lark",
            ("start", "statement", "select", "expression"),
            "longest",
            names=_SQL_NAMES,
            switches=("comments", "parameters"),
            off=("select", "expression"),
        ),
        _gbnf("toml", "TOML 1.0.0", "comments"),
        ShelfGrammar(
            "typescript", "TypeScript 5.9, without JSX", "lark", ("start",), "longest", contextual=True
        ),
        _gbnf("xml", "well-formed XML 1.0", "comments"),
    )
}


class _Shelf(Mapping[str, ShelfGrammar]):
    """A read-only view of the entries by name."""

    def __getitem__(self, name: str) -> ShelfGrammar:
        return _SHELF[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_SHELF)

    def __len__(self) -> int:
        return len(_SHELF)

    def __repr__(self) -> str:
        return f"<{len(self)} grammars: {', '.join(self)}>"

    def _repr_html_(self) -> str:
        rows = [
            (f"<b>{plain(one.name)}</b>", plain(one.about), plain(", ".join(one.starts)))
            for one in self.values()
        ]
        return card("Grammars", "sg.grammar(name, start=...)", table(("name", "what it is", "starts"), rows))


@checks_names
def grammars() -> Mapping[str, ShelfGrammar]:
    """Return the ready grammars by name."""
    return _Shelf()


@checks_names
def grammar(
    name: str,
    *,
    start: str | None = None,
    comments: bool | None = None,
    parameters: bool | None = None,
    **names: Iterable[str] | None,
) -> GrammarConstraint:
    """Return the constraint of a ready grammar; `sg.grammars()` lists them.

    Args:
        name: The name of the grammar.
        start: The rule that the whole text must match: ``"select"`` or ``"expression"`` for ``"sql"``,
            ``"eval_input"`` for ``"python"``.
        comments: Whether texts may contain comments. None: yes, except for single queries and expressions
            (``"select"``, ``"expression"``, ``"eval_input"``), where models drift into them.
        parameters: For ``"sql"``: whether bind parameters (``?1``, ``:name``) are allowed. None: as for `comments`.
        **names: For ``"sql"``: the names in a database as `tables` (and views), `columns`, `functions`, `schemas` and
            `aliases`. A reference must be one of these names. Without a list, names are free. The name before a dot is
            free unless `aliases` is given; then it is one of `tables` and `aliases`. ``[]`` for `functions` and
            `schemas` means that the database has none.

    Raises:
        OptionError: There is no such grammar, or it has no such start or option.
    """
    if not isinstance(name, str) or name not in _SHELF:
        near = get_close_matches(str(name).lower(), _SHELF, 1)
        raise OptionError(
            f"there is no ready grammar {name!r:.60}" + (f"; did you mean {near[0]!r}?" if near else ""),
            hint=f"The grammars are {', '.join(_SHELF)}. For your own, use sg.lark(), sg.gbnf() or sg.ebnf().",
        )
    entry = _SHELF[name]
    if start is not None and start not in entry.starts:
        raise OptionError(
            f"the grammar {name!r} has no start rule {start!r:.60}",
            hint=f"Its start rules are {' and '.join(map(repr, entry.starts))}.",
        )
    given = {"comments": comments, "parameters": parameters}
    switched = {option: value for option, value in given.items() if value is not None}
    for option, value in switched.items():
        if not isinstance(value, bool):
            raise OptionError(f"{option} is {value!r:.60}; it must be True or False")
    for parameter in (*names, *switched):
        if parameter not in (*entry.names, *entry.switches):
            options = (*entry.names, *entry.switches)
            takes = " and ".join(["start", *options]) if options else "start alone"
            meant = did_you_mean(parameter, ("start", *options))
            raise OptionError(
                f"the grammar {name!r} has no parameter {parameter!r}",
                hint=f"{meant} It takes {takes}." if meant else f"It takes {takes}.",
            )
    known = tuple((kind, _listed(kind, given)) for kind, given in sorted(names.items()) if given is not None)
    chosen = start or entry.starts[0]
    off = [option for option in entry.switches if not switched.get(option, chosen not in entry.off)]
    return _made(name, chosen, known, tuple(off))


def folder() -> Path:
    """Return the folder of the files: inside an installed package, next to the package in a source tree."""
    inside = Path(__file__).parent / "grammars"
    return inside if inside.is_dir() else Path(__file__).parents[1] / "grammars"


_MAY_BE_NONE = ("aliases", "functions", "schemas")


def _listed(kind: str, given: Iterable[str]) -> tuple[str, ...]:
    is_list = isinstance(given, Iterable) and not isinstance(given, (str, bytes))
    listed = tuple(given) if is_list else ()
    for name in listed:
        if not isinstance(name, str) or not name or "\0" in name or not name.isprintable():
            raise OptionError(
                f"{kind} contains {with_kind(name)}, which is not a name",
                hint="Names must be printable text.",
            )
    if not is_list or (not listed and kind not in _MAY_BE_NONE):
        a_list = "a list of names" if kind in _MAY_BE_NONE else "a non-empty list of names"
        raise OptionError(
            f"{kind} is {given!r:.60}; it must be {a_list}",
            hint=f'Write {kind}=["name", ...], or omit it to allow any name.',
        )
    return tuple(dict.fromkeys(listed))


@lru_cache(maxsize=_KEPT)
def _made(
    name: str, start: str, known: tuple[tuple[str, tuple[str, ...]], ...], off: tuple[str, ...]
) -> GrammarConstraint:
    entry = _SHELF[name]
    source = entry.source()
    for option in off:
        for old, new in _SWITCHED_OFF[name, option]:
            assert old in source, (name, option, old)
            source = source.replace(old, new)
    if entry.format == "gbnf" or entry.lexer is None:
        return gbnf(source, start=start)
    indenter = None
    if entry.is_indented:
        from lark.indenter import PythonIndenter  # here, so that other grammars do not load the lark library

        indenter = PythonIndenter
    if known:
        source = f"{source}\n{_overrides(source, dict(known))}\n"
    read = lark(source, start=start, lexer=entry.lexer, contextual=entry.contextual, indenter=indenter)
    return _WithNames(read, known, _reserved(entry.source())) if known else read


class _WithNames(GrammarConstraint):
    """A grammar in which listed names are terminals; messages show the names as the user spelled them."""

    __slots__ = ("_given",)

    _given: dict[str, str]
    """The name that messages show for a terminal; empty for the same name in quotes."""

    def __init__(
        self,
        read: GrammarConstraint,
        known: Iterable[tuple[str, tuple[str, ...]]],
        reserved: frozenset[str],
    ) -> None:
        self._set(read._read, read.format, read.start, read.lower())
        listed = dict.fromkeys(name for _, names in known for name in names)
        given: dict[str, str] = {}
        for name in listed:
            spellings = _spellings(name, reserved)
            for spelling in spellings:
                given[repr(spelling.upper() if name.isascii() else spelling)] = (
                    spelling if spelling is spellings[0] else ""
                )
        object.__setattr__(self, "_given", given)

    def shown(self, names: Sequence[str]) -> list[str]:
        shown = (self._given.get(name, name) for name in names)
        return [name for name in shown if name]


# The names of a database, at the override points of sql.lark.

_POINTS = {
    "tables": "table_name",
    "columns": "column_name",
    "functions": "function_name",
    "schemas": "schema_name",
}
_NOTHING = "broken"
"""A rule of sql.lark that has no text."""
_WORD = re.compile(r"[A-Za-z_\x80-\U0010ffff][\w$]*")
_KEYWORD = re.compile(r'"([A-Z_]+)"i')


def _overrides(source: str, known: dict[str, tuple[str, ...]]) -> str:
    """Return the definitions that restrict a grammar to these names, to be appended to its text."""
    reserved = _reserved(source)
    lines = []
    for kind, point in _POINTS.items():
        if kind in known:
            lines.append(f"%override {point}: {_alternatives(known[kind], reserved) or _NOTHING}")
    if known.get("schemas") == ():
        lines.append('%override column: column_name | qualifier "." column_name')
    if "aliases" in known:
        before_dots = (*known.get("tables", ()), *known["aliases"])
        if not before_dots:
            raise OptionError(
                "aliases=[] without tables allows no name before a dot",
                hint="Pass tables as well, or omit aliases.",
            )
        lines.append(f"%override qualifier: {_alternatives(before_dots, reserved)}")
    # A listed name is a different lexeme from NAME, so the rule for arbitrary names must allow it, too.
    listed = dict.fromkeys(name for names in known.values() for name in names)
    if listed:
        lines.append(f"%extend word: {_alternatives(listed, reserved)}")
    return "\n".join(lines)


def _alternatives(names: Iterable[str], reserved: frozenset[str]) -> str:
    written = (one for name in names for one in _terminals_of(name, reserved))
    return " | ".join(dict.fromkeys(written))


def _terminals_of(name: str, reserved: frozenset[str]) -> list[str]:
    """Return the spellings of a name as terminals: in quotes, and bare unless SQLite reserves the word.

    SQLite folds the case of ASCII letters only, so a name with other letters is case-sensitive.
    """
    fold = "i" if name.isascii() else ""
    spellings = _spellings(name, reserved)
    return ['"' + spelling.replace("\\", "\\\\").replace('"', '\\"') + f'"{fold}' for spelling in spellings]


def _spellings(name: str, reserved: frozenset[str]) -> list[str]:
    quoted = name.replace('"', '""')
    is_bare = _WORD.fullmatch(name) and name.upper() not in reserved
    return [*([name] if is_bare else []), f'"{quoted}"']


@cache
def _reserved(source: str) -> frozenset[str]:
    """Return the keywords that the grammar's rule `word` does not accept as names."""
    found = re.search(r"^word:(?:.*\n)(?:\s+(?:\||//).*\n)*", source, re.MULTILINE)
    assert found is not None
    return frozenset(_KEYWORD.findall(source)) - frozenset(_KEYWORD.findall(found[0]))
