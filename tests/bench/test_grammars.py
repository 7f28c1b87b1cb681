"""The benchmark's grammars: both notations of a language accept the same texts, and variations change nothing."""

from __future__ import annotations

import re

import pytest

from bench.grammars import ENDINGS, LANGUAGES, grammar, rules, with_renamed_rule
from bench.grammars.report import slowest, table
from bench.grammars.synthetic import synthetic
from bench.shelf import Reader
from structgen.constraints.base import Constraint
from structgen.constraints.grammar.builders import ebnf, lark

_ACCEPTED = {
    "json": ['{"a": [1, -2.5e3, "\\u00e9"], "b": {}}', "[]", '"x"', " null"],
    "sql": [
        "SELECT a.b AS c, COUNT(*) FROM t LEFT JOIN v ON u.x = v.y WHERE NOT (z > 1 AND w IN (1, 2)) GROUP BY a.b;",
        "WITH x AS (SELECT 1) SELECT RANK() OVER (PARTITION BY a ORDER BY b DESC) FROM x",
        "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(10) NOT NULL)",
        "INSERT INTO t (a) VALUES (1), ('it''s')",
        "UPDATE t SET a = CASE WHEN b THEN 1 ELSE 2 END WHERE c IS NOT NULL",
    ],
    "python": [
        "x = [f(a, *b, k=1) for a, c in d if not a]\nreturn {'k': v[1:, ::2]}",
        "from . import a as b, c\nraise E('x' \"y\") from None",
        "y: int = lambda *a: (a if b else c) ** -2 or 0x1F\nx //= 2",
    ],
    "cpp": [
        "int f(const std::vector<int>& v) { for (int i = 0; i < v.size(); ++i) { if (!v[i]) return -1; } return 0; }",
        "A::A(int x) : x_(x) { p->q(static_cast<char>(x), \"s\", 'c'); delete[] p; }",
        "template <typename T> inline T* g(T a = 1) { auto h = [&](int b) { return a + b; }; a <<= 2; }",
    ],
    "arithmetic": ["-a.b(c + 1, 2)**-x // (3.5e-2 % .5)"],
}
_REJECTED = {
    "json": ["{'a': 1}", "[1,]", "01", '"\n"'],
    "sql": ["SELECT FROM WHERE;;", "SELECT (1", "SELECT 1,", "DROP t"],
    "python": ["x = = 1", "return (1", "a b", "'x\n'"],
    "cpp": ["int f( { }", "int f() { return 1 }", "int x;"],
    "arithmetic": ["1 +", "(1", "a b", "* 2"],
}


def _constraint(source: str, notation: str) -> Constraint:
    return lark(source, lexer="longest") if notation == "Lark" else ebnf(source)


@pytest.mark.parametrize("notation", ENDINGS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_is_the_same_in_both_notations(language: str, notation: str) -> None:
    source = grammar(language, notation)
    for text in (source, with_renamed_rule(source, notation, 3)):
        reader = Reader(_constraint(text, notation))
        assert [one for one in _ACCEPTED[language] if not reader.accepts(one)] == []
        assert [one for one in _REJECTED[language] if reader.accepts(one)] == []


@pytest.mark.parametrize("notation", ENDINGS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_variation_renames_one_rule(language: str, notation: str) -> None:
    source = grammar(language, notation)
    before = rules(source, notation)
    after = rules(with_renamed_rule(source, notation, 7), notation)
    assert after == [before[0], f"{before[1]}_7", *before[2:]]


@pytest.mark.parametrize("notation", ENDINGS)
def test_the_synthetic_grammar_has_its_rules_and_texts(notation: str) -> None:
    source = synthetic(notation, 30)
    assert source == synthetic(notation, 30)
    assert [name for name in rules(source, notation) if name.startswith("rule_")] == [
        f"rule_{i}" for i in range(30)
    ]
    body = re.findall(r"^rule_0\W+[^|]*\| (.*)$", source, re.MULTILINE)[0]
    first, last = re.findall(r'"(\w+)"', body)
    reader = Reader(_constraint(source, notation))
    assert reader.accepts(f"{first} 12 {last}")
    assert not reader.accepts(f"{first} {last}")


def _measured(mask: list[list[float]]) -> dict[str, object]:
    return {
        "times": [[100.0, 10.0], [300.0, 20.0], [200.0, 10.0]],
        "mask": mask,
        "advance": [[1.0 for _ in one] for one in mask],
        "second": mask,
        "pieces": [["a", "b"], ["c"]],
        "peak": 50.0,
    }


def test_ratios_are_of_the_better_peer_that_read_everything() -> None:
    found = {
        "json": {
            "structgen-lark": _measured([[1.0, 30.0], [2.0]]),
            "llguidance": _measured([[10.0, 10.0], [10.0]]),
            "xgrammar": _measured([[1.0]]),
        }
    }
    written = list(table(found, ["structgen-lark", "llguidance", "xgrammar"]))
    lines = {line.split(" | ")[1]: line for line in written[2:]}
    assert lines["compile"] == "| json | compile | 200 | 200 | 200 | 1.00 |"
    assert lines["mask, mean"] == "| json | mask, mean | 11.0 | 10.0 | 1.0† | 1.10 |"
    assert lines["tokens read"] == "| json | tokens read | 3.0 | 3.0 | 1.0 |  |"
    (slow,) = slowest(found["json"], "structgen-lark", ["llguidance", "xgrammar"], 1)
    assert slow.split() == ["30.0", "10.0", "text", "0,", "token", "1:", "'a'", "then", "'b'"]
