"""Measure JSON values of real schemas by a small diffusion model: masked instances, and values from noise.

    python -m bench.diffusion.json_texts --data maskbench.jsonl.gz --model FOLDER [--survey]

The schemas are those of a MaskBench file that the model was not trained on (`train_json`); the instances are the valid
ones of the file. Mode "free" follows the model alone, "json" uses a canvas of JSON, and "schema" one of the schema.
Judges are `json` and `jsonschema_rs`. "Restored" is the share of masked tokens that equal those of the instance.
``--survey`` counts the schemas that a canvas represents exactly.

Results: docs/diffusion.md, "JSON values of real schemas".
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema_rs

import structgen as sg
from bench.command import argument_parser
from bench.monitors.tables import wilson
from bench.records import records
from structgen.diffusion import Canvas, Hole, fill, load
from structgen.errors import StructgenError
from structgen.progress import ProgressBar

from .free import Pair, fill_freely, timed_pair
from .json_tokens import JsonTokens, fits
from .train_json import is_held_out

__all__ = ["main"]

_WHITESPACE = "json.dumps"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.diffusion.json_texts", __doc__)
    parser.add_argument("--data", type=Path, required=True, help="maskbench-dev.jsonl.gz")
    parser.add_argument(
        "--model", type=Path, required=True, help="a folder, such as the one in the test data"
    )
    parser.add_argument("--count", type=int, default=200, help="instances (200)")
    parser.add_argument("--longest", type=int, default=100, help="tokens of an instance (100)")
    parser.add_argument("--share", type=float, default=0.5, help="of the tokens that is masked (0.5)")
    parser.add_argument("--noise", type=int, default=64, help="cells of values from noise (64)")
    parser.add_argument("--survey", action="store_true", help="count which schemas canvases hold, too")
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args(arguments)
    if chosen.survey:
        _survey(chosen)
    if chosen.count:
        model = load(chosen.model, threads=chosen.threads)
        cases = _cases(model, JsonTokens.load(chosen.model), chosen)
        _infilling(model, cases, chosen)
        _noise(model, cases, chosen)
        _overhead(model, cases)


def _survey(chosen: argparse.Namespace) -> None:
    """Print how many schemas a canvas represents exactly, with a note, or not at all."""
    vocabulary = sg.Vocabulary.of_bytes()
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    listed = records(chosen.data)
    with ProgressBar(len(listed), "schemas", True) as bar:
        for record in listed:
            bar.advance()
            try:
                constraint = sg.json_schema(record["schema"], whitespace=_WHITESPACE)
            except StructgenError:
                counts["not supported at all"] += 1
                continue
            try:
                canvas = Canvas(constraint, vocabulary, [Hole(1)])
            except StructgenError as error:
                counts["refused"] += 1
                reasons[str(error).splitlines()[0][-60:]] += 1
                continue
            kinds = {note.kind for note in canvas.notes}
            counts["exact" if not kinds else "noted: " + ", ".join(sorted(kinds))] += 1
    print("\n| schemas | | |\n|---|--:|--:|")
    for name, count in counts.most_common():
        print(f"| {name} | {count} | {count / sum(counts.values()):.3f} |")
    for reason, count in reasons.most_common(8):
        print(f"  {count} refused: ...{reason}")


class _Case:
    def __init__(self, schema: Any, tokens: list[int], constraint: Any) -> None:
        self.schema, self.tokens, self.constraint = schema, tokens, constraint
        self.judge = jsonschema_rs.validator_for(schema)

    def is_valid(self, text: str) -> tuple[bool, bool]:
        """Return whether the text is JSON, and whether it satisfies the schema."""
        try:
            value = json.loads(text)
        except ValueError:
            return False, False
        return True, self.judge.is_valid(value)


def _cases(model: Any, tokens: JsonTokens, chosen: argparse.Namespace) -> list[_Case]:
    """Valid instances of schemas that canvases hold exactly or narrowed."""
    cases: list[_Case] = []
    for record in records(chosen.data):
        if not is_held_out(record["_file"]):
            continue
        try:
            constraint = sg.json_schema(record["schema"], whitespace=_WHITESPACE)
        except StructgenError:
            continue
        for test in record["tests"]:
            if not test["valid"]:
                continue
            row = fits(tokens, json.dumps(test["data"]), chosen.longest)
            if row is None:
                continue
            try:
                canvas = Canvas(constraint, model.vocabulary, list(row))
                fixed = canvas.completable()
            except StructgenError:
                break
            if fixed:
                cases.append(_Case(record["schema"], list(row), constraint))
                break
        if len(cases) == chosen.count:
            break
    return cases


def _shown(model: Any, tokens: Sequence[int]) -> str:
    return b"".join(
        model.vocabulary.token_bytes(token) or b"" for token in tokens if token not in model.closing
    ).decode("utf-8", "replace")


def _print(rows: dict[str, list[tuple[bool, bool, float]]]) -> None:
    print("| mode | texts | JSON | of the schema | 95 % | restored |\n|---|--:|--:|--:|---|--:|")
    for mode, results in rows.items():
        right = sum(result[1] for result in results)
        low, high = wilson(right, len(results))
        print(
            f"| {mode} | {len(results)} | {sum(result[0] for result in results) / len(results):.3f} | "
            f"{right / len(results):.3f} | {low:.3f}–{high:.3f} | "
            f"{statistics.mean(result[2] for result in results):.3f} |"
        )


def _infilling(model: Any, cases: Sequence[_Case], chosen: argparse.Namespace) -> None:
    rows: dict[str, list[tuple[bool, bool, float]]] = {"free": [], "json": [], "schema": []}
    chance = random.Random(0)
    with ProgressBar(len(cases), "instances", True) as bar:
        for case in cases:
            masked = {cell for cell in range(len(case.tokens)) if chance.random() < chosen.share}
            if not masked:
                continue
            cells = [None if cell in masked else token for cell, token in enumerate(case.tokens)]
            pieces = [Hole(1) if token is None else token for token in cells]
            for mode in rows:
                if mode == "free":
                    filled = fill_freely(model, cells)[0]
                else:
                    whole = (
                        sg.json_schema(True, whitespace=_WHITESPACE) if mode == "json" else case.constraint
                    )
                    filled = fill(model, Canvas(whole, model.vocabulary, pieces)).tokens
                same = statistics.mean(filled[cell] == case.tokens[cell] for cell in masked)
                rows[mode].append((*case.is_valid(_shown(model, filled)), same))
            bar.advance()
    print(f"\n{len(cases)} valid instances, {chosen.share:.0%} of their tokens masked, temperature 0\n")
    _print(rows)


def _noise(model: Any, cases: Sequence[_Case], chosen: argparse.Namespace) -> None:
    rows: dict[str, list[tuple[bool, bool, float]]] = {"free": [], "json": [], "schema": []}
    few = 0
    with ProgressBar(len(cases), "from noise", True) as bar:
        for seed, case in enumerate(cases):
            bar.advance()
            whole_schema = Canvas(
                case.constraint, model.vocabulary, [Hole(chosen.noise)], closing=model.closing
            )
            if not whole_schema.completable():
                few += 1
                continue
            for mode in rows:
                if mode == "free":
                    filled = fill_freely(model, [None] * chosen.noise, temperature=1.0, seed=seed)[0]
                else:
                    whole = (
                        sg.json_schema(True, whitespace=_WHITESPACE) if mode == "json" else case.constraint
                    )
                    canvas = Canvas(whole, model.vocabulary, [Hole(chosen.noise)], closing=model.closing)
                    filled = fill(model, canvas, temperature=1.0, seed=seed).tokens
                rows[mode].append((*case.is_valid(_shown(model, filled)), 0.0))
    print(f"\nfrom {chosen.noise} masked cells, temperature 1 ({few} schemas need more cells)\n")
    _print(rows)


def _overhead(model: Any, cases: Sequence[_Case]) -> None:
    print("\nfrom noise, temperature 0, milliseconds, medians of pairs\n")
    print("| cells | tokens a step | free | schema | times | FreeDave: steps | same tokens |")
    print("|--:|--:|--:|--:|--:|--:|---|")
    for length in (32, 64, 128):
        for count in (1, 4):
            pairs: list[Pair] = []
            steps, same = [], True
            for case in cases[:12]:
                canvas = Canvas(case.constraint, model.vocabulary, [Hole(length)], closing=model.closing)
                if not canvas.completable():
                    continue
                fill(model, canvas, tokens_per_step=count)
                pair = timed_pair(model, canvas, count)
                pairs.append(pair)
                if count == 1:
                    quick = fill(model, canvas, draft=4)
                    steps.append(quick.steps / pair.filling.steps)
                    same &= quick.tokens == pair.filling.tokens
            if not pairs:
                continue
            times = statistics.median(pair.constrained / pair.free for pair in pairs)
            drafted = [f"{statistics.mean(steps):.2f}", str(same)] if steps else ["", ""]
            row = [str(length), str(count)]
            row += [
                f"{1e3 * statistics.median(seconds):.1f}"
                for seconds in zip(*((p.free, p.constrained) for p in pairs), strict=True)
            ]
            print("| " + " | ".join([*row, f"{times:.2f}", *drafted]) + " |", flush=True)


if __name__ == "__main__":
    main()
