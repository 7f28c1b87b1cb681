"""Time to the first token of requests whose prompts begin alike, on `structgen serve`.

    python -m bench.server_prefix [--tokens 1000] [--rounds 8]

In each round, a first request brings a new system prompt of about so many tokens, and a second one has the same system
prompt and another question. The second one reads the difference only. docs/server.md has the figures. The exit status
is 1 if a second answer differs from that of a server without the cache.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

from bench.command import argument_parser

from .clients import client_of
from .server_process import key, model_of, serve

__all__ = ["main"]

_WORDS = [
    "harbour",
    "ledger",
    "orchard",
    "copper",
    "lantern",
    "meadow",
    "signal",
    "timber",
    "voyage",
    "winter",
    "quarry",
    "basket",
    "ribbon",
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argument_parser("bench.server_prefix", __doc__)
    parser.add_argument("--tokens", type=int, default=1000, help="about so many tokens of the system prompt")
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args(arguments)
    with serve() as cached, serve("--prefix-bytes 0") as whole:
        first, second, differing = asyncio.run(
            _measure(cached.url, whole.url, options.tokens, options.rounds)
        )
    ratio = statistics.median(first) / statistics.median(second)
    print(
        f"median time to the first token: {statistics.median(first) * 1e3:.0f} ms for the first request, "
        f"{statistics.median(second) * 1e3:.0f} ms for the second: {ratio:.1f} times as fast; "
        f"{differing} of {options.rounds} answers differ from those without the cache"
    )
    return 1 if differing else 0


async def _measure(cached: str, whole: str, tokens: int, rounds: int) -> tuple[list[float], list[float], int]:
    """Return the times to the first token of first and second requests, and how many second answers differ."""
    draw = random.Random(0)
    first: list[float] = []
    second: list[float] = []
    differing = 0
    async with client_of(cached, key()) as (one, _), client_of(whole, key()) as (other, _):
        name, other_name = await model_of(one), await model_of(other)
        for number in range(rounds + 1):
            system = f"Rules {number}: " + " ".join(draw.choice(_WORDS) for _ in range(tokens))
            seconds, _text = await _first_token(one, name, system, "Name a colour.")
            again, text = await _first_token(one, name, system, "Name an animal.")
            _, expected = await _first_token(other, other_name, system, "Name an animal.")
            if number:  # the first round warms up
                first.append(seconds)
                second.append(again)
                differing += text != expected
    return first, second, differing


async def _first_token(client: Any, model: str, system: str, question: str) -> tuple[float, str]:
    """Return the time to the first token, in seconds, and the answer."""
    started = time.perf_counter()
    stream = await client.chat.completions.create(
        model=model,
        messages=[{"role": "system", "content": system}, {"role": "user", "content": question}],
        temperature=0,
        max_tokens=12,
        stream=True,
    )
    seconds, pieces = 0.0, []
    async for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            seconds = seconds or time.perf_counter() - started
            pieces.append(chunk.choices[0].delta.content)
    return seconds, "".join(pieces)


if __name__ == "__main__":
    raise SystemExit(main())
