"""Read how tokens are drawn: temperature, truncation, penalties, bias, seed, the number of tokens.

Each reader takes the fields of any endpoint, so that endpoints with other names for the rest can share it.
"""

from __future__ import annotations

import re
from typing import Any

from structgen.errors import StructgenError
from structgen.generation.options import SamplingOptions

from .errors import bad_request
from .fields import Fields
from .settings import ServerSettings

__all__ = [
    "changed_distribution",
    "read_closing",
    "read_logit_bias",
    "read_logprobs",
    "read_options",
    "read_penalties",
]

_MOST_LOGPROBS = 20
_MOST_BIASED = 1024
_GREATEST_BIAS = 100
_TO_UNSIGNED = 1 << 64
_LEAST_MASS = 1e-9
"""Stands for a `top_p` of 0, which keeps the most probable token alone."""
_TOKEN_ID = re.compile(r"0|[1-9][0-9]{0,8}")


def read_options(
    fields: Fields,
    own: Fields | None,
    settings: ServerSettings,
    lengths: tuple[str, ...],
    *,
    wants_scores: bool,
    is_constrained: bool,
) -> SamplingOptions:
    """Return the options of the draws of a request.

    Args:
        fields: The fields of the request.
        own: Those of its field `structgen`.
        settings: Defaults and upper bounds.
        lengths: The names of the field for the number of tokens. Two of them must not differ.
        wants_scores: Whether the response shows log probabilities.
        is_constrained: Whether the answer has a constraint.

    Raises:
        ApiError: A field is invalid.
    """
    most = _length(fields, lengths, settings)
    seed = _seed(fields, own)
    top_k = fields.number("top_k", -1, whole=True)
    top_p, min_p = fields.number("top_p", 0, 1), fields.number("min_p", 0, 1)
    try:
        return SamplingOptions(
            temperature=fields.number("temperature", 0, 1000, default=1.0),
            top_p=None if top_p in (None, 1) else max(top_p, _LEAST_MASS),
            top_k=None if top_k in (None, -1, 0) else top_k,
            min_p=min_p if min_p else None,
            seed=seed if seed is None else seed % _TO_UNSIGNED,
            max_tokens=settings.default_tokens if most is None else most,
            close_within_budget=read_closing(own, settings) and is_constrained,
            exact_weight=wants_scores,
            speculate=settings.speculate,
            **read_penalties(fields),
            logit_bias=read_logit_bias(fields),
        )
    except StructgenError as error:
        raise bad_request(None, str(error)) from None


def read_closing(own: Fields | None, settings: ServerSettings) -> bool:
    """Return whether an answer with a constraint must be complete within its tokens."""
    default = settings.close_within_budget
    return default if own is None else own.flag("close_within_budget", default=default)


def read_penalties(fields: Fields) -> dict[str, Any]:
    """Return the penalties of repeated tokens, as options of `SamplingOptions`."""
    return {
        "frequency_penalty": fields.number("frequency_penalty", -2, 2, default=0.0),
        "presence_penalty": fields.number("presence_penalty", -2, 2, default=0.0),
        "repetition_penalty": fields.number("repetition_penalty", 0.01, 100, default=1.0),
    }


def read_logit_bias(fields: Fields) -> dict[int, float] | None:
    """Return ``logit_bias``: token ids, which JSON writes as texts, and numbers."""
    inner = fields.object("logit_bias")
    given = {} if inner is None else inner.rest()
    if len(given) > _MOST_BIASED:
        raise bad_request("logit_bias", f"logit_bias has {len(given)} tokens; it has {_MOST_BIASED} at most")
    values = Fields(given, "logit_bias")
    bias = {}
    for token in given:
        if not _TOKEN_ID.fullmatch(token):
            raise bad_request(
                "logit_bias", f'logit_bias has the key {token!r:.60}; its keys are token ids, such as "17"'
            )
        bias[int(token)] = values.number(token, -_GREATEST_BIAS, _GREATEST_BIAS, default=0.0)
    return bias or None


def changed_distribution(options: SamplingOptions) -> list[str]:
    """Return the names of the fields with which a request changes the model's distribution, but for `temperature`."""
    usual = SamplingOptions()
    names = ("top_k", "top_p", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty")
    changed = [name for name in names if getattr(options, name) != getattr(usual, name)]
    return [*changed, *(["logit_bias"] if options.logit_bias else [])]


def read_logprobs(fields: Fields, endpoint: str) -> tuple[bool, int]:
    """Return whether tokens are scored, and how many of the most probable tokens are shown for each."""
    if endpoint == "completion":
        count = fields.number("logprobs", 0, _MOST_LOGPROBS, whole=True)
        return count is not None, count or 0
    wanted = fields.flag("logprobs")
    count = fields.number("top_logprobs", 0, _MOST_LOGPROBS, whole=True, default=0)
    if count and not wanted:
        raise bad_request("top_logprobs", "top_logprobs needs logprobs=true")
    return wanted, count


def _length(fields: Fields, names: tuple[str, ...], settings: ServerSettings) -> int | None:
    """Return the number of tokens that the request allows; None if it says nothing."""
    given = {name: fields.number(name, 1, settings.max_tokens, whole=True) for name in names}
    counts = [count for count in given.values() if count is not None]
    if len(set(counts)) > 1:
        raise bad_request(names[0], f"{' and '.join(names)} differ")
    return counts[0] if counts else None


def _seed(fields: Fields, own: Fields | None) -> Any:
    seed = fields.number("seed", -(1 << 63), (1 << 64) - 1, whole=True)
    own_seed = None if own is None else own.number("seed", -(1 << 63), (1 << 64) - 1, whole=True)
    if None not in (seed, own_seed) and seed != own_seed:
        raise bad_request("structgen.seed", "seed and structgen.seed differ")
    return own_seed if seed is None else seed
