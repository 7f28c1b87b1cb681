"""Drafts in the engine's process, without vLLM: they are allowed, learn, and are counted."""

import random
from dataclasses import replace
from time import perf_counter

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


def _draft(drafts, served):
    (drafted,) = drafts.draft_all([served.text()])
    return drafted


def _write(drafts, served, text):
    """Let the model write a text, reading drafts; return the number of passes."""
    rest, passes = [*text, EOS], 0
    while rest:
        drafted = _draft(drafts, served)
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
    assert _draft(drafts, served) == [*b"abcdef", EOS]
    served.accept(list(b"abc"))
    assert _draft(drafts, served) == [*b"def", EOS]
    assert (drafts.counts.drafts, drafts.counts.tokens, drafts.counts.accepted) == (2, 11, 3)
    assert "3 accepted" in drafts.report()


def test_drafts_have_a_largest_length():
    assert _draft(GrammarDrafts(BYTES, 2), _Served(sg.regex("abcdef"))) == list(b"ab")


@pytest.mark.parametrize(("written", "expected"), [(0, b"ab"), (1, b"b"), (2, b""), (3, b"def")])
def test_drafts_end_before_the_text_may_end(written, expected):
    """vLLM 0.32 forbids the end of a text after a draft if it was too early before the draft."""
    drafts = GrammarDrafts(BYTES, 8)
    served = _Served(sg.regex("abcdef(g)?"))
    served.accept(list(b"abcdef"[:written]))
    text = replace(served.text(), min_tokens=3)
    assert bytes(drafts.draft_all([text])[0][:3]) == expected


def test_the_prompt_is_looked_up():
    drafts = GrammarDrafts(BYTES, 8)
    served = _Served(None, b"the invoice of Karl Schmidt, the invoice of Karl", key=None)
    assert bytes(_draft(drafts, served)).startswith(b" ")


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
    assert _draft(drafts, served) == []
    stuck = _Served(sg.regex("a!b"), stops=[STOP])
    stuck.accept([ord("a")])
    assert STOP not in _draft(drafts, stuck)


def test_the_end_that_most_answers_have_is_drafted():
    drafts = GrammarDrafts(BYTES, 8)
    assert _draft(drafts, _Served(sg.regex("ab"), stops=[STOP])) == [*b"ab", EOS]
    for end in (STOP, EOS, STOP, STOP):
        served = _Served(sg.regex("ab"), stops=[STOP])
        served.accept([*b"ab", end])
        drafts.finish(served.text())
    served = _Served(sg.regex("ab"), stops=[STOP])
    assert _draft(drafts, served) == [*b"ab", STOP]
    assert drafts._rows[served.request].reach == [1.0, 1.0, 4 / 5]
    assert _draft(drafts, _Served(sg.regex("ab"))) == [*b"ab", EOS]


def test_rows_of_a_step_share_their_drafts_and_drafts_shrink_as_it_fills():
    forced = [sg.regex("abcdef"), *[sg.regex("[a-z]{9}")] * 15]
    for draft_cost, expected in ((0.001, [*b"abcdef", EOS]), (0.1, [])):
        drafts = GrammarDrafts(BYTES, 8)
        for drafted in (0, 4, 8) * 40:
            drafts.goodput.costs.note(16, drafted, 0.16 + draft_cost * drafted)
        served = [_Served(constraint) for constraint in forced]
        found = drafts.draft_all([one.text() for one in served])
        assert found == [expected, *[[]] * 15]
        assert drafts.counts.tokens == len(expected)


def test_what_a_cut_draft_left_out_is_not_counted():
    drafts = GrammarDrafts(BYTES, 8)
    for drafted in (0, 4, 8) * 40:
        drafts.goodput.costs.note(1, drafted, 0.1 + 0.2 * drafted)
    served = _Served(sg.regex("abcdef"))
    assert _draft(drafts, served) == []
    served.accept(list(b"abc"))
    _draft(drafts, served)
    assert (drafts.counts.drafts, drafts.counts.tokens, drafts.counts.accepted) == (0, 0, 0)


def test_steps_without_prefill_are_measured():
    drafts = GrammarDrafts(BYTES, 8)
    before = drafts.goodput.costs.of(4, 0)
    drafts.begin_step(perf_counter() - 5.0, 0, 0)
    drafts.end_step()
    assert drafts.goodput.costs.of(4, 0) == before  # the step had prefill
    drafts.begin_step(perf_counter() - 5.0, 4, 3)
    drafts.end_step()
    assert drafts.goodput.costs.of(4, 3) == pytest.approx(5.0, rel=0.1)
    drafts.end_step()  # no step began


class _Counted(list):
    """Counts the tokens that are read from it."""

    read = 0

    def __getitem__(self, index):
        found = super().__getitem__(index)
        self.read += len(found) if isinstance(index, slice) else 1
        return found

    def __iter__(self):
        raise AssertionError("the whole text is read")


def test_a_step_reads_the_new_tokens_of_a_long_text_only():
    drafts = GrammarDrafts(BYTES, 8)
    served = _Served(sg.regex("[a-z ]*"), b"the invoice of Karl " * 1000)
    served.tokens = _Counted(served.tokens)
    _draft(drafts, served)
    served.tokens.read = 0
    for token in b"the invoice":
        served.accept([token])
        _draft(drafts, served)
    assert served.tokens.read <= 40
    row = drafts._rows[served.request]
    assert bytes(row.tokens) == b"the invoice of Karl " * 1000 + b"the invoice"


def test_drafters_pause_where_they_do_not_pay():
    drafts = GrammarDrafts(BYTES, 8)
    for drafted in (0, 4, 8) * 40:
        drafts.goodput.costs.note(1, drafted, 1e-6 * (1 + 0.1 * drafted))  # a model faster than any drafter
    served = _Served(sg.regex("[a-z]{400}"), b"abcab")
    grown = []
    for number in range(300):
        _draft(drafts, served)
        grown.append(drafts._rows[served.request].grown is not None)
        served.accept([97 + number % 3])
    assert sum(grown) < 100
    assert not grown[-1]
    assert _draft(drafts, _Served(sg.regex("abcdef"))) == [
        *b"abcdef",
        EOS,
    ]  # what is forced is known without them


def test_a_request_that_is_gone_is_forgotten():
    drafts = GrammarDrafts(BYTES, 8)
    served = _Served(sg.regex("abc"))
    _draft(drafts, served)
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
    _draft(drafts, served)
    served.tokens = [*b"other", *text]
    served.prompt = 5
    _draft(drafts, served)
    assert drafts._rows[served.request].tokens == served.tokens
