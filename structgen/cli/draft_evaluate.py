"""``structgen draft evaluate``: measure a learned drafter."""

from __future__ import annotations

import argparse
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structgen.extras import needed

from .draft_inputs import (
    add_model,
    add_requests,
    check_files,
    check_request_options,
    model_of,
    requests_of,
    with_options,
)
from .inputs import InputError, check_any_base

if TYPE_CHECKING:
    from structgen.draft_training.evaluation import Evaluation
    from structgen.draft_training.scaling import ScalingFit

__all__ = ["add_evaluate"]


def add_evaluate(actions: Any) -> None:
    """Add ``evaluate`` to the actions."""
    parser = actions.add_parser(
        "evaluate",
        help="measure tokens per pass, acceptance and speed",
        description="Answer requests with and without the drafter, and report tokens per pass, acceptance by "
        "position, and how many times faster the answers come. Several drafters answer the same requests.",
    )
    add = parser.add_argument
    add("weights", type=Path, nargs="+", help="the weights")
    add_model(parser)
    add_requests(parser)
    add("--requests", type=int, default=24, help="how many requests (24)")
    add("--any-base", action="store_true", help="use folders that name another model than this one, too")
    add("--alone", action="store_true", help="without the default drafters")
    add("--judge", type=Path, help="accept tokens by a judge (train-judge): texts are no longer the same")
    add("--temperature", type=float, default=0.0, help="of the answers (0: greedy)")
    add("--seed", type=int, default=1_000_003, help="of the requests; another one than that of the training")
    add(
        "--scaling",
        action="store_true",
        help="fit how tokens per pass grow with training data and size, over at least 3 drafters of one kind",
    )
    add("--json", action="store_true", help="print the figures as JSON")
    add("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(run=with_options(_evaluate))


def _evaluate(arguments: argparse.Namespace) -> int:
    with needed("structgen draft", "transformers"):
        from structgen.draft_training.evaluation import evaluate_drafters
        from structgen.generation.options import make_options
        from structgen.speculative import Speculation
        from structgen.speculative.learned import load_drafter, load_judge

    if arguments.requests < 1:
        raise InputError("--requests is a number above 0")
    check_request_options(arguments)
    make_options({"temperature": arguments.temperature})
    if arguments.scaling:
        _scaling(arguments.weights, [1.0] * len(arguments.weights))  # before anything is measured
    check_files(drafters=arguments.weights, judge=arguments.judge, prompts=arguments.prompts)
    check_any_base(arguments.weights, any_base=arguments.any_base)
    model = model_of(arguments)
    drafters = [load_drafter(path, model, any_base=arguments.any_base) for path in arguments.weights]
    judge = None if arguments.judge is None else load_judge(arguments.judge, model)
    asked = list(itertools.islice(requests_of(model, arguments), arguments.requests))
    if not asked:
        raise InputError("there is no request to answer")
    found = [
        evaluate_drafters(
            model,
            asked,
            [drafter] if arguments.alone else [*Speculation().drafters, drafter],
            verifier=judge,
            temperature=arguments.temperature,
            seed=arguments.seed,
            progress=not arguments.quiet,
        )
        for drafter in drafters
    ]
    scaling = None
    if arguments.scaling:
        scaling = _scaling(arguments.weights, [_tokens_per_pass(each) for each in found])
    print((_json if arguments.json else _text)(arguments.weights, found, scaling))
    return 0


@dataclass(frozen=True)
class _Scaling:
    fit: ScalingFit
    last_only: list[Path]
    """The drafters of which only the tokens of their last training are known."""


def _scaling(paths: list[Path], values: list[float]) -> _Scaling:
    """Fit values of drafters over their training data and their sizes."""
    from structgen.draft_training.scaling import Point, fit_scaling
    from structgen.speculative.learned import load_weights
    from structgen.speculative.learned.acceptance import network_tensors

    points, kinds, last_only = [], set(), []
    for path, value in zip(paths, values, strict=True):
        weights = load_weights(path)
        tokens = weights.notes.get("all_tokens")
        if not isinstance(
            tokens, int
        ):  # a file of an earlier version, or one whose training started from such a file
            tokens = weights.notes.get("tokens")
            last_only.append(path)
        if not isinstance(tokens, int):
            raise InputError(
                f"{path} does not contain the number of tokens that the drafter was trained on",
                hint="Use files that `structgen draft train` wrote.",
            )
        size = sum(tensor.numel() for tensor in network_tensors(weights).values())
        points.append(Point(tokens, size, value))
        kinds.add(weights.kind)
    if len(kinds) > 1:
        raise InputError(f"a fit compares drafters of one kind, and these are {' and '.join(sorted(kinds))}")
    return _Scaling(fit_scaling(points), last_only)


def _tokens_per_pass(found: list[Evaluation]) -> float:
    return sum(each.tokens for each in found) / max(1, sum(each.passes for each in found))


def _json(paths: list[Path], found: list[list[Evaluation]], scaling: _Scaling | None) -> str:
    """Return the figures of one drafter as a list; of several as an object, with the fit if there is one."""
    figures = [[_figures(each) for each in kinds] for kinds in found]
    if len(paths) == 1:
        return json.dumps(figures[0], indent=2)
    whole: dict[str, Any] = {
        "drafters": [
            {"file": str(path), "tokens_per_pass": round(_tokens_per_pass(kinds), 3), "kinds": each}
            for path, kinds, each in zip(paths, found, figures, strict=True)
        ]
    }
    if scaling is not None:
        fit = scaling.fit
        whole["scaling"] = {
            name: None
            if slope is None
            else [round(slope.estimate, 4), round(slope.low, 4), round(slope.high, 4)]
            for name, slope in (("data", fit.data), ("size", fit.size))
        }
        whole["scaling"]["outlook"] = fit.outlook()
        whole["scaling"]["last_training_only"] = [str(path) for path in scaling.last_only]
    return json.dumps(whole, indent=2)


def _text(paths: list[Path], found: list[list[Evaluation]], scaling: _Scaling | None) -> str:
    if len(paths) == 1:
        return _table(found[0])
    parts = [
        f"{path}: {_tokens_per_pass(kinds):.2f} tokens per pass\n{_table(kinds)}"
        for path, kinds in zip(paths, found, strict=True)
    ]
    if scaling is not None:
        parts.append(f"{scaling.fit.sentences()}\n{scaling.fit.outlook()}")
        if scaling.last_only:
            parts.append(
                "These files state the tokens of their last training only. What they learned from before, if anything, "
                f"is not counted: {', '.join(map(str, scaling.last_only))}"
            )
    return "\n\n".join(parts)


def _figures(found: Evaluation) -> dict[str, Any]:
    low, high = found.speed_interval()
    return {
        "kind": found.kind,
        "requests": len(found.ratios),
        "tokens_per_pass": round(found.tokens_per_pass, 3),
        "speed": round(found.speed, 3),
        "speed_interval": [round(low, 3), round(high, 3)],
        "drafted": found.drafted,
        "accepted": found.accepted,
        "acceptance_by_position": [round(share, 3) for share in found.acceptance()],
        "same_texts": found.same,
    }


def _table(found: list[Evaluation]) -> str:
    lines = [
        "kind           requests  tokens/pass  times as fast (95 %)   accepted, by position  same texts",
    ]
    for each in found:
        low, high = each.speed_interval()
        shares = " ".join(f"{share:.0%}" for share in each.acceptance()[:4]) or "no draft"
        lines.append(
            f"{each.kind:<14.14} {len(each.ratios):>8}  {each.tokens_per_pass:>11.2f}  "
            f"{each.speed:>5.2f} ({low:.2f} to {high:.2f})    {shares:<21}  {each.same} of {len(each.ratios)}"
        )
    return "\n".join(lines)
