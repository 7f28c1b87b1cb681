"""Hidden states of texts on disk: what a drafter is trained on.

What: a directory with the states of some layers after every token (`states`, float16, ``[tokens, layers, hidden
size]``), and the tokens themselves (`index.npz`). They are written in one pass of the model over the texts.
Invariant: the index is written last, so a directory with one is complete. It names the model and the layers, and a
directory of others is an error.
Cost: ``2 x layers x hidden size`` bytes for each token, within `most_bytes`: texts beyond it are left out.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from structgen.errors import ModelError, OptionError
from structgen.progress import ProgressBar

from .texts import Text

if TYPE_CHECKING:
    import torch

    from structgen.models.hugging_face import HuggingFaceModel

__all__ = ["LONGEST", "Features", "as_half", "compute_features", "load_features"]

LONGEST = 384
"""The largest number of tokens of a text that is trained on, if nothing else is said."""
_STATES, _INDEX, _LAYERS = "states", "index.npz", "layers.json"
_MOST_BATCH_TOKENS = 4096
_LARGEST = 65_504.0
"""The largest float16."""


@dataclass(frozen=True)
class Features:
    """Texts and their states. `offsets[i]` is the number of the first token of text i in `tokens` and `states`."""

    layers: tuple[int, ...]
    states: NDArray[np.float16]
    """Of all tokens, ``[tokens, layers, hidden size]``; a mapped file. Those of a corpus have no layers."""
    tokens: NDArray[np.int32]
    offsets: NDArray[np.int64]
    answers: NDArray[np.int64]
    """The number of tokens before the answer, for each text."""
    kinds: NDArray[np.str_]
    temperatures: NDArray[np.float64]
    constraints: NDArray[np.str_]
    """The constraint of each answer as JSON (`requests.constraint_of`), empty without one."""

    def __len__(self) -> int:
        return len(self.answers)

    def length(self, text: int) -> int:
        """Return the number of tokens of a text."""
        return int(self.offsets[text + 1] - self.offsets[text])


def compute_features(
    model: HuggingFaceModel,
    texts: Sequence[Text],
    directory: Path,
    layers: Sequence[int],
    *,
    most_bytes: int,
    longest: int = LONGEST,
    progress: bool = False,
) -> Features:
    """Compute the states of texts, or read them from the directory if they are there.

    Args:
        model: A transformers model.
        texts: The texts.
        directory: Where the states are kept.
        layers: The layers, as in `HiddenStatesModel.start_with_hidden_states`.
        most_bytes: The largest size of the states.
        longest: The largest number of tokens of a text; longer ones are cut.
        progress: Whether to show a progress bar.

    Raises:
        ModelError: The directory cannot be written, or has the states of another model, other layers or other texts; or
            a text has a token that the model does not have.
        OptionError: There is no text, or no room for one.
    """
    about = {
        "vocabulary": model.vocabulary.fingerprint,
        "model": str(getattr(model.model, "name_or_path", "")),
        "layers": list(layers),
    }
    _check_tokens(model, texts)
    chosen = _within(model, texts, layers, most_bytes, longest)
    if (directory / _INDEX).exists():
        known = load_features(directory)
        if json.loads((directory / _LAYERS).read_text("utf-8")) != about:
            raise ModelError(
                f"{directory} has the states of another model or of other layers",
                hint="Name another directory, or remove it.",
            )
        wanted = _described(chosen, longest)
        if not all(np.array_equal(getattr(known, name), array) for name, array in wanted.items()):
            raise ModelError(
                f"{directory} has the states of other texts", hint="Name another directory, or remove it."
            )
        return known
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _check_room(directory, sum(len(_tokens(text, longest)) for text in chosen), layers, model)
        _write(model, chosen, directory, tuple(layers), longest, progress)
        (directory / _LAYERS).write_text(json.dumps(about), "utf-8")
        _write_index(directory, chosen, longest)
    except OSError as error:
        (directory / _STATES).unlink(missing_ok=True)
        raise ModelError(f"the states cannot be written to {directory}: {error}") from error
    return load_features(directory)


def load_features(directory: Path) -> Features:
    """Read a directory that `compute_features` wrote."""
    try:
        with (directory / _INDEX).open("rb") as file, np.load(file, allow_pickle=False) as index:
            fields = {name: index[name] for name in index.files}
        about = json.loads((directory / _LAYERS).read_text("utf-8"))
        layers, hidden = tuple(about["layers"]), int(fields.pop("hidden"))
        states = np.memmap(
            directory / _STATES, np.float16, "r", shape=(len(fields["tokens"]), len(layers), hidden)
        )
        return Features(layers=layers, states=states, **fields)
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
        raise ModelError(f"{directory} has no complete states of texts: {error}") from error


def as_half(states: torch.Tensor) -> NDArray[np.float16]:
    """Return states in half precision; what is too large becomes the largest number."""
    half: NDArray[np.float16] = states.float().clamp(-_LARGEST, _LARGEST).half().cpu().numpy()
    return half


def _tokens(text: Text, longest: int) -> NDArray[np.int32]:
    return np.array([*text.prompt, *text.answer][:longest], dtype=np.int32)


def _hidden_size(model: HuggingFaceModel) -> int:
    return int(model.model.config.get_text_config().hidden_size)


def _check_tokens(model: HuggingFaceModel, texts: Sequence[Text]) -> None:
    """Raise `ModelError` if a text has a token that the model has no embedding of."""
    size = len(model.model.get_input_embeddings().weight)
    for number, text in enumerate(texts, 1):
        largest = max((*text.prompt, *text.answer))
        if largest >= size:
            raise ModelError(
                f"text {number} has the token {largest}, and the model's tokens end at {size - 1}",
                hint="Use texts that this model has written.",
            )


def _within(
    model: HuggingFaceModel, texts: Sequence[Text], layers: Sequence[int], most_bytes: int, longest: int
) -> list[Text]:
    """Return the first texts whose states have room. Texts whose answer is cut off whole are left out."""
    per_token = 2 * len(layers) * _hidden_size(model)
    chosen, used = [], 0
    for text in texts:
        if len(text.prompt) >= longest - 1 or not text.answer:
            continue
        used += per_token * min(longest, len(text.prompt) + len(text.answer))
        if used > most_bytes:
            break
        chosen.append(text)
    if not chosen:
        raise OptionError(
            f"there is no text of at most {longest} tokens, with an answer, whose states fit into {most_bytes} bytes: "
            f"a token takes {per_token}",
            hint="Allow more bytes, or give shorter prompts.",
        )
    return chosen


def _check_room(directory: Path, tokens: int, layers: Sequence[int], model: HuggingFaceModel) -> None:
    needed = 2 * tokens * len(layers) * _hidden_size(model)
    free = shutil.disk_usage(directory).free
    if needed > free:
        raise ModelError(
            f"the states of {tokens} tokens take {needed / 1e9:.1f} GB, and {directory} has {free / 1e9:.1f} GB left",
            hint="Allow fewer bytes, or name another directory.",
        )


def _write(
    model: HuggingFaceModel,
    texts: Sequence[Text],
    directory: Path,
    layers: tuple[int, ...],
    longest: int,
    progress: bool,
) -> None:
    import torch

    whole = model.model
    lengths = [len(_tokens(text, longest)) for text in texts]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    shape = (int(offsets[-1]), len(layers), _hidden_size(model))
    states = np.memmap(directory / _STATES, np.float16, "w+", shape=shape)
    order = np.argsort(lengths, kind="stable")
    with ProgressBar(len(texts), "hidden states", progress) as bar, torch.inference_mode():
        for batch in _batches(order.tolist(), lengths):
            longest_here = max(lengths[text] for text in batch)
            ids = torch.zeros((len(batch), longest_here), dtype=torch.long)
            for row, text in enumerate(batch):  # what follows a text changes nothing before it
                ids[row, : lengths[text]] = torch.from_numpy(_tokens(texts[text], longest))
            output = whole(
                input_ids=ids.to(whole.device),
                use_cache=False,
                logits_to_keep=1,
                output_hidden_states=list(layers),
            )
            for place, layer in enumerate(layers):
                found = as_half(output.hidden_states[layer])
                for row, text in enumerate(batch):
                    states[offsets[text] : offsets[text + 1], place] = found[row, : lengths[text]]
            bar.advance(len(batch))
    states.flush()


def _batches(order: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
    batches: list[list[int]] = [[]]
    for text in order:
        if batches[-1] and (len(batches[-1]) + 1) * lengths[text] > _MOST_BATCH_TOKENS:
            batches.append([])
        batches[-1].append(text)
    return batches


def _described(texts: Sequence[Text], longest: int) -> dict[str, NDArray[Any]]:
    """Return what the index has about texts, by the names of `Features`."""
    tokens = [_tokens(text, longest) for text in texts]
    return {
        "tokens": np.concatenate(tokens),
        "offsets": np.concatenate([[0], np.cumsum([len(each) for each in tokens])]).astype(np.int64),
        "answers": np.array([len(text.prompt) for text in texts], dtype=np.int64),
        "kinds": np.array([text.kind for text in texts]),
        "temperatures": np.array([text.temperature for text in texts]),
        "constraints": np.array(
            ["" if text.constraint is None else json.dumps(text.constraint) for text in texts]
        ),
    }


def _write_index(directory: Path, texts: Sequence[Text], longest: int) -> None:
    described = _described(texts, longest)
    states_bytes = (directory / _STATES).stat().st_size
    layers = len(json.loads((directory / _LAYERS).read_text("utf-8"))["layers"])
    made = directory / "index.writing.npz"
    hidden = np.array(states_bytes // (2 * layers * len(described["tokens"])))
    np.savez(made, allow_pickle=False, hidden=hidden, **described)
    os.replace(made, directory / _INDEX)
