"""What is wrong with a name, a path or a device that no model can be loaded from, in one sentence, and what to do.

Why: `transformers` reports a folder without a tokenizer as a connection problem, and a GGUF file as invalid JSON. So a
path is looked at before it is loaded, and what loading raises is put into words.
Invariant: any failure is a `ModelError` or an `OptionError` that names the path. A folder that can be loaded is
never refused: only what is certainly missing is.
Cost: a listing of one folder, and its `config.json`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from structgen.errors import ModelError, OptionError, did_you_mean, with_kind

__all__ = ["check_chat_options", "check_device", "check_folder", "is_gguf", "loading_failed"]

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".msgpack", ".h5")
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_TOKENIZERS = frozenset(
    ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "vocab.txt", "merges.txt")
    + ("spiece.model", "sentencepiece.bpe.model", "tekken.json", "tiktoken.model", "source.spm")
)
_LFS_POINTER = b"version https://git-lfs"
_SAVE_HINT = "Save one there: model.save_pretrained(folder) and tokenizer.save_pretrained(folder)."
_ADAPTER = "adapter_config.json"


def is_gguf(path: str | os.PathLike[str]) -> bool:
    """Return whether this names a GGUF file."""
    return os.fspath(path).lower().endswith(".gguf")


def check_chat_options(chat: object, system: object, template: object) -> None:
    """Raise where an option about the chat template has a wrong type."""
    if chat is not None and not isinstance(chat, bool):
        raise OptionError(f"chat is {chat!r:.40}; it must be True, False or None")
    if system is not None and not isinstance(system, str):
        raise OptionError(f"system is {with_kind(system)}; it is a text, the system message")
    if template is not None and not isinstance(template, Mapping):
        raise OptionError(
            f"template is {with_kind(template)}; it is a dict of variables for the chat template",
            hint='Such as {"enable_thinking": False}.',
        )


def check_device(torch: Any, device: Any) -> None:
    """Raise where torch has no such device."""
    if device is None:
        return
    known = ("cpu", "cuda", "mps", "xpu")
    choose = 'Leave device= out for a GPU if there is one and the CPU otherwise, or write "cpu", "cuda" or "cuda:1".'
    if device == "auto":
        raise OptionError('device is "auto"; a model is put on one device here', hint=choose)
    try:
        kind, index = torch.device(device).type, torch.device(device).index
    except (RuntimeError, TypeError, ValueError):
        suggestion = did_you_mean(device, known, {"gpu": "cuda", "nvidia": "cuda", "metal": "mps"})
        raise OptionError(
            f"device is {with_kind(device)}, which is no device of torch",
            hint=f"{suggestion or ''} {choose}".strip(),
        ) from None
    if kind == "cpu" or kind == "meta":
        return
    backend = getattr(torch, kind, None) if kind != "mps" else torch.backends.mps
    available = getattr(backend, "is_available", None)
    if available is not None and not available():
        why = (
            f"this torch ({torch.__version__}) is built without CUDA"
            if kind == "cuda" and torch.version.cuda is None
            else f"torch finds no {kind.upper()} device on this machine"
        )
        raise ModelError(
            f"device is {device!r}, but {why}",
            hint='Write device="cpu" or leave it out. For a GPU, install its driver and a torch that is built for it: '
            "https://pytorch.org/get-started.",
        )
    count = getattr(backend, "device_count", None)
    if index is not None and count is not None and index >= count():
        raise ModelError(
            f"device is {device!r}, but this machine has {count()} such devices",
            hint="They are counted from 0.",
        )


def check_folder(path: Path) -> None:
    """Raise where a path that is there holds no model."""
    if not path.is_dir():
        raise ModelError(
            f"{str(path)!r} is a file, not a folder with a model",
            hint="Give the folder that it lies in."
            if path.suffix in _WEIGHTS
            else "Give a folder, or a .gguf file.",
        )
    try:
        names = {entry.name for entry in path.iterdir()}
    except OSError as error:
        raise ModelError(f"the folder {str(path)!r} cannot be read: {error.strerror}") from error
    if "config.json" not in names:
        raise _no_model(path, names)
    _check_config(path)
    _check_weights(path, names)
    if not names & _TOKENIZERS:
        raise ModelError(
            f"the folder {str(path)!r} contains no tokenizer (tokenizer.json, tokenizer.model, …)",
            hint="Save it with the model: tokenizer.save_pretrained(folder). Or load both yourself and write "
            "structgen.wrap(model, tokenizer).",
        )


def _no_model(path: Path, names: set[str]) -> ModelError:
    shown = f"the folder {str(path)!r}"
    if _ADAPTER in names:
        base = _read_json(path / _ADAPTER).get("base_model_name_or_path")
        of = f" of {base!r}" if isinstance(base, str) else ""
        return ModelError(
            f"{shown} contains an adapter{of}, not a whole model",
            hint="Load it with peft and wrap it: structgen.wrap(PeftModel.from_pretrained(base, folder), tokenizer). "
            "Merged into its base (merge_and_unload, save_pretrained) it is a folder that structgen.load takes.",
        )
    ggufs = sorted(name for name in names if is_gguf(name))
    if ggufs:
        return ModelError(
            f"{shown} contains GGUF files and no config.json",
            hint=f"Give the file: {str(path / ggufs[0])!r}.",
        )
    inner = sorted(name for name in names if (path / name / "config.json").is_file())
    if inner:
        return ModelError(f"{shown} contains no model", hint=f"Did you mean {str(path / inner[-1])!r}?")
    if not names:
        return ModelError(f"{shown} is empty", hint=_SAVE_HINT)
    return ModelError(f"{shown} contains no model: there is no config.json", hint=_SAVE_HINT)


def _check_config(path: Path) -> None:
    try:
        config = json.loads((path / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"config.json in {str(path)!r} cannot be read: {_first_line(error)}",
            hint="Save or download the model again.",
        ) from error
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise ModelError(
            f"config.json in {str(path)!r} does not say which kind of model it is (model_type)",
            hint="It is not the configuration of a transformers model. " + _SAVE_HINT,
        )


def _check_weights(path: Path, names: set[str]) -> None:
    weights = sorted(name for name in names if name.endswith(_WEIGHTS) and name != "training_args.bin")
    for index in names.intersection(_INDEXES):
        mapped = _read_json(path / index).get("weight_map")
        wanted = set(mapped.values()) if isinstance(mapped, dict) else set()
        missing = sorted(name for name in wanted if isinstance(name, str) and name not in names)
        if missing:
            raise ModelError(
                f"the folder {str(path)!r} lacks {len(missing)} of {len(wanted)} files of weights, {missing[0]} first",
                hint="The download or copy is not complete; start it again.",
            )
    if not weights:
        raise ModelError(
            f"the folder {str(path)!r} contains no weights (model.safetensors, …)",
            hint="Copy them there, or save the model again: model.save_pretrained(folder).",
        )
    with (path / weights[0]).open("rb") as file:
        if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
            raise ModelError(
                f"{weights[0]} in {str(path)!r} is a pointer of git-lfs, not the weights",
                hint="Run `git lfs pull` in the folder.",
            )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def loading_failed(name: str | os.PathLike[str], error: Exception, *, is_local: bool) -> ModelError:
    """Return the error of a model that could not be loaded: what `error` means, and what to do about it."""
    shown = f"the model {os.fspath(name)!r}"
    causes = list(_causes(error))
    kinds = {type(cause).__name__ for cause in causes}
    text = " ".join(str(cause) for cause in causes)
    for signs, message, hint in _MEANINGS:
        if any(sign in kinds or sign in text for sign in signs):
            return ModelError(f"{shown} {message}", hint=hint)
    if isinstance(error, ImportError):
        return ModelError(
            f"{shown} needs a package that is not installed: {_first_line(error)}",
            hint="Install it with pip.",
        )
    if not is_local and kinds & _OF_NETWORK | {sign for sign in _NO_NETWORK if sign in text}:
        return ModelError(
            f"{shown} is not on this machine, and it cannot be downloaded",
            hint=_folder_beside(name)
            or "Check the name and the network (HF_HUB_OFFLINE must not be set). Or copy the model to a folder and "
            "give its path; load() without a name takes the embedded model.",
        )
    return ModelError(
        f"cannot load {shown}: {_first_line(error)}",
        hint="Give a folder with a transformers model, a .gguf file, or a name on the Hugging Face hub; "
        "load() without a name takes the embedded model.",
    )


def _folder_beside(name: str | os.PathLike[str]) -> str | None:
    """Return a hint at a model's folder with a similar name, in the folder where `name` would be."""
    path = Path(name)
    try:
        folders = [
            neighbour.name for neighbour in path.parent.iterdir() if (neighbour / "config.json").is_file()
        ]
    except OSError:
        return None
    return did_you_mean(path.name, folders)


