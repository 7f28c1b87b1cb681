"""`sg.grammar`: every file has an entry, is read as its header states, and accepts the names that it is given."""

from __future__ import annotations

import pickle
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import structgen as sg
from bench.shelf import Reader
from structgen.errors import OptionError
from structgen.matcher import Matcher
from structgen.shelf import folder
from structgen.vocabulary import Vocabulary

ROOT = Path(__file__).resolve().parents[1]

TEXTS = {
    "arithmetic": ("1 + f(x) * 2", "1 +"),
    "cpp": ("int main() { return 0; }\n", "int main() {"),
    "csv": ('a,b\r\n1,"x"\r\n', 'a,"b'),
    "graphql": ("{ a(b: 1) { c } }", "{ a(b: 1) }}"),
    "json": ('{"a": [1, null]}', '{"a": [1, null}'),
    "python": ("def f(x):\n    return x\n", "def f(x):\nreturn x\n"),
    "smiles": ("C1=CC=CC=C1O", "C1=CC=CC=C1("),
    "solidity": ("pragma solidity ^0.8.0;\ncontract A { uint x; }\n", "contract A { uint x }\n"),
    "sql": ("SELECT a FROM b; COMMIT", "SELECT FROM b"),
    "toml": ('a = "b"\n[c]\nd = 1\n', "a = b\n"),
    "typescript": ("const a: number = 1\nexport { a }\n", "const a: = 1\n"),
    "xml": ("<a><b c='d'/></a>", "<a><b c=d/></a>"),
}


def test_every_file_has_an_entry() -> None:
    files = {path.name for path in (ROOT / "grammars").iterdir()} - {"README.md"}
    assert {entry.path.name for entry in sg.grammars().values()} == files
    assert list(sg.grammars()) == sorted(TEXTS)
    assert all(entry.about and entry.name == name for name, entry in sg.grammars().items())


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_each_is_read(name: str) -> None:
    accepted, rejected = TEXTS[name]
    reader = Reader(sg.grammar(name))
    assert reader.accepts(accepted) and not reader.accepts(rejected)


def test_starts() -> None:
    assert Reader(sg.grammar("python", start="eval_input")).accepts("x + 1")
    assert not Reader(sg.grammar("python", start="eval_input")).accepts("x = 1\n")
    assert not Reader(sg.grammar("sql", start="select")).accepts("DELETE FROM t")
    assert all(sg.grammar(name, start=entry.starts[-1]) for name, entry in sg.grammars().items())


def test_equal_arguments_return_the_same_constraint() -> None:
    assert sg.grammar("json") is sg.grammar("json", start="root")
    known = sg.grammar("sql", start="select", tables=["a"], columns=None)
    assert known is sg.grammar("sql", tables=("a", "a"), start="select")
    assert known is not sg.grammar("sql", start="select", tables=["b"])


NAMES = ["users", "order", "my table", "größe", 'a"b\\c', "Key", "with$", "2nd"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_written_as_sqlite_reads_them(name: str) -> None:
    """The grammar accepts exactly the spellings of a name that SQLite reads as this name."""
    reader = Reader(sg.grammar("sql", start="select", tables=[name], columns=[name]))
    quoted = '"' + name.replace('"', '""') + '"'
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"CREATE TABLE {quoted} ({quoted} INT)")
        for written in (name, name.upper(), quoted, quoted.upper()):
            text = f"SELECT {written} FROM {written}"
            try:
                database.execute(text)
            except sqlite3.OperationalError:
                assert not reader.accepts(text), text
            else:
                assert reader.accepts(text) or written != written.upper() and not name.isascii(), text
    assert reader.accepts(f"SELECT {quoted} FROM {quoted}")
    assert not reader.accepts(f"SELECT {quoted} FROM people")
    assert not reader.accepts(f"SELECT zip FROM {quoted}")


