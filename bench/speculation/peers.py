"""Compare our speed with unconstrained text and with `transformers` and its prompt look-up.

    python -m bench.speculation.peers [--tasks NAME ...] [--dtype float32|bfloat16] [--threads N] [--runs N]

Every request is answered greedily in each of these modes, each time in another order:

    ours             constrained, default settings
    ours, plain      constrained, one token at a time (`speculate=False`)
    free, plain      the same prompt without a constraint, one token at a time, as many tokens
    transformers     `model.generate` with our `ConstraintProcessor`
    prompt look-up   the same with `prompt_lookup_num_tokens=10`

The report shows the tokens per second after the prompt, and the ratio of ours to each of the others, as median and
quartiles over requests. The time of `generate` excludes the prompt: the fastest of three generations of one token is
subtracted.

Results: docs/speculation.md, "Measured: speed by task".
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import structgen as sg
from bench.command import argument_parser
from structgen.generation import SamplingOptions, generate_tokens
from structgen.integrations.transformers import ConstraintProcessor
from structgen.speculative import Speculation, default_drafters

from .tasks import TASKS, Request, requests

__all__ = ["main"]

Rate = Callable[[Request], float]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.speculation.peers", __doc__)
    parser.add_argument("--tasks", nargs="+", default=["extraction"], choices=list(TASKS))
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=1)
    chosen = parser.parse_args(arguments)
    model = sg.load(threads=chosen.threads, dtype=chosen.dtype)
    order = random.Random(0)
    print(
        f"{chosen.dtype}\n\n"
        "| task | mode | tokens a second | ours is times as fast | quartiles |\n|---|---|--:|--:|--:|"
    )
    for task in chosen.tasks:
        asked = [request for request in requests(task) if request.constraint is not None]
        modes = _modes(model, asked[0])
        rates_by_mode: dict[str, list[float]] = {mode: [] for mode in modes}
        for _ in range(chosen.runs):
            for request in asked:
                for mode in order.sample(list(modes), len(modes)):
                    rates_by_mode[mode].append(modes[mode](request))
        for mode, rates in rates_by_mode.items():
            ratios = [mine / theirs for mine, theirs in zip(rates_by_mode["ours"], rates, strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            print(
                f"| {task} | {mode} | {statistics.median(rates):.1f} | {middle:.2f} | {low:.2f} to {high:.2f} |"
            )


def _modes(model: Any, first: Request) -> dict[str, Rate]:
    warm = Speculation(default_drafters(model))
    _ours(model, first, warm)
    speculation = Speculation(default_drafters(model))
    speculation.costs = warm.costs
    return {
        "ours": lambda request: _ours(model, request, speculation),
        "ours, plain": lambda request: _ours(model, request, None),
        "free, plain": lambda request: _ours(model, request, None, free=True),
        "transformers": lambda request: _theirs(model, request, {}),
        "prompt look-up": lambda request: _theirs(model, request, {"prompt_lookup_num_tokens": 10}),
    }


def _ours(model: Any, request: Request, speculation: Speculation | None, *, free: bool = False) -> float:
    matcher = None if free or request.constraint is None else sg.Matcher(request.constraint, model.vocabulary)
    drafting = None if speculation is None else speculation.start(model)
    options = SamplingOptions(temperature=0, max_tokens=request.tokens, exact_weight=False)
    (generation,) = generate_tokens(
        model, [model.encode(request.prompt)], [matcher], options, drafting=drafting
    )
    return generation.timing.tokens_per_second(len(generation.tokens))


def _theirs(model: Any, request: Request, options: dict[str, Any]) -> float:
    import torch

    ids = torch.tensor([model.encode(request.prompt)])

    def generate(most: int, given: dict[str, Any]) -> tuple[int, float]:
        processor = ConstraintProcessor(request.constraint, model.vocabulary, prompt_length=ids.shape[1])
        started = time.perf_counter()
        with torch.inference_mode():
            output = model.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                logits_processor=[processor],
                do_sample=False,
                max_new_tokens=most,
                pad_token_id=model.vocabulary.eos_ids[0],
                **given,
            )
        return output.shape[1] - ids.shape[1], time.perf_counter() - started

    prompt = min(generate(1, {})[1] for _ in range(3))
    tokens, seconds = generate(request.tokens, options)
    return tokens / max(1e-9, seconds - prompt)


if __name__ == "__main__":
    main()
