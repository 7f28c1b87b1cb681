"""Compare vLLM with and without drafts of the plugin on the same requests, in one engine, alternately.

    PYTHON -m bench.vllm_serving.paired [--concurrency 1 4 16] [--requests 48] [--rounds 2] [--grammar-drafts 8]

PYTHON is an environment that has vLLM and structgen. The requests are those of `bench.vllm_serving` without wrong ones
and tools. One thread computes, and tokens per second of its CPU time are compared, since these depend little on other
work of the machine. The plugin measures the engine's steps by the same clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from bench.command import argument_parser

from .cases import MAX_TOKENS, Case, draw_cases
from .offline import make_engine, prompt_of, sampling_of

_PROMPT = "Write something short."


def main() -> int:
    parser = argument_parser("bench.vllm_serving.paired", __doc__)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--requests", type=int, default=48, help="per round; fewer if fewer run at a time")
    parser.add_argument(
        "--warm-up", type=int, default=32, help="requests before the first round, with drafts"
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--grammar-drafts", type=int, default=8)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--kinds", nargs="*", default=[], help="of requests; all by default")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    engine = make_engine(options.grammar_drafts)
    switch = _Switch(engine)
    drawn = draw_cases(4000, options.seed, 0.0, seeded=False)
    cases = [
        case for case in drawn if case.kind_and_spec and (not options.kinds or case.kind in options.kinds)
    ]
    _serve(engine, [cases.pop() for _ in range(options.warm_up)], 32, options.temperature)
    for concurrency in options.concurrency:
        count = max(8, options.requests * min(concurrency, 16) // 16)
        speeds: dict[bool, list[float]] = {True: [0.0, 0.0], False: [0.0, 0.0]}
        before = switch.counts()
        for number in range(options.rounds):
            batch = [cases.pop() for _ in range(count)]
            for is_on in (number % 2 == 0, number % 2 == 1):
                switch.is_on = is_on
                tokens, seconds = _serve(engine, batch, concurrency, options.temperature)
                speeds[is_on][0] += tokens
                speeds[is_on][1] += seconds
        drafted, accepted = (after - earlier for after, earlier in zip(switch.counts(), before, strict=True))
        on, off = (tokens / seconds for tokens, seconds in (speeds[True], speeds[False]))
        print(
            f"{concurrency:3} at a time: {on:.1f} tokens per CPU second with drafts, {off:.1f} without, "
            f"{on / off:.2f} times; {speeds[True][0]:.0f} and {speeds[False][0]:.0f} tokens; {accepted} of {drafted} "
            "draft tokens accepted",
            flush=True,
        )
    return 0


class _Switch:
    """Turns the drafts of an engine on and off."""

    def __init__(self, engine: Any) -> None:
        self.is_on = True
        manager = engine.engine_core.engine_core.structured_output_manager
        from structgen.integrations.vllm.patches import _drafts_of

        self._drafts = _drafts_of(manager)
        self._drafts.clock = time.process_time
        original = self._drafts.draft_all

        def draft_all(texts: Sequence[Any]) -> list[list[int]]:
            if self.is_on:
                found: list[list[int]] = original(texts)
                return found
            return [[] for _ in texts]

        self._drafts.draft_all = draft_all

    def counts(self) -> tuple[int, int]:
        """Return the numbers of draft tokens and of accepted ones."""
        return self._drafts.counts.tokens, self._drafts.counts.accepted


def _serve(engine: Any, cases: Sequence[Case], concurrency: int, temperature: float) -> tuple[int, float]:
    """Serve the cases, so many at a time; return the number of tokens and the seconds."""
    prompt, waiting, running, tokens = prompt_of(engine, _PROMPT), list(cases), 0, 0
    seconds = 0.0
    while waiting or running:
        while waiting and running < concurrency:
            params = sampling_of(waiting.pop(), temperature=temperature, max_tokens=MAX_TOKENS)
            engine.add_request(str(time.monotonic_ns()), prompt, params)
            running += 1
        begin = time.process_time()
        done = [output for output in engine.step() if output.finished]
        seconds += time.process_time() - begin
        running -= len(done)
        tokens += sum(len(output.outputs[0].token_ids) for output in done)
    return tokens, seconds


if __name__ == "__main__":
    sys.exit(main())
