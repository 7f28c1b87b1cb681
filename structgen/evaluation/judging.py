"""Judge validity by jsonschema-rs with formats asserted.

Why not the data's labels: some are wrong. Why not structgen's own validator: it must not judge itself.
Invariant: the judgement is None where jsonschema-rs is not installed, cannot read the schema, or meets a number beyond
its range; nothing is fetched from a network.
Cost: reading the schema once; then microseconds a value.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["Judge"]


class Judge:
    """Made for one schema."""

    def __init__(self, schema: Any) -> None:
        self._is_valid: Callable[[Any], bool] | None = None
        try:
            import jsonschema_rs

            validator = jsonschema_rs.validator_for(schema, validate_formats=True, retriever=_no_network)
            self._is_valid = validator.is_valid
        except Exception:  # noqa: BLE001 — jsonschema_rs raises its own errors for schemas that it cannot read
            pass

    def value(self, value: object) -> bool | None:
        """Return whether a value is valid."""
        if self._is_valid is None:
            return None
        try:
            return bool(self._is_valid(value))
        except Exception:  # noqa: BLE001 — for numbers out of range and missing references, too
            return None

    def text(self, text: str) -> bool | None:
        """Return whether a text is JSON, and its value valid."""
        try:
            value = json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return False
        return self.value(value)


def _no_network(uri: str) -> Any:
    raise ValueError(f"{uri} was not supplied")


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
