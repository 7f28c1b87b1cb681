"""Which texts a constraint accepts."""

from __future__ import annotations

import itertools

import structgen as sg
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

VOCABULARY = Vocabulary.of_bytes()


def takes(constraint: sg.Constraint, text: str) -> bool:
    matcher = Matcher(constraint, VOCABULARY)
    return all(matcher.advance(byte) for byte in text.encode()) and matcher.is_complete()


def texts(alphabet: str, most: int) -> list[str]:
    return ["".join(one) for length in range(most + 1) for one in itertools.product(alphabet, repeat=length)]
