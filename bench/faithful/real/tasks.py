"""The tasks: a conversation, the constraint of the answer, and a judge of the answer.

A constraint is written so that genlm-control reads it too: a regular expression, a JSON Schema, or a grammar that has
the same texts with and without a lexer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import jsonschema_rs

import structgen as sg
from structgen.constraints.base import Constraint

from .shop import SCHEMA, open_shop, runs

__all__ = ["TASKS", "Task"]

Kind = Literal["regex", "lark", "json"]


@dataclass(frozen=True)
class Task:
    """One task; `turns` are what the user and the model said in turn, the last one the user's."""

    name: str
    turns: tuple[str, ...]
    kind: Kind
    source: str
    max_tokens: int
    judged_by: str
    judge: Callable[[str], bool]

    @property
    def messages(self) -> list[dict[str, str]]:
        """The conversation as a prompt."""
        return [
            {"role": "assistant" if number % 2 else "user", "content": turn}
            for number, turn in enumerate(self.turns)
        ]

    @cached_property
    def constraint(self) -> Constraint:
        """Return the constraint of the answer."""
        match self.kind:
            case "regex":
                return sg.regex(self.source)
            case "lark":
                return sg.lark(self.source, lexer="longest")
        return sg.json_schema(json.loads(self.source))


def _read(name: str) -> str:
    return (Path(__file__).parent / name).read_text("utf-8")


def _is_molecule(text: str) -> bool:
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        return Chem.MolFromSmiles(text) is not None


_PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 24},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "city": {"type": "string", "maxLength": 24},
    },
    "required": ["name", "age", "city"],
    "additionalProperties": False,
}
_IS_PERSON = jsonschema_rs.validator_for(_PERSON)
_DATE = "(19|20)[0-9][0-9]-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_SHOP = open_shop()


def _is_person(text: str) -> bool:
    try:
        return _IS_PERSON.is_valid(json.loads(text))
    except ValueError:
        return False


TASKS = (
    Task(
        "json",
        (
            "Extract the person as JSON with name, age and city: Maria Lopez, 34, lives in Madrid.",
            '{"name": "Maria Lopez", "age": 34, "city": "Madrid"}',
            "Extract the person as JSON with name, age and city: In Boston I met John Smith, who is 41.",
        ),
        "json",
        json.dumps(_PERSON),
        40,
        "jsonschema",
        _is_person,
    ),
    Task(
        "molecule",
        ("A SMILES string, nothing else.", "CC(=O)O", "Another one.", "c1ccccc1O", "Another one."),
        "lark",
        _read("molecule.lark"),
        24,
        "RDKit",
        _is_molecule,
    ),
    Task(
        "date",
        (
            "When did people land on the moon? Answer as YYYY-MM-DD.",
            "1969-07-20",
            "When did the Berlin Wall fall? Answer as YYYY-MM-DD.",
        ),
        "regex",
        _DATE,
        14,
        "re",
        lambda text: re.fullmatch(_DATE, text) is not None,
    ),
    Task(
        "query",
        (
            f"Write a SQL query for the tables {SCHEMA}. Who earns more than 5000?",
            "SELECT name FROM staff WHERE salary > 5000;",
            "How much was sold in 2024?",
            "SELECT SUM(amount) FROM orders WHERE year = 2024;",
            "Who lives in Rome?",
        ),
        "lark",
        _read("query.lark"),
        32,
        "SQLite",
        lambda text: runs(_SHOP, text),
    ),
)