_OF_NETWORK = {
    "LocalEntryNotFoundError",
    "OfflineModeIsEnabled",
    "ConnectionError",
    "ConnectError",
    "ConnectTimeout",
}
_NO_NETWORK = ("couldn't connect to", "offline mode", "Connection error", "outgoing traffic", "cached files")
_MEANINGS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("OutOfMemoryError", "not enough memory", "can't allocate memory", "MemoryError"),
        "does not fit into memory",
        'Load it in a smaller form (dtype="bfloat16"), on another device, or take a smaller model.',
    ),
    (
        ("trust_remote_code", "execute the configuration file", "execute the tokenizer"),
        "comes with code of its own, which structgen.load does not run",
        "If you trust it, load it with transformers and trust_remote_code=True, and write "
        "structgen.wrap(model, tokenizer).",
    ),
    (
        ("GatedRepoError", "gated repo", "Access to model"),
        "may be downloaded only by people who accepted its licence",
        "Accept it on the model's page, and log in with `hf auth login`.",
    ),
    (
        ("RepositoryNotFoundError", "is not a valid model identifier", "HFValidationError", "Repo id must"),
        "is neither a folder here nor a model on the Hugging Face hub",
        "Check the spelling; a folder is given by its path, such as './my-model'.",
    ),
    (
        ("Unrecognized configuration class", "for this kind of AutoModel"),
        "is not a causal language model, so it writes no text token by token",
        "Take a model that AutoModelForCausalLM loads.",
    ),
    (
        ("does not recognize this architecture", "Unrecognized model in", "GGUF model with architecture"),
        "is of a kind that the installed transformers does not know",
        "Install a newer one: pip install -U transformers.",
    ),
    (
        ("SafetensorError", "UnpicklingError", "invalid load key", "PytorchStreamReader", "HeaderTooLarge"),
        "has files of weights that are damaged",
        "Download or save the model again.",
    ),
    (
        ("size mismatch", "mismatched sizes", "ignore_mismatched_sizes"),
        "has weights of other shapes than its config.json says",
        "The folder mixes files of two models; download or save it again.",
    ),
    (
        ("sentencepiece", "tiktoken", "protobuf"),
        "has a tokenizer that needs another package",
        "Install it with: pip install sentencepiece tiktoken protobuf",
    ),
)
"""Names of exceptions or pieces of messages of transformers, torch and the hub; what they mean; what to do."""


def _causes(error: BaseException) -> list[BaseException]:
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    return causes


def _first_line(error: Exception) -> str:
    line = (str(error).strip().splitlines() or [""])[0]
    return (
        line if " " in line else f"{type(error).__name__}: {line}".rstrip(": ")
    )  # such as KeyError: 'added_tokens'
