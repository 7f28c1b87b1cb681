"""The extensions of llguidance to Lark's language: their meaning, what is refused, and positions of errors."""

from __future__ import annotations

import pytest

import structgen as sg
from structgen.constraints.grammar.lark.reader import read_lark
from structgen.constraints.json_schema import json_schema
from structgen.constraints.regex import regex
from structgen.errors import (
    ConstraintError,
    GrammarSyntaxError,
    GrammarUnsupported,
    LimitExceeded,
    SchemaInvalid,
    StructgenError,
    TypeNotSupported,
)
from structgen.ir.grammar import Body, Grammar, Terminal
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary
from tests.oracles.regex_twin import accepts
from tests.oracles.slow_lexer import lexemes


def read(source: str, **options: object) -> Grammar:
    return read_lark(source, **{"lexer": "longest", **options})  # type: ignore[arg-type]


def body(grammar: Grammar, name: str = "start") -> Body:
    return next(rule.body for rule in grammar.rules if rule.name == name)


def terminal(grammar: Grammar, name: str) -> Terminal:
    assert grammar.lexer is not None
    return next(one for one in grammar.lexer.terminals if one.name == name)


def holds(grammar: Grammar, name: str, texts: list[str]) -> list[bool]:
    return [accepts(terminal(grammar, name).language, text) for text in texts]


def test_json() -> None:
    grammar = read(SCHEMA)
    assert body(grammar, "call") == (
        "sequence",
        (("constraint", json_schema('{"type": "object", "maxProperties": 1}')), ("terminal", "Y")),
    )
    places = {rule.name: grammar.position(rule) for rule in grammar.rules}
    assert {name: place and place.line for name, place in places.items()} == {"start": 1, "call": 2, "z": 6}
    assert grammar.position(terminal(grammar, "Z")) == (6, 4)


SCHEMA = 'start: "x" call z\ncall: %json {\n  "type": "object",\n  "maxProperties": 1\n} "y"\nz: "z"\n'


def test_special_tokens() -> None:
    grammar = read("start: <|im_start|> text </think> <[12]> <[3,5-7]>\ntext: /[a-z]+/")
    assert body(grammar) == (
        "sequence",
        (
            ("special", "<|im_start|>"),
            ("rule", "text"),
            ("special", "</think>"),
            ("tokens", (((12, 12),), (), "line 1, column 35", False)),
            ("tokens", (((3, 3), (5, 7)), (), "line 1, column 42", False)),
        ),
    )


def test_constraints_by_name() -> None:
    number = regex("[0-9]+")
    grammar = read(
        'start: "(" @my-number ")" | @other', constraints={"my-number": number, "other": regex("x")}
    )
    assert body(grammar) == (
        "choice",
        (
            ("sequence", (("terminal", "LPAR"), ("constraint", number), ("terminal", "RPAR"))),
            ("constraint", regex("x")),
        ),
    )


@pytest.mark.parametrize(
    ("written", "low", "high"),
    [
        ("{3}", 3, 3),
        ("{2,5}", 2, 5),
        ("{2,}", 2, None),
        ("{,4}", 0, 4),
        ("{ 1 , 2 }", 1, 2),
        ("~2..5", 2, 5),
        ("~3", 3, 3),
    ],
)
def test_counts(written: str, low: int, high: int | None) -> None:
    assert body(read(f'start: (x "!"){written} "."\nx: "x"'))[1][0][2:] == (low, high)
    grammar = read(f'start: X "."\nX: "ab"{written} "."')
    texts = ["ab" * count + "." for count in range(8)]
    assert holds(grammar, "X", texts) == [
        low <= count and (high is None or count <= high) for count in range(8)
    ]


def test_templates_keep_their_braces() -> None:
    grammar = read('start: pair{"a", x}{2}\npair{p, q}: p q\nx: "x"')
    assert body(grammar)[0] == "repeat"
    assert body(grammar, "pair{A,x}") == ("sequence", (("terminal", "A"), ("rule", "x")))


