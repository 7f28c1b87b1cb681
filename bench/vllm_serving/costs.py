"""Measure how long a step of vLLM takes, by its rows and draft tokens.

    PYTHON -m bench.vllm_serving.costs [--rows 1 4 16] [--drafts 0 1 2 4 8] [--repeats 12]

PYTHON is an environment that has vLLM and structgen. One thread computes, and its CPU time is measured, so that other
work on the machine disturbs little. The steps with different drafts alternate. Each row writes a long text under a
constraint, and its draft tokens are random ones that the constraint allows.
"""

from __future__ import annotations

import random
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from bench.command import argument_parser

from .offline import make_engine, prompt_of

PARTS = ("forward", "logits", "sampler", "masks")


def main() -> int:
    parser = argument_parser("bench.vllm_serving.costs", __doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--drafts", type=int, nargs="+", default=[0, 1, 2, 4, 8], help="per row")
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--temperature", type=float, default=1.0)
    options = parser.parse_args()
    engine = make_engine(max(options.drafts))
    spent = _time_parts(engine)
    print("rows  drafts per row  ms of the fastest step  of them", *PARTS)
    for rows in options.rows:
        found = _steps(engine, rows, options, spent)
        for drafts in options.drafts:
            total, parts = min(found[drafts], key=lambda one: one[0])
            listed = "  ".join(f"{1e3 * parts[part]:.1f}" for part in PARTS)
            print(f"{rows:4}  {drafts:14}  {1e3 * total:22.1f}  {listed}", flush=True)
    return 0


def _steps(
    engine: Any, rows: int, options: Any, spent: dict[str, float]
) -> dict[int, list[tuple[float, dict[str, float]]]]:
    """Return the times of steps of `rows` rows, by the number of draft tokens of each row."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    core = engine.engine_core.engine_core
    params = SamplingParams(
        temperature=options.temperature,
        max_tokens=1500,
        structured_outputs=StructuredOutputsParams(regex=r"([a-z ]|\n){1500,}"),
    )
    names = [f"{rows} {number}" for number in range(rows)]
    for name in names:
        engine.add_request(name, prompt_of(engine, "Write a story."), params)
    while len(core.scheduler.running) < rows:
        engine.step()
        time.sleep(0.01)
    tokens = [engine.get_tokenizer().encode(text)[0] for text in (" a", " b")]
    found: dict[int, list[tuple[float, dict[str, float]]]] = {drafts: [] for drafts in options.drafts}
    for _ in range(options.repeats):
        for drafts in options.drafts:
            _draft_always(core, tokens, drafts)
            engine.step()  # its drafts are of the time before
            spent.clear()
            begin = time.process_time()
            engine.step()
            found[drafts].append((time.process_time() - begin, defaultdict(float, spent)))
    engine.abort_request(names)
    while engine.has_unfinished_requests():
        engine.step()
    return found


def _draft_always(core: Any, tokens: Sequence[int], count: int) -> None:
    """Let the engine draft so many of these tokens for each row, at random."""

    def draft_all(texts: Sequence[Any]) -> list[list[int]]:
        return [random.choices(tokens, k=count) for _ in texts]

    core.structured_output_manager._structgen_drafts.draft_all = draft_all


def _time_parts(engine: Any) -> dict[str, float]:
    """Time the parts of each step; return their seconds since it was cleared last."""
    from vllm.v1.worker import gpu_model_runner

    core = engine.engine_core.engine_core
    runner = core.model_executor.driver_worker.worker.model_runner
    spent: dict[str, float] = defaultdict(float)

    def time_part(owner: Any, name: str, part: str) -> None:
        original = getattr(owner, name)

        def timed(*args: Any, **options: Any) -> Any:
            begin = time.process_time()
            try:
                return original(*args, **options)
            finally:
                spent[part] += time.process_time() - begin

        setattr(owner, name, timed)

    time_part(runner, "_model_forward", "forward")
    time_part(runner.model, "compute_logits", "logits")
    time_part(runner, "_sample", "sampler")
    time_part(core.scheduler, "get_grammar_bitmask", "masks")
    time_part(gpu_model_runner, "apply_grammar_bitmask", "masks")
    return spent


if __name__ == "__main__":
    sys.exit(main())
