"""`Checkpoint`: the files of a drafter that another project has trained, and errors that name what does not fit.

What: `config.json`, and tensors from a file of safetensors or of torch. Each tensor is taken once, by its name and with
the shape that it must have. So a tensor that the reader does not know is found, and is an error: a drafter without it
would be another one.
Cost: one pass over the file. Tensors keep their precision.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from structgen.errors import ModelError, a_kind
from structgen.vocabulary import Vocabulary

from .number_types import FLOATS
from .size_checks import check_numbers

__all__ = ["WEIGHT_FILES", "Checkpoint", "Target"]

WEIGHT_FILES = (
    "medusa_lm_head.safetensors",
    "medusa_lm_head.pt",
    "model.safetensors",
    "pytorch_model.bin",
)
"""The names of files with tensors, in the order in which they are looked for in a folder."""
_TORCH_FILES = (".pt", ".pth", ".bin")
_PREFIXES = ("model.", "medusa_head.")
"""What the names of all tensors may start with."""


@dataclass(frozen=True)
class Target:
    """What the model determines of a drafter for it."""

    embeddings: torch.Tensor
    output: torch.Tensor
    """The weight of the output layer, ``[tokens, hidden]``."""
    layers: int
    vocabulary: Vocabulary

    @property
    def hidden(self) -> int:
        """The width of hidden states."""
        return self.embeddings.shape[1]

    @property
    def tokens(self) -> int:
        """The number of embeddings, padding included."""
        return self.embeddings.shape[0]

    @property
    def usable(self) -> int:
        """The number of tokens that have an embedding and a text."""
        return min(self.vocabulary.size, self.tokens)


class Checkpoint:
    """The config and the tensors of a drafter.

    Args:
        path: A folder, or the file of the tensors in it.

    Raises:
        ModelError: A file is missing, cannot be read, is not complete, or contains other things than tensors.
    """

    def __init__(self, path: Path) -> None:
        self.file = _weight_file(path)
        self.config_file = self.file.parent / "config.json"
        given = _config(self.config_file)
        self.verifier = _verifier(given)
        """The `verifier` of `speculators_config`; empty if there is no such entry."""
        layer = given.get("transformer_layer_config")
        self.config = {**given, **layer} if isinstance(layer, dict) else given
        """The entries of `config.json`. Those of `transformer_layer_config` are among them."""
        self._names: dict[str, str] = {}
        self._tensors: dict[str, torch.Tensor] = {}
        for name, tensor in _tensors(self.file).items():
            short = name
            for prefix in _PREFIXES:
                short = short.removeprefix(prefix)
            self._names[short], self._tensors[short] = name, tensor

    @property
    def base_model(self) -> str | None:
        """The name of the model that it was trained for, if a file states it."""
        for name in (self.verifier.get("name_or_path"), self.config.get("base_model_name_or_path")):
            if isinstance(name, str) and name:
                return name
        return None

    def hint(self) -> str:
        """Return what to do if the checkpoint does not fit the model."""
        name = self.base_model
        return "Use a drafter of this model." if name is None else f"It was trained for {name:.200}."

    def whole(self, key: str, default: int) -> int:
        """Return a positive whole number of the config."""
        value = self.config.get(key)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ModelError(f"{self.config_file}: {key} is {value!r:.40}, not a positive whole number")
        return value

    def number(self, key: str, default: float) -> float:
        """Return a positive number of the config."""
        value = self.config.get(key)
        if value is None:
            return default
        try:
            check_numbers(**{key: value})
        except ValueError as error:
            raise ModelError(f"{self.config_file}: {key} is {value!r:.40}, not a positive number") from error
        return float(value)

    def has(self, name: str) -> bool:
        """Return whether there is a tensor that was not taken yet."""
        return name in self._tensors

    def names(self) -> list[str]:
        """Return the names of all tensors that were not taken yet."""
        return list(self._tensors)

    def rows(self, name: str) -> int:
        """Return the number of rows of a tensor that stays."""
        tensor = self._tensors.get(name)
        if tensor is None or not tensor.ndim:
            raise self._missing(name)
        return tensor.shape[0]

    def take(self, name: str, *shape: int) -> torch.Tensor:
        """Return a tensor of floating-point numbers.

        Raises:
            ModelError: There is no such tensor, or it has another shape, or numbers that are not finite.
        """
        tensor = self.take_any(name, *shape)
        if tensor.dtype not in FLOATS:
            raise ModelError(
                f"{self.file}: the tensor {self._names[name]} has numbers of type {tensor.dtype}"
            )
        if not torch.isfinite(tensor).all():
            raise ModelError(
                f"{self.file}: the tensor {self._names[name]} contains numbers that are not finite"
            )
        return tensor

    def take_any(self, name: str, *shape: int) -> torch.Tensor:
        """Return a tensor of any type.

        Raises:
            ModelError: There is no such tensor, or it has another shape.
        """
        tensor = self._tensors.pop(name, None)
        if tensor is None:
            raise self._missing(name)
        if tuple(tensor.shape) != shape:
            raise ModelError(
                f"{self.file}: the tensor {self._names[name]} has the shape {tuple(tensor.shape)}; for this model "
                f"it must be {shape}",
                hint=self.hint(),
            )
        return tensor

    def _missing(self, name: str) -> ModelError:
        some = ", ".join(sorted(self._names.values())[:4])
        return ModelError(
            f"{self.file} has no tensor {name}", hint=f"It has {some}, ..." if some else "It has no tensors."
        )

    def finish(self, known: tuple[str, ...]) -> None:
        """Check that all tensors were taken, except for those whose names contain one of the texts `known`."""
        rest = [name for name in self._tensors if not any(part in name for part in known)]
        if rest:
            raise ModelError(
                f"{self.file}: the tensor {self._names[rest[0]]} of shape {tuple(self._tensors[rest[0]].shape)} is of "
                "no known use; the drafter has an architecture that cannot be read"
            )


def _weight_file(path: Path) -> Path:
    if not path.is_dir():
        return path
    for name in WEIGHT_FILES:
        if (path / name).exists():
            return path / name
    raise ModelError(f"{path} has no weights of a drafter", hint=f"Looked for {', '.join(WEIGHT_FILES)}.")


def _config(file: Path) -> dict[str, Any]:
    try:
        config = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{file} is not a complete JSON file: {error}") from error
    if not isinstance(config, dict):
        raise ModelError(f"{file} contains {a_kind(config)}, not an object")
    return config


def _verifier(config: dict[str, Any]) -> dict[str, Any]:
    about = config.get("speculators_config")
    verifier = about.get("verifier") if isinstance(about, dict) else None
    return verifier if isinstance(verifier, dict) else {}


def _tensors(file: Path) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        file.open("rb").close()
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error}") from error
    try:
        if file.suffix not in _TORCH_FILES:
            return load_file(file)
        found = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelError(
            f"{file} contains other things than tensors, or is not complete: {reason:.200}",
            hint="Such files can run code, so only tensors are read. Convert the file to safetensors.",
        ) from error
    except (
        SafetensorError,
        RuntimeError,
        OSError,
        EOFError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        AssertionError,
    ) as error:
        # subtle: what torch raises for a damaged file depends on where it is damaged.
        reason = str(error).partition("\n")[0] or "it ends too early"
        raise ModelError(f"{file} is not a complete file of tensors: {reason:.200}") from error
    if not isinstance(found, dict):
        raise ModelError(f"{file} contains {a_kind(found)}, not tensors by name")
    for name, tensor in found.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise ModelError(f"{file}: the entry {name!r:.60} is {a_kind(tensor)}, not a tensor")
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
            raise ModelError(f"{file}: the tensor {name:.60} is sparse or quantized, or has no numbers")
    return found
