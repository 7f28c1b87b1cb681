"""What a masked diffusion model is to structgen: tokens with masks in, logits of every place out.

Invariant: `logits` is a function of the rows alone. Cost: of an implementation, that of the model's own pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from structgen.errors import ModelError, OptionError
from structgen.vocabulary import Vocabulary

__all__ = ["DiffusionModel", "check_model", "read_logits"]


@runtime_checkable
class DiffusionModel(Protocol):
    """A model that predicts all masked tokens of a text at once.

    Attributes
    ----------
    mask_id
        The token that stands for one that is not known; no constraint allows it.
    closing
        Tokens that fill what is behind the text: its end, then padding. Empty for models whose texts are as long as
        their canvas.
    """

    vocabulary: Vocabulary
    mask_id: int
    closing: Sequence[int]

    def frame(self, prompt: Any) -> tuple[list[int], list[int]]:
        """The tokens before and behind a canvas: a prompt, or what marks the beginning and the end of a text."""
        ...

    def logits(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Of rows of tokens, int64 ``[rows, length]``, the logits of each place, float32 ``[rows, length, size]``."""
        ...


def check_model(model: Any) -> None:
    """An error for what is no diffusion model, before anything is run."""
    if not isinstance(model, DiffusionModel):
        missing = [
            name
            for name in ("vocabulary", "mask_id", "closing", "frame", "logits")
            if not hasattr(model, name)
        ]
        raise OptionError(
            f"{type(model).__name__} is no diffusion model: it has no {', '.join(missing)}",
            hint="Load one with structgen.diffusion.load, or see DiffusionModel.",
        )
    known = isinstance(model.mask_id, int | np.integer) and not isinstance(model.mask_id, bool)
    if not known or not 0 <= model.mask_id < model.vocabulary.size:
        raise ModelError(
            f"the model has no mask token (mask_id is {model.mask_id!r:.40})",
            hint="Models that write from the left fill holes with sg.infill.",
        )


def read_logits(
    model: DiffusionModel, before: Sequence[int], cells: Sequence[Sequence[int]], behind: Sequence[int]
) -> NDArray[np.float32]:
    """The logits of the cells of several canvases of one length, float32 ``[canvases, cells, size]``."""
    rows = np.array([[*before, *one, *behind] for one in cells], dtype=np.int64)
    found = model.logits(rows)
    if found.shape != (*rows.shape, model.vocabulary.size):
        raise ModelError(
            f"the model gave logits of shape {found.shape} for rows of shape {rows.shape}",
            hint=f"They must be [rows, length, {model.vocabulary.size}].",
        )
    if np.isnan(found).any():
        raise ModelError("the model returned logits that are not a number", hint="Try float32 weights.")
    return found[:, len(before) : rows.shape[1] - len(behind)]
