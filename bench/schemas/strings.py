"""Random strings that match a regular expression or have a format, for instances of schemas.

A draw follows the expression's syntax tree and ignores assertions such as look-ahead, so the caller validates each
candidate (`bench.schemas.instances`). It uses nothing of the measured library.

Invariant: the same source of randomness gives the same string. Cost: proportional to the string; a bounded number of
characters is drawn from each expression.
"""

from __future__ import annotations

import random
import re
import re._constants as codes  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Callable
from typing import Any

__all__ = ["FORMATS", "free_text", "from_pattern", "word"]

_WORD_LIST = (
    "account active address alpha amount archive area author backup balance base batch beta block branch bucket "
    "build cache category channel city client cluster color config container content count country credit customer "
    "daily data default delete delta demo deploy detail device domain draft east edge email enable engine entry "
    "event export factor feature field file filter final first folder format gamma gateway global green group "
    "handler header high image import index input invoice item job key label language large latest layer level "
    "limit list local main manager market member memory message meta method metric model module monthly name "
    "network node north note notice number object office option order origin output owner package parent payment "
    "period phase pipeline platform plugin point policy pool port primary price process product profile project "
    "public query queue random range rate record region release remote report request resource result review role "
    "route rule sample schedule schema score search secret section server service session setting shared signal "
    "simple single size small source south stage standard start state status storage store stream street string "
    "subject summary support system table target task team template test text thread ticket title token topic "
    "total trace track traffic trigger type unit update usage user value vendor version view volume weekly west"
)
_WORDS = _WORD_LIST.split()
_MOST = 2_000
"""Characters drawn from one expression at most."""
_PROPERTIES = {
    "L": "aeiorstnéüñжλ中",
    "Lu": "ABCDEÉÜЖ",
    "Ll": "abcdeéüж",
    "N": "0123456789",
    "Nd": "0123456789",
    "P": "-.,;:!?",
    "S": "+<=>$€",
    "M": "\u0301",
    "Z": " ",
    "Zs": " ",
    "Letter": "aeiorstné中",
    "Alphabetic": "aeiorstné中",
}
"""Some characters of each Unicode property, for expressions that Python's `re` cannot read."""


def word(source: random.Random) -> str:
    return source.choice(_WORDS)


def free_text(source: random.Random, least: int = 0, most: int | None = None) -> str:
    """Words of a length in characters between two bounds."""
    if most is None or most > 400:
        most = max(least, 400)
    goal = least + min(source.choice((1, 4, 8, 12, 30)), most - least)
    text = word(source)
    while len(text) < goal:
        text += " " + word(source)
    text = text[:most]
    return text[:-1] + "e" if text.endswith(" ") else text


def from_pattern(pattern: str, source: random.Random, growth: float) -> str | None:
    """Return a string that the expression describes, or None if its syntax cannot be read.

    Args:
        pattern: An ECMA-262 expression.
        source: The source of randomness.
        growth: The mean number of repetitions beyond the least where a repetition has no small bound.
    """
    try:
        tree = parser.parse(_as_python(pattern))
    except (re.error, OverflowError, RecursionError):
        return None
    out: list[str] = []
    try:
        _draw(tree, source, growth, out, {})
    except (_Unsupported, RecursionError):
        return None
    return "".join(out)


class _Unsupported(Exception):
    """The syntax tree holds something that cannot be drawn."""


def _as_python(pattern: str) -> str:
    pattern = re.sub(r"\\[pP]\{(?:\w+=)?(\w+)\}(?=[^\[]*\])", lambda m: _property(m[1]), pattern)
    pattern = re.sub(r"\\[pP]\{(?:\w+=)?(\w+)\}", lambda m: f"[{_property(m[1])}]", pattern)
    pattern = re.sub(r"\\u\{([0-9a-fA-F]+)\}", lambda m: re.escape(chr(int(m[1], 16))), pattern)
    pattern = pattern.replace("(?<", "(?P<").replace("(?P<=", "(?<=").replace("(?P<!", "(?<!")
    pattern = re.sub(r"\\/", "/", pattern)
    return pattern.replace(r"\Z", "$").replace(r"\z", "$")


def _property(name: str) -> str:
    return re.escape(_PROPERTIES.get(name, _PROPERTIES.get(name[:1], "aeiou")))


_CATEGORIES = {
    codes.CATEGORY_DIGIT: "0123456789",
    codes.CATEGORY_NOT_DIGIT: "abcxyz",
    codes.CATEGORY_WORD: "abcdefghijklmnopqrstuvwxyz0123456789_",
    codes.CATEGORY_NOT_WORD: " -.:",
    codes.CATEGORY_SPACE: " ",
    codes.CATEGORY_NOT_SPACE: "abcdefghijklmnopqrstuvwxyz0123456789",
}
_USUAL = "etaoinsrhldcumfpgwybvkxjqz0123456789ETAOINSRHLDCUMFPGWYBVKXJQZ -_./:,"
"""Characters that texts are made of, tried first for a negated class."""


