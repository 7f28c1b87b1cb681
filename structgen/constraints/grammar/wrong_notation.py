"""A grammar that was given to the reader of another notation.

Why: what a reader says of a text that is not meant for it leads nowhere ("parametric rules are not supported" of the
first ``::=``); the useful answer is the name of the right reader.
Invariant: asked only about grammars that were refused, so a wrong guess costs a message and no grammar.
"""

from __future__ import annotations

import re

from structgen.errors import GrammarSyntaxError

__all__ = ["is_like_gbnf", "is_like_lark"]

_DEFINITION = re.compile(r"^[ \t]*<?[A-Za-z0-9_.-]+>?[ \t]*(::=)", re.MULTILINE)
_LARK_DEFINITION = re.compile(
    r"^[ \t]*(?:%(?:import|ignore|declare|override|extend)\b"
    r"|[?!]*[A-Za-z_]\w*(?:\{[^}\n]*\})?(?:\.-?\d+)?[ \t]*(:)(?![:=]))",
    re.MULTILINE,
)


def is_like_gbnf(source: object) -> GrammarSyntaxError | None:
    """What to say of a refused Lark grammar whose rules are written with ``::=``, each of them."""
    found = _first(_DEFINITION, source, unless=_LARK_DEFINITION)
    if found is None:
        return None
    return _error(
        "this looks like GBNF or EBNF, not like a Lark grammar",
        found,
        "Read GBNF (llama.cpp) with sg.gbnf and EBNF (XGrammar) with sg.ebnf. A rule of Lark is name: ...",
    )


def is_like_lark(source: object, notation: str) -> GrammarSyntaxError | None:
    """What to say of a refused grammar in GBNF or EBNF whose rules are written with ``:``, each of them."""
    found = _first(_LARK_DEFINITION, source, unless=_DEFINITION)
    if found is None:
        return None
    return _error(
        f"this looks like a Lark grammar, not like {notation}",
        found,
        f"Read it with sg.lark. A rule of {notation} is name ::= ...",
    )


def _first(wanted: re.Pattern[str], source: object, *, unless: re.Pattern[str]) -> re.Match[str] | None:
    if not isinstance(source, str) or unless.search(source):
        return None
    return wanted.search(source)


def _error(message: str, found: re.Match[str], hint: str) -> GrammarSyntaxError:
    shown = found[1] or found[0].lstrip()
    position = found.end() - len(shown)
    line_start = found.string.rfind("\n", 0, position) + 1
    return GrammarSyntaxError(
        message,
        source=found.string,
        line=found.string.count("\n", 0, position) + 1,
        column=position - line_start + 1,
        length=len(shown),
        hint=hint,
    )