def test_names_before_dots() -> None:
    free = Reader(sg.grammar("sql", start="select", tables=["users"], columns=["id"]))
    assert free.accepts("SELECT u.id FROM users AS u") and not free.accepts("SELECT u.zip FROM users AS u")
    strict = Reader(sg.grammar("sql", start="select", tables=["users"], columns=["id"], aliases=["u"]))
    assert strict.accepts("SELECT u.id, users.id FROM users AS u")
    assert not strict.accepts("SELECT v.id FROM users AS v")


def test_functions_and_schemas() -> None:
    reader = Reader(sg.grammar("sql", start="select", functions=["count", "replace"], schemas=["main"]))
    assert reader.accepts("SELECT count(a), replace(b, 'x', 'y') FROM main.t")
    assert not reader.accepts("SELECT sum(a) FROM main.t")
    assert not reader.accepts("SELECT count(a) FROM other.t")


def test_an_empty_list_of_functions_or_schemas_means_none() -> None:
    none = {"functions": [], "schemas": []}
    reader = Reader(sg.grammar("sql", start="select", **none))
    assert reader.accepts("SELECT t.a + 1 FROM t")
    for text in (
        "SELECT a FROM main.t",
        "SELECT main.t.a FROM t",
        "SELECT count(a) FROM t",
        "SELECT * FROM f(1)",
    ):
        assert not reader.accepts(text), text
        assert Reader(sg.grammar("sql", start="select")).accepts(text), text
    assert not Reader(sg.grammar("sql", start="select", tables=["t"], **none)).accepts("SELECT a FROM main.t")


WITH_COMMENTS = [
    ("sql", "SELECT a - -b / c FROM t", ("SELECT 1 -- x", "SELECT 1--2\n", "SELECT /* x */ 1", "SELECT a--")),
    ("python", "x = '#'\n\ny = f'{x}'\n", ("x = 1 # y\n", "# y\nx = 1\n", "f(\n  # y\n)\n")),
    ("cpp", "int f() { return a / *b; }\n", ("int x; // y\n", "int f() { return a/*b*/; }\n")),
    ("graphql", '{ a(b: "#") }', ("{ a } # b\n", "# b\n{ a }")),
    ("solidity", "contract A { uint x; }\n", ("contract A { /* b */ uint x; }\n", "// b\n")),
    ("toml", "\na = '#'\n\n[b]\nc = [1,\n2]\n", ("a = 1 # b\n", "# b\na = 1\n", "a = [1, # b\n2]\n")),
    ("xml", "<a>x<?b c?><d/></a>", ("<a><!-- b --></a>", "<!-- b --><a/>", "<a/><!-- b -->")),
]


@pytest.mark.parametrize(("name", "without", "texts"), WITH_COMMENTS)
def test_comments_can_be_switched_off(name: str, without: str, texts: tuple[str, ...]) -> None:
    bare, full = Reader(sg.grammar(name, comments=False)), Reader(sg.grammar(name, comments=True))
    assert bare.accepts(without) and full.accepts(without)
    for text in texts:
        assert full.accepts(text) or text == "// b\n", text
        assert not bare.accepts(text), text
    assert sg.grammar(name) is sg.grammar(name, comments=True)


def test_single_queries_and_expressions_have_no_comments_and_parameters_by_default() -> None:
    for start in ("select", "expression"):
        before = "" if start == "expression" else "SELECT "
        bare = Reader(sg.grammar("sql", start=start))
        full = Reader(sg.grammar("sql", start=start, comments=True, parameters=True))
        for text in ("?", "?1", ":a", "@b", "$c", "1 + :a", "1 -- x", "/* x */ 1"):
            assert not bare.accepts(before + text), text
            assert full.accepts(before + text), text
        assert bare.accepts(before + "'?' || ':a' || '--' || a")
    assert Reader(sg.grammar("sql")).accepts("SELECT ?1; -- x\n SELECT 2")
    assert not Reader(sg.grammar("sql", parameters=False)).accepts("SELECT ?1")
    assert not Reader(sg.grammar("python", start="eval_input")).accepts("x # y")


