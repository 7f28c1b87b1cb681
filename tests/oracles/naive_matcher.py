"""A matcher over a finite language, by looking at every text of it: the slow twin of `structgen.Matcher`.

Why: generation is tested against distributions that can be enumerated, on an engine with nothing to hide.
What: the language is a set of byte strings, the vocabulary a list of byte strings. A prefix is alive iff some
tokenisation continues it to a text of the language.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from os.path import commonprefix

import numpy as np
from numpy.typing import NDArray

from structgen.protocols import TokenMatcher


class NaiveVocabulary:
    """Tokens are byte strings, None where a token is not text."""

    def __init__(
        self, tokens: Sequence[bytes | None], eos_ids: Sequence[int], size: int | None = None
    ) -> None:
        self.tokens = list(tokens)
        self.size = size or len(self.tokens)
        self.eos_ids = tuple(eos_ids)
        self.fingerprint = repr((self.tokens, self.eos_ids))
        self.words = -(-self.size // 32)
        self.eos_mask = np.zeros(self.words, np.int32)
        for token in self.eos_ids:
            self.eos_mask[token // 32] |= np.int32(np.uint32(1 << token % 32))

    def token_bytes(self, token: int) -> bytes | None:
        return self.tokens[token] if token < len(self.tokens) else None

    def decode(self, ids: Iterable[int]) -> bytes:
        return b"".join(self.token_bytes(token) or b"" for token in ids)


class NaiveMatcher(TokenMatcher):
    """See the module's text. `optimistic` texts count as language for masks only: states that look alive and
    are not, as an unproven state of the real engine may."""

    def __init__(
        self, language: Iterable[bytes], vocabulary: NaiveVocabulary, optimistic: Iterable[bytes] = ()
    ) -> None:
        self.language = frozenset(language)
        self.vocabulary = vocabulary
        self.tokens: list[int] = []
        self.is_finished = False
        believed = self.language | frozenset(optimistic)
        texts = {i: t for i, t in enumerate(vocabulary.tokens) if t and i not in vocabulary.eos_ids}

        @cache
        def spell(text: bytes) -> tuple[int, ...] | None:
            """The fewest tokens that complete `text`, of the language itself."""
            if text in self.language:
                return ()
            best: tuple[int, ...] | None = None
            for token, piece in texts.items():
                if any(word.startswith(text + piece) for word in self.language):
                    rest = spell(text + piece)
                    if rest is not None and (best is None or len(rest) + 1 < len(best)):
                        best = (token, *rest)
            return best

        @cache
        def allowed(text: bytes) -> tuple[int, ...]:
            ids = [
                token
                for token, piece in texts.items()
                if text + piece in believed
                or any(word.startswith(text + piece) for word in believed)
                and (allowed(text + piece) or spell(text + piece) is not None)
            ]
            return tuple(sorted(ids + (list(vocabulary.eos_ids) if text in self.language else [])))

        self._spell, self._allowed = spell, allowed

    @property
    def text(self) -> bytes:
        return self.vocabulary.decode(self.tokens)

    def _ids(self) -> tuple[int, ...]:
        return () if self.is_finished else self._allowed(self.text)

    def mask(self) -> NDArray[np.int32]:
        bits = np.zeros(self.vocabulary.words * 32, dtype=np.uint8)
        bits[list(self._ids())] = 1
        return np.packbits(bits, bitorder="little").view(np.int32)

    def allowed_count(self) -> int:
        return len(self._ids())

    def advance(self, token_id: int) -> bool:
        if token_id not in self._ids():
            return False
        self.tokens.append(token_id)
        self.is_finished = token_id in self.vocabulary.eos_ids
        return True

    def accepts(self, ids: Sequence[int]) -> int:
        twin = self.fork()
        return next((n for n, token in enumerate(ids) if not twin.advance(token)), len(ids))

    def forced(self) -> list[int]:
        twin, run = self.fork(), []
        while len(ids := twin._ids()) == 1 and ids[0] not in self.vocabulary.eos_ids:
            run.append(ids[0])
            twin.advance(ids[0])
        return run

    def forced_bytes(self, most: int = 4096) -> bytes:
        rests = [word[len(self.text) :] for word in self.language if word.startswith(self.text)]
        return b"" if self.is_finished or not rests else commonprefix(rests)[:most]  # noqa: RUF071

    def rollback(self, n: int) -> None:
        self.is_finished = self.is_finished and n == 0
        del self.tokens[len(self.tokens) - n :]

    def fork(self) -> NaiveMatcher:
        twin = object.__new__(NaiveMatcher)
        twin.__dict__.update(self.__dict__, tokens=list(self.tokens))
        return twin

    def reset(self) -> None:
        self.rollback(len(self.tokens))

    def is_complete(self) -> bool:
        return self.text in self.language

    @property
    def must_stop(self) -> bool:
        return self.is_complete() and all(token in self.vocabulary.eos_ids for token in self._ids())

    def witness(self, max_tokens: int | None = None) -> list[int] | None:
        found = self._spell(self.text)
        if found is None or (max_tokens is not None and len(found) > max_tokens):
            return None
        return list(found)

    def least_tokens(self, room: int) -> int | None:
        found = self._spell(b"")
        return None if found is None else len(found)
