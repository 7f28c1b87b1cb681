"""What is asked of the model: prompts with their constraints, in seven kinds.

extraction   JSON under long schemas from short texts: four schemas, three texts each
repeated     one long schema, ten texts
tool calls   a turn that must call one of four tools, in the hermes format
sql          queries on a small database
code         Python under the grammar of the shelf, in a code block
embedded     free text that ends in a JSON answer
free text    no constraint
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

import structgen as sg
from structgen.tools import instructions
from structgen.types import output_type

__all__ = ["TASKS", "Request", "requests"]

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


PEOPLE = (
    "Maria Lindqvist, a 42-year-old marine biologist from Gothenburg in Sweden, speaks Swedish, English and "
    "Portuguese. She has worked at the institute for fifteen years.",
    "Tom Baker is 31 and works as a carpenter in Leeds, United Kingdom. He speaks English and a little French and has "
    "been in the trade since he was nineteen.",
    "Dr. Aiko Tanaka (57), a surgeon in Osaka, Japan, retired last spring after 30 years. She speaks Japanese, English "
    "and German.",
)
MORE_PEOPLE = (
    "Pedro Alvarez, 38, teaches chemistry at a school in Valencia, Spain. He speaks Spanish, Catalan and English and "
    "has taught for twelve years.",
    "Fatima Haddad is a 29-year-old architect in Casablanca, Morocco. She speaks Arabic, French and English. She is "
    "between jobs after five years with a large firm.",
    "Jonas Weber (63) drives a bus in Hamburg, Germany. German is his only language. He has been driving for 35 years.",
    "Grace Kim, 34, is a software engineer from Seoul, South Korea, with ten years of experience. She speaks Korean "
    "and English, and works for a bank.",
    "Olga Petrova is 51. She is a violinist in Riga, Latvia, speaks Latvian, Russian and German, and has played in the "
    "opera for 27 years.",
    "Samuel Okafor, a nurse of 45 in Lagos, Nigeria, speaks English, Igbo and Yoruba. He has worked in the same "
    "hospital for twenty years.",
    "Ingrid Larsen (25) has just become a pilot. She lives in Oslo, Norway, and speaks Norwegian, English and Spanish.",
)
ORDERS = (
    "Hello, this is Anna Berg from 5 Harbour Road, 5003 Bergen, Norway. Please send me three blue woollen blankets by "
    "express, 120 euros in all, wrapped as a gift.",
    "I am John Smith, 12 Mill Lane, YO1 7HX York, United Kingdom, and I would like 2 copper kettles for 89.90 pounds. "
    "No gift wrapping, and standard delivery will do.",
    "Carla Rossi here. I will pick up the espresso machine I ordered, 349 dollars, myself. My address for the invoice "
    "is Via Roma 8, 20121 Milano, Italy.",
)
EVENTS = (
    "The Conference on Ocean Acoustics takes place in Lisbon from 2025-06-03 to 2025-06-06. Keynotes are given by Ines "
    "Duarte (University of Porto) and Mark Olsen (NOAA). The fee is 420 euros, and there is room for 350 participants.",
    "Join our workshop Baking with Sourdough on 2024-11-16 at the Old Mill in Ghent. Baker Lieve Peeters of De Trog "
    "shows how it is done. It costs 65 euros; at most 12 people can take part.",
    "On 2026-03-21 the Riga Chamber Choir, led by Janis Ozols, sings in St. Peter's Church. Tickets for the concert "
    "are 25 euros. The church has 600 seats.",
)
REVIEWS = (
    "I bought the TrailLite 40 backpack by Northpeak for a trip through the Alps. It is light, and the straps are very "
    "comfortable, but the zip broke on the third day. Three stars; I would still recommend it.",
    "The Aroma Pro coffee maker from Bellini makes excellent coffee and is easy to clean. The water tank is too small "
    "for our family. All in all, five out of five.",
    "Avoid the QuickVac 200 by Homely: it is loud, the battery lasts ten minutes, and the filter is hard to find. The "
    "only good thing is its price. One star.",
)
DATABASE = "users(id, name, age, country), orders(id, user_id, product, price, created)"
QUESTIONS = (
    "How many users are there?",
    "List the names of all users older than 30, the oldest first.",
    "What is the total price of all orders of each user?",
    "Which products did users from Norway order?",
    "What is the average price of the orders for each product, for products with more than ten orders?",
)
FUNCTIONS = (
    "Write a Python function that returns the n-th Fibonacci number.",
    "Write a Python function that counts the vowels in a string.",
    "Write a Python function that returns the largest number in a list without using max.",
    "Write a Python class for a bank account with deposit and withdraw methods.",
)
CALLS = (
    "What is the temperature in Paris in celsius?",
    "Please add 12 and 30.",
    "Send an email to kim@example.org with the subject Invoice and tell them that it has been paid.",
    "Search the library for books on medieval bridges, newest first, at most five.",
)
SUMS = (
    "A baker makes 24 rolls and sells 17 of them. How many are left?",
    "A train goes 80 kilometres an hour for three hours. How far does it go?",
    "Ann is 12 and her brother is four years older. How old is he?",
)
TOPICS = (
    "Why is the sea salty?",
    "Describe how bread is baked.",
    "Tell me about the city of Lisbon.",
    "Write a short story about a lighthouse keeper.",
)


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
    """At most so many."""


def _extraction() -> list[Request]:
    kinds: tuple[tuple[Any, tuple[str, ...]], ...] = (
        (Person, PEOPLE),
        (Order, ORDERS),
        (Event, EVENTS),
        (Review, REVIEWS),
    )
    found = []
    for place in range(3):  # schemas in turn, so that none is repeated at once
        for kind, texts in kinds:
            prompt = f"Extract the {kind.__name__.lower()} from this text as JSON.\n\n{texts[place]}"
            found.append(Request(prompt, output_type(kind).constraint, 200))
    return found


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
    """Those of one task; their constraints are made once."""
    return TASKS[task]()
