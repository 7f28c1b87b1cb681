"""Figures as JSON values: a share with its interval, a pair with its difference and test, frozen data by its fields.

Invariant: the result is what `json.dumps(..., allow_nan=False)` takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from .metrics import Share
from .pairing import PairedRatio, PairedShare

__all__ = ["as_json"]


def as_json(value: object) -> Any:
    """Convert figures, and mappings, sequences and frozen data that hold them."""
    if isinstance(value, Share):
        return {"hits": value.hits, "total": value.total, "value": value.value, "interval": value.interval}
    if isinstance(value, PairedShare | PairedRatio):
        more = {"difference": value.difference} if isinstance(value, PairedShare) else {}
        return {field.name: getattr(value, field.name) for field in fields(value)} | more | {"p": value.p}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: as_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(inner) for inner in value]
    return value
