"""Checks of the arguments of `sample` and `beam`: a bad value is an `OptionError` that names it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from structgen.api import described
from structgen.errors import OptionError, a_kind, did_you_mean
from structgen.generation.options import ALIASES
from structgen.generation.token_budget import check_room, room_after
from structgen.inference.drawing import Limits
from structgen.matcher import open_matcher
from structgen.models.messages import prompt_of
from structgen.protocols import TextMatcher

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel, Prompt
    from structgen.types import OutputType

__all__ = ["is_number", "limits_of", "open_request", "output_text", "unknown_option", "whole_number"]


_SEARCH_ALIASES = {
    **dict.fromkeys(("numbeams", "beamwidth", "beams", "beamsize"), "width"),
    **dict.fromkeys(("numbeamgroups", "beamgroups"), "groups"),
    **dict.fromkeys(("n", "numreturnsequences", "numsamples", "bestof", "numgenerations"), "n"),
    **dict.fromkeys(("timeout", "maxtime", "timelimit", "seconds"), "max_seconds"),
}
"""The names of options in other libraries, and ours."""


def unknown_option(name: str, function: Callable[..., Any]) -> OptionError:
    """Return the error for an option that `function` does not take."""
    parameters = inspect.signature(function).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    aliases = {
        theirs: ours
        for theirs, ours in {**ALIASES, **_SEARCH_ALIASES}.items()
        if ours in known or " " in ours
    }
    suggestion = did_you_mean(name, known, aliases)
    return OptionError(
        f"unknown option {name!r} of {function.__name__}()",
        hint=suggestion or f"The options are {', '.join(known)}.",
    )


def limits_of(seconds: Any, calls: object, attempts: object, cancel: object) -> Limits:
    """Return limits of time and work; raise `OptionError` for a bad one. None means no limit."""
    if seconds is not None and (not is_number(seconds) or math.isnan(seconds) or seconds < 0):
        raise OptionError(f"max_seconds is {seconds!r:.40}; it must be a number of 0 or more")
    if cancel is not None and not callable(cancel):
        raise OptionError(f"cancel is {a_kind(cancel)}; it must be a function that returns whether to stop")
    return Limits(
        None if seconds is None else float(seconds),
        None if calls is None else whole_number("max_calls", calls, 0),
        None if attempts is None else whole_number("max_attempts", attempts, 0),
        cancel,
    )


def whole_number(name: str, value: object, least: int, meaning: str = "it is a whole number") -> int:
    """Return `value` as an int of `least` or more; raise `OptionError` for anything else."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least:
        return int(value)
    raise OptionError(f"{name} is {value!r:.40}; {meaning}, {least} or more")


def output_text(model: LanguageModel, kind: OutputType, tokens: Sequence[int]) -> str:
    """Return the text of tokens in the form that the output type parses."""
    if kind.spells_specials:
        return model.vocabulary.spelled(tokens)
    text: str = model.decode(tokens)
    return text


def is_number(value: object) -> bool:
    """Return whether a value is a number of Python or numpy."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def open_request(
    model: LanguageModel, prompt: Prompt, kind: OutputType, *, describe: bool, max_tokens: int
) -> tuple[list[int], TextMatcher, int]:
    """Return the prompt's tokens, a matcher at the start of the text, and the largest number of tokens of a text.

    Raises:
        LimitExceeded: No text fits.
        OptionError: The constraint sets temperatures, or no text can end.
    """
    ids = model.encode(described(prompt, kind) if describe else prompt_of(prompt))
    room, limit = room_after(len(ids), model.context_length, max_tokens)
    matcher = open_matcher(kind.constraint, model.vocabulary)
    if matcher.sets_temperature:
        raise OptionError(
            "rules of the grammar set temperatures, and this call draws from one distribution of texts",
            hint="Remove temperature=... from the rules, or use structgen.generate.",
        )
    check_room(matcher.least_tokens(room), room, limit)
    if not model.vocabulary.eos_ids:
        raise OptionError(
            "the vocabulary has no end-of-sequence token, so no text ever ends",
            hint="Set one: Vocabulary.from_tokens(tokens, eos_ids).",
        )
    return ids, matcher, room
