"""Requests for records as JSON: the model writes a text about a thing, and then reads a request for the record in it.

Why: under a schema a model copies names and numbers out of a prompt, and chooses between the members that the schema
allows. A drafter that has seen free text alone guesses little of this.
What: each request has a schema of its own: some members of one of the kinds of things below, in their order. The text
is the model's, so such requests need no data either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from structgen.constraints.json_schema import json_schema
from structgen.generation import SamplingOptions, generate_tokens

from .texts import Request

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel

__all__ = ["record_requests"]

_STRING: dict[str, Any] = {"type": "string", "maxLength": 120}
_NUMBER: dict[str, Any] = {"type": "number"}
_WHOLE: dict[str, Any] = {"type": "integer"}
_TRUTH: dict[str, Any] = {"type": "boolean"}
_LIST: dict[str, Any] = {"type": "array", "items": _STRING, "maxItems": 4}
_DATE: dict[str, Any] = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"}
_RATED: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": 10}
_WHO: dict[str, Any] = {
    "type": "object",
    "properties": {"name": _STRING, "role": _STRING},
    "required": ["name", "role"],
    "additionalProperties": False,
}
_WHERE: dict[str, Any] = {
    "type": "object",
    "properties": {"city": _STRING, "country": _STRING},
    "required": ["city", "country"],
    "additionalProperties": False,
}


def _one_of(*values: str) -> dict[str, Any]:
    return {"enum": list(values)}


_THINGS: dict[str, dict[str, dict[str, Any]]] = {
    "company": {
        "company_name": _STRING, "founded_in": _WHOLE, "headquarters": _WHERE, "industry": _STRING,
        "number_of_employees": _WHOLE, "products": _LIST, "is_public": _TRUTH, "founder": _WHO,
    },
    "book": {
        "title": _STRING, "author": _STRING, "year": _WHOLE, "genre": _STRING, "number_of_pages": _WHOLE,
        "main_characters": _LIST, "setting": _STRING, "format": _one_of("hardcover", "paperback", "e-book"),
    },
    "film": {
        "title": _STRING, "director": _STRING, "released": _WHOLE, "genres": _LIST, "cast": {"type": "array",
        "items": _WHO, "maxItems": 3}, "length_in_minutes": _WHOLE, "plot": _STRING, "rating": _RATED,
    },
    "recipe": {
        "name": _STRING, "servings": _WHOLE, "ingredients": _LIST, "cooking_minutes": _WHOLE,
        "difficulty": _one_of("easy", "medium", "hard"), "is_vegetarian": _TRUTH, "steps": _LIST, "cuisine": _STRING,
    },
    "city": {
        "name": _STRING, "country": _STRING, "population": _WHOLE, "rivers": _LIST, "is_capital": _TRUTH,
        "famous_for": _STRING, "climate": _STRING, "sights": _LIST,
    },
    "flight": {
        "airline": _STRING, "flight_number": _STRING, "origin": _STRING, "destination": _STRING, "date": _DATE,
        "seat_class": _one_of("economy", "business", "first"), "price": _NUMBER, "stops": _WHOLE, "is_delayed": _TRUTH,
    },
    "job": {
        "job_title": _STRING, "employer": _STRING, "location": _WHERE, "salary": _NUMBER, "required_skills": _LIST,
        "contract": _one_of("full-time", "part-time", "freelance"), "remote": _TRUTH, "years_required": _WHOLE,
    },
    "car": {
        "brand": _STRING, "model": _STRING, "year": _WHOLE, "color": _STRING, "mileage": _NUMBER,
        "fuel": _one_of("petrol", "diesel", "electric", "hybrid"), "number_of_doors": _WHOLE, "price": _NUMBER,
    },
    "apartment": {
        "street": _STRING, "city": _STRING, "rooms": _WHOLE, "area_in_square_meters": _NUMBER, "rent": _NUMBER,
        "furnished": _TRUTH, "floor": _WHOLE, "nearby": _LIST, "available_from": _DATE,
    },
    "course": {
        "course_title": _STRING, "teacher": _WHO, "level": _one_of("beginner", "intermediate", "advanced"),
        "weeks": _WHOLE, "topics": _LIST, "fee": _NUMBER, "online": _TRUTH, "begins": _DATE,
    },
    "animal": {
        "species": _STRING, "habitat": _STRING, "diet": _one_of("carnivore", "herbivore", "omnivore"),
        "weight_in_kilograms": _NUMBER, "lifespan_in_years": _NUMBER, "is_endangered": _TRUTH, "features": _LIST,
    },
    "song": {
        "song_title": _STRING, "artist": _STRING, "album": _STRING, "year": _WHOLE, "seconds": _WHOLE,
        "instruments": _LIST, "mood": _STRING, "language": _STRING,
    },
    "invoice": {
        "invoice_number": _STRING, "seller": _STRING, "buyer": _STRING, "issued_on": _DATE, "items": _LIST,
        "total": _NUMBER, "currency": _one_of("EUR", "USD", "GBP", "JPY"), "paid": _TRUTH,
    },
    "patient": {
        "patient_name": _STRING, "age": _WHOLE, "symptoms": _LIST, "diagnosis": _STRING, "medication": _LIST,
        "temperature": _NUMBER, "severity": _one_of("mild", "moderate", "severe"), "needs_surgery": _TRUTH,
    },
    "football match": {
        "home_team": _STRING, "away_team": _STRING, "home_goals": _WHOLE, "away_goals": _WHOLE, "stadium": _STRING,
        "scorers": _LIST, "spectators": _WHOLE, "weather": _STRING,
    },
    "hotel": {
        "hotel_name": _STRING, "address": _WHERE, "stars": _WHOLE, "price_per_night": _NUMBER, "amenities": _LIST,
        "has_pool": _TRUTH, "check_in": _STRING, "guests": _WHOLE,
    },
    "country": {
        "name": _STRING, "capital": _STRING, "population": _WHOLE, "languages": _LIST, "currency": _STRING,
        "continent": _one_of("Africa", "Asia", "Europe", "North America", "South America", "Oceania"), "exports": _LIST,
    },
    "phone": {
        "brand": _STRING, "model": _STRING, "screen_inches": _NUMBER, "storage_gigabytes": _WHOLE, "colors": _LIST,
        "price": _NUMBER, "waterproof": _TRUTH, "battery_hours": _NUMBER, "problems": _LIST,
    },
    "task": {
        "title": _STRING, "assigned_to": _STRING, "due": _DATE, "priority": _one_of("low", "normal", "high", "urgent"),
        "done": _TRUTH, "hours_estimated": _NUMBER, "tags": _LIST, "project": _STRING,
    },
    "scientist": {
        "name": _STRING, "born": _WHOLE, "nationality": _STRING, "field": _STRING, "discoveries": _LIST,
        "awards": _LIST, "university": _STRING, "is_alive": _TRUTH,
    },
    "bridge": {
        "name": _STRING, "river": _STRING, "length_in_meters": _NUMBER, "opened": _WHOLE, "architect": _STRING,
        "kind": _one_of("arch", "beam", "cable-stayed", "suspension"), "toll": _TRUTH, "city": _STRING,
    },
    "accident": {
        "place": _STRING, "date": _DATE, "vehicles": _LIST, "number_injured": _WHOLE, "cause": _STRING,
        "witnesses": {"type": "array", "items": _WHO, "maxItems": 2}, "police_called": _TRUTH, "damage": _NUMBER,
    },
}  # fmt: skip
_ASKS = (
    "Extract the {thing} as JSON from the following text.\n\n{text}",
    "Read this text, and write down the {thing} as JSON.\n\n{text}",
    "{text}\n\nGive me the {thing} in this text as a JSON object.",
    "Here is a text about a {thing}:\n\n{text}\n\nFill in the record.",
    "Text: {text}\nTurn it into JSON.",
)
_MOST_TEXT = 110
"""The largest number of tokens of a text about a thing."""
_MOST_RECORD = 180


def record_requests(model: LanguageModel, batch: int, seed: tuple[int, ...]) -> list[Request]:
    """Let the model write texts about things, and return requests for the records in them.

    Args:
        model: The model.
        batch: The number of requests.
        seed: Another one gives other requests.
    """
    rng = np.random.default_rng(seed)
    chosen = [_record(rng) for _ in range(batch)]
    asked = [
        f"Write a short text about a {thing}. Mention these details: "
        + ", ".join(name.replace("_", " ") for name in schema["properties"])
        + "."
        for thing, schema in chosen
    ]
    options = [
        SamplingOptions(temperature=0.8, top_k=80, seed=(*seed, row), max_tokens=_MOST_TEXT)
        for row in range(batch)
    ]
    written = generate_tokens(model, [list(model.encode(each)) for each in asked], [None] * batch, options)
    requests = []
    for (thing, schema), answer in zip(chosen, written, strict=True):
        text = model.vocabulary.decode(answer.tokens).decode("utf-8", "ignore").strip()
        ask = str(rng.choice(_ASKS)).format(thing=thing, text=text)
        requests.append(
            Request(list(model.encode(ask)), "JSON", json_schema(schema), {"schema": schema}, _MOST_RECORD)
        )
    return requests


def _record(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """Return a kind of thing, and a schema of four to eight of its members."""
    thing = str(rng.choice(list(_THINGS)))
    members = _THINGS[thing]
    count = int(rng.integers(4, 1 + min(8, len(members))))
    kept = np.sort(rng.permutation(len(members))[:count])
    names = [list(members)[place] for place in kept]
    return thing, {
        "type": "object",
        "properties": {name: members[name] for name in names},
        "required": names,
        "additionalProperties": False,
    }
