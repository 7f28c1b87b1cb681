"""Requests for /v1/responses that the tests send, and a client that puts streams together."""

from __future__ import annotations

from typing import Any

from ..calls import WEATHER, post
from ..conftest import NAME, Running

__all__ = ["FLAT_WEATHER", "Replay", "body_of", "respond", "send"]

FLAT_WEATHER: dict[str, Any] = {"type": "function", **WEATHER["function"]}  # type: ignore[dict-item]


def body_of(**fields: Any) -> dict[str, Any]:
    return {"model": NAME, "input": "A colour?", "max_output_tokens": 4, **fields}


def send(server: Running, **fields: Any) -> tuple[int, Any]:
    """Send a request. Returns the status and the body of the answer."""
    return post(server, body_of(**fields), "/v1/responses")


def respond(client: Any, **fields: Any) -> Any:
    """Return the response of the official client, or its events."""
    extra = fields.pop("extra", None)
    return client.responses.create(extra_body=extra, **body_of(**fields))


class Replay:
    """Puts a response together from its events, by the reference of the protocol, and checks their order."""

    def __init__(self) -> None:
        self.items: dict[int, dict[str, Any]] = {}
        self.closed: dict[int, dict[str, Any]] = {}
        self.response: dict[str, Any] | None = None
        self._next = 0

    def feed(self, event: dict[str, Any]) -> None:
        """Follow one event."""
        assert self.response is None or self.response["status"] == "in_progress", "the response has ended"
        assert event["sequence_number"] == self._next
        self._next += 1
        kind = event["type"].removeprefix("response.")
        if "response" in event:
            assert (kind == "created") == (event["sequence_number"] == 0)
            self.response = event["response"]
            return
        assert self.response is not None
        index = event["output_index"]
        if kind == "output_item.added":
            assert index == len(self.items) and event["item"]["status"] == "in_progress"
            self.items[index] = event["item"]
            return
        item = self.items[index]
        assert index not in self.closed, "the item is closed"
        if kind == "output_item.done":
            assert event["item"]["id"] == item["id"] and event["item"]["status"] != "in_progress"
            self.closed[index] = event["item"]
            return
        assert event["item_id"] == item["id"]
        if item["type"] in ("function_call", "custom_tool_call"):
            key = "input" if item["type"] == "custom_tool_call" else "arguments"
            assert kind.removeprefix(f"{item['type']}_{key}") in (".delta", ".done")
            if kind.endswith("delta"):
                item[key] += event["delta"]
            else:
                assert (event["name"], event[key]) == (item["name"], item[key])
            return
        assert event["content_index"] == 0
        if kind == "content_part.added":
            item["content"].append(event["part"])
        elif kind == "content_part.done":
            item["content"] = [event["part"]]
        elif kind.endswith(".delta"):
            item["content"][0]["text"] += event["delta"]
        else:
            assert event["text"] == item["content"][0]["text"]

    @property
    def output(self) -> list[dict[str, Any]]:
        """Return the items, which must be closed. They are as the deltas say, but for their status."""
        assert self.closed.keys() == self.items.keys()
        for index, item in self.items.items():
            assert {**item, "status": self.closed[index]["status"]} == self.closed[index]
        return [self.closed[index] for index in sorted(self.closed)]
