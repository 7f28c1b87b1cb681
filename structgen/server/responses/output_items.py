"""The output of a response: items that grow by deltas, and the events that report each step.

Why: a response and its stream are built from the same deltas, so that they cannot differ.
What: the items are the reasoning, a message, and one item per call, in this order. An item is added, grows, and is
closed before the next one is added. With log probabilities the message is closed last, since they are known at the end.
Invariant: after `close`, the items are those that a client puts together from the events.
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from structgen.tools.custom import InputReader

from ..answers import Choice, new_call_id
from ..tool_fields import RequestedTools
from ..turn_deltas import ArgumentsDelta, CallStart, Delta, ReasoningDelta, TextDelta

__all__ = ["OutputItems", "deltas_of"]

Event = dict[str, Any]
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""Types of items that are calls, and the key of what the model has written."""


def deltas_of(choice: Choice, tools: RequestedTools | None = None) -> Iterator[Delta]:
    """Yield the deltas that add up to a whole answer, which may call the tools."""
    if choice.reasoning:
        yield ReasoningDelta(choice.reasoning)
    if choice.text:
        yield TextDelta(choice.text)
    for index, call in enumerate(choice.calls):
        is_custom = tools is not None and tools.is_custom(call.name)
        yield CallStart(index, call.name, is_custom)
        if text := InputReader().more(call.arguments) if is_custom else call.arguments:
            yield ArgumentsDelta(index, text, is_custom)


class OutputItems:
    """The items of one response."""

    def __init__(self, *, has_logprobs: bool) -> None:
        self._has_logprobs = has_logprobs
        self.items: list[dict[str, Any]] = []
        self._open: list[int] = []
        """The indices of the items that may still grow."""

    def add(self, delta: Delta) -> Iterator[Event]:
        """Yield the events of a delta."""
        if isinstance(delta, ReasoningDelta):
            if not self._grows("reasoning"):
                yield from self._add_item("rs", {"type": "reasoning", "summary": [], "content": []})
                yield from self._add_part({"type": "reasoning_text", "text": ""})
            yield self._grow_part("response.reasoning_text.delta", delta.text)
        elif isinstance(delta, TextDelta):
            if not self._grows("message"):
                yield from self._add_message()
            yield {**self._grow_part("response.output_text.delta", delta.text), "logprobs": []}
        elif isinstance(delta, CallStart):
            kind = "custom_tool_call" if delta.is_custom else "function_call"
            call = {"type": kind, "call_id": new_call_id(), "name": delta.name, _CALLS[kind]: ""}
            yield from self._add_item("ctc" if delta.is_custom else "fc", call)
        else:
            kind = self.items[-1]["type"]
            self.items[-1][_CALLS[kind]] += delta.text
            yield self._event(f"response.{kind}_{_CALLS[kind]}.delta", len(self.items) - 1, delta=delta.text)

    def close(self, choice: Choice) -> Iterator[Event]:
        """Yield the events at the end of the answer `choice`, which the deltas have added up to."""
        is_cut_off = choice.reason == "length"
        if not (choice.text or choice.calls or is_cut_off) or (is_cut_off and not self.items):
            yield from self._add_message()
        last = len(self.items) - 1
        if is_cut_off and not (choice.calls and choice.calls[-1].is_whole):
            yield from self._close_items(_shown_logprobs(choice), cut_off=last)
        else:
            yield from self._close_items(_shown_logprobs(choice))

    def fail(self) -> None:
        """Mark the open items as incomplete. Their events have ended."""
        for index in self._open:
            self.items[index]["status"] = "incomplete"
        self._open.clear()

    # -- parts

    def _grows(self, kind: str) -> bool:
        """Return whether the last item is open and has this type."""
        last = len(self.items) - 1
        return last in self._open and bool(self.items[last]["type"] == kind)

    def _event(self, kind: str, index: int, **more: Any) -> Event:
        return {"type": kind, "item_id": self.items[index]["id"], "output_index": index, **more}

    def _add_message(self) -> Iterator[Event]:
        yield from self._add_item("msg", {"type": "message", "role": "assistant", "content": []})
        yield from self._add_part({"type": "output_text", "text": "", "annotations": [], "logprobs": []})

    def _add_item(self, prefix: str, item: dict[str, Any]) -> Iterator[Event]:
        yield from self._close_items(None)
        index = len(self.items)
        self.items.append({"id": f"{prefix}_{secrets.token_hex(12)}", "status": "in_progress", **item})
        self._open.append(index)
        shown = copy.deepcopy(self.items[index])
        yield {"type": "response.output_item.added", "output_index": index, "item": shown}

    def _add_part(self, part: dict[str, Any]) -> Iterator[Event]:
        index = len(self.items) - 1
        self.items[index]["content"].append(part)
        yield self._event("response.content_part.added", index, content_index=0, part=dict(part))

    def _grow_part(self, kind: str, text: str) -> Event:
        index = len(self.items) - 1
        self.items[index]["content"][0]["text"] += text
        return self._event(kind, index, content_index=0, delta=text)

    def _close_items(
        self, logprobs: Sequence[dict[str, Any]] | None, cut_off: int | None = None
    ) -> Iterator[Event]:
        """Close the open items.

        Args:
            logprobs: The log probabilities of the message; None if they are not known yet.
            cut_off: The index of the item that is incomplete.
        """
        waiting = []
        for index in self._open:
            item = self.items[index]
            if item["type"] == "message" and self._has_logprobs and logprobs is None:
                waiting.append(index)
                continue
            item["status"] = "incomplete" if index == cut_off else "completed"
            yield from self._closing_events(index, item, list(logprobs or []))
            yield {"type": "response.output_item.done", "output_index": index, "item": copy.deepcopy(item)}
        self._open = waiting

    def _closing_events(
        self, index: int, item: dict[str, Any], logprobs: list[dict[str, Any]]
    ) -> Iterator[Event]:
        if (key := _CALLS.get(kind := item["type"])) is not None:
            shown = {"name": item["name"], key: item[key]}
            yield self._event(f"response.{kind}_{key}.done", index, **shown)
            return
        part = item["content"][0]
        if item["type"] == "message":
            part["logprobs"] = logprobs
            done = {"text": part["text"], "logprobs": logprobs}
            yield self._event("response.output_text.done", index, content_index=0, **done)
        else:
            yield self._event("response.reasoning_text.done", index, content_index=0, text=part["text"])
        yield self._event("response.content_part.done", index, content_index=0, part=dict(part))


def _shown_logprobs(choice: Choice) -> list[dict[str, Any]]:
    """Return the log probabilities of the tokens of the text; special tokens are not text."""
    scored = (choice.logprobs or [])[choice.text_tokens]
    return [
        {**position, "top_logprobs": [top for top in position["top_logprobs"] if top["bytes"] is not None]}
        for position in scored
        if position["bytes"] is not None
    ]
