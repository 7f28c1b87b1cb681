"""SQL whose tables and columns are those of a live database.

What: after ``FROM``, ``JOIN``, ``INTO`` and ``UPDATE`` comes a table; after a table's name or alias and a dot one of
its columns; where an expression may begin, a name is a column, a function of this database, or a word of SQL. The
schema is read when the text reaches such a position, so it is current. SQLite itself judges a finished query: it
prepares the query without running it. Anything but a query or a change of rows is a fault.
Unknown, and so unconstrained: names that the query defines itself (``WITH``, aliases of columns), columns of
sub-queries, and names of a schema with more than `MOST_NAMES`.
Approximate: an alias that is used before its definition must be short (a letter or two and a digit) or begin as a
table's name does.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Collection, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from structgen.constraints.expressions import EPSILON, RE, TEXT, alternate, concat, literal, repeat
from structgen.errors import OptionError, with_kind

from .languages import language_of
from .monitor import Context, Fault, Monitor, Trigger
from .suggestions import MOST_NAMES, Names, Rest, expression_of, folded

__all__ = ["DatabaseMonitor", "sqlite_schema"]


def _after(words: str, more: str = "") -> Trigger:
    """Return a trigger after one of these words, in upper or lower case, and a space."""
    folded = "|".join("".join(f"[{letter.upper()}{letter}]" for letter in word) for word in words.split())
    return Trigger(rf"(^|[^A-Za-z0-9_])({folded})\s{more}")


_TABLE_NEXT = _after("from join into update")
_VALUE_NEXT = _after(
    "select where and or not on by having distinct set when then else", more=r"|[(,=<>+|-]|(?<!/)\*|(?<!\*)/"
)
_ALIASES = re.compile(
    r"(?i)(?:\b(?:from|join|into|update)|,)\s*(?:\w+\.)?(\"[^\"]+\"|\w+)(?:\s+as)?(?:\s+(\"[^\"]+\"|\w+))?"
)
_MADE = re.compile(
    r"(?i)\)\s*(?:as\s+)?\"?(\w+)|\bas\s+\"?(\w+)|\bwith\s+(?:recursive\s+)?(\w+)|,\s*(\w+)\s*(?:\([^()]*\)\s*)?as\s*\("
)
_COMPARED = re.compile(r"(?i)\bis\s+(?:not\s+)?distinct\s+from\s$")
_OTHERS = (
    "case cast not exists distinct all select with in is like between glob values default conflict from null true "
    "false current_date current_time current_timestamp order partition rows range groups where group having limit "
    "excluded rowid oid _rowid_ or and as on using union except intersect over filter nothing recursive "
    "escape collate main temp"
)
"""Words that may stand where a value may, in addition to names: they begin an expression, or continue one."""
_WORDS = frozenset(_OTHERS.split())
_JSON = re.compile(r"(?i)\bjson_(?:each|tree)\b")
_SELECT, _FROM = re.compile(r"(?i)\bselect\b"), re.compile(r"(?i)\bfrom\b")
_BEHIND_FROM = re.compile(r"(?i)\bfrom\b.*\b(?:where|group|having|order)\b", re.DOTALL)
_OF_JSON = frozenset(["key", "value", "type", "atom", "id", "parent", "fullkey", "path", "json", "root"])
"""Columns of these two."""
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_QUERIES = ("select", "with", "values", "insert", "replace", "update", "delete")
_MOST_KEPT = 8
_IMPLIED = frozenset({"rowid", "oid", "_rowid_"})


class DatabaseMonitor(Monitor):
    """Made by `sqlite_schema`."""

    def __init__(self, database: str | Path | sqlite3.Connection) -> None:
        super().__init__("sqlite", ("member", _TABLE_NEXT, _VALUE_NEXT))
        self._own = not isinstance(database, sqlite3.Connection)
        if isinstance(database, sqlite3.Connection):
            self._connection = database
        else:
            uri = Path(database).absolute().as_uri()
            self._connection = sqlite3.connect(f"{uri}?mode=ro", uri=True, check_same_thread=False)
        self._lock = threading.Lock()
        known = self._connection.execute(
            "SELECT name FROM pragma_function_list UNION SELECT name FROM pragma_module_list"
        )
        self._functions = frozenset(row[0].lower() for row in known) | {"cast"}
        self._version: int | None = None
        self._tables: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._made: dict[tuple[str, int | None, frozenset[str]], Rest] = {}

    def tables(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Return the current tables and views by their names in lower case: name and columns."""
        with self._lock:
            (version,) = self._connection.execute("PRAGMA schema_version").fetchone()
            if version != self._version:
                names = [
                    row[0]
                    for row in self._connection.execute(
                        "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' "
                        "ESCAPE '\\'"
                    )
                ]
                self._tables = {name.lower(): (name, self._columns(name)) for name in names}
                self._version = version
            return self._tables

    def _columns(self, table: str) -> tuple[str, ...]:
        rows = self._connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
        return tuple(row[0] for row in rows)

    def key(self, context: Context) -> Any:
        """Return no key: the schema may have changed, so answers are not kept."""
        self.tables()
        return context.place, context.digest(), self._version

    def suggest(self, context: Context) -> Any:
        """Return tables, columns of a table, or what an expression may begin with."""
        tables, written = self.tables(), context.text
        made = {name for match in _MADE.finditer(written) for name in match.groups() if name}
        if context.place == "member":
            return self._members(context.receiver, tables, written, made)
        names = {name for name, _ in tables.values()} | made | {"sqlite_schema", "sqlite_master"}
        if context.place == _TABLE_NEXT.pattern and not _COMPARED.search(written):
            return self._relations(names)
        aliases = {
            name.strip('"')
            for match in _ALIASES.finditer(written + context.after)
            for name in match.groups()
            if name
        }
        of_json = set() if _reads_no_json(written) else _OF_JSON
        return self._expressions(names | aliases | of_json)

    def _relations(self, names: set[str]) -> Rest | None:
        """Return what a table's name may be."""
        return self._kept("table", frozenset(names | {"select", "or", "main", "temp"}), ())

    def _expressions(self, names: set[str]) -> Rest | None:
        """Return what an expression may begin with, in a query with these names."""
        columns = {column for _, some in self._tables.values() for column in some}
        return self._kept("value", frozenset(columns | names | _WORDS), self._tables.keys())

    def _kept(self, kind: str, names: frozenset[str], tables: Collection[str]) -> Rest | None:
        """Return the language of these names, kept while the schema is the same; None if there are too many."""
        if len(names) > MOST_NAMES:
            return None
        key = kind, self._version, names
        expression = self._made.get(key)
        if expression is None:
            if len(self._made) >= _MOST_KEPT:
                self._made.clear()
            expression = self._made[key] = _names_or(names, self._functions, tables)
        return expression

    def _members(
        self, receiver: str, tables: dict[str, tuple[str, tuple[str, ...]]], written: str, made: set[str]
    ) -> Names | None:
        name = receiver.strip('"').lower()
        if name in ("main", "temp"):
            return Names(
                {table for table, _ in tables.values()} | {"sqlite_schema", "sqlite_master"}, optional=True
            )
        meant = {
            match[1].strip('"').lower()
            for match in _ALIASES.finditer(written)
            if match[2] and match[2].strip('"').lower() == name
        } | ({name} if name in tables else set())
        if name in {one.lower() for one in made} or name == "excluded" or meant - tables.keys():
            return None
        # An alias that is defined only later may belong to any table.
        some = meant or tables.keys()
        columns = {column for table in some for column in tables[table][1]}
        return Names(columns | _IMPLIED, optional=True) if 0 < len(columns) < MOST_NAMES - 9 else None

    def faults(self, context: Context) -> Sequence[Fault] | None:
        """Return what SQLite reports about the query, which is prepared and not run."""
        query = _COMMENT.sub("", context.text).strip().rstrip(";").strip()
        if not query:
            return []
        first = query.split(None, 1)[0].split("(")[0].lower()
        if first not in _QUERIES:
            # Others, such as PRAGMA, take effect when they are prepared.
            return [Fault(0, f"{first.upper()} is neither a query nor a change of rows")]
        try:
            with self._lock:
                self._connection.execute("EXPLAIN " + context.text.strip().rstrip(";"))
        except sqlite3.ProgrammingError as error:
            if "binding" in str(error):  # parameters have no values here
                return []
            if "statement" not in str(error):
                raise  # of the connection, not of the query: it is closed, for one
            return [Fault(-1, str(error))]
        except (sqlite3.Error, sqlite3.Warning) as error:
            return [Fault(self._place(str(error), context), str(error))]
        return []

    @staticmethod
    def _place(message: str, context: Context) -> int:
        """Return the position in the generated text of the name that the message is about."""
        named = re.search(
            r"(?:no such (?:column|table|function)|ambiguous column name): ([\w.]+)|near \"(.+?)\"", message
        )
        start = len(context.text) - context.generated
        if named is None:
            return -1
        start_of_name = context.text.find(named[1] or named[2], start)
        return start_of_name - start if start_of_name >= 0 else -1

    def close(self) -> None:
        """Close a connection of its own."""
        if self._own:
            self._connection.close()


