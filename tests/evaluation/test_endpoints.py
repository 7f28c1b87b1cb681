"""The runner with a real server, and with servers that misbehave."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai")

from structgen.errors import ModelError, OptionError, RemoteError
from structgen.evaluation.decoding import prompt_for
from structgen.evaluation.endpoints import Endpoint
from structgen.evaluation.items import Item
from structgen.evaluation.records import GenerationRecord, TaskRecord, read_run
from structgen.evaluation.running import begin, run
from structgen.evaluation.settings import RunOptions
from tests.embedded import shallow_model

_ITEM = Item("a", "p", {"type": "object"}, ((True, {}),))


def _nothing() -> None:
    pass


class _Server:
    """A server that sends the given answers in turn, and then repeats the last one."""

    def __init__(self, *answers: tuple[int, bytes]) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        remaining = list(answers)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # the library's name
                length = int(self.headers["Content-Length"])
                outer.bodies.append(json.loads(self.rfile.read(length)))
                outer.keys.append(self.headers["Authorization"])
                status, body = remaining.pop(0) if len(remaining) > 1 else remaining[0]
                if status == 0:
                    self.connection.close()
                    return
                self.send_response(status)
                self.send_header(
                    "Content-Type", "text/event-stream" if body[:4] == b"data" else "application/json"
                )
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                body = json.dumps({"object": "list", "data": [{"id": name} for name in ("m", "n")]}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.name = f"openai:http://127.0.0.1:{self._server.server_port}/v1#m"

    def __enter__(self) -> _Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)


_ERROR = json.dumps({"error": {"message": "no such keyword"}}).encode()
_CHUNK = {"id": "1", "object": "chat.completion.chunk"}
_ANSWER = (200, f"data: {json.dumps(_CHUNK | {'choices': []})}\n\ndata: [DONE]\n\n".encode())


def _endpoint(server: _Server, **options: Any) -> Endpoint:
    return Endpoint(server.name, **{"seconds": 5.0, "max_tokens": 9, **options})


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        (_ANSWER, "ok", None),
        ((400, _ERROR), "refused", "no such keyword"),
        ((422, _ERROR), "refused", "no such keyword"),
        ((500, _ERROR), "error", "no such keyword"),
        ((0, b""), "crash", "APIConnectionError"),
        ((200, b"not JSON"), "error", "answer is empty"),
        ((200, b'data: {"error": {"message": "too deep"}}\n\n'), "error", "too deep"),
    ],
)
def test_a_schema_is_declared_if_the_server_takes_it(
    answer: tuple[int, bytes], status: str, said: str | None
) -> None:
    with _Server(answer) as server:
        report = _endpoint(server).cover(_ITEM, "d", _nothing)
    assert (report.status, report.verdicts, report.item) == (status, None, "a"), report.message
    assert report.message is None if said is None else said in str(report.message)
    (body,) = server.bodies
    assert body["max_tokens"] == 9 and body["model"] == "m"
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}


def test_requests_to_a_busy_server_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("structgen.evaluation.endpoints._PAUSES", (0.0, 0.0))
    with _Server((429, b"{}"), (429, b"{}"), _ANSWER) as server:
        assert _endpoint(server).cover(_ITEM, "d", _nothing).status == "ok"
    with _Server((429, b"{}")) as server, pytest.raises(RemoteError, match="cannot be used"):
        _endpoint(server).cover(_ITEM, "d", _nothing)
    assert len(server.bodies) == 3


def test_refused_access_and_a_lost_server_end_the_run() -> None:
    with _Server((401, _ERROR)) as server, pytest.raises(RemoteError, match="--api-key-env"):
        _endpoint(server).cover(_ITEM, "d", _nothing)
    endpoint = _endpoint(server)
    assert endpoint.cover(_ITEM, "d", _nothing).status == "crash"
    with pytest.raises(RemoteError, match="cannot be used"):
        endpoint.cover(_ITEM, "d", _nothing)


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-1")
    with _Server(_ANSWER) as server:
        _endpoint(server, key_variable="MY_KEY").cover(_ITEM, "d", _nothing)
        assert server.keys == ["Bearer sk-1"]
        with pytest.raises(OptionError, match="variable NO_KEY"):
            _endpoint(server, key_variable="NO_KEY")


def test_the_model_is_named_where_there_are_several() -> None:
    with _Server(_ANSWER) as server, pytest.raises(OptionError, match=r"(?s)2 models.*#MODEL.*m, n"):
        Endpoint(server.name.removesuffix("#m"), seconds=600.0, max_tokens=9)


def _stream(*pieces: str, finish: str = "stop") -> bytes:
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in pieces
    ]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    events = [json.dumps(_CHUNK | chunk) for chunk in chunks]
    return b"".join(f"data: {event}\n\n".encode() for event in [*events, "[DONE]"])


def test_a_stream_is_a_text_with_times() -> None:
    beats: list[int] = []
    with _Server(
        (200, _stream("{", "}")), (200, _stream("{", finish="length")), (200, b"data: {]\n\n")
    ) as server:
        endpoint = _endpoint(server)
        report = endpoint.write(prompt_for({}), {}, "x", lambda: beats.append(1))
        assert (report.status, report.text, report.tokens, report.ended) == ("ok", "{}", 2, True)
        assert report.ttft_s is not None and report.tpot_s is not None and report.mask_s is None
        assert len(beats) >= 3
        assert not endpoint.write(prompt_for({}), {}, "x", _nothing).ended
        assert endpoint.write(prompt_for({}), {}, "x", _nothing).status == "error"


@pytest.fixture(scope="module")
def real() -> Iterator[str]:
    """structgen's own server over the first layers of the embedded model."""
    model = shallow_model()
    pytest.importorskip("fastapi")
    from structgen.server.settings import ServerSettings
    from tests.server.conftest import Running

    running = Running(model, ServerSettings(model_name="smol"))
    yield f"openai:{running.url}/v1"
    running.stop()


def test_a_run_against_a_real_server(real: str, tmp_path: Path) -> None:
    lines = [{"_file": "a", "schema": {"enum": ["yes", "no"]}}, {"_file": "b", "schema": {"type": "nothing"}}]
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = RunOptions(
        engines=(real,), datasets=(str(data),), generate=2, tasks=("calling",), task_items=1, max_tokens=24
    )
    run(begin(options, tmp_path / "run", workers=2))
    records = {(one.kind, one.item.split("/")[0]): one for one in read_run(tmp_path / "run").records}
    assert {key: one.status for key, one in records.items()} == {
        ("coverage", "a"): "ok",
        ("coverage", "b"): "refused",
        ("generation", "a"): "ok",
        ("generation", "b"): "refused",
        ("task", "calling"): "ok",
    }
    written, task = records["generation", "a"], records["task", "calling"]
    assert isinstance(written, GenerationRecord) and isinstance(task, TaskRecord)
    assert written.text in ('"yes"', '"no"') and written.ended and written.valid is not False
    assert written.ttft_s is not None and 2 <= written.tokens <= 24
    assert task.tokens <= 24 and task.text.startswith("{")


def test_a_server_that_is_not_there_ends_the_run(tmp_path: Path) -> None:
    options = RunOptions(engines=("openai:http://127.0.0.1:9/v1",), seconds=600.0)
    with pytest.raises(ModelError, match="cannot be used"):
        run(begin(options, tmp_path / "run"))
