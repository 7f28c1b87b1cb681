"""structgen itself, and no engine at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from structgen.constraints.json_schema import json_schema
from structgen.matcher import Matcher, compile_constraint
from structgen.vocabulary import Vocabulary

from .base import Session, Words

__all__ = ["Structgen", "Unconstrained"]


class Structgen:
    """Formats are asserted, as the judge asserts them; everything else is a default."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._vocabulary.engine  # noqa: B018  (built here, as the others build theirs)

    def compile(self, schema: str) -> Any:
        constraint = json_schema(schema)
        compile_constraint(constraint, self._vocabulary)
        return constraint

    def start(self, program: Any) -> Session:
        return _StructgenSession(Matcher(program, self._vocabulary))


class _StructgenSession:
    def __init__(self, matcher: Matcher) -> None:
        self.mask: Callable[[], Words] = matcher.mask
        self.accept: Callable[[int], bool] = matcher.advance


class Unconstrained:
    """Takes every schema and every text: what the model does when it is only asked."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        allowed = np.zeros(32 * vocabulary.words, np.uint8)
        text = [token for token in range(vocabulary.size) if vocabulary.token_bytes(token)]
        allowed[[*text, *vocabulary.eos_ids]] = 1
        self._words: Words = np.packbits(allowed, bitorder="little").view(np.int32)

    def compile(self, schema: str) -> Any:
        return None

    def start(self, program: Any) -> Session:
        return _Free(self._words)


class _Free:
    def __init__(self, words: Words) -> None:
        self._words = words

    def mask(self) -> Words:
        return self._words

    def accept(self, token: int) -> bool:
        return True
