"""Answers of samplers, and what they report."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest

from structgen.server.settings import ServerSettings

from .calls import ask, chat, post
from .conftest import NAME, Running


def test_a_sampler_draws_from_the_conditional_distribution(client: Any) -> None:
    answer = ask(
        client,
        n=2,
        seed=1,
        extra={
            "structured_outputs": {"choice": ["yes", "no"]},
            "structgen": {"sampler": {"name": "smc", "particles": 3}},
        },
    )
    assert {choice.message.content for choice in answer.choices} <= {"yes", "no"}
    report = answer.model_extra["structgen"]
    assert report["sampler"] == "smc" and report["draws"] == 3
    assert sum(one["weight"] for one in report["texts"]) == pytest.approx(1)


def test_samplers_and_streams_run_side_by_side(server: Running) -> None:
    async def both() -> tuple[Any, list[str]]:
        async with server.async_client() as client:

            async def stream() -> list[str]:
                parts = await ask(client, stream=True, max_tokens=20, seed=2)
                return [one.choices[0].delta.content or "" async for one in parts]

            sampled = ask(
                client,
                seed=1,
                extra={"structured_outputs": {"regex": "[ab]{6}"}, "structgen": {"sampler": "awrs"}},
            )
            return await asyncio.gather(sampled, stream())

    sampled, texts = asyncio.run(both())
    assert re.fullmatch("[ab]{6}", sampled.choices[0].message.content) and "".join(texts)


@pytest.fixture(scope="module")
def bounded(model: Any) -> Iterator[Running]:
    settings = ServerSettings(model_name=NAME, sampler_bytes=8 << 20, prompt_tokens=8)
    running = Running(model, settings)
    yield running
    running.stop()


def test_too_many_particles_are_refused_by_name(bounded: Running) -> None:
    long = [{"role": "user", "content": "a b c d " * 100}]
    smc = {"structgen": {"sampler": {"name": "smc", "particles": 16}}, "guided_regex": "[ab]{3}"}
    status, body = post(bounded, chat(messages=long, **smc))
    assert status == 400 and body["error"]["param"] == "structgen.sampler.particles"
    assert body["error"]["code"] == "sampler_bytes" and "--sampler-bytes" in body["error"]["message"]
    status, body = post(bounded, chat(messages=long, **{**smc, "structgen": {"sampler": "exact"}}))
    assert status == 400 and body["error"]["param"] == "structgen.sampler.parallel"
    status, body = post(bounded, chat(**{**smc, "structgen": {"sampler": {"name": "smc", "particles": 3}}}))
    assert status == 200 and set(body["choices"][0]["message"]["content"]) <= {"a", "b"}


def test_others_have_their_turns_while_a_sampler_reads_its_prompt(
    bounded: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, steps = bounded.service.model_thread, []
    call = engine.call
    monkeypatch.setattr(
        engine,
        "call",
        lambda function, reads=False: (steps.append(engine.batch.is_idle), call(function, reads=reads))[1],
    )
    asked = chat(
        messages=[{"role": "user", "content": "a b c d " * 20}],
        structgen={"sampler": {"name": "exact", "parallel": 1}},
        guided_regex="[ab]{2}",
    )
    status, body = post(bounded, asked)
    assert status == 200
    tokens = body["usage"]["prompt_tokens"]
    assert tokens > 60 and len(steps) >= tokens / (8 * 8)
