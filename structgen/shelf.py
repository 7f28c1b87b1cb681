"""The shelf: ready grammars of data formats, languages and notations, by name.

    sg.grammar("json")
    sg.grammar("sql", start="select", tables=["users", "orders"], columns=["id", "name"])

Why: a grammar of a language takes its specification, its corner cases and files to measure it with; each in
`grammars/` was made once, so here a name is enough. How each is read is one entry in a table.
Invariant: the constraint is the file's, as its header says that it is read; for SQL, names that are given fill the
override points of that header and change nothing else. The same question gives the same constraint.
Cost: a grammar is read when it is first asked for (a second for the largest) and kept.
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
from structgen.constraints.grammar.constraint import GrammarConstraint, LexerRule, gbnf, lark
from structgen.errors import OptionError, did_you_mean, with_kind
from structgen.notebook import card, plain, table

__all__ = ["ShelfGrammar", "folder", "grammar", "grammars"]

_KEPT = 64
"""Constraints that are kept at a time."""


@short_repr
@dataclass(frozen=True, slots=True)
class ShelfGrammar:
    """How a grammar of the shelf is read."""

    name: str
    about: str
    format: Literal["lark", "gbnf"]
    starts: tuple[str, ...]
    """Rules that a whole text may be; the first without `start`."""
    lexer: LexerRule | None = None
    contextual: bool = False
    is_indented: bool = False
    """Blocks are told by their column, as in Python."""
    names: tuple[str, ...] = ()
    """Parameters that take the names which are there."""
    switches: tuple[str, ...] = ()
    """Options that are True or False; see `_SWITCHED_OFF`."""
    off: tuple[str, ...] = ()
    """Starts for which the switches are False unless they are given."""

    @property
    def path(self) -> Path:
        """The file."""
        return folder() / f"{self.name}.{self.format}"

    def source(self) -> str:
        """What stands in the file."""
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
"""What is replaced in a grammar, each with what, where an option is False.

