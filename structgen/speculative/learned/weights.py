"""`DraftWeights`: the weights of a learned drafter in one file, and the model that they fit.

What: a safetensors file. Matrices are int8 with one float32 factor for each row, other tensors float32. The metadata
are one JSON object: the kind of drafter, its sizes, the vocabulary's fingerprint.
Invariant: a file is complete or absent, see `whole_files`.
Cost: reading takes one pass over the file. Weights of 5 million numbers take 5 MB.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from structgen.errors import ModelError, a_kind

from ..whole_files import replacing
from .number_types import FLOATS, WHOLES

__all__ = ["DraftWeights", "load_weights", "save_weights"]

_FORMAT = "structgen-draft-1"
_FACTORS = ".factors"
_MOST_BYTES = 1 << 34


@dataclass(frozen=True)
class DraftWeights:
    """The weights of a drafter."""

    kind: str
    """The name of the drafter's architecture, such as "eagle"."""
    sizes: dict[str, Any]
    """What determines the shapes of the tensors: JSON values."""
    vocabulary: str
    """`Vocabulary.fingerprint` of the tokenizer that it was trained with."""
    token_ids: NDArray[np.int64]
    """The tokens that it may draft, ascending."""
    tensors: dict[str, torch.Tensor]
    """By the names of the network's state."""
    notes: dict[str, Any] = field(default_factory=dict)
    """How they were made: JSON values."""


def save_weights(weights: DraftWeights, path: str | Path) -> None:
    """Write weights to a file, replacing it.

    Raises:
        ModelError: A number is not finite, or the file cannot be written. Then it is as it was before.
    """
    from safetensors.torch import save

    stored: dict[str, torch.Tensor] = {"token_ids": torch.from_numpy(weights.token_ids.astype(np.int32))}
    for name, tensor in weights.tensors.items():
        if not torch.isfinite(tensor).all():
            raise ModelError(f"the tensor {name} contains numbers that are not finite, and is not written")
        if tensor.ndim == 2:
            factors = tensor.abs().amax(1).float().clamp(min=1e-12) / 127
            stored[name] = (tensor.float() / factors[:, None]).round().to(torch.int8)
            stored[name + _FACTORS] = factors
        else:
            stored[name] = tensor.float().contiguous()
    about = {
        "format": _FORMAT,
        "kind": weights.kind,
        "sizes": weights.sizes,
        "vocabulary": weights.vocabulary,
        "notes": weights.notes,
    }
    content = save(stored, metadata={"structgen": json.dumps(about)})
    with replacing(Path(path), "the drafter's weights") as file:
        file.write(content)


def load_weights(path: str | Path) -> DraftWeights:
    """Read weights that `save_weights` wrote.

    Raises:
        ModelError: There is no such file, or it is not one of a drafter, is truncated, or contains numbers that are not
            finite, or values of other types.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ModelError(f"{path} has more than {_MOST_BYTES >> 30} GB, and is no file of a drafter")
        with safe_open(path, "pt") as file:
            about = json.loads((file.metadata() or {}).get("structgen", "{}"))
            stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 — it is no mapping
    except OSError as error:
        raise ModelError(f"the drafter's weights cannot be read: {error}") from error
    except (SafetensorError, ValueError, RuntimeError, LookupError, TypeError, AttributeError) as error:
        raise ModelError(f"{path} is not a complete file of a drafter's weights: {error}") from error
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise ModelError(
            f"{path} has no weights of a structgen drafter", hint="Make some: structgen draft train."
        )
    tensors = {}
    for name, tensor in stored.items():
        if name == "token_ids" or name.endswith(_FACTORS):
            continue
        factors = stored.get(name + _FACTORS)
        if factors is not None and (tensor.ndim != 2 or factors.shape != tensor.shape[:1]):
            raise ModelError(f"{path}: the tensor {name} and its factors have shapes that do not fit")
        for part in (tensor,) if factors is None else (factors,):
            if part.dtype not in FLOATS:
                raise ModelError(f"{path}: the tensor {name} has numbers of type {part.dtype}")
        if factors is not None and tensor.dtype != torch.int8:
            raise ModelError(f"{path}: the tensor {name} has factors, and numbers of type {tensor.dtype}")
        tensors[name] = tensor.float() if factors is None else tensor.float() * factors.float()[:, None]
        if not torch.isfinite(tensors[name]).all():
            raise ModelError(f"{path}: the tensor {name} contains numbers that are not finite")
    ids = stored.get("token_ids")
    is_list = ids is not None and ids.ndim == 1 and len(ids) > 0 and ids.dtype in WHOLES
    # subtle: differences of neighbours may overflow.
    if ids is None or not is_list or not (ids[1:] > ids[:-1]).all() or int(ids[0]) < 0:
        raise ModelError(f"{path} does not list the tokens that are drafted")
    kind, sizes = about.get("kind"), about.get("sizes")
    if not isinstance(kind, str) or not isinstance(sizes, dict):
        raise ModelError(f"{path}: kind and sizes are {a_kind(kind)} and {a_kind(sizes)}")
    vocabulary, notes = about.get("vocabulary"), about.get("notes", {})
    if not isinstance(vocabulary, str) or not isinstance(notes, dict):
        raise ModelError(f"{path}: vocabulary and notes are {a_kind(vocabulary)} and {a_kind(notes)}")
    return DraftWeights(kind, sizes, vocabulary, ids.long().numpy(), tensors, notes)
