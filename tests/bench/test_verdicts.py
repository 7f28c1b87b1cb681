"""`bench.verdicts` finds no difference on some of MaskBench, and finds one where the judges are made to differ."""

from __future__ import annotations

from typing import Any

import pytest

from structgen.vocabulary import Vocabulary
from tests import shared
from tests.real_tokenizers import tokenizer_path

pytest.importorskip("jsonschema_rs")

from bench.judges import Judge
from bench.tokenizers import Tokeniser, vocabulary_of
from bench.verdicts import Verdicts

BYTES = Vocabulary.from_tokens([*(bytes([byte]) for byte in range(256)), None], [256])


def test_some_of_maskbench() -> None:
    run = Verdicts(Tokeniser(vocabulary_of(str(tokenizer_path("smollm2")))))
    for record in shared.maskbench(every=400):
        run.check(record)
    assert run.differences == []
    assert run.figures["accepted"] > 10 and run.figures["rejected"] > 10


RECORD: dict[str, Any] = {
    "schema": {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
    "tests": [{"data": {"a": 1, "b": "/"}, "valid": True}, {"data": {"a": "x"}, "valid": False}],
}


def test_figures() -> None:
    run = Verdicts(Tokeniser(BYTES), escapes=True)
    run.check(RECORD)
    assert run.differences == []
    assert (run.figures["accepted"], run.figures["rejected"]) == (1, 1)


def test_a_wrong_verdict_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Verdicts, "accepts", lambda self, matcher, ids: True)
    run = Verdicts(Tokeniser(BYTES))
    run.check({**RECORD, "_file": "one"})
    (difference,) = run.differences
    assert "one instance 1: accepted" in difference


def test_the_exact_judge_decides() -> None:
    judge = Judge({"$schema": "http://json-schema.org/draft-07/schema#", "format": "uuid"})
    assert judge.fast("no") is True and judge.exact('"no"') is False
    assert not judge.rejects(False, '"no"')
    assert judge.rejects(True, '"no"') is False  # one judge supports it
    missing = Judge({"$ref": "https://example.com/nowhere"})
    assert not missing.rejects(True, "1") and not missing.rejects(False, "1")
