"""The formats of JSON Schema, each a small predicate from its RFC.

Predicates of texts that are valid for the format. Unknown formats are not in the table, and so
accept everything. Internationalised host names are checked by shape only: IDNA 2008 needs tables
that the standard library does not have.
"""

from __future__ import annotations

import calendar
import ipaddress
import re
import unicodedata
from collections.abc import Callable

from tests.oracles import ecma_regex

FORMATS: dict[str, Callable[[str], bool]] = {}
SINCE = {  # the draft from which a format is asserted; the others in all, as validators do
    **dict.fromkeys(("uri-reference", "uri-template", "json-pointer"), 6),
    **dict.fromkeys(("idn-hostname", "iri", "iri-reference", "relative-json-pointer"), 7),
    **dict.fromkeys(("duration", "uuid"), 2019),
}


def _format(*names: str) -> Callable[[Callable[[str], bool]], Callable[[str], bool]]:
    def register(predicate: Callable[[str], bool]) -> Callable[[str], bool]:
        for name in names:
            FORMATS[name] = predicate
        return predicate

    return register


def _matches(pattern: str, text: str) -> re.Match[str] | None:
    return re.fullmatch(pattern, text, re.ASCII)


# ------------------------------------------------------------------ RFC 3339


@_format("date")
def date(text: str) -> bool:
    match = _matches(r"(\d{4})-(\d\d)-(\d\d)", text)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    # RFC 3339 has a year 0, the standard library does not; leap years repeat every 400.
    return 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year or 400, month)[1]


@_format("time")
def time(text: str) -> bool:
    match = _matches(r"(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[zZ]|([+-])(\d\d):(\d\d))", text)
    if match is None:
        return False
    hour, minute, second = int(match[1]), int(match[2]), int(match[3])
    offset_hour, offset_minute = int(match[5] or 0), int(match[6] or 0)
    if hour > 23 or minute > 59 or second > 60 or offset_hour > 23 or offset_minute > 59:
        return False
    offset = (offset_hour * 60 + offset_minute) * (-1 if match[4] == "+" else 1)
    # A leap second is the last of a day in UTC.
    return second < 60 or (hour * 60 + minute + offset) % 1440 == 1439


@_format("date-time")
def date_time(text: str) -> bool:
    return len(text) > 11 and text[10] in "Tt" and date(text[:10]) and time(text[11:])


@_format("duration")
def duration(text: str) -> bool:
    clock = r"T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)"
    days = r"(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)"
    return _matches(rf"P(?:\d+W|{days}(?:{clock})?|{clock})", text) is not None


# ------------------------------------------------------------------ hosts and addresses


@_format("ipv4")
def ipv4(text: str) -> bool:
    octet = r"(?:0|[1-9]\d?|1\d\d|2[0-4]\d|25[0-5])"
    return _matches(rf"{octet}(?:\.{octet}){{3}}", text) is not None


@_format("ipv6")
def ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return text.isascii() and "%" not in text


@_format("hostname")
def hostname(text: str) -> bool:
    label = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    if len(text) > 253 or _matches(rf"{label}(?:\.{label})*", text) is None:
        return False
    return all(part[2:4] != "--" or part[:4].lower() == "xn--" for part in text.split("."))


@_format("idn-hostname")
def idn_hostname(text: str) -> bool:
    # Roughly: letters, marks and digits of any script, and what may stand between some of them.
    labels = re.split("[.\u3002\uff0e\uff61]", text)
    return len(text) <= 253 and all(
        1 <= len(label) <= 63
        and "-" not in (label[0], label[-1])
        and all(c in "-_\u00b7" or unicodedata.category(c)[0] in "LMN" for c in label)
        for label in labels
    )


def _email(text: str, letters: str, host: Callable[[str], bool]) -> bool:
    local, _, domain = text.rpartition("@")
    atom = rf"[{letters}0-9!#$%&'*+/=?^_`{{|}}~-]+"
    quoted = rf'"(?:[{letters} !#-\[\]-~]|\\[ -~])*"'
    if re.fullmatch(rf"{atom}(?:\.{atom})*|{quoted}", local) is None or len(local) > 64:
        return False
    if not (domain.startswith("[") and domain.endswith("]")):
        return host(domain)
    literal = domain[1:-1]
    return ipv6(literal[5:]) if literal.lower().startswith("ipv6:") else ipv4(literal)


