"""``structgen.sampler``: which sampler draws the answers, with its options and limits.

Invariant: options are those of the samplers themselves, which check them. The server bounds how many particles,
parallel texts and draws there may be.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from structgen.errors import StructgenError
from structgen.inference.samplers import MH, SMC, Sampler, sampler_of

from .errors import bad_request, message_of
from .fields import Fields
from .settings import ServerSettings

__all__ = ["RequestedSampler", "read_sampler"]

_BOUNDED = ("particles", "parallel", "proposals", "probes")
_PROPOSALS = ("local", "masking", "awrs", "asap")


@dataclass(frozen=True)
class RequestedSampler:
    """A sampler for `structgen.sample`."""

    name: str
    sampler: Sampler
    limits: dict[str, Any]
    """Those of `max_seconds`, `max_calls` and `max_attempts` that the request sets."""

    @property
    def rows(self) -> int:
        """The most rows of the model's cache that it uses."""
        return int(getattr(self.sampler, self.rows_option))

    @property
    def rows_option(self) -> str:
        """The option that sets `rows`."""
        return "particles" if isinstance(self.sampler, SMC) else "parallel"

    def check_memory(self, tokens: int, token_bytes: int, most: int) -> None:
        """Refuse rows of so many tokens whose cache would take more than `most` bytes. Raises `ApiError`."""
        needed = self.rows * tokens * token_bytes
        if needed > most:
            option = f"structgen.sampler.{self.rows_option}"
            raise bad_request(
                option,
                f"{self.rows} {self.rows_option} of up to {tokens} tokens (prompt and max_tokens) take {needed >> 20} "
                f"MiB of the model's cache, more than {most >> 20}. Send fewer {self.rows_option} ({option}), a "
                "smaller max_tokens or a shorter prompt. The server's option is --sampler-bytes.",
                "sampler_bytes",
            )


def read_sampler(own: Fields, settings: ServerSettings) -> RequestedSampler | None:
    """Return the sampler that a request names, if any. Raises `ApiError`."""
    given = own.take("sampler")
    limits = {
        "max_seconds": own.number("max_seconds", 0, settings.request_seconds),
        "max_calls": own.number("max_calls", 1, whole=True),
        "max_attempts": own.number("max_attempts", 1, whole=True),
    }
    limits = {name: value for name, value in limits.items() if value is not None}
    if given is None:
        if limits:
            raise bad_request(f"structgen.{next(iter(limits))}", "this option needs structgen.sampler")
        return None
    if not settings.samplers:
        raise bad_request(
            "structgen.sampler", "this server takes no structgen.sampler: it was started with --samplers 0"
        )
    options = dict(given) if isinstance(given, dict) else {"name": given}
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise bad_request(
            "structgen.sampler", 'structgen.sampler is a name, or an object such as {"name": "smc"}'
        )
    return RequestedSampler(name, _made(name, options, settings), limits)


def _made(name: str, options: dict[str, Any], settings: ServerSettings) -> Sampler:
    try:
        kind = type(sampler_of(name))
        known = [field.name for field in fields(kind) if field.name != "critic"]
        for option, value in options.items():
            where = f"structgen.sampler.{option}"
            if option not in known:
                takes = ", ".join(known) or "none"
                raise bad_request(where, f"{name} has no option {option!r:.60}; its options are {takes}")
            if option in _BOUNDED and isinstance(value, int) and value > settings.max_particles:
                raise bad_request(where, f"{where} is {value}; it is {settings.max_particles} at most here")
        if kind is SMC and "proposal" in options:
            if options["proposal"] not in _PROPOSALS:
                raise bad_request(
                    "structgen.sampler.proposal", f"the proposal of smc is one of {', '.join(_PROPOSALS)}"
                )
            options = {**options, "proposal": sampler_of(options["proposal"])}
        made: Sampler = kind(**options)
    except StructgenError as error:
        raise bad_request("structgen.sampler", message_of(error)) from None
    except TypeError:
        raise bad_request("structgen.sampler", f"the options of {name} have values of wrong kinds") from None
    if isinstance(made, MH) and made.proposals > settings.max_particles:
        raise bad_request("structgen.sampler.proposals", f"at most {settings.max_particles} proposals")
    return made
