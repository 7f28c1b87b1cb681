"""A server on a real socket that speaks the OpenAI protocol, with a real (small) model.

A test chooses what it enforces; it ignores unknown fields, as servers do. Where nothing is enforced it sends the texts
in `says`, in turn, and then "Hello!". It sends `faults` first: a status, or a function that does something worse to
the connection.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import structgen as sg
from structgen.constraints.base import Constraint
from structgen.models import DistributionModel

Fault = tuple[int, dict[str, str]] | Callable[["Handler"], None]


def small_model() -> DistributionModel:
    """Return a model of bytes. Closing brackets and quotes are likely, so that constrained texts are short."""
    weights = [0.0] * 257
    for byte in range(32, 127):
        weights[byte] = 1.0
    for byte in b'"}],':
        weights[byte] = 60.0
    weights[256] = 200.0
    probabilities = [weight / sum(weights) for weight in weights]
    return DistributionModel(sg.Vocabulary.of_bytes(), lambda tokens: probabilities)


@dataclass
class World:
    """The behaviour of the server, and the requests that it received."""

    enforces: frozenset[str] = frozenset()
    owned_by: str = "owner"
    says: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    refuses: Callable[[dict[str, Any]], str] | None = None
    """Returns why a request is bad, or an empty text if it is not."""
    models: tuple[str, ...] = ("small",)
    key: str | None = None
    seconds: float = 0.0
    """The shortest time of an answer."""
    model: Any = field(default_factory=small_model)
    requests: list[dict[str, Any]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def constraint(self, body: dict[str, Any]) -> Constraint | None:
        """Return the constraint of the request, if this server enforces it."""
        outer = body.get("structured_outputs")
        if "structured_outputs" in self.enforces and isinstance(outer, dict):
            if "json" in outer:
                return sg.json_schema(outer["json"])
            if "choice" in outer:
                return sg.choice(outer["choice"])
            if "regex" in outer:
                return sg.regex(outer["regex"])
            if "grammar" in outer:
                return sg.gbnf(outer["grammar"])
        form = body.get("response_format")
        if isinstance(form, dict) and form["type"] in self.enforces:
            if form["type"] == "json_object":
                return sg.json_schema({"type": "object", "maxProperties": 1})
            schema = form["json_schema"]["schema"]
            assert schema["type"] == "object", "as the strict mode of the protocol wants"
            return sg.json_schema(schema)
        return None

    def answer(self, body: dict[str, Any]) -> tuple[str, str, int]:
        """Return the text, the reason why it ended, and the number of tokens."""
        constraint = self.constraint(body)
        most = body.get("max_tokens", body.get("max_completion_tokens"))
        if constraint is None:
            with self.lock:
                text = self.says.pop(0) if self.says else "Hello!"
            return text[:most], "length" if len(text) > most else "stop", len(text)
        result = sg.run(self.model, body["messages"], constraint, max_tokens=most, seed=body.get("seed", 3))
        return result.text, "stop" if result.finish == "complete" else "length", len(result.tokens)


Start = Callable[..., World]
"""Starts a server with the given fields of `World`."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    world: World

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def send(self, status: int, data: Any, headers: dict[str, str] | None = None) -> None:
        content = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def allowed(self) -> bool:
        key = self.world.key
        if key is None or self.headers.get("Authorization") == f"Bearer {key}":
            return True
        self.send(401, {"error": {"message": "wrong key"}})
        return False

    def do_GET(self) -> None:
        if self.allowed():
            listed = [{"id": name, "owned_by": self.world.owned_by} for name in self.world.models]
            self.send(200, {"object": "list", "data": listed})

    def do_POST(self) -> None:
        world = self.world
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.allowed():
            return
        with world.lock:
            world.requests.append(body)
            fault = world.faults.pop(0) if world.faults else None
            world.at_once += 1
            world.most_at_once = max(world.most_at_once, world.at_once)
        try:
            if callable(fault):
                fault(self)
            elif fault is not None:
                self.send(fault[0], {"error": {"message": "not now"}}, fault[1])
            elif world.refuses is not None and (why := world.refuses(body)):
                self.send(400, {"error": {"message": why}})
            else:
                self.say(body)
        finally:
            with world.lock:
                world.at_once -= 1

    def say(self, body: dict[str, Any]) -> None:
        time.sleep(self.world.seconds)
        text, finish, tokens = self.world.answer(body)
        usage = {"prompt_tokens": 5, "completion_tokens": tokens}
        if not body.get("stream"):
            message = {"role": "assistant", "content": text}
            self.send(200, {"choices": [{"message": message, "finish_reason": finish}], "usage": usage})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        events: list[dict[str, Any]] = [
            {"choices": [{"delta": {"content": text[i : i + 3]}, "finish_reason": None}]}
            for i in range(0, len(text), 3)
        ]
        events.append({"choices": [{"delta": {}, "finish_reason": finish}]})
        events.append({"choices": [], "usage": usage})
        for event in events:
            self.wfile.write(b": a comment\n\ndata: " + json.dumps(event).encode() + b"\n\n")
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True


@contextmanager
def serve(world: World) -> Iterator[World]:
    """Run the server of the world on a free port of this machine."""
    handler = type("WorldHandler", (Handler,), {"world": world})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    world.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield world
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def dribble(handler: Handler) -> None:
    """Send a byte now and then, for longer than a test takes."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    handler.close_connection = True
    try:
        for _ in range(20_000):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)
    except OSError:
        pass  # the client closed the connection


def half(handler: Handler) -> None:
    """Send half of an answer, and then nothing more."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.close_connection = True


def half_a_stream(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.wfile.write(b'data: {"choices": [{"delta": {"content": "ye"}}]}\n\n')
    handler.close_connection = True


def hang_up(handler: Handler) -> None:
    handler.close_connection = True
