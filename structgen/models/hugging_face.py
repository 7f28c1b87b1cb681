"""Causal language models of `transformers`, with a KV cache and batches whose rows grow unevenly.

The rows of a batch share the cache's slots. A row that adds fewer tokens than its neighbours leaves slots
empty, and a row that takes tokens back leaves theirs; empty slots are masked for that row, and positions count
real tokens only. One row alone has no empty slots and runs without a mask, as fast as `transformers` does.
Invariant: a row's logits are those of a forward pass over its own tokens (up to the rounding of the kernels).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from structgen.errors import ModelError, OptionError, VocabularyMismatch
from structgen.vocabulary import Vocabulary

if TYPE_CHECKING:
    import torch

__all__ = ["HuggingFaceModel"]


class HuggingFaceModel:
    """A `transformers` model and its tokenizer. Made by `structgen.load` and `structgen.wrap`."""

    def __init__(self, model: Any, tokenizer: Any, *, chat: bool | None = None, system: str | None = None) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        config = model.config.get_text_config()
        self.vocabulary = Vocabulary.from_tokenizer(
            tokenizer, size=int(config.vocab_size), eos_ids=_eos_ids(model, tokenizer)
        )
        if len(tokenizer) > config.vocab_size:
            raise VocabularyMismatch(
                f"the tokenizer has {len(tokenizer)} tokens, the model only {config.vocab_size}",
                hint="Use the tokenizer that belongs to the model, or resize the model's embeddings.",
            )
        self.context_length: int | None = getattr(config, "max_position_embeddings", None)
        self._chat = bool(getattr(tokenizer, "chat_template", None)) if chat is None else chat
        self._system = system

    @property
    def device(self) -> Any:
        return self.model.device

    def encode(self, prompt: str | Sequence[dict[str, Any]]) -> list[int]:
        """The tokens of a prompt. With a chat template a string is one user message; without, plain text."""
        if not isinstance(prompt, str) or self._chat:
            messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
            if self._system is not None and (not messages or messages[0]["role"] != "system"):
                messages.insert(0, {"role": "system", "content": self._system})
            if not getattr(self.tokenizer, "chat_template", None):
                raise OptionError(
                    "this tokenizer has no chat template, so it cannot encode messages",
                    hint="Give the prompt as a string.",
                )
            text = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
            return list(self.tokenizer.encode(text, add_special_tokens=False))
        return list(self.tokenizer.encode(prompt))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens, special ones left out."""
        return self.vocabulary.decode(ids).decode("utf-8", "replace")

    def start(self, prompts: Sequence[Sequence[int]]) -> _Session:
        return _Session(self.model, self.vocabulary.size, prompts)


def _eos_ids(model: Any, tokenizer: Any) -> list[int]:
    """The model's own list of ends first (it names end-of-turn tokens), then the tokenizer's."""
    found: list[int] = []
    declared = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    for ids in (declared, tokenizer.eos_token_id):
        for token in ids if isinstance(ids, (list, tuple)) else [ids]:
            if token is not None and int(token) not in found:
                found.append(int(token))
    if not found:
        raise ModelError("neither the model nor the tokenizer declares an end-of-sequence token")
    return found


class _Session:
    def __init__(self, model: Any, size: int, prompts: Sequence[Sequence[int]]) -> None:
        import torch
        from transformers import DynamicCache

        if any(not prompt for prompt in prompts):
            raise ModelError("a prompt has no tokens")
        self._torch = torch
        self._model = model
        self._size = size
        self._cache: Any = DynamicCache(config=model.config)
        rows = len(prompts)
        self._filled = torch.zeros((rows, 0), dtype=torch.bool, device=model.device)  # slots that hold a token
        self._lengths = [0] * rows
        self._ragged = False
        self._logits = np.zeros((rows, size), dtype=np.float32)
        self._forward(prompts, every=False)

    def logits(self) -> NDArray[np.float32]:
        return self._logits

    def append(self, tokens: Sequence[Sequence[int]]) -> None:
        self._forward(tokens, every=False)

    def append_scored(self, tokens: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        return self._forward(tokens, every=True)

    def select(self, rows: Sequence[int]) -> None:
        index = self._torch.tensor(list(rows), device=self._model.device)
        self._cache.reorder_cache(index)
        self._filled = self._filled[index]
        self._lengths = [self._lengths[row] for row in rows]
        self._logits = self._logits[list(rows)]

    def rollback(self, row: int, n: int) -> None:
        if not 0 <= n <= self._lengths[row]:
            raise ModelError(f"cannot take back {n} tokens: the row has {self._lengths[row]}")
        if n == 0:
            return
        held = self._filled[row].nonzero().flatten()
        self._filled[row, held[len(held) - n :]] = False
        self._lengths[row] -= n
        # Slots at the end that no row uses go; others stay, masked.
        used = self._filled.any(dim=0).nonzero().flatten()
        keep = int(used[-1]) + 1 if len(used) else 0
        unused = self._filled.shape[1] - keep
        if unused:
            self._cache.crop(-unused)
            self._filled = self._filled[:, :keep]
        self._ragged = not bool(self._filled.all())

    def _forward(self, tokens: Sequence[Sequence[int]], *, every: bool) -> list[NDArray[np.float32]]:
        torch = self._torch
        device = self._model.device
        longest = max(map(len, tokens), default=0)
        empty = np.empty((0, self._size), dtype=np.float32)
        if longest == 0:
            return [empty for _ in tokens]
        even = all(len(new) == longest for new in tokens)
        ids = torch.zeros((len(tokens), longest), dtype=torch.long)
        real = torch.ones((len(tokens), longest), dtype=torch.bool)
        positions = torch.zeros((len(tokens), longest), dtype=torch.long)
        for row, new in enumerate(tokens):
            gap = longest - len(new)
            real[row, :gap] = False
            ids[row, gap:] = torch.tensor(new, dtype=torch.long)
            start = self._lengths[row]
            positions[row, gap:] = torch.arange(start, start + len(new))
            self._lengths[row] += len(new)
        self._ragged = self._ragged or not even
        self._filled = torch.cat([self._filled, real.to(device)], dim=1)
        with torch.inference_mode():
            out = self._model(
                input_ids=ids.to(device),
                position_ids=positions.to(device),
                attention_mask=self._filled.long() if self._ragged else None,
                past_key_values=self._cache,
                use_cache=True,
                logits_to_keep=longest if every else 1,
            )
            logits = _to_numpy(out.logits[..., : self._size])
        if all(tokens):
            self._logits = logits[:, -1]
        else:
            # A row that added nothing keeps its logits.
            self._logits = np.where(np.array([bool(new) for new in tokens])[:, None], logits[:, -1], self._logits)
        if not every:
            return []
        return [logits[row, longest - len(new) :] for row, new in enumerate(tokens)]


def _to_numpy(logits: torch.Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = logits.float().cpu().numpy()
    return array
