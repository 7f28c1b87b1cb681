"""The options of sampling, as one frozen record.

Why: every surface (prompt functions, `run`, the command line, servers) takes the same names with the same meaning and
the same checks.
Invariant: an instance is valid; a bad value is an `OptionError` that names the option.

The distribution of one step applies, in this order: penalties and bias, the constraint's mask, temperature, top-k,
top-p, min-p. Each works on the renormalised result of the one before. (Top-p before the mask could remove every allowed
token.)
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from structgen.argument_names import checks_names_of_init
from structgen.brief import short_repr
from structgen.errors import OptionError, did_you_mean

__all__ = ["OPTION_NAMES", "RENAMED_OPTIONS", "SamplingOptions", "make_options", "row_seed"]

Seed = int | Sequence[int]

RENAMED_OPTIONS = {
    "max_retries": "attempts=n lets the model try again after an invalid answer; max_backtracks=n bounds steps back."
}
"""Former names, each with what to write now."""


@partial(checks_names_of_init, renamed=RENAMED_OPTIONS)
@short_repr
@dataclass(frozen=True)
class SamplingOptions:
    """How tokens are drawn, and when drawing stops.

    Raises:
        OptionError: An option is not valid; the message names it.
    """

    temperature: float | None = None
    """0 is greedy. None means 1 if any of `seed`, `top_k`, `top_p`, `min_p` is given, and 0 otherwise: a call without
    random options is repeatable."""

    top_k: int | None = None
    """Keep the k most probable allowed tokens (ties: the smaller ids)."""

    top_p: float | None = None
    """Keep the smallest set of most probable allowed tokens with a total of at least p (ties: smaller ids)."""

    min_p: float | None = None
    """Keep the tokens at least this many times as probable as the most probable allowed one."""

    frequency_penalty: float = 0.0
    """Subtracted from a token's logit for each time that the text contains the token, from -2 to 2."""

    presence_penalty: float = 0.0
    """Subtracted from the logits of all tokens that the text contains, from -2 to 2."""

    repetition_penalty: float = 1.0
    """Above 1, tokens of the prompt and of the text become less probable, below 1 more: a positive logit is divided by
    this number, a negative one multiplied."""

    logit_bias: Mapping[int, float] | None = None
    """Added to the logits of these tokens, from -100 to 100 each. What the constraint forbids stays forbidden, and its
    only choice stays the only choice."""

    seed: Seed | None = None
    """Row i of a batch draws from the random stream (seed, i). A single call is row 0, and ``seed=(7, i)`` draws what
    row i of a batch with ``seed=7`` draws. None takes a fresh seed, which the result contains."""

    max_tokens: int = 512
    """The largest number of tokens of text; the end-of-sequence token is not counted."""

    close_within_budget: bool = False
    """Allow a token only if a completion after it fits the budget, so that the text is complete at its end."""

    exact_weight: bool = True
    """Spend the forward pass that scores a forced ending, so that `logprob` and `log_weight` are known.
    Without it both are None if the model never scored a forced token."""

    forced: bool = True
    """Commit tokens that are the only choice without drawing them. Never changes the text."""

    noise: str = "gumbel"
    """The random numbers of a draw. "gumbel": one for each position and token, so that a tiny change of the logits
    decides only near ties. "uniform": one for each position, which inverts the cumulative distribution."""

    speculate: Any = True
    """Speculative decoding: True drafts tokens where that pays, False drafts none, and a `structgen.Speculation`
    configures the drafters. The text is the same."""

    max_backtracks: int = 64
    """How many times a row may step back from a dead end."""

    attempts: int | None = None
    """The largest number of answers, until one is valid. From the second on, the prompt has the last answer and its
    error: a validator's message, or that the answer was cut off. None: 1 for a local model, and for a server the value
    given to `structgen.connect`. Further attempts change the distribution of the answers (docs/tutorial.md)."""

    def __post_init__(self) -> None:
        for name, whole, low, high, wanted in _RANGES:
            value = getattr(self, name)
            if value is not None and not _is_between(value, whole, low, high):
                raise OptionError(f"sampling option {name!r} is {value!r}; it must be {wanted}")
        if self.logit_bias is not None:
            object.__setattr__(self, "logit_bias", _checked_bias(self.logit_bias))
        for name in ("close_within_budget", "exact_weight", "forced"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise OptionError(
                    f"sampling option {name!r} is {getattr(self, name)!r}; it must be True or False"
                )
        if isinstance(self.speculate, np.bool_):
            object.__setattr__(self, "speculate", bool(self.speculate))
        if not isinstance(self.speculate, bool) and not hasattr(self.speculate, "drafters"):
            raise OptionError(
                f"sampling option 'speculate' is {self.speculate!r:.60}; it must be True, False or a Speculation",
                hint="structgen.Speculation(...)",
            )
        if self.noise not in ("uniform", "gumbel"):
            raise OptionError(
                f"sampling option 'noise' is {self.noise!r:.60}; it must be 'uniform' or 'gumbel'"
            )
        for name in _NEVER_NONE:
            if getattr(self, name) is None:
                raise OptionError(f"sampling option {name!r} is None; it must be a number")
        if self.seed is not None and not _is_seed(self.seed):
            raise OptionError(
                f"sampling option 'seed' is {self.seed!r}; it must be an int of 0 or more, or several"
            )

    @property
    def effective_temperature(self) -> float:
        """The temperature that applies (see `temperature`)."""
        if self.temperature is not None:
            return float(self.temperature)
        random = (self.seed, self.top_k, self.top_p, self.min_p)
        return 0.0 if all(option is None for option in random) else 1.0

    @property
    def truncates(self) -> bool:
        """Whether top-k, top-p or min-p may remove tokens."""
        return self.top_k is not None or self.top_p is not None or self.min_p is not None

    @property
    def changes_logits(self) -> bool:
        """Whether penalties or a bias change the model's logits."""
        penalties = (self.frequency_penalty, self.presence_penalty, self.repetition_penalty - 1)
        return any(penalties) or bool(self.logit_bias)

    def replace(self, **changes: Any) -> SamplingOptions:
        """Return a copy with some options changed."""
        _known(changes)
        return replace(self, **changes)


OPTION_NAMES = tuple(field.name for field in fields(SamplingOptions))


def make_options(given: dict[str, Any], beside: Iterable[str] = ()) -> SamplingOptions:
    """Return the options of keyword arguments.

    Args:
        given: The keyword arguments.
        beside: Other arguments of the caller's function, for the hint.

    Raises:
        OptionError: A name is unknown, or a value is not valid.
    """
    _known(given, beside)
    return SamplingOptions().replace(**given)


def row_seed(seed: Seed | None, row: int) -> tuple[int, ...]:
    """Return the seed of one row: (seed, row) for an int; several ints are used as they are for row 0."""
    if seed is None:
        return (secrets.randbits(63), row)
    if isinstance(seed, (int, np.integer)):
        return (int(seed), row)
    return tuple(seed) if row == 0 else (*seed, row)


def _known(given: dict[str, Any], beside: Iterable[str] = ()) -> None:
    for name in given:
        if name not in OPTION_NAMES:
            raise OptionError(
                f"unknown sampling option {name!r}; the options are {', '.join(OPTION_NAMES)}",
                hint=RENAMED_OPTIONS.get(name) or did_you_mean(name, (*OPTION_NAMES, *beside), ALIASES),
            )


def _is_between(value: object, whole: bool, low: float, high: float) -> bool:
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    return isinstance(value, kinds) and not isinstance(value, bool) and bool(low <= value <= high)


_STOP = (
    'A text that ends at a string is a constraint: structgen.text("STOP") + structgen.choice(["STOP", ""]).'
)
_SEVERAL = "Write n=3 for three values: generate, run and prompt functions take it."
_BEAMS = "structgen.inference.beam(model, prompt, type, width=4) searches with beams."
_PROCESSORS = "structgen.models.with_processors(model, ...) applies logits processors."
ALIASES = {
    **dict.fromkeys(
        (
            "maxnewtokens",
            "maxlength",
            "maxcompletiontokens",
            "maxoutputtokens",
            "maxtokenstosample",
            "numpredict",
        )
        + ("npredict", "maxgentoks", "length"),
        "max_tokens",
    ),
    **dict.fromkeys(("temp", "t"), "temperature"),
    **dict.fromkeys(("nucleus", "nucleusp", "p"), "top_p"),
    "k": "top_k",
    **dict.fromkeys(("randomseed", "randomstate", "manualseed", "rng", "generator"), "seed"),
    "dosample": "Drawing is greedy at temperature=0; any temperature above 0, or a seed, draws at random.",
    **dict.fromkeys(("n", "numreturnsequences", "numsamples", "bestof", "numgenerations"), _SEVERAL),
    **dict.fromkeys(("numbeams", "beamwidth", "beams", "beamsize"), _BEAMS),
    **dict.fromkeys(("stop", "stopsequences", "stopstrings", "stopat", "stoptokens", "stopregex"), _STOP),
    **dict.fromkeys(("logitsprocessor", "logitsprocessors", "norepeatngramsize"), _PROCESSORS),
    "repeatpenalty": "repetition_penalty",
    **dict.fromkeys(
        ("responsemodel", "responseformat", "outputtype", "schema", "jsonschema", "guidedjson"),
        "The output type is the third argument: generate(model, prompt, Type).",
    ),
    **dict.fromkeys(
        ("regex", "guidedregex", "grammar", "guidedgrammar", "guidedchoice"),
        "A constraint is the output type: generate(model, prompt, structgen.regex(...)).",
    ),
    "tools": "structgen.run_tools(model, prompt, [function]) calls tools.",
    "stream": "structgen.stream(model, prompt, Type) gives partial values.",
    "draftmodel": "speculate",
}
"""What other libraries call the options, or what is written here instead."""
_INFINITY = float("inf")
_SMALLEST_POSITIVE = 1e-300
_MOST_BIASED = 1024
_GREATEST_BIAS = 100
_NEVER_NONE = (
    "max_tokens",
    "max_backtracks",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
)
_RANGES: tuple[tuple[str, bool, float, float, str], ...] = (
    ("temperature", False, 0, 1e6, "a number from 0 to 1,000,000"),
    ("top_k", True, 1, _INFINITY, "a whole number of 1 or more"),
    ("top_p", False, _SMALLEST_POSITIVE, 1, "above 0 and at most 1"),
    ("min_p", False, 0, 1, "between 0 and 1"),
    ("frequency_penalty", False, -2, 2, "a number from -2 to 2"),
    ("presence_penalty", False, -2, 2, "a number from -2 to 2"),
    ("repetition_penalty", False, 0.01, 100, "a number from 0.01 to 100"),
    ("max_tokens", True, 0, _INFINITY, "a whole number of 0 or more"),
    ("max_backtracks", True, 0, _INFINITY, "a whole number of 0 or more"),
    ("attempts", True, 1, _INFINITY, "a whole number of 1 or more"),
)


def _is_seed(seed: object) -> bool:
    parts = [seed] if isinstance(seed, (int, np.integer)) else seed
    if not isinstance(parts, (list, tuple)):
        return False
    return bool(parts) and all(isinstance(part, (int, np.integer)) and part >= 0 for part in parts)


def _checked_bias(given: object) -> dict[int, float]:
    """Return the bias of each token. Raises `OptionError`."""
    if not isinstance(given, Mapping):
        raise OptionError(
            f"sampling option 'logit_bias' is {given!r:.60}; it must be a mapping of token ids to numbers",
            hint="logit_bias={17: -100}",
        )
    if len(given) > _MOST_BIASED:
        raise OptionError(
            f"sampling option 'logit_bias' has {len(given)} tokens; it must have {_MOST_BIASED} at most"
        )
    bias = {}
    for token, value in given.items():
        if not _is_between(token, True, 0, _INFINITY):
            raise OptionError(
                f"sampling option 'logit_bias' has {token!r:.60}; a token id is a whole number of 0 or more"
            )
        if not _is_between(value, False, -_GREATEST_BIAS, _GREATEST_BIAS):
            raise OptionError(
                f"sampling option 'logit_bias' has {value!r:.60} for the token {token}; it must be a number from "
                f"-{_GREATEST_BIAS} to {_GREATEST_BIAS}"
            )
        bias[int(token)] = float(value)
    return bias
