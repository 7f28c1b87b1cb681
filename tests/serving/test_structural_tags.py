"""Structural tags in both forms; if XGrammar is installed, it must accept the same short texts."""

import json
import pickle
from itertools import product

import pytest

import structgen as sg
from structgen.errors import ConstraintError, LimitExceeded
from structgen.serving.limits import RequestLimits
from structgen.serving.requests import constraint_of

VOCABULARY = sg.Vocabulary.of_bytes(["<|call|>"])
X = {"type": "const_string", "value": "x"}
TAG = {"type": "tag", "begin": "<f>", "content": X, "end": "</f>"}


def read(form, **options):
    return constraint_of("structural_tag", {"type": "structural_tag", "format": form}, **options)


def fits(constraint, text: str | list[int]) -> bool:
    matcher = sg.Matcher(constraint, VOCABULARY)
    tokens = list(text.encode()) if isinstance(text, str) else text
    return all(map(matcher.advance, tokens)) and matcher.is_complete()


FORMS = {
    "const_string": X,
    "any_text": {"type": "any_text"},
    "any_text_excludes": {"type": "any_text", "excludes": ["x<"]},
    "any_text_max": {"type": "any_text", "max_chars": 2},
    "sequence": {"type": "sequence", "elements": [X, TAG]},
    "or": {"type": "or", "elements": [X, TAG]},
    "optional": {"type": "optional", "content": TAG},
    "star": {"type": "star", "content": X},
    "plus": {"type": "plus", "content": X},
    "repeat": {"type": "repeat", "min": 1, "max": 2, "content": X},
    "regex": {"type": "regex", "pattern": "x{2}"},
    "grammar": {"type": "grammar", "grammar": 'root ::= "x" "x"?'},
    "tag": TAG,
    "tag_of_any_text": {"type": "tag", "begin": "<f>", "content": {"type": "any_text"}, "end": "</f>"},
    "tag_of_two_ends": {"type": "tag", "begin": "<f>", "content": {"type": "any_text"}, "end": ["</f>", "x"]},
    **{
        f"triggered_{least}_{once}": {
            "type": "triggered_tags",
            "triggers": ["<f"],
            "tags": [TAG],
            "at_least_one": least,
            "stop_after_first": once,
        }
        for least in (False, True)
        for once in (False, True)
    },
    **{
        f"separated_{least}_{once}": {
            "type": "tags_with_separator",
            "tags": [TAG],
            "separator": "x",
            "at_least_one": least,
            "stop_after_first": once,
        }
        for least in (False, True)
        for once in (False, True)
    },
    "dispatch": {"type": "dispatch", "rules": [["<f>", X]], "loop": True},
    "dispatch_once": {"type": "dispatch", "rules": [["<f>", X]], "loop": False},
}
PIECES = ("x", "<f>", "</f>", "<f", "y")


@pytest.mark.parametrize("name", FORMS)
def test_xgrammar_accepts_the_same_texts(name):
    xgrammar = pytest.importorskip("xgrammar", reason="the peer is not installed")
    tokens = [bytes([i]) for i in range(256)] + [b"<eos>"]
    info = xgrammar.TokenizerInfo(tokens, vocab_size=257, stop_token_ids=[256])
    grammar = xgrammar.Grammar.from_structural_tag(
        json.dumps({"type": "structural_tag", "format": FORMS[name]})
    )
    compiled = xgrammar.GrammarCompiler(info).compile_grammar(grammar)
    ours = read(FORMS[name])
    for count in range(4):
        for pieces in product(PIECES, repeat=count):
            text = "".join(pieces)
            theirs = xgrammar.GrammarMatcher(compiled)
            expected = all(map(theirs.accept_token, text.encode())) and theirs.accept_token(256)
            assert fits(ours, text) == expected, text


@pytest.mark.parametrize("name", FORMS)
def test_what_is_read_can_be_sent(name):
    made = read(FORMS[name])
    sent = pickle.loads(pickle.dumps(made))
    assert sent == made and sent.lower() == made.lower()


