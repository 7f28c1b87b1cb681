"""`load` and `wrap`: from a name, a path or loaded objects to a language model.

torch and transformers are imported here, when one of these functions runs. Without a name, nothing is fetched from a
network. With a name, `transformers` decides, and ``HF_HUB_OFFLINE`` is obeyed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structgen.argument_names import checks_names
from structgen.errors import ModelError, OptionError, StructgenError, a_kind, did_you_mean
from structgen.extras import needed
from structgen.vocabulary import Vocabulary

from .checking import check_chat_options, check_device, check_folder, is_gguf, loading_failed
from .embedded import cache_directory, embedded_directory, embedded_gguf

if TYPE_CHECKING:
    from .hugging_face import HuggingFaceModel

__all__ = ["cache_directory", "load", "load_vocabulary", "looks_local", "wrap"]

_DTYPES = ("float32", "bfloat16", "float16")
_SHORT_DTYPES = {
    "fp32": "float32",
    "float": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
}


@checks_names
def load(
    name: str | os.PathLike[str] | None = None,
    *,
    dtype: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    chat: bool | None = None,
    system: str | None = None,
    template: Mapping[str, Any] | None = None,
    pack: bool = True,
) -> HuggingFaceModel:
    """Load a model; without a name the embedded SmolLM2-135M-Instruct, without a network.

    Args:
        name: A folder with a `transformers` model and its tokenizer, a ``.gguf`` file, or a name on the Hugging Face
            hub. GGUF weights are read into `dtype`, so they take as much memory as those of a folder.
        dtype: "float32", "bfloat16" or "float16" (default: float32 on a CPU, bfloat16 on a GPU).
        device: As torch spells it: "cpu", "cuda", "cuda:1" (default: a GPU if there is one).
        threads: CPU threads of torch, for the whole process (default: torch's own, one for each core, unless
            ``OMP_NUM_THREADS`` is set). Where several processes share a few cores, 1 is often fastest.
        chat: A string prompt is a user's message in the chat template (default: if there is one; False gives the
            model the bare text).
        system: A system message for prompts without one.
        template: Variables for the chat template.
        pack: On a CPU the weights of linear layers are laid out for decoding, which is about twice as fast; False
            leaves them as they are, to train the model or to move it (see `models.packed`).

    Raises:
        ModelError: There is no such model, or it cannot be loaded; the message says what is missing.
        OptionError: An option has a wrong value.
    """
    _check_options(name, dtype, threads, pack)
    check_chat_options(chat, system, template)
    torch, transformers = _libraries()
    check_device(torch, device)
    if threads is not None:
        torch.set_num_threads(threads)
    target = str(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    kind = getattr(torch, dtype or ("bfloat16" if target.startswith("cuda") else "float32"))
    path = embedded_directory() if name is None else name
    model, tokenizer, ends = _load_pretrained(transformers, path, kind, target)
    if pack and target.startswith("cpu"):
        from .packed import pack_linear, unmap

        pack_linear(model, fresh=True)
        unmap(model)
    return wrap(model, tokenizer, chat=chat, system=system, eos_ids=ends, template=template)


def _load_pretrained(
    transformers: Any, path: str | os.PathLike[str], dtype: Any, device: str
) -> tuple[Any, Any, tuple[int, ...] | None]:
    """Return a model on `device`, its tokenizer, and the ends of text that a GGUF file names."""
    is_local = _is_there(path)
    source: dict[str, Any] = {"local_files_only": is_local}
    folder: Any = path
    ends: tuple[int, ...] | None = None
    if is_local and is_gguf(path) and not Path(path).is_dir():
        folder, source["gguf_file"] = Path(path).parent, Path(path).name
        ends = _ends_of_gguf(path)
    elif is_local:
        check_folder(Path(path))
    try:
        with _progress_bars(transformers, shown=not is_local):
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **source)
            model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **source)
            return model.to(device), tokenizer, ends
    except StructgenError:
        raise
    except Exception as error:  # the libraries raise many kinds, assertions and their own among them
        raise loading_failed(path, error, is_local=is_local) from error


def _check_options(name: object, dtype: object, threads: object, pack: object) -> None:
    if name is not None and not isinstance(name, (str, os.PathLike)):
        raise OptionError(
            f"the name of a model is {a_kind(name)}",
            hint="Give a path or a name. For a model that is loaded already: structgen.wrap(model, tokenizer).",
        )
    if name is not None and not os.fspath(name):
        raise OptionError(
            "the name of the model is empty", hint="load() without a name takes the embedded model."
        )
    if not isinstance(pack, bool):
        raise OptionError(f"pack is {pack!r}; it must be True or False")
    if dtype is not None and dtype not in _DTYPES:
        spelled = str(dtype).removeprefix("torch.")
        spelled = _SHORT_DTYPES.get(spelled, spelled)
        suggestion = f"Did you mean {spelled!r}? " if spelled in _DTYPES else ""
        raise OptionError(f"dtype is {dtype!r}", hint=f"{suggestion}Choose one of {', '.join(_DTYPES)}.")
    if threads is not None and (isinstance(threads, bool) or not (isinstance(threads, int) and threads > 0)):
        raise OptionError(f"threads is {threads!r}; it must be a whole number of 1 or more")


def _ends_of_gguf(path: str | os.PathLike[str]) -> tuple[int, ...] | None:
    """Return the ends of text and of turns that the file names.

    Raises if it has no tokenizer that can be read: that shows in a moment, while reading the weights takes long.
    """
    try:
        return tuple(load_vocabulary(path).eos_ids) or None
    except StructgenError as error:
        error.hint = (
            error.hint or "Download the file again; it must hold a language model with its tokenizer."
        )
        raise


def _is_there(path: str | os.PathLike[str]) -> bool:
    """Return whether there is such a path; raise if the name can only be a path and does not exist."""
    try:
        if Path(path).exists():
            return True
    except (OSError, ValueError):  # the name is too long, or has characters that paths cannot have
        pass
    if "://" in os.fspath(path):
        raise ModelError(
            f"{os.fspath(path)!r} is an address, not a folder or the name of a model",
            hint="For a model on a server write structgen.connect(url). For a model's page, pass only owner/name.",
        )
    if looks_local(path) or is_gguf(path):
        what = "file" if is_gguf(path) else "folder"
        raise ModelError(
            f"there is no {what} {os.fspath(path)!r}",
            hint=_similar_path(Path(path))
            or "Give the path of a folder with a transformers model or of a .gguf file, or "
            "the name of a model on the Hugging Face hub.",
        )
    return False


def _similar_path(path: Path) -> str | None:
    if os.fspath(path).startswith("~"):
        return f"`~` is not expanded: write {str(path.expanduser())!r}."
    try:
        names = [neighbour.name for neighbour in path.parent.iterdir()]
    except OSError:
        return None
    suggestion = did_you_mean(path.name, names)
    return f"{suggestion} It is in {str(path.parent)!r}." if suggestion else None


@checks_names
def wrap(
    model: object,
    tokenizer: object,
    *,
    chat: bool | None = None,
    system: str | None = None,
    eos_ids: Iterable[int] | None = None,
    template: Mapping[str, Any] | None = None,
    size: int | None = None,
) -> HuggingFaceModel:
    """Make a structgen model from a loaded `transformers` causal language model and its tokenizer.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        eos_ids: The end-of-sequence tokens; by default those that the model and the tokenizer declare.
        size: The number of logits, to confirm that a model pads them by more than 8,192.
        chat: As in `load`.
        system: As in `load`.
        template: As in `load`.

    Raises:
        ModelError: The model is not a causal language model.
        VocabularyMismatch: The model and the tokenizer do not fit together.
    """
    from .hugging_face import HuggingFaceModel

    check_chat_options(chat, system, template)
    return HuggingFaceModel(
        model, tokenizer, chat=chat, system=system, eos_ids=eos_ids, template=template, size=size
    )


@checks_names
def load_vocabulary(name: str | os.PathLike[str] | None = None) -> Vocabulary:
    """Return the vocabulary of a tokenizer file or a model's folder; without a name, the embedded model's.

    No model is loaded, so its padding is not known. The embedded model's vocabulary has no encoder.
    """
    return Vocabulary.from_tokenizer(embedded_gguf()[0] if name is None else name)


def looks_local(name: str | os.PathLike[str]) -> bool:
    """Return whether `name` can only be a path: names of models are ``name`` or ``owner/name``."""
    text = os.fspath(name)
    return not isinstance(name, str) or text.startswith((".", "~", os.sep)) or text.count("/") > 1


def _libraries() -> tuple[Any, Any]:
    with needed("loading a model", extra="demo"):
        import torch
        import transformers
    return torch, transformers


@contextmanager
def _progress_bars(transformers: Any, *, shown: bool) -> Iterator[None]:
    """Hide the progress bars of `transformers` inside the block, unless `shown`: for the whole process."""
    switch = transformers.utils.logging
    if shown or not switch.is_progress_bar_enabled():
        yield
        return
    switch.disable_progress_bar()
    try:
        yield
    finally:
        switch.enable_progress_bar()
