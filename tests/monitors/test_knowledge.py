"""Monitors with their own data: typestate and a live database."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import structgen as sg
from structgen.errors import OptionError
from structgen.matcher import open_matcher
from structgen.monitors import monitored, sqlite_schema, typestate

from .test_answers import is_whole, read

BYTES = sg.Vocabulary.of_bytes()
FILE = {"closed": {"open": "opened"}, "opened": {"read": "opened", "close": "closed"}}


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("f = File()\nf.open()\nf.read()\nf.read()\nf.close()\n", None),
        ("f = File()\nf.read()\n", "f = File()\nf."),
        ("f = File()\nf.open()\nf.open()", "f = File()\nf.open()\nf."),
        ("f = File()\nf.open()\nf.close()\nf.read()", "f = File()\nf.open()\nf.close()\nf."),
        ("f = File()\ng = File()\ng.open()\nf.read()", "f = File()\ng = File()\ng.open()\nf."),
        ("f = File()\nf.open()\nf = File()\nf.read()", "f = File()\nf.open()\nf = File()\nf."),
        ("with File('x') as f:\n    f.open()\n    f.open()", "with File('x') as f:\n    f.open()\n    f."),
        ("self.f: File = File()\nself.f.read()", "self.f: File = File()\nself.f."),
        ("f = File()\nf.name\nf.readable\nf.o", None),
        ("f = Other()\nf.read()", None),
        ("f = File()\nf = other\nf.read()\n", None),
        ("f = File()\ndel f\nf = 3\nf.read()\n", None),
        ("f = File()\ndef g(f):\n    f.read()\n", None),
        ("f = File()\nx = 'f.read()'  # f.read()\n", None),
    ],
)
def test_methods_come_in_the_order_of_the_states(text: str, taken: str | None) -> None:
    constraint = monitored(None, typestate(FILE, start="closed", made_by="File"), language="python")
    found = read(constraint, text)
    assert found == text if taken is None else found.startswith(taken) and found != text


@pytest.mark.parametrize(
    ("before", "text", "is_right"),
    [
        ("f = File('a')\nf.open()\nf.close()\n", "f.close()", False),
        ("f = File('a')\nf.open()\nf.close()\n", "f.open()\nf.read()\n", True),
        ("f = File('a')\nf.open()\nf", ".open()", False),
        ("f = File('a')\nf.open()\nf.re", "ad()\n", True),
        ("f = File('a')\n# f.open()\n", "f.read()", False),
    ],
)
def test_states_follow_what_stands_before(before: str, text: str, is_right: bool) -> None:
    watching = typestate(FILE, start="closed", made_by="File")
    constraint = monitored(None, watching, language="python", before=before)
    assert is_whole(constraint, text) == is_right


def test_typestate_of_values_by_name_and_in_typescript() -> None:
    watching = typestate(FILE, start="closed", made_by="File", values=r"(this\.)?log")
    constraint = monitored(None, watching, language="typescript")
    assert is_whole(constraint, "log.open(); this.log.open(); log.read();")
    assert not is_whole(constraint, "log.read();")
    assert not is_whole(constraint, "const f = new File(1);\nf.read();")
    assert is_whole(constraint, "const f = await new File(1);\nf.open();")


def test_typestates_are_checked() -> None:
    for transitions, options in [
        ({}, {"start": "a", "made_by": "F"}),
        ({"a": {"f": "b"}}, {"start": "a", "made_by": "F"}),
        ({"a": {}}, {"start": "b", "made_by": "F"}),
        ({"a": {}}, {"start": "a"}),
        ({"a": {}}, {"start": "a", "values": "("}),
        ({"a": "b"}, {"start": "a", "made_by": "F"}),
    ]:
        with pytest.raises(OptionError):
            typestate(transitions, **options)  # type: ignore[arg-type]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.executescript(
            """CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
            CREATE TABLE orders (id INTEGER PRIMARY KEY, user_id INTEGER, total REAL);
            CREATE TABLE stations (region TEXT, last_update TEXT, band INTEGER);
            CREATE VIEW big_orders AS SELECT * FROM orders WHERE total > 100;"""
        )
    return tmp_path / "shop.db"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT name, city FROM users WHERE city = 'x.y' ORDER BY name",
        "select u.name, count(*) as n from users u join orders o on o.user_id = u.id group by u.name having n > 2",
        "SELECT USERS.NAME FROM users",
        "SELECT sum(total) FROM big_orders",
        "WITH rich AS (SELECT user_id FROM orders WHERE total > 10) SELECT user_id FROM rich",
        "SELECT * FROM users, orders WHERE users.id = orders.user_id AND total BETWEEN 1 AND 2.5",
        "SELECT CASE WHEN total > 1 THEN 'a' ELSE 'b' END FROM orders -- no.such",
        "INSERT INTO users (name, city) VALUES ('a', 'b')",
        "UPDATE users SET name = upper(name) WHERE id = 1",
        "SELECT x.total FROM (SELECT total FROM orders) AS x",
        "WITH t AS (SELECT sum(total) AS s FROM orders) SELECT t.s FROM t",
        "SELECT use.name, o2.total FROM users use, orders o2",
        "SELECT name FROM users WHERE id = ?",
        "SELECT hex(name), json_extract(city, '$.a') FROM users",
        "SELECT rowid, name FROM main.users",
        "SELECT name FROM sqlite_schema",
        "SELECT value FROM json_each('[1, 2]')",
        "SELECT row_number() OVER (ORDER BY total) FROM orders",
        "SELECT count(*) FILTER (WHERE total > 1) FROM orders",
        "SELECT name FROM users /* all */ WHERE id > 1",
        "SELECT total * 2 / 3 - 1 FROM orders WHERE total IS NOT DISTINCT FROM user_id",
        "SELECT region AS r, last_update, band AS b FROM stations ORDER BY region DESC LIMIT 3",
        "SELECT region FROM stations WHERE region IS NULL AND band IS NOT NULL ORDER BY last_update DESC",
        "SELECT sum(band) OVER (PARTITION BY region ORDER BY last_update) FROM stations",
        "-- all of them\nSELECT name FROM users",
    ],
)
def test_queries_of_the_database_are_written(shop: Path, query: str) -> None:
    monitor = sqlite_schema(shop)
    constraint = monitored(None, monitor, language="sql")
    assert read(constraint, query) == query
    matcher = open_matcher(constraint, BYTES)
    assert all(matcher.advance(byte) for byte in query.encode())
    if "INSERT" not in query and "UPDATE" not in query:  # the connection only reads
        assert matcher.first_fault() is None
    monitor.close()


@pytest.mark.parametrize(
    ("query", "taken"),
    [
        ("SELECT name FROM customers", "SELECT name FROM "),
        ("SELECT email FROM users", "SELECT "),
        ("SELECT name FROM main.customers", "SELECT name FROM main."),
        ("SELECT users.total FROM users", "SELECT users."),
        ("SELECT o.total, u.total FROM users u", "SELECT o.total, u.t"),
        ("SELECT name FROM users u WHERE u.total > 1", "SELECT name FROM users u WHERE u."),
        ("SELECT name FROM users WHERE emails = 1", "SELECT name FROM users WHERE "),
    ],
)
def test_names_that_the_database_lacks_are_not(shop: Path, query: str, taken: str) -> None:
    monitor = sqlite_schema(shop)
    found = read(monitored(None, monitor, language="sql"), query)
    monitor.close()
    if query.startswith("SELECT o.total, u.total"):
        assert found == query, "an alias that is made later may be of any table"
    else:
        assert found.startswith(taken)
        assert found != query


def test_a_column_that_is_made_meanwhile_is_there(shop: Path) -> None:
    monitor = sqlite_schema(shop)
    constraint = monitored(None, monitor, language="sql")
    assert read(constraint, "SELECT email FROM users") != "SELECT email FROM users"
    with sqlite3.connect(shop) as connection:
        connection.execute("ALTER TABLE users ADD COLUMN email TEXT")
    assert read(constraint, "SELECT email FROM users") == "SELECT email FROM users"
    monitor.close()


def test_a_finished_query_is_judged_by_the_database(shop: Path) -> None:
    monitor = sqlite_schema(shop)
    constraint = monitored(None, monitor, language="sql")
    for query, place in [
        ("SELECT total FROM users", 0),
        ("SELECT name FROM users WHERE", len("SELECT name FROM users WHERE") - 1),
        ("SELECT name FROM users; DROP TABLE users", 0),
        ("PRAGMA foreign_keys(1)", 0),
    ]:
        matcher = open_matcher(constraint, BYTES)
        assert all(matcher.advance(byte) for byte in query.encode()), query
        assert matcher.first_fault() is not None, (query, place)
        assert matcher.report.left
    monitor.close()


def test_a_database_that_was_closed_is_no_fault_of_the_query() -> None:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    constraint = monitored(None, sqlite_schema(connection), language="sql")
    connection.close()
    matcher = open_matcher(constraint, BYTES)
    assert all(map(matcher.advance, b"SELECT 1;"))
    assert matcher.first_fault() is None
    assert matcher.report.unchecked and matcher.report.failures and not matcher.report.left


@pytest.mark.parametrize(
    ("query", "is_right"),
    [
        ("SELECT name FROM users WHERE type = 1", False),
        ("SELECT name FROM users WHERE desc = 1", False),
        ("SELECT value FROM users, json_each('[1]')", True),
        ("SELECT value FROM users, json_each('[1]') WHERE type = 1", True),
        ("SELECT name FROM users ORDER BY name DESC", True),
        ("SELECT (SELECT max(id) FROM users), value FROM json_each('[1]')", True),
        ("SELECT 1 IS DISTINCT FROM 2, value FROM json_each('[1]')", True),
        ("SELECT 'from', value FROM json_each('[1]')", True),
        ("SELECT (SELECT name FROM users WHERE id = value) FROM json_each('[1]')", True),
        ("DELETE FROM users WHERE key = 1", False),
    ],
)
def test_words_that_are_columns_elsewhere(query: str, is_right: bool) -> None:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.execute("CREATE TABLE users (id INTEGER, name TEXT)")
    constraint = monitored(None, sqlite_schema(connection), language="sql")
    assert is_whole(constraint, query) == is_right


def test_a_query_under_a_grammar_and_the_database(shop: Path) -> None:
    monitor = sqlite_schema(shop)
    constraint = monitored(sg.grammar("sql", start="select"), monitor, language="sql")
    assert is_whole(constraint, "SELECT name FROM users WHERE id = 3")
    assert not is_whole(constraint, "SELECT email FROM users WHERE id = 3")
    monitor.close()
    with pytest.raises(OptionError, match="no database"):
        sqlite_schema(shop / "nothing")
    with pytest.raises(OptionError):
        sqlite_schema(3)  # type: ignore[arg-type]


def test_a_schema_with_too_many_names_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing fails; SQLite still judges the whole query."""
    monkeypatch.setattr("structgen.monitors.database.MOST_NAMES", 300)
    database = tmp_path / "large.db"
    with sqlite3.connect(database) as connection:
        for table in range(4):
            columns = ", ".join(f"column_{table}_{number}" for number in range(90))
            connection.execute(f"CREATE TABLE table_{table} ({columns})")
    found = monitored(None, sqlite_schema(database), language="sql")
    for query in ("SELECT column_1_2 FROM table_1", "SELECT anything FROM table_1"):
        assert read(found, query) == query
    few = "SELECT * FROM table_5"
    assert read(found, few) == few[:-1]
