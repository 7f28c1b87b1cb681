"""Requests that the tests of the server send, and what they read of the answers."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, Literal

from pydantic import BaseModel, Field

from tests.unhurried import HANG_SECONDS

from .conftest import KEY, NAME, Running

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}


WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"enum": ["Paris", "Rome"]},
                "days": {"type": "integer", "minimum": 0, "maximum": 9},
            },
            "required": ["city"],
        },
    },
}


CLOCK = {"type": "function", "function": {"name": "clock", "description": "The time"}}


class Colour(BaseModel):
    """A colour and how bright it is."""

    name: Literal["red", "green"]
    brightness: int = Field(ge=0, le=9)


def ask(client: Any, text: str = "A person.", **options: Any) -> Any:
    extra = options.pop("extra", None)
    options.setdefault("max_tokens", 40)
    messages = options.pop("messages", [{"role": "user", "content": text}])
    return client.chat.completions.create(model=NAME, messages=messages, extra_body=extra, **options)


def as_schema(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "it", "schema": schema, "strict": True}}


def joined(parts: Any, index: int = 0) -> tuple[list[tuple[str, str, str]], str, str]:
    """The calls (id, name, arguments), the text and the reason that a stream's deltas of one choice make up."""
    calls: dict[int, list[str]] = {}
    content, reason = "", ""
    for part in parts:
        for choice in part.choices:
            if choice.index != index:
                continue
            content += choice.delta.content or ""
            reason = choice.finish_reason or reason
            for delta in choice.delta.tool_calls or []:
                if delta.index not in calls:
                    assert delta.type == "function" and delta.function.arguments == ""
                    calls[delta.index] = [delta.id, delta.function.name, ""]
                else:
                    assert delta.id is None and delta.function.name is None
                calls[delta.index][2] += delta.function.arguments
    return [(one[0], one[1], one[2]) for one in calls.values()], content, reason


def note(least: int, most: int) -> dict[str, Any]:
    text = {"type": "string", "minLength": least, "maxLength": most}
    parameters = {"type": "object", "properties": {"text": text}, "required": ["text"]}
    return {"type": "function", "function": {"name": "note", "parameters": parameters}}


MESSAGES = [{"role": "user", "content": "A colour?"}]


def post(server: Running, body: Any, path: str = "/v1/chat/completions", key: str = KEY) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    request = urllib.request.Request(server.url + path, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=HANG_SECONDS) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": NAME, "messages": MESSAGES, "max_tokens": 4, **fields}
