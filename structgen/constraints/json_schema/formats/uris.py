"""URIs, IRIs, URI templates, UUIDs and JSON pointers.

Invariant: exact; the functions follow the grammars of the RFCs rule by rule.

Source: RFC 3986 appendix A, RFC 3987 section 2.2, RFC 6570 section 2, RFC 9562 section 4, RFC 6901 section 3,
draft-bhutton-relative-json-pointer-00.
"""

from __future__ import annotations

from functools import cache

from .build import RE, alt, chars, many, maybe, seq, some
from .hosts import ipv6

__all__ = [
    "iri",
    "iri_reference",
    "json_pointer",
    "relative_json_pointer",
    "uri",
    "uri_reference",
    "uri_template",
    "uuid",
]

_HEX = chars("0-9A-Fa-f")
_ESCAPE = seq("%", _HEX, _HEX)
_SUB_DELIMITERS = "!$&'()*+,;="
_UNRESERVED = "A-Za-z0-9._~-"
_UCSCHAR = (
    "\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
    + "".join(f"{chr(plane << 16)}-{chr((plane << 16) + 0xFFFD)}" for plane in range(1, 14))
    + "\U000e1000-\U000efffd"
)
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"


class _Grammar:
    """The rules of RFC 3986. RFC 3987 has the same rules with `more` characters, and `private` ones in queries."""

    def __init__(self, more: str = "", private: str = "") -> None:
        self._more = more
        self.query = many(self._characters("/?:@", private))
        self.fragment = many(self._characters("/?:@"))
        self._segment = many(self._characters(":@"))
        self._segment_nz = some(self._characters(":@"))
        self._segment_nz_nc = some(self._characters("@"))
        self._path_abempty = many(seq("/", self._segment))
        self._path_absolute = seq("/", maybe(seq(self._segment_nz, self._path_abempty)))

    def _characters(self, extra: str, private: str = "") -> RE:
        # The hyphen of the unreserved characters must stay last in the list.
        listed = extra + self._more + private + _SUB_DELIMITERS + _UNRESERVED
        return alt(chars(listed), _ESCAPE)

    def _authority(self) -> RE:
        user = many(self._characters(":"))
        future = seq(chars("Vv"), some(_HEX), ".", some(chars(":" + _SUB_DELIMITERS + _UNRESERVED)))
        literal = seq("[", alt(ipv6(), future), "]")
        # An IPv4 address is also a registered name.
        host = alt(literal, many(self._characters("")))
        return seq(maybe(seq(user, "@")), host, maybe(seq(":", many(chars("0-9")))))

    def _rest(self) -> RE:
        return seq(maybe(seq("?", self.query)), maybe(seq("#", self.fragment)))

    def absolute(self) -> RE:
        scheme = seq(chars("A-Za-z"), many(chars("A-Za-z0-9+.-")))
        path_rootless = seq(self._segment_nz, self._path_abempty)
        path = alt(seq("//", self._authority(), self._path_abempty), self._path_absolute, path_rootless, "")
        return seq(scheme, ":", path, self._rest())

    def relative(self) -> RE:
        path_noscheme = seq(self._segment_nz_nc, self._path_abempty)
        path = alt(seq("//", self._authority(), self._path_abempty), self._path_absolute, path_noscheme, "")
        return seq(path, self._rest())


@cache
def uri() -> RE:
    """Return URIs, which have a scheme (RFC 3986)."""
    return _Grammar().absolute()


@cache
def uri_reference() -> RE:
    """Return URIs and relative references (RFC 3986 section 4.1)."""
    grammar = _Grammar()
    return alt(grammar.absolute(), grammar.relative())


@cache
def iri() -> RE:
    """Return IRIs: URIs with characters beyond ASCII (RFC 3987)."""
    return _Grammar(_UCSCHAR, _PRIVATE).absolute()


@cache
def iri_reference() -> RE:
    """Return IRIs and relative references (RFC 3987 section 2.2)."""
    grammar = _Grammar(_UCSCHAR, _PRIVATE)
    return alt(grammar.absolute(), grammar.relative())


@cache
def uri_template() -> RE:
    """Return URI templates of all levels, such as ``/users{/id}`` (RFC 6570)."""
    literal = alt(
        chars("!#-$&-;=?-[]_a-z~\xa0-\ud7ff\ue000-\U0010ffff"),
        _ESCAPE,
    )
    letter = alt(chars("A-Za-z0-9_"), _ESCAPE)
    name = seq(letter, many(seq(maybe("."), letter)))
    modifier = alt(seq(":", chars("1-9"), many(chars("0-9"), 0, 3)), "*")
    variable = seq(name, maybe(modifier))
    expression = seq("{", maybe(chars("+#./;?&=,!@|")), variable, many(seq(",", variable)), "}")
    return many(alt(literal, expression))


@cache
def uuid() -> RE:
    """Return UUIDs: groups of 8, 4, 4, 4 and 12 hexadecimal digits (RFC 9562 section 4)."""

    def digits(count: int) -> RE:
        return many(_HEX, count, count)

    return seq(digits(8), many(seq("-", digits(4)), 3, 3), "-", digits(12))


@cache
def json_pointer() -> RE:
    """Return JSON pointers such as ``/a/0``; the empty text points to the whole document (RFC 6901)."""
    character = alt(chars("\x00-.0-}\x7f-\ud7ff\ue000-\U0010ffff"), "~0", "~1")
    return many(seq("/", many(character)))


@cache
def relative_json_pointer() -> RE:
    """Return relative JSON pointers such as ``1/a``: how many levels to go up, then a pointer or ``#``."""
    up = alt("0", seq(chars("1-9"), many(chars("0-9"))))
    return seq(up, alt("#", json_pointer()))
