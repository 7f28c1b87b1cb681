"""The formats of the specification as regular languages.

Why: people expect ``format`` to hold, and nearly every format is regular once its RFC is read closely. Each format
is declared with the draft that defines it and its level of support.

Invariant: sound, that is, each text of the language is valid by the RFC. Exact if declared so; otherwise narrower.

Cost: a language is built on first use, once per process. The same object is returned each time, so the core can
cache by identity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from ..support import Support
from . import expressions, hosts, times, uris
from .build import RE, alt, no

__all__ = ["FORMATS", "Format"]


@dataclass(frozen=True)
class Format:
    """One format; `build` makes its language.

    `first` is the draft that defines it. Older drafts leave unknown names to the implementation, and a schema that
    uses one means it, so the format holds there too.
    """

    support: Support
    build: Callable[[], RE]
    first: int = 4
    note: str = ""
    older: Format | None = None
    """The format of this name in drafts 4 and 6, if it differs."""
    bounds: Callable[[], RE] | None = None
    """For a narrower format: a language that contains every text of the format."""

    def decided(self) -> RE | None:
        """Return the texts that `build` judges as the format does; None if it judges all of them so."""
        return None if self.bounds is None else _decided(self.build, self.bounds)

    @staticmethod
    def find(name: str, draft: int) -> Format | None:
        """Return the format of this name in a draft, by the draft's number."""
        found = FORMATS.get(name)
        if found is None:
            return None
        return found.older if found.older is not None and draft <= 6 else found


@cache
def _decided(build: Callable[[], RE], bounds: Callable[[], RE]) -> RE:
    return alt(build(), no(bounds()))


def _exact(build: Callable[[], RE], first: int = 4) -> Format:
    return Format(Support.EXACT, build, first)


def _narrower(
    build: Callable[[], RE], bounds: Callable[[], RE], note: str, first: int = 4, older: Format | None = None
) -> Format:
    return Format(Support.APPROXIMATE, build, first, f"narrower: {note}", older, bounds)


_NO_PUNYCODE = "no labels in Punycode (xn--)"
_SHORT_LABELS = "no labels in Punycode (xn--); others of 13 to 26 characters, as their scripts allow"

FORMATS: dict[str, Format] = {
    "date-time": _exact(times.date_time),
    "date": _exact(times.date),
    "time": _exact(times.time),
    "duration": _exact(times.duration, 2019),
    "email": _narrower(hosts.email, hosts.with_at, _NO_PUNYCODE),
    "idn-email": _narrower(hosts.idn_email, hosts.with_at, _SHORT_LABELS),
    "hostname": _narrower(
        hosts.hostname, hosts.in_ascii, _NO_PUNYCODE, older=_exact(hosts.hostname_before_idna)
    ),
    "idn-hostname": _narrower(hosts.idn_hostname, hosts.without_punctuation, _SHORT_LABELS, 7),
    "ipv4": _exact(hosts.ipv4),
    "ipv6": _exact(hosts.ipv6),
    "uri": _exact(uris.uri),
    "uri-reference": _exact(uris.uri_reference, 6),
    "iri": _exact(uris.iri, 7),
    "iri-reference": _exact(uris.iri_reference, 7),
    "uri-template": _exact(uris.uri_template, 6),
    "uuid": _exact(uris.uuid, 2019),
    "json-pointer": _exact(uris.json_pointer, 6),
    "relative-json-pointer": _exact(uris.relative_json_pointer, 7),
    "regex": _narrower(expressions.regex, expressions.without_leading_quantifier, expressions.NARROWER),
}
