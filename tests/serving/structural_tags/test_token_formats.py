"""Formats of structural tags that concern tokens, compared with their definition over token sequences."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import structgen as sg
from structgen.errors import ConstraintError, StructgenError, VocabularyMismatch
from structgen.serving.limits import DEFAULT_LIMITS
from structgen.serving.structural_tags import read_structural_tag
from tests.oracles.token_twin import Twin

TEXTS: list[bytes | None] = [b"a", b"b", b"ab", None, None, b"<x>"]
EOS, CALL, MARK = 3, 4, 5
VOCABULARY = sg.Vocabulary.from_tokens(TEXTS, [EOS], specials={"<call>": CALL})
TWIN = Twin(TEXTS, [EOS], {"<call>": CALL})
LONGEST = 4


def read(form: Any, specials: Any = ("<call>",)) -> sg.Constraint:
    return read_structural_tag({"type": "structural_tag", "format": form}, DEFAULT_LIMITS, specials)


def found(constraint: sg.Constraint) -> set[tuple[int, ...]]:
    """Return all short token sequences that the constraint accepts."""
    every = itertools.chain.from_iterable(
        itertools.product([0, 1, 2, CALL, MARK], repeat=n) for n in range(LONGEST + 1)
    )
    result = set()
    for tokens in every:
        matcher = sg.Matcher(constraint, VOCABULARY)
        if all(map(matcher.advance, tokens)) and matcher.is_complete():
            result.add(tokens)
    return result


def one(*members: Any) -> Any:
    return ("tokens", (tuple(m if isinstance(m, str) else (m, m) for m in members), (), "", False))


def other(*members: Any) -> Any:
    return ("tokens", (None, tuple(m if isinstance(m, str) else (m, m) for m in members), "", False))


def text(value: str) -> Any:
    return ("text", ("literal", value))


def some(body: Any, most: int | None = None) -> Any:
    return ("repeat", body, 0, most)


def order(*parts: Any) -> Any:
    return ("sequence", parts)


def tag(begin: Any, content: Any, end: Any) -> dict[str, Any]:
    return {"type": "tag", "begin": token(begin), "content": content, "end": token(end)}


def token(which: Any) -> Any:
    return {"type": "token", "token": which}


CONST = {"type": "const_string", "value": "ab"}
A_TAG = tag(CALL, CONST, "b")
FORMATS: list[tuple[Any, Any]] = [
    (token(2), one(2)),
    (token("ab"), one(2)),
    (token("<call>"), one(CALL)),
    (token("<x>"), one(MARK)),
    ({"type": "exclude_token"}, other()),
    ({"type": "exclude_token", "exclude_tokens": [0, "ab", "<call>"]}, other(0, 2, CALL)),
    ({"type": "any_tokens"}, some(other())),
    ({"type": "any_tokens", "exclude_tokens": ["a"], "max_tokens": None}, some(other(0))),
    ({"type": "any_tokens", "max_tokens": 2}, some(other(), 2)),
    ({"type": "any_tokens", "max_tokens": 0}, order()),
    (tag(CALL, {"type": "any_tokens", "exclude_tokens": [0]}, MARK), order(one(CALL), some(other(0, MARK)), one(MARK))),
    (tag("<call>", {"type": "any_tokens"}, "<x>"), order(one(CALL), some(other(MARK)), one(MARK))),
    (tag(0, {"type": "exclude_token"}, 1), order(one(0), other(1), one(1))),
    ({**tag(0, {"type": "any_tokens"}, 1), "end": "b"}, order(one(0), some(other()), text("b"))),
    ({**tag(0, {"type": "any_tokens"}, 1), "end": ""}, order(one(0), some(other()))),
    (tag(2, CONST, 2), order(one(2), text("ab"), one(2))),
    # Free text is read by bytes, so it may hold what the end spells.
    (tag(2, {"type": "any_text"}, MARK), order(one(2), some(("choice", tuple(map(text, "ab<x>")))), one(MARK))),
    (
        {"type": "sequence", "elements": [{"type": "exclude_token", "exclude_tokens": [0]}, {"type": "any_tokens"}]},
        order(other(0), some(other())),
    ),
    (
        {"type": "token_triggered_tags", "trigger_tokens": [CALL], "tags": [A_TAG]},
        some(("choice", (other(CALL), order(one(CALL), text("ab"), one(1))))),
    ),
    (
        {"type": "token_triggered_tags", "trigger_tokens": [CALL], "tags": [A_TAG], "exclude_tokens": [0, "<x>"]},
        some(("choice", (other(CALL, 0, MARK), order(one(CALL), text("ab"), one(1))))),
    ),
    (
        {"type": "token_triggered_tags", "trigger_tokens": [CALL], "tags": [A_TAG], "stop_after_first": True},
        order(some(other(CALL)), some(order(one(CALL), text("ab"), one(1)), 1)),
    ),
    (
        {"type": "token_triggered_tags", "trigger_tokens": [CALL], "tags": [A_TAG], "at_least_one": True},
        order(one(CALL), text("ab"), one(1), some(("choice", (other(CALL), order(one(CALL), text("ab"), one(1)))))),
    ),
    (
        {
            "type": "token_triggered_tags", "trigger_tokens": [CALL, 0],
            "tags": [A_TAG, tag(CALL, {"type": "any_tokens", "max_tokens": 1}, MARK), tag(0, CONST, 1)],
            "at_least_one": True, "stop_after_first": True,
        },
        ("choice", (
            order(one(CALL), text("ab"), one(1)),
            order(one(CALL), some(other(MARK), 1), one(MARK)),
            order(one(0), text("ab"), one(1)),
        )),
    ),
    (
        tag(0, {"type": "token_triggered_tags", "trigger_tokens": [CALL], "tags": [A_TAG]}, 1),
        order(one(0), some(("choice", (other(CALL, 1), order(one(CALL), text("ab"), one(1))))), one(1)),
    ),
    (
        {"type": "token_dispatch", "rules": [[0, CONST], ["<x>", token(2)]]},
        some(("choice", (other(0, MARK), order(one(0), text("ab")), order(one(MARK), one(2))))),
    ),
    (
        {"type": "token_dispatch", "rules": [[0, CONST]], "loop": False, "exclude_tokens": [MARK]},
        order(some(other(0, MARK)), some(order(one(0), text("ab")), 1)),
    ),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(FORMATS)))
def test_formats_by_enumeration(number: int) -> None:
    form, body = FORMATS[number]
    expected = {tokens for tokens in TWIN.texts_of(body, LONGEST) if EOS not in tokens}
    assert found(read(form)) == expected


def test_the_vocabulary_finds_a_text_that_no_token_has() -> None:
    constraint = read({"type": "or", "elements": [CONST, token("<missing>")]})
    with pytest.raises(
        VocabularyMismatch, match='no token of the vocabulary has the text "<missing>"'
    ) as error:
        sg.Matcher(constraint, VOCABULARY)
    assert error.value.where == "format.elements[1].token"
    # Without knowledge of the special tokens, such a text may be one.
    assert sg.Matcher(read(token("<missing>"), ()), sg.Vocabulary.of_bytes())


TAGS = {"type": "token_triggered_tags", "trigger_tokens": [CALL], "tags": [A_TAG]}


@pytest.mark.parametrize(
    ("form", "where", "message"),
    [
        ({"type": "token"}, "format", '"token" is missing'),
        ({"type": "token", "token": True}, "format.token", "a token is a number or a text, not"),
        ({"type": "token", "token": -1}, "format.token", "tokens have numbers from 0 to"),
        ({"type": "token", "token": ""}, "format.token", "no token has the empty text"),
        ({"type": "token", "token": 1, "text": "a"}, "format", "'text' is not supported here"),
        ({"type": "exclude_token", "exclude_tokens": "ab"}, "format.exclude_tokens", "is a list of tokens"),
        ({"type": "any_tokens", "exclude_tokens": [1, None]}, "format.exclude_tokens[1]", "a number or a text"),
        ({"type": "any_tokens", "max_tokens": -1}, "format.max_tokens", "a whole number of 0 or more"),
        ({"type": "any_tokens", "max_tokens": 1.5}, "format.max_tokens", "a whole number of 0 or more"),
        ({"type": "any_tokens", "max_tokens": 2**31}, "format.max_tokens", "is more than 2,147,483,647"),
        ({**TAGS, "trigger_tokens": []}, "format.trigger_tokens", "must not be empty"),
        ({**TAGS, "trigger_tokens": [CALL, 0]}, "format.trigger_tokens[1]", "no tag begins with the trigger 0"),
        ({**TAGS, "trigger_tokens": [0]}, "format.tags[0]", "the tag that begins with '<[4]>' has no trigger"),
        ({**TAGS, "exclude_tokens": [0, CALL]}, "format.exclude_tokens[1]", "the trigger 4 is excluded, too"),
        ({**TAGS, "tags": [{**A_TAG, "begin": "ab"}]}, "format.tags[0].begin", "begins with a token"),
        ({**TAGS, "at_least_one": "yes"}, "format.at_least_one", "is true or false"),
        ({"type": "token_dispatch", "rules": [[0]]}, "format.rules[0]", "a rule is a token and a format"),
        ({"type": "token_dispatch", "rules": [[None, CONST]]}, "format.rules[0][0]", "a number or a text"),
        (
            {"type": "triggered_tags", "triggers": ["<c"], "tags": [A_TAG]},
            "format.tags[0].begin", "begins with a text, not with a token",
        ),
    ],
)  # fmt: skip
def test_faults_have_their_path(form: Any, where: str, message: str) -> None:
    with pytest.raises(ConstraintError) as error:
        read(form)
    assert message in str(error.value)
    assert error.value.where == where


def test_the_limit_of_formats_counts_tags() -> None:
    many = {**TAGS, "tags": [A_TAG] * (DEFAULT_LIMITS.max_tags + 1)}
    with pytest.raises(StructgenError, match="formats in one structural tag"):
        read(many)
