"""Custom tools: inputs of a grammar or a pattern, in every format, and what is refused."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import structgen as sg
from structgen.errors import ConstraintError, GrammarSyntaxError, StructgenError
from structgen.tools import FORMATS, AssistantTurn, ToolCall, ToolFormat, read_tools, tools
from structgen.tools.custom import CustomFormat, InputReader
from structgen.tools.partial_turn import PartialTurn
from structgen.tools.rendering import render_turn
from structgen.tools.turn import ToolTurn
from structgen.tools.xml_styles import STYLES

from .turns import fits
from .walks import plain, with_specials

SUMS = r"""
start: item ("," item)*
item: NAME | NUMBER | "(" start ")" | "\"" NAME "\"" | "\n"
NAME: /[a-zé]{1,3}/
NUMBER: /[0-9]{1,2}/
%ignore /[ \t]/
"""


def custom(format: dict[str, Any] | None = None, name: str = "run") -> dict[str, Any]:
    inner: dict[str, Any] = {"name": name, "description": "Run a text."}
    return {"type": "custom", "custom": inner if format is None else {**inner, "format": format}}


def grammar(syntax: str, definition: str) -> dict[str, Any]:
    return {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}}


LARK, REGEX = grammar("lark", SUMS), grammar("regex", r'[a-c"\\\n]{1,6}|\d+')


def is_sum(text: str) -> bool:
    """Parse a text of `SUMS` by hand."""
    lexemes = re.findall(r'[a-zé]{1,3}|[0-9]{1,2}|[,()"\n]', text)
    if "".join(lexemes) != re.sub(r"[ \t]", "", text):
        return False
    at = 0

    def item() -> bool:
        nonlocal at
        if at == len(lexemes):
            return False
        first, at = lexemes[at], at + 1
        if first == "(":
            is_inner = items() and at < len(lexemes) and lexemes[at] == ")"
            at += 1
            return is_inner
        if first == '"':
            is_inner = at + 1 < len(lexemes) and lexemes[at].isalpha() and lexemes[at + 1] == '"'
            at += 2
            return is_inner
        return first not in ",)"

    def items() -> bool:
        nonlocal at
        while item():
            if at == len(lexemes) or lexemes[at] != ",":
                return True
            at += 1
        return False

    return items() and at == len(lexemes)


def closed_walk(turn: ToolTurn, vocabulary: sg.Vocabulary, rng: random.Random) -> str:
    """Return the text of a random walk of 100 tokens, with its shortest completion: inputs have no end of their own."""
    matcher = sg.Matcher(turn, vocabulary)
    for _ in range(100):
        mask = matcher.mask()
        allowed = [i for i in range(256) if mask[i // 32] >> (i % 32) & 1]
        if not allowed:
            break
        assert matcher.advance(rng.choice(allowed))
    rest = matcher.witness(400)
    assert rest is not None
    tokens = [token for token in (*matcher.tokens, *rest) if token not in vocabulary.eos_ids]
    return vocabulary.spelled(tokens)


FORM_OF = {"text": None, "lark": LARK, "regex": REGEX}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", FORM_OF)
@pytest.mark.parametrize("has_specials", [False, True])
def test_walks_read_back_as_texts_of_the_format(name: str, kind: str, has_specials: bool) -> None:
    turn = tools([custom(FORM_OF[kind])], format=name, tool_choice="required", parallel=False)
    vocabulary = with_specials(name) if has_specials else plain()
    for seed in range(8):
        text = closed_walk(turn, vocabulary, random.Random(seed))
        (call,) = turn.read(text).calls
        assert call.name == "run" and call.arguments.keys() == {"input"}
        if kind == "lark":
            assert is_sum(call.arguments["input"]), call
        elif kind == "regex":
            assert re.fullmatch(r'[a-c"\\\n]{1,6}|\d+', call.arguments["input"])


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("text", ['a, (b,\n, "é") , 12', "a", "a,,b", "(a", "abcd", '"12"'])
def test_an_input_is_allowed_exactly_if_its_grammar_has_it(name: str, text: str) -> None:
    turn = tools([custom(LARK)], format=name, parallel=False)
    wanted = AssistantTurn("", (ToolCall("run", {"input": text}),))
    written = render_turn(FORMATS[name], wanted, turn.forms)
    is_allowed = text in ('a, (b,\n, "é") , 12', "a")
    assert is_sum(text) == is_allowed
    assert fits(turn, written) == is_allowed
    if is_allowed:
        assert turn.read(written) == wanted and turn.render(wanted) == written


@pytest.mark.parametrize("style", sorted(set(STYLES) - {"qwen_xml"}))
@pytest.mark.parametrize("text", ['a, (b,\n, "é") , 12', "a,,b"])
def test_an_input_in_every_style_of_elements(style: str, text: str) -> None:
    chosen = replace(STYLES[style], nested=())
    specials = ("<call:", "</call>")
    format = ToolFormat(
        "own", "", "<call:$name>$arguments</call>", "<call:", arguments="xml", style=chosen, specials=specials
    )
    turn = tools([custom(LARK)], format=format, tool_choice="required")
    wanted = AssistantTurn("", (ToolCall("run", {"input": text}),))
    written = render_turn(format, wanted, turn.forms)
    assert fits(turn, written) == is_sum(text)
    if is_sum(text):
        assert turn.read(written) == wanted


def test_an_element_is_never_ended_by_an_input() -> None:
    definition = custom(grammar("lark", 'start: "a" | "a</parameter>" | "(" start ")"'))
    turn = tools([definition], format="qwen3_coder", tool_choice="required")
    call = "<tool_call>\n<function=run>\n<parameter=input>\n{}\n</parameter>\n</function>\n</tool_call>"
    assert fits(turn, call.format("(a)"))
    assert not fits(turn, call.format("(a</parameter>)"))


def test_functions_and_custom_tools_in_one_turn() -> None:
    function = {"type": "function", "function": {"name": "clock"}}
    turn = tools([function, custom(REGEX), custom(name="say")])
    text = "\n".join(
        f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"
        for name, arguments in (("run", {"input": "abc"}), ("clock", {}), ("say", {"input": "x y"}))
    )
    assert fits(turn, text)
    assert [call.name for call in turn.read(text).calls] == ["run", "clock", "say"]


def test_the_model_is_shown_what_an_input_is() -> None:
    text, pattern = read_tools([custom(), custom(REGEX, "other")])
    assert text.definition()["function"]["parameters"]["properties"] == {"input": {"type": "string"}}
    shown = pattern.definition()["function"]["parameters"]["properties"]["input"]
    assert "regular expression" in shown["description"] and "[a-c" in shown["description"]
    assert pattern.validate({"input": "x"}) == {"input": "x"}


def test_both_forms_of_a_definition() -> None:
    flat = {
        "type": "custom",
        "name": "run",
        "format": {"type": "grammar", "syntax": "lark", "definition": SUMS},
    }
    assert read_tools([flat])[0].input == read_tools([custom(LARK)])[0].input == CustomFormat("lark", SUMS)
    assert read_tools([custom({"type": "text"})])[0].input == CustomFormat()


@pytest.mark.parametrize(
    ("definition", "where", "why"),
    [
        ({"type": "custom"}, "tool 0", "no name"),
        ({"type": "custom", "custom": {"name": "a b"}}, "tool 0", "valid name"),
        ({"type": "custom", "custom": {"name": "run", "parameters": {}}}, "tool 0", "'parameters'"),
        (custom({"type": "json"}), "the format of run", "'json'"),
        (custom({"type": "grammar"}), "the format of run", "its syntax is None"),
        (custom({"type": "text", "syntax": "lark"}), "the format of run", "'syntax'"),
        (custom(grammar("gbnf", "root ::= [a]")), "the format of run", "'gbnf'"),
        (custom(grammar("lark", "  ")), "the format of run", "no definition"),
        (
            custom({"type": "grammar", "grammar": {"syntax": "lark", "definition": 5}}),
            "the format of run",
            "5",
        ),
        (custom({**LARK, "strict": True}), "the format of run", "'strict'"),
        (
            {"type": "custom", "custom": {"name": "run", "format": "text"}},
            "the format of run",
            "not an object",
        ),
    ],
)
def test_malformed_definitions_are_refused(definition: dict[str, Any], where: str, why: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        read_tools([definition])
    assert (caught.value.where or "").startswith(where) and why in str(caught.value)


@pytest.mark.parametrize("format", ["hermes", "pythonic", "qwen3_coder"])
@pytest.mark.parametrize(
    ("given", "kind", "why"),
    [
        (grammar("lark", "start: other"), StructgenError, "other"),
        (grammar("lark", 'start: "a'), GrammarSyntaxError, ""),
        (grammar("lark", "start: start"), ConstraintError, "no finite text"),
        (grammar("regex", "(a"), ConstraintError, "not closed"),
        (grammar("regex", "(?=a)b"), ConstraintError, ""),
        (grammar("regex", "a&&[]"), ConstraintError, ""),
        (grammar("lark", 'start: "a" %json {"type": "integer"}'), ConstraintError, ""),
    ],
)
def test_wrong_grammars_are_refused(
    format: str, given: dict[str, Any], kind: type[Exception], why: str
) -> None:
    with pytest.raises(kind) as caught:
        tools([custom(given)], format=format)
    assert getattr(caught.value, "where", "").startswith("the format of run") and why in str(caught.value)


@given(st.text(max_size=20), st.data())
def test_an_input_is_decoded_while_it_is_written(text: str, data: st.DataObject) -> None:
    call = f'<tool_call>\n{{"name": "run", "arguments": {json.dumps({"input": text})}}}\n</tool_call>'
    turn, reader, decoded = PartialTurn(FORMATS["hermes"], read_tools([custom()])), InputReader(), ""
    ends = sorted(data.draw(st.lists(st.integers(0, len(call)), max_size=6)))
    for end in (*ends, len(call)):
        for event in turn.follow(call[:end], ends=end == len(call)):
            decoded += reader.more(event.text) if event.kind == "argument_delta" else ""
    assert decoded == text
