"""What patterns of Perl and its relatives have that a dialect here cannot take, and what to write instead.

Why: a refusal names the feature, not the characters.
"""

from __future__ import annotations

import re

__all__ = ["ADVICE", "FOREIGN_GROUPS"]

# Group openers of Perl and its relatives that neither dialect can take, and what they are called.
FOREIGN_GROUPS = (
    (re.compile(r"\(\?>"), "atomic groups"),
    (re.compile(r"\(\?\("), "conditional groups"),
    (re.compile(r"\(\?(?:R|0|[+-]?\d+|&\w+|P>\w+)\)?"), "recursive patterns"),
    (re.compile(r"\(\?P=\w*\)?"), "back-references"),
)
ADVICE = {
    "back-references": "A back-reference works where its group has few texts and is not repeated. Else spell out the "
    "alternatives, or drop it and validate afterwards.",
    "possessive quantifiers": "Leave the second '+' out, if the pattern is to match whatever it can with backtracking.",
    "atomic groups": "Use (?:...), if the pattern is to match whatever it can with backtracking.",
    "conditional groups": "Write the cases as alternatives.",
    "look-arounds in the Rust dialect": "The crate has none; for pydantic set regex_engine='python-re'.",
    "CRLF modes": "Write (?:\\r\\n|\\n) for a line end.",
    "recursive patterns": "Nested structure needs a grammar or a recursive JSON Schema.",
}
