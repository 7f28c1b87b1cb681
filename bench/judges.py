"""Independent judges of validity: jsonschema-rs with formats asserted, and the exact slow validator of `tests`.

A verdict of this library only counts against judges that share no code with it. jsonschema-rs is fast and widely used,
but it reads numbers as doubles, some formats loosely, and formats of later drafts not at all. The slow validator is
exact; it is called only where the first one disagrees.

Invariant: `Judge.rejects` is true only if the last judge with a verdict has the opposite one. Cost: jsonschema-rs is
compiled once for each schema; the slow validator runs only where it is needed.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import jsonschema_rs

from tests.oracles.json_validator import SchemaError, Validator

__all__ = ["Judge"]


def _no_network(uri: str) -> Any:
    raise ValueError(f"{uri} was not supplied")


class Judge:
    """The judges of one schema; None where a judge cannot read the schema or the value."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    def fast(self, value: Any) -> bool | None:
        """Return the verdict of jsonschema-rs on plain Python data."""
        if self._fast is None:
            return None
        try:
            return bool(self._fast.is_valid(value))
        except (ValueError, OverflowError, RecursionError):  # a number beyond its range, a reference missing
            return None

    def exact(self, text: str) -> bool | None:
        """Return the slow validator's verdict on the text, with formats asserted in every draft, as structgen does."""
        if self._exact is None:
            return None
        try:
            return self._exact.accepts(text)
        except (SchemaError, RecursionError):
            return None

    def rejects(self, verdict: bool, text: str) -> bool:
        """Return whether the judges contradict `verdict` on `text`."""
        fast = self.fast(_plain(text))
        if fast is verdict:
            return False
        exact = self.exact(text)
        return (fast if exact is None else exact) is (not verdict)

    @cached_property
    def _fast(self) -> Any:
        try:
            return jsonschema_rs.validator_for(self._schema, validate_formats=True, retriever=_no_network)
        except (ValueError, OverflowError, jsonschema_rs.ReferencingError):
            return None

    @cached_property
    def _exact(self) -> Validator | None:
        try:
            return Validator(self._schema, formats=True, later_formats=True)
        except (SchemaError, ValueError, TypeError, AttributeError):
            return None  # a document that is not a schema may raise any of these


def _plain(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        return None
