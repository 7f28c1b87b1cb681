r"""GBNF, the grammar notation of llama.cpp, as its `grammars/README.md` documents it.

Why: it is the most widespread notation of grammars for language models.
Invariant: the language is the one that llama.cpp's documentation describes. Its reader silently differs in four cases:
a second definition of a rule replaces the first; ``[]`` is the empty text; a class that is not closed swallows the
rules after it; an upper bound above 2,000 is ignored. Here the first three are errors, and the bound counts as written.
A reversed range (``[z-a]``) contains no character, as in llama.cpp. Left recursion and underscores in names work.
Cost: that of `bnf_reader.Reader`.

    rules        name ::= body, on a line of its own; a newline ends it, except in ( ), after ::= and after |
    items        "text"  [a-z]  [^a-z]  .  name  (body)  <token>
    repetitions  * + ? {m} {m,} {m,n}, also of repetitions
    escapes      \n \r \t \\ \" \[ \] \- \xHH \uHHHH \UHHHHHHHH
    tokens       <think> is the token of that text, <[1000]> one by its number; !<think> is any other token
"""

from __future__ import annotations

from structgen.constraints.expressions import ANY, RE
from structgen.ir.grammar import Body, Grammar, position_at

from .bnf_reader import (
    BLANK,
    DEFAULT_LIMITS,
    WIDE_BLANK,
    NotationLimits,
    Reader,
    escape_patterns,
    token_pattern,
)
from .token_sets import TOKENS_HINT, token_set, tokens_body

__all__ = ["read_gbnf"]


def read_gbnf(source: str, start: str = "root", *, limits: NotationLimits = DEFAULT_LIMITS) -> Grammar:
    """Read a grammar in GBNF whose texts match the rule `start`."""
    return _Reader(source, limits).read(start)


_ESCAPES = {"n": 0x0A, "r": 0x0D, "t": 0x09, "\\": 0x5C, '"': 0x22, "[": 0x5B, "]": 0x5D, "-": 0x2D}
_LEAVES: dict[str, Body] = {".": ("text", ANY)}
_HINTS = {
    "<": "A token is written as <text>, on one line.",
    "!": "Only tokens can be negated: !<text> or !<[5]>.",
    "\\^": 'Write ^ without a backslash: anywhere but first in a class, or as "^".',
    "\\'": "A ' needs no backslash.",
    "\\/": "A / needs no backslash.",
    "\\d": "Write [0-9].",
    "\\s": "Write [ \\t\\n\\r].",
    "\\w": "Write [0-9A-Za-z_].",
}


class _Reader(Reader):
    notation = "GBNF"
    tokens = token_pattern(
        name=r"[A-Za-z0-9_-]++",
        leaf=r'"(?:[^"\\]|\\.)*+"|\[(?:[^\]\\]|\\.)*+\]|\.|!?<[^>\r\n]*+>',
        blank=BLANK,
        newline=r"[\r\n]" + WIDE_BLANK,
        joint=WIDE_BLANK,
    )
    escape, class_item = escape_patterns("[0-9A-Fa-f]{2}")
    string_escapes = class_escapes = _ESCAPES
    leaves = _LEAVES
    hints = _HINTS
    newline_ends_rule = True
    empty_alternatives = True
    repeats_twice = True
    minus_one = False
    newline_in_text = True
    reversed_ranges = True
    duplicates = "llama.cpp would use the last definition only: rename one, or join them with |."

    def special(self, raw: str, position: int) -> Body:
        at = position_at(self.source, position)
        where = f"line {at.line}, column {at.column}"
        negated, name = raw.startswith("!"), raw.removeprefix("!")
        if not name.startswith("<["):
            return (
                tokens_body(None, (name,), where)
                if negated
                else tokens_body((name,), (), where, may_be_spelled=True)
            )
        try:
            return token_set(name, where, negated=negated)
        except ValueError as error:
            raise self.fault(str(error), position, len(raw), hint=TOKENS_HINT) from None

    def empty_class(self, raw: str, position: int) -> RE:
        hint = 'llama.cpp reads it as the empty text: write "" for that, and a dot for any character.'
        raise self.fault("this class contains no characters", position, len(raw), hint=hint)
