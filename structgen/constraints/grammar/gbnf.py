r"""GBNF, the grammars of llama.cpp, as its `grammars/README.md` documents them.

Why: the most widespread notation of grammars for language models.
Invariant: the language is the one that llama.cpp's documentation describes. Where its reader goes another way
without a word (a second definition of a rule replaces the first, an upper bound above 2,000 is no bound, ``[]``
is the empty text, a class that is not closed takes the rules after it for its characters), the grammar is refused, or
in the case of the bound meant as written. A range that ends before it begins (``[z-a]``) has no character, as there.
Left recursion and names with underscores work here.
Cost: that of `notation.Reader`.

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
    """The grammar that a text in GBNF describes; `start` is the rule that a whole text follows."""
    return _Reader(source, limits).read(start)


_ESCAPES = {"n": 0x0A, "r": 0x0D, "t": 0x09, "\\": 0x5C, '"': 0x22, "[": 0x5B, "]": 0x5D, "-": 0x2D}
_LEAVES: dict[str, Body] = {".": ("text", ANY)}
_HINTS = {
    "<": "A token is written as <text>, on one line.",
    "!": "Only tokens can be negated: !<text> or !<[5]>.",
    "\\^": 'Write a ^ that is not first in its class as it is, and one alone as "^".',
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
        hint = 'llama.cpp takes it for the empty text: write that as "", and any character as a dot.'
        raise self.fault("this class holds no characters", position, len(raw), hint=hint)
