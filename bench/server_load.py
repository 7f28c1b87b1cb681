"""Load on `structgen serve`: mixed requests with every answer checked, a soak, and what hostile requests do to others.

    python -m bench.server_load [--requests 2000] [--concurrency 16] [--poison 0.15]
    python -m bench.server_load --minutes 30            distinct schemas for so long; memory once a minute
    python -m bench.server_load --hostile [--seconds 60]  gaps between the tokens of steady streams, without and with
                                                        hostile requests beside them

A server of the embedded model is started and ended, unless `--url` names one that runs (then its memory is not told).
Answers are checked by what structgen has no part in: see `bench.vllm_serving.cases`. `--json FILE` keeps the figures.
The exit status is 1 if an answer failed or was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.vllm_serving.asking import _ask as ask
from bench.vllm_serving.cases import Case, draw_case, draw_poison

__all__ = ["main"]

_STREAMS = 4
_START_SECONDS = 120.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--poison", type=float, default=0.15, help="share of requests that must be refused")
    parser.add_argument("--minutes", type=float, help="go on for so long instead of --requests")
    parser.add_argument("--hostile", action="store_true")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each half of --hostile")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--url", help="a server that runs, with /v1")
    parser.add_argument("--model", help="its model; the only one by default")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", default="", help="options of structgen serve, in one text")
    options = parser.parse_args(arguments)
    with _server(options) as (url, pid):
        watch = _Memory(pid)
        found = asyncio.run(_hostile(url, options) if options.hostile else _load(url, options, watch))
        found["memory_mib"] = watch.samples
        _say_memory(watch.samples)
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1))
    return 1 if found.get("faults") else 0


# -- the server


@contextlib.contextmanager
def _server(options: argparse.Namespace) -> Iterator[tuple[str, int | None]]:
    if options.url is not None:
        yield options.url, None
        return
    command = [sys.executable, "-m", "structgen", "serve", "--port", "0", *options.serve.split()]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    said: list[str] = []
    assert process.stderr is not None
    lines = process.stderr
    reader = threading.Thread(target=lambda: said.extend(lines), daemon=True)
    reader.start()
    end = time.monotonic() + _START_SECONDS
    while not (match := re.search(r"served at (\S+/v1)", "".join(said))):
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            raise SystemExit("the server does not start: " + "".join(said))
        time.sleep(0.05)
    try:
        yield match[1], process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        reader.join(5)
        rest = [line for line in said[1:] if "Traceback" in line or "Error" in line]
        print(f"the server ended with status {status}" + (f"; it said {rest[:5]}" if rest else ""))


class _Memory:
    """Memory of the server and of its children, in MiB, by seconds since the start."""

    def __init__(self, pid: int | None) -> None:
        self._pid, self._started = pid, time.monotonic()
        self.samples: list[tuple[float, float, float]] = []
        self.look()

    def look(self) -> None:
        if self._pid is not None:
            children = sum(_rss(child) for child in _children(self._pid))
            self.samples.append((time.monotonic() - self._started, _rss(self._pid), children))


def _rss(pid: int) -> float:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0.0


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for folder in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            found += [int(one) for one in (folder / "children").read_text().split()]
    return found


def _say_memory(samples: Sequence[tuple[float, float, float]]) -> None:
    if samples:
        shown = samples[:: max(1, len(samples) // 12)]
        told = ", ".join(f"{at / 60:.1f} min {own:.0f}+{children:.0f}" for at, own, children in shown)
        print(f"memory, MiB (server + its compiling processes): {told}")


# -- mixed requests


@contextlib.asynccontextmanager
async def _client(url: str) -> AsyncIterator[Any]:
    import openai

    key = os.environ.get("STRUCTGEN_API_KEY", "none")
    async with openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=0, timeout=900) as client:
        yield client


async def _model(client: Any, options: argparse.Namespace) -> str:
    return str(options.model or (await client.models.list()).data[0].id)


async def _load(url: str, options: argparse.Namespace, watch: _Memory) -> dict[str, Any]:
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

    async with _client(url) as client:
        model = await _model(client, options)

        async def worker() -> None:
            nonlocal tokens
            while (case := next_case()) is not None:
                started = time.perf_counter()
                outcome, told, drawn = await ask(client, model, case)
                seconds = time.perf_counter() - started
                tokens += drawn
                outcomes[outcome] += 1
                kinds[case.kind, outcome] += 1
                latencies["refused" if case.is_poison else "answered"].append(seconds)
                if outcome in ("wrong", "failed"):
                    faults.append(f"{case.kind}: {told}; asked {case.options!r:.400}")
                    print(f"  {faults[-1]}", file=sys.stderr)

        async def observer() -> None:
            while True:
                await asyncio.sleep(60 if options.minutes else 10)
                watch.look()
                done = sum(outcomes.values())
                print(f"  {time.perf_counter() - begin:6.0f} s {done:6} requests", file=sys.stderr)

        observing = asyncio.ensure_future(observer())
        await asyncio.gather(*(worker() for _ in range(options.concurrency)))
        observing.cancel()
    watch.look()
    seconds = time.perf_counter() - begin
    _say_batch(url)
    for kind in sorted({kind for kind, _ in kinds}):
        told = ", ".join(f"{n} {outcome}" for (one, outcome), n in sorted(kinds.items()) if one == kind)
        print(f"  {kind:24} {told}")
    print(
        f"{sum(outcomes.values())} requests, {options.concurrency} at a time, in {seconds:.0f} s: "
        + ", ".join(f"{n} {outcome}" for outcome, n in outcomes.most_common())
    )
    print(
        f"{tokens} tokens, {tokens / seconds:.1f} a second, {sum(outcomes.values()) / seconds:.2f} requests a second"
    )
    for name, values in latencies.items():
        if values:
            print(
                f"{name}: p50 {_share(values, 0.5):.2f} s, p99 {_share(values, 0.99):.2f} s, max {max(values):.2f} s"
            )
    return {
        "outcomes": dict(outcomes),
        "faults": faults,
        "seconds": seconds,
        "tokens": tokens,
        "latency": {
            name: [_share(values, 0.5), _share(values, 0.99)] for name, values in latencies.items() if values
        },
    }


def _say_batch(url: str) -> None:
    """What the server says of its batch."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/metrics") as page:
        lines = [line.split() for line in page.read().decode().splitlines() if not line.startswith("#")]
    told = {name: float(value) for name, value in lines if "{" not in name}
    passes = max(1.0, told["structgen_passes_total"])
    print(
        f"  batch: {passes:.0f} passes of {told['structgen_pass_rows_total'] / passes:.1f} rows, "
        f"{1e3 * told['structgen_pass_seconds_total'] / passes:.0f} ms each; "
        f"prompts {told['structgen_prompt_seconds_total']:.0f} s; "
        f"{told['structgen_turns_left_behind_total']:.0f} turns not waited for; "
        f"{told['structgen_compiler_worker_starts_total']:.0f} starts of compiling processes"
    )