def test_and_and_not() -> None:
    grammar = read(
        "start: LINES | A | B | C | D\n"
        "LINES: /[a-c\\n]+/ & ~/(?s:.*)\\n\\n(?s:.*)/\n"
        'A: "x" | /[ab]{2}/ & ~"aa" | "y"\n'
        "B: ~/[^b]/+ & /.{1,2}/ & /[bc]*/\n"
        'C: ("c" & /./)~2 "!" | ~A & /[xyz]/ \n'
        "  | ~ ~ /q/\n"
        'D.2: [A] "d"\n'
    )
    assert holds(grammar, "LINES", ["a\nb", "a\n\nb", "\n", "ab"]) == [True, False, True, True]
    assert holds(grammar, "A", ["x", "aa", "ab", "y", "a"]) == [True, False, True, True, False]
    assert holds(grammar, "B", ["b", "c", "bc", "cc", "bbb"]) == [True, False, True, True, False]
    assert holds(grammar, "C", ["cc!", "c!", "z", "x", "q"]) == [True, False, True, False, True]
    assert holds(grammar, "D", ["d", "xd", "aad", "abd"]) == [True, True, False, True]


def test_and_keeps_the_order_of_lark() -> None:
    """In lark's order, a terminal with & or ~ has the width of its longest text."""
    grammar = read('start: (A | B)+\nA: /[a-z]+/ & ~"if"\nB: /[a-z]{1,5}/', lexer="ordered")
    assert grammar.lexer is not None
    assert lexemes(grammar.lexer, "iff") == [("A", "iff")]
    assert lexemes(grammar.lexer, "if") == [("A", "i"), ("A", "f")]
    longest = read('start: (A | B)+\nA: /[a-z]+/ & ~"if"\nB: /[a-z]{1,5}/').lexer
    assert longest is not None
    assert lexemes(longest, "if") == [("B", "if")]


def test_lazy_and_suffix() -> None:
    source = 'start: head "x" | other\nhead[lazy]: TEXT "<f"\nother[suffix="</t>"]: TEXT\nTEXT: /(.|\\n)*/'
    grammar = read(source)
    assert body(grammar, "head") == ("terminal", "HEAD")
    assert holds(grammar, "HEAD", ["<f", "ab<f", "<f<f", "ab", "a<fb<f"]) == [True, True, False, False, False]
    assert holds(grammar, "OTHER", ["</t>", "x</t>", "</t></t>", "x"]) == [True, True, False, False]
    assert terminal(grammar, "HEAD").offset == next(
        rule.offset for rule in grammar.rules if rule.name == "head"
    )


def test_substrings() -> None:
    grammar = read(
        'start: %regex {"substring_words": "foo bar. baz"} "!" | C | D\n'
        'C: "c" %regex {"substring_chunks": ["ab", "c"]}\n'
        'D: "d" %regex {"substring_chars": "xyz"}'
    )
    assert body(grammar)[1][0] == (
        "sequence",
        (("repeat", ("terminal", "REGEX_1"), 0, 1), ("terminal", "BANG")),
    )
    assert holds(grammar, "REGEX_1", ["foo", "foo bar", " bar.", "fo", "", "foo bar. baz", ". b"]) == [
        True, True, True, False, False, True, False,
    ]  # fmt: skip
    assert holds(grammar, "C", ["c", "cab", "cabc", "cc", "cb"]) == [True, True, True, True, False]
    assert holds(grammar, "D", ["d", "dxy", "dyz", "dxz", "dxyz"]) == [True, True, True, False, True]


def test_hyphens() -> None:
    grammar = read('start: tool-call TOOL-NAME tool_call\ntool-call: "a"\ntool_call: "b"\nTOOL-NAME: "c"')
    assert body(grammar) == (
        "sequence",
        (("rule", "tool_call_2"), ("terminal", "TOOL_NAME"), ("rule", "tool_call")),
    )
    places = [grammar.position(rule) for rule in grammar.rules]
    assert [place and place.line for place in places] == [1, 2, 3]


def test_empty_settings() -> None:
    assert read('%llguidance {}\nstart: "a"') == read('start: "a"')


def test_terminals_that_may_be_empty() -> None:
    grammar = read("start: TEXT X\nTEXT: /(.|\\n)*/\nX: /x?/\n%ignore /[ ]*/")
    assert body(grammar)[1][1] == ("repeat", ("terminal", "X"), 0, 1)
    assert holds(grammar, "X", ["", "x"]) == [False, True]
    with pytest.raises(GrammarSyntaxError, match="the terminal TEXT matches the empty text"):
        read("start: TEXT\nTEXT: /(.|\\n)*/", lexer="ordered")
    assert body(read('start: TEXT "x"\nTEXT: /(.|\\n)*?/')) == ("terminal", "X")


