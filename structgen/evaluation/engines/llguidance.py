"""llguidance through its `LLMatcher`."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from structgen.vocabulary import Vocabulary

from .base import Words

__all__ = ["LLGuidance", "LLGuidanceSession"]


class LLGuidance:
    """With its defaults: whitespace is free, what it does not support is an error."""

    name = "llguidance"

    def __init__(self, vocabulary: Vocabulary) -> None:
        import llguidance

        self.module = llguidance
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Listed(vocabulary)))
        self._words = vocabulary.words

    @classmethod
    def from_tokenizer(cls, tokenizer: Any) -> Self:
        """Return the engine for a Hugging Face tokenizer, which llguidance reads itself."""
        import llguidance
        import llguidance.hf

        engine = cls.__new__(cls)
        engine.module = llguidance
        engine.tokenizer = llguidance.hf.from_tokenizer(tokenizer)
        engine._words = (engine.tokenizer.vocab_size + 31) // 32
        return engine

    def compile(self, schema: str) -> Any:
        """Return a matcher for the schema; raise `ValueError` where llguidance refuses it."""
        return self._matcher(self.module.LLMatcher.grammar_from_json_schema(schema))

    def start(self, program: Any) -> LLGuidanceSession:
        """Return a session on a copy of the compiled matcher; its errors are exceptions."""
        return _CheckedSession(program.deep_copy(), self._words)

    def open(self, schema: str) -> LLGuidanceSession:
        """Compile a schema and start its first sequence, without a copy of the matcher."""
        return LLGuidanceSession(self.compile(schema), self._words)

    def open_grammar(self, source: str, notation: str, **options: Any) -> LLGuidanceSession:
        """Compile a grammar in Lark notation and start its first sequence."""
        if notation != "Lark":
            raise ValueError(f"llguidance does not read {notation}")
        matcher = self._matcher(self.module.LLMatcher.grammar_from_lark(source, **options))
        return LLGuidanceSession(matcher, self._words)

    def _matcher(self, grammar: Any) -> Any:
        matcher = self.module.LLMatcher(self.tokenizer, grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def forget_programs(self) -> None:
        """Do nothing: caches belong to the matcher."""

    def clear_function_caches(self) -> None:
        """Do nothing: it has no caches."""


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


class LLGuidanceSession:
    """A matcher, whose errors leave a mask without the next token."""

    def __init__(self, matcher: Any, words: int) -> None:
        self.matcher = matcher
        self._bits = np.zeros(words, dtype=np.int32)

    def restart(self) -> None:
        """Reset the matcher, since its caches belong to it."""
        self.matcher.reset()

    def reset(self) -> None:
        """Go back to the empty text."""
        self.matcher.reset()

    def is_accepting(self) -> bool:
        """Return whether the text may end here."""
        return bool(self.matcher.is_accepting())

    def mask(self) -> Words:
        """Return the mask of the next token, in a buffer that the next call overwrites."""
        self.matcher.unsafe_compute_mask_ptr(self._bits.ctypes.data, self._bits.nbytes)
        return self._bits

    def accept(self, token: int) -> bool:
        """Advance by a token; return whether the engine accepts it."""
        return bool(self.matcher.consume_token(token))


class _CheckedSession(LLGuidanceSession):
    """The same, with an exception for an error: benchmarks do without this call in each mask's time."""

    def mask(self) -> Words:
        words = super().mask()
        if self.matcher.is_error():
            raise RuntimeError(self.matcher.get_error())
        return words
