"""Hidden states of texts on disk: what a drafter is trained on.

What: a directory with the states of some layers after every token (`states`, float16, ``[tokens, layers, hidden
size]``), and the tokens themselves (`index.npz`). They are written in one pass of the model over the texts.
Invariant: the index is written last, so a directory with one is complete. It names the model and the layers, and a
directory of others is an error. A pass that fails leaves none of these files.
Cost: ``2 x layers x hidden size`` bytes for each token, within `most_bytes`: texts beyond it are left out.
"""

from __future__ import annotations

import contextlib
import json
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
from structgen.speculative.whole_files import replacing

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
    is_new = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _remove_incomplete(directory)  # of a pass that was killed; it may take the room that this one needs
        _check_room(directory, sum(len(_tokens(text, longest)) for text in chosen), layers, model)
    except OSError as error:
        raise ModelError(f"the states cannot be written to {directory}: {error}") from error
    try:
        _write(model, chosen, directory, tuple(layers), longest, progress)
        with replacing(directory / _LAYERS, "the names of the layers") as file:
            file.write(json.dumps(about).encode())
        with replacing(directory / _INDEX, "the index of the states") as file:
            hidden = np.array(_hidden_size(model))
            np.savez(file, allow_pickle=False, hidden=hidden, **_described(chosen, longest))
    except BaseException:
        with contextlib.suppress(OSError):
            _remove_incomplete(directory)
            if is_new:
                directory.rmdir()
        raise
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


def _remove_incomplete(directory: Path) -> None:
    """Remove what a pass that has not ended has written."""
    for name in (_INDEX, _STATES, _LAYERS):
        for file in (directory / name, directory / f"{name}.writing"):
            file.unlink(missing_ok=True)


def _write(
    model: HuggingFaceModel,
    texts: Sequence[Text],
    directory: Path,
    layers: tuple[int, ...],
    longest: int,
    progress: bool,
) -> None:
    """Write the states of texts.

    subtle: by ordinary writes. If the disk fills while a mapped file is written, the process ends (SIGBUS).
    """
    import torch

    whole = model.model
    lengths = [len(_tokens(text, longest)) for text in texts]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    token_bytes = 2 * len(layers) * _hidden_size(model)
    order = np.argsort(lengths, kind="stable")
    with (
        replacing(directory / _STATES, "the states") as file,
        ProgressBar(len(texts), "hidden states", progress) as bar,
        torch.inference_mode(),
    ):
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
            found = np.stack([as_half(output.hidden_states[layer]) for layer in layers], axis=2)
            for row, text in enumerate(batch):
                file.seek(int(offsets[text]) * token_bytes)
                file.write(found[row, : lengths[text]].data)
            bar.advance(len(batch))


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
