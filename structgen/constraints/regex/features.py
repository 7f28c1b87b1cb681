"""The features of regular expressions, and how each dialect supports them; the documentation's table comes from this.

Why: nothing is approximated silently. ``exact``: the language is that of the dialect's own engine. ``lenient``: not
in the dialect's grammar, and parsed as the author most likely meant it. ``unsupported``: refused with the position.
``absent``: a syntax error of the dialect, refused with the position.

Invariant: a test parses every example in both dialects and compares the result with these declarations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["FEATURES", "Feature", "Level"]

Level = Literal["exact", "lenient", "unsupported", "absent"]


@dataclass(frozen=True)
class Feature:
    """One feature with an example of it."""

    name: str
    example: str
    python: Level
    ecma: Level
    note: str = ""


FEATURES: tuple[Feature, ...] = (
    Feature("literals", "abc", "exact", "exact"),
    Feature("alternatives", "a|b|", "exact", "exact"),
    Feature("any character", "a.c", "exact", "exact", "except line ends, unless in mode s"),
    Feature("classes", "[^a-z_]", "exact", "exact"),
    Feature("class of nothing, of everything", "[^]", "absent", "exact"),
    Feature("class escapes", r"\d\w\s\D\W\S", "exact", "exact", r"in ECMA ASCII only, except \s"),
    Feature("set as the end of a range", r"[\w-z]", "absent", "lenient", "the '-' is a character"),
    Feature("control escapes", r"\f\n\r\t\v", "exact", "exact"),
    Feature("alert escape", r"\a", "exact", "lenient", "in ECMA the letter"),
    Feature("hexadecimal escapes", r"\x41\u0041", "exact", "exact"),
    Feature("code point escapes", r"\u{1F600}", "absent", "exact"),
    Feature("long code point escapes", r"\U0001F600", "exact", "lenient", "in ECMA letters"),
    Feature("surrogate pair escapes", r"\ud83d\ude00", "exact", "exact", "one in ECMA; nothing in Python"),
    Feature("control letters", r"\cJ", "absent", "exact"),
    Feature("named characters", r"\N{BULLET}", "exact", "lenient", "in ECMA letters"),
    Feature("octal escapes", r"\012", "exact", "lenient"),
    Feature("escaped letters without a meaning", r"\y", "absent", "lenient", "the letter"),
    Feature("escaped punctuation", r"\-\_\#", "exact", "lenient", "the character"),
    Feature("Unicode properties", r"\p{Lu}\P{Script=Greek}", "absent", "exact", "version: unicode_data"),
    Feature("short properties", r"\pL", "absent", "lenient", r"\p{L}"),
    Feature("lone brackets and braces", "a]b}c{", "exact", "lenient", "the characters"),
    Feature("groups", "(a)(?:b)", "exact", "exact"),
    Feature("named groups, Python", "(?P<name>a)", "exact", "lenient"),
    Feature("named groups, ECMA", "(?<name>a)", "absent", "exact"),
    Feature("comments", "a(?#note)b", "exact", "absent"),
    Feature("modes at the start", "(?i)a", "exact", "lenient", "i, m, s; in Python also a, u, x"),
    Feature("modes of a group", "(?i:a)b(?-i:c)", "exact", "exact"),
    Feature("mode x", "(?x)a # note", "exact", "absent"),
    Feature("quantifiers", "a*b+c?d{2}e{2,}f{2,5}", "exact", "exact"),
    Feature("lazy quantifiers", "a*?b+?c??d{2,5}?", "exact", "exact", "the same language"),
    Feature("counts without a lower bound", "a{,5}", "exact", "lenient", "in ECMA the characters"),
    Feature("quantified look-ahead", "(?=a)*", "exact", "lenient"),
    Feature("start and end", "^a$", "exact", "exact", "Python's $ also matches before a final newline"),
    Feature("start and end of the text, Perl", r"\Aa\Z", "exact", "lenient", "in ECMA the very end"),
    Feature("end of the text, PCRE", r"a\z", "absent", "lenient"),
    Feature("lines", "(?m:^a$)", "exact", "exact"),
    Feature("word boundaries", r"\ba\B", "exact", "exact", r"\B holds in an empty text, as in Python 3.14"),
    Feature("look-ahead", "(?=a)(?!b)", "exact", "exact"),
    Feature("look-behind", "(?<=a)(?<!b)c", "exact", "exact", "of any width, also in Python"),
    Feature(
        "back-references",
        r"(a|b)\1",
        "exact",
        "exact",
        "to groups with at most 256 texts, outside repetitions",
    ),
    Feature(
        "back-references to groups of many texts",
        r"(.)\1",
        "unsupported",
        "unsupported",
        "not regular, or too large",
    ),
    Feature("named back-references, Python", "(?P<n>a)(?P=n)", "exact", "lenient"),
    Feature("named back-references, ECMA", r"(?<n>a)\k<n>", "absent", "exact"),
    Feature("atomic groups", "(?>a|ab)c", "exact", "lenient", "translated to look-arounds"),
    Feature("possessive quantifiers", "a*+b", "exact", "lenient", "translated to look-arounds"),
    Feature("conditionals", "(a)?(?(1)b|c)", "unsupported", "unsupported"),
    Feature("recursion", "a(?R)?b", "unsupported", "unsupported", "not regular"),
)
