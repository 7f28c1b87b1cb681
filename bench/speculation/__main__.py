"""Compare generation with and without drafts: the tokens must be the same, and the times are measured.

    python -m bench.speculation [--tasks NAME ...] [--modes NAME ...] [--batch N] [--dtype float32|bfloat16]
        [--drafter FILE]

All modes answer each request of a task in one process, each time in another order. A mode keeps what it learns from one
request to the next. A request before the first one measures the cost of forward passes.

The report shows for each mode:

- the speedup over plain decoding after the prompt: by the time of a token, as median and quartiles over requests, and
  by total time
- tokens per forward pass, and the acceptance rate of drafts
- the share of time that drafting takes
- how many texts equal those of plain decoding

``--batch`` answers that many requests at once. ``--skip`` answers the first batches without counting them, which shows
the effect of a warm store. All tasks take about two minutes for each mode on two cores, and much longer on a busy
machine.

Results: docs/speculation.md, "Measured: speed by task" and "Measured: drafters and verifiers".
"""

from __future__ import annotations

import os
import random
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import structgen as sg
from bench.command import argument_parser
from structgen.generation import Generation, SamplingOptions, generate_tokens
from structgen.speculative import Costs, Speculation

from .modes import COMMON, LEARNED, MODES, learned_modes
from .tasks import TASKS, Request, requests

__all__ = ["main"]


@dataclass
class Tally:
    """The figures of one mode."""

    ratios: list[float] = field(default_factory=list)
    plain: float = 0.0
    seconds: float = 0.0
    tokens: int = 0
    passes: int = 0
    drafted: int = 0
    accepted: int = 0
    drafting: float = 0.0
    same: list[bool] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.speculation", __doc__)
    add = parser.add_argument
    add("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS), help="default: all")
    add(
        "--modes", nargs="+", default=list(COMMON), choices=["all", *MODES, *LEARNED], help="default: default"
    )
    add("--drafter", help="the file of a learned drafter, for the modes with one")
    add("--runs", type=int, default=1, help="how many times each request is answered (1)")
    add("--batch", type=int, default=1, help="requests side by side (1)")
    add("--skip", type=int, default=0, help="batches of each task that are not counted (0)")
    add("--dtype", default="float32", choices=["float32", "bfloat16"], help="of the model (float32)")
    add("--device", help="where the model runs, as torch spells it (a GPU if there is one)")
    add("--threads", type=int, default=None, help="of torch (OMP_NUM_THREADS, or 2)")
    add("--temperature", type=float, default=0.0, help="0 is greedy (0)")
    add("--plain-layers", action="store_true", help="leave the weights of linear layers as they are")
    chosen = parser.parse_args(arguments)
    if chosen.drafter is not None:
        MODES.update(learned_modes(chosen.drafter))
    elif missing := [mode for mode in chosen.modes if mode in LEARNED]:
        parser.error(f"the mode {missing[0]!r} needs --drafter FILE")
    modes = list(MODES) if "all" in chosen.modes else chosen.modes
    threads = chosen.threads or int(os.environ.get("OMP_NUM_THREADS") or 2)
    model = sg.load(threads=threads, dtype=chosen.dtype, device=chosen.device, pack=not chosen.plain_layers)
    layers = ", layers not packed" if chosen.plain_layers else ""
    print(f"{chosen.dtype}, batch {chosen.batch}, temperature {chosen.temperature:g}{layers}\n")
    print(
        "| task | drafts | times as fast | quartiles | of all the time | tokens a pass | taken | drafting | same |"
    )
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for task in chosen.tasks:
        for mode, tally in measured(model, requests(task), modes, chosen).items():
            low, middle, high = (
                statistics.quantiles(tally.ratios, n=4) if len(tally.ratios) > 1 else tally.ratios * 3
            )
            print(
                f"| {task} | {mode} | {middle:.2f} | {low:.2f} to {high:.2f} | {tally.plain / tally.seconds:.2f} | "
                f"{tally.tokens / max(1, tally.passes):.2f} | {tally.accepted / max(1, tally.drafted):.0%} | "
                f"{tally.drafting / tally.seconds:.1%} | {sum(tally.same)}/{len(tally.same)} |",
                flush=True,
            )


def measured(model: Any, asked: list[Request], modes: list[str], chosen: Any) -> dict[str, Tally]:
    """Answer every request in every mode."""
    tallies = {mode: Tally() for mode in modes}
    order = random.Random(0)
    batches = [
        [asked[(start + row) % len(asked)] for row in range(chosen.batch)]
        for start in range(0, len(asked), chosen.batch)
    ]
    generated(model, batches[0], None, chosen, 0)
    kept: dict[str, Speculation] = {}
    for mode in modes:  # the costs of passes are known from here on, and nothing else
        generated(model, batches[0], warm := MODES[mode](model), chosen, 0)
        kept[mode] = MODES[mode](model)
        kept[mode].costs = Costs(warm.costs.known)
    for run in range(chosen.runs):
        for mode in modes:  # drafters would remember the texts of the run before
            costs, kept[mode] = kept[mode].costs, MODES[mode](model)
            kept[mode].costs = costs
        for index, batch in enumerate(batches):
            plain = generated(model, batch, None, chosen, run)
            for mode in order.sample(modes, len(modes)):
                drafted = generated(model, batch, kept[mode], chosen, run)
                if index >= chosen.skip:
                    _add(tallies[mode], plain, drafted)
            print(f"{index + 1} of {len(batches)}", end="\r", file=sys.stderr, flush=True)
    return tallies


def _add(tally: Tally, plain: list[Generation], drafted: list[Generation]) -> None:
    # Times are per token, because other verifiers than `Match` draw other texts.
    written, ours = (max(1, sum(len(generation.tokens) for generation in rows)) for rows in (plain, drafted))
    own, seconds = _seconds(plain) * ours / written, _seconds(drafted)
    tally.ratios.append(own / seconds)
    tally.plain += own
    tally.seconds += seconds
    tally.same += [
        generation.tokens == other.tokens for generation, other in zip(drafted, plain, strict=True)
    ]
    tally.tokens += sum(len(generation.tokens) for generation in drafted)
    tally.passes += max(generation.timing.forward_passes for generation in drafted) * len(drafted)
    tally.drafting += max(generation.timing.drafting for generation in drafted)
    tally.drafted += sum(generation.drafted_tokens for generation in drafted)
    tally.accepted += sum(generation.accepted_tokens for generation in drafted)


def _seconds(rows: list[Generation]) -> float:
    """Return the seconds from the prompt to the end of the last row."""
    return max(generation.timing.total - generation.timing.prompt for generation in rows)


def generated(
    model: Any, batch: Sequence[Request], speculation: Speculation | None, chosen: Any, seed: int
) -> list[Generation]:
    """Generate one batch."""
    matchers = [
        None if request.constraint is None else sg.Matcher(request.constraint, model.vocabulary)
        for request in batch
    ]
    options = [
        SamplingOptions(
            temperature=chosen.temperature, seed=(seed, row), max_tokens=request.tokens, exact_weight=False
        )
        for row, request in enumerate(batch)
    ]
    drafting = None if speculation is None else speculation.start(model)
    return generate_tokens(
        model, [model.encode(request.prompt) for request in batch], matchers, options, drafting=drafting
    )


if __name__ == "__main__":
    main()
