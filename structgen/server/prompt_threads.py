"""Tokenize prompts outside the event loop, with a fair share for each client.

Why: tokenizing a megabyte takes a second, and only one thread at a time may use a tokenizer.
What: there are two threads, each with its own tokenizer: one for requests of at most `SHORT` bytes, one for longer
ones. Each serves its queue in fair order (`FairThreads`), so that every client gets the same share of bytes.
`least_tokens_of` bounds the number of tokens by the bytes of a text, so that prompts that are far too long are refused
before they are tokenized.
Cost: a second copy of the tokenizer's tables.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, TypeVar

from .fair_threads import FairThreads

__all__ = ["SHORT", "PromptThreads", "least_tokens_of"]

T = TypeVar("T")
SHORT = 32 << 10
"""Bytes up to which a request does not wait for long ones."""


class PromptThreads:
    """The two threads of one model."""

    def __init__(self, model: Any) -> None:
        twin = _with_own_tokenizer(model)
        self._model, self._twin = model, model if twin is None else twin
        self._short = FairThreads(1, "structgen-prompts")
        self._long = self._short if twin is None else FairThreads(1, "structgen-long-prompts")

    def __len__(self) -> int:
        """Return how much work waits for a thread."""
        return sum(map(len, {self._short, self._long}))

    async def run(self, client: str, size: int, work: Callable[[Any], T]) -> T:
        """Run `work` on a thread with its model when it is the client's turn; `size` is in bytes."""
        threads, model = (self._short, self._model) if size <= SHORT else (self._long, self._twin)
        return await threads.run(client, lambda: work(model), size)

    def close(self) -> None:
        """Stop both threads after their current work, and cancel the rest."""
        self._short.close()
        self._long.close()


def _with_own_tokenizer(model: Any) -> Any:
    """Return the model with a copy of its tokenizer; None if that cannot be copied."""
    try:
        twin = copy.copy(model)
        twin.tokenizer = copy.deepcopy(model.tokenizer)
    except Exception:  # noqa: BLE001 — a tokenizer is foreign code, and may fail in any way to be copied
        return None
    return twin


def least_tokens_of(model: Any) -> Callable[[str], int]:
    """Return a function that bounds the number of tokens of a text from below, by its bytes alone.

    The bound holds for BPE tokenizers that keep every byte of the text: each byte that is a token of its own is in some
    token, and no token has more bytes than the longest. For other tokenizers the bound is 0.
    """
    backend = getattr(getattr(model, "tokenizer", None), "backend_tokenizer", None)
    if backend is None:
        return lambda text: 0
    shape = json.loads(backend.to_str())
    added = backend.get_added_tokens_decoder().values()
    if (
        shape["truncation"] is not None
        or shape["model"]["type"] != "BPE"
        or not _keeps_bytes(shape["normalizer"])
        or not _keeps_bytes(shape["pre_tokenizer"])
        or any(token.lstrip or token.rstrip for token in added)
    ):
        return lambda text: 0
    spelled = [model.vocabulary.token_bytes(token) or b"" for token in range(model.vocabulary.size)]
    longest = max(map(len, (*spelled, *(token.content.encode() for token in added))))
    single = {token for token in spelled if len(token) == 1}
    dropped = bytes(byte for byte in range(256) if bytes([byte]) not in single)
    return lambda text: -(-len(text.encode("utf-8", "replace").translate(None, dropped)) // longest)


def _keeps_bytes(part: dict[str, Any] | None) -> bool:
    """Return whether a normalizer or pre-tokenizer keeps every byte of a text."""
    if part is None:
        return True
    kind = part["type"]
    if kind == "Sequence":
        return all(map(_keeps_bytes, part.get("normalizers", part.get("pretokenizers", []))))
    if kind == "Split":
        return bool(part["behavior"] != "Removed")
    if kind == "Replace":
        return len(part["content"]) >= len(part["pattern"].get("String", part["content"] + "x"))
    return kind in ("ByteLevel", "Digits", "Metaspace", "Prepend")
