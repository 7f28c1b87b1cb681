"""Samplers of requests: the memory that they need, and servers without samplers."""

from __future__ import annotations

from typing import Any

import pytest

from structgen.inference.samplers import SMC, Exact, sampler_of
from structgen.server.errors import ApiError
from structgen.server.sampler_fields import RequestedSampler
from structgen.server.settings import ServerSettings

from .calls import chat, post
from .conftest import NAME, Running


def test_the_rows_of_a_sampler_determine_its_memory() -> None:
    for name in ("exact", "cars", "asap", "rejection", "adaptive_rejection", "awrs", "local", "mh"):
        kind = type(sampler_of(name))
        assert RequestedSampler(name, kind(parallel=5), {}).rows == 5
    asked = RequestedSampler("smc", SMC(particles=20), {})
    assert asked.rows == 20
    asked.check_memory(100, 10, 20_000)
    with pytest.raises(ApiError) as caught:
        asked.check_memory(100, 10, 19_999)
    assert caught.value.status == 400 and caught.value.param == "structgen.sampler.particles"
    assert "--sampler-bytes" in str(caught.value) and "20 particles" in str(caught.value)
    with pytest.raises(ApiError, match="parallel"):
        RequestedSampler("exact", Exact(parallel=3), {}).check_memory(100, 10, 2_999)


def test_samplers_can_be_switched_off(model: Any) -> None:
    running = Running(model, ServerSettings(model_name=NAME, samplers=0, compilers=0))
    try:
        status, body = post(running, chat(structgen={"sampler": "smc"}))
        assert status == 400 and body["error"]["param"] == "structgen.sampler"
        assert "--samplers 0" in body["error"]["message"]
        assert post(running, chat(structgen={"seed": 5}))[0] == 200
    finally:
        running.stop()