def test_the_legacy_form():
    tag = {
        "structures": [
            {"begin": "<f=a>", "schema": {"type": "integer"}, "end": "</f>"},
            {"begin": "<f=b>", "schema": {"type": "boolean"}, "end": "</f>"},
        ],
        "triggers": ["<f="],
    }
    constraint = constraint_of("structural_tag", json.dumps(tag))
    assert fits(constraint, "")
    assert fits(constraint, "so <f=a>1</f> and <f=b>true</f>.")
    assert not fits(constraint, "<f=a>true</f>")
    assert not fits(constraint, "<f=c>1</f>")


def test_parameters_as_qwen_writes_them():
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    for form in (
        {"type": "json_schema", "style": "qwen_xml", "json_schema": schema},
        {"type": "qwen_xml_parameter", "json_schema": schema},
    ):
        assert fits(read(form), "<parameter=city>\nParis\n</parameter>\n")
        assert not fits(read(form), "")


def test_a_special_token_in_a_text_is_that_token():
    tag = {"type": "tag", "begin": "<|call|>f:", "content": {"type": "any_text"}, "end": "<|call|>"}
    special = [257, *b"f:ab", 257]
    assert fits(read(tag, specials=["<|call|>"]), special)
    assert not fits(read(tag, specials=["<|call|>"]), "<|call|>f:ab<|call|>")
    assert fits(read(tag), "<|call|>f:ab<|call|>")  # a tokenizer without it reads a text
    triggered = {"type": "triggered_tags", "triggers": ["<|call|>"], "tags": [tag]}
    assert fits(read(triggered, specials=["<|call|>"]), [*b"so ", *special, *b"."])


def test_white_space_of_json_can_be_limited():
    form = {"type": "json_schema", "json_schema": {"type": "array"}, "max_whitespace_cnt": 0}
    assert fits(read(form), "[1,2]")
    assert not fits(read(form), "[1, 2]")
    for most in (1, 3):
        limited = read({**form, "max_whitespace_cnt": most})
        assert fits(limited, f"[1,{' ' * most}2]")
        assert not fits(limited, f"[1,{' ' * (most + 1)}2]")
    elements = {**form, "json_schema": {"properties": {"a": {"type": "integer"}}}, "style": "minimax_xml"}
    for most in (0, 3):
        limited, blank = read({**elements, "max_whitespace_cnt": most}), "\t" * most
        text = f'{blank}<parameter name="a">{blank}1{blank}</parameter>{blank}'
        assert fits(limited, text)
        assert not fits(limited, text + " ")


def test_the_type_of_the_tag_may_be_omitted():
    assert fits(constraint_of("structural_tag", {"format": X}), "x")


def test_texts_that_a_pattern_excludes():
    for pattern, excludes in (("[a-c]*", ["ab", "c"]), ("(?s).*", ["b"]), ("a|b", ["x"])):
        made = read({"type": "regex", "pattern": pattern, "excludes": excludes})
        whole = read({"type": "regex", "pattern": pattern})
        for size in range(4):
            for letters in product("abcx", repeat=size):
                text = "".join(letters)
                expected = fits(whole, text) and not any(one in text for one in excludes)
                assert fits(made, text) == expected, text


def test_texts_that_a_schema_excludes():
    form = {"type": "json_schema", "json_schema": {"type": "object"}, "excludes": ["<f>"]}
    made = read({"type": "tag", "begin": "<f>", "content": form, "end": "</f>"})
    assert fits(made, '<f>{"a": "<f"}</f>')
    assert not fits(made, '<f>{"a": ["<f>"]}</f>')
    assert not fits(made, '<f>{"<f>": 1}</f>')


def first_end(text: str, ends: list[str]) -> str | None:
    """Return the end that ends first in `text`, the longest of several, or None if it is not at the end of `text`.

    A slow and obvious reference.
    """
    for stop in range(1, len(text) + 1):
        found = [end for end in ends if text[:stop].endswith(end)]
        if found:
            return max(found, key=len) if stop == len(text) else None
    return None


