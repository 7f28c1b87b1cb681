"""The texts of dates, times, durations, UUIDs and URLs, as patterns that pydantic accepts without exception.

Why: JSON Schema's formats follow RFC 3339, Python's types do not: there is no year 0 and no leap second,
a datetime may be naive. A pattern that is exactly as strict as the validator means that a generated text
never fails validation.
Invariant: every text of a pattern is accepted by pydantic for its type; anchored at both ends.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

__all__ = [
    "DECIMAL",
    "DURATION",
    "date",
    "date_time",
    "ipv4_interface",
    "ipv4_network",
    "time",
    "url",
    "uuid",
]

_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_LEAP_YEAR = (
    "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"  # no year 0000
)
_DAY = (
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_DATE = f"(?:{_YEAR}-{_DAY}|{_LEAP_YEAR}-02-29)"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_ZONE = "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"

DECIMAL = r"^-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,30})?$"

_SECONDS = r"[0-9]{1,4}(?:\.[0-9]{1,6})?S"
_CLOCK = f"T(?:[0-9]{{1,4}}H(?:[0-9]{{1,4}}M)?(?:{_SECONDS})?|[0-9]{{1,4}}M(?:{_SECONDS})?|{_SECONDS})"
DURATION = f"^-?P(?:[0-9]{{1,5}}D(?:{_CLOCK})?|{_CLOCK}|[0-9]{{1,4}}W)$"


def _zone(zone: str | int | None) -> str:
    """`zone` as pydantic's core schema says it: 'aware', 'naive', an offset in seconds, or None for either."""
    if zone == "naive":
        return ""
    if isinstance(zone, int):
        hours, minutes = divmod(abs(zone) // 60, 60)
        offset = f"{'-' if zone < 0 else '[+]'}{hours:02}:{minutes:02}"
        return f"(?:Z|{offset})" if zone == 0 else offset
    return _ZONE if zone == "aware" else f"{_ZONE}?"


def date(first: datetime.date | None = None, last: datetime.date | None = None) -> str:
    """A date, none before `first` or after `last`: dates are ordered as their texts are."""
    low = "" if first is None else f"(?={_from(first.isoformat(), upwards=True)}$)"
    high = "" if last is None else f"(?={_from(last.isoformat(), upwards=False)}$)"
    return f"^{low}{high}{_DATE}$"


def _from(text: str, *, upwards: bool) -> str:
    """`text` and the texts of its form that come after it, or before it."""
    texts = [text]
    for place, digit in enumerate(text):
        if digit in ("-", "9" if upwards else "0"):
            continue
        others = f"[{int(digit) + 1}-9]" if upwards else f"[0-{int(digit) - 1}]"
        texts.append(f"{text[:place]}{others}[0-9-]{{{len(text) - place - 1}}}")
    return f"(?:{'|'.join(texts)})"


def date_time(zone: str | int | None) -> str:
    """A date, T and a time."""
    return f"^{_DATE}T{_TIME}{_zone(zone)}$"


def time(zone: str | int | None) -> str:
    """A time of day."""
    return f"^{_TIME}{_zone(zone)}$"


def uuid(version: int | None) -> str:
    """A UUID with hyphens; of that version (and the variant of RFC 9562) if one is asked for."""
    digit = "[0-9a-fA-F]"
    third, fourth = (
        (f"{digit}{{4}}", f"{digit}{{4}}")
        if version is None
        else (f"{version}{digit}{{3}}", f"[89abAB]{digit}{{3}}")
    )
    return f"^{digit}{{8}}-{digit}{{4}}-{third}-{fourth}-{digit}{{12}}$"


_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"


def ipv4_interface() -> str:
    """An address, and perhaps the length of a prefix."""
    return f"^(?:{_OCTET}\\.){{3}}{_OCTET}(?:/(?:3[0-2]|[12]?[0-9]))?$"


def ipv4_network() -> str:
    """A network whose address has no bits beyond its prefix; an address alone is a network of its own."""
    address = f"(?:{_OCTET}\\.){{3}}{_OCTET}"
    return f"^(?:{address}(?:/32)?|{'|'.join(_networks())})$"


def _networks() -> Iterator[str]:
    for length in range(32):
        whole, bits = divmod(length, 8)
        values = "|".join(str(value) for value in range(0, 256, 2 ** (8 - bits)))
        parts = [*[_OCTET] * whole, f"(?:{values})", *["0"] * (3 - whole)]
        yield "\\.".join(parts) + f"/{length}"


def url(schemes: Sequence[str] | None) -> str:
    """A URL with a host name of plain labels; narrower than what pydantic takes, never wider."""
    scheme = "|".join(schemes) if schemes else "https?|ftp|wss?"
    label = "[A-Za-z0-9]{1,20}(?:-[A-Za-z0-9]{1,20}){0,2}"
    last = "[A-Za-z][A-Za-z0-9]{0,20}(?:-[A-Za-z0-9]{1,20}){0,2}"
    port = "(?::[1-9][0-9]{0,3})?"
    rest = r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@/-]*)?(?:\?[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?(?:#[A-Za-z0-9._~-]*)?"
    return f"^(?:{scheme})://(?:{label}\\.){{0,4}}{last}{port}{rest}$"