def _reads_no_json(written: str) -> bool:
    """Return whether this is one plain query whose sources are known.

    Words may stand in strings or mean something else, so with two of them nothing is known.
    """
    return (
        _JSON.search(written) is None
        and len(_SELECT.findall(written)) <= 1
        and len(_FROM.findall(written)) == 1
        and _BEHIND_FROM.search(written) is not None
    )


def _names_or(names: Collection[str], functions: frozenset[str], tables: Collection[str] = ()) -> Rest:
    """Return the language of these names, functions with their bracket, likely aliases of tables, and other symbols."""
    language = language_of("sql")
    spaces = repeat(("class", ((9, 10), (13, 13), (32, 32))), 0, None)
    listed = expression_of(Names(names, optional=True), language, spaces="")
    assert listed is not None
    called = concat((_folded(functions), spaces, alternate([EPSILON, concat((literal("("), TEXT))])))
    branches = [listed, called]
    if tables:
        letter = ("class", ((65, 90), (97, 122)))
        short = concat((letter, repeat(letter, 0, 1), repeat(("class", ((48, 57),)), 0, 1)))
        abbreviated = _folded(frozenset(name[:end] for name in tables for end in range(1, len(name))))
        branches.append(concat((alternate([short, abbreviated]), literal("."), TEXT)))
    return Rest(concat((spaces, alternate(branches))))


@lru_cache(maxsize=8)
def _folded(names: frozenset[str]) -> RE:
    return folded(names)


def sqlite_schema(database: str | Path | sqlite3.Connection) -> DatabaseMonitor:
    """Return a monitor of the tables and columns of an SQLite database, read while the query is written.

        monitored(sg.grammar("sql"), sqlite_schema("shop.db"), language="sql")

    `database` is a file, opened read-only, or a connection (with ``check_same_thread=False``).
    """
    if not isinstance(database, str | Path | sqlite3.Connection):
        raise OptionError(f"database is {with_kind(database)}", hint="Give a file, or a sqlite3.Connection.")
    if not isinstance(database, sqlite3.Connection) and not Path(database).is_file():
        raise OptionError(
            f"there is no database {str(database)!r:.200}", hint="Give the path of an SQLite file."
        )
    try:
        return DatabaseMonitor(database)
    except sqlite3.Error as error:
        shown = "the connection" if isinstance(database, sqlite3.Connection) else repr(str(database))
        raise OptionError(
            f"{shown:.200} cannot be read as an SQLite database: {error}",
            hint="Give the path of an SQLite file, or an open connection.",
        ) from error