@pytest.mark.parametrize("most", [None, 2])
@pytest.mark.parametrize(
    ("excludes", "ends"),
    [
        (["b<"], ["<r"]),  # shares its last letter with the end
        (["<"], ["<r"]),  # is the end's beginning
        (["<r"], ["<r"]),  # is the end
        (["r"], ["<r"]),
        (["b<r"], ["<r"]),
        (["<rb"], ["<r"]),
        (["b"], ["rr"]),  # an end that overlaps itself
        (["br", "rb"], ["r<", "<"]),
        ([], ["<r", "r"]),
    ],
    ids=repr,
)
def test_what_a_text_excludes_may_share_letters_with_its_end(excludes, ends, most):
    content = {"type": "any_text", "excludes": excludes} | ({} if most is None else {"max_chars": most})
    made = read({"type": "tag", "begin": "", "content": content, "end": ends})
    for count in range(6):
        for letters in product("b<r", repeat=count):
            text = "".join(letters)
            end = first_end(text, ends)
            said = None if end is None else text.removesuffix(end)
            wanted = said is not None and not any(one in said for one in excludes)
            wanted = wanted and (most is None or len(said) <= most)
            assert fits(made, text) == wanted, text


def test_an_excluded_text_may_not_begin_in_a_tag_and_end_in_free_text():
    triggered = {"type": "triggered_tags", "triggers": ["<f>"], "tags": [TAG], "excludes": [">!"]}
    for form in (triggered, triggered | {"at_least_one": True}):
        assert fits(read(form), "<f>x</f> !") and not fits(read(form), "<f>x</f>!")


WRONG = [
    ("const_string", "value", 3, "a text"),
    ("json_schema", "any_order", "yes", "true or false"),
    ("json_schema", "any_order", 1, "true or false"),
    ("json_schema", "style", 3, "a text"),
    ("json_schema", "max_whitespace_cnt", "2", "a whole number"),
    ("json_schema", "max_whitespace_cnt", True, "a whole number"),
    ("json_schema", "excludes", "x", "a list of texts"),
    ("regex", "pattern", ["x"], "a text"),
    ("regex", "excludes", 0, "a list of texts"),
    ("grammar", "grammar", None, "a text"),
    ("any_text", "excludes", "", "a list of texts"),
    ("any_text", "excludes", {"x": 1}, "a list of texts"),
    ("any_text", "max_chars", "3", "a whole number"),
    ("any_text", "max_chars", 2.0, "a whole number"),
    ("sequence", "elements", {}, "a list"),
    ("or", "elements", "x", "a list"),
    ("repeat", "min", "1", "a whole number"),
    ("repeat", "min", False, "a whole number"),
    ("repeat", "max", -2, "a whole number"),
    ("tag", "begin", 3, "a text"),
    ("tag", "end", None, "a text"),
    ("triggered_tags", "triggers", "<f", "a list of texts"),
    ("triggered_tags", "tags", TAG, "a list"),
    ("triggered_tags", "at_least_one", "yes", "true or false"),
    ("triggered_tags", "stop_after_first", None, "true or false"),
    ("triggered_tags", "stop_after_first", 1, "true or false"),
    ("triggered_tags", "excludes", 3, "a list of texts"),
    ("dispatch", "loop", "no", "true or false"),
    ("dispatch", "rules", "x", "a list"),
    ("tags_with_separator", "separator", 1, "a text"),
    ("tags_with_separator", "at_least_one", "true", "true or false"),
    ("tags_with_separator", "stop_after_first", 0, "true or false"),
]
RIGHT = {
    "const_string": X,
    "json_schema": {"type": "json_schema", "json_schema": True},
    "regex": {"type": "regex", "pattern": "x"},
    "grammar": {"type": "grammar", "grammar": 'root ::= "x"'},
    "any_text": {"type": "any_text"},
    "sequence": {"type": "sequence", "elements": [X]},
    "or": {"type": "or", "elements": [X]},
    "repeat": {"type": "repeat", "content": X},
    "tag": TAG,
    "triggered_tags": {"type": "triggered_tags", "triggers": ["<f"], "tags": [TAG]},
    "dispatch": {"type": "dispatch", "rules": [["<f>", X]]},
    "tags_with_separator": {"type": "tags_with_separator", "tags": [TAG], "separator": "x"},
}


