"""Formats of structural tags that several modules' tests read."""

import structgen as sg
from structgen.serving.requests import constraint_of

__all__ = ["TAG", "VOCABULARY", "X", "fits", "read"]

VOCABULARY = sg.Vocabulary.of_bytes(["<|call|>"])
X = {"type": "const_string", "value": "x"}
TAG = {"type": "tag", "begin": "<f>", "content": X, "end": "</f>"}


def read(form, **options):
    return constraint_of("structural_tag", {"type": "structural_tag", "format": form}, **options)


def fits(constraint, text: str | list[int]) -> bool:
    matcher = sg.Matcher(constraint, VOCABULARY)
    tokens = list(text.encode()) if isinstance(text, str) else text
    return all(map(matcher.advance, tokens)) and matcher.is_complete()
