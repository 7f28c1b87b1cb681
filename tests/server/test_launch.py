"""The server that is started from Python."""

from __future__ import annotations

import socket
from typing import Any

import openai
import pytest

import structgen as sg
from structgen.errors import ModelError, OptionError
from structgen.server import serve, serving
from structgen.serving import probe_process


def test_a_with_block_serves(model: Any) -> None:
    with serving(model, model_name="mine", api_keys=("k",), compilers=1) as url:
        with openai.OpenAI(base_url=url, api_key="k", max_retries=0) as client:
            answer = client.chat.completions.create(
                model="mine",
                messages=[{"role": "user", "content": "A colour?"}],
                extra_body={"structured_outputs": {"choice": ["red", "blue"]}},
            )
        assert answer.choices[0].message.content in ("red", "blue")
        with sg.connect(url, api_key="k") as remote:
            assert remote.model == "mine"
        port = int(url.rpartition(":")[2].partition("/")[0])
    with socket.socket() as door:
        assert door.connect_ex(("127.0.0.1", port)) != 0, "it has ended with the block"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"max_row": 3}, "Did you mean max_rows"),
        ({"max_rows": 0}, "max_rows is 0"),
        ({"api_keys": "secret"}, "api_keys is not a list of texts"),
        ({"cors_origins": "https://app.example"}, "cors_origins is not a list of texts"),
        ({"limits": {"compile_seconds": 1}}, "limits is a dict"),
        ({"model_name": None}, "model_name is None"),
        ({"port": 99_999}, "cannot listen"),
        ({"host": "a..b"}, "cannot listen"),
        ({"port": "8000x"}, "cannot listen"),
    ],
    ids=str,
)
def test_wrong_options_are_reported_before_anything_starts(
    model: Any, settings: dict[str, Any], said: str
) -> None:
    for start in (serve, lambda *args, **options: serving(*args, **options).__enter__()):
        with pytest.raises(OptionError, match=said):
            start(model, **settings)
    with pytest.raises(OptionError, match="not a model"):
        serve("model")


def test_a_with_block_without_a_probe_worker_raises(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(probe_process, "_COMMAND", [sys.executable, "-c", "raise SystemExit(1)"])
    with pytest.raises(ModelError, match="cannot start"), serving(model):
        pass
