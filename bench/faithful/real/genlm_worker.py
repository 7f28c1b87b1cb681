"""genlm-control in its own Python, because it needs other versions of the installed packages.

    PYTHON genlm_worker.py MODEL_FOLDER

A request is a line of JSON on standard input: tokens of the prompt, type and source of the condition, sampler,
particles, maximum of tokens, seed. The reply has texts, their log weights, seconds, rows that the model read, and calls
of the condition. The module imports nothing of structgen.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

__all__: list[str] = []


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    import numpy as np
    import torch
    from genlm.control import AWRS, EOS, BoolCFG, BoolFSA, JsonSchema, Potential, PromptedLLM

    class Counted(Potential):  # type: ignore[misc]
        """A condition that counts its calls."""

        def __init__(self, condition: Any) -> None:
            super().__init__(condition.vocab)
            self.condition = condition
            self.asked = 0

        async def prefix(self, context: Any) -> Any:
            self.asked += 1
            return await self.condition.prefix(context)

        async def complete(self, context: Any) -> Any:
            self.asked += 1
            return await self.condition.complete(context)

        async def batch_prefix(self, contexts: Any) -> Any:
            self.asked += len(contexts)
            return await self.condition.batch_prefix(contexts)

        async def batch_complete(self, contexts: Any) -> Any:
            self.asked += len(contexts)
            return await self.condition.batch_complete(contexts)

    class Model(PromptedLLM):  # type: ignore[misc]
        rows = 0

        async def logw_next(self, context: Any) -> Any:
            self.rows += 1
            return await super().logw_next(context)

        async def batch_logw_next(self, contexts: Any) -> Any:
            self.rows += len(contexts)
            return await super().batch_logw_next(contexts)

    kinds = {
        "regex": BoolFSA.from_regex,
        "lark": BoolCFG.from_lark,
        "json": lambda source: JsonSchema(json.loads(source)),
    }
    model = Model.from_name(sys.argv[1], backend="hf")

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        np.random.seed(request["seed"])
        torch.manual_seed(request["seed"])
        model.prompt_ids = request["prompt"]
        model.rows = 0
        if hasattr(model.model, "clear_cache"):
            model.model.clear_cache()
        condition = Counted(kinds[request["kind"]](request["source"]).coerce(model, f=b"".join))
        sampler = AWRS(model, condition, seed=request["seed"])
        started = time.perf_counter()
        particles = request["particles"] if request["sampler"] == "smc" else 1
        runs = 1 if request["sampler"] == "smc" else request["particles"]
        weighted = []
        for _ in range(runs):
            sequences = await sampler.smc(
                n_particles=particles,
                ess_threshold=0.5 if request["sampler"] == "smc" else 0.0,
                max_tokens=request["max_tokens"],
            )
            weighted += list(sequences)
            if time.perf_counter() - started > request["seconds"]:
                break
        seconds = time.perf_counter() - started
        draws = []
        for context, weight in weighted:
            if context and context[-1] is EOS and weight > -float("inf"):
                pieces = [getattr(token, "byte_string", token) for token in context[:-1]]
                draws.append([b"".join(map(bytes, pieces)).decode("utf-8", "replace"), float(weight)])
        return {
            "draws": draws,
            "tried": len(weighted),
            "seconds": seconds,
            "calls": model.rows,
            "checks": condition.asked,
        }

    for line in sys.stdin:
        try:
            result = asyncio.run(answer(json.loads(line)))
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"[:300]}
        answers.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
