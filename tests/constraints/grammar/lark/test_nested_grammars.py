"""Grammars inside grammars (``%lark``), options of grammars, and empty texts."""

from __future__ import annotations

import itertools
import json
import re

import pytest

import structgen as sg
from structgen.errors import GrammarSyntaxError, GrammarUnsupported, LimitExceeded, OptionError
from tests.constraints.grammar.lark.accepting import takes, texts


def test_nested_grammar_is_the_constraint() -> None:
    inner = 'start: item+\nitem: A | "(" item ")"\nA: /a+/\n%ignore " "\n'
    outer = 'start: item BODY item\nitem: "a" | "b"\n'
    for lexer, contextual in itertools.product(("lark", "longest"), (True, False)):
        options = {"lexer": lexer, "contextual": contextual}
        nested = sg.lark(outer.replace("BODY", "%lark {" + inner + "}"), **options)  # type: ignore[arg-type]
        named = sg.lark(
            outer.replace("BODY", "@inner"),
            constraints={"inner": sg.lark(inner, **options)},  # type: ignore[arg-type]
            **options,  # type: ignore[arg-type]
        )
        for text in texts("ab( )", 3):
            assert takes(nested, f"b{text}b") == takes(named, f"b{text}b"), (text, options)
        assert takes(nested, "a(a)aa" + "b")


def test_braces_in_texts_patterns_and_comments() -> None:
    grammar = sg.lark('start: %lark { start: "}" /[}]!/ x{2} # }\n x: "{" // }\n } "."\n')
    assert takes(grammar, "}}!{{.") and not takes(grammar, "}.")


def test_nested_twice_with_json_and_constraints() -> None:
    grammar = sg.lark(
        'start: "[" %lark { start: "<" %lark { start: @n ":" %json {"const": "}"} } ">" } "]"',
        constraints={"n": sg.regex("[0-9]")},
    )
    assert takes(grammar, '[<1:"}">]') and not takes(grammar, '[<1:"{">]')


@pytest.mark.parametrize(
    ("source", "message", "place"),
    [
        ("start: %lark {\n  start: a\n}", "there is no rule a", (2, 10)),
        ('start: %lark {\n\n  item: "a" }', "cannot be read: there is no rule 'start'", (1, 8)),
        ('start: A\nA: %lark { start: "a" }', "terminals cannot contain", (2, 4)),
        ('start: %lark { start: "a"', "this brace is not closed", (1, 14)),
        ("start: %lark start", "needs a grammar in braces", (1, 8)),
        ('start: %lark { start: "a" %lark {\n start: @x } }', "there is no constraint 'x'", (2, 9)),
        ('%lark { start: "a" }', "must be inside a definition", (1, 1)),
        ("start: %lark { start: A\n A: /a(/ }", "cannot compile", (2, 2)),
    ],
)
def test_errors_point_into_the_whole_text(source: str, message: str, place: tuple[int, int]) -> None:
    with pytest.raises((GrammarSyntaxError, GrammarUnsupported), match=re.escape(message)) as caught:
        sg.lark(source)
    assert (caught.value.line, caught.value.column) == place
    assert caught.value.source == source


def test_depth_has_a_limit() -> None:
    with pytest.raises(LimitExceeded, match="nested more than 16 deep"):
        sg.lark("start: " + "%lark { start: " * 40 + '"a"' + " }" * 40)


def skipped(text: str, once: bool, first: bool) -> bool:
    """The slow twin: return whether the text is an a and b's, each followed by ignored text."""
    skip = "(?: |x)?" if once else "(?: |x)*"
    return re.fullmatch(f"{skip if first else ''}(?:a{skip})+b{skip}", text) is not None


