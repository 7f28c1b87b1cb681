"""Compare learned drafters of one model, each alone: tokens per forward pass, paired over prompts.

    python -m bench.speculation.drafters FIRST OTHER ... [--prompts N] [--tokens N] [--length N]
        [--dtype float32|bfloat16]

Each drafter answers the same prompts greedily, without a constraint. At each step it drafts a sequence of ``--length``
tokens. The report shows the mean over prompts of tokens per forward pass, and for each further file its ratio to the
first one, with a 95 % bootstrap interval over prompts. Draft models use their last exit. Times are not measured, so a
busy machine changes nothing.

Results: docs/learned-drafts.md, "Measured".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import structgen as sg
from bench.command import argument_parser
from structgen.generation import SamplingOptions, generate_tokens
from structgen.speculative import Fixed, Speculation
from structgen.speculative.learned import load_drafter, load_weights

from ..records import progress
from .equality import prompts as all_prompts

__all__ = ["main", "ratio_interval", "table", "tokens_per_pass"]

_PROMPTS = 100
_DRAWS = 4000


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.speculation.drafters", __doc__)
    parser.add_argument("files", nargs="+", type=Path, help="weights; the others are compared with the first")
    parser.add_argument("--prompts", type=int, default=20, help=f"at most {_PROMPTS} (20)")
    parser.add_argument("--tokens", type=int, default=48, help="the most tokens of an answer (48)")
    parser.add_argument("--length", type=int, default=3, help="draft tokens at each step (3)")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--threads", type=int, default=2)
    chosen = parser.parse_args(arguments)
    if not 2 <= chosen.prompts <= _PROMPTS:
        parser.error(f"--prompts is {chosen.prompts}; it is a number from 2 to {_PROMPTS}")
    model = sg.load(threads=chosen.threads, dtype=chosen.dtype)
    rates = {
        str(path): tokens_per_pass(
            model, path, prompts=chosen.prompts, tokens=chosen.tokens, length=chosen.length
        )
        for path in chosen.files
    }
    print(table(rates))


def tokens_per_pass(model: Any, path: Path, *, prompts: int, tokens: int, length: int) -> NDArray[np.float64]:
    """Return the tokens per forward pass of each answer, with drafts of a drafter alone.

    Args:
        model: The model.
        path: The drafter's file.
        prompts: The number of prompts.
        tokens: The most tokens of an answer.
        length: Draft tokens at each step.
    """
    options: dict[str, Any] = {"confidence": 1.0} if load_weights(path).kind == "layers" else {}
    drafter = load_drafter(path, model, least=0.0, **options)
    speculation = Speculation([drafter], controller=Fixed(length), branching=False, depth=length)
    sampling = SamplingOptions(temperature=0, max_tokens=tokens, exact_weight=False)
    asked = all_prompts(_PROMPTS)[:: _PROMPTS // prompts][:prompts]
    found = []
    for prompt in progress(asked, path.stem):
        (generation,) = generate_tokens(
            model, [model.encode(prompt)], [None], sampling, drafting=speculation.start(model)
        )
        found.append(len(generation.tokens) / max(1, generation.timing.forward_passes))
    return np.array(found)


def table(rates: Mapping[str, NDArray[np.float64]]) -> str:
    """Return a table of drafters, each compared with the first one.

    Args:
        rates: By the drafters' names, see `tokens_per_pass`; of the same prompts.
    """
    lines = ["| drafter | tokens a pass | times the first one | 95 % interval |", "|---|--:|--:|--:|"]
    first = next(iter(rates.values()))
    for name, found in rates.items():
        compared = " | "
        if found is not first:
            low, high = ratio_interval(found, first)
            compared = f"{found.mean() / first.mean():.3f} | {low:.3f} to {high:.3f}"
        lines.append(f"| {name} | {found.mean():.3f} | {compared} |")
    return "\n".join(lines)


def ratio_interval(
    rates: NDArray[np.float64], others: NDArray[np.float64], seed: int = 0
) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the ratio of two means over the same prompts."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, len(rates), (_DRAWS, len(rates)))
    ratios = rates[drawn].mean(1) / others[drawn].mean(1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(low), float(high)


if __name__ == "__main__":
    main()
