"""The shelf's SQL is SQLite's, as far as SQLite's own parser decides without knowing what is in the database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

import pytest

import structgen as sg
from bench.corpora.sql import is_valid
from bench.shelf import Reader
from tests.grammars.reading import assert_accepted, assert_rejected, disagreements, reader

ACCEPTED = [
    "INSERT INTO t SELECT * FROM u WHERE 1 ON CONFLICT DO NOTHING",
    "INSERT INTO t SELECT * FROM t JOIN u USING (a) ON CONFLICT DO NOTHING",
    "INSERT INTO t SELECT 1 ON CONFLICT DO NOTHING", "INSERT INTO t VALUES (1,2) ON CONFLICT DO NOTHING",
    "SELECT count(DISTINCT) FROM t", "SELECT 1 = NOT 0", "SELECT 1 BETWEEN NOT 2 AND 4", "SELECT - NOT 1",
    "SELECT 'a' LIKE NOT 'b' = 'c' ESCAPE 'd'", "SELECT ?1, :a, @b, $c", "SELECT 1;SELECT 2", "SELECT 1;",
    "EXPLAIN QUERY PLAN SELECT 1", "CREATE TABLE zz(a, PRIMARY KEY (a) UNIQUE (a))",
    "CREATE TABLE zz(a INT PRIMARY KEY) STRICT, WITHOUT ROWID", "SELECT a IS NOT DISTINCT FROM b FROM t",
    "SELECT a -> '$' ->> 'x' FROM t", "SELECT 1 WHERE 1 IN ()", "SELECT * FROM t, u ON 1",
    "SELECT 1 HAVING 1", "SELECT * FROM t NATURAL LEFT OUTER JOIN u", "SELECT * FROM t FULL JOIN u",
    "CREATE TRIGGER tr AFTER INSERT ON t BEGIN WITH x AS (SELECT 1) SELECT 1; END",
    "SELECT RAISE(ABORT, 'x')", "CREATE TABLE zz(a CONSTRAINT x)",
    "CREATE TABLE zz(x, a GENERATED ALWAYS AS (1) STORED, b AS (2))",
    "CREATE TABLE zz(a DECIMAL(10, 2) NOT NULL)", "CREATE TABLE zz(a, PRIMARY KEY (a AUTOINCREMENT))",
    "SELECT 0x1F, 1e5, .5, 5., 1.5e-3", "SELECT (1,2) = (3,4)", "UPDATE t SET (a,b) = (1,2)",
    "SELECT a.b.c FROM t", "PRAGMA foreign_keys = ON", "PRAGMA main.x(-1)", "PRAGMA x = +1",
    "ALTER TABLE t ADD COLUMN x", "ALTER TABLE t RENAME a TO bb", "WITH x AS (SELECT 1) DELETE FROM t",
    "WITH RECURSIVE x(a) AS MATERIALIZED (VALUES (1) UNION ALL SELECT a+1 FROM x LIMIT 5) SELECT * FROM x",
    "SELECT a FROM t LIMIT 5, 6", "SELECT a FROM t ORDER BY a COLLATE NOCASE DESC NULLS LAST",
    "CREATE UNIQUE INDEX IF NOT EXISTS i ON t(a DESC, lower(b)) WHERE a > 1", "REINDEX", "ANALYZE main.t",
    "VACUUM INTO 'x'", "SAVEPOINT x", "RELEASE SAVEPOINT x", "ROLLBACK TRANSACTION TO SAVEPOINT x",
    "BEGIN IMMEDIATE TRANSACTION foo", "END", "COMMIT TRANSACTION", "DROP TABLE IF EXISTS main.t",
    'SELECT "a""b", [a b], `c``d`, \'it\'\'s\'', "SELECT 'a' 'b'", "SELECT 1 == 1 <> 2 != 3",
    "SELECT ~1 << 2 >> 3 & 4 | 5 || 6 % 7", "SELECT * FROM t INNER JOIN u ON t.a = u.a CROSS JOIN t AS x",
    "INSERT OR REPLACE INTO t(a,b) VALUES (1,2),(3,4)", "REPLACE INTO t DEFAULT VALUES",
    "SELECT EXISTS (SELECT 1), NOT EXISTS (SELECT 2)", "SELECT a COLLATE 'x' FROM t",
    "SELECT CAST(a AS VARCHAR(10)) FROM t", "SELECT CAST(a AS) FROM t", "SELECT * FROM (t, u)",
    "SELECT * FROM (t JOIN u ON 1) AS x", "SELECT * FROM json_each('[1]') AS j", "SELECT 1 -- c\n + 2",
    "SELECT 1 ISNULL NOTNULL", "SELECT 1 NOT NULL", "SELECT 1 IS NOT NULL", "SELECT a NOT LIKE b FROM t",
    "ATTACH DATABASE 'x' AS y KEY 'z'", "DETACH DATABASE y",
    "CREATE TEMP TABLE IF NOT EXISTS zz AS SELECT 1", "CREATE TEMPORARY VIEW v(a,b) AS SELECT 1,2",
    "CREATE VIRTUAL TABLE v USING fts5(a, b UNINDEXED, content='')", "CREATE VIRTUAL TABLE v USING fts4",
    "SELECT a COLLATE nocase || b FROM t",
    'SELECT DISTINCT a, b AS c, t.d e, "f" AS \'g\' FROM main.t AS t WHERE a = 1 AND NOT b OR c IS NOT NULL',
    "SELECT ALL * FROM t, u JOIN v USING (a, b) NATURAL INNER JOIN w CROSS JOIN x RIGHT OUTER JOIN y ON 1",
    "SELECT (SELECT 1), (1, 2), ((3)), a IN (1, 2), a NOT IN (SELECT 2), a IN t, a IN main.f(1), a IN ()",
    "SELECT CASE a WHEN 1 THEN 2 ELSE 3 END, CASE WHEN a THEN b WHEN c THEN d END",
    "SELECT -+~1, - -1, 1 - -1, NOT NOT 1, +NOT 1",
    "SELECT x'', X'0Aff', NULL, current_timestamp, true, FALSE",
    "SELECT sum(a) OVER (PARTITION BY a, b ORDER BY c ROWS UNBOUNDED PRECEDING EXCLUDE NO OTHERS)",
    "SELECT sum(a) OVER (ORDER BY a RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE GROUP)",
    "SELECT sum(a) OVER (GROUPS BETWEEN CURRENT ROW AND 1 + 1 FOLLOWING EXCLUDE CURRENT ROW)",
    "SELECT a -> '$.b' ->> 0 || c, a COLLATE nocase = b COLLATE binary COLLATE rtrim",
    'SELECT key, value, row, rows, "select", [from], `where`, left, match, like FROM json_each(x) AS j',
    "SELECT /* a * b ** c */ 1 -- d",
    "WITH a AS (SELECT 1), b(c, d) AS NOT MATERIALIZED (SELECT 2, 3) SELECT * FROM a, b",
    "VALUES (1, 2), (3, 4)", "INSERT INTO t VALUES (1); INSERT INTO t (a) VALUES (2);",
    "INSERT OR IGNORE INTO t SELECT * FROM u JOIN v ON u.a = v.a ON CONFLICT DO NOTHING RETURNING *",
    "INSERT INTO t SELECT * FROM u ORDER BY a ON CONFLICT DO NOTHING",
    "INSERT INTO t SELECT * FROM u GROUP BY a ON CONFLICT DO UPDATE SET a = 1",
    "INSERT INTO t SELECT * FROM u LIMIT 1 ON CONFLICT DO NOTHING",
    "INSERT INTO t SELECT * FROM u UNION SELECT * FROM v WHERE 1 ON CONFLICT DO NOTHING",
    "DELETE FROM t NOT INDEXED WHERE a < 1 RETURNING a",
    "CREATE INDEX main.i ON t (a COLLATE nocase DESC, b || c) WHERE a IS NOT NULL",
    "CREATE VIEW v AS SELECT 1 AS a UNION SELECT 2",
    "CREATE VIRTUAL TABLE t USING fts5(a, b UNINDEXED, tokenize = 'porter ascii', prefix='2 3')",
    "CREATE VIRTUAL TABLE t USING rtree(id, (a, b), +c TEXT NOT NULL)", "ALTER TABLE t RENAME TO u",
    "ALTER TABLE t RENAME COLUMN a TO b", "ALTER TABLE t ADD a INT NOT NULL DEFAULT 0",
    "ALTER TABLE t DROP COLUMN a", "DROP INDEX IF EXISTS i", "PRAGMA main.table_info('t')",
    "PRAGMA journal_mode = DELETE", "PRAGMA x = -1.5", "EXPLAIN SELECT 1", "BEGIN; COMMIT", "ROLLBACK TO x",
    "ATTACH 'a' AS b", "DETACH b", "VACUUM main INTO 'x'", "SELECT *", "SELECT sum(a) OVER", "SELECT *, *",
    "SELECT 1;; SELECT 2;",
]  # fmt: skip

REJECTED = [
    "VALUES (1) ‸ORDER BY 1", "SELECT 1 UNION VALUES (2) ‸LIMIT 1", "SELECT 1 ORDER BY 1 ‸UNION SELECT 2",
    "SELECT * FROM t ON‸ 1", "SELECT * FROM t LEFT ‸foo JOIN u",
    "INSERT INTO t SELECT * FROM u ON‸ CONFLICT DO NOTHING",
    "INSERT INTO t SELECT * FROM (SELECT 1) ON‸ CONFLICT DO NOTHING", "SELECT count(a OR‸DER BY b) FROM t",
    "SELECT 1 BETWEEN 2 ‸OR 3 AND 4", "SELECT 'a' LIKE 'b' = 'c' ESCAPE‸ 'd'", "SELECT 1‸abc",
    "SELECT x'abc‸'", "SELECT #‸1", ";‸", "‸", "CREATE TABLE zz(a) ‸foo", "SELECT * FROM t OUTER‸ JOIN u",
    "CREATE TRIGGER tr AFTER INSERT ON t BEGIN INSERT INTO u ‸DEFAULT VALUES; END",
    "CREATE TRIGGER tr AFTER INSERT ON t BEGIN UPDATE t ‸AS x SET a=1; END",
    "CREATE TRIGGER tr AFTER INSERT ON t BEGIN UPDATE main‸.t SET a=1; END",
    "CREATE TRIGGER tr AFTER INSERT ON t BEGIN SELECT 1 END‸",
    "CREATE TRIGGER tr AFTER INSERT ON t BEGIN ‸END", "SELECT RAISE(ABORT, 'x' ‸|| 'y')",
    "CREATE TABLE zz(a INT(1,-2) DE‸CIMAL(1))", "CREATE TABLE zz(a VARCHAR(‸x))",
    "CREATE TABLE zz(PRIMARY‸ KEY(a))", "CREATE TABLE zz(‸)", "SELECT 1‸_000", "SELECT * FROM t AS x‸(a,b)",
    "SELECT t.*, * , main.t.‸* FROM t", "SELECT CASE WHEN 1 THEN 2‸", "PRAGMA x = 'a' ‸'b'",
    "WITH x AS (‸INSERT INTO t VALUES (1)) SELECT 1", "SELECT a FROM t OFFSET ‸5", "SELECT ‸!1",
    "SELECT 1 ‸2", "SELECT a, FROM‸ t", "SELECT FROM‸ t", "SELECT * FROM t WHERE‸",
    "SELECT * FROM t GROUP BY a,‸", "SELECT a NOT ‸= b FROM t", "SELECT ‸\x001", "SELECT 1‸\x00",
    "SELECT 'a‸\x00b'", "INSERT INTO t SELECT * FROM u AS x O‸N CONFLICT DO NOTHING",
    "INSERT INTO t SELECT * FROM u WHERE 1 UNION SELECT * FROM v ON‸ CONFLICT DO NOTHING",
    "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING ‸ON CONFLICT (a) DO NOTHING", "INSERT INTO t VALUES‸",
    "INSERT ‸t VALUES (1)", "INSERT INTO t (‸) VALUES (1)", "UPDATE t SET‸", "UPDATE t SET a‸",
    "UPDATE t SET a = 1,‸", "UPDATE t SET t‸.a = 1", "DELETE ‸t WHERE 1", "DELETE FROM t‸, u",
    "CREATE TABLE t (a INT, UNIQUE (a), CHECK (a), ‸b INT)", "CREATE TABLE t (a INT,‸)",
    "CREATE TABLE t (a INT NOT‸)", "CREATE TABLE t (a INT PRIMARY‸)", "CREATE TABLE t (a REFERENCES‸)",
    "CREATE TABLE t (a INT DEFAULT‸)", "CREATE TABLE t (a INT DEFAULT 1 ‸+ 1)",
    "CREATE TABLE t (a VARCHAR(‸))", "CREATE TABLE t‸", "CREATE TABLE t AS‸", "CREATE TABLE select‸ (a)",
    "CREATE TABLE t (a INT) WITHOUT‸", "CREATE INDEX i ON t‸", "CREATE INDEX i ‸t (a)",
    "CREATE VIEW v (a, b) ‸SELECT 1", "CREATE TRIGGER t BEFORE ‸SELECT ON u BEGIN SELECT 1; END",
    "CREATE TRIGGER t ‸ON u BEGIN SELECT 1; END", "CREATE TRIGGER t DELETE ON u BEGIN SELECT 1‸",
    "CREATE VIRTUAL TABLE t USING x(‸", "ALTER TABLE t A‸LTER COLUMN a",
    "ALTER TABLE t ADD CONSTRAINT‸ x CHECK (1)", "DROP t‸", "DROP TABLE t ‸CASCADE", "PRAGMA x = ‸(1)",
    "EXPLAIN E‸XPLAIN SELECT 1", "BEGIN EXCLUSIVE ‸IMMEDIATE", "RELEASE‸", "ATTACH 'a' b‸", "SELECT‸",
    "SELECT * FROM‸", "SELECT * WHERE‸", "SELECT a b ‸c", "SELECT (1‸", "SELECT 1‸)",
    "SELECT a FROM t WHERE a = ‸= 1", "SELECT a FROM t WHERE a AND‸", "SELECT a FROM t WHERE a NOT ‸1",
    "SELECT a FROM t ORDER ‸a", "SELECT a FROM t GROUP BY‸", "SELECT a FROM t LIMIT‸",
    "SELECT a FROM t LIMIT 1 LI‸MIT 2", "SELECT a FROM t HAVING a ORDER BY a ‸WHERE a",
    "SELECT a FROM t JOIN‸", "SELECT a FROM t JOIN u WHERE ON‸ 1", "SELECT a FROM t LEFT ‸u",
    "SELECT a FROM t UNION‸", "SELECT a FROM t ORDER BY a ‸UNION SELECT b",
    "SELECT a FROM t NATURAL JOIN u USING‸ (a)", "SELECT a FROM (t‸", "SELECT a IS NOT DISTINCT ‸b",
    "SELECT a BETWEEN 1‸", "SELECT a BETWEEN 1 ‸OR 2", "SELECT a LIKE b ESCAPE‸", "SELECT a ESCAPE‸ b",
    "SELECT a IN ‸1", "SELECT a IN (1, ‸)", "SELECT f(‸", "SELECT f(1,‸)", "SELECT f(DISTINCT ‸*)",
    "SELECT CASE END‸", "SELECT CASE WHEN 1 ‸END", "SELECT CASE a ‸THEN 1 END", "SELECT CAST(a IN‸T)",
    "SELECT CAST ‸a", "SELECT EXISTS ‸1", "SELECT sum(a) OVER (ROWS‸)",
    "SELECT sum(a) OVER (ROWS BETWEEN 1 PRECEDING‸)", "SELECT sum(a) OVER (ORDER BY a ‸PARTITION BY b)",
    "SELECT a COLLATE‸", "SELECT 'a‸", 'SELECT "a‸', "SELECT [a‸", "SELECT `a‸", "SELECT 'a''‸",
    "SELECT 1.5‸.6", "SELECT 1e‸", "SELECT 0x‸", "SELECT 12‸ab", "SELECT .‸e5", "SELECT x'0‸'",
    "SELECT x'0‸g'", "SELECT a !‸ b", "SELECT a ‸^ b", "SELECT a &‸& b", "SELECT a ‸: b", "SELECT ‸{a}",
    "SELECT a.b.c‸.d", "SELECT a.‸", "SELECT .‸a", "SELECT a.*‸.b", "SELECT * ‸AS a", "SELECT 1 AS‸",
    "SELECT 1 AS ‸2", "SELECT 1 FROM ‸2", "SEL‸CT 1", "SELECT 1 SELECT‸ 2", "WITH a AS ‸SELECT 1 SELECT 2",
    "WITH a ‸SELECT 1", "WITH a AS (SELECT 1)‸", "WITH a AS (SELECT 1), SELECT‸ 1", "VALUES ‸1",
    "VALUES (‸)", "VALUES (1),‸",
]  # fmt: skip

KNOWN_AS_TOO_LITTLE = [
    "DELETE FROM t LIMIT 1", "UPDATE t SET a=1 ORDER BY a LIMIT 1", "SELECT 1 /* x", "SELECT $a::b(c)",
    "SELECT * FROM t LEFT NATURAL JOIN u",
]  # fmt: skip
"""The header of the grammar says that these are rejected, which some SQLite accepts."""

KEYWORDS = [
    "ABORT", "ACTION", "ADD", "AFTER", "ALL", "ALTER", "ALWAYS", "ANALYZE", "AND", "AS", "ASC", "ATTACH",
    "AUTOINCREMENT", "BEFORE", "BEGIN", "BETWEEN", "BY", "CASCADE", "CASE", "CAST", "CHECK", "COLLATE",
    "COLUMN", "COMMIT", "CONFLICT", "CONSTRAINT", "CREATE", "CROSS", "CURRENT", "CURRENT_DATE",
    "CURRENT_TIME", "CURRENT_TIMESTAMP", "DATABASE", "DEFAULT", "DEFERRABLE", "DEFERRED", "DELETE", "DESC",
    "DETACH", "DISTINCT", "DO", "DROP", "EACH", "ELSE", "END", "ESCAPE", "EXCEPT", "EXCLUDE", "EXCLUSIVE",
    "EXISTS", "EXPLAIN", "FAIL", "FILTER", "FIRST", "FOLLOWING", "FOR", "FOREIGN", "FROM", "FULL",
    "GENERATED", "GLOB", "GROUP", "GROUPS", "HAVING", "IF", "IGNORE", "IMMEDIATE", "IN", "INDEX", "INDEXED",
    "INITIALLY", "INNER", "INSERT", "INSTEAD", "INTERSECT", "INTO", "IS", "ISNULL", "JOIN", "KEY", "LAST",
    "LEFT", "LIKE", "LIMIT", "MATCH", "MATERIALIZED", "NATURAL", "NO", "NOT", "NOTHING", "NOTNULL", "NULL",
    "NULLS", "OF", "OFFSET", "ON", "OR", "ORDER", "OTHERS", "OUTER", "OVER", "PARTITION", "PLAN", "PRAGMA",
    "PRECEDING", "PRIMARY", "QUERY", "RAISE", "RANGE", "RECURSIVE", "REFERENCES", "REGEXP", "REINDEX",
    "RELEASE", "RENAME", "REPLACE", "RESTRICT", "RETURNING", "RIGHT", "ROLLBACK", "ROW", "ROWS",
    "SAVEPOINT", "SELECT", "SET", "TABLE", "TEMP", "TEMPORARY", "THEN", "TIES", "TO", "TRANSACTION",
    "TRIGGER", "UNBOUNDED", "UNION", "UNIQUE", "UPDATE", "USING", "VACUUM", "VALUES", "VIEW", "VIRTUAL",
    "WHEN", "WHERE", "WINDOW", "WITH", "WITHIN", "WITHOUT",
]  # fmt: skip

NAMED = [
    "SELECT {}", "SELECT 1+{}", "SELECT ({})", "SELECT {}(1)", "SELECT {}.x", "SELECT x.{}", "SELECT 1 {}",
    "SELECT 1 AS {} FROM t", "SELECT * FROM {}", "SELECT * FROM t {}", "SELECT * FROM t {}, u",
    "SELECT * FROM t {} JOIN u", "SELECT * FROM t AS {}", "SELECT * FROM (SELECT 1) {}",
    "SELECT * FROM {}.t", "CREATE TABLE {}(a)", "CREATE TABLE zz({})", "CREATE TABLE zz(a, {})",
    "CREATE TABLE zz(a {})", "SELECT CAST(1 AS {})", "WITH {} AS (SELECT 1) SELECT 1",
    "WITH a({}) AS (SELECT 1) SELECT 1", "CREATE INDEX {} ON t(a)", "CREATE INDEX i ON t({})",
    "INSERT INTO {} VALUES (1)", "INSERT INTO t({}) VALUES (1)", "UPDATE t SET {}=1", "UPDATE {} SET a=1",
    "DELETE FROM {}", "SELECT 1 FROM t ORDER BY {}", "SELECT 1 FROM t GROUP BY {}", "SELECT 1 COLLATE {}",
    "PRAGMA {}", "PRAGMA x={}", "SELECT 1 FROM t WINDOW {} AS (ORDER BY a)", "SELECT f() OVER {} FROM t",
    "SELECT f() OVER ({}) FROM t", "SAVEPOINT {}", "RELEASE {}", "ROLLBACK TO {}", "BEGIN TRANSACTION {}",
    "CREATE TABLE zz(a CONSTRAINT {} NOT NULL)", "CREATE TABLE zz(a REFERENCES {})",
    "CREATE TABLE zz(a REFERENCES b({}))", "CREATE TABLE zz(a DEFAULT {})",
    "SELECT * FROM t JOIN u USING ({})", "SELECT 1 FROM t WHERE {}",
    "CREATE TRIGGER {} BEFORE DELETE ON t BEGIN SELECT 1; END",
    "CREATE TRIGGER tt UPDATE OF {} ON t BEGIN SELECT 1; END", "CREATE VIEW {} AS SELECT 1",
    "CREATE VIEW v({}) AS SELECT 1", "ALTER TABLE t RENAME TO {}", "ALTER TABLE t RENAME {} TO x",
    "ALTER TABLE t RENAME COLUMN {} TO x", "ALTER TABLE t ADD {} INT", "ALTER TABLE t ADD COLUMN {} INT",
    "ALTER TABLE t DROP {}", "ALTER TABLE t DROP COLUMN {}", "DROP TABLE {}", "DROP INDEX {}",
    "SELECT 1 IN {}", "ATTACH 'x' AS {}", "DETACH {}", "VACUUM {}", "ANALYZE {}", "REINDEX {}",
    "DELETE FROM t RETURNING {}", "DELETE FROM t RETURNING a {}", "SELECT CASE {} WHEN 1 THEN 2 END",
    "SELECT 1 BETWEEN {} AND 2", "SELECT NOT {}", "SELECT * FROM t INDEXED BY {}", "UPDATE t AS {} SET a=1",
    "INSERT INTO t AS {} VALUES(1)", "INSERT INTO t VALUES(1) ON CONFLICT({}) DO NOTHING",
    "INSERT INTO t VALUES(1) ON CONFLICT DO UPDATE SET {}=1",
]  # fmt: skip
"""Places of names."""


judged = pytest.mark.skipif(
    not (3, 39) <= sqlite3.sqlite_version_info < (3, 44), reason="another SQLite reads some more, or less"
)


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text: str) -> None:
    assert_accepted("sql", text)


@pytest.mark.parametrize("text", REJECTED)
def test_rejected(text: str) -> None:
    assert_rejected("sql", text)


@judged
def test_sqlite_has_the_same_verdicts() -> None:
    assert [text for text in ACCEPTED if not is_valid(text)] == []
    assert [text for text in REJECTED if is_valid(text.replace("‸", ""))] == []


@pytest.mark.parametrize("text", KNOWN_AS_TOO_LITTLE)
def test_known_as_too_little(text: str) -> None:
    assert not reader("sql").accepts(text)


@pytest.mark.parametrize("text", ACCEPTED)
def test_case_space_and_semicolons_do_not_matter(text: str) -> None:
    if "'" not in text and "VIRTUAL" not in text:
        assert reader("sql").accepts(text.lower()) and reader("sql").accepts(text.upper())
    for other in (f"{text};", f"; {text} ;;\n", f"-- a\n/* b */{text}\t/***/", f"{text};{text}"):
        assert reader("sql").accepts(other), other


@judged
@pytest.mark.parametrize("place", NAMED)
def test_keywords_as_names(place: str) -> None:
    """A keyword is a name where SQLite takes it for one, but for the words that the header names."""
    texts = {word: place.replace("{}", word) for word in KEYWORDS}
    ours = {word for word, text in texts.items() if reader("sql").accepts(text)}
    sqlite = {word for word, text in texts.items() if is_valid(text)}
    assert ours - sqlite <= _leaks(place)
    if not place.startswith(OWN):
        never = {
            "CAST",
            "IF",
            "INDEXED",
            "RAISE",
            "WITH",
            "CURRENT_DATE",
            "CURRENT_TIME",
            "CURRENT_TIMESTAMP",
        }
        assert sqlite - ours <= (never)


OWN = ("WITH {}", "SELECT 1 FROM t WINDOW", "SELECT f() OVER", "SAVEPOINT", "RELEASE", "ROLLBACK")
"""Names of what the text itself makes: here only words that are never keywords near such a place."""


def _leaks(place: str) -> set[str]:
    """An optional keyword may be read as the name that follows it."""
    if place.startswith("ALTER"):
        return {"COLUMN"} | (
            {"COLLATE", "CONSTRAINT", "DEFAULT", "REFERENCES"} if "COLUMN {} INT" in place else set()
        )
    return {"DATABASE"} if place.startswith(("ATTACH", "DETACH")) else set()


@judged
@pytest.mark.parametrize("seed", range(8))
def test_edited_texts_have_the_verdict_of_sqlite(seed: int) -> None:
    assert disagreements("sql", ACCEPTED, is_valid, seed=seed) == []


def _with(changes: str, start: str = "start") -> Reader:
    source = Path(__file__).parents[2] / "grammars" / "sql.lark"
    return Reader(sg.lark(f"{source.read_text('utf-8')}\n{changes}", start=start, lexer="longest"))


def test_known_names() -> None:
    """The override points that the header describes."""
    known = _with(
        """
        %override table_name: "users"i | "orders"i
        %override column_name: "id"i | "name"i
        %override function_name: "count"i
        %override schema_name: "main"i
        %override qualifier: "users"i | "orders"i | "o"i
        %extend word: "users"i | "orders"i | "id"i | "name"i | "count"i | "main"i | "o"i
        """
    )
    for text in (
        "SELECT id, users.name, count(*) AS n FROM users JOIN orders AS o ON o.id = users.id WHERE name = 'x'",
        "INSERT INTO Users (id, NAME) VALUES (1, 'x') RETURNING id AS name",
        "UPDATE orders SET id = 1 WHERE id IN (SELECT id FROM main.users)",
        "CREATE INDEX users_name ON users (name)",
    ):
        assert known.accepts(text), text
    for text, before in (
        ("SELECT id FROM people", "SELECT id FROM "),
        ("SELECT zip FROM users", "SELECT "),
        ("SELECT users.zip FROM users", "SELECT users."),
        ("SELECT sum(id) FROM users", "SELECT "),
        ("INSERT INTO users (id, zip)", "INSERT INTO users (id, "),
        ("UPDATE users SET zip = 1", "UPDATE users SET "),
    ):
        assert not known.accepts(text)
        assert known.viable(text) == len(before), text


@pytest.mark.parametrize(
    ("start", "accepted", "rejected"),
    [
        ("statement", ["SELECT 1", "COMMIT"], ["SELECT 1;", "", "1"]),
        ("select", ["SELECT 1", "WITH a AS (SELECT 1) SELECT 2"], ["DELETE FROM t", "EXPLAIN SELECT 1"]),
        ("expression", ["a + 1", "(SELECT 1) IN t AND NOT b"], ["SELECT 1", "a AS b", "a, b"]),
    ],
)
def test_starts(start: str, accepted: Iterable[str], rejected: Iterable[str]) -> None:
    part = _with("", start)
    assert [text for text in accepted if not part.accepts(text)] == []
    assert [text for text in rejected if part.accepts(text)] == []
