"""lm-format-enforcer: its parser is tested with characters along a tree of the tokens' texts.

Tokens that are no whole characters are given to it with replacement characters, as its own integrations do.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import numpy as np

from structgen.vocabulary import Vocabulary

from .base import Session, Words

__all__ = ["LMFormatEnforcer"]


class LMFormatEnforcer:
    """With its defaults. Where it fails within, it only logs so and lets the text end; here that is an error."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        import lmformatenforcer

        self._module = lmformatenforcer
        # A token of whole characters says the same wherever it stands, so it need not be decoded with others.
        regular = [
            (token, data.decode("utf-8", "replace"), _is_whole(data))
            for token in range(vocabulary.size)
            if (data := vocabulary.token_bytes(token))
        ]
        self._data = lmformatenforcer.TokenEnforcerTokenizerData(
            regular,
            lambda ids: vocabulary.decode(ids).decode("utf-8", "replace"),
            list(vocabulary.eos_ids),
            False,  # lists of tokens: its bitmaps need torch
            vocabulary.size,
        )
        self._words = vocabulary.words
        self._failures = _Failures()
        logging.getLogger().addHandler(self._failures)

    def compile(self, schema: str) -> Any:
        """Return the parsed schema, after checking that a parser can be made of it."""
        parsed = json.loads(schema)
        self._module.JsonSchemaParser(parsed)
        return parsed

    def start(self, program: Any) -> Session:
        """Return a new sequence with its own parser and enforcer."""
        # A parser belongs to one sequence's enforcer, which writes to it; so a request has its own.
        parser = self._module.JsonSchemaParser(program)
        return _EnforcerSession(self._module.TokenEnforcer(self._data, parser), self._words, self._failures)


def _is_whole(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class _Failures(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.last: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if "LMFormatEnforcer" in record.msg:
            fault = record.exc_info[1] if record.exc_info else None
            self.last = repr(fault)


class _EnforcerSession:
    def __init__(self, enforcer: Any, words: int, failures: _Failures) -> None:
        self._enforcer = enforcer
        self._failures = failures
        self._tokens: list[int] = []
        self._bits = np.zeros(32 * words, np.uint8)

    def mask(self) -> Words:
        self._failures.last = None
        allowed = self._enforcer.get_allowed_tokens(self._tokens).allowed_tokens
        if self._failures.last is not None:
            raise RuntimeError(self._failures.last)
        self._bits.fill(0)
        self._bits[allowed] = 1
        words: Words = np.packbits(self._bits, bitorder="little").view(np.int32)
        return words

    def accept(self, token: int) -> bool:
        self._tokens.append(token)
        return True
