"""SQL: statements out of packages that use SQLite, from files and from strings in their tests; judged by sqlite3."""

from __future__ import annotations

import ast
import random
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

from bench.corpora import pypi, texts

NAME = "sql"

_SDISTS = (
    "sqlglot==26.0.0",
    "sqlite-utils==3.38",
    "datasette==0.65.1",
    "peewee==3.17.8",
    "alembic==1.14.0",
    "SQLAlchemy==2.0.36",
    "Django==5.1.4",
)

_STATEMENT = re.compile(
    r"(\s|--[^\n]*\n)*(SELECT|WITH|VALUES|INSERT|REPLACE|UPDATE|DELETE|CREATE|DROP|ALTER|PRAGMA|BEGIN|COMMIT|END|"
    r"ROLLBACK|SAVEPOINT|RELEASE|EXPLAIN|ATTACH|DETACH|ANALYZE|REINDEX|VACUUM)\b.*",
    re.IGNORECASE | re.DOTALL,
)

_BLANKS = re.compile(r"([; \t\n\f\r]|--[^\n\0]*|/\*([^*\0]|\*(?!/))*\*/)+")

_FORM = re.compile(
    "syntax error|incomplete input|unrecognized token|null character|unknown join type|unknown table option|"
    "should come after|is required before|NATURAL join may not|error in generated column|not allowed on (INSERT|UPDATE)"
)
"""What SQLite says of texts that are not SQL; all else is about names, types and numbers."""

_NO_TABLE = re.compile(r"no such table: (?:([^.]*)\.)?(.*)", re.DOTALL)
_NO_DATABASE = re.compile(r"unknown database (.*)", re.DOTALL)
_MISSING = 50
"""Tables and databases that are made for one statement."""


def files(limit: int | None = None) -> Iterator[tuple[str, str]]:
    """Statements: those in ``.sql`` files of these packages, and strings in their Python files that are SQL."""
    folders = [pypi(name, source=True) for name in _SDISTS]
    statements = list(_statements(folders))
    random.Random(0).shuffle(statements)  # drawn before they are judged, which takes longer than finding them
    yield from islice(((name, text) for name, text in statements if is_valid(text)), limit)


def is_valid(text: str) -> bool:
    """The verdict of SQLite's parser on each statement: names need not be there."""
    rest = whole = _after_blanks(text)
    while rest:
        statement = _first(rest)
        if not _is_statement(statement):
            return False
        rest = _after_blanks(rest[len(statement) :])
    return bool(whole)


def _after_blanks(text: str) -> str:
    """Without the white space, comments and semicolons at its start."""
    blanks = _BLANKS.match(text)
    return text[blanks.end() :] if blanks else text


def _first(text: str) -> str:
    """The text up to the semicolon where SQLite's shell would take it for whole."""
    for semicolon in re.finditer(";", text):
        if sqlite3.complete_statement(text[: semicolon.end()]):
            return text[: semicolon.end()]
    return text


def _is_statement(text: str) -> bool:
    """Compile the text in a database with the missing tables and columns, without which SQLite stops."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        for _ in range(_MISSING):
            message = _complaint(database, f"EXPLAIN {text}")
            if message.upper().startswith('NEAR "EXPLAIN"'):
                message = _complaint(database, text)
            if table := _NO_TABLE.fullmatch(message):
                if table[1]:
                    _complaint(database, f"ATTACH ':memory:' AS {_quoted(table[1])}")
                made = f"CREATE TABLE {_quoted(table[1] or 'main')}.{_quoted(table[2])} ('?')"
            elif match := _NO_DATABASE.fullmatch(message):
                made = f"ATTACH ':memory:' AS {match[1]}"  # as it was written, quotes and all
            else:
                break
            if _complaint(database, made):
                break
        return _FORM.search(message) is None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _complaint(database: sqlite3.Connection, text: str) -> str:
    try:
        database.execute(text)
    except (sqlite3.Error, sqlite3.Warning, UnicodeEncodeError) as error:
        return str(error)
    return ""


def _statements(folders: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield each text once."""
    seen: set[str] = set()
    for name, text in (*_of_files(folders), *_of_strings(folders)):
        stripped = text.strip()
        if stripped not in seen and _STATEMENT.fullmatch(stripped):
            seen.add(stripped)
            yield name, stripped


def _of_files(folders: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield one statement per line if the file ends lines without semicolons; otherwise split at semicolons."""
    for name, text in texts(folders, ".sql", most=1 << 20):
        if ";" not in text:
            yield from ((f"{name}:{number}", line) for number, line in enumerate(text.splitlines(), 1))
            continue
        while text.strip():
            statement = _first(text)
            yield name, statement
            text = text[len(statement) :]


def _of_strings(folders: Iterable[Path]) -> Iterator[tuple[str, str]]:
    for name, source in texts(folders, ".py", most=1 << 20):
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{name}:{node.lineno}", node.value
