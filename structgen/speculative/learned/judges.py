"""The file of a `Judge`: JSON with the weights of the probe, and the tokenizer of the model that it is for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from structgen.errors import ModelError, OptionError, VocabularyMismatch

from ..lossy import Judge
from ..whole_files import replacing
from .output_layers import output_weight
from .wrapped_models import transformers_model

__all__ = ["check_judge", "load_judge", "save_judge"]

_FORMAT = "structgen-judge-1"
_RETRAIN = "Train one for this model: structgen draft train-judge."


def save_judge(judge: Judge, path: str | Path, vocabulary: str, notes: dict[str, Any] | None = None) -> None:
    """Write a judge to a file, replacing it.

    Args:
        judge: The judge.
        path: The file.
        vocabulary: `Vocabulary.fingerprint` of the model's tokenizer.
        notes: How it was made: JSON values.

    Raises:
        ModelError: The file cannot be written. Then it is as it was before.
    """
    about = {
        "format": _FORMAT,
        "vocabulary": vocabulary,
        "weight": [float(number) for number in judge.weight],
        "bias": judge.bias,
        "threshold": judge.threshold,
        "notes": notes or {},
    }
    content = json.dumps(about).encode()
    with replacing(Path(path), "the judge") as file:
        file.write(content)


def load_judge(path: str | Path, model: Any) -> Judge:
    """Read a judge that `save_judge` wrote.

    Args:
        path: The file.
        model: The model that verifies drafts, a `LanguageModel`.

    Raises:
        ModelError: The file cannot be read, or is not one of a judge; or the judge reads states of another width.
        VocabularyMismatch: The judge was trained with another tokenizer.

    Example:
        >>> judge = load_judge("judge.json", model)  # doctest: +SKIP
        >>> speculation = Speculation(drafters, judge, allow_lossy=True)  # doctest: +SKIP
    """
    judge, vocabulary = _read(path)
    if vocabulary != model.vocabulary.fingerprint:
        raise VocabularyMismatch(
            f"the judge of {path} was trained with another tokenizer: some token is not the same",
            hint=_RETRAIN,
        )
    width = _hidden_size(model)
    if width is not None and len(judge.weight) != width:
        raise ModelError(
            f"the judge of {path} reads hidden states of {len(judge.weight)} numbers; this model's have {width}",
            hint=_RETRAIN,
        )
    return judge


def check_judge(path: str | Path) -> None:
    """Check the file of a judge as far as that needs no model.

    Raises:
        ModelError: The file cannot be read, or is not one of a judge.
    """
    _read(path)


def _read(path: str | Path) -> tuple[Judge, object]:
    """Return the judge of a file, and the fingerprint of the tokenizer that it was trained with."""
    try:
        about = json.loads(Path(path).read_text("utf-8"))
        if about["format"] != _FORMAT:
            raise ValueError(f"its format is {about['format']!r:.40}")
        judge = Judge(about["weight"], float(about["bias"]), float(about["threshold"]))
    except OSError as error:
        raise ModelError(f"the judge cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, OptionError) as error:
        raise ModelError(
            f"{path} is not a complete file of a judge: {error}",
            hint="Make one: structgen draft train-judge.",
        ) from error
    return judge, about.get("vocabulary")


def _hidden_size(model: Any) -> int | None:
    """Return the width of the states that the output layer reads; None if the model is not one of `transformers`."""
    try:
        return output_weight(transformers_model(model)).shape[1]
    except (ModelError, AttributeError):
        return None
