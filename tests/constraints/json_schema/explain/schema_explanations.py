"""The explanation of a text under a JSON Schema, with a vocabulary of single bytes."""

from __future__ import annotations

from typing import Any

from structgen.constraints.json_schema import json_schema
from structgen.explanation import Explanation
from structgen.matcher import Matcher
from tests.core.small_vocabulary import byte_vocabulary

__all__ = ["explain"]


def explain(schema: Any, text: str, **options: Any) -> Explanation:
    """Return the explanation of `text` under a schema."""
    return Matcher(json_schema(schema, **options), byte_vocabulary()).explain(text)
