"""Find why no parser can be made of a description of a format.

Why: anyone may register a format. One whose parser could read a text of its constraint in two ways, or not at all,
is refused when it is described, not when a model writes that text.
What: each rule is sufficient, not necessary. A border is a text with which another one begins and ends.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from .xml_styles import XmlStyle

if TYPE_CHECKING:
    from .format_texts import ToolFormat

__all__ = ["call_problems", "marker_problems", "reply_problems", "style_problems"]

_IN_NAMES = frozenset(string.ascii_letters + string.digits + "_.-")
"""Characters of the names of tools."""
_IN_SCALARS = frozenset("0123456789+-.eEtruefalsn")
"""Characters of JSON's numbers, true, false and null."""
_KEYWORDS = ("python", "keywords")
"""Notations of arguments that begin with a name."""
_AFTER_KEYS = '<>"\n'
"""Characters that no key of an element contains."""
_IN_ELEMENT = re.compile(r"\$(?:name|type|value)")


def call_problems(format: ToolFormat) -> list[str]:
    """Return what is wrong with `call`, and with the texts between and after calls."""
    pieces, found = format.pieces, []
    for (kind, _), (next_kind, following) in pairwise(pieces):
        is_text = next_kind == "text"
        if kind == "name" and (
            next_kind in ("number", "id") or (next_kind == "arguments" and format.arguments in _KEYWORDS)
        ):
            found.append(f"call needs a text between $name and {following}")
        if kind == "name" and is_text and following[0] in _IN_NAMES:
            found.append(f"after $name comes {following[0]!r}, which names of tools may contain")
        if kind == "number" and (next_kind in ("name", "id") or (is_text and following[0] in string.digits)):
            found.append(f"after $number comes {following!r:.40}, which may begin with a digit")
    tail = pieces[-1][1] if pieces[-1][0] == "text" else ""
    if format.arguments in _KEYWORDS and not tail.startswith(")"):
        found.append(f"arguments={format.arguments!r} needs ')' after $arguments")
    last = format.end or format.reply[1]
    follows = [tail + last]
    if format.between is not None:
        following = format.between + format.first_text
        follows.append(tail + following)
        if not following:
            found.append("between and the text before $name are both empty, so calls have no beginning")
        elif any(_may_begin(text, following) for text in {last, format.margin + last}):
            found.append(f"the end of calls, {last!r:.40}, may begin as the next call does")
    if format.style is not None:
        begin = format.style.without_gaps.partition("$name")[0]
        begins = {begin, format.style.between + begin}
        if any(text.startswith(one) or one.startswith(text) for text in follows for one in begins):
            found.append(f"what follows the elements may begin as an element does, with {begin!r:.40}")
    return found


def marker_problems(format: ToolFormat) -> list[str]:
    """Return what is wrong with the texts that are special tokens, end the reasoning, or surround strings."""
    found, end, quote = [], format.think[1], format.quote
    if "" in format.specials:
        found.append("specials contains an empty text")
    is_inside = format.marks_answers or any(special in end for special in format.specials)
    if is_inside and not any(end.startswith(special) for special in format.specials):
        found.append(f"the end of think, {end!r:.40}, needs to begin with one of specials")
    if quote and (quote[0] in "{}[],:" or quote[0] in _IN_NAMES | _IN_SCALARS or _has_border(quote)):
        found.append(f"quote, {quote!r:.40}, may be part of a value, or begins and ends alike")
    return found


def reply_problems(format: ToolFormat) -> list[str]:
    """Return what is wrong with the texts around all that follows the reasoning."""
    found = []
    begin, end = format.reply
    if not (begin and end):
        found.append("reply needs two texts")
    elif format.at_start or format.is_framed or format.say[0]:
        found.append("reply excludes at_start and the markers of answer and say")
    elif not any(special in end and special not in format.marker for special in format.specials):
        found.append("the end of reply contains none of specials, so an answer could contain it")
    elif format.marker in end or _may_end_in(format.marker, end, format.specials):
        found.append(f"calls may begin as reply ends, with {end!r:.40}")
    elif _has_border(end):
        found.append(f"the end of reply, {end!r:.40}, begins and ends alike")
    elif format.think[0] and (begin.startswith(format.think[0]) or format.think[0].startswith(begin)):
        found.append(f"reply may begin as the reasoning does, with {begin!r:.40}")
    return found


def style_problems(style: XmlStyle) -> list[str]:
    """Return what is wrong with the elements of arguments."""
    wanted = ["$name", "$type", "$value"] if style.types else ["$name", "$value"]
    element, end = style.without_gaps, style.end.strip()
    if _IN_ELEMENT.findall(element) != wanted:
        return [f"element of style needs {', '.join(wanted)}, once each and in this order"]
    begin, _, after = element.partition("$name")
    after, kind, before = after.partition(wanted[1])
    found = []
    if style.nested:
        found.append("nested elements are for structural tags; without nested such values are JSON")
    if style.is_padded and style.types:
        found.append("is_padded and types exclude each other")
    if not begin or begin[0] in _IN_NAMES:
        found.append("an element of style needs a text before $name that no name could begin with")
    if not after or after[0] not in _AFTER_KEYS:
        found.append("after $name an element of style needs '<', '>', '\"' or a line end")
    if not end:
        found.append("an element of style needs a text after $value")
    elif _IN_SCALARS.issuperset(end) or _has_border(style.end if style.types else end):
        found.append(f"the end of an element, {end!r:.40}, may be part of a number, or begins and ends alike")
    if "" in style.never:
        found.append("never contains an empty text")
    if kind == "$type":
        found += _type_problems(style, before.partition("$value")[0])
    if style.escapes and not style.types:
        found.append("escapes needs types")
    first = next(iter(style.escapes), "")
    if any(len(letter) != 1 or not escape.startswith(first) for letter, escape in style.escapes.items()):
        found.append("escapes replaces single characters, first the one with which each escape begins")
    return found


def _type_problems(style: XmlStyle, after: str) -> list[str]:
    shown = [text + after for text, _ in style.forms]
    pairs = [(one, other) for place, one in enumerate(shown) for other in shown[:place]]
    if any(one.startswith(other) or other.startswith(one) for one, other in pairs):
        return ["types does not tell strings from other values, or one type begins as another does"]
    if any("$" in text for text in shown):
        return ["types contains '$'"]
    return []


def _may_begin(end: str, following: str) -> bool:
    """Return whether the end of calls may begin as a further call does, including the name."""
    rest = end.removeprefix(following)
    return end.startswith(following) and (not rest or rest[0] in _IN_NAMES)


def _may_end_in(marker: str, end: str, specials: Sequence[str]) -> bool:
    """Return whether a text without special tokens may begin a marker that ends in the text after it."""
    return any(
        end.startswith(marker[length:]) and not any(special in marker[:length] for special in specials)
        for length in range(1, len(marker))
    )


def _has_border(text: str) -> bool:
    """Return whether a text begins as it ends, so that its first occurrence may begin in the text before it."""
    return any(text.endswith(text[:length]) for length in range(1, len(text)))
