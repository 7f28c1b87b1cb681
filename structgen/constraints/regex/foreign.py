"""Features of Perl and related engines that no dialect here supports, and what to write instead.

Why: an error message names the feature, not only the characters.
"""

from __future__ import annotations

import re

__all__ = ["ADVICE", "FOREIGN_GROUPS"]

# Group openers of Perl and related engines that no dialect here supports, and their names.
FOREIGN_GROUPS = (
    (re.compile(r"\(\?>"), "atomic groups"),
    (re.compile(r"\(\?\("), "conditional groups"),
    (re.compile(r"\(\?(?:R|0|[+-]?\d+|&\w+|P>\w+)\)?"), "recursive patterns"),
    (re.compile(r"\(\?P=\w*\)?"), "back-references"),
)
ADVICE = {
    "back-references": "A back-reference needs a group with few texts, outside repetitions. Otherwise write the "
    "alternatives out, or leave it out and validate afterwards.",
    "possessive quantifiers": "Leave the second '+' out if backtracking is acceptable.",
    "atomic groups": "Use (?:...) if backtracking is acceptable.",
    "conditional groups": "Write the cases as alternatives.",
    "look-arounds in the Rust dialect": "The crate does not have them; for pydantic set regex_engine='python-re'.",
    "CRLF modes": "Write (?:\\r\\n|\\n) for a line end.",
    "recursive patterns": "Nested structure needs a grammar or a recursive JSON Schema.",
}
