"""llguidance through its `LLMatcher`."""

from __future__ import annotations

from typing import Any

import numpy as np

from structgen.vocabulary import Vocabulary

from .base import Session, Words

__all__ = ["LLGuidance"]


class LLGuidance:
    """With its defaults: whitespace is free, what it does not support is an error."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        import llguidance

        self._module = llguidance
        self._words = vocabulary.words
        self._tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Listed(vocabulary)))

    def compile(self, schema: str) -> Any:
        kind = self._module.LLMatcher
        matcher = kind(self._tokenizer, kind.grammar_from_json_schema(schema))
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def start(self, program: Any) -> Session:
        return _LLGuidanceSession(program.deep_copy(), self._words)


class _Listed:
    """A vocabulary as llguidance reads one; special tokens begin with the byte 0xff there."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        texts = [vocabulary.token_bytes(token) for token in range(vocabulary.size)]
        self.tokens = [f"<|{i}|>".encode() if text is None else text for i, text in enumerate(texts)]
        self.special_token_ids = [i for i, text in enumerate(texts) if text is None]
        self.eos_token_id = vocabulary.eos_ids[0]
        self.bos_token_id = None
        self._encode = vocabulary.encode

    def __call__(self, text: str | bytes) -> list[int]:
        # Subtle: llguidance allows only these tokens where bytes are forced, so they must be the tokenizer's own.
        return self._encode(text) or []


class _LLGuidanceSession:
    def __init__(self, matcher: Any, words: int) -> None:
        self._matcher = matcher
        self._bits = np.zeros(words, dtype=np.int32)

    def mask(self) -> Words:
        self._matcher.unsafe_compute_mask_ptr(self._bits.ctypes.data, self._bits.nbytes)
        if self._matcher.is_error():
            raise RuntimeError(self._matcher.get_error())
        return self._bits

    def accept(self, token: int) -> bool:
        return bool(self._matcher.consume_token(token))
