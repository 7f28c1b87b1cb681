"""Compare samplers on real tasks under the embedded model, in one run with genlm-control.

    python -m bench.faithful.real [--tasks json ...] [--seconds 40] [--draws 50] [--particles 16] [--seed 1]
        [--rows 3000] [--genlm PYTHON] [--json FILE]

Each sampler draws ``--draws`` answers of each task, or stops after ``--seconds``. The report shows for its weighted
draws how many a judge of the task accepts (``jsonschema``, RDKit, ``re``, SQLite), the log probability of the text
under the model in the tokenizer's spelling, and how many texts differ. It also shows the cost: rows that the model
read, checks (masks, or tokens and texts that were judged), attempts and seconds.

`genlm-control` needs other versions of this library's dependencies. So it runs in its own Python, which ``--genlm``
names. Its rows are those that it requested from its model.

A second table shows the attempts per draw of adaptive rejection and CARS, also for prompts without examples in the
conversation, which the model rarely follows. There each sampler has a budget of rows (``--rows``).

Samplers marked "asked" know the constraint only as a yes or no for prefixes and texts; all others use masks.

Results: docs/sampling.md, "Real tasks, compared with genlm-control 0.4.1".
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import structgen as sg
from bench.command import argument_parser
from structgen.errors import GenerationError, LimitExceeded
from structgen.generation import SamplingOptions
from structgen.generation.loop import generate_tokens
from structgen.inference.drawing import Account
from structgen.inference.prefixes import Distribution
from structgen.matcher import Matcher
from structgen.models.embedded import embedded_directory
from structgen.protocols import LanguageModel

from .tasks import TASKS, Task

__all__ = ["main"]


@dataclass
class Outcome:
    """The result of a sampler; `draws` are texts with their log weights."""

    draws: list[tuple[str, float]]
    calls: int
    checks: int
    attempts: int
    seconds: float
    stopped: str | None = None


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.faithful.real", __doc__)
    names = [task.name for task in TASKS]
    parser.add_argument("--tasks", nargs="+", choices=names, default=names)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--particles", type=int, default=16)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--genlm", metavar="PYTHON", help="where genlm-control is installed")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args(arguments)
    model = sg.load()
    rival = _Rival(chosen.genlm) if chosen.genlm else None
    results: dict[str, dict[str, Any]] = {}
    for task in TASKS:
        if task.name not in chosen.tasks:
            continue
        scorer = _Scorer(model, task)
        print(f"\n## {task.name}: right by {task.judged_by}\n\n{_HEAD}", flush=True)
        results[task.name] = {}
        for name, outcome in _outcomes(model, task, chosen, rival):
            results[task.name][name] = asdict(outcome)
            print(_row(name, outcome, task, scorer), flush=True)
        _tell_attempts("after examples", results[task.name])
        alone = {
            name: _walked(model, task, chosen, sampler)
            for name, sampler in (
                ("adaptive rejection", sg.inference.AdaptiveRejection(parallel=chosen.particles)),
                ("CARS", sg.inference.Exact(parallel=chosen.particles)),
            )
        }
        results[task.name]["without examples"] = {name: asdict(outcome) for name, outcome in alone.items()}
        _tell_attempts("without examples", results[task.name]["without examples"])
    if chosen.json:
        chosen.json.write_text(json.dumps(results), "utf-8")


def _outcomes(
    model: LanguageModel, task: Task, chosen: argparse.Namespace, rival: _Rival | None
) -> Iterable[tuple[str, Outcome]]:
    particles = chosen.particles
    yield "the model alone", _free(model, task, particles, chosen.seed)
    masks: dict[str, tuple[Any, int]] = {
        "masking, unweighted": (sg.inference.LocalMasking(parallel=particles), chosen.draws),
        "masking, weighted": (sg.inference.LocalMasking(parallel=particles), chosen.draws),
        "adaptive rejection": (sg.inference.AdaptiveRejection(parallel=particles), chosen.draws),
        "CARS": (sg.inference.Exact(parallel=particles), chosen.draws),
        "ASAp": (sg.inference.ASAp(parallel=particles), chosen.draws),
        "MH, 5 proposals": (sg.inference.MH(5, parallel=particles), particles),
        f"SMC, {particles} particles": (sg.inference.SMC(particles), particles),
    }
    for name, (sampler, n) in masks.items():
        outcome = _sampled(model, task, chosen, task.constraint, sampler, n, [])
        if name == "masking, unweighted":
            outcome.draws = [(text, 0.0) for text, _ in outcome.draws]
        yield name, outcome
    judged = [_asked(task, model)]
    for name, sampler, n in (
        ("AWRS, asked", sg.inference.AWRS(parallel=particles), particles),
        (
            f"SMC of AWRS, {particles} particles, asked",
            sg.inference.SMC(particles, proposal=sg.inference.AWRS()),
            particles,
        ),
    ):
        yield name, _sampled(model, task, chosen, str, sampler, n, judged)
    if rival is not None:
        yield "genlm-control, AWRS", rival.run(model, task, chosen, "awrs")
        yield f"genlm-control, SMC of AWRS, {particles} particles", rival.run(model, task, chosen, "smc")


def _sampled(
    model: LanguageModel,
    task: Task,
    chosen: argparse.Namespace,
    output: Any,
    sampler: Any,
    n: int,
    potentials: list[Any],
) -> Outcome:
    return _outcome(
        lambda: sg.sample(
            model,
            task.messages,
            output,
            n=n,
            sampler=sampler,
            potentials=potentials,
            max_tokens=task.max_tokens,
            seed=chosen.seed,
            max_seconds=chosen.seconds,
        )
    )


def _outcome(run: Callable[[], sg.inference.Posterior[Any]]) -> Outcome:
    try:
        posterior = run()
    except (GenerationError, LimitExceeded) as error:
        took: Any = error.account or Account()
        return Outcome(
            [], took.calls, took.checks, took.attempts, took.seconds, stopped=str(error).splitlines()[0]
        )
    account = posterior.account
    draws = [(text, draw.log_weight) for text, draw in zip(posterior.texts, posterior.draws, strict=True)]
    return Outcome(draws, account.calls, account.checks, account.attempts, account.seconds, account.stopped)


def _asked(task: Task, model: LanguageModel) -> Any:
    """The constraint as a function of texts, as a compiler would be one."""
    matcher = Matcher(task.constraint, model.vocabulary)

    def begins(text: str) -> bool:
        data = text.encode()
        return matcher.viable_bytes(data) == len(data)

    def is_one(text: str) -> bool:
        data = text.encode()
        return begins(text) and bool(matcher.native.next_bytes(data)[1])

    return sg.inference.potential(is_one, prefix=begins)


def _free(model: LanguageModel, task: Task, rows: int, seed: int) -> Outcome:
    prompt = model.encode(task.messages)
    options = SamplingOptions(temperature=1.0, seed=seed, max_tokens=task.max_tokens)
    made = generate_tokens(model, [prompt] * rows, [None] * rows, options)
    calls = sum(len(generation.tokens) + 1 for generation in made)
    seconds = max(generation.timing.total for generation in made)
    return Outcome(
        [(generation.text, 0.0) for generation in made if generation.finish == "complete"],
        calls,
        0,
        rows,
        seconds,
    )


class _Scorer:
    """Log-probabilities of answers under the model; each text is read once."""

    def __init__(self, model: LanguageModel, task: Task) -> None:
        self._model = model
        self._prompt = model.encode(task.messages)
        self._known: dict[str, float] = {}
        self._vocabulary = model.vocabulary

    def __call__(self, text: str) -> float:
        if text not in self._known:
            model: Any = self._model
            tokens = model.tokenizer.encode(text, add_special_tokens=False)
            session: Any = self._model.start([self._prompt])
            distributions = [session.logits()[0], *session.append_scored([tokens])[0]]
            ends = list(self._vocabulary.eos_ids)
            logs = [
                float(Distribution.of(distribution).log_p[token])
                for distribution, token in zip(distributions, tokens, strict=False)
            ]
            self._known[text] = sum(logs) + float(
                np.logaddexp.reduce(Distribution.of(distributions[-1]).log_p[ends])
            )
        return self._known[text]


_HEAD = (
    "| sampler | draws | ESS | right | log p | distinct | model rows | checks | attempts | seconds |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
)


def _row(name: str, outcome: Outcome, task: Task, score: Callable[[str], float]) -> str:
    took = f"{outcome.calls:,} | {outcome.checks:,} | {outcome.attempts:,} | {outcome.seconds:.1f}"
    took += f" ({outcome.stopped})" if outcome.stopped else ""
    if not outcome.draws:
        return f"| {name} | 0 | - | - | - | - | {took} |"
    logs = np.array([weight for _, weight in outcome.draws])
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    texts = [text for text, _ in outcome.draws]
    right = sum(weight for text, weight in zip(texts, weights, strict=True) if task.judge(text))
    log_p = sum(weight * score(text) for text, weight in zip(texts, weights, strict=True))
    ess = 1 / float((weights**2).sum())
    return f"| {name} | {len(texts)} | {ess:.1f} | {right:.0%} | {log_p:.1f} | {len(set(texts))} | {took} |"


def _walked(model: LanguageModel, task: Task, chosen: argparse.Namespace, sampler: Any) -> Outcome:
    """Draws of the task without its examples, until the model has read so many rows."""
    return _outcome(
        lambda: sg.sample(
            model,
            task.messages[-1:],
            task.constraint,
            n=chosen.draws,
            sampler=sampler,
            max_tokens=task.max_tokens,
            seed=chosen.seed,
            max_calls=chosen.rows,
        )
    )


def _tell_attempts(where: str, results: dict[str, Any]) -> None:
    """Print the attempts per draw of adaptive rejection and of CARS."""
    parts = []
    each: dict[str, float] = {}
    for name in ("adaptive rejection", "CARS"):
        draws, attempts = len(results[name]["draws"]), results[name]["attempts"]
        each[name] = attempts / max(draws, 1)
        parts.append(
            f"{name} {each[name]:.3g}" + ("" if draws else " and no draw") + f" ({draws} in {attempts:,})"
        )
    ratio = each["adaptive rejection"] / each["CARS"] if results["CARS"]["draws"] else math.nan
    more = "" if results["adaptive rejection"]["draws"] else "more than "
    print(f"\nAttempts for a draw {where}: {', '.join(parts)}: {more}{ratio:.1f} times as many.", flush=True)


class _Rival:
    """genlm-control in a process, connected by pipes."""

    def __init__(self, python: str) -> None:
        worker = Path(__file__).with_name("genlm_worker.py")
        self._process = subprocess.Popen(
            [python, str(worker), str(embedded_directory())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, model: LanguageModel, task: Task, chosen: argparse.Namespace, sampler: str) -> Outcome:
        request = {
            "prompt": model.encode(task.messages),
            "kind": task.kind,
            "source": task.source,
            "sampler": sampler,
            "particles": chosen.particles,
            "max_tokens": task.max_tokens,
            "seed": chosen.seed,
            "seconds": chosen.seconds,
        }
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the process has ended"}
        if "error" in answer:
            print(answer["error"], file=sys.stderr)
            return Outcome([], 0, 0, 0, math.nan, stopped="error")
        return Outcome(
            [(text, weight) for text, weight in answer["draws"]],
            answer["calls"],
            answer["checks"],
            answer["tried"],
            answer["seconds"],
        )


if __name__ == "__main__":
    main()