@pytest.mark.parametrize("once", [True, False])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("lexer", ["lark", "longest"])
def test_options_about_ignored_text(once: bool, first: bool, lexer: str) -> None:
    options = ['"ignore_once": true', '"skip_repetition": "once"'] if once else ['"no_forcing": true']
    options.append(f'"allow_initial_skip": {str(first).lower()}')
    for written in options[:-1]:
        source = f"%llguidance {{{written}}}\n%grammar_options {{{options[-1]}}}\n"
        source += 'start: "a" "b" | "a" start\n%ignore " "\n%ignore "x"\n'
        grammar = sg.lark(source, lexer=lexer, contextual=False)  # type: ignore[arg-type]
        for text in texts("ab x", 5):
            assert takes(grammar, text) == skipped(text, once, first), (text, source)


def test_ignored_text_with_other_constraints() -> None:
    source = '%llguidance {"ignore_once": true}\nstart: @n "." | %json {"const": 1}\n%ignore " "'
    grammar = sg.lark(source, constraints={"n": sg.regex("[0-9]")})
    assert takes(grammar, "7 .") and takes(grammar, " 7. ") and not takes(grammar, "7  .")


@pytest.mark.parametrize(
    ("options", "message", "column"),
    [
        ('{"ignore_once": "yes"}', "the option ignore_once must be true or false", 14),
        ('{"other": 1}', "has no option 'other'", 14),
        ('{"skip_repetition": "twice"}', 'skip_repetition must be "once"', 14),
        ('{"allow_invalid_utf8": true}', "not UTF-8 are not supported", 14),
        ("[]", "needs an object in braces", 1),
        ("{a}", "this is not JSON", 14),
    ],
)
def test_wrong_options_have_a_place(options: str, message: str, column: int) -> None:
    with pytest.raises((GrammarSyntaxError, GrammarUnsupported), match=re.escape(message)) as caught:
        sg.lark(f'%llguidance {options}\nstart: "a"')
    assert (caught.value.line, caught.value.column) == (1, column)


def test_options_cannot_be_combined_with_an_indenter() -> None:
    from lark.indenter import PythonIndenter

    source = '%llguidance {"ignore_once": true}\nstart: "a" _NEWLINE\n%declare _INDENT _DEDENT\n_NEWLINE: /\\n[ ]*/'
    with pytest.raises(OptionError, match="indenter"):
        sg.lark(source, indenter=PythonIndenter)


@pytest.mark.parametrize("lexer", ["lark", "longest"])
@pytest.mark.parametrize(
    ("source", "pattern"),
    [
        ('start: "" "a" ""', "a"),
        ('start: ("a" | "ab" | "c") ("d" | "")', "(a|ab|c)d?"),
        ('start: ""* "x" ""~2..3 ""? | ""', "x?"),
        ('start: ""', ""),
    ],
)
def test_empty_texts_in_rules(lexer: str, source: str, pattern: str) -> None:
    grammar = sg.lark(source, lexer=lexer)  # type: ignore[arg-type]
    for text in texts("abcdx", 3):
        assert takes(grammar, text) == (re.fullmatch(pattern, text) is not None), text


@pytest.mark.parametrize(
    ("source", "pattern"),
    [
        ('start: S "x"\nS: ""', "x"),
        ('start: S "x"\nS: "a" | ""', "a?x"),
        ('start: s "x"\ns[lazy]: /[a-z]*/', "x"),
        ("start: s s\ns[lazy]: /[a-z]?/", ""),
        ('start: "x" S\nS: /(?:)/\n%ignore ""', "x"),
    ],
)
def test_terminals_that_match_only_the_empty_text(source: str, pattern: str) -> None:
    grammar = sg.lark(source, lexer="longest")
    for text in texts("abx", 3):
        assert takes(grammar, text) == (re.fullmatch(pattern, text) is not None), text
    with pytest.raises(GrammarSyntaxError, match="matches the empty text"):
        sg.lark(source, lexer="lark")


