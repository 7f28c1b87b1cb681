"""Measure the cold tail: first and slow masks of structgen, llguidance and XGrammar, on tuned and untuned schemas.

    python -m bench.cold [--families NAME ...] [--side SIDE ...] [--engines NAME ...] [-n N] [--rounds N]
    python -m bench.cold --side tuned --tuned maskbench.jsonl.gz
    python -m bench.cold --worst 20
    python -m bench.cold --section-b

Each side has its own table, over the schemas that all engines accept with all their instances:

- ``tuned``: MaskBench records (``--tuned FILE``), on which structgen was tuned.
- ``open``: the half of the families of `bench.schemas` that anyone may read while they optimise.
- ``held-out``: the half of which only figures are read.

``--worst`` names the slowest masks of the first engine, never of the held-out side. ``--section-b`` measures the fixed
constraints on 129,280 tokens against absolute bars. ``--rounds`` repeats everything in new processes, and each mask
counts with its smallest time: use three rounds on a busy machine.

Results: docs/performance.md, "The cold tail, on schemas that were not tuned on".
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from bench import schemas
from bench.cold import report, section_b
from bench.cold.measuring import Engine, measure_all, merged_rounds
from bench.command import argument_parser
from bench.records import progress
from bench.records import records as read_records
from bench.tokenizers import deepseek_directory
from structgen.evaluation.engines import BENCHMARK_ENGINES
from structgen.models.embedded import embedded_directory

__all__ = ["main"]

_SIDES = ("tuned", "open", "held-out")


def main() -> None:
    options = _options()
    folder = options.tokenizer or (deepseek_directory() if options.section_b else str(embedded_directory()))
    encode, decode = _tokenizer(folder)
    engines = [Engine(name, folder, options.seconds, options.memory) for name in options.engines]
    print(f"load {os.getloadavg()[0]:.1f}; {', '.join(map(_version, options.engines))}; {Path(folder).name}")
    if options.section_b:
        _report_section_b(engines, encode, options.rounds)
        return
    measured: list[report.Measured] = []
    for side in options.side:
        chosen = _records(side, options)
        requests = [_request(record, encode) for record in chosen]
        replies = _measure(engines, requests, options.rounds)
        triples = zip(chosen, requests, replies, strict=True)
        measured += [report.Measured(r["_file"], side, q["texts"], reply) for r, q, reply in triples]
    for line in _report(measured, options):
        print(line)
    if options.json:
        Path(options.json).write_text(
            json.dumps(_summary(measured, options.engines), indent=1), encoding="utf-8"
        )
    if options.worst:
        allowed = [record for record in measured if record.side != "held-out"]
        _print_worst(allowed, options.engines[0], options.worst, decode)


def _options() -> argparse.Namespace:
    parser = argument_parser("bench.cold", __doc__)
    parser.add_argument("--families", nargs="+", metavar="NAME", help="of bench.schemas (default: all)")
    parser.add_argument("--side", nargs="+", choices=_SIDES, help="default: open and held-out")
    parser.add_argument("--tuned", metavar="FILE", help="MaskBench records for the side tuned")
    parser.add_argument(
        "--engines", nargs="+", choices=list(BENCHMARK_ENGINES), default=list(BENCHMARK_ENGINES)
    )
    parser.add_argument("-n", type=int, help="schemas of each family and side, drawn with a fixed seed")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30.0, help="CPU seconds a schema may take (30)")
    parser.add_argument("--memory", type=int, default=6_000, help="MiB an engine may have (6000)")
    parser.add_argument(
        "--tokenizer", metavar="FOLDER", help="default: SmolLM2's, or DeepSeek's for section B"
    )
    parser.add_argument("--by-family", action="store_true", help="a table for each family, too")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="slowest masks, by schema")
    parser.add_argument("--section-b", action="store_true", help="the fixed examples, on 129,280 tokens")
    parser.add_argument("--json", metavar="FILE", help="write the figures of each table")
    options = parser.parse_args()
    options.side = options.side or (["tuned"] if options.tuned else []) + ["open", "held-out"]
    if "tuned" in options.side and not options.tuned:
        parser.error("--side tuned needs --tuned FILE")
    return options


def _records(side: str, options: argparse.Namespace) -> list[schemas.Record]:
    if side == "tuned":
        return [
            {**r, "_file": f"maskbench/{r['_file']}"} for r in read_records(options.tuned, options.n or 300)
        ]
    chosen: list[schemas.Record] = []
    for family in options.families or schemas.families():
        records = [r for r in schemas.load(family) if schemas.is_held_out(r) == (side == "held-out")]
        if options.n is not None and options.n < len(records):
            records = random.Random(0).sample(records, options.n)
        chosen += records
    return chosen


def _request(record: schemas.Record, encode: Callable[[str], list[int]]) -> dict[str, Any]:
    texts = [json.dumps(t["data"], ensure_ascii=False) for t in record["tests"] if t["valid"]]
    return {"kind": "json_schema", "spec": record["schema"], "texts": [encode(text) for text in texts]}


def _measure(
    engines: Sequence[Engine], requests: Sequence[dict[str, Any]], rounds: int
) -> list[dict[str, dict[str, Any]]]:
    best: list[dict[str, dict[str, Any]]] = []
    for turn in range(rounds):
        try:
            numbers = progress(range(len(requests)), f"round {turn + 1}")
            replies = [measure_all(engines, requests[i], i) for i in numbers]
        finally:
            for engine in engines:
                engine.close()
        if turn:
            replies = [
                {name: merged_rounds(fastest[name], latest[name]) for name in fastest}
                for fastest, latest in zip(best, replies, strict=True)
            ]
        best = replies
    return best


def _report(measured: Sequence[report.Measured], options: argparse.Namespace) -> Iterable[str]:
    for side in options.side:
        chosen = [record for record in measured if record.side == side]
        if not chosen:
            continue
        yield ""
        yield from report.table(chosen, options.engines, f"Side {side}")
        yield ""
        yield from report.coverage(chosen, options.engines)
        if options.by_family:
            for family in dict.fromkeys(record.family for record in chosen):
                yield ""
                part = [record for record in chosen if record.family == family]
                yield from report.table(part, options.engines, f"Side {side}, {family}")


def _summary(measured: Sequence[report.Measured], engines: Sequence[str]) -> dict[str, Any]:
    summary: dict[str, Any] = {}
    for side in dict.fromkeys(record.side for record in measured):
        common = [record for record in measured if record.side == side and record.is_common]
        for family in ("sum", *dict.fromkeys(record.family for record in common)):
            part = [record for record in common if family in ("sum", record.family)]
            summary.setdefault(side, {})[family] = {
                "schemas": len(part),
                **{engine: report.figures(part, engine) for engine in engines},
            }
    return summary


def _print_worst(
    measured: Sequence[report.Measured], engine: str, count: int, decode: Callable[[list[int]], str]
) -> None:
    texts = {record.name: record.texts for record in measured}
    print(f"\nSlowest masks of {engine}:")
    for mask in report.worst(measured, engine, count):
        tokens = texts[mask.name][mask.text]
        before, following = decode(tokens[: mask.token]), decode(tokens[mask.token : mask.token + 1])
        figure = "first pass" if mask.figure == "masks" else "second pass"
        print(f"{mask.microseconds:9,.0f} µs, {figure}, {mask.name}")
        print(f"    text {mask.text}, token {mask.token}: …{before[-70:]!r} then {following!r}")


def _report_section_b(engines: Sequence[Engine], encode: Callable[[str], list[int]], rounds: int) -> None:
    examples = section_b.examples()
    requests = [{**e, "texts": [encode(text) for text in e["texts"]]} for e in examples]
    replies_by_example = _measure(engines, requests, rounds)
    names = [engine.name for engine in engines]
    print(f"| slowest mask, µs | bar | {' | '.join(names)} | second pass | first mask |")
    print("|---|" + "--:|" * (len(names) + 3))
    for example, replies in zip(examples, replies_by_example, strict=True):
        bar = section_b.BARS["400 tools" if "tools" in example["name"] else "any mask"]
        cells = [_slowest(replies[name], "masks") for name in names]
        first = replies[names[0]].get("first")
        own = [_slowest(replies[names[0]], "again"), "" if first is None else f"{first / 1e3:,.0f}"]
        print(f"| {example['name']} | {bar:,.0f} | {' | '.join([*cells, *own])} |")
    for example, replies in zip(examples, replies_by_example, strict=True):
        if replies[names[0]]["status"] != "ok":
            print(
                f"{example['name']}: {names[0]} {replies[names[0]]['status']}: {replies[names[0]]['error'][:300]}"
            )


def _slowest(reply: dict[str, Any], figure: str) -> str:
    if reply["status"] != "ok":
        return str(reply["status"])
    return f"{max(time for text in reply[figure] for time in text) / 1e3:,.0f}"


def _version(engine: str) -> str:
    package = {"structgen": "structgen-lm"}.get(engine, engine)
    try:
        return f"{engine} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return engine


def _tokenizer(folder: str) -> tuple[Callable[[str], list[int]], Callable[[list[int]], str]]:
    os.environ["HF_HUB_OFFLINE"] = "1"
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids, tokenizer.decode


if __name__ == "__main__":
    main()
