"""Check and time the answers of `structgen serve` under a load of mixed requests.

    python -m bench.server_load [--requests 2000] [--concurrency 16] [--poison 0.15] [--layers N]
    python -m bench.server_load --minutes 30

The command starts a server of the embedded model and stops it at the end, unless ``--url`` names a running one, whose
memory it does not report. Other libraries check every answer (see `bench.vllm_serving.cases`). ``--json FILE`` keeps
the figures. The exit status is 1 if an answer failed or was wrong.

Results: docs/server.md, "Two thousand mixed requests". `bench.server_soak` measures memory, and `bench.server_hostile`
the effect of hostile requests on others.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.command import argument_parser

from .clients import client_of
from .server_process import Memory, key, model_of, report_batch, serve, share
from .shallow_model import shallow_model_options
from .vllm_serving.asking import ask
from .vllm_serving.cases import Case, draw_case, draw_poison

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argument_parser("bench.server_load", __doc__)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--poison", type=float, default=0.15, help="share of requests that must be refused")
    parser.add_argument("--minutes", type=float, help="go on for so long instead of --requests")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--url", help="a server that runs, with /v1")
    parser.add_argument("--model", help="its model; the only one by default")
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--layers", type=int, help="serve the first N layers of the embedded model", metavar="N"
    )
    parser.add_argument("--serve", default="", help="options of structgen serve, in one text")
    options = parser.parse_args(arguments)
    if options.url and options.layers:
        parser.error(
            "--layers chooses the model of a server that the command starts; --url names a running one"
        )
    with (
        shallow_model_options(options.layers) as model,
        serve(f"{model} {options.serve}", options.url) as server,
    ):
        watch = Memory(server.pid)
        figures = asyncio.run(_load(server.url, options, watch))
        figures["memory_mib"] = watch.samples
        watch.print()
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1))
    return 1 if figures.get("faults") else 0


async def _load(url: str, options: argparse.Namespace, watch: Memory) -> dict[str, Any]:
    draw = random.Random(options.seed)
    outcomes: Counter[str] = Counter()
    kinds: Counter[tuple[str, str]] = Counter()
    faults: list[str] = []
    latencies: dict[str, list[float]] = {"answered": [], "refused": []}
    tokens = 0
    begin = time.perf_counter()
    end = None if options.minutes is None else begin + 60 * options.minutes
    left = options.requests

    def next_case() -> Case | None:
        nonlocal left
        left -= 1
        if (left < 0) if end is None else (time.perf_counter() > end):
            return None
        return draw_poison(draw) if draw.random() < options.poison else draw_case(draw)

    async with client_of(url, key()) as (client, sending):
        model = await model_of(client, options.model)

        async def worker() -> None:
            nonlocal tokens
            while (case := next_case()) is not None:
                started = time.perf_counter()
                outcome, detail, drawn = await ask(client, model, case)
                seconds = time.perf_counter() - started
                tokens += drawn
                outcomes[outcome] += 1
                kinds[case.kind, outcome] += 1
                latencies["refused" if case.is_poison else "answered"].append(seconds)
                if outcome in ("wrong", "failed"):
                    faults.append(f"{case.kind}: {detail}; sent {case.options!r:.400}")
                    print(f"  {faults[-1]}", file=sys.stderr)

        async def observer() -> None:
            while True:
                await asyncio.sleep(60 if options.minutes else 10)
                watch.sample()
                done = sum(outcomes.values())
                print(f"  {time.perf_counter() - begin:6.0f} s {done:6} requests", file=sys.stderr)

        observing = asyncio.ensure_future(observer())
        await asyncio.gather(*(worker() for _ in range(options.concurrency)))
        observing.cancel()
    watch.sample()
    seconds = time.perf_counter() - begin
    report_batch(url)
    for kind in sorted({kind for kind, _ in kinds}):
        counted = ", ".join(f"{n} {outcome}" for (name, outcome), n in sorted(kinds.items()) if name == kind)
        print(f"  {kind:24} {counted}")
    print(
        f"{sum(outcomes.values())} requests, {options.concurrency} at a time, in {seconds:.0f} s: "
        + ", ".join(f"{n} {outcome}" for outcome, n in outcomes.most_common())
    )
    print(
        f"{tokens} tokens, {tokens / seconds:.1f} a second, {sum(outcomes.values()) / seconds:.2f} requests a second"
    )
    if sending.sent_again:
        print(f"{sending.sent_again} requests were sent again: their connections were closed unanswered")
    for name, values in latencies.items():
        if values:
            print(
                f"{name}: p50 {share(values, 0.5):.2f} s, p99 {share(values, 0.99):.2f} s, max {max(values):.2f} s"
            )
    return {
        "outcomes": dict(outcomes),
        "faults": faults,
        "seconds": seconds,
        "tokens": tokens,
        "latency": {
            name: [share(values, 0.5), share(values, 0.99)] for name, values in latencies.items() if values
        },
    }


if __name__ == "__main__":
    sys.exit(main())
