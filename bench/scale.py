"""Estimate the cost of masks in a cluster: a simulation of batches, engines and replicas with measured mask times.

    python -m bench.scale [--data RECORDS.jsonl.gz] [--schemas 200] [--steps 1500] [--step-ms 8] [--row-us 20]

``--plot FILE`` writes the first table as a picture.

Measured, on one thread: for each schema the time to compile it, and the time of every mask of several requests one
after the other in one engine. The first request starts with empty caches. The schemas are MaskBench records with their
own valid instances or, without ``--data``, a small built-in set. The simulation adds up single calls. So the command
also measures one batched call over one engine, and over two engines by two threads, and compares them with that sum.

Assumed: a forward pass takes ``--step-ms``, and ``--row-us`` more for each row; the batch is always full; the
popularity of schemas follows a Zipf distribution; each replica has a core for each of its mask engines.

Simulated: the masks of a step are filled engine by engine, the engines in parallel. The schema of a row determines its
engine. A step takes the pass and then the masks ("after"), or the longer of the two ("during", for an engine that fills
masks during the pass). Each engine of each replica has its own caches. Replicas get requests in turn, or each schema
has its replica ("by schema").

Results: docs/scale.md, "What masks cost: a simulation".
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from bench.command import argument_parser
from bench.records import records
from structgen.constraints.json_schema import json_schema
from structgen.errors import StructgenError
from structgen.matcher import Matcher, fill_masks
from structgen.vocabulary import Vocabulary

__all__ = ["Replica", "Schema", "main", "simulate"]

_WALKS = 4
_LONGEST = 300
OWN: tuple[dict[str, Any], ...] = tuple(
    {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "minimum": 0},
            "name": {"type": "string", "maxLength": 20 + number},
            "kind": {"enum": [f"kind-{number}-{i}" for i in range(3 + number % 5)]},
            "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]{2,9}$"}, "maxItems": 4},
            "at": {"type": "string", "format": "date-time"},
        },
        "required": ["id", "name", "kind", "tags"],
        "additionalProperties": number % 3 == 0,
    }
    for number in range(40)
)


@dataclass(frozen=True)
class Schema:
    """The measured times of one schema, in seconds."""

    compile: float
    walks: tuple[tuple[float, ...], ...]
    """The masks of the first request in an engine, of the second, and so on."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.scale", __doc__)
    parser.add_argument("--data", help="MaskBench records, .jsonl or .jsonl.gz")
    parser.add_argument("--schemas", type=int, default=200)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--step-ms", type=float, default=8.0)
    parser.add_argument("--row-us", type=float, default=20.0)
    parser.add_argument("--plot", help="write the first table as a picture")
    chosen = parser.parse_args(arguments)
    vocabulary = _vocabulary()
    cases = _cases(chosen.data, chosen.schemas, vocabulary)
    schemas = [schema for schema in (_measured(*case, vocabulary) for case in cases) if schema is not None]
    _print_measured(schemas)
    _print_batches(cases[:64], vocabulary)
    gpu = (chosen.step_ms * 1e-3, chosen.row_us * 1e-6)
    first = _print_batch_sizes(schemas, chosen.steps, gpu)
    _print_replicas(schemas, chosen.steps, gpu)
    if chosen.plot:
        _draw(first, chosen.plot)


# -- the simulation


@dataclass
class Replica:
    """A full batch and the engines that fill its masks."""

    schemas: Sequence[Schema]
    rows: int
    engines: int
    next_request: Callable[[], int]
    """The number of a schema."""
    seen: dict[int, int] = field(default_factory=dict)
    """Requests so far, by schema."""
    requests: int = 0
    fresh: int = 0
    """Requests whose schema this replica had not seen."""

    def __post_init__(self) -> None:
        self._slots = [self._request() for _ in range(self.rows)]
        for number, slot in enumerate(self._slots):  # so that the slots are at different positions
            slot[2] = number * 7919 % len(slot[1])

    def step(self) -> float:
        """Return the seconds that the masks of one step take."""
        spent = [0.0] * self.engines
        for number, slot in enumerate(self._slots):
            schema, walk, index = slot
            spent[schema % self.engines] += walk[index]
            slot[2] = index + 1
            if slot[2] == len(walk):
                self._slots[number] = self._request()
        return max(spent)

    def _request(self) -> list[Any]:
        schema = self.next_request()
        times = self.seen.get(schema, 0)
        self.seen[schema] = times + 1
        self.requests += 1
        self.fresh += times == 0
        walks = self.schemas[schema].walks
        return [schema, walks[min(times, len(walks) - 1)], 0]


