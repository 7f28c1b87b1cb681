"""Internationalised host names: IDNA 2008 as far as a regular language can say it.

Why narrower: a label counts in its Punycode form, which is arithmetic over all of its characters; so labels that
are written in Punycode are left out, and the length of others is bounded by the worst case for their characters.
Everything else is said: allowed characters, rules about neighbours, composed form (NFC), the rule of writing
directions, which ties all labels of a name.
Invariant: sound: what is accepted is valid for IDNA 2008.
Cost: the tables become ranges when the format is first used.
Source: RFC 5890 to 5893, RFC 3492 (Punycode), UAX 15 (NFC).
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

from structgen.constraints import expressions
from structgen.constraints.expressions import Ranges
from structgen.constraints.json_schema.formats import hosts
from structgen.constraints.json_schema.formats.build import (
    ANY,
    RE,
    TEXT,
    alt,
    both,
    chars,
    cut,
    many,
    no,
    seq,
)
from tests.oracles.idna_data import TABLES

__all__ = ["LENGTHS", "by_expressions", "international_name"]

LENGTHS = (
    ((0x80, 0x3FFFF), 13),
    ((0x3040, 0x9FFF), 15),
    ((0xAC00, 0xD7A3), 16),
    ((0x590, 0x6FF), 23),
    ((0x80, 0x24F), 23),
    ((0x400, 0x52F), 23),
    ((0x370, 0x3FF), 25),
    *(((block, block + 0x7F), 26) for block in range(0x900, 0xE80, 0x80)),
)
"""So many characters of a label fit in any case if those that are not ASCII lie in the range: its Punycode form has
at most 59 then. Found by maximising over all sequences of insertions (RFC 3492, section 6)."""

_FEW_LABELS, _FEW_CHARACTERS = 3, 25
"""So many labels, or characters in all, have at most 253 octets in Punycode: 3 * 63 + 2, and 25 * 10."""
_ASCII = "a-z0-9-"
_DOT = chars(".。．｡")
_ZERO_WIDTH_NON_JOINER, _ZERO_WIDTH_JOINER = "\u200c", "\u200d"


def _ranges(*names: str) -> list[tuple[int, int]]:
    found = []
    for name in names:
        at = 0
        numbers = [int(word, 36) for word in TABLES[name].split()]
        for gap, length in zip(numbers[::2], numbers[1::2], strict=True):
            found.append((at + gap, at + gap + length))
            at += gap + length
    return found


@cache
def _class(*names: str) -> RE:
    """One character of any of these tables."""
    return expressions.character_class(expressions.normalise_ranges(_ranges(*names)))


@cache
def _orders() -> dict[int, Ranges]:
    """Marks by their canonical combining class."""
    return {
        int(name.removeprefix("CCC_")): tuple(_ranges(name)) for name in TABLES if name.startswith("CCC_")
    }


def _marks(low: int, high: int) -> RE:
    """One mark of a combining class from `low` to `high`."""
    listed = [pair for order, ranges in _orders().items() if low <= order <= high for pair in ranges]
    return expressions.character_class(expressions.normalise_ranges(listed))


@cache
def _not_composed() -> RE:
    """Texts of allowed characters that are not in NFC: marks out of order, or a pair that has one character."""
    faults = []
    orders = sorted(_orders())
    for lower, order in pairwise(orders):
        faults.append(seq(_marks(order, order), _marks(1, lower)))
    for name in TABLES:
        if name.startswith("BEFORE_"):
            point = int(name.removeprefix("BEFORE_"), 16)
            own = next((order for order, ranges in _orders().items() if _holds(ranges, point)), 0)
            # Between a base and its mark stand only marks of lower classes, or they would not meet.
            between = many(_marks(1, own - 1)) if own > 1 else ""
            faults.append(seq(_class(name), between, chr(point)))
    return seq(TEXT, alt(*faults), TEXT)


def _holds(ranges: Ranges, point: int) -> bool:
    return any(low <= point <= high for low, high in ranges)


@cache
def _misplaced() -> list[RE]:
    """Texts that break a rule about neighbours (RFC 5892, appendix A)."""
    digits, extended = chars("٠-٩"), chars("۰-۹")
    japanese = _class("Hiragana", "Katakana", "Han")
    virama, joining = _class("VIRAMA"), _class("JOINING_T")
    after_virama = seq(TEXT, virama)
    joins_before = seq(TEXT, _class("JOINING_L", "JOINING_D"), many(joining))
    joins_after = seq(many(joining), _class("JOINING_R", "JOINING_D"), TEXT)
    return [
        seq(no(seq(TEXT, "l")), "·", TEXT),
        seq(TEXT, "·", no(seq("l", TEXT))),
        seq(TEXT, "\u0375", no(seq(_class("Greek"), TEXT))),
        seq(no(seq(TEXT, _class("Hebrew"))), chars("\u05f3\u05f4"), TEXT),
        both(seq(TEXT, "・", TEXT), no(seq(TEXT, japanese, TEXT))),
        both(seq(TEXT, digits, TEXT), seq(TEXT, extended, TEXT)),
        seq(no(after_virama), _ZERO_WIDTH_JOINER, TEXT),
        seq(no(alt(after_virama, joins_before)), _ZERO_WIDTH_NON_JOINER, TEXT),
        seq(no(after_virama), _ZERO_WIDTH_NON_JOINER, no(joins_after)),
    ]


@cache
def _label(*, composed: bool) -> RE:
    """Labels with a character that is not ASCII, by everything but the rule of directions."""
    contextual = chars("·\u0375\u05f3\u05f4・٠-٩۰-۹" + _ZERO_WIDTH_JOINER + _ZERO_WIDTH_NON_JOINER)
    valid = alt(_class("PVALID"), contextual)
    rules = [
        many(valid, 1),
        seq(TEXT, chars("\x80-\ud7ff\ue000-\U0010ffff"), TEXT),
        no(seq(alt("-", _class("MARK")), TEXT)),
        no(seq(TEXT, "-")),
        no(seq(ANY, ANY, "--", TEXT)),
        *[no(misplaced) for misplaced in _misplaced()],
        alt(
            *[many(chars(f"{_ASCII[:-1]}{chr(low)}-{chr(high)}-"), 1, most) for (low, high), most in LENGTHS]
        ),
    ]
    if composed:
        rules.append(no(_not_composed()))
    return both(*rules)


def _name(label: RE) -> RE:
    return alt(
        seq(label, many(seq(_DOT, label), 0, _FEW_LABELS - 1)),
        cut(seq(label, many(seq(_DOT, label))), _FEW_CHARACTERS),
    )


@cache
def international_name(ascii_label: RE, *, composed: bool = True) -> RE:
    """Names whose labels are all of `ascii_label` or international ones."""
    label = _label(composed=composed)
    right_to_left = _class("BIDI_R", "BIDI_AL", "BIDI_AN")
    free = both(label, no(seq(TEXT, right_to_left, TEXT)))
    trailing = many(_class("BIDI_NSM"))
    # RFC 5893, section 2: where a label has such characters, every label follows the rule.
    leftward = both(
        label,
        seq(_class("BIDI_R", "BIDI_AL"), TEXT),
        no(seq(TEXT, _class("BIDI_L"), TEXT)),
        seq(TEXT, _class("BIDI_R", "BIDI_AL", "BIDI_EN", "BIDI_AN"), trailing),
        no(both(seq(TEXT, _class("BIDI_EN"), TEXT), seq(TEXT, _class("BIDI_AN"), TEXT))),
    )
    rightward = both(free, seq(_class("BIDI_L"), TEXT), seq(TEXT, _class("BIDI_L", "BIDI_EN"), trailing))
    ascii_rightward = both(ascii_label, seq(chars("A-Za-z"), TEXT))
    return alt(_name(alt(ascii_label, free)), _name(alt(ascii_rightward, rightward, leftward)))


def by_expressions(language: RE) -> RE:
    """The same language, where names that the core reads with a machine are expressions."""
    if language[0] == "host_names":
        label = hosts._plain_label()
        return alt(hosts.hostname(), international_name(label, composed=language[1]))
    parts = (
        tuple(map(by_expressions, p))
        if isinstance(p, tuple | list) and p and isinstance(p[0], tuple) and p[0] and isinstance(p[0][0], str)
        else p
        for p in language[1:]
    )
    return (
        language[0],
        *(by_expressions(p) if isinstance(p, tuple) and p and isinstance(p[0], str) else p for p in parts),
    )
