"""``structgen draft evaluate``: measure a learned drafter."""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structgen.extras import needed

from .draft_inputs import add_model, model_of, requests_of
from .inputs import InputError

if TYPE_CHECKING:
    from structgen.draft_training.evaluation import Evaluation

__all__ = ["add_evaluate"]


def add_evaluate(actions: Any) -> None:
    """Add ``evaluate`` to the actions."""
    parser = actions.add_parser(
        "evaluate",
        help="measure tokens per pass, acceptance and speed",
        description="Answer requests with and without the drafter, and report tokens per pass, acceptance by "
        "position, and how many times faster the answers come.",
    )
    add = parser.add_argument
    add("weights", type=Path, help="the weights")
    add_model(parser)
    add("--prompts", type=Path, help="JSON lines with prompts; without, the model writes its own")
    add("--requests", type=int, default=24, help="how many requests (24)")
    add("--alone", action="store_true", help="without the default drafters")
    add("--temperature", type=float, default=0.0, help="of the answers (0: greedy)")
    add("--seed", type=int, default=1_000_003, help="of the requests; another one than that of the training")
    add("--json", action="store_true", help="print the figures as JSON")
    add("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(run=_evaluate)


def _evaluate(arguments: argparse.Namespace) -> int:
    with needed("structgen draft", "transformers"):
        from structgen.draft_training.evaluation import evaluate_drafters
        from structgen.speculative import Speculation
        from structgen.speculative.learned import load_drafter

    model = model_of(arguments)
    if arguments.requests < 1:
        raise InputError("--requests is a number above 0")
    drafter = load_drafter(arguments.weights, model)
    drafters = [drafter] if arguments.alone else [*Speculation().drafters, drafter]
    asked = itertools.islice(requests_of(model, arguments.prompts, arguments.seed), arguments.requests)
    found = evaluate_drafters(
        model,
        asked,
        drafters,
        temperature=arguments.temperature,
        seed=arguments.seed,
        progress=not arguments.quiet,
    )
    if not found:
        raise InputError("there is no request to answer")
    print(json.dumps([_figures(each) for each in found], indent=2) if arguments.json else _table(found))
    return 0


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
