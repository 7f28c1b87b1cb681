"""Regular expressions that are valid in ECMA-262.

Why narrower: groups nest without bound, names of groups must differ, and back-references need their group. So the
set of valid expressions is not regular. This language nests groups to a fixed depth and has at most one named
group, which is not inside another group. References to that group require a name of one letter.

Invariant: sound. Every text of the language is a valid pattern, with and without the ``u`` flag.

Source: ECMA-262, section 22.2.1.
"""

from __future__ import annotations

from functools import cache
from string import ascii_lowercase

from .build import RE, TEXT, alt, chars, many, maybe, no, seq

__all__ = ["NARROWER", "regex", "without_leading_quantifier"]

_MAX_GROUP_DEPTH = 4

NARROWER = (
    f"groups nest {_MAX_GROUP_DEPTH} deep; one named group; back-references only to the name of one letter; "
    "ranges within letters, digits or ASCII"
)

_DIGIT = chars("0-9")
_HEX = chars("0-9A-Fa-f")


def _ordered_numbers() -> RE:
    """Return ``n,m`` with n <= m, up to three digits each, without leading zeros."""
    first = chars("1-9")
    shorter = alt(
        seq(_DIGIT, ",", first, many(_DIGIT, 1, 2)),
        seq(first, _DIGIT, ",", first, _DIGIT, _DIGIT),
    )
    ones = alt(*[seq(str(n), ",", chars(f"{n}-9")) for n in range(10)])
    tens = alt(*[_same_tens(t) for t in range(1, 10)])
    hundreds = alt(
        *[seq(str(h), _DIGIT, _DIGIT, ",", chars(f"{h + 1}-9"), _DIGIT, _DIGIT) for h in range(1, 9)],
        *[seq(f"{h}00,{h}", _DIGIT, _DIGIT) for h in range(1, 10)],
    )
    return alt(shorter, ones, tens, hundreds)


def _same_tens(tens: int) -> RE:
    more = [seq(str(tens), _DIGIT, ",", chars(f"{tens + 1}-9"), _DIGIT)] if tens < 9 else []
    return alt(*more, *[seq(f"{tens}{u},{tens}", chars(f"{u}-9")) for u in range(10)])


def _range_of(low: str, high: str) -> RE:
    """Return the ordered ranges of a class, such as ``a-z``, with bounds from `low` to `high`."""
    return alt(*[seq(chr(c), "-", chars(f"{chr(c)}-{high}")) for c in range(ord(low), ord(high) + 1)])


@cache
def _escape() -> RE:
    return seq(
        "\\",
        alt(
            chars("dDwWsStnrfv"),
            chars("^$\\.*+?()[]{}|/"),
            seq("c", chars("A-Za-z")),
            seq("x", _HEX, _HEX),
            # Halves of surrogate pairs are left out.
            seq("u", alt(seq(chars("0-9A-CE-Fa-ce-f"), _HEX), seq(chars("Dd"), chars("0-7"))), _HEX, _HEX),
        ),
    )


@cache
def _class() -> RE:
    single = chars("\x20-,.-Z_-~\xa0-\ud7ff\ue000-\U0010ffff")
    ranges = alt(_range_of("0", "9"), _range_of("A", "Z"), _range_of("a", "z"), " -~", "!-~", "\\x00-\\x7F")
    inside = many(alt(single, _escape(), "\\-", "\\b", ranges))
    # A hyphen at either end is itself.
    return seq("[", maybe("^"), maybe("-"), inside, maybe("-"), "]")


@cache
def regex() -> RE:
    """Return regular expressions of ECMA-262, with groups nested up to `_MAX_GROUP_DEPTH` deep."""
    plain = chars("\x20-#%-',/0-9:->@-Z_`a-z~\xa0-\ud7ff\ue000-\U0010ffff-")
    count = alt("0", seq(chars("1-9"), many(_DIGIT, 0, 2)))
    bounds = seq("{", alt(count, seq(count, ","), _ordered_numbers()), "}")
    quantifier = maybe(seq(alt(chars("*+?"), bounds), maybe("?")))
    atom = alt(plain, ".", _escape(), _class())
    assertion = alt("^", "$", "\\b", "\\B")
    flat = alt(seq(atom, quantifier), assertion, "|")
    shallower, piece = flat, flat
    for _ in range(_MAX_GROUP_DEPTH):
        group = seq("(", maybe("?:"), many(piece), ")")
        # Bodies of look-arounds nest less deeply, so the size grows like Fibonacci numbers, not like powers of two.
        look = seq("(?", maybe("<"), chars("=!"), many(shallower), ")")
        shallower, piece = piece, alt(seq(alt(atom, group), quantifier), assertion, look, "|")
    return alt(many(piece), _with_name(piece, quantifier))


def _with_name(piece: RE, quantifier: RE) -> RE:
    """Return expressions with one named group."""
    rest = seq(">", many(piece), ")", quantifier)
    name = seq(chars("A-Za-z_$"), many(chars("A-Za-z0-9_$")))
    referred = [
        seq(letter, rest, many(alt(piece, seq(f"\\k<{letter}>", quantifier)))) for letter in ascii_lowercase
    ]
    return seq(many(piece), "(?<", alt(seq(name, rest, many(piece)), *referred))


@cache
def without_leading_quantifier() -> RE:
    """Return the texts that do not start with a quantifier or a closing parenthesis."""
    return no(seq(chars("*+?)"), TEXT))
