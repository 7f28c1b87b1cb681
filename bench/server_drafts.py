"""Latency of `structgen serve` with draft tokens against without, on a stream of JSON extraction.

    python -m bench.server_drafts [--clients 1 8 32] [--blocks 12] [--temperature 0]

Two servers of the embedded model run, one with ``--no-speculation``. Blocks of the same requests go to one and to the
other in turn, from as many clients as `--clients` says; each client sends its next request when its last one is
answered. The answers must be the same texts. docs/server.md has the figures. `--json FILE` keeps them. The exit status
is 1 if an answer differs or a request fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .clients import client_of
from .server_process import key, model_of, report_batch, serve
from .speculation.tasks import EXTRACTED, extraction_prompt

__all__ = ["extraction_request", "main"]

_MOST_TOKENS = 200
_RESAMPLES = 2000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument(
        "--blocks", type=int, default=12, help="blocks of requests for each number of clients"
    )
    parser.add_argument("--per-client", type=int, default=2, help="requests of a client in a block")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--serve", default="", help="options of both servers, in one text")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    found: list[dict[str, Any]] = []
    with serve(options.serve) as drafted, serve(f"--no-speculation {options.serve}") as plain:
        for clients in options.clients:
            found.append(asyncio.run(_measure(drafted.url, plain.url, clients, options)))
            _show(found[-1])
        report_batch(drafted.url)
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1))
    return 1 if any(one["differing"] or one["failed"] for one in found) else 0


async def _measure(drafted: str, plain: str, clients: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the mean latencies of each block with and without drafts, and how many answers differ."""
    draw = random.Random(clients)
    means: tuple[list[float], list[float]] = ([], [])
    differing = failed = answers = 0
    async with client_of(drafted, key()) as (one, _), client_of(plain, key()) as (other, _):
        sides = [(one, await model_of(one)), (other, await model_of(other))]
        for block in range(options.blocks + 1):
            requests = [
                extraction_request(draw, options.temperature) for _ in range(clients * options.per_client)
            ]
            texts: list[list[str | None]] = [[], []]
            for side in (0, 1) if block % 2 else (1, 0):
                seconds, texts[side] = await _run(*sides[side], requests, clients)
                if block:  # the first one warms up
                    means[side].append(statistics.fmean(seconds))
            failed += sum(text is None for side in texts for text in side)
            differing += sum(mine != theirs for mine, theirs in zip(*texts, strict=True))
            answers += len(requests)
    return {
        "clients": clients,
        "drafted": means[0],
        "plain": means[1],
        "answers": answers,
        "differing": differing,
        "failed": failed,
    }


def extraction_request(draw: random.Random, temperature: float) -> dict[str, Any]:
    """Return the fields of a random request to extract a record from a text as JSON."""
    kind, texts = draw.choice(EXTRACTED)
    return {
        "messages": [{"role": "user", "content": extraction_prompt(kind, draw.choice(texts))}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": kind.__name__, "schema": kind.model_json_schema(), "strict": True},
        },
        "temperature": temperature,
        "seed": draw.randrange(1 << 30),
        "max_tokens": _MOST_TOKENS,
    }


async def _run(
    client: Any, model: str, requests: list[dict[str, Any]], clients: int
) -> tuple[list[float], list[str | None]]:
    """Send the requests from so many clients; return their latencies in seconds and the texts, None for a failure."""
    texts: list[str | None] = [None] * len(requests)
    seconds: list[float] = []
    waiting = iter(enumerate(requests))

    async def one_client() -> None:
        for index, request in waiting:
            started = time.perf_counter()
            try:
                answer = await client.chat.completions.create(model=model, **request)
            except Exception as error:
                print(f"a request failed: {error}")
                continue
            seconds.append(time.perf_counter() - started)
            texts[index] = answer.choices[0].message.content or ""

    await asyncio.gather(*(one_client() for _ in range(clients)))
    return seconds, texts


def _show(found: dict[str, Any]) -> None:
    drafted, plain = np.array(found["drafted"]), np.array(found["plain"])
    random_numbers = np.random.default_rng(0)
    picks = random_numbers.integers(len(drafted), size=(_RESAMPLES, len(drafted)))
    ratios = plain[picks].mean(axis=1) / drafted[picks].mean(axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    print(
        f"{found['clients']} clients: mean latency {drafted.mean():.3f} s with drafts, {plain.mean():.3f} s without: "
        f"{plain.mean() / drafted.mean():.2f} times as fast (95 % {low:.2f} to {high:.2f}); "
        f"{found['answers']} answers, {found['differing']} differ, {found['failed']} failed",
        flush=True,
    )


if __name__ == "__main__":
    raise SystemExit(main())