def test_the_mask_does_not_lead_into_a_comment() -> None:
    matcher = Matcher(sg.grammar("sql", start="select"), Vocabulary.of_bytes())
    for before, after in (("SELECT 1 -", "-"), ("SELECT 1 /", "*"), ("SELECT ", "?"), ("SELECT ", ":")):
        fork = matcher.fork()
        assert all(fork.advance(byte) for byte in before.encode())
        mask = fork.mask()
        assert not mask[ord(after) // 32] >> (ord(after) % 32) & 1, (before, after)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("jsn", {}, "there is no ready grammar 'jsn'; did you mean 'json'?"),
        ("JSON", {}, "did you mean 'json'?"),
        ("cobol", {}, "The grammars are arithmetic, cpp, csv"),
        (
            "sql",
            {"start": "query"},
            "Its start rules are 'start' and 'statement' and 'select' and 'expression'.",
        ),
        ("json", {"tables": ["a"]}, "the grammar 'json' has no parameter 'tables'\nIt takes start alone."),
        (
            "sql",
            {"table": ["a"]},
            "no parameter 'table'\nDid you mean tables? It takes start and tables and columns",
        ),
        ("sql", {"schema": ["a"]}, "Did you mean schemas?"),
        ("sql", {"coments": False}, "Did you mean comments?"),
        ("sql", {"comments": "no"}, "comments is 'no'; it must be True or False"),
        ("json", {"comments": False}, "the grammar 'json' has no parameter 'comments'"),
        ("typescript", {"comments": False}, "the grammar 'typescript' has no parameter 'comments'"),
        ("python", {"parameters": False}, "the grammar 'python' has no parameter 'parameters'"),
        ("sql", {"tables": "users"}, "tables is 'users'; it must be a non-empty list of names"),
        ("sql", {"tables": 5}, "tables is 5; it must be a non-empty list of names"),
        ("sql", {"functions": 5}, "functions is 5; it must be a list of names"),
        ("sql", {"columns": b"a"}, "columns is b'a'; it must be a non-empty list of names"),
        ("sql", {"tables": []}, "a non-empty list of names"),
        ("sql", {"tables": [""]}, "which is not a name"),
        ("sql", {"columns": [3]}, "columns contains 3, an int, which is not a name"),
        ("sql", {"columns": ["a\nb"]}, "Names must be printable text."),
        ("sql", {"aliases": []}, "allows no name before a dot"),
    ],
)
def test_errors(name: str, parameters: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        sg.grammar(name, **parameters)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_the_folder_is_installed_with_the_package() -> None:
    """A wheel contains the files inside the package; in the source tree they are next to it."""
    assert folder() == ROOT / "grammars"
    build = (ROOT / "CMakeLists.txt").read_text("utf-8")
    (rule,) = re.findall(r"install\(DIRECTORY grammars/ DESTINATION structgen/grammars (.*)\)", build)
    installed = re.findall(r'PATTERN "\*(\.\w+)"', rule)
    assert {path.suffix for path in folder().iterdir()} - set(installed) == {".md"}


def test_explanations_spell_names_as_the_user_did() -> None:
    names = {"tables": ["users", "Order"], "columns": ["id", "ID2"], "functions": ["count"], "aliases": ["u"]}
    constraint = sg.grammar("sql", start="select", **names)
    found = Matcher(constraint, Vocabulary.of_bytes()).explain("SELECT password FROM users")
    assert found.position == len("SELECT ")
    assert [name for name in found.expected if name[0] not in "'" and not name.isupper()][:5] == [
        "count", "id", "u", "users", '"Order"',
    ]  # fmt: skip
    assert "ID2" in found.expected
    started = Matcher(constraint, Vocabulary.of_bytes()).explain("SELECT id FROM use")
    assert started.within[0] == "users"
    again = pickle.loads(pickle.dumps(constraint))
    assert again == constraint and again.shown(["'ID'", "'\"ID\"'", "NUMBER"]) == ["id", "NUMBER"]