def simulate(
    replica: Replica, steps: int, gpu: tuple[float, float], *, during: bool
) -> tuple[list[float], float]:
    """Return the mask time of each step, and the fraction by which masks prolong the passes (0.01 is one percent)."""
    forward = gpu[0] + gpu[1] * replica.rows
    masks = [replica.step() for _ in range(steps)]
    total = sum(max(forward, mask) if during else forward + mask for mask in masks)
    return masks, max(0.0, total / (forward * steps) - 1)


def _zipf(schemas: int, seed: int) -> Callable[[], int]:
    draw = random.Random(seed)
    weights = [1 / (rank + 1) for rank in range(schemas)]
    order = list(range(schemas))
    random.Random(0).shuffle(order)
    return lambda: order[draw.choices(range(schemas), weights)[0]]


# -- the report


def _print_batch_sizes(
    schemas: list[Schema], steps: int, gpu: tuple[float, float]
) -> dict[int, list[tuple[int, float]]]:
    print("\nOne replica: masks of a step in ms (mean, p99) and what they add to the time of a step")
    print("| rows | engines | mean | p99 | after the pass | during the pass |")
    print("|--:|--:|--:|--:|--:|--:|")
    shown: dict[int, list[tuple[int, float]]] = {}
    for engines in (1, 2, 4):
        for rows in (1, 8, 32, 64, 128, 256, 512):
            replica = Replica(schemas, rows, engines, _zipf(len(schemas), rows))
            masks, after = simulate(replica, steps, gpu, during=False)
            again = Replica(schemas, rows, engines, _zipf(len(schemas), rows))
            _, during = simulate(again, steps, gpu, during=True)
            mean, p99 = statistics.fmean(masks) * 1e3, float(np.quantile(masks, 0.99)) * 1e3
            print(f"| {rows} | {engines} | {mean:.3f} | {p99:.3f} | {after:.2%} | {during:.2%} |")
            shown.setdefault(engines, []).append((rows, after))
    return shown


def _print_replicas(schemas: list[Schema], steps: int, gpu: tuple[float, float]) -> None:
    rows = 64
    print(
        f"\nReplicas of {rows} rows, one engine each: requests that find their schema new, and what masks add"
    )
    print("| replicas | routing | new | mean ms a step | after the pass | during the pass |")
    print("|--:|---|--:|--:|--:|--:|")
    for count in (1, 4, 16):
        for by_schema in (False, True):
            new, requests, means, afters, prolonged = 0, 0, [], [], []
            for number in range(count):
                source = _routed(len(schemas), number, count, by_schema)
                replica = Replica(schemas, rows, 1, source)
                masks, after = simulate(replica, steps, gpu, during=False)
                forward = gpu[0] + gpu[1] * rows
                prolonged.append(sum(max(0.0, mask - forward) for mask in masks) / (forward * steps))
                new, requests = new + replica.fresh, requests + replica.requests
                means.append(statistics.fmean(masks))
                afters.append(after)
            name = "by schema" if by_schema else "in turn"
            print(
                f"| {count} | {name} | {new / requests:.1%} | {statistics.fmean(means) * 1e3:.3f} "
                f"| {statistics.fmean(afters):.2%} | {statistics.fmean(prolonged):.2%} |"
            )


def _routed(schemas: int, number: int, count: int, by_schema: bool) -> Callable[[], int]:
    draw = _zipf(schemas, 100 + number)
    if not by_schema or schemas < count:
        return draw

    def own() -> int:
        while (schema := draw()) % count != number:
            pass
        return schema

    return own


def _print_measured(schemas: list[Schema]) -> None:
    print(f"{len(schemas)} schemas, µs: mean / p50 / p99")
    first = [mask for schema in schemas for mask in schema.walks[0]]
    last = [mask for schema in schemas for mask in schema.walks[-1]]
    for name, times in (
        ("compile", [schema.compile for schema in schemas]),
        ("masks of a first request", first),
        (f"masks of a request number {_WALKS}", last),
    ):
        mean, half, most = statistics.fmean(times), statistics.median(times), float(np.quantile(times, 0.99))
        print(f"- {name}: {mean * 1e6:,.1f} / {half * 1e6:,.1f} / {most * 1e6:,.1f}")