@pytest.mark.parametrize(
    ("source", "kind", "message", "place"),
    [
        ('start[caption]: "a"', GrammarUnsupported, "the option caption is not supported", (1, 7)),
        ('start[max_tokens="x"]: "a"', GrammarSyntaxError, "max_tokens must be a whole number", (1, 18)),
        ('start[max_tokens=3, max_tokens=4]: "a"', GrammarSyntaxError, "max_tokens is given twice", (1, 21)),
        ('start: A\nA[max_tokens=3]: "a"', GrammarUnsupported, "a terminal cannot have", (2, 1)),
        ('start[capture=""]: "a"', GrammarSyntaxError, "the name of a capture is empty", (1, 15)),
        ('start[capture="a b"]: "a"', GrammarSyntaxError, "a space or a control character", (1, 15)),
        ('start[capture=X]: "a"', GrammarSyntaxError, "the name of a capture must be a text in quotes", (1, 15)),
        ('start[capture, capture]: "a"', GrammarSyntaxError, "the option capture is given twice", (1, 16)),
        ('start[capture=]: "a"', GrammarSyntaxError, "capture needs a value", (1, 7)),
        ('start[stop_capture="e"]: "a"', GrammarSyntaxError, "stop_capture needs a stop", (1, 7)),
        ('start[stop="x", suffix="y"]: "a"', GrammarSyntaxError, "both a stop and a suffix", (1, 17)),
        ('start[stop=end]: "a"', GrammarSyntaxError, "a stop must be a text, a pattern or a terminal", (1, 12)),
        ('start[suffix=""]: "a"', GrammarSyntaxError, "a suffix must not be empty", (1, 14)),
        ('start[stop=""="x"]: "a"', GrammarSyntaxError, "a ',' or ']' is missing", (1, 14)),
        ('start[temperature=-1]: "a"', GrammarSyntaxError, "a temperature must be a number from 0", (1, 19)),
        ('start[temperature=1e999]: "a"', GrammarSyntaxError, "a temperature must be a number from 0", (1, 19)),
        ('start[temperature=warm]: "a"', GrammarSyntaxError, "a temperature must be a number from 0", (1, 19)),
        ('start[max_chars=1.5]: "a"', GrammarSyntaxError, "max_chars must be a whole number", (1, 17)),
        ('start: A\nA[capture]: "a"', GrammarUnsupported, "a terminal cannot have capture", (2, 1)),
        ('start[lazy]: "a" <[^3]>', GrammarUnsupported, "a negated set of tokens", (1, 18)),
        ('start[lazy]: "a" b\nb: "b"', GrammarSyntaxError, "a terminal cannot contain the rule b", (1, 18)),
        ('start[lazy: "a"', GrammarSyntaxError, "a ',' or ']' is missing", (1, 11)),
        ('start[lazy\n: "a"', GrammarSyntaxError, "options are not closed", (1, 11)),
        ("start[suffix=(]: X", GrammarSyntaxError, "a suffix must be", (1, 14)),
        ('start[lazy] "a"', GrammarSyntaxError, "a ':' is missing", (1, 16)),
        ('%llguidance {"no_forcing": 1}\nstart: "a"', GrammarSyntaxError, "must be true or false", (1, 14)),
        ('%grammar {}\nstart: "a"', GrammarSyntaxError, "unknown directive %grammar", (1, 1)),
        ("start: %json [1]", GrammarSyntaxError, "needs an object", (1, 8)),
        ('start: %json {"a": }', GrammarSyntaxError, "not JSON", (1, 20)),
        ('start: A\nA: %json {"type": "null"}', GrammarUnsupported, "terminals cannot contain JSON", (2, 4)),
        ("start: A\nA: <|x|>", GrammarUnsupported, "terminals cannot contain special tokens", (2, 4)),
        ("start: A\nA: @x", GrammarUnsupported, "terminals cannot contain other constraints", (2, 4)),
        ("start: <[^*]>", GrammarSyntaxError, "so it is empty", (1, 8)),
        ("start: A\nA: <[5]>", GrammarUnsupported, "terminals cannot contain special tokens", (2, 4)),
        ('start: "a" & "b"', GrammarUnsupported, "'&' applies to terminals", (1, 12)),
        ('start: ~"b"', GrammarUnsupported, "'~' applies to terminals", (1, 8)),
        ("start: @nowhere", GrammarSyntaxError, "there is no constraint 'nowhere'", (1, 8)),
        ('start: "a"{5,2}', GrammarSyntaxError, "bounds are reversed", (1, 11)),
        ('start: "a"~5..2', GrammarSyntaxError, "bounds are reversed", (1, 12)),
        ('start: %regex {"pattern": "x"}', GrammarUnsupported, "this %regex", (1, 8)),
        ('start: %regex {"substring_chunks": [1]}', GrammarUnsupported, "chunks must be texts", (1, 8)),
        ("rule::x: y", GrammarSyntaxError, "must be written as _", (1, 7)),
        ('start: A\nA: B & ~A\nB: "b"', GrammarSyntaxError, "defined by itself", None),
        ('start: A\nA: /b\\b/ & /./', GrammarUnsupported, "depends on the text after it", (2, 4)),
        ('start: X\n%json {}\nX: "a"', GrammarSyntaxError, "%json must be inside a definition", (2, 1)),
    ],
)  # fmt: skip
def test_refused(
    source: str, kind: type[StructgenError], message: str, place: tuple[int, int] | None
) -> None:
    with pytest.raises(kind) as caught:
        read(source)
    error = caught.value
    assert message in str(error)
    assert error.hint
    if place is not None:
        assert (error.line, error.column) == place  # type: ignore[attr-defined]


