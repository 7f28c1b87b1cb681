"""Measure the memory of `structgen serve` when no schema is ever sent twice.

    python -m bench.server_soak [--minutes 30] [--concurrency 8] [--slow 0.05]

Each request has a new schema. A share of them (``--slow``) is so large that it gets a matcher process, and some clients
disconnect in the middle. Every answer is checked. Once a minute a line shows the memory of the server and of its child
processes, their number, and the open file descriptors of the server.

The exit status is 1 if an answer was wrong, if the mean memory of the last third of the run exceeds ``--growth`` times
that of the middle third, or if a process remains after the server has ended.

Results: docs/server.md, "Memory over half an hour".
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.command import argument_parser

from .clients import client_of
from .isolation import harmless
from .server_process import Memory, descendants, key, model_of, report_batch, serve

__all__ = ["main"]

_TOKENS = 24
_DYING_SECONDS = 10.0
_HANG_UP = 0.05
"""The share of clients that leave in the middle of a stream."""


@dataclass
class _Soak:
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    salt: int = 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argument_parser("bench.server_soak", __doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--slow", type=float, default=0.05, help="share of schemas that are large")
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two lines")
    parser.add_argument("--growth", type=float, default=1.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", default="", help="options of structgen serve, in one text")
    options = parser.parse_args(arguments)
    soak = _Soak()
    with serve(options.serve) as server:
        assert server.pid is not None
        watch = Memory(server.pid)
        asyncio.run(_run(server.url, server.pid, options, soak, watch))
        report_batch(server.url)
        below = descendants(server.pid)
    left = _left(below)
    growth = _growth([own for _, own, _ in watch.samples])
    print(f"requests: {dict(soak.outcomes)}")
    print(f"the server's memory in the last third is {growth:.3f} of that in the middle third")
    for fault in [*soak.faults[:10], *(f"process {pid} remains" for pid in left)]:
        print("FAULT", fault)
    if options.json is not None:
        figures = {"memory_mib": watch.samples, "outcomes": dict(soak.outcomes), "growth": growth}
        options.json.write_text(json.dumps(figures, indent=1))
    return 1 if soak.faults or left or growth > options.growth else 0


def _growth(samples: Sequence[float]) -> float:
    third = len(samples) // 3
    if not third:
        return 1.0
    return statistics.fmean(samples[-third:]) / statistics.fmean(samples[third:-third] or samples[:third])


def _left(pids: Sequence[int]) -> list[int]:
    """Return the processes that still exist some seconds later; on a busy machine they take a while to end."""
    end = time.monotonic() + _DYING_SECONDS
    while (left := [pid for pid in pids if os.path.exists(f"/proc/{pid}")]) and time.monotonic() < end:
        time.sleep(0.1)
    return left


async def _run(url: str, pid: int, options: argparse.Namespace, soak: _Soak, watch: Memory) -> None:
    begin = time.monotonic()
    end = begin + 60 * options.minutes
    draw = random.Random(options.seed)
    async with client_of(url, key()) as (client, _):
        model = await model_of(client)

        async def ask() -> None:
            while time.monotonic() < end:
                soak.salt += 1
                is_large, hangs_up = draw.random() < options.slow, draw.random() < _HANG_UP
                await _one(client, model, soak, soak.salt, is_large=is_large, hangs_up=hangs_up)

        async def look() -> None:
            while True:
                await asyncio.sleep(options.every)
                watch.sample()
                at, own, below = watch.samples[-1]
                files = len(os.listdir(f"/proc/{pid}/fd"))
                print(
                    f"{at / 60:6.1f} min  {sum(soak.outcomes.values()):7} requests  {own:7.0f} MiB + {below:5.0f} MiB "
                    f"in {len(descendants(pid))} processes  {files} descriptors",
                    flush=True,
                )

        looking = asyncio.ensure_future(look())
        await asyncio.gather(*(ask() for _ in range(options.concurrency)))
        looking.cancel()


async def _one(client: Any, model: str, soak: _Soak, salt: int, *, is_large: bool, hangs_up: bool) -> None:
    import openai

    schema = _large(salt) if is_large else harmless(salt)
    kind = "large" if is_large else "small"
    try:
        stream = await client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": f"Write number {salt}."}],
            max_tokens=_TOKENS,
            seed=salt,
            stream=True,
            extra_body={"structured_outputs": {"json": schema}},
        )
        text, finish = "", None
        async for chunk in stream:
            if chunk.choices:
                text += chunk.choices[0].delta.content or ""
                finish = chunk.choices[0].finish_reason or finish
            if hangs_up and text:
                await stream.close()
                soak.outcomes[f"{kind}, hung up"] += 1
                return
    except openai.APIError as error:
        outcome = f"{kind}, {type(error).__name__}"
        soak.outcomes[outcome] += 1
        if not isinstance(error, openai.RateLimitError):
            soak.faults.append(f"{outcome}: {error!r:.200}")
        return
    soak.outcomes[f"{kind}, {finish}"] += 1
    if (finish == "stop" and not _fits(text, salt, is_large)) or finish is None or not text.startswith("{"):
        soak.faults.append(f"{kind}, {finish}: {text!r:.200}")


def _large(salt: int) -> dict[str, Any]:
    names = [f"key{salt}_{number}" for number in range(9_000)]
    members = {name: {"enum": [salt, None]} for name in names}
    return {"type": "object", "properties": members, "additionalProperties": False}


def _fits(text: str, salt: int, is_large: bool) -> bool:
    value = json.loads(text)
    if is_large:
        return all(
            name.startswith(f"key{salt}_") and member in (salt, None) for name, member in value.items()
        )
    return set(value) <= {f"name{salt}", "age", "tags"} and 0 <= value["age"] <= 100 + salt


if __name__ == "__main__":
    sys.exit(main())
