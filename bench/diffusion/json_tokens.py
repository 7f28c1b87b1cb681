"""A small vocabulary for JSON in which a token never holds more than one terminal.

What: punctuation, literals, up to three digits, frequent pieces of words, and single bytes for all else. Texts are cut
greedily, the longest piece first. Invariant: no piece but `"` itself holds a quote, and none but `\\\\` and what begins
with it a backslash; so a token ends where a string, a number or a bracket does.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["JsonTokens", "learned"]

_MARKS = ["[MASK]", "[END]"]
_FIXED = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    ", ",
    ": ",
    "true",
    "false",
    "null",
    "-",
    ".",
    "e",
    "E",
    "+",
    '\\"',
    "\\\\",
    "\\n",
]
_DIGITS = [str(number) for number in range(100)] + [f"{number:02d}" for number in range(10)]
_WORD = re.compile(r"[A-Za-z]+|[0-9]+|[^A-Za-z0-9]")
_LONGEST = 12


@dataclass(frozen=True)
class JsonTokens:
    """Texts of tokens; None: a mark."""

    tokens: tuple[str | None, ...]

    @property
    def mask_id(self) -> int:
        return 0

    @property
    def end_id(self) -> int:
        return 1

    def encode(self, text: str) -> list[int]:
        """The longest piece first."""
        known = {token: number for number, token in enumerate(self.tokens) if token is not None}
        tokens, at = [], 0
        while at < len(text):
            for length in range(min(_LONGEST, len(text) - at), 0, -1):
                token = known.get(text[at : at + length])
                if token is not None:
                    tokens.append(token)
                    at += length
                    break
            else:
                raise ValueError(f"{text[at]!r} is no token")
        return tokens

    def save(self, folder: Path) -> None:
        content = {
            "tokens": self.tokens,
            "mask": self.mask_id,
            "closing": [self.end_id],
            "before": [],
            "after": [],
        }
        (folder / "tokens.json").write_text(json.dumps(content, ensure_ascii=True))

    @classmethod
    def load(cls, folder: Path) -> JsonTokens:
        return cls(tuple(json.loads((folder / "tokens.json").read_text())["tokens"]))


def learned(texts: Iterable[str], size: int) -> JsonTokens:
    """The pieces that save the most tokens, by their counts in words: a word counts for all of its beginnings."""
    counts: Counter[str] = Counter()
    for text in texts:
        for word in _WORD.findall(text):
            if word.isalpha() and word.isascii():
                for end in range(2, min(len(word), _LONGEST) + 1):
                    counts[word[:end]] += end - 1 if end < len(word) else 2 * (end - 1)
                for start in range(1, len(word) - 1):
                    counts[word[start:][:_LONGEST]] += len(word) - start - 1
    single = [chr(code) for code in range(0x20, 0x7F) if chr(code) not in '"\\']
    fixed = list(dict.fromkeys([*_FIXED, *_DIGITS, *single]))
    room = size - len(_MARKS) - len(fixed)
    pieces = [piece for piece, _ in counts.most_common() if piece not in fixed][:room]
    return JsonTokens((*[None] * len(_MARKS), *fixed, *pieces))


def fits(tokens: JsonTokens, text: str, length: int) -> Sequence[int] | None:
    """The tokens of a text that is not too long; None where it is, or has a character that is no token."""
    try:
        ids = tokens.encode(text)
    except ValueError:
        return None
    return ids if len(ids) <= length else None