def _share(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# -- hostile requests beside steady streams


def _nested(salt: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer", "multipleOf": 7 + salt % 5}
    for level in range(12):
        schema = {
            "anyOf": [schema, {"type": "array", "items": schema, "uniqueItems": True, "maxItems": level + 2}]
        }
    return schema


def _wide(salt: int) -> dict[str, Any]:
    names = [f"key{salt}_{number}" for number in range(2_000)]
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": names[:1000],
    }


_HOSTILE: tuple[tuple[str, Callable[[int], dict[str, Any]]], ...] = (
    ("regex, nested counts", lambda n: {"regex": f"((a{{1,{400 + n % 90}}}b?){{1,300}}c?){{1,200}}"}),
    ("regex, look-behind", lambda n: {"regex": f"(.*a.{{{12 + n % 3}}}){{3}}(?<!b{n % 7})"}),
    ("regex, exponential DFA", lambda n: {"regex": f"(a|b)*a(a|b){{{14 + n % 5}}}c"}),
    ("choice, 20,000 texts", lambda n: {"choice": [f"{n}-{i * 7919 % 100_003}" for i in range(20_000)]}),
    ("schema, nested anyOf", lambda n: {"json": _nested(n)}),
    ("schema, 2,000 properties", lambda n: {"json": _wide(n)}),
    (
        "schema, patterns",
        lambda n: {
            "json": {
                "type": "object",
                "patternProperties": {
                    f"^(x|y){{{k},{k + 30 + n % 9}}}z": {"type": "string"} for k in range(1, 25)
                },
                "minProperties": 3,
                "not": {"required": ["a"]},
            }
        },
    ),
    ("grammar, ambiguous", lambda n: {"grammar": f'root ::= s\ns ::= s s s | s s | "a" | "b{n % 10}" | ""'}),
    ("grammar, many rules", lambda n: {"grammar": _many_rules(n)}),
)


def _many_rules(salt: int) -> str:
    rules = [
        f'r{i} ::= "x{salt}" r{(i * 7 + 1) % 800} | [a-z]{{1,9}} r{(i * 3 + 2) % 800} | "e"'
        for i in range(800)
    ]
    return "\n".join(["root ::= r0", *rules])


async def _hostile(url: str, options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {"faults": []}
    async with _client(url) as client:
        model = await _model(client, options)
        await _streams(client, model, 5.0, None)  # warm
        halves: dict[str, list[tuple[float, float]]] = {}
        sent: list[tuple[float, float, str, str]] = []
        halves["without"] = await _streams(client, model, options.seconds, None)
        halves["with"] = await _streams(client, model, options.seconds, sent)
    for name, gaps in halves.items():
        values = [gap for _, gap in gaps]
        top = sorted(values)[-5:]
        print(
            f"{name:8} hostile requests: {len(values)} gaps, p50 {1e3 * statistics.median(values):.0f} ms, "
            f"p99 {1e3 * _share(values, 0.99):.0f} ms, p99.9 {1e3 * _share(values, 0.999):.0f} ms, "
            f"longest {', '.join(f'{1e3 * one:.0f}' for one in top)} ms"
        )
        found[name] = {"p50": statistics.median(values), "p99": _share(values, 0.99), "max": max(values)}
    for kind in dict.fromkeys(kind for *_, kind, _ in sent):
        mine = [one for one in sent if one[2] == kind]
        near = [
            gap for at, gap in halves["with"] for start, end, *_ in mine if start <= at <= end + 0.5 and gap
        ]
        outcomes = Counter(outcome for *_, outcome in mine)
        longest = f"longest gap meanwhile {1e3 * max(near):.0f} ms" if near else ""
        print(f"  {kind:26} {len(mine)} sent, {dict(outcomes)}, {longest}")
    return found


async def _streams(
    client: Any, model: str, seconds: float, sent: list[tuple[float, float, str, str]] | None
) -> list[tuple[float, float]]:
    """Gaps between the tokens of some steady streams, with the time of each."""
    end = time.perf_counter() + seconds
    gaps: list[tuple[float, float]] = []

    async def steady(number: int) -> None:
        while time.perf_counter() < end:
            stream = await client.chat.completions.create(
                model=model,
                messages=[{"role": "user", "content": "Tell me a story."}],
                max_tokens=400,
                stream=True,
                seed=number,
                extra_body={"structured_outputs": {"regex": "[a-z ,.]{3000}"}},
            )
            last = None
            async for chunk in stream:
                now = time.perf_counter()
                if chunk.choices and chunk.choices[0].delta.content:
                    if last is not None:
                        gaps.append((now, now - last))
                    last = now
                if now > end:
                    break
            await stream.close()

    async def attack() -> None:
        assert sent is not None
        salt = 0
        waiting: set[asyncio.Task[None]] = set()
        while time.perf_counter() < end:
            kind, make = _HOSTILE[salt % len(_HOSTILE)]
            task = asyncio.ensure_future(_attack(client, model, kind, make(salt), salt, sent))
            waiting.add(task)
            salt += 1
            await asyncio.sleep(1.0)
        await asyncio.wait(waiting, timeout=30)
        for task in waiting:
            task.cancel()

    jobs = [steady(number) for number in range(_STREAMS)]
    await asyncio.gather(*jobs, *([] if sent is None else [attack()]))
    return gaps


async def _attack(
    client: Any,
    model: str,
    kind: str,
    spec: dict[str, Any],
    salt: int,
    sent: list[tuple[float, float, str, str]],
) -> None:
    import openai

    started = time.perf_counter()
    try:
        answer = await client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": "Go."}],
            max_tokens=16,
            seed=salt,
            extra_body={"structured_outputs": spec},
        )
        outcome = f"answered ({answer.choices[0].finish_reason})"
    except openai.APIStatusError as error:
        outcome = f"status {error.status_code}"
    sent.append((started, time.perf_counter(), kind, outcome))


if __name__ == "__main__":
    sys.exit(main())
