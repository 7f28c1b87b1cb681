"""Drafts in the engine's process, without vLLM: they are allowed, learn, and are counted."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structgen as sg
from structgen.integrations.vllm.drafting import GrammarDrafts, RequestText
from structgen.serving.sequence import ConstrainedSequence

BYTES = sg.Vocabulary.of_bytes()
EOS, STOP = 256, ord("!")
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "is_paid": {"type": "boolean"}},
    "required": ["name", "is_paid"],
    "additionalProperties": False,
}


class _Request:
    """A request of vLLM, as far as drafts identify it."""


class _Served:
    """One request that an engine serves."""

    def __init__(self, constraint, prompt=b"", key="k", stops=()):
        self.request = _Request()
        self.sequence = (
            None if constraint is None else ConstrainedSequence(sg.Matcher(constraint, BYTES), stops)
        )
        self.tokens, self.prompt, self.key = list(prompt), len(prompt), key

    def text(self):
        return RequestText(self.request, self.tokens, self.prompt, self.sequence, self.key)

    def accept(self, tokens):
        self.tokens += tokens
        if self.sequence is not None:
            assert all(self.sequence.advance(token) for token in tokens)


def _write(drafts, served, text):
    """Let the model write a text, reading drafts; return the number of passes."""
    rest, passes = [*text, EOS], 0
    while rest:
        drafted = drafts.draft(served.text())
        assert len(drafted) <= 8
        assert served.sequence is None or served.sequence.accepted(drafted) == len(drafted)
        right = next(
            (i for i, pair in enumerate(zip(drafted, rest, strict=False)) if pair[0] != pair[1]), len(drafted)
        )
        served.accept(rest[: right + 1])
        rest = rest[right + 1 :]
        passes += 1
    drafts.finish(served.text())
    return passes


def test_forced_text_and_the_end_are_drafted():
    drafts = GrammarDrafts(BYTES, 8)
    served = _Served(sg.regex("abcdef"))
    assert drafts.draft(served.text()) == [*b"abcdef", EOS]
    served.accept(list(b"abc"))
    assert drafts.draft(served.text()) == [*b"def", EOS]
    assert (drafts.counts.drafts, drafts.counts.tokens, drafts.counts.accepted) == (2, 11, 3)
    assert "3 accepted" in drafts.report()


def test_drafts_have_a_largest_length():
    assert GrammarDrafts(BYTES, 2).draft(_Served(sg.regex("abcdef")).text()) == list(b"ab")


def test_the_prompt_is_looked_up():
    drafts = GrammarDrafts(BYTES, 8)
    served = _Served(None, b"the invoice of Karl Schmidt, the invoice of Karl", key=None)
    assert bytes(drafts.draft(served.text())).startswith(b" ")


def test_answers_of_the_same_constraint_are_drafted():
    drafts = GrammarDrafts(BYTES, 8)
    text = b'{"name": "Ada", "is_paid": true}'
    first = _write(drafts, _Served(sg.json_schema(SCHEMA)), text)
    again = _write(drafts, _Served(sg.json_schema(SCHEMA)), text)
    other = _write(drafts, _Served(sg.json_schema(SCHEMA), key="another"), text)
    assert again < first < len(text)
    assert again < other


def test_nothing_is_drafted_after_the_end_or_a_failure():
    drafts = GrammarDrafts(BYTES, 8)
    served = _Served(sg.regex("ab"))
    served.accept([*b"ab", EOS])
    assert drafts.draft(served.text()) == []
    stuck = _Served(sg.regex("a!b"), stops=[STOP])
    stuck.accept([ord("a")])
    assert STOP not in drafts.draft(stuck.text())


def test_a_request_that_is_gone_is_forgotten():
    drafts = GrammarDrafts(BYTES, 8)
    served = _Served(sg.regex("abc"))
    drafts.draft(served.text())
    assert len(drafts._rows) == 1
    del served
    assert len(drafts._rows) == 0


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_all_drafts_are_allowed_and_the_text_is_the_same(seed):
    rng = random.Random(seed)
    drafts = GrammarDrafts(BYTES, rng.randint(1, 8))
    for _ in range(4):
        constraint = rng.choice([sg.json_schema(SCHEMA), sg.regex("(ab|ba){1,9}c?"), None])
        served = _Served(constraint, b"ababcab {", key=rng.choice("xy") if constraint else None)
        matcher = None if constraint is None else sg.Matcher(constraint, BYTES)
        text = []
        while len(text) < 40 and (matcher is None or not matcher.must_stop):
            text.append(rng.choice(list(b"ab")) if matcher is None else _one_of(matcher, rng))
            assert matcher is None or matcher.advance(text[-1])
        if matcher is None or matcher.is_complete():
            _write(drafts, served, text)
            assert served.tokens[served.prompt :] == [*text, EOS]


def _one_of(matcher, rng):
    witness = matcher.witness()
    if witness and rng.random() < 0.5:
        return witness[0]
    return rng.choice([token for token in range(256) if matcher.fork().advance(token)])


@pytest.mark.parametrize("text", [b"", b"ab"])
def test_a_request_whose_text_changes_starts_again(text):
    drafts = GrammarDrafts(BYTES, 8)
    served = _Served(sg.regex("[a-z]*"), b"xyz xyz")
    drafts.draft(served.text())
    served.tokens = [*b"other", *text]
    served.prompt = 5
    drafts.draft(served.text())
    assert drafts._rows[served.request].tokens == served.tokens
