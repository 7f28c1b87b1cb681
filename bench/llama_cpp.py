"""Measure tokens per second of llama-cpp-python: unconstrained, with structgen, and with llama.cpp's own grammars.

    python -m bench.llama_cpp [--gguf FILE] [--rounds 5] [--tokens 96] [--threads 2]

All three write the same number of tokens after the same prompts, greedily. They take turns in each round, so that a
busy machine affects all of them. The report shows medians over rounds and prompts: wall time and CPU time (of all
threads) of one token after the first, and the ratio to the time without a constraint, paired by round and prompt. The
schema requires more items than fit, so that no text ends early. llama.cpp's own converter makes its grammar from the
same schema.

Results: docs/llama-cpp.md, "Measured".
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.command import argument_parser

__all__ = ["main"]

SCHEMA = {
    "type": "array",
    "minItems": 40,
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer"},
            "city": {"enum": ["Paris", "Rome", "Oslo"]},
        },
        "required": ["name", "age", "city"],
        "additionalProperties": False,
    },
}
PROMPTS = ("People as JSON: ", "A JSON list of members of the team: ", "Passengers, written as JSON: ")
Times = tuple[float, float]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.llama_cpp", __doc__)
    parser.add_argument("--gguf", help="a model (default: the embedded one)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--threads", type=int, default=2)
    chosen = parser.parse_args(arguments)
    import llama_cpp

    import structgen as sg
    from structgen.integrations.llama_cpp import logits_processor
    from structgen.models.embedded import embedded_gguf

    path = Path(chosen.gguf) if chosen.gguf else embedded_gguf()[0]
    llama = llama_cpp.Llama(str(path), n_ctx=1024, n_threads=chosen.threads, verbose=False)
    began = time.perf_counter()
    processors = logits_processor(sg.json_schema(SCHEMA), llama)
    ready = time.perf_counter() - began
    grammar = llama_cpp.LlamaGrammar.from_json_schema(json.dumps(SCHEMA), verbose=False)
    engines: dict[str, dict[str, Any]] = {
        "unconstrained": {},
        "structgen": {"logits_processor": processors},
        "llama.cpp's grammar": {"grammar": grammar},
    }
    times_by_engine: dict[str, list[Times]] = {name: [] for name in engines}
    for number in range(chosen.rounds + 1):
        for prompt in PROMPTS:
            for name, options in engines.items():
                measured = _per_token(llama, prompt, chosen.tokens, options)
                if number:  # the first round warms up
                    times_by_engine[name].append(measured)
    print(
        f"{path.name}, {chosen.threads} threads, {chosen.tokens} tokens, {chosen.rounds} rounds of 3 prompts;"
    )
    print(f"vocabulary and constraint ready in {ready * 1e3:.0f} ms")
    print("| | ms a token | tokens/s | CPU ms a token | time, to unconstrained |")
    print("|---|--:|--:|--:|--:|")
    free = times_by_engine["unconstrained"]
    for name, times in times_by_engine.items():
        wall = statistics.median(each[0] for each in times)
        cpu = statistics.median(each[1] for each in times)
        ratio = statistics.median(each[0] / other[0] for each, other in zip(times, free, strict=True))
        print(f"| {name} | {wall * 1e3:.2f} | {1 / wall:.1f} | {cpu * 1e3:.2f} | {ratio:.2f} |")


def _per_token(llama: Any, prompt: str, tokens: int, options: dict[str, Any]) -> Times:
    """Return seconds of wall and CPU time per token, after the first."""
    ids = llama.tokenize(prompt.encode())
    ends = {llama.token_eos()}
    stream = llama.generate(ids, temp=0.0, reset=True, **options)
    next(stream)
    wall, cpu = time.perf_counter(), time.process_time()
    count = 0
    for token in stream:
        count += 1
        if count == tokens:
            break
        assert token not in ends or not options, "the text ended although the schema requires more items"
    return (time.perf_counter() - wall) / count, (time.process_time() - cpu) / count


if __name__ == "__main__":
    main()
