"""The protocol of masked diffusion models: tokens with masks in, logits of every position out.

Invariant: `logits` is a function of the rows alone. Cost: that of the model's own forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from structgen.errors import ModelError, OptionError
from structgen.vocabulary import Vocabulary

__all__ = ["DiffusionModel", "check_model", "read_logits"]


@runtime_checkable
class DiffusionModel(Protocol):
    """A model that predicts all masked tokens of a text at once.

    Attributes:
        vocabulary: The vocabulary.
        mask_id: The mask token, which stands for an unknown one; no constraint allows it.
        closing: Tokens that fill the cells after the text: its end, then padding. Empty for models whose texts are as
            long as their canvas.
    """

    vocabulary: Vocabulary
    mask_id: int
    closing: Sequence[int]

    def frame(self, prompt: object) -> tuple[list[int], list[int]]:
        """Return the tokens before and after a canvas: a prompt, or marks of the start and the end of a text."""
        ...

    def logits(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the logits of each position, float32 ``[rows, length, size]``, for int64 ``[rows, length]`` tokens."""
        ...


def check_model(model: object) -> None:
    """Raise an error for anything that is not a diffusion model with a mask token, before it runs."""
    if not isinstance(model, DiffusionModel):
        missing = [
            name
            for name in ("vocabulary", "mask_id", "closing", "frame", "logits")
            if not hasattr(model, name)
        ]
        raise OptionError(
            f"{type(model).__name__} is not a diffusion model: it lacks {', '.join(missing)}",
            hint="Load one with structgen.diffusion.load, or see DiffusionModel.",
        )
    known = isinstance(model.mask_id, int | np.integer) and not isinstance(model.mask_id, bool)
    if not known or not 0 <= model.mask_id < model.vocabulary.size:
        raise ModelError(
            f"the model has no mask token (mask_id is {model.mask_id!r:.40})",
            hint="Use sg.infill for models that generate from left to right.",
        )


def read_logits(
    model: DiffusionModel, before: Sequence[int], cells: Sequence[Sequence[int]], after: Sequence[int]
) -> NDArray[np.float32]:
    """Return the logits of the cells of several canvases of one length, float32 ``[canvases, cells, size]``."""
    rows = np.array([[*before, *canvas, *after] for canvas in cells], dtype=np.int64)
    logits = model.logits(rows)
    if logits.shape != (*rows.shape, model.vocabulary.size):
        raise ModelError(
            f"the model returned logits of shape {logits.shape} for rows of shape {rows.shape}",
            hint=f"They must be [rows, length, {model.vocabulary.size}].",
        )
    if np.isnan(logits).any():
        raise ModelError("the model returned logits that are not a number", hint="Try float32 weights.")
    return logits[:, len(before) : rows.shape[1] - len(after)]