@pytest.mark.parametrize(("kind", "key", "value", "wanted"), WRONG)
def test_a_field_of_the_wrong_type_is_refused_with_its_path(kind, key, value, wanted):
    assert read(RIGHT[kind])
    form = {"type": "sequence", "elements": [X, {"type": "optional", "content": RIGHT[kind] | {key: value}}]}
    with pytest.raises(ConstraintError) as caught:
        read(form)
    assert caught.value.where == f"format.elements[1].content.{key}"
    assert f'"{key}" is {wanted}' in str(caught.value)


@pytest.mark.parametrize(
    ("form", "where"),
    [
        ({"type": "any_text", "excludes": ["a", 3]}, "format.excludes[1]"),
        (TAG | {"end": ["a", 3]}, "format.end[1]"),
        (TAG | {"begin": {"type": "token", "token": 3.5}}, "format.begin.token"),
        (
            RIGHT["triggered_tags"] | {"tags": [TAG, TAG | {"content": {"type": "x"}}]},
            "format.tags[1].content",
        ),
        ({"type": "dispatch", "rules": [["a", X], ["b", {"type": "x"}]]}, "format.rules[1][1]"),
        ({"type": "json_schema", "json_schema": {"type": "x"}}, "format.json_schema, #/type"),
        ({"type": "json_schema", "json_schema": 3}, "format.json_schema"),
        ({"type": "json_schema", "style": "qwen_xml", "json_schema": 3}, "format.json_schema"),
        ({"type": "json_schema", "style": "qwen_xml", "json_schema": False}, "format.json_schema"),
        ({"type": "regex", "pattern": "("}, "format.pattern"),
        ({"type": "grammar", "grammar": "root ::= ("}, "format.grammar"),
    ],
    ids=repr,
)
def test_errors_inside_a_format_name_its_place(form, where):
    with pytest.raises(ConstraintError) as caught:
        read(form)
    assert str(caught.value.where).startswith(where)


