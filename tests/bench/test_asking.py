"""What is counted as a failed request: one that was to be answered, or a hostile one that met no limit of its own."""

from __future__ import annotations

import asyncio
import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

openai = pytest.importorskip("openai")
httpx2 = pytest.importorskip("httpx2")
pytest.importorskip("jsonschema_rs")

from bench.vllm_serving.asking import ask  # noqa: E402
from bench.vllm_serving.cases import Case  # noqa: E402

GOOD = Case("regex", {}, lambda *_: None, ("regex", "a+"))
POISON = dataclasses.replace(GOOD, is_poison=True)
HOSTILE = dataclasses.replace(POISON, may_answer=True)


def _refusing(status: int, code: str) -> Any:
    async def create(**_: Any) -> None:
        request = httpx2.Request("POST", "http://127.0.0.1/v1/chat/completions")
        answer = httpx2.Response(status, request=request)
        kind = openai.BadRequestError if status == 400 else openai.APIStatusError
        raise kind("no", response=answer, body={"code": code})

    return SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))


@pytest.mark.parametrize(
    ("case", "status", "code", "outcome"),
    [
        (GOOD, 400, "invalid_constraint", "failed"),
        (POISON, 400, "invalid_constraint", "refused"),
        (HOSTILE, 400, "limit_exceeded", "refused"),
        (HOSTILE, 422, "automaton_states", "stopped"),
        (HOSTILE, 422, "dead_end", "failed"),
        (HOSTILE, 503, "busy", "failed"),
        (POISON, 422, "automaton_states", "failed"),
        (GOOD, 422, "automaton_states", "failed"),
    ],
)
def test_errors_are_outcomes(case: Case, status: int, code: str, outcome: str) -> None:
    found, _, tokens = asyncio.run(ask(_refusing(status, code), "m", case))
    assert (found, tokens) == (outcome, 0)
