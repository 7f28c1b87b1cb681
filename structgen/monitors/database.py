"""SQL whose tables and columns are those of a live database.

What: behind ``FROM``, ``JOIN``, ``INTO`` and ``UPDATE`` comes a table; behind a table's name or alias and a dot one of
its columns; where an expression may begin, a name is a column, a table, a function or a word of SQL. The schema is read
when the text comes to such a place, so it is that of this moment. A finished query is judged by SQLite itself, which
prepares it without running it.
Unknown, and so free: names made by the query itself (``WITH``, aliases of columns) are allowed wherever they were
written; columns of sub-queries behind an alias.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from structgen.errors import OptionError, with_kind

from .monitor import Context, Fault, Monitor, Trigger
from .suggestions import Names

__all__ = ["DatabaseMonitor", "sqlite_schema"]


def _behind(words: str, more: str = "") -> Trigger:
    """Behind one of these words, in upper or lower case, and a space."""
    folded = "|".join("".join(f"[{letter.upper()}{letter}]" for letter in word) for word in words.split())
    return Trigger(rf"(^|[^A-Za-z0-9_])({folded})\s{more}")


_TABLE_NEXT = _behind("from join into update")
_VALUE_NEXT = _behind(
    "select where and or not on by having distinct set when then else", more=r"|[(,=<>+\-*/|]"
)
_ALIASES = re.compile(r"(?i)\b(?:from|join|into|update|,)\s*\"?(\w+)\"?(?:\s+as)?(?:\s+(\w+))?")
_MADE = re.compile(r"(?i)\bas\s+\"?(\w+)|\bwith\s+(?:recursive\s+)?(\w+)|,\s*(\w+)\s+as\s*\(")
_FUNCTIONS = (
    "abs avg cast coalesce count date datetime exists group_concat ifnull iif instr julianday length like lower ltrim "
    "max min nullif printf random replace round rtrim strftime substr substring sum time total trim typeof unixepoch "
    "upper row_number rank dense_rank lag lead first_value last_value ntile over partition"
)
_OPENING = (
    "case not exists distinct all select with in like between glob values default conflict from null true false "
    "current_date current_time current_timestamp"
)
"""Words that an expression may begin with, or that go on after one of the words it is asked behind."""
_WORDS = frozenset(f"{_FUNCTIONS} {_OPENING}".split())


class DatabaseMonitor(Monitor):
    """Made by `sqlite_schema`."""

    def __init__(self, database: str | Path | sqlite3.Connection) -> None:
        super().__init__("sqlite", ("member", _TABLE_NEXT, _VALUE_NEXT))
        self._own = not isinstance(database, sqlite3.Connection)
        if isinstance(database, sqlite3.Connection):
            self._connection = database
        else:
            place = Path(database).absolute().as_uri()
            self._connection = sqlite3.connect(f"{place}?mode=ro", uri=True, check_same_thread=False)
        self._lock = threading.Lock()
        self._version: int | None = None
        self._tables: dict[str, tuple[str, tuple[str, ...]]] = {}

    def tables(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """The tables and views of this moment, by their names in lower case: name and columns."""
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
        found = self._connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
        return tuple(row[0] for row in found)

    def key(self, context: Context) -> Any:
        """The schema may have changed, so nothing is kept beyond it."""
        self.tables()
        return context.place, context.digest(), self._version

    def suggest(self, context: Context) -> Any:
        """Tables, columns of a table, or whatever an expression may begin with."""
        tables, written = self.tables(), context.text
        made = {name for match in _MADE.finditer(written) for name in match.groups() if name}
        if context.place == "member":
            return self._members(context.receiver, tables, written, made)
        if context.place == _TABLE_NEXT.pattern:
            return Names({name for name, _ in tables.values()} | made | {"select"}, optional=True)
        columns = {column for _, some in tables.values() for column in some}
        aliases = {
            name for match in _ALIASES.finditer(written + context.after) for name in match.groups() if name
        }
        known = columns | {name for name, _ in tables.values()} | aliases | made | _WORDS
        # An alias may be used before the place that makes it.
        prefixes = {
            f"{letter}{number}" for letter in "abcdefghijklmnopqrstuvwxyzt" for number in ("", 1, 2, 3)
        }
        return Names(known | prefixes, optional=True)

    def _members(
        self, receiver: str, tables: dict[str, tuple[str, tuple[str, ...]]], written: str, made: set[str]
    ) -> Names | None:
        name = receiver.strip('"').lower()
        meant = {
            match[1].lower() for match in _ALIASES.finditer(written) if match[2] and match[2].lower() == name
        } | ({name} if name in tables else set())
        if name in {one.lower() for one in made} or meant - tables.keys():
            return None
        # An alias that is made only later may be of any table.
        some = meant or tables.keys()
        columns = {column for table in some for column in tables[table][1]}
        return Names(columns | {"rowid"}, optional=True) if columns else None

    def faults(self, context: Context) -> Sequence[Fault] | None:
        """What SQLite says of the query; it is prepared, not run."""
        query = context.text.strip().rstrip(";")
        if not query:
            return []
        try:
            with self._lock:
                self._connection.execute("EXPLAIN " + query)
        except sqlite3.Warning as error:
            return [Fault(0, str(error))]
        except sqlite3.Error as error:
            return [Fault(self._place(str(error), context), str(error))]
        return []

    @staticmethod
    def _place(message: str, context: Context) -> int:
        """Where in the generated text the name stands that the message is about."""
        named = re.search(
            r"(?:no such (?:column|table|function)|ambiguous column name): ([\w.]+)|near \"(.+?)\"", message
        )
        start = len(context.text) - context.generated
        if named is None:
            return 0
        found = context.text.find(named[1] or named[2], start)
        return max(0, found - start)

    def close(self) -> None:
        """Close a connection of its own."""
        if self._own:
            self._connection.close()


def sqlite_schema(database: str | Path | sqlite3.Connection) -> DatabaseMonitor:
    """A monitor of the tables and columns of an SQLite database, read while the query is written.

        monitored(sg.grammar("sql"), sqlite_schema("shop.db"), language="sql")

    `database` is a file, opened read-only, or a connection (with ``check_same_thread=False``).
    """
    if not isinstance(database, str | Path | sqlite3.Connection):
        raise OptionError(f"database is {with_kind(database)}", hint="Give a file, or a sqlite3.Connection.")
    if not isinstance(database, sqlite3.Connection) and not Path(database).is_file():
        raise OptionError(f"there is no database {str(database)!r:.200}")
    return DatabaseMonitor(database)
