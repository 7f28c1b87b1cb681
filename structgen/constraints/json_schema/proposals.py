"""Propose what a person would write where a schema leaves it open: words, plain numbers, dates, addresses.

Why: people read examples, and "river stone" is more telling than "qX7}".

Invariant: everything is drawn with `Random.random` alone, whose sequence for a seed is the same in every version of
Python.
"""

from __future__ import annotations

from random import Random

__all__ = ["number", "phrase", "plain", "texts"]

_LISTED = (
    "amber anchor apple autumn basket beacon birch bridge candle canyon cedar cloud copper coral cotton "
    "dawn delta ember falcon feather fern field forest garden glass granite harbor hazel hill honey island "
    "ivory jasper juniper lake lantern leaf lemon linen maple marble meadow mill mint morning moss mountain "
    "night north oak ocean olive orchard paper pearl pebble pine plum pond quartz quiet rain raven reed river "
    "rose saffron sail salt sand silver sky slate snow sparrow spring star stone storm summer sun thistle "
    "tide timber valley velvet violet water willow wind window winter wool"
)
_WORDS = tuple(_LISTED.split())


def _below(source: Random, limit: int) -> int:
    return int(source.random() * limit)


def _word(source: Random) -> str:
    return _WORDS[_below(source, len(_WORDS))]


def phrase(source: Random, words: int) -> str:
    """Return words with spaces between them."""
    return " ".join(_word(source) for _ in range(words))


def number(source: Random) -> str:
    """Return a number: mostly small and whole, some with a fraction, few large or negative."""
    kind = source.random()
    whole = _below(source, 100 if kind < 0.5 else 10 if kind < 0.75 else 10_000)
    sign = "-" if whole and source.random() < 0.15 else ""
    if 0.35 < kind < 0.5:
        return f"{sign}{whole}.{1 + _below(source, 9)}"
    if kind > 0.92:
        return f"{sign}{whole}.{_below(source, 10)}{1 + _below(source, 9)}"
    return f"{sign}{whole}"


def plain(written: str) -> str:
    """Return the shortest spelling of a decimal without an exponent: no trailing zeros, no ``-0``."""
    whole, point, fraction = written.partition(".")
    fraction = fraction.rstrip("0")
    if not fraction:
        return "0" if whole == "-0" else whole
    return f"{whole}{point}{fraction}"


def texts(source: Random) -> list[str]:
    """Return one text for each format and common pattern."""
    year, month, day = 1990 + _below(source, 45), 1 + _below(source, 12), 1 + _below(source, 28)
    date = f"{year}-{month:02}-{day:02}"
    hour, minute, second = _below(source, 24), _below(source, 60), _below(source, 60)
    time = f"{hour:02}:{minute:02}:{second:02}"
    one, two, three = (_word(source) for _ in range(3))
    host = f"{two}.example"
    digits = [f"{_below(source, 16):x}" for _ in range(32)]
    digits[12], digits[16] = "4", "89ab"[_below(source, 4)]
    code = "".join(digits)
    uuid = f"{code[:8]}-{code[8:12]}-{code[12:16]}-{code[16:20]}-{code[20:]}"
    version = f"{_below(source, 10)}.{_below(source, 20)}.{_below(source, 30)}"
    return [
        date,
        f"{date}T{time}Z",
        f"{time}Z",
        time,
        f"P{1 + _below(source, 30)}D",
        f"{one}@{host}",
        host,
        f"192.0.2.{_below(source, 256)}",
        f"2001:db8::{_below(source, 65536):x}",
        f"https://{host}/{one}",
        f"https://{host}/{one}/{{{three}}}",
        f"/{one}/{three}",
        uuid,
        f"#{code[:6]}",
        version,
        f"{one}-{two}",
        f"{one}_{two}",
        one.capitalize(),
        one.upper(),
        f"{one}.json",
    ]
