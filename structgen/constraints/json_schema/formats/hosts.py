"""Addresses: IPv4, IPv6, host names, internationalised host names, e-mail.

Invariant: sound. Exact except for Punycode labels (``xn--``), which no regular language can check: they are left
out. The core reads internationalised names (``regex/host_names.h``), which are also narrower in the length of
labels.

Source: RFC 1123 section 2.1, RFC 5890 to 5893, RFC 4291 section 2.2, RFC 5321 section 4.1.2, RFC 6531.
"""

from __future__ import annotations

from functools import cache

from .build import ANY, RE, TEXT, alt, both, chars, cut, many, maybe, no, seq, some

__all__ = [
    "email",
    "hostname",
    "hostname_before_idna",
    "idn_email",
    "idn_hostname",
    "in_ascii",
    "ipv4",
    "ipv6",
    "with_at",
    "without_punctuation",
]

_DIGIT = chars("0-9")
_LETTER_DIGIT = chars("A-Za-z0-9")
_LABEL_LIMIT, _NAME_LIMIT, _LOCAL_LIMIT = 63, 253, 64


@cache
def ipv4() -> RE:
    """Return four decimal numbers up to 255 without leading zeros (RFC 2673 section 3.2)."""
    octet = alt(
        _DIGIT,
        seq(chars("1-9"), _DIGIT),
        seq("1", _DIGIT, _DIGIT),
        seq("2", chars("0-4"), _DIGIT),
        seq("25", chars("0-5")),
    )
    return seq(octet, many(seq(".", octet), 3, 3))


@cache
def ipv6() -> RE:
    """Return IPv6 addresses, with or without ``::`` and a dotted end (RFC 4291 section 2.2)."""
    group = many(chars("0-9A-Fa-f"), 1, 4)
    last = alt(seq(group, ":", group), ipv4())

    def before(count: int) -> RE:
        """Return nothing, or up to `count` groups."""
        return maybe(seq(group, many(seq(":", group), 0, count - 1)))

    def after(count: int) -> RE:
        return many(seq(group, ":"), count, count)

    # The nine rules of RFC 3986, appendix A: a `::` stands for at least one group.
    rules = [seq(after(6), last), seq("::", after(5), last)]
    rules += [seq(before(n), "::", after(5 - n), last) for n in range(1, 6)]
    rules += [seq(before(6), "::", group), seq(before(7), "::")]
    return alt(*rules)


def _label() -> RE:
    """Return letters and digits with hyphens between them."""
    return seq(_LETTER_DIGIT, maybe(seq(many(chars("A-Za-z0-9-"), 0, _LABEL_LIMIT - 2), _LETTER_DIGIT)))


@cache
def _plain_label() -> RE:
    """Return labels whose third and fourth characters are not both hyphens, which mark Punycode or are reserved."""
    return both(_label(), no(seq(ANY, ANY, "--", TEXT)))


def _name(label: RE, dot: RE | str, longest: int) -> RE:
    return cut(seq(label, many(seq(dot, label))), longest)


@cache
def hostname_before_idna() -> RE:
    """Return host names by RFC 1034 and 1123, as in drafts 4 and 6: Punycode labels are ordinary ones."""
    return _name(_label(), ".", _NAME_LIMIT)


@cache
def hostname() -> RE:
    """Return host names that satisfy RFC 5890 as well, as from draft 7 on."""
    return _name(_plain_label(), ".", _NAME_LIMIT)


@cache
def idn_hostname() -> RE:
    """Return internationalised host names, in composed form (RFC 5890)."""
    return ("host_names", True)


_ATOM = "A-Za-z0-9!#$%&'*+/=?^_`{|}~-"
_QUOTED = "\t -!#-[]-~"
_ESCAPED = "!-~"


def _local_part(more: str) -> RE:
    atom = some(alt(chars(_ATOM), chars(more)) if more else chars(_ATOM))
    plain = alt(chars(_QUOTED), chars(more)) if more else chars(_QUOTED)
    quoted = seq('"', many(alt(plain, seq("\\", chars(_ESCAPED)))), '"')
    return alt(seq(atom, many(seq(".", atom))), quoted)


def _literal() -> RE:
    tag = seq(chars("Ii"), chars("Pp"), chars("Vv"), "6:")
    return seq("[", alt(ipv4(), seq(tag, ipv6())), "]")


@cache
def email() -> RE:
    """Return e-mail addresses in ASCII (RFC 5321 section 4.1.2)."""
    return seq(cut(_local_part(""), _LOCAL_LIMIT), "@", alt(hostname(), _literal()))


@cache
def idn_email() -> RE:
    """Return e-mail addresses with characters of any script (RFC 6531)."""
    # The limit of the local part counts octets; a character has at most four.
    local = alt(
        cut(_local_part(""), _LOCAL_LIMIT),
        cut(_local_part("\x80-\ud7ff\ue000-\U0010ffff"), _LOCAL_LIMIT // 4),
    )
    # Like the local part, the domain need not be in composed form here.
    return seq(local, "@", alt(("host_names", False), _literal()))


@cache
def with_at() -> RE:
    """Return texts with an at sign, which every address has."""
    return seq(TEXT, "@", TEXT)


@cache
def in_ascii() -> RE:
    """Return texts of the characters of host names, Punycode included."""
    return some(chars("A-Za-z0-9.-"))


@cache
def without_punctuation() -> RE:
    """Return texts whose ASCII characters are letters, digits, hyphens and dots, as in every internationalised name."""
    return some(chars("-.0-9A-Za-z\x80-\ud7ff\ue000-\U0010ffff"))
