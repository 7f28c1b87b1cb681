"""Measure holes in code and JSON that SmolLM2 fills from left to right, with and without a constraint.

    python -m bench.diffusion.infilling [--count 12] [--languages python cpp json] [--data maskbench.jsonl.gz]

Both modes keep the template and end a hole in the same ways. "free" accepts any text for a hole, "constrained" only
texts that keep the whole in the grammar or the schema. The sources:

- Python: functions of the standard library. Regions are statements and expressions; the judge is `ast.parse`.
- C++: functions of public packages and of functions.cpp. Regions are parts of lines. The judge is tree-sitter, and for
  functions.cpp the syntax messages of `g++ -fsyntax-only`.
- JSON: valid instances of MaskBench's schemas. Regions are values; the judge is `jsonschema_rs`.

"Restored" counts holes with the original text, "completed" those that a short completion ended, not the model.

Results: docs/diffusion.md, "Holes in texts".
"""

from __future__ import annotations

import argparse
import random
import textwrap
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import structgen as sg
from bench.command import argument_parser
from bench.monitors.tables import wilson
from structgen.errors import StructgenError
from structgen.progress import ProgressBar

from .sources import LANGUAGES, Source

__all__ = ["main"]

Region = tuple[int, int]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.diffusion.infilling", __doc__)
    parser.add_argument("--count", type=int, default=12, help="texts of each language (12)")
    parser.add_argument("--languages", nargs="+", default=["python", "cpp"], choices=sorted(LANGUAGES))
    parser.add_argument("--regions", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--room", type=int, default=24, help="tokens for each region (24)")
    parser.add_argument("--data", type=Path, help="for JSON: maskbench-dev.jsonl.gz")
    parser.add_argument("--show", type=int, default=0, help="texts to print (0)")
    chosen = parser.parse_args(arguments)
    model = sg.load()
    print(
        "| language | regions | mode | texts | valid | 95 % | g++ | restored | completed | seconds a text |"
    )
    print("|---|--:|---|--:|--:|---|--:|--:|--:|--:|")
    for language in chosen.languages:
        sources = list(LANGUAGES[language](chosen.count, chosen.data))
        for count in chosen.regions:
            _compare(model, language, sources, count, chosen)


def _compare(
    model: Any, language: str, sources: Sequence[Source], count: int, chosen: argparse.Namespace
) -> None:
    chance = random.Random(count)
    cases = [
        (source, picked)
        for source in sources
        if (picked := _apart(source.regions, count, chance)) is not None
    ]
    for mode in ("free", "constrained"):
        valid, compiled, restored, completed, seconds = 0, [0, 0], 0, 0, 0.0
        with ProgressBar(len(cases), f"{language}, {count}, {mode}", True) as bar:
            for number, (source, picked) in enumerate(cases):
                template, gone = _template(source.text, picked)
                started = time.perf_counter()
                try:
                    filled = sg.infill(
                        model, template, within=source.within if mode == "constrained" else None,
                        method="left-to-right", max_tokens=chosen.room, options={"temperature": 0},
                    )  # fmt: skip
                except StructgenError as error:
                    print(f"{type(error).__name__}: {error}: {template!r:.300}")
                    seconds += time.perf_counter() - started
                    bar.advance()
                    continue
                seconds += time.perf_counter() - started
                right = source.is_valid(filled.text)
                valid += right
                if mode == "constrained" and not right:
                    print(f"refused by the judge: {filled.text!r}")
                if (verdict := source.compiles(filled.text)) is not None:
                    compiled[0] += verdict
                    compiled[1] += 1
                restored += sum(filled.holes[name].strip() == text.strip() for name, text in gone.items())
                completed += sum(end == "completed" for end in filled.hole_ends)
                if number < chosen.show:
                    print(textwrap.indent(f"{template}\n---- {mode}\n{filled.text}", "    "))
                bar.advance()
        low, high = wilson(valid, len(cases))
        own = f"{compiled[0]}/{compiled[1]}" if compiled[1] else ""
        holes = max(1, count * len(cases))
        print(
            f"| {language} | {count} | {mode} | {len(cases)} | {valid / max(1, len(cases)):.3f} | {low:.2f}–{high:.2f} "
            f"| {own} | {restored / holes:.3f} | {completed / holes:.3f} | {seconds / max(1, len(cases)):.1f} |",
            flush=True,
        )


def _template(source: str, regions: Sequence[Region]) -> tuple[str, dict[str, str]]:
    parts, gone, at = [], {}, 0
    for number, (start, end) in enumerate(regions):
        parts += [source[at:start], f"{{{{r{number}}}}}"]
        gone[f"r{number}"] = source[start:end]
        at = end
    return "".join([*parts, source[at:]]), gone


def _apart(regions: Sequence[Region], count: int, chance: random.Random) -> list[Region] | None:
    """Return `count` random regions that do not touch, in the order of the text; None if none were found."""
    for _ in range(200):
        if len(regions) < count:
            return None
        picked = sorted(chance.sample(regions, count))
        if all(a[1] < b[0] for a, b in pairwise(picked)):
            return picked
    return None


if __name__ == "__main__":
    main()