subtle: a comment that may not stand must still be cut as one lexeme where its beginning could be read otherwise
(``1--2`` is not ``1 - -2``), so it is put before what no text holds.
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
    """The entries by name; a view that cannot be changed."""

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
    """Return what there is, by name."""
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
    """Return the constraint of a grammar of the shelf; `sg.grammars()` lists them.

    Args:
        name: The grammar.
        start: The rule that a whole text must be: ``"select"`` or ``"expression"`` of ``"sql"``, ``"eval_input"`` of
            ``"python"``.
        comments: Whether texts may have comments. None: yes, but for single queries and expressions (``"select"``,
            ``"expression"``, ``"eval_input"``), where models drift into them.
        parameters: Of ``"sql"``: whether bind parameters (``?1``, ``:name``) may stand. None: as for `comments`.
        **names: Of ``"sql"``: the names in a database as `tables` (and views), `columns`, `functions`, `schemas` and
            `aliases`. Where a name must be one that is there, it is one of them. Without a list names are free; what
            stands before a dot is free until `aliases` is given, and then one of `tables` and `aliases`. ``[]`` for
            `functions` and `schemas` means that there are none.

    Raises:
        OptionError: There is no such grammar, or it has no such start or option.
    """
    if not isinstance(name, str) or name not in _SHELF:
        near = get_close_matches(str(name).lower(), _SHELF, 1)
        raise OptionError(
            f"there is no grammar {name!r:.60} on the shelf"
            + (f"; did you mean {near[0]!r}?" if near else ""),
            hint=f"There are {', '.join(_SHELF)}. For one of your own: sg.lark(), sg.gbnf(), sg.ebnf().",
        )
    entry = _SHELF[name]
    if start is not None and start not in entry.starts:
        raise OptionError(
            f"the grammar {name!r} does not start at {start!r:.60}",
            hint=f"It starts at {' or '.join(map(repr, entry.starts))}.",
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
    """Where the files are: inside the package as it is installed, beside it in a source tree."""
    inside = Path(__file__).parent / "grammars"
    return inside if inside.is_dir() else Path(__file__).parents[1] / "grammars"


_MAY_BE_NONE = ("aliases", "functions", "schemas")


def _listed(kind: str, given: Iterable[str]) -> tuple[str, ...]:
    is_list = isinstance(given, Iterable) and not isinstance(given, (str, bytes))
    listed = tuple(given) if is_list else ()
    for name in listed:
        if not isinstance(name, str) or not name or "\0" in name or not name.isprintable():
            raise OptionError(
                f"{kind} has {with_kind(name)}, which is no name", hint="Names are printable text."
            )
    if not is_list or (not listed and kind not in _MAY_BE_NONE):
        at_least = "" if kind in _MAY_BE_NONE else ", of which there is at least one"
        raise OptionError(
            f"{kind} is {given!r:.60}; it takes a list of names{at_least}",
            hint=f'Write {kind}=["name", ...], or leave it out where any name may stand.',
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
        from lark.indenter import PythonIndenter

        indenter = PythonIndenter
    if known:
        source = f"{source}\n{_overrides(source, dict(known))}\n"
    read = lark(source, start=start, lexer=entry.lexer, contextual=entry.contextual, indenter=indenter)
    return _WithNames(read, known, _reserved(entry.source())) if known else read


class _WithNames(GrammarConstraint):
    """A grammar in which the listed names are terminals; they are told as they were given."""

    __slots__ = ("_given",)

    _given: dict[str, str]
    """How a terminal is called that is a listed name; empty for the same name in quotes."""

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
            ways = _ways(name, reserved)
            for way in ways:
                given[repr(way.upper() if name.isascii() else way)] = way if way is ways[0] else ""
        object.__setattr__(self, "_given", given)

    def shown(self, names: Sequence[str]) -> list[str]:
        told = (self._given.get(name, name) for name in names)
        return [name for name in told if name]


# The names of a database, at the override points of sql.lark.

_POINTS = {
    "tables": "table_name",
    "columns": "column_name",
    "functions": "function_name",
    "schemas": "schema_name",
}
_NOTHING = "broken"
"""A rule of sql.lark that no text satisfies."""
_WORD = re.compile(r"[A-Za-z_\x80-\U0010ffff][\w$]*")
_KEYWORD = re.compile(r'"([A-Z_]+)"i')


def _overrides(source: str, known: dict[str, tuple[str, ...]]) -> str:
    """What is put after the grammar so that only these names are known."""
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
                "aliases=[] without tables leaves nothing that can stand before a dot",
                hint="Give tables, too, or leave aliases out.",
            )
        lines.append(f"%override qualifier: {_alternatives(before_dots, reserved)}")
    # A name that is listed is another lexeme than NAME, so it must be told that it may stand where any name may.
    listed = dict.fromkeys(name for names in known.values() for name in names)
    if listed:
        lines.append(f"%extend word: {_alternatives(listed, reserved)}")
    return "\n".join(lines)


def _alternatives(names: Iterable[str], reserved: frozenset[str]) -> str:
    written = (one for name in names for one in _written(name, reserved))
    return " | ".join(dict.fromkeys(written))


def _written(name: str, reserved: frozenset[str]) -> list[str]:
    """The ways to write a name: in quotes, and bare where it is a word that SQLite does not keep for itself.

    SQLite folds the case of ASCII letters only; so a name with others is taken as it is given.
    """
    fold = "i" if name.isascii() else ""
    ways = _ways(name, reserved)
    return ['"' + way.replace("\\", "\\\\").replace('"', '\\"') + f'"{fold}' for way in ways]


def _ways(name: str, reserved: frozenset[str]) -> list[str]:
    quoted = name.replace('"', '""')
    is_bare = _WORD.fullmatch(name) and name.upper() not in reserved
    return [*([name] if is_bare else []), f'"{quoted}"']


@cache
def _reserved(source: str) -> frozenset[str]:
    """Keywords that the grammar's rule `word` does not take for names."""
    found = re.search(r"^word:(?:.*\n)(?:\s+(?:\||//).*\n)*", source, re.MULTILINE)
    assert found is not None
    return frozenset(_KEYWORD.findall(source)) - frozenset(_KEYWORD.findall(found[0]))
