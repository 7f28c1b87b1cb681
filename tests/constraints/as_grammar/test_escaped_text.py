"""Texts inside JSON strings: a string is allowed exactly if its text satisfies the constraint."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import structgen as sg
from structgen.constraints.as_grammar.escaped_text import EscapedText
from structgen.constraints.base import Constraint
from structgen.errors import CombinationError

BYTES = sg.Vocabulary.of_bytes()
NESTED = sg.lark(
    """
start: value
value: WORD | "[" (value ("," value)*)? "]" | STRING
WORD: /[a-z\\\\\\n]+/
STRING: /"[^"\\n]*"/
%ignore /[ \\t]+/
""",
    lexer="longest",
)
PYTHONIC = sg.lark(
    """
start: (line "\\n")*
line: NAME "=" (NAME | NUMBER)
NAME: /(?!if)[a-zé"]+/
NUMBER: /[0-9]+(?![0-9])/
""",
    lexer="longest",
)
ORDERED = sg.lark('start: ("a" | "ab" | /"+/ | "\\t")* | "(" start ")"')
CONSTRAINTS: list[Constraint] = [
    NESTED,
    PYTHONIC,
    ORDERED,
    sg.regex(r'(?!a\n)[a-c"\\\n]*(?<!b)'),
    sg.regex(r"[\x00-\x1f é\u2028]{1,3}"),
    sg.choice(['say "x"', "a\\b", ""]),
    sg.gbnf('root ::= "\\"" root "\\"" | [a-c\\n]'),
]
LETTERS = st.text('ab=[]()," \\\n\t\x00\x7fé\u20285if', max_size=8)


def allows(constraint: Constraint, text: str) -> bool:
    matcher = sg.Matcher(constraint, BYTES)
    return all(map(matcher.advance, text.encode())) and matcher.is_complete()


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(CONSTRAINTS), LETTERS)
@example(NESTED, '["a", [b\\\n]]')
@example(PYTHONIC, "a=5\né=ifa\n")
@example(CONSTRAINTS[-1], '""\n""')
def test_a_text_is_allowed_with_its_escapes(constraint: Constraint, text: str) -> None:
    escaped = json.dumps(text, ensure_ascii=False)[1:-1]
    assert allows(EscapedText(constraint), escaped) == allows(constraint, text)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(CONSTRAINTS), st.text('ab=[]"\\/nrtu0019 \n', max_size=10))
def test_what_is_allowed_is_the_one_form_of_a_text(constraint: Constraint, escaped: str) -> None:
    if not allows(EscapedText(constraint), escaped):
        return
    text = json.loads(f'"{escaped}"')
    assert json.dumps(text, ensure_ascii=False)[1:-1] == escaped and allows(constraint, text)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(CONSTRAINTS), st.randoms(use_true_random=False))
def test_masks_lead_to_texts_of_the_constraint(constraint: Constraint, random: object) -> None:
    matcher, written = sg.Matcher(EscapedText(constraint), BYTES), bytearray()
    for _ in range(12):
        mask = matcher.mask()
        allowed = [one for one in range(256) if mask[one // 32] >> (one % 32) & 1]
        if not allowed:
            break
        written.append(random.choice(allowed))  # type: ignore[attr-defined]
        assert matcher.advance(written[-1])
    rest = matcher.witness(200)
    assert rest is not None
    assert allows(constraint, json.loads(b'"' + bytes(written) + bytes(rest) + b'"'))


@pytest.mark.parametrize(
    ("constraint", "why"),
    [
        (sg.json_schema({"type": "integer"}), "inside a JSON string"),
        (sg.lark('start: "a" %json {"type": "integer"}'), "not a grammar or a regular expression"),
        (sg.lark('start: "a" <|im_end|>'), "<|im_end|>"),
        (sg.grammar("python"), "indentation"),
    ],
)
def test_what_is_no_text_is_refused(constraint: Constraint, why: str) -> None:
    with pytest.raises(CombinationError) as caught:
        EscapedText(constraint)
    assert why in str(caught.value)
