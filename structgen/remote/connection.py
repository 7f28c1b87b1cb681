"""`connect`: return the model of a server for typed calls.

Cost: none before the first call, which requests the list of models.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from structgen.argument_names import checks_names
from structgen.errors import OptionError, with_kind
from structgen.extras import require

from .dialects import DIALECTS, dialect_named
from .model import RemoteModel
from .retrying import Budget
from .transport import Transport

__all__ = ["connect"]

_NAMED = {"vllm": "structured_outputs", "structgen": "structured_outputs", "openai": "json_schema"}


@checks_names
def connect(
    url: str,
    *,
    model: str | None = None,
    api_key: str | None = None,
    dialect: str | None = None,
    weaken: bool = True,
    attempts: int = 3,
    seconds: float = 180.0,
    tokens: int | None = None,
    request_seconds: float = 60.0,
    tries: int = 5,
    concurrency: int = 8,
    headers: Mapping[str, str] | None = None,
    extra_body: Mapping[str, Any] | None = None,
) -> RemoteModel:
    """Connect to a server for typed calls, such as ``connect("http://localhost:8000/v1")``.

    The first call of the model sends the first request. One answer has a budget of `attempts`, `seconds` and `tokens`.

    Args:
        url: The address, usually ending in ``/v1``.
        model: The model's name. May be left out if the server has only one model.
        api_key: Sent as a bearer token to this server, and to no other address.
        dialect: The form of structured outputs: "structured_outputs" (also "vllm", "structgen"), "sglang",
            "llama.cpp", "json_schema" (also "openai"), "json_object" or "none". None detects it.
        weaken: What happens if the server refuses a constraint by name, or the dialect cannot express it. True sends it
            in a weaker dialect or not at all, with the warning `errors.ConstraintNotSent` after a refusal, and checks
            the answer locally. False raises.
        attempts: The most requests for one answer. From the second on, the model sees its answer and the problem. The
            option `attempts` of a call takes precedence.
        seconds: The time for one answer, pauses included.
        tokens: The tokens of all attempts of one answer; None allows `max_tokens` in each.
        request_seconds: The time without a byte from the server after which a request is retried.
        tries: How often a request is made while the server is busy or unreachable, with growing pauses.
        concurrency: Concurrent requests of a batch, such as `map` makes.
        headers: Sent with each request.
        extra_body: Fields that are added to the body of each request for an answer.

    Returns:
        The model.

    Raises:
        OptionError: An argument is invalid.
        PackageMissing: The extra ``remote`` is not installed.
    """
    require("structgen.connect()", "remote", "httpx2", "httpcore2")
    budget = Budget(_whole("attempts", attempts), _positive("seconds", seconds), _tokens(tokens))
    if model is not None and (not isinstance(model, str) or not model):
        raise OptionError(f"model is {with_kind(model)}; it must be the name of a model on the server")
    if api_key is not None and (
        not isinstance(api_key, str)
        or not api_key.strip()
        or not (api_key.isascii() and api_key.isprintable())
    ):
        raise OptionError(
            "api_key is not a non-empty line of ASCII text",
            hint="Leave it out for a server without keys.",
        )
    if not isinstance(weaken, bool):
        raise OptionError(f"weaken is {with_kind(weaken)}; it must be True or False")
    chosen = dialect_named(_NAMED.get(dialect, dialect)) if dialect is not None else None
    for name, given in (("headers", headers), ("extra_body", extra_body)):
        if given is not None and not isinstance(given, Mapping):
            raise OptionError(f"{name} is {with_kind(given)}; it must be a dict")
    _check_headers(headers or {})
    _check_extra(extra_body or {})
    transport = Transport(
        url,
        api_key=api_key,
        headers=headers,
        request_seconds=_positive("request_seconds", request_seconds),
        tries=_whole("tries", tries),
    )
    return RemoteModel(
        transport,
        model,
        chosen,
        budget=budget,
        concurrency=_whole("concurrency", concurrency),
        extra_body=extra_body,
        weaken=weaken,
    )


_OF_THE_TRANSPORT = frozenset({"content-length", "transfer-encoding", "content-type", "host", "connection"})
_OUR_FIELDS = ("messages", "stream", "n")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""The name of a header (RFC 9110, 5.6.2)."""


def _check_headers(headers: Mapping[Any, Any]) -> None:
    for name, value in headers.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise OptionError(f"headers has {with_kind(name)}, which is not a valid name of a header")
        if not isinstance(value, str) or not (value.isascii() and value.isprintable()):
            raise OptionError(
                f"the value of the header {name!r:.60} is not a line of ASCII text",
                hint='Write, for example, headers={"X-Team": "search"}.',
            )
        if name.lower() in _OF_THE_TRANSPORT:
            raise OptionError(f"the header {name!r:.60} cannot be set: each request has its own")


def _check_extra(extra: Mapping[Any, Any]) -> None:
    for name, value in extra.items():
        if not isinstance(name, str):
            raise OptionError(f"extra_body has the key {with_kind(name)}; keys are texts")
        if name in _OUR_FIELDS:
            raise OptionError(
                f"extra_body has {name!r}, which each request sets itself",
                hint="Use the prompt, sg.stream() or n= instead.",
            )
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise OptionError(f"extra_body[{name!r:.60}] cannot be written as JSON: {error}") from None


def _whole(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise OptionError(f"{name} is {value!r:.40}; it must be a whole number of 1 or more")


def _tokens(value: int | None) -> int | None:
    return None if value is None else _whole("tokens", value)


def _positive(name: str, value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    raise OptionError(f"{name} is {value!r:.40}; it must be a number of seconds above 0")


assert set(_NAMED.values()) <= set(DIALECTS)
