"""outlines-core: a schema becomes a regular expression, and that an index of all its states and tokens."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from structgen.vocabulary import Vocabulary

from .base import Session, Words

__all__ = ["OutlinesCore"]


class OutlinesCore:
    """With its defaults. It knows one end of text."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        import outlines_core
        from outlines_core.json_schema import build_regex_from_schema

        self._module = outlines_core
        self._pattern_of = build_regex_from_schema
        self._words = vocabulary.words
        ids = defaultdict(list)
        for token in range(vocabulary.size):
            if text := vocabulary.token_bytes(token):
                ids[text].append(token)
        self._vocabulary = outlines_core.Vocabulary(vocabulary.eos_ids[0], dict(ids))

    def compile(self, schema: str) -> Any:
        """Return the index of all states and tokens of the schema."""
        return self._module.Index(self._pattern_of(schema), self._vocabulary)

    def start(self, program: Any) -> Session:
        """Return a new sequence with its own guide."""
        return _OutlinesSession(self._module.Guide(program), self._words)


class _OutlinesSession:
    def __init__(self, guide: Any, words: int) -> None:
        self._guide = guide
        self._bits = np.zeros(words, dtype=np.int32)

    def mask(self) -> Words:
        self._bits.fill(0)
        self._guide.write_mask_into(self._bits.ctypes.data, self._bits.size, 4)
        return self._bits

    def accept(self, token: int) -> bool:
        try:
            self._guide.advance(token, return_tokens=False)
        except ValueError:  # how it says no
            return False
        return True
