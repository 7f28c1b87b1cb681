"""Compare the answers of `structgen serve` with draft tokens with those without, while clients join and disconnect.

    python -m bench.server_equality [--requests 300] [--hang-ups 100] [--clients 12] [--seed 0] [--layers N]

The same mixed requests (`bench.mixed_requests`) go to a server of the embedded model with drafts and to one with
``--no-speculation``. Each of the clients pauses for a random time before each request, and the order and the pauses of
the two servers differ. So each answer is computed in other batches. Among the requests are others whose clients
disconnect: in the middle of a stream, or while they wait for an answer. Every answer must be the same on both servers:
texts, calls, finish reasons, numbers of tokens, and log probabilities up to rounding.

docs/server.md has the figures. `--json FILE` keeps all answers. The exit status is 1 if an answer differs, a request
fails, or a server still has a request at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2

from bench.command import argument_parser

from .clients import Resending, client_of
from .mixed_requests import ServedRequest, draw_requests
from .served_answers import AnswerStream, answer_of, differences
from .server_process import key, model_of, report_batch, serve
from .shallow_model import shallow_model_options

__all__ = ["answers_of_all", "main"]

_MOST_LINES = 24
"""The most lines of a stream that a client reads before it disconnects."""
_MOST_SECONDS = 4.0
"""The longest time after which a client disconnects that waits for a whole answer."""
_COUNTED = (
    "structgen_drafted_tokens_total",
    "structgen_accepted_tokens_total",
    "structgen_prefix_cache_hits_total",
    "structgen_passes_failed_total",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argument_parser("bench.server_equality", __doc__)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--hang-ups", type=int, default=100, help="further requests whose clients disconnect")
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--pause", type=float, default=0.5, help="mean pause of a client, in seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--layers", type=int, help="serve the first N layers of the embedded model", metavar="N"
    )
    parser.add_argument("--serve", default="", help="options of both servers, in one text")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    requests = draw_requests(options.requests, options.seed)
    with shallow_model_options(options.layers) as model:
        sides = [
            _measure(requests, options, side, f"{model} {extra} {options.serve}")
            for side, extra in enumerate(("", "--no-speculation"))
        ]
    faults = _report(requests, *(answers for answers, _ in sides))
    faults += [fault for _, left in sides for fault in left]
    if options.json is not None:
        found = [
            {"request": request.body, "path": request.path, "answers": both}
            for request, *both in zip(requests, *(answers for answers, _ in sides), strict=True)
        ]
        options.json.write_text(json.dumps(found, indent=1))
    for fault in faults:
        print("FAULT", fault, file=sys.stderr)
    return 1 if faults else 0


def _measure(
    requests: Sequence[ServedRequest], options: argparse.Namespace, side: int, serve_options: str
) -> tuple[list[Any], list[str]]:
    """Return the answers of one server, and what it still held at the end."""
    draw = random.Random(f"{options.seed} {side}")
    with serve(serve_options) as server:
        started = time.perf_counter()
        answers = asyncio.run(
            answers_of_all(
                server.url,
                key(),
                requests,
                hang_ups=options.hang_ups,
                clients=options.clients,
                pause=options.pause,
                draw=draw,
            )
        )
        print(f"structgen serve {serve_options}: {time.perf_counter() - started:.0f} s")
        report_batch(server.url)
        left = _left(server.url)
    return answers, left


async def answers_of_all(
    url: str,
    api_key: str,
    requests: Sequence[ServedRequest],
    *,
    hang_ups: int,
    clients: int,
    pause: float,
    draw: random.Random,
) -> list[Any]:
    """Send all requests and return their answers.

    Args:
        url: The base URL of the server, with /v1.
        api_key: Its key.
        requests: The requests.
        hang_ups: Copies of some of the requests are sent, so many, whose clients disconnect.
        clients: The number of requests at a time.
        pause: The mean pause before a request, in seconds.
        draw: Decides about the order, the pauses and the times of disconnecting.
    """
    answers: list[Any] = [None] * len(requests)
    jobs: list[int | None] = [*range(len(requests)), *([None] * hang_ups)]
    draw.shuffle(jobs)
    headers = {"Authorization": f"Bearer {api_key}"}
    async with client_of(url, api_key) as (client, _):
        model = await model_of(client)
    waiting = iter(jobs)
    sending = Resending(httpx2.AsyncHTTPTransport())

    async with httpx2.AsyncClient(transport=sending, headers=headers, timeout=1800) as http:

        async def one_client() -> None:
            for job in waiting:
                await asyncio.sleep(draw.expovariate(1 / pause))
                if job is None:
                    await _hang_up(http, url, model, draw.choice(requests), draw)
                else:
                    answers[job] = await answer_of(http, url, model, requests[job])

        await asyncio.gather(*(one_client() for _ in range(clients)))
    return answers


async def _hang_up(
    http: httpx2.AsyncClient, url: str, model: str, request: ServedRequest, draw: random.Random
) -> None:
    """Send a request and disconnect in the middle of its answer, or before it has started."""
    lines, seconds = draw.randrange(_MOST_LINES), draw.random() * _MOST_SECONDS

    async def read() -> None:
        async with AnswerStream(http, url, model, request) as stream:
            async for _ in stream.lines():
                nonlocal lines
                lines -= 1
                if lines < 0:
                    return

    reading = asyncio.ensure_future(read())
    if not request.streams:
        await asyncio.wait({reading}, timeout=seconds)
        reading.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reading


def _report(requests: Sequence[ServedRequest], drafted: Sequence[Any], plain: Sequence[Any]) -> list[str]:
    """Print how many answers of each kind there are, and return what is wrong with any."""
    faults, kinds = [], Counter[str]()
    outcomes: Counter[str] = Counter()
    for request, mine, theirs in zip(requests, drafted, plain, strict=True):
        kinds[request.kind] += 1
        found = differences(mine, theirs)
        if found:
            outcomes["differ"] += 1
            faults.append(f"{request.kind}: {'; '.join(found)}; sent {json.dumps(request.body)}")
        elif "status" in mine and "code" in mine:
            outcomes[f"status {mine['status']}"] += 1
            if mine["status"] >= 500:
                faults.append(f"{request.kind}: {mine}; sent {json.dumps(request.body)}")
        else:
            outcomes["equal"] += 1
    print(", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    print(
        f"{len(requests)} requests: " + ", ".join(f"{count} {name}" for name, count in outcomes.most_common())
    )
    return faults


def _left(url: str) -> list[str]:
    """Print what the server drafted, and return what it still has in work."""
    base = url.removesuffix("/v1")
    with urllib.request.urlopen(base + "/metrics") as page:
        lines = page.read().decode().splitlines()
    found = [line for line in lines if line.startswith(_COUNTED)]
    found += [line for line in lines if 'status="499"' in line]
    print("  " + "; ".join(found))
    end = time.monotonic() + 30
    while True:
        with urllib.request.urlopen(base + "/health") as page:
            state = json.loads(page.read())
        held = {name: state[name] for name in ("open", "rows_running", "rows_waiting", "matcher_processes")}
        if not any(held.values()):
            return []
        if time.monotonic() > end:
            return [f"the server still has {held}"]
        time.sleep(0.2)


if __name__ == "__main__":
    raise SystemExit(main())
