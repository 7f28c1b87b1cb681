"""Checks of what callers ask of `sample` and `beam`: a bad value is an `OptionError` that names it."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from structgen.errors import OptionError, a_kind
from structgen.sampling.drawing import Limits

if TYPE_CHECKING:
    from structgen.models.base import LanguageModel

__all__ = ["check_ends", "is_number", "limits_of", "unknown_option", "whole_number"]


def unknown_option(name: str, known: Sequence[str], function: str) -> OptionError:
    """The error of an option that `function` does not take."""
    close = difflib.get_close_matches(name, known, 1)
    return OptionError(
        f"unknown option {name!r} of {function}()",
        hint=f"Did you mean {close[0]}?" if close else f"The options are {', '.join(known)}.",
    )


def limits_of(seconds: Any, calls: Any, attempts: Any, cancel: Any) -> Limits:
    """Limits on time and work, each None or valid."""
    if seconds is not None and (not is_number(seconds) or math.isnan(seconds) or seconds < 0):
        raise OptionError(f"max_seconds is {seconds!r:.40}; it is a number of 0 or more")
    if cancel is not None and not callable(cancel):
        raise OptionError(f"cancel is {a_kind(cancel)}; it is a function that says whether to stop")
    return Limits(
        None if seconds is None else float(seconds),
        None if calls is None else whole_number("max_calls", calls, 0),
        None if attempts is None else whole_number("max_attempts", attempts, 0),
        cancel,
    )


def whole_number(name: str, value: Any, least: int, meaning: str = "it is a whole number") -> int:
    """`value` as an int of `least` or more."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least:
        return int(value)
    raise OptionError(f"{name} is {value!r:.40}; {meaning}, {least} or more")


def is_number(value: Any) -> bool:
    """Is it a number, of Python or of numpy?"""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def check_ends(model: LanguageModel) -> None:
    """Texts must be able to end."""
    if not model.vocabulary.eos_ids:
        raise OptionError(
            "the vocabulary has no end-of-text token, so no text ever ends",
            hint="Give it one: Vocabulary.from_tokens(tokens, eos_ids).",
        )
