"""The grammar benchmark: five languages and two notations, for structgen, llguidance and XGrammar.

It measures real grammars on real texts, with engines in use today. Each language has one grammar in Lark, which
structgen and llguidance read unchanged, and one in EBNF, which structgen and XGrammar read unchanged. `texts` collects
independent texts, `engines` lists the engines, `worker` is one engine in its own process, and ``python -m
bench.grammars`` runs everything.

Invariant: only texts that every engine accepts as a whole are timed, and every token is looked up in the mask before it
is read. A worker that crashes or takes too long affects only its own figures. Cost: about five minutes for everything
with two tokenizers.

The languages: JSON; SQL (statements, keywords in upper case); a Python without blocks (simple statements and
expressions, one per line); C++ functions (definitions, statements and expressions, no classes and no preprocessor);
arithmetic. The EBNF grammars have no lexer: their rules contain the white space and do not distinguish names from
keywords, so their language is a little larger. The head of each file says where.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["ENDINGS", "LANGUAGES", "grammar", "rules", "with_renamed_rule"]

LANGUAGES = ("json", "sql", "python", "cpp", "arithmetic")
ENDINGS = {"Lark": ".lark", "EBNF": ".ebnf"}

_FOLDER = Path(__file__).parent
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_SYMBOLS = {
    "Lark": re.compile(rf"{_STRING}|//[^\n]*|/(?:[^/\\\n]|\\.)+/|(?P<name>[a-z_][A-Za-z0-9_]*)"),
    "EBNF": re.compile(rf"{_STRING}|#[^\n]*|\[(?:[^\]\\\n]|\\.)*\]|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"),
}
_DEFINITION = {
    "Lark": re.compile(r"^([a-z_][a-z0-9_]*):", re.MULTILINE),
    "EBNF": re.compile(r"^([A-Za-z_][A-Za-z0-9_]*) ::=", re.MULTILINE),
}


def grammar(language: str, notation: str) -> str:
    """The text of a language's grammar."""
    return (_FOLDER / f"{language}{ENDINGS[notation]}").read_text("utf-8")


def rules(source: str, notation: str) -> list[str]:
    """The names of the rules, the start first."""
    return _DEFINITION[notation].findall(source)


def with_renamed_rule(source: str, notation: str, number: int) -> str:
    """The same language in another text, so that an engine that caches whole grammars does not know it.

    The rule after the start gets another name, everywhere.
    """
    old = rules(source, notation)[1]

    def renamed(match: re.Match[str]) -> str:
        return f"{old}_{number}" if match["name"] == old else match[0]

    return _SYMBOLS[notation].sub(renamed, source)
