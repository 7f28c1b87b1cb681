"""Requests to the model: prompts with their constraints, in seven tasks.

extraction   JSON under long schemas from short texts: four schemas, three texts each
repeated     one long schema, ten texts
tool calls   a turn that must call one of four tools, in the hermes format
sql          queries on a small database
code         Python under the grammar of the shelf, in a code block
embedded     free text that ends in a JSON answer
free text    no constraint
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

import structgen as sg
from structgen.tools import instructions
from structgen.types import output_type

__all__ = ["EXTRACTED", "TASKS", "Request", "extraction_prompt", "requests"]

Text = Annotated[str, Field(max_length=120)]


class Person(BaseModel):
    full_name: Text
    age: int
    occupation: Text
    city_of_residence: Text
    country_of_residence: Text
    languages_spoken: Annotated[list[Text], Field(max_length=5)]
    is_currently_employed: bool
    years_of_experience: int | None


class Address(BaseModel):
    street: Text
    postal_code: Text
    city: Text
    country: Text


class Order(BaseModel):
    customer_name: Text
    shipping_address: Address
    product_description: Text
    quantity_of_items: int
    total_price: float
    currency: Literal["EUR", "USD", "GBP"]
    gift_wrapping_requested: bool
    delivery_method: Literal["standard", "express", "pickup"]


class Speaker(BaseModel):
    name: Text
    affiliation: Text


class Event(BaseModel):
    event_title: Text
    event_type: Literal["conference", "workshop", "concert", "meeting"]
    start_date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    end_date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    location: Text
    keynote_speakers: Annotated[list[Speaker], Field(max_length=3)]
    registration_fee: float
    maximum_participants: int


class Review(BaseModel):
    product_name: Text
    manufacturer: Text
    overall_rating: Annotated[int, Field(ge=1, le=5)]
    positive_aspects: Annotated[list[Text], Field(max_length=3)]
    negative_aspects: Annotated[list[Text], Field(max_length=3)]
    would_recommend: bool
    summary: Text


_TEXTS: dict[str, list[str]] = json.loads(
    (Path(__file__).resolve().parents[1] / "data" / "speculation" / "texts.json").read_text("utf-8")
)
PEOPLE = _TEXTS["people"]
MORE_PEOPLE = _TEXTS["more_people"]
ORDERS = _TEXTS["orders"]
EVENTS = _TEXTS["events"]
REVIEWS = _TEXTS["reviews"]
DATABASE = "users(id, name, age, country), orders(id, user_id, product, price, created)"
QUESTIONS = _TEXTS["questions"]
FUNCTIONS = _TEXTS["functions"]
CALLS = _TEXTS["calls"]
SUMS = _TEXTS["sums"]
TOPICS = _TEXTS["topics"]


def temperature(city: Text, unit: Literal["celsius", "fahrenheit"] = "celsius") -> str:
    """Tell the temperature in a city."""
    return f"{city} {unit}"


def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


def send_email(recipient: Text, subject: Text, body: Text) -> None:
    """Send an email."""


def search_library(query: Text, sort_by: Literal["relevance", "newest"], max_results: int) -> str:
    """Search the library."""
    return query


class Answer(BaseModel):
    numerical_result: float
    unit_of_measurement: Text
    is_exact: bool


@dataclass(frozen=True)
class Request:
    """One generation."""

    prompt: Any
    constraint: sg.Constraint | None
    tokens: int
    """Maximum number of tokens."""


EXTRACTED: tuple[tuple[type[BaseModel], list[str]], ...] = (
    (Person, PEOPLE),
    (Order, ORDERS),
    (Event, EVENTS),
    (Review, REVIEWS),
)
"""Kinds of records, and texts that describe one."""


def extraction_prompt(kind: type[BaseModel], text: str) -> str:
    """Return the prompt that requests a record from a text."""
    return f"Extract the {kind.__name__.lower()} from this text as JSON.\n\n{text}"


def _extraction() -> list[Request]:
    return [
        Request(extraction_prompt(kind, texts[index]), output_type(kind).constraint, 200)
        for index in range(3)  # schemas in turn, so that none is repeated at once
        for kind, texts in EXTRACTED
    ]


def _repeated() -> list[Request]:
    constraint = output_type(Person).constraint
    texts = (*PEOPLE, *MORE_PEOPLE)
    return [
        Request(f"Extract the person from this text as JSON.\n\n{text}", constraint, 200) for text in texts
    ]


def _tool_calls() -> list[Request]:
    turn = sg.tools([temperature, add, send_email, search_library], tool_choice="required", parallel=False)
    system = {"role": "system", "content": instructions(turn.tools, turn.format)}
    return [Request([system, {"role": "user", "content": text}], turn, 120) for text in CALLS]


def _sql() -> list[Request]:
    query = sg.grammar(
        "sql",
        start="select",
        tables=["users", "orders"],
        columns=["id", "name", "age", "country", "user_id", "product", "price", "created"],
        functions=["count", "max", "min", "sum", "avg"],
    )
    return [Request(f"Tables: {DATABASE}\nWrite one SQL query: {text}", query, 80) for text in QUESTIONS]


def _code() -> list[Request]:
    python = "```python\n" + sg.grammar("python") + "```"
    return [Request(f"{text} Answer with code only.", python, 150) for text in FUNCTIONS]


def _embedded() -> list[Request]:
    kind = sg.text("```", max_chars=300) + "```json\n" + output_type(Answer).constraint + "\n```"
    return [
        Request(
            f"{text} Explain in a sentence or two, then give the result as JSON in a code block.", kind, 150
        )
        for text in SUMS
    ]


def _free_text() -> list[Request]:
    return [Request(text, None, 120) for text in TOPICS]


TASKS: dict[str, Callable[[], list[Request]]] = {
    "extraction": _extraction,
    "repeated": _repeated,
    "tool calls": _tool_calls,
    "sql": _sql,
    "code": _code,
    "embedded": _embedded,
    "free text": _free_text,
}


@cache
def requests(task: str) -> list[Request]:
    """Return the requests of a task; their constraints are made once."""
    return TASKS[task]()