@_format("email")
def email(text: str) -> bool:
    return _email(text, "A-Za-z", hostname)


@_format("idn-email")
def idn_email(text: str) -> bool:
    return _email(text, "A-Za-z\u0080-\U0010ffff", idn_hostname)


# ------------------------------------------------------------------ RFC 3986, 3987, 6570

_OTHER = "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef\U00010000-\U000dffff"


def _reference(text: str, other: str, *, absolute: bool) -> bool:
    character = rf"(?:[A-Za-z0-9._~!$&'()*+,;={other}-]|%[0-9A-Fa-f]{{2}})"
    segment = rf"(?:{character}|[:@])"
    private = "\ue000-\uf8ff\U000f0000-\U0010fffd" if other else ""
    match = re.fullmatch(
        rf"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<authority>[^/?#]*))?"
        rf"(?P<path>(?:{segment}|/)*)(?:\?(?:{segment}|[/?{private}])*)?(?:\#(?:{segment}|[/?])*)?",
        text,
    )
    if match is None or (absolute and match["scheme"] is None):
        return False
    authority, path = match["authority"], match["path"]
    if authority is None:
        return match["scheme"] is not None or ":" not in path.split("/")[0]
    if path and not path.startswith("/"):
        return False
    user, at, host = authority.rpartition("@")
    if at and re.fullmatch(rf"(?:{character}|:)*", user) is None:
        return False
    literal = _matches(r"\[(.*)\](?::\d*)?", host)
    if literal is not None:
        return (
            ipv6(literal[1])
            or _matches(r"[vV][0-9a-fA-F]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+", literal[1]) is not None
        )
    return re.fullmatch(rf"{character}*(?::[0-9]*)?", host) is not None


@_format("uri")
def uri(text: str) -> bool:
    return _reference(text, "", absolute=True)


@_format("uri-reference")
def uri_reference(text: str) -> bool:
    return _reference(text, "", absolute=False)


@_format("iri")
def iri(text: str) -> bool:
    return _reference(text, _OTHER, absolute=True)


@_format("iri-reference")
def iri_reference(text: str) -> bool:
    return _reference(text, _OTHER, absolute=False)


@_format("uri-template")
def uri_template(text: str) -> bool:
    percent = "%[0-9A-Fa-f]{2}"
    name = rf"(?:[A-Za-z0-9_]|{percent})(?:\.?(?:[A-Za-z0-9_]|{percent}))*"
    variable = rf"{name}(?::[1-9][0-9]{{0,3}}|\*)?"
    expression = rf"\{{[+#./;?&=,!@|]?{variable}(?:,{variable})*\}}"
    literal = rf"[^\x00-\x20\x7f\"%<>\\^`{{|}}]|{percent}"
    return re.fullmatch(rf"(?:{literal}|{expression})*", text) is not None


# ------------------------------------------------------------------ the rest


@_format("json-pointer")
def json_pointer(text: str) -> bool:
    return re.fullmatch(r"(?:/(?:[^~/]|~[01])*)*", text, re.DOTALL) is not None


@_format("relative-json-pointer")
def relative_json_pointer(text: str) -> bool:
    match = re.fullmatch(r"(?:0|[1-9][0-9]*)(#|(?:/.*)?)", text, re.DOTALL)
    return match is not None and (match[1] == "#" or json_pointer(match[1]))


@_format("uuid")
def uuid(text: str) -> bool:
    return _matches(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text) is not None


@_format("regex")
def regex(text: str) -> bool:
    try:
        ecma_regex.compile_pattern(text)
    except ecma_regex.PatternError:
        return False
    return not re.search(r"(?<!\\)(?:\\\\)*\\[aAeGhHKNQRXyYzZ]", text)  # identity escapes end here