OPTIONS = [
    ('start: r "c"\nr[stop="b"]: /[a-z]*/', ["aabc", "bc"], ["aac", "aab", "abbc"]),
    ('start: "<" r ">"\nr[suffix=END]: /[a-z]+/\nEND: /!!+/ | "??"', ["<a!!>", "<w??>"], ["<a!>", "<a!!!>", "<w???>"]),
    ('start: r "z"\nr[suffix="END"i]: /[a-z]*/', ["aENDz", "aendz"], ["aENz", "aENDENDz"]),
    ('start: r "z"\nr[stop=""]: /[a-y]*/', ["aaz", "z"], ["aa"]),
    ('start: r "z"\nr[stop=/x?/]: "a"', ["az"], ["axz", "z"]),
    ('start: "<" r ">"\nr[lazy]: /[a-z]*/', ["<>"], ["<a>"]),
    ('start: "<" r "b"\nr[suffix=">"]: /[a-z]*/\n%ignore " "', ["<a>b", "< a> b"], ["<a a>b"]),
    ('start: r ">"\nr[max_chars=2]: /(.|\\n)*/', ["中文>", ">"], ["中文a>"]),
    ('start: r ">"\nr[max_chars=0]: /[a-z]*/', [">"], ["a>"]),
    ('start: r "!"\nr[max_chars=2, suffix=">"]: /[a-z]*/', ["aa!", "a>!", ">!"], ["a!", "aa>!", "aaa!"]),
    ('start: r ":" r\nr[max_chars=2]: /[a-z]*/', ["ab:ab", ":"], ["abc:a"]),
    ('start: r\nr[max_chars=2, lazy]: /[a-z]*X/', ["aX", "X"], ["aaX", "aXX"]),
]  # fmt: skip


@pytest.mark.parametrize(("source", "taken", "refused"), OPTIONS)
def test_options_of_rules(source: str, taken: list[str], refused: list[str]) -> None:
    constraint = sg.lark(source, lexer="longest", contextual=True)
    vocabulary = Vocabulary.of_bytes()
    for text in (*taken, *refused):
        matcher = Matcher(constraint, vocabulary)
        right = all(map(matcher.advance, text.encode())) and matcher.is_complete()
        assert right == (text in taken), text


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        ("head[lazy]: /[a-z ]*/ <|t|>", [[*b"a b", 256, *b"!"], [256, *b"!"]]),
        ("head[max_chars=1]: <|t|> | <|u|>", [[256, *b"!"], [257, *b"!"]]),
    ],
)
def test_options_with_special_tokens(body: str, texts: list[list[int]]) -> None:
    vocabulary = Vocabulary.of_bytes(specials=["<|t|>", "<|u|>"])
    numbers = {256: vocabulary.specials["<|t|>"], 257: vocabulary.specials["<|u|>"]}
    constraint = sg.lark(f'start: head "!"\n{body}', lexer="longest", contextual=True)
    for text in texts:
        matcher = Matcher(constraint, vocabulary)
        assert all(matcher.advance(numbers.get(token, token)) for token in text) and matcher.is_complete()


def test_schemas_are_checked() -> None:
    with pytest.raises(SchemaInvalid) as caught:
        read('start: "a"\n  | %json {"type": "strin"}')
    assert str(caught.value.where).startswith("%json at line 2, column 5")


@pytest.mark.parametrize(
    "source",
    [
        'start[max_chars=2147483648]: "a"',
        "start: <[1-99999999999999999999]>",
        "start: %json " + '{"a":' * 100_000,
        'start: "a"{4000000007}',
    ],
)
def test_limits(source: str) -> None:
    with pytest.raises((LimitExceeded, GrammarSyntaxError)):
        read(source)


