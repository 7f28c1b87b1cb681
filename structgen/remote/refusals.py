"""Find out whether a server refused a request because of its constraint.

Why: a server answers 400 to a prompt that is too long, an image or an unknown model, as well as to a schema that it
cannot compile. Leaving the constraint out helps only in the last case.
What: an error page names its cause by a field (``param``, or ``loc`` of a validator) or in its sentence. Field names of
constraints (``response_format``, ``structured_outputs``, ...) count anywhere. Words such as "schema" or "grammar" count
only if no other field is named and nothing blames the prompt. A length that does not fit is never the fault of the
constraint alone: more tokens help. Copies of the request in the page ("input") are ignored.
Invariant: a page that does not name the constraint is not taken for a refusal of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

from structgen.errors import RemoteError

__all__ = ["Cause", "cause_of", "is_bad_request", "wants_completion_tokens"]

Cause = Literal["constraint", "other", "unknown"]

_BAD_REQUEST = frozenset({400, 415, 422, 501})
_FIELD = re.compile(
    r"(?<![a-z])(response[_-]?format|json[_-]schema|structured[_-]outputs?|structured outputs?|guided[_-][a-z]+"
    r"|guided decoding|ebnf|gbnf|response[_-]schema|output[_-]format|text\.format)(?![a-z])",
    re.IGNORECASE,
)
"""Names of the fields that carry constraints, as servers spell them."""
_WORD = re.compile(
    r"\b(json schema|schemas?|grammars?|regex(es)?|regexp|regular expressions?|json mode|xgrammar|llguidance|outlines"
    r"|constrained decoding|required for format)\b",
    re.IGNORECASE,
)
_LOCATION = re.compile(r"""['"]loc['"]\s*:\s*[\[(]([^\])]*)[\])]""")
_ECHO = re.compile(r"""['"](?:input|failed_generation)['"]\s*:.*""", re.DOTALL)
"""Matches the part of a page that quotes the request or an answer."""
_OTHER_CAUSE = re.compile(
    r"context[ _-]?(length|window|size)|max(imum)?[ _-]?(model|sequence|input|context)[ _-]?len"
    r"|(prompt|inputs?|messages?|conversation)\b.{0,60}\b(too (long|large|many)|exceeds?|longer than)"
    r"|\brequest (is |was )?too (long|large)|\btoo many tokens|\btoken limit|\btokens? .{0,40}exceed"
    r"|\bmax_(completion_|new_|output_)?tokens\b"
    r"|\b(images?|image_url|image_\w+|audio|videos?|multi-?modal|vision)\b|\bcontent[ _](polic|filter|management)"
    r"|\bmodel\b.{0,80}\b(not found|does not exist|no access|not available|is not loaded)|\bunknown model"
    r"|\bmodel_not_found\b|api[ _-]?key|\bunauthori|\bcredential|\bquota|\bbilling|\brate[ _]limit",
    re.IGNORECASE,
)
"""Sentences about the rest of a request, which a weaker constraint does not repair."""
_LENGTH = re.compile(
    r"context[ _-]?(length|window|size)|\bmax_(completion_|new_|output_)?tokens\b|\btoo many tokens",
    re.IGNORECASE,
)
_PROPERTY = re.compile(r"\bpropert(y|ies)\b", re.IGNORECASE)
"""A word of sentences about a part of a schema; such a part may be named max_tokens."""
_FIELDS = frozenset({"regex", "grammar", "ebnf", "format", "schema", "response_schema"})
"""Whole names of fields that are too common as words for `_FIELD`."""


def is_bad_request(error: RemoteError) -> bool:
    """Return whether the server refused the request itself: a status that the same request always gets."""
    return error.status in _BAD_REQUEST


def cause_of(error: RemoteError) -> Cause:
    """Return what a refusal names as its cause; "unknown" if it names nothing that is known here."""
    if not is_bad_request(error):
        return "other"
    fields, sentence = _cause(error.body or error.message)
    if _LENGTH.search(sentence) and not _PROPERTY.search(sentence):
        return "other"  # even if the field is the constraint's: its shortest text does not fit
    if any(_is_constraint_field(name) for name in fields):
        return "constraint"
    named = _FIELD.search(sentence) or (None if fields else _WORD.search(sentence))
    other = _OTHER_CAUSE.search(sentence)
    # Sentences begin with their subject: what follows is detail, such as the names of a schema's properties.
    if named and not (other and other.start() < named.start()):
        return "constraint"
    return "other" if other or fields else "unknown"


def wants_completion_tokens(error: RemoteError) -> bool:
    """Return whether the server takes only the newer name of `max_tokens`."""
    page = error.body or error.message
    return is_bad_request(error) and "max_completion_tokens" in page and "max_tokens" in page


def _cause(page: str) -> tuple[list[str], str]:
    """Return the fields that an error page names, and its sentences."""
    try:
        data = json.loads(page)
    except (ValueError, RecursionError):
        data = page
    fields: list[str] = []
    words: list[str] = []
    for part in _parts(data, depth=4):
        if isinstance(part, str):
            fields += [name for found in _LOCATION.findall(part) for name in _names(found)]
            words.append(_ECHO.sub("", part))
            continue
        if isinstance(name := part.get("param"), str):
            fields.append(name)
        if isinstance(location := part.get("loc"), list):
            fields += [name for name in location if isinstance(name, str)]
    return [name for name in fields if name and name != "body"], "\n".join(words)


def _parts(data: Any, depth: int) -> Iterator[dict[str, Any] | str]:
    """Yield the objects of an error page that may name a field, and its sentences."""
    if isinstance(data, str):
        yield data
    elif depth and isinstance(data, list):
        for part in data[:20]:
            yield from _parts(part, depth - 1)
    elif depth and isinstance(data, dict):
        yield data
        for key in ("code", "type", "error", "message", "msg", "detail", "details", "errors"):
            yield from _parts(data.get(key), depth - 1)


def _names(location: str) -> list[str]:
    return [name.strip(" '\"") for name in location.split(",")]


def _is_constraint_field(name: str) -> bool:
    return name in _FIELDS or bool(_FIELD.search(name))
