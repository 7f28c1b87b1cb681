"""Send requests to a server, put streams together, and compare the answers of two servers.

Invariant: an answer is compared whole: texts, calls, reasons, counts of tokens and log probabilities. Left out is only
what differs between two equal requests by design, such as ids, and what says how fast an answer was.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from .mixed_requests import ServedRequest

__all__ = ["AnswerStream", "answer_of", "differences"]

_VOLATILE = frozenset(
    (
        "id",
        "call_id",
        "item_id",
        "request_id",
        "created",
        "created_at",
        "completed_at",
        "prompt_tokens_details",
        "input_tokens_details",
    )
)
_LOGPROB_TOLERANCE = 2e-3
"""Log probabilities of equal texts differ by the rounding of batches with other rows."""


async def answer_of(http: httpx2.AsyncClient, url: str, model: str, request: ServedRequest) -> Any:
    """Return the answer to a request without what is volatile; of an error, its status and code."""
    async with AnswerStream(http, url, model, request) as stream:
        return await stream.whole()


class AnswerStream:
    """The answer to one request, which may be left in the middle."""

    def __init__(self, http: httpx2.AsyncClient, url: str, model: str, request: ServedRequest) -> None:
        self._request = request
        self._sent = http.stream("POST", url + request.path, json={"model": model, **request.body})

    async def __aenter__(self) -> AnswerStream:
        self._response = await self._sent.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self._sent.__aexit__(*raised)

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines of the answer."""
        async for line in self._response.aiter_lines():
            yield line

    async def whole(self) -> Any:
        """Return the whole answer."""
        response = self._response
        if response.status_code != 200:
            error = json.loads(await response.aread())["error"]
            return {"status": response.status_code, "code": error["code"], "message": error["message"]}
        if not self._request.streams:
            return _without_volatile(json.loads(await response.aread()))
        events = [
            json.loads(line[6:])
            async for line in self.lines()
            if line.startswith("data: ") and line != "data: [DONE]"
        ]
        return _put_together(events)


def _put_together(events: list[dict[str, Any]]) -> Any:
    """Return what the events of a stream say together."""
    last = events[-1]
    if "error" in last:
        return {"status": 200, "code": last["error"]["code"], "message": last["error"]["message"]}
    if "response" in last:
        return _without_volatile(last["response"])
    choices: dict[int, dict[str, Any]] = {}
    for event in events:
        for choice in event["choices"]:
            merged = choices.setdefault(choice["index"], {})
            _merge(merged, {name: part for name, part in choice.items() if name != "index"})
    return _without_volatile(choices)


def _merge(whole: dict[str, Any], delta: dict[str, Any]) -> None:
    """Add a delta: texts are appended, lists of parts with an index are merged by it, other lists are extended."""
    for name, part in delta.items():
        if part is None or name in _VOLATILE:
            continue
        if isinstance(part, str) and name not in ("role", "type"):
            whole[name] = whole.get(name, "") + part
        elif isinstance(part, dict):
            _merge(whole.setdefault(name, {}), part)
        elif isinstance(part, list) and part and isinstance(part[0], dict) and "index" in part[0]:
            for item in part:
                _merge(
                    whole.setdefault(name, {}).setdefault(item["index"], {}),
                    {inner: value for inner, value in item.items() if inner != "index"},
                )
        elif isinstance(part, list):
            whole.setdefault(name, []).extend(part)
        else:
            whole[name] = part


def _without_volatile(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_volatile(part) for name, part in value.items() if name not in _VOLATILE}
    if isinstance(value, list):
        return [_without_volatile(part) for part in value]
    return value


def differences(mine: Any, theirs: Any, where: str = "") -> list[str]:
    """Return where two answers differ; numbers that are not whole may differ by rounding."""
    if isinstance(mine, dict) and isinstance(theirs, dict) and mine.keys() == theirs.keys():
        return [fault for name in mine for fault in differences(mine[name], theirs[name], f"{where}.{name}")]
    if isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        pairs = enumerate(zip(mine, theirs, strict=True))
        return [fault for index, (a, b) in pairs for fault in differences(a, b, f"{where}[{index}]")]
    if isinstance(mine, float) and isinstance(theirs, float):
        close = math.isclose(mine, theirs, rel_tol=_LOGPROB_TOLERANCE, abs_tol=_LOGPROB_TOLERANCE)
        return [] if close else [f"{where}: {mine} and {theirs}"]
    return [] if mine == theirs else [f"{where}: {mine!r:.200} and {theirs!r:.200}"]
