"""`connect`: an address to a model that typed calls take.

Cost: none before the first call, which asks the server what it is.
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
    """A model behind a server, such as ``connect("http://localhost:8000/v1")``, for typed calls.

    model            its name; may be left out where the server has one model
    api_key          sent as a bearer token to this server, and nowhere else
    dialect          how structure is asked for: "structured_outputs" (also "vllm", "structgen"), "sglang",
                     "llama.cpp", "json_schema" (also "openai"), "json_object", "none"; None finds out
    weaken           where the server refuses a constraint by name, or the dialect cannot carry it: True sends it in a
                     weaker dialect or not at all, with the warning `errors.ConstraintNotSent` after a refusal, and
                     checks the answer here; False raises

    The budget of one answer:

    attempts         how often the model may be asked; from the second time on it is shown its answer and what is
                     wrong with it. The option `attempts` of a call goes before this one
    seconds          for all of it, pauses included
    tokens           that may be generated in all attempts; None: `max_tokens` in each

    The traffic:

    request_seconds  without a byte from the server until a request is given up and made again
    tries            how often a request is made while the server is busy or out of reach, with growing pauses
    concurrency      requests at a time in a batch, as `map` makes them
    headers          sent with each request
    extra_body       fields put into the body of each request for an answer

    The first call sends the first request. Raises `OptionError`, and `PackageMissing` without the extra ``remote``.
    """
    require("structgen.connect()", "remote", "httpx2", "httpcore2")
    budget = Budget(_whole("attempts", attempts), _positive("seconds", seconds), _tokens(tokens))
    if model is not None and (not isinstance(model, str) or not model):
        raise OptionError(f"model is {with_kind(model)}; it is the name of a model on the server")
    if api_key is not None and (
        not isinstance(api_key, str)
        or not api_key.strip()
        or not (api_key.isascii() and api_key.isprintable())
    ):
        raise OptionError(
            "api_key is not a line of ASCII text that has something in it",
            hint="Leave it out for a server without keys.",
        )
    if not isinstance(weaken, bool):
        raise OptionError(f"weaken is {with_kind(weaken)}; it is True or False")
    chosen = dialect_named(_NAMED.get(dialect, dialect)) if dialect is not None else None
    for name, given in (("headers", headers), ("extra_body", extra_body)):
        if given is not None and not isinstance(given, Mapping):
            raise OptionError(f"{name} is {with_kind(given)}; it is a dict")
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
            raise OptionError(f"the header {name!r:.60} cannot be set: it is made for each request")


def _check_extra(extra: Mapping[Any, Any]) -> None:
    for name, value in extra.items():
        if not isinstance(name, str):
            raise OptionError(f"extra_body has the key {with_kind(name)}; keys are texts")
        if name in _OUR_FIELDS:
            raise OptionError(
                f"extra_body has {name!r}, which is made for each request",
                hint="Use the prompt, sg.stream() or n= instead.",
            )
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise OptionError(f"extra_body[{name!r:.60}] cannot be written as JSON: {error}") from None


def _whole(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise OptionError(f"{name} is {value!r:.40}; it is a whole number of 1 or more")


def _tokens(value: int | None) -> int | None:
    return None if value is None else _whole("tokens", value)


def _positive(name: str, value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    raise OptionError(f"{name} is {value!r:.40}; it is a number of seconds above 0")


assert set(_NAMED.values()) <= set(DIALECTS)
