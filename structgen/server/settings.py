"""The settings of the server: one frozen record, checked when it is made."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, fields
from typing import Any

from structgen.errors import OptionError, a_kind, with_kind
from structgen.serving.limits import RequestLimits
from structgen.tools.formats import tool_format

__all__ = ["SETTING_NAMES", "ServerSettings"]

_MAY_BE_NONE = ("compilers", "samplers", "drain_seconds", "prefix_bytes")
_QUEUE_SHARE = 0.8
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s?#@]+")


@dataclass(frozen=True)
class ServerSettings:
    """Settings of one server. Limits bound the resources of one request, and of all together."""

    model_name: str = "structgen"
    """The name of the model, which clients send."""
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    """Keys for ``/v1``; without keys, anyone may send requests."""
    max_rows: int = 16
    """Rows of the batch: texts that are generated at the same time."""
    max_queue: int = 256
    """Open requests; more get the status 429."""
    max_body: int = 1 << 20
    """Upper bound of a request's body, in bytes."""
    max_connections: int = 1024
    """Open connections. For one more, the oldest one without a complete request is closed."""
    max_client_connections: int = 256
    """Open connections from one address."""
    header_seconds: float = 10.0
    """Time for the header of a request to arrive after its connection was opened."""
    unread_seconds: float = 60.0
    """A client that reads nothing of its response for so long is disconnected."""
    max_tokens: int = 4096
    """The most tokens of an answer."""
    default_tokens: int = 512
    """Tokens of an answer if the request sets no limit. (OpenAI's default is the model's context.)"""
    max_choices: int = 8
    """The most answers of one request, `n`."""
    max_particles: int = 32
    """The most particles, parallel texts or draws of a sampler."""
    request_seconds: float = 300.0
    """Time limit of a request; then it ends with the status 504."""
    queue_seconds: float = 240.0
    """How long a request may wait for a process that compiles or runs its constraint, and for the CPU time of that
    process; then it ends with the status 503. If it is not less than `request_seconds`, it is four fifths of that."""
    drain_seconds: float = 30.0
    """Time for running requests to end after the server was signalled to stop."""
    patience: float = 0.01
    """Seconds that a pass waits for the mask of one row; a row with a later mask skips the pass."""
    prompt_tokens: int = 32
    """Tokens of new prompts that are prefilled between two passes of running rows."""
    speculate: bool = True
    """Whether the batch reads draft tokens (`structgen.Speculation`) where that makes answers faster."""
    drafter: str | None = None
    """The file of a learned drafter (`structgen draft train`) that drafts in addition to the others."""
    drafter_any_base: bool = False
    """Whether that drafter may be one of another project whose config names another model (`load_drafter`)."""
    drafter_learns: bool = False
    """Whether that drafter goes on learning from the texts of all users, in memory (`OnlineDrafter`)."""
    prefix_bytes: int = 256 << 20
    """Memory for the KV caches of earlier prompts, whose beginnings are not read again; 0 for none. Prompts are
    compared only with those of the same API key, or of the same address."""
    tool_format: str = "auto"
    """How the model writes tool calls: a name of `structgen.tools.FORMATS`. ``auto``: the format that the name of the
    model, or its chat template, shows; else ``hermes``."""
    reasoning: str = "auto"
    """``auto``: text between the reasoning markers of the chat template is returned apart from the answer. ``off``: it
    is part of the answer."""
    closed_objects: bool = True
    """Objects of a `response_format` that declare their keys have no others, unless the schema mentions others."""
    close_within_budget: bool = False
    """Answers with a constraint are complete within their tokens, unless the request says otherwise."""
    cors_origins: tuple[str, ...] = ()
    """Web pages of these origins may call the server from a browser; ``*`` allows all."""
    samplers: int = 1
    """Requests with a sampler that run at the same time; with 0, such requests are refused."""
    sampler_bytes: int = 1 << 30
    """Memory of the model's cache that one of them may use, in bytes: rows (particles, parallel texts) times tokens."""
    stall_seconds: float = 120.0
    """``/health`` fails if no step of the batch has finished for so long."""
    compilers: int = 2
    """Processes for compile probes. With one, new constraints wait for a slow one. With 0, a thread of the server
    probes them, without limits of time and memory."""
    limits: RequestLimits = field(default_factory=lambda: RequestLimits(whitespace="json.dumps"))
    """Limits on constraints."""

    def __post_init__(self) -> None:
        for setting in fields(self):
            if setting.type in ("int", "float"):
                least = 0 if setting.name in _MAY_BE_NONE else None
                _check_number(setting.name, getattr(self, setting.name), setting.type, least)
            elif setting.type == "bool" and not isinstance(value := getattr(self, setting.name), bool):
                raise OptionError(f"{setting.name} is {value!r:.40}; it must be True or False")
        if not isinstance(self.model_name, str) or not self.model_name:
            raise OptionError(
                f"model_name is {with_kind(self.model_name)}; it must be the name that clients send"
            )
        for name in ("api_keys", "cors_origins"):
            given = getattr(self, name)
            if isinstance(given, str) or not all(isinstance(text, str) for text in given):
                raise OptionError(f"{name} is not a list of texts", hint=f'Write {name}=["..."].')
            object.__setattr__(self, name, tuple(given))
        if not isinstance(self.limits, RequestLimits):
            raise OptionError(
                f"limits is {a_kind(self.limits)}",
                hint="Write limits=RequestLimits(...), of structgen.serving.limits.",
            )
        for limit in fields(self.limits):
            if limit.type in ("int", "float"):
                _check_number(limit.name, getattr(self.limits, limit.name), limit.type, None)
        if self.queue_seconds >= self.request_seconds:
            object.__setattr__(self, "queue_seconds", _QUEUE_SHARE * self.request_seconds)
        if self.max_choices > self.max_rows:
            object.__setattr__(self, "max_choices", self.max_rows)
        if self.default_tokens > self.max_tokens:
            object.__setattr__(self, "default_tokens", self.max_tokens)
        if self.tool_format != "auto":
            tool_format(self.tool_format)
        if self.reasoning not in ("auto", "off"):
            raise OptionError(f"reasoning is {self.reasoning!r:.40}; it must be 'auto' or 'off'")
        for origin in self.cors_origins:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                raise OptionError(
                    f"{origin!r:.80} is not an origin",
                    hint="An origin is a scheme, a host and perhaps a port: https://example.com:8443; or *.",
                )
        if any(not key.strip() for key in self.api_keys):
            raise OptionError("an API key is empty", hint="Leave the keys out to accept all requests.")


SETTING_NAMES = tuple(setting.name for setting in fields(ServerSettings))


def _check_number(name: str, value: Any, kind: str, least: int | None) -> None:
    """Raise `OptionError` unless a value is a number of its kind and at least `least`; None means above 0."""
    kinds = int if kind == "int" else (int, float)
    is_number = isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)
    if is_number and (value > 0 or value == least):
        return
    wanted = "a whole number" if kind == "int" else "a number"
    bound = "above 0" if least is None else f"of {least} or more"
    raise OptionError(f"{name} is {value!r:.40}; it must be {wanted} {bound}")
