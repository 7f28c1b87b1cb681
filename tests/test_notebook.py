"""What notebooks show: one well-formed element, everything escaped, nothing from elsewhere, nothing hidden."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import structgen as sg
from structgen import notebook
from structgen.constraints.base import Literal
from structgen.models.memory import DistributionModel
from structgen.tools import Conversation
from structgen.vocabulary import Vocabulary

HOSTILE = "<script>alert('x')</script>&\u202e\x1b[31m\ud800\"'"
VOCABULARY = Vocabulary.from_tokens([b"<b>", b"&", b"x", None], [3])
_TAGS = {"b", "div", "i", "pre", "span", "table", "tbody", "td", "th", "thead", "tr"}


class _Reader(HTMLParser):
    """Checks that tags are known, closed in order, and have no attribute but a style that loads nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.roots = 0
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _TAGS
        assert [name for name, _ in attrs] in ([], ["style"])
        assert all("url" not in (value or "") for _, value in attrs)
        self.roots += not self.open
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(html: str) -> str:
    """Return the text of well-formed HTML."""
    html.encode("utf-8")  # no half characters
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open and reader.roots == 1
    # Readable on light and on dark pages: text has the page's colour, boxes are transparent.
    assert set(re.findall(r"(?<![-\w])color:([^;\"]+)", html)) <= {"inherit"}
    assert all("rgba" in found or found == "none" for found in re.findall(r"background:([^;\"]+)", html))
    return " ".join(" ".join(reader.texts).split())


def shown(thing: Any) -> str:
    return read(thing._repr_html_())


@given(st.text(st.characters()))
def test_any_text_is_shown_and_nothing_is_hidden(text: str) -> None:
    html = notebook.card(text, text, notebook.code(text), notebook.pairs([(text, text)]))
    read(html)
    assert all(c.isprintable() or c in "\n\t" for c in html)


def test_long_texts_are_cut_and_say_so() -> None:
    assert "6,000 more characters" in read(f"<div>{notebook.plain('x' * 10_000)}</div>")
    assert "940 more lines" in read(notebook.code("\n".join(map(str, range(1000)))))


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        (sg.regex("[a-z]+<b>", dialect="ecma"), ["RegexConstraint", "the pattern", "[a-z]+<b>", "ecma"]),
        (sg.choice(["a<b", "c"]), ["ChoiceConstraint", "2 texts", "'a<b'"]),
        (
            sg.json_schema('{"const": "<b>"}', ordered=True),
            ["1 sub-schema", "ordered True", '"const": "<b>"'],
        ),
        (sg.gbnf('root ::= "<b>" # a\n'), ["the GBNF grammar of `root`", 'root ::= "<b>" # a']),
        (sg.lark('start: "<b>"', lexer="longest"), ["the Lark grammar of `start`", 'start: "<b>"']),
        (sg.regex("a") + sg.choice(["<b>"]) + sg.json_schema(True), ["Sequence", "'<b>'", "JSON schema"]),
        (sg.json_schema({"type": "string"}) & sg.json_schema({"maxLength": 2}), ["JsonSchemaConstraint"]),
        (Literal(HOSTILE), ["the text '<script>alert"]),
        (sg.text(), ["free text"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_constraints(constraint: sg.Constraint, words: list[str]) -> None:
    text = shown(constraint)
    for word in words:
        assert word in text


def test_hostile_sources_are_only_shown() -> None:
    for constraint in (sg.choice([HOSTILE[:-3]]), sg.regex(re.escape("<script>&"))):
        assert "<script>" not in constraint._repr_html_()
        assert "script" in shown(constraint)


def model() -> DistributionModel:
    return DistributionModel(
        VOCABULARY, lambda tokens: [0.5, 0.2, 0.1, 0.2] if len(tokens) < 3 else [0, 0, 0, 1]
    )


def test_a_result() -> None:
    result = sg.run(model(), "", sg.regex("<b>&?"), seed=1)
    text = shown(result)
    assert "Result, complete" in text and result.text in text
    assert f"{len(result.tokens)}, " in text and "log probability" in text


def test_a_result_without_a_value() -> None:
    result = sg.run(model(), "", sg.regex("(<b>)*&"), max_tokens=2, seed=4)
    text = shown(result)
    assert "Truncated" in text and "<b>" in text and "Raise max_tokens" in text


def test_a_posterior() -> None:
    posterior = sg.sample(model(), "", sg.regex("(<b>|&|x){1,2}"), n=60, seed=2)
    text = shown(posterior)
    assert text.startswith("Posterior 60 draws") and posterior.merged[0].text in text
    assert f"{posterior.merged[0].weight:.2%}" in text
    few = read(posterior._repr_html_(rows=2))
    assert f"{len(posterior.merged) - 2} more texts" in few


def test_beams() -> None:
    text = shown(sg.inference.beam(model(), "", sg.regex("(<b>|&|x){1,2}"), width=3))
    assert text.startswith("Beams 3 texts, best first") and "<b>" in text


def test_an_explanation() -> None:
    matcher = sg.Matcher(
        sg.json_schema({"properties": {"<b>": {"type": "integer", "maximum": 3}}}), Vocabulary.of_bytes()
    )
    text = shown(matcher.explain('{"<b>": 50}'))
    assert "it cannot stand" in text and "must be at most 3" in text and "`/<b>`" in text
    assert shown(matcher.explain('{"<b>": 1}')).startswith("Explanation it satisfies the constraint")
    assert shown(matcher.explain('{"<b>": ')).startswith("Explanation a beginning")
    read(matcher.explain(HOSTILE.replace("\ud800", ""))._repr_html_())


def test_a_check() -> None:
    text = shown(sg.check({"properties": {"<b>": {"type": "string", "maxLenght": 3}}}))
    assert "can be used, exact" in text and "did you mean 'maxLength'" in text and "open object" in text
    assert "cannot be used, invalid" in shown(sg.check({"type": "strnig"}))
    many = shown(sg.check({f"k{i}": 1 for i in range(100)}))
    assert "60 more" in many


def test_an_infilling_and_the_shelf() -> None:
    filled = sg.infill(model(), "{{a}}<b>{{b}}", a=sg.choice(["x", "&"]), b=sg.choice(["x"]))
    text = shown(filled)
    assert text.startswith("Infilling 2 holes") and filled.text in text
    assert "SQL of SQLite" in shown(sg.grammars())


def test_a_conversation() -> None:
    conversation = Conversation(
        [{"role": "user", "content": HOSTILE}, {"role": "assistant", "content": "<b>"}]
    )
    assert shown(conversation).startswith("Conversation 0 rounds, 0 calls")
