"""Recognise a grammar that was passed to the reader of another notation.

Why: the syntax error of the wrong reader does not help ("parametric rules are not supported" for the first ``::=``).
The useful message names the right reader.
Invariant: it is used only for grammars that were refused, so a wrong guess costs a message, not a grammar.
"""

from __future__ import annotations

import re

from structgen.errors import GrammarSyntaxError

__all__ = ["error_if_gbnf", "error_if_lark"]

_DEFINITION = re.compile(r"^[ \t]*<?[A-Za-z0-9_.-]+>?[ \t]*(::=)", re.MULTILINE)
_LARK_DEFINITION = re.compile(
    r"^[ \t]*(?:%(?:import|ignore|declare|override|extend)\b"
    r"|[?!]*[A-Za-z_]\w*(?:\{[^}\n]*\})?(?:\.-?\d+)?[ \t]*(:)(?![:=]))",
    re.MULTILINE,
)


def error_if_gbnf(source: object) -> GrammarSyntaxError | None:
    """Return the error for a refused Lark grammar all of whose rules use ``::=``; None for other grammars."""
    match = _first(_DEFINITION, source, unless=_LARK_DEFINITION)
    if match is None:
        return None
    return _error(
        "this looks like GBNF or EBNF, not like a Lark grammar",
        match,
        "Use sg.gbnf for GBNF (llama.cpp) and sg.ebnf for EBNF (XGrammar). A rule in Lark is written name: ...",
    )


def error_if_lark(source: object, notation: str) -> GrammarSyntaxError | None:
    """Return the error for a refused GBNF or EBNF grammar all of whose rules use ``:``; None for other grammars."""
    match = _first(_LARK_DEFINITION, source, unless=_DEFINITION)
    if match is None:
        return None
    return _error(
        f"this looks like a Lark grammar, not like {notation}",
        match,
        f"Use sg.lark. A rule in {notation} is written name ::= ...",
    )


def _first(pattern: re.Pattern[str], source: object, *, unless: re.Pattern[str]) -> re.Match[str] | None:
    if not isinstance(source, str) or unless.search(source):
        return None
    return pattern.search(source)


def _error(message: str, match: re.Match[str], hint: str) -> GrammarSyntaxError:
    shown = match[1] or match[0].lstrip()
    position = match.end() - len(shown)
    line_start = match.string.rfind("\n", 0, position) + 1
    return GrammarSyntaxError(
        message,
        source=match.string,
        line=match.string.count("\n", 0, position) + 1,
        column=position - line_start + 1,
        length=len(shown),
        hint=hint,
    )