def _draw(tree: Any, source: random.Random, growth: float, out: list[str], groups: dict[int, str]) -> None:
    for code, argument in tree:
        if len(out) > _MOST:
            return
        if code is codes.LITERAL:
            out.append(chr(argument))
        elif code is codes.NOT_LITERAL:
            out.append(source.choice([c for c in _USUAL[:26] if ord(c) != argument]))
        elif code is codes.ANY:
            out.append(source.choice(_USUAL[:36]))
        elif code is codes.IN:
            out.append(_member(argument, source))
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            least, most, inner = argument
            extra = 0 if growth <= 0 else int(source.expovariate(1 / growth))
            most = _MOST if most is codes.MAXREPEAT else most
            for _ in range(min(least + extra, most, least + _MOST)):
                _draw(inner, source, growth, out, groups)
        elif code is codes.BRANCH:
            _draw(source.choice(argument[1]), source, growth, out, groups)
        elif code is codes.SUBPATTERN:
            start = len(out)
            _draw(argument[3], source, growth, out, groups)
            groups[argument[0]] = "".join(out[start:])
        elif code is codes.ATOMIC_GROUP:
            _draw(argument, source, growth, out, groups)
        elif code is codes.GROUPREF:
            out.append(groups.get(argument, ""))
        elif code not in (codes.AT, codes.ASSERT, codes.ASSERT_NOT):
            raise _Unsupported


def _member(items: Any, source: random.Random) -> str:
    """A member of a character class."""
    negated = bool(items) and items[0][0] is codes.NEGATE
    ranges: list[tuple[int, int]] = []
    for code, argument in items:
        if code is codes.LITERAL:
            ranges.append((argument, argument))
        elif code is codes.RANGE:
            ranges.append(argument)
        elif code is codes.CATEGORY:
            ranges += [(ord(c), ord(c)) for c in _CATEGORIES[argument]]
    if negated:
        usual = [c for c in _USUAL if not any(low <= ord(c) <= high for low, high in ranges)]
        if not usual:
            raise _Unsupported
        return source.choice(usual)
    likely = [c for c in _USUAL[:62] if any(low <= ord(c) <= high for low, high in ranges)]
    if likely and source.random() < 0.8:
        return source.choice(likely)
    low, high = source.choice(ranges)
    return chr(source.randint(low, high))


def _date(source: random.Random) -> str:
    return f"{source.randint(1990, 2035)}-{source.randint(1, 12):02}-{source.randint(1, 28):02}"


def _time(source: random.Random) -> str:
    zone = source.choice(("Z", "+02:00", "-05:30"))
    fraction = source.choice(("", f".{source.randint(1, 999):03}"))
    return f"{source.randint(0, 23):02}:{source.randint(0, 59):02}:{source.randint(0, 59):02}{fraction}{zone}"


def _host(source: random.Random) -> str:
    return (
        ".".join(word(source) for _ in range(source.randint(1, 3)))
        + "."
        + source.choice(("com", "org", "io", "example"))
    )


def _path(source: random.Random) -> str:
    return "".join("/" + word(source) for _ in range(source.choice((0, 1, 1, 2, 3, 6))))


def _idn(source: random.Random) -> str:
    return (
        source.choice(("räksmörgås", "münchen", "пример", "例え", "παράδειγμα", "bücher"))
        + "."
        + (source.choice(("se", "de", "org", "com")))
    )


def _hexadecimal(source: random.Random, count: int) -> str:
    return "".join(source.choice("0123456789abcdef") for _ in range(count))


FORMATS: dict[str, Callable[[random.Random], str]] = {
    "date": _date,
    "time": _time,
    "date-time": lambda r: f"{_date(r)}T{_time(r)}",
    "duration": lambda r: f"P{r.randint(1, 30)}DT{r.randint(1, 23)}H",
    "email": lambda r: f"{word(r)}.{word(r)}@{_host(r)}",
    "idn-email": lambda r: f"{word(r)}@{_idn(r)}",
    "hostname": _host,
    "idn-hostname": _idn,
    "ipv4": lambda r: ".".join(str(r.randint(1, 254)) for _ in range(4)),
    "ipv6": lambda r: "2001:db8::" + ":".join(_hexadecimal(r, 4).lstrip("0") or "1" for _ in range(3)),
    "uri": lambda r: f"https://{_host(r)}{_path(r)}" + r.choice(("", f"?{word(r)}={word(r)}")),
    "uri-reference": lambda r: f"https://{_host(r)}{_path(r)}" if r.random() < 0.5 else _path(r) or "/",
    "iri": lambda r: f"https://{_idn(r)}{_path(r)}",
    "iri-reference": lambda r: f"https://{_idn(r)}{_path(r)}",
    "uri-template": lambda r: f"https://{_host(r)}{_path(r)}/{{{word(r)}}}",
    "uuid": lambda r: "-".join(
        (
            _hexadecimal(r, 8),
            _hexadecimal(r, 4),
            "4" + _hexadecimal(r, 3),
            "a" + _hexadecimal(r, 3),
            _hexadecimal(r, 12),
        )
    ),
    "json-pointer": lambda r: _path(r) or "/a",
    "relative-json-pointer": lambda r: f"{r.randint(0, 3)}{_path(r)}",
    "regex": lambda r: f"^{word(r)}[a-z0-9]+$",
}
"""A text of each format of JSON Schema."""
