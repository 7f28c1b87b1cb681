"""`load_checkpoint`: drafters that other projects have trained, as drafters of this package.

What: the tensors and sizes of a checkpoint become those of `Eagle` or `Medusa`. What a drafter has of its own
(embeddings, output layers) is left out where it is equal to the model's.

Formats:
    Medusa        `medusa_lm_head.safetensors` or `.pt`: tensors ``head.block.linear.weight``, ``head.blocks.weight``
    EAGLE, -2     `fc.*` reads the embedding and one hidden state; `layers.0.*` is a layer of Llama
    EAGLE-3       `fc.weight` reads three hidden states; the layer (`midlayer.*` or `layers.0.*`) reads the embedding
                  next to them; `lm_head.weight` has the tokens of `d2t`
    speculators   the same two with other names, and sizes in `transformer_layer_config`

Which hidden states each of them reads is not in their files and differs:

    Medusa, EAGLE, EAGLE-2   the states *after* the model's final norm. EAGLE's output takes their place, so no norm
                             follows it: the output layer reads it as it is.
    EAGLE-3                  of a model of n layers: the inputs of the decoder layers 2, n // 2 and n - 3, counted from
                             0 (so the outputs of layers 2, n // 2 and n - 3, counted from 1), *before* any norm.
                             `eagle_aux_hidden_state_layer_ids` names others. Its output is normed before the output
                             layer, and fed back without the norm.

Invariant: each tensor of a file is used or known to be of no use. Anything else is an error.
Source: the readers and papers of Medusa (Cai et al. 2024), EAGLE (Li et al. 2024, 2025) and `speculators`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from structgen.errors import ModelError
from structgen.protocols import layer_count_of

from .checkpoint_eagle import check_layer, read_eagle, read_eagle3
from .checkpoint_files import WEIGHT_FILES, Checkpoint, Target
from .checkpoint_model import check_base, check_config, check_tokenizer
from .heads import MOST_BLOCKS, MOST_HEADS, HeadSizes, Medusa
from .learned_drafter import LearnedDrafter
from .output_layers import output_weight
from .weights import DraftWeights
from .wrapped_models import transformers_model

__all__ = ["check_checkpoint", "is_checkpoint", "load_checkpoint"]

_OF_NO_USE = ("rotary_emb", "verifier_", "t2d")
_UNKNOWN_OPTIONS = ("norm_output", "fc_norm", "add_para_norm", "parallel_drafting")
_MEDUSA_NAME = re.compile(r"(\d+)\.(\d+)(\.linear)?\.(weight|bias)")


_Read = tuple[type[LearnedDrafter[Any]], Any, NDArray[np.int64], dict[str, torch.Tensor]]
"""The drafter, its sizes, the tokens that it drafts, and its tensors."""
_Reader = Callable[[Checkpoint, Target], _Read]


def is_checkpoint(path: str | Path) -> bool:
    """Return whether a path names a folder, or a file as other projects name them."""
    path = Path(path)
    if os.path.isdir(path):  # which is False where `Path.is_dir` raises, as for a name that is too long
        return True
    if path.name not in WEIGHT_FILES:
        return False
    return path.suffix != ".safetensors" or b'"structgen"' not in _start_of(path)


def _start_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4096)
    except OSError:
        return b""


def check_checkpoint(path: str | Path) -> None:
    """Check the files of a checkpoint as far as that needs no model: that they are complete and in a known format.

    Cost: one more pass over the files. Shapes are not checked, since they follow from the model's sizes.

    Args:
        path: See `load_checkpoint`.

    Raises:
        ModelError: A file is missing or not complete; or its format or architecture is not known.
    """
    checkpoint = Checkpoint(Path(path))
    _check_known_options(checkpoint)
    if _reader(checkpoint) is not _medusa:
        check_layer(checkpoint)


def load_checkpoint(
    path: str | Path, model: Any, *, any_base: bool = False, **options: Any
) -> LearnedDrafter[Any]:
    """Return the drafter of a checkpoint of Medusa, EAGLE or `speculators`.

    Hidden states: Medusa and EAGLE-1/-2 read those after the model's final norm, EAGLE-3 the outputs of three layers
    before any norm (see the module's docstring).

    Args:
        path: Its folder, or the file of its tensors. `config.json` is in the same folder.
        model: The model that it drafts for, with a model of `transformers`.
        any_base: Whether to load a drafter although its config names another model than this one. By default the last
            parts of both names are compared, without case, unless the model is of a path or has no name.
        options: Options of the drafter, such as ``most`` and ``width``.

    Raises:
        ModelError: A file is missing or not complete; its format or architecture is not known; or it is for a model
            with other sizes or another name. The message names the file, and the tensor with the shapes.
        VocabularyMismatch: The folder has a tokenizer with another token.
        VocabularyError: The folder has a tokenizer that cannot be read.
    """
    whole = transformers_model(model)
    layers = layer_count_of(model)
    if layers is None:
        raise ModelError("this model does not state how many layers it has, so a drafter cannot read them")
    embeddings = whole.get_input_embeddings().weight.detach()
    target = Target(embeddings, output_weight(whole), layers, model.vocabulary)
    checkpoint = Checkpoint(Path(path))
    check_config(checkpoint, target, getattr(whole.config, "architectures", None))
    _check_known_options(checkpoint)
    if not any_base:
        check_base(checkpoint, whole)
    check_tokenizer(checkpoint, target)
    reader = _reader(checkpoint)
    drafter, sizes, ids, tensors = reader(checkpoint, target)
    checkpoint.finish(_OF_NO_USE)
    notes = {"checkpoint": str(path), "base model": checkpoint.base_model}
    weights = DraftWeights(drafter.kind, sizes.as_dict(), target.vocabulary.fingerprint, ids, tensors, notes)
    drafter.check_options(options)
    made: LearnedDrafter[Any] = drafter(weights, **options)
    return made


def _reader(checkpoint: Checkpoint) -> _Reader:
    """Return the function that reads the checkpoint's format."""
    names, declared = checkpoint.names(), checkpoint.config.get("speculators_model_type")
    if declared is not None:
        if declared not in ("eagle", "eagle3"):
            raise ModelError(
                f"{checkpoint.config_file}: speculators of the type {declared!r:.40} cannot be read",
                hint="Those of the types 'eagle' and 'eagle3' can.",
            )
        return read_eagle if declared == "eagle" else read_eagle3
    if "medusa_num_heads" in checkpoint.config or (names and all(map(_MEDUSA_NAME.fullmatch, names))):
        return _medusa
    if any(name.startswith("midlayer.") or ".hidden_norm." in name for name in names):
        return read_eagle3
    first, second = (any(name.startswith(f"layers.{k}.") for name in names) for k in (0, 1))
    if "fc.weight" in names or (first and not second):
        return read_eagle
    some = ", ".join(sorted(names)[:4])
    raise ModelError(
        f"{checkpoint.file} is not a drafter in a known format: it has the tensors {some}, ...",
        hint="Medusa, EAGLE 1 to 3, and speculators of the types 'eagle' and 'eagle3' can be read.",
    )


def _check_known_options(checkpoint: Checkpoint) -> None:
    """Raise an error if the config states an option that drafters of this package do not have."""
    for key in _UNKNOWN_OPTIONS:
        if checkpoint.config.get(key):
            raise ModelError(f"{checkpoint.config_file}: drafters with {key} cannot be read")


def _medusa(checkpoint: Checkpoint, target: Target) -> _Read:
    """Read heads on the state after the final norm."""
    found = [match for match in map(_MEDUSA_NAME.fullmatch, checkpoint.names()) if match]
    count = checkpoint.whole("medusa_num_heads", 1 + max((int(match[1]) for match in found), default=0))
    deepest = max((int(match[2]) for match in found if match[3]), default=-1)
    # subtle: zero blocks are a linear layer alone, so the config may state 0 here.
    blocks = checkpoint.config.get("medusa_num_layers")
    blocks = deepest + 1 if blocks is None else blocks
    if count > MOST_HEADS:
        raise ModelError(f"{checkpoint.config_file}: medusa_num_heads is {count!r:.40}")
    if type(blocks) is not int or not 0 <= blocks <= MOST_BLOCKS:
        raise ModelError(f"{checkpoint.config_file}: medusa_num_layers is {blocks!r:.40}")
    hidden = target.hidden
    tensors = {"embedding_norm.weight": torch.ones(hidden)}
    has_outputs = any(checkpoint.has(f"{head}.{blocks}.weight") for head in range(count))
    for head in range(count):
        for block in range(blocks):
            theirs, ours = f"{head}.{block}.linear", f"heads.{head}.blocks.{block}.up"
            tensors[f"{ours}.weight"] = checkpoint.take(f"{theirs}.weight", hidden, hidden)
            tensors[f"{ours}.bias"] = checkpoint.take(f"{theirs}.bias", hidden)
        if has_outputs:
            rows = checkpoint.take(f"{head}.{blocks}.weight", target.tokens, hidden)
            tensors[f"output.{head}.weight"] = rows[: target.usable]
    sizes = HeadSizes(
        hidden, target.layers, count, blocks=blocks, output_rows=target.usable if has_outputs else 0
    )
    return Medusa, sizes, np.arange(target.usable), tensors
