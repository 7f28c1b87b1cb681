"""The texts of dates, times, durations, UUIDs and URLs, as patterns whose texts pydantic always accepts.

Why: JSON Schema's formats follow RFC 3339; Python's types do not. There is no year 0 and no leap second, and a
datetime may be naive. With a pattern at least as strict as the validator, a generated text never fails validation.

Invariant: pydantic accepts every text of a pattern for its type; patterns are anchored at both ends.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

__all__ = [
    "ASCII",
    "BYTE_SIZE",
    "DECIMAL",
    "DURATION",
    "STRIPPED",
    "Bounds",
    "base64",
    "date",
    "date_time",
    "days_within",
    "duration",
    "integer",
    "ipv4_interface",
    "ipv4_network",
    "time",
    "time_zone",
    "url",
    "uuid",
]

_MAX_SECONDS = 10**8 - 1

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
_SECOND = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_FRACTION = r"\.[0-9]{1,6}"
_TIME = f"{_SECOND}(?:{_FRACTION})?"
_ZONE = "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"

STRIPPED = r"^(?:[^\p{White_Space}](?:[\s\S]*[^\p{White_Space}])?)?$"
"""Texts without white space at the ends, as Rust's `trim` defines it."""
ASCII = r"^[\x00-\x7f]*$"

BYTE_SIZE = "^[0-9]{1,12}(?:[.][0-9]{1,3})?(?: ?(?:[KMGTPE]i?)?B)?$"
DECIMAL = r"^-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,30})?$"

_SECONDS = r"[0-9]{1,4}(?:\.[0-9]{1,6})?S"
_CLOCK = f"T(?:[0-9]{{1,4}}H(?:[0-9]{{1,4}}M)?(?:{_SECONDS})?|[0-9]{{1,4}}M(?:{_SECONDS})?|{_SECONDS})"
DURATION = f"^-?P(?:[0-9]{{1,5}}D(?:{_CLOCK})?|{_CLOCK}|[0-9]{{1,4}}W)$"