def test_errors_of_lark_point_into_the_source() -> None:
    """The rewritten text before the mistake has another length."""
    source = 'start: %json {\n  "type": "object"\n} <|x|> "y"{2,3} foo-bar ) \nfoo-bar: "x"\n'
    with pytest.raises(GrammarSyntaxError) as caught:
        read(source)
    error = caught.value
    assert (error.line, error.column) == (3, 26)
    assert source.split("\n")[2][error.column - 1] == ")"


def test_errors_in_parts_of_terminals_point_into_the_source() -> None:
    with pytest.raises(GrammarSyntaxError) as caught:
        read('start: A\nA: "x" & "y" ) \n')
    assert (caught.value.line, caught.value.column) == (2, 14)
    with pytest.raises(GrammarSyntaxError, match="there is no terminal NONE") as caught:
        read('start: A\nA: "x" & NONE\n')
    assert (caught.value.line, caught.value.column) == (2, 10)


def test_the_empty_part_of_a_text_is_one_that_is_left_out() -> None:
    grammar = sg.lark('start: "x" %regex {"substring_words": "a b"} "y"')
    vocabulary = Vocabulary.from_tokens([*(bytes([byte]) for byte in range(256)), None], [256])
    texts = {"xy": True, "xa y": True, "xby": True, "xa by": True, "xb ay": False}
    for text, good in texts.items():
        assert Matcher(grammar, vocabulary).native.next_bytes(text.encode())[1] == good


def test_what_a_name_stands_for_is_a_constraint_or_a_type() -> None:
    with pytest.raises(TypeNotSupported, match="3 is a value, not a type"):
        sg.lark("start: @w", constraints={"w": 3})  # type: ignore[dict-item]
    for given in ("abc", int):
        assert sg.lark("start: @w", constraints={"w": given})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ('{"type": "strnig"}', "%json at line 4, column 12, #/type: type 'strnig' is not a type"),
        ('{"$ref": "#/x"}', "%json at line 4, column 12, #/$ref: the reference '#/x' does not resolve"),
        (
            '{"type": "string", "pattern": "("}',
            "%json at line 4, column 12, #/pattern: this group is not closed",
        ),
        (
            '{"pattern": "(.)\\\\1"}',
            "%json at line 4, column 12, #/pattern: this back-reference is not supported",
        ),
    ],
)
def test_errors_of_a_schema_in_a_grammar_have_its_position(schema: str, message: str) -> None:
    source = f'start: %json {{"type": "string"}}\n  | b\n\nb: "b" "c" %json {schema}'
    with pytest.raises(ConstraintError) as caught:
        sg.lark(source)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "source",
    [
        'start: A " " (N %json {} "(" "a" | "-" "z")\nA: "x"\nN: /-[0-9]*/\n',
        'start: A " " N %json {} "(a"\nA: "x"\nN: /[-a-z0-9]+/\n',
        'start: A " " (N | M) %json {"type": "integer"} "(a"\nA: "x"\nN: /-[0-9]*/\nM: /[0-9a]+/\n',
    ],
)
@pytest.mark.parametrize("contextual", [False, True])
def test_a_value_may_begin_inside_a_token_that_begins_a_lexeme(source: str, contextual: bool) -> None:
    """A value starts where it can, even with text that could continue the previous lexeme."""
    pieces = [
        b"-01(a",
        b"-01(",
        b"01(a",
        b"-01",
        b"1(a",
        b" -01(",
        b" -0",
        b"x -11(",
        b"a1(",
        b"a11(a",
        b"-a5(",
    ]
    tokens = [*(bytes([byte]) for byte in range(256)), *pieces]
    vocabulary = Vocabulary.from_tokens([*tokens, None], [len(tokens)])
    constraint = sg.lark(source, lexer="longest", contextual=contextual)
    by_bytes = Matcher(constraint, Vocabulary.of_bytes())
    taken = 0
    for before in (b"", b"x", b"x ", b"x -", b"x -0", b"x a"):
        matcher = Matcher(constraint, vocabulary)
        if not all(matcher.advance(byte) for byte in before):
            continue
        mask = matcher.mask()
        for place, piece in enumerate(pieces, 256):
            allowed = bool(mask[place >> 5] >> (place & 31) & 1)
            text = before + piece
            assert allowed == matcher.fork().advance(place) == (by_bytes.viable_bytes(text) == len(text)), (
                text
            )
            taken += allowed
    assert taken > 3