def test_the_legacy_form_names_its_own_fields():
    for tag, where in (
        ({"structures": [{"begin": "<f>", "schema": {}, "end": 3}], "triggers": ["<f"]}, "structures[0].end"),
        (
            {"structures": [{"begin": "<f>", "schema": {"type": "x"}, "end": ""}], "triggers": ["<f"]},
            "structures[0].schema",
        ),
        ({"structures": [{"begin": "<f>", "schema": {}, "end": ""}], "triggers": "<f"}, "triggers"),
        ({"structures": [{"begin": "<f>", "schema": {}, "end": ""}], "triggers": ["<g"]}, "structures[0]"),
    ):
        with pytest.raises(ConstraintError) as caught:
            constraint_of("structural_tag", tag)
        assert str(caught.value.where).startswith(f"structural_tag.{where}")


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"type": "all_tokens"}, "'all_tokens' of structural tags is not supported"),
        ({"type": "nothing"}, "'nothing'"),
        ({"type": ["x"]}, "not supported"),
        ("x", "a format is an object"),
        ({"type": "const_string"}, '"value" is a text'),
        ({"type": "const_string", "value": "x", "values": 1}, "'values' is not supported here"),
        ({"type": "any_text", "max_tokens": -1}, '"max_tokens"'),
        ({"type": "any_text", "max_tokens": 1.5}, '"max_tokens"'),
        ({"type": "any_text", "excludes": "x"}, "a list of texts"),
        ({"type": "token", "token": 3.5}, "a token is a number or a text"),
        ({"type": "json_schema"}, '"json_schema" is missing'),
        ({"type": "json_schema", "json_schema": True, "style": "toml"}, "the style 'toml'"),
        ({"type": "json_schema", "json_schema": True, "excludes": ["true"]}, "'true' cannot be excluded"),
        ({"type": "json_schema", "json_schema": {"type": "x"}}, "is not a type"),
        ({"type": "sequence", "elements": []}, '"elements" must not be empty'),
        ({"type": "sequence", "elements": {}}, "a list that is not empty"),
        (
            {"type": "repeat", "min": -1, "content": X},
            'format.min: "min" is a whole number of 0 or more, not -1',
        ),
        (
            {"type": "repeat", "max": 10**20, "content": X},
            'format.max: "max" is more than 2,147,483,647',
        ),
        ({"type": "tag", "begin": "a", "content": X, "end": []}, "needs an end"),
        ({"type": "triggered_tags", "triggers": ["<g"], "tags": [TAG]}, "0 triggers"),
        ({"type": "triggered_tags", "triggers": ["<", "<f"], "tags": [TAG]}, "2 triggers"),
        ({"type": "triggered_tags", "triggers": [], "tags": [TAG]}, "need a trigger"),
        ({"type": "triggered_tags", "triggers": ["<f", "<g"], "tags": [TAG]}, "no tag begins with"),
        ({"type": "dispatch", "rules": [["a"]]}, "a rule is a text and a format"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(form, message):
    with pytest.raises(ConstraintError) as caught:
        read(form)
    assert message in str(caught.value)


@pytest.mark.parametrize("tag", [{}, [], {"type": "structural_tag"}, {"structures": [1], "triggers": ["a"]}])
def test_values_that_are_not_structural_tags(tag):
    with pytest.raises(ConstraintError):
        constraint_of("structural_tag", tag)


def test_limits():
    deep: dict = X
    for _ in range(70):
        deep = {"type": "optional", "content": deep}
    with pytest.raises(LimitExceeded) as caught:
        read(deep)
    assert caught.value.limit == "max_depth"
    with pytest.raises(LimitExceeded) as caught:
        read({"type": "sequence", "elements": [X] * 20}, limits=RequestLimits(max_tags=10))
    assert caught.value.limit == "max_tags"


TOKENS = [b"<f>", b"a", b"b", b"a</", b"</", b"f>", b"aa", b"!"]


def next_tokens(matcher):
    mask = matcher.mask()
    return {text for token, text in enumerate(TOKENS) if int(mask[0]) >> token & 1}


def opened(form, *tokens):
    matcher = sg.Matcher(read(form), sg.Vocabulary.from_tokens([*TOKENS, None], [len(TOKENS)]))
    for one in tokens:
        assert matcher.advance(TOKENS.index(one)), one
    return matcher


def counted_tag(most, **more):
    return {
        "type": "tag",
        "begin": "<f>",
        "content": {"type": "any_text", "max_tokens": most, **more},
        "end": "</f>",
    }


def test_any_text_of_so_many_tokens():
    tag = counted_tag(2)
    assert next_tokens(opened(tag, b"<f>")) == {*TOKENS}
    assert next_tokens(opened(tag, b"<f>", b"a", b"b")) == {b"</"}
    # The second token may be the last of the text, or begin the end.
    assert next_tokens(opened(tag, b"<f>", b"a", b"</")) == {b"</", b"f>"}
    assert next_tokens(opened(tag, b"<f>", b"a", b"a</")) == {b"</", b"f>"}
    assert next_tokens(opened(counted_tag(0), b"<f>")) == {b"</"}
    both = {"type": "sequence", "elements": [counted_tag(1), counted_tag(2, max_chars=3)]}
    matcher = opened(both, b"<f>", b"a", b"</", b"f>", b"<f>", b"aa")
    assert next_tokens(matcher) == {b"a", b"b", b"!", b"</", b"a</"}
    assert matcher.advance(TOKENS.index(b"b")) and next_tokens(matcher) == {b"</"}
    assert not matcher.advance(TOKENS.index(b"b")) and matcher.witness() == [4, 5]


def test_counted_text_has_the_texts_of_uncounted_text():
    for ends in (["</f>"], ["aba"], ["</f>", "x"], ["ab", "b"]):
        form = {"type": "tag", "begin": "<", "content": {"type": "any_text", "excludes": ["y"]}, "end": ends}
        counted = {**form, "content": {**form["content"], "max_tokens": 100}}
        plain, limited = sg.Matcher(read(form), VOCABULARY), sg.Matcher(read(counted), VOCABULARY)
        for letters in product("abx<y", repeat=4):
            tokens = [*("<" + "".join(letters)).encode(), VOCABULARY.eos_ids[0]]
            assert plain.accepts(tokens) == limited.accepts(tokens), (ends, letters)


def test_too_many_tokens_is_a_limit():
    with pytest.raises(ConstraintError, match="format.max_tokens.* is more than 2,147,483,647"):
        read({"type": "any_text", "max_tokens": 2**31})
