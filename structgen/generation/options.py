"""What may be chosen about how text is drawn: one frozen record.

Why: every surface (prompt functions, `run`, the command line, servers) takes the same names with the same
meaning and the same checks.
Invariant: options that exist are valid; a bad value is an `OptionError` that names the option.

The law of one step, in order: the constraint's mask, then temperature, then top-k, top-p and min-p, each on
the renormalised law that the one before left. (Top-p before the mask could remove every legal token.)
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from structgen.argument_names import checks_names_of_init
from structgen.brief import short_repr
from structgen.errors import OptionError, did_you_mean

__all__ = ["OPTION_NAMES", "RENAMED_OPTIONS", "SamplingOptions", "make_options", "row_seed"]

Seed = int | Sequence[int]


@checks_names_of_init
@short_repr
@dataclass(frozen=True)
class SamplingOptions:
    """How tokens are drawn, and when drawing stops."""

    temperature: float | None = None
    """0 is greedy. None means 1 if any of `seed`, `top_k`, `top_p`, `min_p` is given, otherwise 0: a call
    that asks for nothing random is repeatable."""

    top_k: int | None = None
    """Keep the k most probable allowed tokens (ties: the smaller ids)."""

    top_p: float | None = None
    """Keep the smallest set of most probable allowed tokens whose mass is at least p (ties: smaller ids)."""

    min_p: float | None = None
    """Keep the tokens at least this many times as probable as the most probable allowed one."""

    seed: Seed | None = None
    """Row i of a batch draws from the stream (seed, i); a call of its own is row 0, and ``seed=(7, i)``
    draws what row i of a batch with ``seed=7`` draws. None takes a fresh seed, which the result tells."""

    max_tokens: int = 512
    """At most this many tokens of text; the end-of-text token is not counted."""

    close_within_budget: bool = False
    """Steer to a complete text near the budget: a token is allowed only if a completion after it fits."""

    exact_weight: bool = True
    """Spend the forward pass that scores a forced ending, so that `logprob` and `log_weight` are known.
    Without it both are None where a token was committed that the model never scored."""

    forced: bool = True
    """Commit tokens that are the only choice without drawing them. Never changes the text."""

    noise: str = "gumbel"
    """What a token is drawn with. "gumbel": a number for each position and token, so that a hair's difference in the
    logits decides nothing but near ties; "uniform": one for each position, which inverts the cumulative law."""

    speculate: Any = True
    """Let the model read tokens ahead where that pays: the same text, sooner. False: one token at a time. A
    `structgen.Speculation` says how."""

    max_backtracks: int = 64
    """How many times a row may go back from a dead end before it is given up."""

    attempts: int | None = None
    """How many answers the model may give until one is valid. From the second on it is shown its last answer and what
    is wrong with it: a validator's message, or that the answer was cut off. None: 1 for a local model, and for a server
    what `structgen.connect` was given. Further attempts change the distribution of the answers (docs/tutorial.md)."""

    def __post_init__(self) -> None:
        for name, whole, low, high, wanted in _RANGES:
            value = getattr(self, name)
            if value is not None and not _is_between(value, whole, low, high):
                raise OptionError(f"sampling option {name!r} is {value!r}; it must be {wanted}")
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
        if self.max_tokens is None or self.max_backtracks is None:
            raise OptionError("sampling options 'max_tokens' and 'max_backtracks' must be numbers, not None")
        if self.seed is not None and not _is_seed(self.seed):
            raise OptionError(
                f"sampling option 'seed' is {self.seed!r}; it must be an int of 0 or more, or several"
            )

    @property
    def effective_temperature(self) -> float:
        """The temperature that is used (see `temperature`)."""
        if self.temperature is not None:
            return float(self.temperature)
        random = (self.seed, self.top_k, self.top_p, self.min_p)
        return 0.0 if all(option is None for option in random) else 1.0

    @property
    def truncates(self) -> bool:
        """Whether top-k, top-p or min-p may remove tokens."""
        return self.top_k is not None or self.top_p is not None or self.min_p is not None

    def replace(self, **changes: Any) -> SamplingOptions:
        """A copy with some options changed."""
        _known(changes)
        return replace(self, **changes)


OPTION_NAMES = tuple(field.name for field in fields(SamplingOptions))

RENAMED_OPTIONS = {
    "max_retries": "attempts=n asks the model again where an answer is invalid; max_backtracks=n bounds steps back."
}
"""Former names, each with what to write now."""


def make_options(given: dict[str, Any], beside: Iterable[str] = ()) -> SamplingOptions:
    """Return the options that keyword arguments say; an unknown name is an error that lists the known ones.

    `beside`: other arguments of the caller's function, for the hint.
    """
    _known(given, beside)
    return SamplingOptions().replace(**given)


def row_seed(seed: Seed | None, row: int) -> tuple[int, ...]:
    """The seed of one row: (seed, row) for an int; several ints are taken as they are for row 0."""
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


def _is_between(value: Any, whole: bool, low: float, high: float) -> bool:
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    return isinstance(value, kinds) and not isinstance(value, bool) and bool(low <= value <= high)


_STOP = (
    'A text that ends at a string is a constraint: structgen.text("STOP") + structgen.choice(["STOP", ""]).'
)
_SEVERAL = "Write n=3 for three values: generate, run and prompt functions take it."
_BEAMS = "structgen.beam(model, prompt, type, width=4) searches with beams."
_PROCESSORS = (
    "structgen.with_processors(model, [...]) applies logits processors, repetition penalties among them."
)
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
    **dict.fromkeys(
        ("repetitionpenalty", "frequencypenalty", "presencepenalty", "repeatpenalty", "logitsprocessor")
        + ("logitbias", "norepeatngramsize"),
        _PROCESSORS,
    ),
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
_SMALL = 1e-300
_RANGES: tuple[tuple[str, bool, float, float, str], ...] = (
    ("temperature", False, 0, 1e6, "a number from 0 to 1,000,000"),
    ("top_k", True, 1, _INFINITY, "a whole number of 1 or more"),
    ("top_p", False, _SMALL, 1, "above 0 and at most 1"),
    ("min_p", False, 0, 1, "between 0 and 1"),
    ("max_tokens", True, 0, _INFINITY, "a whole number of 0 or more"),
    ("max_backtracks", True, 0, _INFINITY, "a whole number of 0 or more"),
    ("attempts", True, 1, _INFINITY, "a whole number of 1 or more"),
)


def _is_seed(seed: Any) -> bool:
    parts = [seed] if isinstance(seed, (int, np.integer)) else seed
    if not isinstance(parts, (list, tuple)):
        return False
    return bool(parts) and all(isinstance(part, (int, np.integer)) and part >= 0 for part in parts)
