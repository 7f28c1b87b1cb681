"""A type of answers, a text of it, and the dialects of a server that enforces all."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

__all__ = ["ALL", "RIGHT", "Person"]

ALL = frozenset({"structured_outputs", "json_schema", "json_object"})


class Person(BaseModel):
    name: Annotated[str, Field(max_length=20, pattern="^[a-z]+$")]
    age: Annotated[int, Field(ge=0, le=150)]


RIGHT = '{"name": "ann", "age": 31}'
