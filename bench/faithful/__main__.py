"""Measure how far samplers are from the exact distribution, on languages that can be enumerated.

    python -m bench.faithful [--calls 25 50 100 200 400] [--seeds 6] [--languages dates answers sum]
        [--plot FOLDER] [--json FILE]

SmolLM2 reads each language once, prefix by prefix, which gives the exact distribution. The samplers then run over the
recorded outputs of the model. The report shows the total variation distance and the Kullback-Leibler divergence between
the draws and the exact distribution, by model calls (a call is one row that the model reads). ``--plot`` writes a
picture for each language.

Results: docs/sampling.md, "How far from the exact distribution".
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import structgen as sg
from bench.command import argument_parser
from structgen.constraints.base import Constraint

from .distances import SAMPLERS, Curve, curve
from .distributions import Exact, enumerated

__all__ = ["LANGUAGES", "main"]

_ANSWERS = Path(__file__).resolve().parents[1] / "data" / "faithful" / "answers.json"
LANGUAGES: dict[str, tuple[str, Constraint, int]] = {
    "dates": (
        "In which month did the project start? Answer as YYYY-MM, nothing else.",
        sg.regex("20(1[89]|2[0-4])-(0[1-9]|1[0-2])"),
        8,
    ),
    "answers": (
        "Is a tomato a vegetable? Answer in a few words.",
        sg.choice(json.loads(_ANSWERS.read_text("utf-8"))),
        8,
    ),
    "sum": ("What is 2718 + 3141? Answer with the number alone.", sg.regex("58[0-9]{2}"), 5),
}
"""A prompt, a constraint and the most tokens of a text."""


def at_least_one(text: str) -> int:
    """A whole number of 1 or more."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.faithful", __doc__)
    parser.add_argument("--calls", type=at_least_one, nargs="+", default=[25, 50, 100, 200, 400])
    parser.add_argument("--seeds", type=at_least_one, default=6)
    parser.add_argument("--languages", nargs="+", default=list(LANGUAGES), choices=list(LANGUAGES))
    parser.add_argument("--plot", type=Path, metavar="FOLDER")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args(arguments)
    model = sg.load()
    result: dict[str, Any] = {}
    for name in chosen.languages:
        prompt, constraint, max_tokens = LANGUAGES[name]
        exact = enumerated(model, prompt, constraint, max_tokens)
        best = max(exact.texts, key=lambda text: exact.texts[text])
        print(
            f"\n## {name}: {len(exact.texts)} texts, mass {exact.mass:.3g} under the model, "
            f"most probable {best!r} ({exact.texts[best]:.1%})\n",
            flush=True,
        )
        curves = {}
        for sampler in SAMPLERS:
            print(f"{name}: {sampler}", file=sys.stderr, flush=True)
            curves[sampler] = curve(exact, constraint, max_tokens, sampler, chosen.calls, chosen.seeds)
        print("\n".join(table(curves, chosen.calls)), flush=True)
        if chosen.plot:
            plot(chosen.plot / f"faithful-{name}.svg", name, exact, curves)
        result[name] = {key: asdict(curve) for key, curve in curves.items()}
    if chosen.json:
        chosen.json.write_text(json.dumps(result), "utf-8")


def table(curves: dict[str, Curve], calls: list[int]) -> list[str]:
    """Lines: for each sampler the total variation / divergence after so many calls, and the draws by then."""
    lines = ["| sampler | " + " | ".join(f"{count} calls" for count in calls) + " | draws by then |"]
    lines.append("|---|" + "--:|" * (len(calls) + 1))
    for name, measured in curves.items():
        cells = [
            "-" if math.isnan(variation) else f"{variation:.3f} / {divergence:.3f}"
            for variation, divergence in zip(measured.total_variation, measured.divergence, strict=True)
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {measured.draws[-1]:,.0f} |")
    return lines


def plot(path: Path, name: str, exact: Exact, curves: dict[str, Curve]) -> None:
    """Total variation by calls, both logarithmic."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2))
    for label, measured in curves.items():
        style = "--" if "unweighted" in label else "-"
        axes.plot(measured.calls, measured.total_variation, style, marker="o", markersize=3, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("model calls")
    axes.set_ylabel("total variation to the exact distribution")
    axes.set_title(f"{name}: {len(exact.texts)} texts, mass {exact.mass:.2g}", fontsize=10)
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
