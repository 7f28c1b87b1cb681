"""Rolling back under random drafts, and the faults that the fuzzer must find."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuzz.rollback import check_rollback, run_rollback
from fuzz.walking import Broken
from structgen.errors import OptionError
from structgen.integrations.sglang.grammar import RequestGrammar as SglangGrammar
from structgen.integrations.vllm import grammar as vllm_grammar
from structgen.serving import sequence
from structgen.serving.sequence import ConstrainedSequence


def _stage(name: str) -> None:
    pass


def _some_episodes() -> None:
    for seed in range(20):
        check_rollback(json.dumps({"seed": seed, "steps": 2_000}), _stage)


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 2**32 - 1))
@example(0)
def test_drafts_change_nothing_that_a_fresh_matcher_would_not_say(seed):
    check_rollback(json.dumps({"seed": seed, "steps": 600}), _stage)


def test_a_limit_that_only_the_fast_path_meets_is_no_finding(monkeypatch):
    monkeypatch.setattr(sequence, "CALL_SECONDS", 0.0)
    figures = run_rollback(2_000, seed=3)
    assert figures.findings == []
    assert figures.limits_met > 0


def test_a_run_counts_its_steps():
    figures = run_rollback(1_500, seed=5)
    assert figures.steps >= 1_500
    assert figures.findings == []
    assert {name.partition(" ")[0] for name in figures.kinds} == {"sequence", "vLLM", "SGLang"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"seed": "x"}', '{"seed": 1e999}'])
def test_other_inputs_are_refused(text):
    with pytest.raises(OptionError):
        check_rollback(text, _stage)


def _one_too_few(self, count):
    ConstrainedSequence.matcher.__get__(self).rollback(max(0, count - 1))


def _end_forgotten(self, count):
    self._ended = False
    self.matcher.rollback(min(count, len(self.matcher.tokens)))


def _sharing_fork(self):
    made = object.__new__(type(self))
    for name in ("matcher", "_more", "_ends", "_ended", "_ignored", "failure", "closing"):
        setattr(made, name, getattr(self, name))
    return made


def _every_token(self, tokens):
    return len(tokens)


@pytest.mark.parametrize(
    ("name", "faulty"),
    [
        ("rollback", _one_too_few),
        ("rollback", _end_forgotten),
        ("fork", _sharing_fork),
        ("accepted", _every_token),
        ("finish_row", lambda self, out, row: None),
    ],
)
def test_a_faulty_sequence_is_found(monkeypatch, name, faulty):
    monkeypatch.setattr(ConstrainedSequence, name, faulty)
    with pytest.raises(Broken):
        _some_episodes()


def test_a_faulty_batch_of_rows_is_found(monkeypatch):
    right = sequence.after_drafts
    monkeypatch.setattr(vllm_grammar, "after_drafts", lambda one, drafts: right(one, drafts[:-1]))
    with pytest.raises(Broken, match="vLLM"):
        _some_episodes()


def test_a_faulty_plugin_is_found(monkeypatch):
    monkeypatch.setattr(SglangGrammar, "rollback", lambda self, k: self.sequence.rollback(k + 1))
    with pytest.raises(Broken, match="SGLang"):
        _some_episodes()
