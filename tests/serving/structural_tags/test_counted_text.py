"""Free text of a bounded number of tokens."""

from itertools import product

import pytest

import structgen as sg
from structgen.errors import ConstraintError

from .formats import VOCABULARY, read

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
