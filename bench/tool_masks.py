"""Measure each mask of whole calls of one of 400 tools, when it is filled for the first time.

    python -m bench.tool_masks [--tools 400] [--sets 5] [--calls 20] [--tokenizer DIRECTORY]

Each set of tools is generated (`bench.tool_growth` says how) and compiled in an engine of its own, so that no mask of
it is known. Then calls of random tools are read token by token, and the mask is filled before each token. A mask is
cold if no earlier call of the set had the same state; the calls share their beginnings, so most masks of the later ones
are partly known. The first mask of a set is counted apart: servers fill it when they compile.

Times are milliseconds of CPU time of one thread. `work` is the largest work that the core counted for one mask, in
milliseconds at 20 ns a unit (docs/core.md); it is the same on every machine.

Results: docs/performance.md, "Tools".
"""

from __future__ import annotations

import gc
import json
import random
import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

from bench.command import argument_parser
from bench.schemas.generated import tools
from bench.schemas.mcp_tools import all_tools
from bench.tokenizers import vocabulary_of
from structgen import _core
from structgen.constraints.json_schema import json_schema
from structgen.vocabulary import Vocabulary

__all__ = ["main"]

_UNIT = 20e-9
"""Seconds of one unit of work."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argument_parser("bench.tool_masks", __doc__)
    parser.add_argument("--tools", type=int, default=400)
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument(
        "--tokenizer", metavar="DIRECTORY", help="a Hugging Face tokenizer; by default the embedded one"
    )
    options = parser.parse_args(arguments)
    vocabulary = vocabulary_of(options.tokenizer)
    gc.collect()
    gc.freeze()
    first: list[_Mask] = []
    later: list[_Mask] = []
    for number in range(options.sets):
        source = random.Random(number)
        own = vocabulary.with_limits(**vocabulary.limits)
        masks = _masks_of_a_set(own, source, options.tools, options.calls)
        first.append(masks[0])
        later += masks[1:]
    gc.unfreeze()
    print("masks", "number", "median", "p99", "maximum", "work", sep=" | ")
    for name, masks in (("first of a set", first), ("later", later)):
        times = sorted((mask.seconds for mask in masks), reverse=True)
        values = (
            statistics.median(times),
            times[len(times) // 100],
            times[0],
            max(mask.work for mask in masks),
        )
        print(name, len(times), *(f"{value * 1e3:.2f}" for value in values), sep=" | ")
    for mask in sorted(later, reverse=True)[:3]:
        print(f"{mask.seconds * 1e3:.2f} ms after {mask.text[-60:]!r}")
    return 0


class _Mask(NamedTuple):
    """One mask that was filled."""

    seconds: float
    work: float
    text: str
    """The text before it."""


def _masks_of_a_set(vocabulary: Vocabulary, source: random.Random, count: int, calls: int) -> list[_Mask]:
    """Return each mask of calls of one set of tools."""
    listed = tools(source, count)
    texts = [
        json_schema(all_tools([tool])).example_text(seed)
        for seed, tool in enumerate(source.choices(listed, k=calls))
    ]
    program = vocabulary.engine.compile(json_schema(json.dumps(all_tools(listed))).lower())
    found = []
    for text in texts:
        matcher, written = _core.Matcher(program), ""
        for token in [*(vocabulary.encode(text) or ()), None]:
            work, started = _core.work_done(), time.thread_time()
            matcher.mask()
            seconds = time.thread_time() - started
            found.append(_Mask(seconds, (_core.work_done() - work) * _UNIT, written))
            if token is not None:
                if not matcher.advance(token):
                    raise RuntimeError(f"a token of a call was refused after {written!r}")
                written += (vocabulary.token_bytes(token) or b"").decode(errors="replace")
    return found


if __name__ == "__main__":
    raise SystemExit(main())
