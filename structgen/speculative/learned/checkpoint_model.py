"""Comparison of what a checkpoint states about its model with the model that it is loaded for.

Why: a drafter for another model of the same sizes loads without an error of shapes, and hardly any of its tokens are
accepted.
What: sizes and architecture of the config, the name of the base model, and the tokenizer in the folder. What is not
stated is not compared.
Invariant: texts are right with any drafter. What is compared here decides about the speed only.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from structgen.errors import ModelError, VocabularyMismatch
from structgen.tokenizers import read_tokenizer
from structgen.vocabulary import Vocabulary

from .checkpoint_files import Checkpoint, Target

__all__ = ["check_base", "check_config", "check_tokenizer"]

_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
"""A name of a model: ``name`` or ``owner/name``. Paths with more parts or with other characters do not match."""


def check_config(checkpoint: Checkpoint, target: Target, architectures: list[str] | None) -> None:
    """Check the sizes and the architecture that the config states.

    Raises:
        ModelError: They are not the model's.
    """
    for key, value, what in (
        ("hidden_size", target.hidden, "hidden states of {} numbers; this model's have {}"),
        ("target_hidden_size", target.hidden, "hidden states of {} numbers; this model's have {}"),
        ("vocab_size", target.tokens, "a vocabulary of {} tokens; this model's has {}"),
    ):
        found = checkpoint.whole(key, value)
        if found != value:
            raise ModelError(
                f"{checkpoint.config_file}: the drafter is for {what.format(found, value)} ({key})",
                hint=checkpoint.hint(),
            )
    wanted = checkpoint.verifier.get("architectures")
    if isinstance(wanted, list) and wanted and architectures and not any(e in architectures for e in wanted):
        raise ModelError(
            f"{checkpoint.config_file}: the drafter is for a model of the architecture {wanted[0]!s:.60}; this one "
            f"is of {architectures[0]}",
            hint=checkpoint.hint(),
        )


def check_base(checkpoint: Checkpoint, whole: Any) -> None:
    """Check the name of the base model that the config states.

    The last parts of both names are compared, without case. A model of a path has no name that is known.

    Args:
        checkpoint: The checkpoint.
        whole: The model of `transformers`.

    Raises:
        ModelError: The checkpoint names another model.
    """
    name: Any = getattr(whole.config, "name_or_path", None)
    wanted, found = _last_part(checkpoint.base_model), _last_part(name)
    if wanted is None or found is None or wanted == found or os.path.exists(name):
        return
    raise ModelError(
        f"{checkpoint.config_file}: the drafter was trained for {checkpoint.base_model:.200}, and this model is "
        f"{name:.200}",
        hint="If this model is a copy or a fine-tune of it, use any_base=True (--any-base on the command line). Texts "
        "stay the same with any drafter, but a model accepts few tokens of one that was trained for another.",
    )


def _last_part(name: object) -> str | None:
    """Return the part of a model's name that copies have in common; None for a path, or without a name."""
    if not isinstance(name, str) or not _HUB_NAME.fullmatch(name):
        return None
    return name.rpartition("/")[2].casefold()


def check_tokenizer(checkpoint: Checkpoint, target: Target) -> None:
    """Check the tokenizer in the folder: `tokenizer.json`, or without it `tokenizer.model` of SentencePiece.

    A `tokenizer.model` does not contain the tokens that other files add, and does not know which of its pieces are
    special. So of these files only tokens are compared that are text for both.

    Raises:
        VocabularyMismatch: Some token differs from the model's.
        VocabularyError: The file cannot be read.
    """
    for name in ("tokenizer.json", "tokenizer.model"):
        file = checkpoint.file.parent / name
        if os.path.lexists(file):  # a link without a target is an error, too
            _compare(file, target.vocabulary, checkpoint.hint(), is_whole=name == "tokenizer.json")
            return


def _compare(file: Path, models: Vocabulary, hint: str, *, is_whole: bool) -> None:
    """Raise `VocabularyMismatch` if a token of a file differs from the model's.

    Args:
        file: The file.
        models: The model's tokens.
        hint: The hint of the error.
        is_whole: Whether what is no text in the file, or is no text for the model, is compared as well.
    """
    own = read_tokenizer(file).tokens
    for token in range(max(len(own), len(models))):
        # subtle: the ends of text are no text for the model, even if its tokenizer has them as text.
        first = own[token] if token < len(own) and token not in models.eos_ids else None
        second = models.token_bytes(token)
        if first == second or (not is_whole and (first is None or (second is None and token < len(models)))):
            continue
        raise VocabularyMismatch(
            f"{file}: the drafter's tokenizer is not the model's: token {token} is {first!r:.60}, and "
            f"{second!r:.60} in the model",
            hint=hint,
        )
