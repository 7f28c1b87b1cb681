"""Which texts of a JSON value the automaton offers, by regular expressions over whole tokens: its slow twin.

Why: the specification speaks of values; the automaton narrows the spellings of one, so that output cannot be
drawn out for ever. What it leaves out is listed here, independently of the core, and nothing else may be missing.
"""

from __future__ import annotations

import re
from typing import Any

from hypothesis import reject

from structgen.constraints.json_schema import Whitespace, json_schema
from structgen.errors import SchemaInvalid, UnsatisfiableSchema
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary
from tests.oracles.json_validator import Validator
from tests.strategies.json_schemas import ALL

__all__ = ["SUPPORTED", "accepts", "expected", "has_offered_form", "laid_out", "matcher_of"]

SUPPORTED = ALL

# An exponent has a normalised mantissa of at most 17 digits and at most two digits if it begins with zero.
_NUMBER = re.compile(
    r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]+)?|(?:0(?:\.0)?|[1-9](?:\.[0-9]{1,16})?)[eE][+-]?(?:0?[0-9]|[1-9][0-9]{1,2}))"
)
_GREATEST_EXPONENT = 400
_CANONICAL = r'(?:[^"\\\x00-\x1f]|\\["\\bfnrt]|\\u00(?:0[0-7bBeEfF]|1[0-9a-fA-F]))*'
_ANY = (
    r'(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u(?:[0-9abcefABCEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})'
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*"
)
_STRINGS = {"canonical": re.compile(f'"{_CANONICAL}"'), "all": re.compile(f'"{_ANY}"')}
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^"{}\[\],:\s]+')
_SPACE = re.compile(r"[ \t\r\n]*")


def has_offered_form(
    text: str, whitespace: str | Whitespace = "flexible", escapes: str = "canonical"
) -> bool:
    """Does this text, which is JSON, have the spellings and the white space that the options allow?"""
    string = _STRINGS[escapes]
    policy = Whitespace.of(whitespace)
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            return False
        if token[0][0] == '"' and not string.fullmatch(token[0]):
            return False
        if token[0][0] in "-0123456789" and not _number_is_offered(token[0]):
            return False
        space = _SPACE.match(text, token.end())
        assert space is not None
        at = space.end()
        if policy.is_flexible and not re.fullmatch("" if at == len(text) else _gap(policy), space[0]):
            return False
    return policy.is_flexible or text == laid_out(text, policy)


def _gap(policy: Whitespace) -> str:
    """A few blanks, then perhaps one line end and an indentation."""
    return rf"[ \t]{{0,{policy.blanks}}}(?:\r?\n[ \t]{{0,{policy.indentation}}})?"


def laid_out(text: str, policy: Whitespace) -> str:
    """The same tokens with the white space that `json.dumps` writes."""
    tokens = _TOKEN.findall(text)
    assert policy.separators is not None
    comma, colon = policy.separators
    level = 0

    def line() -> str:
        return "" if policy.indent is None else "\n" + policy.indent * level

    out: list[str] = []
    for before, token in zip(["", *tokens], tokens, strict=False):
        if token in ("]", "}"):
            level -= 1
            if before not in ("[", "{"):
                out.append(line())
        elif before in ("[", "{"):
            out.append(line())
        if token in ("[", "{"):
            level += 1
        out.append({",": comma + line(), ":": colon}.get(token, token))
    return "".join(out)


def _number_is_offered(token: str) -> bool:
    if not _NUMBER.fullmatch(token):
        return False
    exponent = re.search("[eE](.*)", token)
    return exponent is None or abs(int(exponent[1])) <= _GREATEST_EXPONENT


def expected(
    schema: Any, text: str, whitespace: str | Whitespace = "flexible", escapes: str = "canonical"
) -> bool:
    """May `text` come out under `schema`? Raises the oracle's SchemaError where it has no answer."""
    return Validator(schema, formats=True).accepts(text) and has_offered_form(text, whitespace, escapes)


def matcher_of(schema: Any, vocabulary: Vocabulary, **options: Any) -> Matcher | None:
    """A matcher; None where no value satisfies the schema. Schemas that refer in a circle are not tried."""
    try:
        return Matcher(json_schema(schema, **options), vocabulary)
    except SchemaInvalid as error:
        assert "form a cycle" in str(error)
        reject()
    except UnsatisfiableSchema:
        return None


def accepts(matcher: Matcher | None, text: str | bytes) -> bool:
    """Is the text so far followed by `text` a text of the language?"""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return matcher is not None and matcher.native.next_bytes(data)[1]