def _zone(zone: str | int | None) -> str:
    """Return the pattern of a time zone; `zone` is 'aware', 'naive', an offset in seconds, or None for either."""
    if zone == "naive":
        return ""
    if isinstance(zone, int):
        hours, minutes = divmod(abs(zone) // 60, 60)
        offset = f"{'-' if zone < 0 else '[+]'}{hours:02}:{minutes:02}"
        return f"(?:Z|{offset})" if zone == 0 else offset
    return _ZONE if zone == "aware" else f"{_ZONE}?"


def date(first: datetime.date | None = None, last: datetime.date | None = None) -> str:
    """Return the pattern of a date from `first` to `last`."""
    return f"^{days_within(first, last)}{_DATE}$"


def _texts_from(text: str, *, upwards: bool) -> str:
    """Return `text` and the texts of its form that are greater, or less; digits stand for digits."""
    texts = [text]
    for index, digit in enumerate(text):
        if not digit.isdigit() or digit == ("9" if upwards else "0"):
            continue
        others = f"[{int(digit) + 1}-9]" if upwards else f"[0-{int(digit) - 1}]"
        rest = re.sub("[0-9]", "[0-9]", text[index + 1 :])
        texts.append(f"{text[:index]}{others}{rest}")
    return f"(?:{'|'.join(texts)})"


@dataclass(frozen=True)
class Bounds:
    """The earliest and the latest time, as texts in whole seconds."""

    first: str | None = None
    last: str | None = None
    """The latest time without a fraction of a second."""
    last_with_fraction: str | None = None


def date_time(zone: str | int | None, bounds: Bounds | None = None, days: str = "") -> str:
    """Return the pattern of a date, T and a time, within bounds in the same zone; `days` is from `days_within`."""
    return f"^{days}{_within(bounds)}{_DATE}T{_TIME}{_zone(zone)}$"


def days_within(first: datetime.date | None, last: datetime.date | None) -> str:
    """Return the condition that a text starts with a day from `first` to `last`: dates sort like their texts."""
    low = "" if first is None else f"(?={_texts_from(first.isoformat(), upwards=True)})"
    return low if last is None else f"{low}(?={_texts_from(last.isoformat(), upwards=False)})"


def time(zone: str | int | None, bounds: Bounds | None = None) -> str:
    """Return the pattern of a time of day within bounds."""
    return f"^{_within(bounds)}{_TIME}{_zone(zone)}$"


def _within(bounds: Bounds | None) -> str:
    """Return conditions on the start of a text: times sort like their texts."""
    if bounds is None:
        return ""
    low = "" if bounds.first is None else f"(?={_texts_from(bounds.first, upwards=True)})"
    if bounds.last is None:
        return low
    plain = f"{_texts_from(bounds.last, upwards=False)}(?:[^.]|$)"
    if bounds.last_with_fraction is None:
        return f"{low}(?={plain})"
    return f"{low}(?={plain}|{_texts_from(bounds.last_with_fraction, upwards=False)})"


def duration(first: int | None, last: int | None) -> str:
    """Return the pattern of a duration in whole seconds, from `first` to `last`."""
    first = -_MAX_SECONDS if first is None else max(first, -_MAX_SECONDS)
    last = _MAX_SECONDS if last is None else min(last, _MAX_SECONDS)
    parts = []
    if last >= 0:
        parts.append(f"PT{_natural(max(first, 0), last)}S")
    if first < 0:
        parts.append(f"-PT{_natural(max(-last, 1), -first)}S")
    return f"^(?:{'|'.join(parts)})$"


def integer(first: int | None, last: int | None) -> str:
    """Return the pattern of an integer from `first` to `last`, of at most 18 digits."""
    max_value = 10**18 - 1
    first = -max_value if first is None else max(first, -max_value)
    last = max_value if last is None else min(last, max_value)
    parts = [_natural(max(first, 0), last)] if last >= 0 else []
    if first < 0:
        parts.append(f"-{_natural(max(-last, 1), -first)}")
    return f"^(?:{'|'.join(parts)})$"


def _natural(first: int, last: int) -> str:
    """Return the digits of a number from `first` to `last`, without leading zeros."""
    parts = []
    for length in range(len(str(first)), len(str(last)) + 1):
        low = max(first, 10 ** (length - 1) if length > 1 else 0)
        parts.append(_between(str(low), str(min(last, 10**length - 1))))
    return f"(?:{'|'.join(parts)})"


def _between(low: str, high: str) -> str:
    """Return numbers with the same number of digits from `low` to `high`."""
    if not low:
        return ""
    if low[0] == high[0]:
        return low[0] + _between(low[1:], high[1:])
    rest = len(low) - 1
    parts = [low[0] + _texts_from(low[1:], upwards=True)]
    if int(high[0]) - int(low[0]) > 1:
        parts.append(f"[{int(low[0]) + 1}-{int(high[0]) - 1}][0-9]{{{rest}}}")
    parts.append(high[0] + _texts_from(high[1:], upwards=False))
    return f"(?:{'|'.join(parts)})"


@cache
def time_zone() -> str:
    """Return the pattern of the time zones that this machine knows; it matches nothing if there are no such zones."""
    names = sorted(zoneinfo.available_timezones())
    return f"^(?:{'|'.join(map(re.escape, names))})$" if names else "^(?!)$"


def uuid(version: int | None) -> str:
    """Return the pattern of a UUID with hyphens; with `version`, of that version and the variant of RFC 9562."""
    digit = "[0-9a-fA-F]"
    third, fourth = (
        (f"{digit}{{4}}", f"{digit}{{4}}")
        if version is None
        else (f"{version}{digit}{{3}}", f"[89abAB]{digit}{{3}}")
    )
    return f"^{digit}{{8}}-{digit}{{4}}-{third}-{fourth}-{digit}{{12}}$"


_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"


def ipv4_interface() -> str:
    """Return the pattern of an address with an optional prefix length."""
    return f"^(?:{_OCTET}\\.){{3}}{_OCTET}(?:/(?:3[0-2]|[12]?[0-9]))?$"


def ipv4_network() -> str:
    """Return the pattern of a network whose address has no bits beyond its prefix; an address alone is one."""
    address = f"(?:{_OCTET}\\.){{3}}{_OCTET}"
    return f"^(?:{address}(?:/32)?|{'|'.join(_networks())})$"


def _networks() -> Iterator[str]:
    for length in range(32):
        whole, bits = divmod(length, 8)
        values = "|".join(str(value) for value in range(0, 256, 2 ** (8 - bits)))
        parts = [*[_OCTET] * whole, f"(?:{values})", *["0"] * (3 - whole)]
        yield "\\.".join(parts) + f"/{length}"


def base64(alphabet: str) -> str:
    """Return the pattern of whole groups of four characters; unused bits of the last group are 0."""
    character = f"[{alphabet}]"
    return f"^(?:{character}{{4}})*(?:{character}[AQgw]==|{character}{{2}}[AEIMQUYcgkosw048]=)?$"


def url(schemes: Sequence[str] | None) -> str:
    """Return the pattern of a URL with a plain host name; narrower than what pydantic accepts, never wider."""
    scheme = "|".join(map(re.escape, schemes)) if schemes else "https?|ftp|wss?"
    label = "[A-Za-z0-9]{1,20}(?:-[A-Za-z0-9]{1,20}){0,2}"
    last = "[A-Za-z][A-Za-z0-9]{0,20}(?:-[A-Za-z0-9]{1,20}){0,2}"
    port = "" if schemes and "file" in schemes else "(?::[1-9][0-9]{0,3})?"
    rest = r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@/-]*)?(?:\?[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?(?:#[A-Za-z0-9._~-]*)?"
    return f"^(?:{scheme})://(?:{label}\\.){{0,4}}{last}{port}{rest}$"
