"""Generation with drafts and without: the same tokens, in what time.

usage: python -m bench.speculation [--tasks NAME ...] [--runs N] [--batch N] [--dtype float32|bfloat16] [--threads N]
                                   [--temperature T]

Each prompt is answered in turn plainly and with drafts, in one process. Told of each way: the time of a token after the
prompt, as a ratio to plain (plain's over its own: more is faster; median over prompts and runs), tokens a forward pass,
the share of drafted tokens that was drawn, what drafting takes beside the model, and whether the tokens are the same.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

import structgen as sg
from structgen.sampling import Generation, SamplingOptions, generate_tokens
from structgen.speculative.controllers import Fixed, Goodput
from structgen.speculative.drafters import ForcedBytes, PromptLookup
from structgen.speculative.driver import Speculation
from structgen.types import output_type

__all__ = ["main"]


class Person(BaseModel):
    name: str
    age: int
    occupation: str
    city: str
    languages: list[str]


class Order(BaseModel):
    customer_name: str
    shipping_address: str
    delivery_country: str
    product_description: str
    quantity_of_items: int
    total_price_in_euros: float
    gift_wrapping_requested: bool


PEOPLE = (
    "Maria Lindqvist, a 42-year-old marine biologist from Gothenburg, speaks Swedish, English and Portuguese.",
    "Tom Baker is 31 and works as a carpenter in Leeds. He speaks English and a little French.",
    "Dr. Aiko Tanaka (57), a surgeon in Osaka, speaks Japanese, English and German.",
)
ORDERS = (
    "Hello, this is Anna Berg from 5 Harbour Road, Bergen, Norway. Please send me three blue woollen blankets, 120 "
    "euros in all, wrapped as a gift.",
    "I am John Smith, 12 Mill Lane, York, United Kingdom, and I would like 2 copper kettles for 89.90 euros. No gift "
    "wrapping, please.",
)
QUESTIONS = ("How many users are there?", "Which users are older than 30?", "What is the oldest user called?")
TOPICS = ("Why is the sea salty?", "Describe how bread is baked.", "Tell me about the city of Lisbon.")


def tasks() -> dict[str, list[tuple[str, sg.Constraint | None]]]:
    """Prompts with their constraints, by the name of the task."""
    person, order = output_type(Person).constraint, output_type(Order).constraint
    columns = ["id", "name", "age"]
    query = sg.grammar("sql", start="select", tables=["users"], columns=columns, functions=["count", "max"])
    return {
        "json": [
            (f"Extract the person as JSON with name, age, occupation, city and languages: {text}", person)
            for text in PEOPLE
        ],
        "long schema": [(f"Extract the order as JSON: {text}", order) for text in ORDERS],
        "sql": [(f"Write an SQL query on users(id, name, age): {text}", query) for text in QUESTIONS],
        "free text": [(text, None) for text in TOPICS],
    }


@dataclass
class Tally:
    """Of one way to generate."""

    ratios: list[float] = field(default_factory=list)
    tokens: int = 0
    passes: int = 0
    drafted: int = 0
    taken: int = 0
    seconds: float = 0.0
    drafting: float = 0.0
    same: bool = True


WAYS: dict[str, Callable[[Any, Goodput], Speculation | None]] = {
    "plain": lambda model, control: None,
    "forced bytes": lambda model, control: Speculation(model.vocabulary, [ForcedBytes()], control),
    "look-up": lambda model, control: Speculation(model.vocabulary, [PromptLookup()], control),
    "both": lambda model, control: Speculation(model.vocabulary, None, control),
    "both, 7 at a time": lambda model, control: Speculation(model.vocabulary, None, Fixed(), 7),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.speculation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    every = tasks()
    parser.add_argument("--tasks", nargs="+", default=list(every), choices=list(every))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--tokens", type=int, default=120)
    chosen = parser.parse_args(arguments)
    model = sg.load(threads=chosen.threads, dtype=chosen.dtype)
    print(f"{chosen.dtype}, batch {chosen.batch}, temperature {chosen.temperature:g}\n")
    print("| task | drafts | times as fast | tokens a pass | taken | drafting | same tokens |")
    print("|---|---|--:|--:|--:|--:|---|")
    for task in chosen.tasks:
        told = measured(model, every[task], chosen)
        for way, tally in told.items():
            print(
                f"| {task} | {way} | {statistics.median(tally.ratios):.2f} | {tally.tokens / tally.passes:.2f} | "
                f"{tally.taken / max(1, tally.drafted):.0%} | {tally.drafting / tally.seconds:.1%} | "
                f"{'yes' if tally.same else 'no'} |",
                flush=True,
            )


def measured(model: Any, prompts: list[tuple[str, sg.Constraint | None]], chosen: Any) -> dict[str, Tally]:
    """Every way on every prompt, in turn; what passes cost is known from one prompt to the next."""
    told = {way: Tally() for way in WAYS}
    control = {way: Goodput() for way in WAYS}
    for run in range(chosen.runs + 1):  # the first one warms up
        for prompt, constraint in prompts:
            plain: list[Generation] = []
            for way, make in WAYS.items():
                costs = control[way].costs
                drafting = make(model, Goodput(costs))
                found = generated(model, prompt, constraint, drafting, chosen, run)
                seconds = found[0].timing.total - found[0].timing.prompt
                plain = plain or found
                own = plain[0].timing.total - plain[0].timing.prompt
                if run == 0:
                    continue
                tally = told[way]
                tally.ratios.append(own / seconds)
                tally.same &= [one.tokens for one in found] == [one.tokens for one in plain]
                tally.tokens += sum(len(one.tokens) for one in found)
                tally.passes += max(1, found[0].timing.forward_passes) * len(found)
                tally.seconds += seconds
                tally.drafting += found[0].timing.drafting
                if drafting is not None:
                    tally.drafted += drafting.drafted
                    tally.taken += drafting.taken
    return told


def generated(
    model: Any,
    prompt: str,
    constraint: sg.Constraint | None,
    drafting: Speculation | None,
    chosen: Any,
    seed: int,
) -> list[Generation]:
    """One batch of the same prompt."""
    ids = model.encode(prompt)
    matchers = [
        None if constraint is None else sg.Matcher(constraint, model.vocabulary) for _ in range(chosen.batch)
    ]
    options = SamplingOptions(
        temperature=chosen.temperature, seed=seed, max_tokens=chosen.tokens, exact_weight=False
    )
    return generate_tokens(model, [ids] * chosen.batch, matchers, options, drafting=drafting)


if __name__ == "__main__":
    main()
