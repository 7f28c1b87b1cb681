"""``make demo``: a typed object from a real language model, streamed, with what the constraint costs.

Why: one command that shows the whole path on a fresh machine: type, automaton, masks, model, object.
How it measures: seconds per token after the prompt, best of several runs that take turns, because a small
machine is never quiet. Constrained text is drawn token by token here, so that both sides do the same work;
the last line of the table is what people get by default, when tokens that are the only choice are committed
without being drawn.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any, cast

from pydantic import BaseModel, Field

import structgen as sg
from structgen.constraints.base import Constraint
from structgen.generation import Generation, SamplingOptions, generate_tokens
from structgen.matcher import Matcher, compile_constraint
from structgen.models.hugging_face import HuggingFaceModel
from structgen.prompts import PromptFunction
from structgen.protocols import Prompt
from structgen.types import output_type

__all__ = ["main"]

TEXT = (
    "Maria Lindqvist, a 42-year-old marine biologist from Gothenburg, speaks Swedish, English and Portuguese. "
    "She joined the Kristineberg station in 2011."
)
_RUNS = 3
_LENGTH = 60


class Person(BaseModel):
    """What the demo extracts."""

    name: str = Field(pattern=r"^[A-Z][a-z]+( [A-Z][a-z]+){1,2}$")
    age: int = Field(ge=0, le=130)
    occupation: str = Field(pattern=r"^[a-z]+( [a-z]+){0,3}$")
    city: str = Field(pattern=r"^[A-Z][a-z]+( [A-Z][a-z]+)?$")
    languages: list[str] = Field(min_length=1, max_length=5)


def main() -> int:
    """Load, stream, print, measure."""
    print(
        "Loading the embedded model (SmolLM2-135M-Instruct; the first time it is converted, about 20 s) ..."
    )
    started = time.perf_counter()
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    model = sg.load()
    print(
        f"  loaded in {time.perf_counter() - started:.1f} s: {model.vocabulary.size:,} tokens, {model.device}\n"
    )

    @sg.prompt(model, max_tokens=200)
    def extract(text: str) -> Person:  # type: ignore[empty-body]
        """Extract the person from this text as JSON.

        {{ text }}
        """

    print(f"Text:\n  {TEXT}\n\nStreaming a {Person.__name__}:")
    value = _stream(extract)
    print(f"\nThe object, validated:\n  {value!r}\n")
    _measure(model, extract.render(TEXT))
    return 0


def _stream(extract: PromptFunction[Person]) -> Person | None:
    """Print the partial objects as they grow, on one line of a terminal, or only the last one elsewhere."""
    value: Any = None  # a partial object, and in the end a `Person`
    for value in extract.stream(TEXT):
        if sys.stdout.isatty():
            shown = value.model_dump_json(exclude_none=True)
            print(f"\r\033[K  {shown[-100:]}", end="", flush=True)
    if value is not None:
        print(f"\r  {value.model_dump_json()}")
    return cast("Person | None", value)


def _measure(model: HuggingFaceModel, prompt: Prompt) -> None:
    constraint = output_type(Person).constraint
    ids = model.encode(prompt)

    def draw(constrained: bool, options: SamplingOptions) -> Generation:
        matcher = Matcher(constraint, model.vocabulary) if constrained else None
        return generate_tokens(model, [ids], [matcher], options)[0]

    sides: dict[str, Callable[[], Generation]] = {
        "unconstrained": lambda: draw(False, SamplingOptions(max_tokens=_LENGTH)),
        "constrained, every token drawn": lambda: draw(True, SamplingOptions(forced=False)),
        "constrained": lambda: draw(True, SamplingOptions(exact_weight=False)),
    }
    print(f"What that costs, {len(sides) * _RUNS} texts of at most {_LENGTH} tokens ...", flush=True)
    best: dict[str, tuple[float, Generation]] = {}
    for _ in range(_RUNS):
        for name, side in sides.items():
            generation = side()
            speed = generation.timing.tokens_per_second(len(generation.tokens))
            if name not in best or speed > best[name][0]:
                best[name] = speed, generation
    print(f"{'':32}tokens/s   tokens   model calls")
    for name, (speed, generation) in best.items():
        print(f"  {name:30}{speed:8.1f} {len(generation.tokens):8} {generation.timing.forward_passes:13}")
    compiled, first, again = _constraint_times(model, constraint, best["constrained"][1].tokens)
    print(f"\n  constraint compiled in {1e3 * compiled:.2f} ms")
    print(f"  mask time per token: {first:.1f} µs when first met, {again:.1f} µs when met before")


def _constraint_times(
    model: HuggingFaceModel, constraint: Constraint, tokens: list[int]
) -> tuple[float, float, float]:
    """Return seconds to compile, and microseconds per mask along `tokens`, cold and warm, in a fresh vocabulary."""
    known = model.vocabulary
    texts = [known.token_bytes(token) for token in range(known.size)]
    vocabulary = sg.Vocabulary.from_tokens(texts, known.eos_ids, size=known.size)
    vocabulary.engine  # noqa: B018  (built here: once per tokenizer, not per constraint)
    started = time.perf_counter()
    compile_constraint(constraint, vocabulary)
    compiled = time.perf_counter() - started
    times = []
    for _ in range(2):
        matcher = Matcher(constraint, vocabulary)
        spent = 0.0
        for token in tokens:
            started = time.perf_counter()
            matcher.mask()
            spent += time.perf_counter() - started
            matcher.advance(token)
        times.append(1e6 * spent / max(1, len(tokens)))
    return compiled, times[0], times[1]


if __name__ == "__main__":
    sys.exit(main())
