"""XGrammar through its `GrammarMatcher`."""

from __future__ import annotations

from typing import Any

from structgen.vocabulary import Vocabulary

from .base import Session, Words

__all__ = ["XGrammar"]


class XGrammar:
    """With its defaults (any whitespace, strict mode), on one thread."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        import xgrammar

        self._module = xgrammar
        self._size = vocabulary.size
        texts = [vocabulary.token_bytes(token) or b"" for token in range(vocabulary.size)]
        information = xgrammar.TokenizerInfo(texts, stop_token_ids=list(vocabulary.eos_ids))
        self._compiler = xgrammar.GrammarCompiler(information, max_threads=1)

    def compile(self, schema: str) -> Any:
        return self._compiler.compile_json_schema(schema)

    def start(self, program: Any) -> Session:
        rows = self._module.allocate_token_bitmask(1, self._size).numpy()
        return _XGrammarSession(self._module.GrammarMatcher(program), rows)


class _XGrammarSession:
    def __init__(self, matcher: Any, rows: Any) -> None:
        self._matcher = matcher
        self._rows = rows

    def mask(self) -> Words:
        self._matcher.fill_next_token_bitmask(self._rows, 0)
        words: Words = self._rows[0]
        return words

    def accept(self, token: int) -> bool:
        return bool(self._matcher.accept_token(token))