def _print_batches(cases: list[tuple[str, list[list[int]]]], vocabulary: Vocabulary) -> None:
    """Print the time of a real batch of cached masks, and the sum of its single calls."""
    alone = _batch(cases, [vocabulary.with_limits()])
    shared = _batch(cases, [vocabulary.with_limits(), vocabulary.with_limits()])
    print(f"\n{len(cases)} remembered masks in one call: {alone[0] * 1e6:.0f} µs;")
    print(f"one by one, summed: {alone[1] * 1e6:.0f} µs;")
    print(f"shared by two engines and two threads: {shared[0] * 1e6:.0f} µs")


def _batch(cases: list[tuple[str, list[list[int]]]], engines: list[Vocabulary]) -> tuple[float, float]:
    matchers = [
        Matcher(json_schema(schema), engines[number % len(engines)])
        for number, (schema, _) in enumerate(cases)
    ]
    rows = np.zeros((len(matchers), engines[0].words), np.int32)
    groups = [matchers[number :: len(engines)] for number in range(len(engines))]
    parts = [np.zeros((len(group), engines[0].words), np.int32) for group in groups]
    for matcher in matchers:
        matcher.mask()
    best, apart = [], []
    with ThreadPoolExecutor(len(engines)) as pool:
        for _ in range(300):
            began = time.perf_counter()
            if len(engines) == 1:
                fill_masks(matchers, rows)
            else:
                list(pool.map(fill_masks, groups, parts))
            best.append(time.perf_counter() - began)
            apart.append(sum(_timed(partial(matcher.fill, rows, i)) for i, matcher in enumerate(matchers)))
    return statistics.median(best), statistics.median(apart)


# -- what is measured


def _measured(schema: str, texts: list[list[int]], vocabulary: Vocabulary) -> Schema | None:
    engine = vocabulary.with_limits()  # new, with empty caches
    engine.engine  # noqa: B018  (built here, not in the first compilation)
    try:
        constraint = json_schema(schema)
        began = time.perf_counter()
        matcher = Matcher(constraint, engine)
        compiled = time.perf_counter() - began
        row = np.zeros((1, engine.words), np.int32)
        walks = []
        for number in range(_WALKS):
            matcher.reset()
            times = []
            for token in texts[number % len(texts)]:
                times.append(_timed(partial(matcher.fill, row)))
                if not matcher.advance(token):
                    return None
            walks.append(tuple(times))
    except StructgenError:
        return None
    return Schema(compiled, tuple(walks))


def _timed(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _vocabulary() -> Vocabulary:
    from structgen.models.embedded import embedded_directory

    return Vocabulary.from_tokenizer(embedded_directory() / "tokenizer.json", eos_ids=[2])


def _cases(path: str | None, wanted: int, vocabulary: Vocabulary) -> list[tuple[str, list[list[int]]]]:
    """Return schemas with the tokens of texts that satisfy them."""
    if path is None:
        candidates = [
            (json.dumps(schema), [json_schema(schema).example_text(i) for i in range(_WALKS)])
            for schema in OWN
        ]
    else:
        listed = records(path)
        random.Random(0).shuffle(listed)
        candidates = [
            (
                json.dumps(record["schema"]),
                [json.dumps(test["data"], ensure_ascii=False) for test in record["tests"] if test["valid"]],
            )
            for record in listed[: 3 * wanted]
        ]
    cases: list[tuple[str, list[list[int]]]] = []
    for schema, texts in candidates:
        tokens = [ids for ids in map(vocabulary.encode, texts) if ids and len(ids) <= _LONGEST]
        if tokens and _measured(schema, tokens, vocabulary) is not None:
            cases.append((schema, tokens))
        if len(cases) == wanted:
            break
    return cases


def _draw(shown: dict[int, list[tuple[int, float]]], path: str) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.5))
    for engines, points in shown.items():
        name = f"{engines} mask engine{'s' * (engines > 1)}"
        axes.plot([rows for rows, _ in points], [100 * more for _, more in points], marker="o", label=name)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("rows of a batch")
    axes.set_ylabel("% added to a step, masks after the pass")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    main()