def test_json_options() -> None:
    source = 'start: %json {"type": "integer"} | %json {"const": "é"}'
    assert takes(sg.lark(source), "7.0") and not takes(sg.lark(source), '"\\u00e9"')
    narrow = sg.lark(source, json={"integers": "digits", "escapes": "all"})
    assert takes(narrow, "7") and not takes(narrow, "7.0") and takes(narrow, '"\\u00e9"')
    with pytest.raises(OptionError, match="unknown JSON Schema option 'colour'"):
        sg.lark(source, json={"colour": 1})
    with pytest.raises(OptionError, match="json is"):
        sg.lark(source, json=[1])  # type: ignore[arg-type]


TWO = '"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a", "b"]'


@pytest.mark.parametrize(
    ("guidance", "good", "bad"),
    [
        ({"whitespace_flexible": False}, ['{"a":1,"b":""}'], ['{"a": 1,"b":""}']),
        (
            {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False},
            ['{"a": 1, "b": ""}'],
            ['{"a":1,"b":""}', '{"a": 1,  "b": ""}'],
        ),
        (
            {"item_separator": ",", "whitespace_flexible": True},
            ['{ "a": 1,"b":""}', '{\n\n"a":\t1,"b":""}'],
            [],
        ),
        (
            {"item_separator": ", ", "key_separator": ": "},
            ['{"a"  : 1 , \n"b": ""\n\n}'],
            ['{"a":1, "b": ""}', '{"a": 1 ,"b": ""}', '{"a": 1,\n"b": ""}'],
        ),
        (
            {"item_separator": "\\s?,\\s", "key_separator": ":\\s?", "whitespace_flexible": False},
            ['{"a": 1 , "b":""}', '{"a":1,\n"b": ""}'],
            ['{"a" :1, "b":""}', '{"a":1,"b":""}', '{"a":1,  "b":""}', '{ "a":1, "b":""}'],
        ),
        ({"whitespace_pattern": "\\s{1,2}"}, ['{  "a" :\n1,"b":""}'], ['{   "a":1,"b":""}']),
        ({"whitespace_pattern": ""}, ['{"a":1,"b":""}'], ['{"a": 1,"b":""}']),
        ({"json_allow_general_unicode_escapes": True}, ['{"a":1,"b":"\\u00e9"}'], ['{"a":1,"b":"\\ud800"}']),
        ({"json_allow_general_unicode_escapes": False}, ['{"a":1,"b":"é"}'], ['{"a":1,"b":"\\u00e9"}']),
        ({"coerce_one_of": False, "json_allowed_escapes": 'nrbtf\\"u'}, ['{"a":1,"b":"\\n"}'], []),
    ],
)
def test_guidance_of_json(guidance: dict[str, object], good: list[str], bad: list[str]) -> None:
    grammar = sg.lark(
        f'start: %json {{{TWO}, "x-guidance": {json.dumps(guidance)}}}', json={"escapes": "all"}
    )
    assert all(takes(grammar, text) for text in good) and not any(takes(grammar, text) for text in bad)


@pytest.mark.parametrize(
    ("guidance", "message", "column"),
    [
        ("[]", "x-guidance must be an object", 15),
        ('{"colour": 1}', "no option 'colour'", 30),
        ('{"lenient": 1}', "must be true or false", 30),
        ('{"lenient": true}', "lenient of x-guidance is not supported", 30),
        ('{"item_separator": "-"}', "item_separator='-' matches more than", 30),
        ('{"key_separator": "_ "}', "key_separator='_ ' matches more than", 30),
        ('{"whitespace_pattern": "("}', "is not a valid pattern", 30),
        ('{"json_allowed_escapes": "n"}', "list all escapes", 30),
    ],
)
def test_wrong_guidance_has_a_place(guidance: str, message: str, column: int) -> None:
    with pytest.raises((GrammarSyntaxError, GrammarUnsupported), match=message) as caught:
        sg.lark(f'start: %json {{"x-guidance": {guidance}}}')
    assert (caught.value.line, caught.value.column) == (1, column)
