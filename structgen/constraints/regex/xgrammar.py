r"""The patterns of XGrammar's EBNF, in its macro `Regex`.

Why: grammars that XGrammar prints contain patterns; they have the same meaning here as there.

Invariant: characters, classes and groups are those of ECMA-262, except for the following differences, which
XGrammar documents or its tests show. Without flags a dot is any character; with flags it is any but a newline,
unless ``s`` is among them. Case is ignored for ASCII letters only. ``\a`` and ``\e`` are the bell and the escape
character. An escape ``\x`` or ``\u`` needs its digits. Look-arounds and word boundaries, which XGrammar ignores or
refuses, mean what they mean in ECMA-262.

Cost: that of `Parser`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from structgen.constraints.expressions import EPSILON, RE, Ranges, character_class, intersect, repeat

from .ecma import EcmaParser
from .looks import remove_looks
from .parser import Flags

__all__ = ["FLAGS", "xgrammar_pattern"]

FLAGS = frozenset("isu")
"""Letters of the macro's argument `flags`; u has no effect, since characters are always code points."""
_CONTROLS = {"a": 0x07, "e": 0x1B}
_JSON_CHARACTER = character_class(((0x20, 0x21), (0x23, 0x5B), (0x5D, 0xD7FF), (0xE000, 0x10FFFF)))
"""A character that needs no escape in a JSON string."""


def xgrammar_pattern(pattern: str, flags: str | None = None, *, json_string: bool = False) -> RE:
    """Return the texts that the macro matches.

    Args:
        pattern: The regular expression.
        flags: Letters of `FLAGS`; None if the macro has no such argument.
        json_string: Whether control characters, quotes and backslashes are excluded from every match.

    Raises:
        RegexError: The pattern is malformed, or has a feature that no regular language has.
    """
    dot_all = flags is None or "s" in flags
    ignore_case = flags is not None and "i" in flags
    parser = _XGrammarParser(pattern, Flags(ignore_case=ignore_case, dot_all=dot_all, ascii=True))
    language = remove_looks(parser.parse(), EPSILON, parser.has_looks)
    return intersect([language, repeat(_JSON_CHARACTER, 0, None)]) if json_string else language


class _XGrammarParser(EcmaParser):
    line_ends = ((0x0A, 0x0A),)
    class_cache: ClassVar[dict[tuple[str, Flags], RE]] = {}

    def _escape(self, position: int, in_class: bool) -> tuple[int | Ranges, int]:
        letter = self.pattern[position + 1 : position + 2]
        if letter in _CONTROLS:
            return _CONTROLS[letter], position + 2
        member: Any = super()._escape(position, in_class)
        if letter in ("x", "u") and member == (ord(letter), position + 2):
            digits = (
                "two hexadecimal digits" if letter == "x" else "four hexadecimal digits, or some in braces"
            )
            self.fail(f"\\{letter} needs {digits}", position, position + 2)
        return member  # type: ignore[no-any-return]
