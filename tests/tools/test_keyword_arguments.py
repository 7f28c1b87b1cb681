"""Keyword arguments with JSON values, as Olmo 3 writes them, and the other spellings that the parser reads."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen.errors import ConstraintError, OutputInvalid
from structgen.tools import AssistantTurn, ToolCall, ToolTurn, tools

from .turns import fits

VALUE: dict[str, Any] = {"name": "f", "parameters": {"type": "object", "properties": {"x": {}, "y": {}}}}
TURN = tools([VALUE], format="olmo3")
PIECES = [
    "a", "é", "🙂", "\t", "'", '"', "\\'", '\\"', "\\\\", "\\n", "\\t", "\\b", "\\f", "\\r", "\\a", "\\v", "\\x41",
    "\\xe9", "\\u00e9", "\\u2028", "\\U0001F642", "\\U00110000", "\\0", "\\12", "\\1234", "\\777", "\\q", "\\\n",
    "\\x4",
]  # fmt: skip
JSON_VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=8,
)


def read(arguments: str, turn: ToolTurn = TURN) -> dict[str, Any]:
    """Return what is read, whole and in single characters."""
    text = f"<function_calls>f({arguments})</function_calls>"
    (call,) = turn.read(text).calls
    parser = turn.parser()
    for letter in text:
        parser.feed(letter)
    parser.finish()
    assert parser.turn.calls == (call,)
    return call.arguments


def test_any_schema_can_be_written() -> None:
    """Python's literals need the type of every value; JSON does not."""
    for schema in ({}, True, {"type": "array"}, {"not": {"type": "null"}}, {"oneOf": [{"type": "boolean"}]}):
        parameters = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
        turn = tools([{"name": "f", "parameters": parameters}], format="olmo3")
        value: Any = [] if schema == {"type": "array"} else True
        wanted = AssistantTurn("", (ToolCall("f", {"x": value}),))
        assert turn.read(turn.render(wanted)) == wanted
    for wrong in ("a b", "class"):
        parameters = {"type": "object", "properties": {wrong: {}}}
        with pytest.raises(ConstraintError, match="is no name of a keyword argument"):
            tools([{"name": "f", "parameters": parameters}], format="olmo3")


@given(st.dictionaries(st.sampled_from(["x", "y"]), JSON_VALUES))
def test_values_of_json_and_of_python(arguments: dict[str, Any]) -> None:
    arguments = dict(sorted(arguments.items()))
    written = ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items()
    )
    assert read(written) == arguments
    assert TURN.render(AssistantTurn("", (ToolCall("f", arguments),))).find(f"({written})") > 0
    literals = ",\n ".join(f"{name} = {value!r}" for name, value in arguments.items())
    assert read(literals) == arguments


@given(st.lists(st.sampled_from(PIECES), max_size=5).map("".join), st.sampled_from("\"'"))
def test_strings_are_read_as_python_reads_them(inside: str, quote: str) -> None:
    literal = quote + inside + quote
    try:
        wanted = ast.literal_eval(literal)
    except SyntaxError:
        return
    if not isinstance(wanted, str) or literal.count(quote) - literal.count("\\" + quote) != 2:
        return  # several strings in a row
    assert read(f"x={literal}") == {"x": wanted}


@pytest.mark.parametrize("format", ["olmo3", "pythonic"])
def test_only_one_spelling_is_allowed(format: str) -> None:
    def f(on: bool, name: str) -> None: ...

    turn = tools([f], format=format)
    begin, end = ("<function_calls>", "</function_calls>") if format == "olmo3" else ("[", "]")
    wanted = (ToolCall("f", {"on": True, "name": "a'b"}),)
    allowed = []
    for on in ("true", "True"):
        for name in ('"a\'b"', r"'a\'b'", r'"a\'b"'):
            for comma in (", ", ",", " ,\n"):
                text = f"{begin}f(on={on}{comma}name={name}){end}"
                assert turn.read(text).calls == wanted
                allowed += [text] if fits(turn, text) else []
    on = "True" if format == "pythonic" else "true"
    assert allowed == [f'{begin}f(on={on}, name="a\'b"){end}']


def test_line_ends_around_the_calls_are_read() -> None:
    call = ToolCall("f", {"x": 1})
    for before, after in (("\n", "\n"), ("\n", ""), ("", "\n")):
        text = f"I look.<function_calls>{before}f(x=1)\nf(x=1){after}</function_calls>"
        assert TURN.read(text) == AssistantTurn("I look.", (call, call)) and not fits(TURN, text)
        parser = TURN.parser()
        for letter in text:
            parser.feed(letter)
        parser.finish()
        assert parser.turn.calls == (call, call)
    with pytest.raises(OutputInvalid, match="no character with this escape"):
        TURN.read(r"<function_calls>f(x='\U00110000')</function_calls>")


@pytest.mark.parametrize(
    "escape", [r"\x+4", r"\x 4", r"\x4 ", r"\x4g", r"\u+123", r"\u1_23", r"\U 000041", r"\U0_0_0_41", "\\x٤٤"]
)
def test_escapes_need_digits(escape: str) -> None:
    for quote in "'\"":
        literal = quote + escape + quote
        with pytest.raises(SyntaxError):
            ast.literal_eval(literal)
        text = f"<function_calls>f(x={literal})</function_calls>"
        with pytest.raises(OutputInvalid, match="no character with this escape"):
            TURN.read(text)
        parser = TURN.parser()
        with pytest.raises(OutputInvalid, match="no character with this escape"):
            list(map(parser.feed, text))


def test_names_of_characters_stay_as_they_are_written() -> None:
    assert read(r"x='\N{BULLET}'") == {"x": r"\N{BULLET}"}
