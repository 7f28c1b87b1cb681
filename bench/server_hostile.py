"""Measure how much new requests, harmless and hostile ones, delay the running ones in `structgen serve`.

    python -m bench.server_hostile [--rounds 4] [--seconds 20] [--every 1]

Steady streams draw text all the time. Each round has three phases: no new request; a harmless request with a new schema
every second; a hostile one every second. Both have the same short prompt and the same token budget, so a harmless one
costs what any new request costs (prefill, one more row). Only the difference between the hostile and the harmless phase
is an effect of hostile schemas.

How the phases are made comparable:

- Some hostile texts take long, because they are long or their masks are slow. Any long text occupies a row of the batch
  for that time, so as many harmless texts are long (none with ``--only``).
- A phase ends when all its new requests have answers. The gaps of the second after that do not count.
- The phases take turns, so that all of them meet the noise of the machine.
- All requests are prepared before the first phase, so that sending them takes no CPU time from the server. For the same
  reason the streams end and start again one at a time.

The report shows the gaps between two tokens of the steady streams: median, 99 %, 99.9 % and longest, for each phase;
how much longer they are during hostile requests; and the longest gap while each type of hostile request was open. The
exit status is 1 if a stream failed.

Results: docs/server.md, "How much newcomers delay running streams", and docs/performance.md, "What new requests cost
running ones".
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx2

from bench.command import argument_parser

from .clients import client_of
from .isolation import harmless, harmless_long
from .server_process import key, model_of, report_batch, serve, share

__all__ = ["main"]

Phase = Literal["alone", "harmless", "hostile"]
_PHASES: tuple[Phase, ...] = ("alone", "harmless", "hostile")
_STREAMS = 4
_STREAM_TOKENS = 400
_TOKENS = 16
_MANY_TOKENS = 300
"""Tokens of a text without a choice: the model could read all of them in one pass."""
_SILENT, _SILENT_SECONDS = 150, 3.0
"""Number of idle connections that a silent newcomer opens, and for how long, in seconds."""
_LONG_KINDS, _LONG_TOKENS = 3, 250
"""Number of hostile kinds whose answers are long, and the tokens of a harmless text that takes as long."""
_WARM_SECONDS = 5.0
_SETTLE_SECONDS = 1.0
_ANSWER_SECONDS = 150.0


def _nested(salt: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer", "multipleOf": 7 + salt % 5}
    for level in range(12):
        schema = {
            "anyOf": [schema, {"type": "array", "items": schema, "uniqueItems": True, "maxItems": level + 2}]
        }
    return schema


def _wide(salt: int, names: int) -> dict[str, Any]:
    keys = [f"key{salt}_{number}" for number in range(names)]
    return {"type": "object", "properties": {key: {"type": "string"} for key in keys}, "required": keys[::2]}


def _patterns(salt: int) -> dict[str, Any]:
    patterns = {f"^(x|y){{{k},{k + 30 + salt % 9}}}z": {"type": "string"} for k in range(1, 25)}
    return {"type": "object", "patternProperties": patterns, "minProperties": 3, "not": {"required": ["a"]}}


def _many_rules(salt: int) -> str:
    rules = [
        f'r{i} ::= "x{salt}" r{(i * 7 + 1) % 800} | [a-z]{{1,9}} r{(i * 3 + 2) % 800} | "e"'
        for i in range(800)
    ]
    return "\n".join(["root ::= r0", *rules])


def _shared_negations(salt: int) -> dict[str, Any]:
    """Return a schema whose references can be followed in 2^60 orders."""
    names = [f"d{salt}_{level}" for level in range(61)]
    defs: dict[str, Any] = {
        name: {"oneOf": [{"$ref": f"#/$defs/{below}"}, {"not": {"$ref": f"#/$defs/{below}"}}]}
        for name, below in itertools.pairwise(names)
    }
    defs[names[-1]] = {"minimum": 3}
    values = {"anyOf": [{"type": "null"}, {"$ref": f"#/$defs/{names[0]}"}]}
    return {"type": "object", "additionalProperties": values, "minProperties": 2, "$defs": defs}


def _beside_null(salt: int) -> dict[str, Any]:
    """Return an array of nullable strings: the expensive patterns matter once an item is not null."""
    patterns = [{"pattern": f"(a|b)*a(a|b){{{k + salt % 3}}}c{salt}"} for k in range(4, 34)]
    values = {"anyOf": [{"type": "null"}, {"type": "string", "allOf": patterns}]}
    return {"type": "array", "items": values, "minItems": 40}


_HOSTILE: tuple[tuple[str, Callable[[int], dict[str, Any]]], ...] = (
    ("regex, nested counts", lambda n: {"regex": f"((a{{1,{400 + n % 90}}}b?){{1,300}}c?){{1,200}}"}),
    ("regex, look-behind", lambda n: {"regex": f"(.*a.{{{12 + n % 3}}}){{3}}(?<!b{n % 7})"}),
    ("regex, exponential DFA", lambda n: {"regex": f"(a|b)*a(a|b){{{14 + n % 5}}}c{n}"}),
    ("choice, 20,000 texts", lambda n: {"choice": [f"{n}-{i * 7919 % 100_003}" for i in range(20_000)]}),
    ("choice, 60,000 texts", lambda n: {"choice": [f"{n}{i * 7919 % 100_003}" for i in range(60_000)]}),
    ("schema, nested anyOf", lambda n: {"json": _nested(n)}),
    ("schema, 2,000 properties", lambda n: {"json": _wide(n, 2_000)}),
    ("schema, 12,000 properties", lambda n: {"json": _wide(n, 12_000)}),
    ("schema, patterns", lambda n: {"json": _patterns(n)}),
    ("schema, large enum", lambda n: {"json": {"enum": [[k, str(n), {"a": k}] for k in range(9_000)]}}),
    ("schema, shared negations", lambda n: {"json": _shared_negations(n)}),
    ("schema, patterns beside null", lambda n: {"json": _beside_null(n)}),
    ("schema, long constant", lambda n: {"json": {"const": f"{n} " + "no choice at all; " * 40}}),
    ("grammar, ambiguous", lambda n: {"grammar": f'root ::= s\ns ::= s s s | s s | "a" | "b{n}" | ""'}),
    ("grammar, many rules", lambda n: {"grammar": _many_rules(n)}),
    (
        "grammar, late ambiguity",
        lambda n: {"grammar": f'root ::= [a-z]{{8,9}} e "{n}"\ne ::= e e | [a-z] e | e [a-z] | [a-z] | ""'},
    ),
)

_LONG = "What the committee had decided was written down, and read to all who came. "
_HOSTILE_REQUESTS: tuple[tuple[str, Callable[[int], dict[str, Any]]], ...] = (
    (
        "sampler, long prompt",
        lambda n: {
            "messages": [{"role": "user", "content": f"{n} " + _LONG * 120}],
            "structgen": {"sampler": {"name": "smc", "particles": 4}},
        },
    ),
    (
        "sampler, 32 particles",
        lambda n: {"structgen": {"sampler": {"name": "smc", "particles": 32}}, "max_tokens": 100},
    ),
    (
        "sampler, too large",
        lambda n: {
            "messages": [{"role": "user", "content": f"{n} " + _LONG * 400}],
            "structgen": {"sampler": {"name": "smc", "particles": 32}},
        },
    ),
    ("prompt, 900 kB", lambda n: {"messages": [{"role": "user", "content": f"{n} " + _LONG * 12_000}]}),
)
"""Requests that are hostile in another part than the constraint."""
_SILENT_KIND = "silent connections"
"""Newcomers that open connections and send no request."""


@dataclass
class _Newcomer:
    phase: Phase
    kind: str
    start: float
    end: float
    outcome: str


@dataclass
class _Seen:
    """The observations so far."""

    phase: Phase | None = None
    """None while gaps do not count."""
    gaps: dict[Phase, list[tuple[float, float]]] = field(
        default_factory=lambda: {phase: [] for phase in _PHASES}
    )
    """Time of each token, and the seconds since the one before."""
    newcomers: list[_Newcomer] = field(default_factory=list)
    late: int = 0
    """Newcomers that were cancelled because their answer took too long."""
    faults: list[str] = field(default_factory=list)
    has_ended: bool = False


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argument_parser("bench.server_hostile", __doc__)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each phase of a round")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two newcomers")
    parser.add_argument("--only", default="", help="hostile kinds that begin so")
    parser.add_argument("--url", help="a server that runs, with /v1")
    parser.add_argument("--model", help="its model; the only one by default")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", default="", help="options of structgen serve, in one text")
    options = parser.parse_args(arguments)
    with serve(options.serve, options.url) as server:
        seen = asyncio.run(_measure(server.url, options))
        report_batch(server.url)
    figures = _report(seen)
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1))
    return 1 if seen.faults else 0


async def _measure(url: str, options: argparse.Namespace) -> _Seen:
    seen = _Seen()
    kinds = [kind for kind in _hostile_kinds() if kind[0].startswith(options.only)]
    headers = {"Authorization": f"Bearer {key()}", "Content-Type": "application/json"}
    async with (
        client_of(url, key()) as (client, sending),
        httpx2.AsyncClient(transport=sending, headers=headers, timeout=900) as http,
    ):
        model = await model_of(client, options.model)
        most = options.rounds * (1 + int(options.seconds / options.every))
        bodies = {
            "harmless": deque(
                _harmless(
                    model, salt, is_long=not options.only and salt * _LONG_KINDS % len(kinds) < _LONG_KINDS
                )
                for salt in range(most)
            ),
            "hostile": deque(
                (kind, _body(model, salt, **make(salt)))
                for salt, (kind, make) in zip(range(most, 2 * most), itertools.cycle(kinds), strict=False)
            ),
        }
        streams = [asyncio.ensure_future(_steady(client, model, number, seen)) for number in range(_STREAMS)]
        await asyncio.sleep(_WARM_SECONDS)
        for _ in range(options.rounds):
            for phase in _PHASES:
                seen.phase = phase
                end, waiting = time.perf_counter() + options.seconds, set()
                while time.perf_counter() < end:
                    if phase != "alone":
                        kind, body = bodies[phase].popleft()
                        waiting.add(asyncio.ensure_future(_send(http, url, phase, kind, body, seen)))
                    await asyncio.sleep(options.every)
                if waiting:
                    _, late = await asyncio.wait(waiting, timeout=_ANSWER_SECONDS)
                    for task in late:
                        task.cancel()
                    seen.late += len(late)
                seen.phase = None
                await asyncio.sleep(_SETTLE_SECONDS)
        seen.has_ended = True
        await asyncio.gather(*streams)
    return seen


async def _steady(client: Any, model: str, number: int, seen: _Seen) -> None:
    """Stream one text after another under one constraint."""
    lengths = itertools.chain([_STREAM_TOKENS * (number + 1) // _STREAMS], itertools.repeat(_STREAM_TOKENS))
    while not seen.has_ended:
        try:
            stream = await client.chat.completions.create(
                model=model,
                messages=[{"role": "user", "content": "Tell me a story."}],
                max_tokens=next(lengths),
                stream=True,
                seed=number,
                extra_body={"structured_outputs": {"regex": "[a-z ,.]{3000}"}},
            )
            last, before = None, seen.phase
            async for chunk in stream:
                if not (chunk.choices and chunk.choices[0].delta.content):
                    continue
                now = time.perf_counter()
                if last is not None and seen.phase is not None and seen.phase == before:
                    seen.gaps[seen.phase].append((now, now - last))
                last, before = now, seen.phase
                if seen.has_ended:
                    break
            await stream.close()
        except Exception as error:
            seen.faults.append(f"a stream failed: {error!r:.200}")
            await asyncio.sleep(1)


def _hostile_kinds() -> list[tuple[str, Callable[[int], dict[str, Any]]]]:
    """Return each kind with a function that makes the fields of a request."""

    def constrained(make: Callable[[int], dict[str, Any]]) -> Callable[[int], dict[str, Any]]:
        return lambda salt: {"structured_outputs": make(salt)}

    return [
        *((kind, constrained(make)) for kind, make in _HOSTILE),
        *_HOSTILE_REQUESTS,
        (_SILENT_KIND, lambda _: {}),
    ]


def _harmless(model: str, salt: int, *, is_long: bool) -> tuple[str, bytes]:
    if not is_long:
        return "harmless", _body(model, salt, structured_outputs={"json": harmless(salt)})
    outputs = {"json": harmless_long(salt)}
    return "harmless, long", _body(model, salt, structured_outputs=outputs, max_tokens=_LONG_TOKENS)


def _body(model: str, salt: int, **fields: Any) -> bytes:
    """Return the body of a request."""
    is_constant = "const" in fields.get("structured_outputs", {}).get("json", {})
    request = {
        "model": model,
        "messages": [{"role": "user", "content": "Go."}],
        "max_tokens": _MANY_TOKENS if is_constant else _TOKENS,
        "seed": salt,
    }
    return json.dumps({**request, **fields}).encode()


async def _send(http: Any, url: str, phase: Phase, kind: str, body: bytes, seen: _Seen) -> None:
    started = time.perf_counter()
    try:
        if kind == _SILENT_KIND:
            outcome = await _stay_silent(http, url)
        else:
            answer = await http.post(f"{url}/chat/completions", content=body)
            body_received = answer.json()
            if answer.status_code == 200:
                outcome = f"answered ({body_received['choices'][0]['finish_reason']})"
            else:
                outcome = f"status {answer.status_code} ({body_received['error'].get('code')})"
    except httpx2.HTTPError as error:
        outcome = f"no answer ({type(error).__name__})"
    seen.newcomers.append(_Newcomer(phase, kind, started, time.perf_counter(), outcome))


async def _stay_silent(http: Any, url: str) -> str:
    """Open connections without sending a request. Return what `/health` reports meanwhile."""
    address = httpx2.URL(url)
    opened = [await asyncio.open_connection(address.host, address.port) for _ in range(_SILENT)]
    await asyncio.sleep(_SILENT_SECONDS)
    health = await http.get(f"{url.removesuffix('/v1')}/health")
    for _, writer in opened:
        writer.close()
    return f"health {health.status_code}"


def _report(seen: _Seen) -> dict[str, Any]:
    figures: dict[str, dict[str, float]] = {}
    print(f"{'newcomers':12}{'gaps':>8}{'median':>10}{'99 %':>10}{'99.9 %':>10}{'longest':>10}  ms")
    for phase in _PHASES:
        values = [gap for _, gap in seen.gaps[phase]] or [0.0]
        figures[phase] = {
            "gaps": len(values),
            "median": statistics.median(values),
            "p99": share(values, 0.99),
            "p999": share(values, 0.999),
            "longest": max(values),
        }
        row = "".join(f"{1e3 * figures[phase][name]:10.0f}" for name in ("median", "p99", "p999", "longest"))
        print(f"{phase:12}{len(values):8}{row}")
    more = {name: figures["hostile"][name] - figures["harmless"][name] for name in figures["alone"]}
    print(
        "hostile beyond harmless: "
        + ", ".join(f"{name} {1e3 * more[name]:+.0f} ms" for name in ("median", "p99", "p999", "longest"))
    )
    kinds: dict[str, dict[str, Any]] = {}
    for kind in dict.fromkeys(newcomer.kind for newcomer in seen.newcomers):
        mine = [newcomer for newcomer in seen.newcomers if newcomer.kind == kind]
        gaps = seen.gaps[mine[0].phase]
        near = [
            max((gap for at, gap in gaps if newcomer.start <= at <= newcomer.end + 0.5), default=0.0)
            for newcomer in mine
        ]
        seconds = statistics.median(newcomer.end - newcomer.start for newcomer in mine)
        outcomes = dict(Counter(newcomer.outcome for newcomer in mine))
        kinds[kind] = {"sent": len(mine), "outcomes": outcomes, "longest_gaps": near, "seconds": seconds}
        print(
            f"  {kind:26} {len(mine):4} sent, {seconds:5.2f} s, longest gap meanwhile: median "
            f"{1e3 * statistics.median(near):4.0f}, most {1e3 * max(near):4.0f} ms; {outcomes}"
        )
    if seen.late:
        print(f"{seen.late} newcomers were not answered within {_ANSWER_SECONDS:.0f} s")
    for fault in seen.faults[:10]:
        print("FAULT", fault)
    return {"phases": figures, "beyond_harmless": more, "kinds": kinds, "faults": seen.faults}


if __name__ == "__main__":
    sys.exit(main())
