"""Structural tags in both forms; if XGrammar is installed, it must accept the same short texts."""

import json
import pickle
from itertools import product

import pytest

from structgen.errors import LimitExceeded
from structgen.serving.limits import RequestLimits
from structgen.serving.requests import constraint_of

from .formats import TAG, X, fits, read

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
