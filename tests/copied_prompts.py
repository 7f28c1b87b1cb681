"""Prompt functions at the top level of a module, as the tests of pickling and of processes import them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

import structgen as sg
from tests.remote.http_server import small_model

model = small_model()


class Person(BaseModel):
    name: str
    age: int


@sg.prompt(model, max_tokens=200, seed=4)
def extract(text: str) -> Person:
    """Extract {{ text }}"""


def never(value: int) -> int:
    """Refuse every number."""
    raise ValueError("never right")


@sg.prompt(model, max_tokens=9, seed=1)
def refused(text: str) -> Annotated[int, Field(ge=0, le=9), AfterValidator(never)]:
    """{{ text }}"""


@dataclass
class Agent:
    name: str

    @sg.prompt(model, max_tokens=50)
    def ask(self, question: str) -> bool:
        """{{ self.name }}, {{ question }}"""


def renamed() -> object:
    """A prompt function that its module does not know by its name."""

    @sg.prompt(model)
    def inner(text: str) -> bool:
        """{{ text }}"""

    return inner
