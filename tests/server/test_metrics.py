"""What operators see of drafts, the prefix cache and the queue."""

from __future__ import annotations

import json
import re
from typing import Any

from structgen.server.settings import ServerSettings

from .calls import as_schema, chat, post
from .conftest import KEY, NAME, Running, fetched, until

STATE = {
    "rows_running",
    "rows_waiting",
    "constraints_waiting",
    "matcher_processes",
    "matcher_requests_waiting",
    "drafting_rows",
    "prefix_cache_prompts",
    "prefix_cache_tokens",
    "prefix_cache_limit_tokens",
}


def values(server: Running) -> dict[str, float]:
    lines = re.findall(r"^structgen_(\w+) (\S+)$", fetched(f"{server.url}/metrics"), re.MULTILINE)
    return {name: float(value) for name, value in lines}


def test_drafts_and_the_prefix_cache_are_counted(model: Any) -> None:
    server = Running(model, ServerSettings(model_name=NAME, api_keys=(KEY,), samplers=0))
    try:
        messages = [
            {"role": "system", "content": "Be brief. " * 20},
            {"role": "user", "content": "A colour?"},
        ]
        schema = {"type": "object", "properties": {"a": {"enum": ["red", "blue"]}}, "required": ["a"]}
        for _ in range(2):
            body = chat(messages=messages, response_format=as_schema(schema), max_tokens=24, temperature=0)
            assert post(server, body)[0] == 200
        until(lambda: server.service.model_thread.batch.is_idle)
        found = values(server)
        assert found["prefix_cache_hits_total"] == 1 and found["cached_prompt_tokens_total"] >= 32
        assert 0 < found["prefix_cache_tokens"] <= found["prefix_cache_limit_tokens"]
        assert found["prefix_cache_prompts"] == 1
        assert found["accepted_tokens_total"] <= found["drafted_tokens_total"]
        health = json.loads(fetched(f"{server.url}/health"))
        assert health.pop("status") == "ok" and health.pop("open") == 0
        assert set(health) == STATE
        assert health == {name: found[name] for name in STATE}
        assert health["rows_running"] == health["drafting_rows"] == health["matcher_processes"] == 0
    finally:
        server.stop()
