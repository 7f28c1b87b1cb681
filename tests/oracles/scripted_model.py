"""A model that prefers a given text, for tests of everything above the sampler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from structgen.vocabulary import Vocabulary

from .toy_model import ToyModel

BYTES = Vocabulary.from_tokens([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])


class ScriptedModel(ToyModel):
    """After a prompt it writes `script(prompt)`, byte by byte, and ends; every other token is improbable."""

    def __init__(self, script: str | Callable[[Any], str], context_length: int | None = None) -> None:
        super().__init__(BYTES, self._distribution, context_length)
        self.script = script if callable(script) else lambda prompt: script
        self.prompts: list[Any] = []
        self._texts: list[bytes] = []

    def encode(self, prompt: Any) -> list[int]:
        """Return one token, the number of the prompt."""
        self.prompts.append(prompt)
        self._texts.append(self.script(prompt).encode())
        return [len(self._texts) - 1]

    def _distribution(self, tokens: tuple[int, ...]) -> Sequence[float]:
        raise AssertionError("a scripted model needs its prompt")

    def start(self, prompts: Sequence[Sequence[int]]) -> Any:
        session = super().start(prompts)
        session._logits = self._logits
        return session

    def _logits(self, tokens: Sequence[int], prompt: int) -> Any:
        text, at = self._texts[tokens[0]], len(tokens) - prompt
        distribution = np.full(257, 1e-4)
        distribution[text[at] if at < len(text) else 256] = 1.0
        return np.log(distribution / distribution.sum())
