"""`load_drafter`: the drafter of a file, of any kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from structgen.errors import ModelError

from .eagle import Eagle
from .heads import Hydra, Medusa
from .kangaroo import Kangaroo
from .parts import LearnedDrafter
from .prompt_tokens import PromptTokens
from .weights import load_weights

__all__ = ["load_drafter"]

_KINDS: dict[str, type[LearnedDrafter[Any]]] = {
    each.kind: each for each in (Eagle, Medusa, Hydra, Kangaroo, PromptTokens)
}


def load_drafter(path: str | Path, **options: Any) -> LearnedDrafter[Any]:
    """Return the drafter of a file that `structgen draft train` wrote.

    Args:
        path: The file.
        options: Options of the drafter, such as ``most`` and ``width``.

    Raises:
        ModelError: The file cannot be read, is not complete, or has weights of another kind.
    """
    weights = load_weights(path)
    if weights.kind not in _KINDS:
        raise ModelError(
            f"{path} has weights of the kind {weights.kind!r:.40}, which this version does not know",
            hint=f"It knows {', '.join(sorted(_KINDS))}.",
        )
    return _KINDS[weights.kind](weights, **options)
