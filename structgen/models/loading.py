"""`load` and `wrap`: from a name, a path or ready objects to a language model.

torch and transformers are imported here, when one of these functions runs. Without a name nothing is ever
fetched from a network; with one, `transformers` decides, and ``HF_HUB_OFFLINE`` is obeyed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structgen.errors import ModelError, OptionError
from structgen.extras import needed
from structgen.vocabulary import Vocabulary

from .embedded import cache_directory, embedded_directory, embedded_gguf

if TYPE_CHECKING:
    from .hugging_face import HuggingFaceModel

__all__ = ["cache_directory", "load", "load_vocabulary", "looks_local", "wrap"]

_DTYPES = ("float32", "bfloat16", "float16")


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
    """A model by name or path; without a name the embedded SmolLM2-135M-Instruct, offline.

    `dtype`: "float32", "bfloat16" or "float16" (default: float32 on a CPU, bfloat16 on a GPU). `device`: as
    torch spells it (default: a GPU if there is one). `threads`: CPU threads of torch, for the whole process.
    `chat`: a string prompt is a user's message in the chat template (default: if there is one; False gives the
    model the bare text). `system`: a system message for prompts without one. `template`: variables for the
    chat template. `pack`: on a CPU the weights of linear layers are laid out for decoding, which is about twice as
    fast; False leaves them as they are, for whoever trains the model or moves it (see `models.packed`).
    """
    if not isinstance(pack, bool):
        raise OptionError(f"pack is {pack!r}; it must be True or False")
    if dtype is not None and dtype not in _DTYPES:
        raise OptionError(f"dtype is {dtype!r}", hint=f"Choose one of {', '.join(_DTYPES)}.")
    if threads is not None and not (isinstance(threads, int) and threads > 0):
        raise OptionError(f"threads is {threads!r}; it must be a whole number of 1 or more")
    torch, transformers = _libraries()
    if threads is not None:
        torch.set_num_threads(threads)
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    kind = getattr(torch, dtype or ("bfloat16" if place.startswith("cuda") else "float32"))
    path = embedded_directory() if name is None else name
    is_local = Path(path).exists()
    if not is_local and looks_local(path):
        raise ModelError(
            f"there is no folder {str(path)!r}",
            hint="Give the path of a folder with a transformers model, or the name of a model.",
        )
    try:
        with _progress_bars(transformers, shown=not is_local):
            tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=is_local)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                path, dtype=kind, local_files_only=is_local
            )
            model = model.to(place)
    except (
        OSError,
        ValueError,
        RuntimeError,
        AssertionError,
    ) as error:  # torch asserts that it knows the device
        raise ModelError(
            f"cannot load the model {str(path)!r}: {_first_line(error)}",
            hint="Give a directory with a transformers model, or a name that can be reached; "
            "load() without a name takes the embedded model.",
        ) from error
    if pack and place.startswith("cpu"):
        from .packed import pack_linear, unmap

        pack_linear(model, fresh=True)
        unmap(model)
    return wrap(model, tokenizer, chat=chat, system=system, template=template)


def wrap(
    model: Any,
    tokenizer: Any,
    *,
    chat: bool | None = None,
    system: str | None = None,
    eos_ids: Iterable[int] | None = None,
    template: Mapping[str, Any] | None = None,
) -> HuggingFaceModel:
    """A `transformers` causal language model and its tokenizer, already loaded, as a structgen model.

    `eos_ids` replaces the ends of text that the model and the tokenizer declare; for the rest see `load`.
    """
    from .hugging_face import HuggingFaceModel

    return HuggingFaceModel(model, tokenizer, chat=chat, system=system, eos_ids=eos_ids, template=template)


def load_vocabulary(name: str | os.PathLike[str] | None = None) -> Vocabulary:
    """The vocabulary of a tokenizer file or a model's directory; without a name the embedded model's.

    No model is loaded, so its padding is not known. The embedded one comes without an encoder.
    """
    return Vocabulary.from_tokenizer(embedded_gguf()[0] if name is None else name)


def looks_local(name: str | os.PathLike[str]) -> bool:
    """Whether nothing but a path can be meant: names of models are ``name`` or ``owner/name``."""
    text = os.fspath(name)
    return not isinstance(name, str) or text.startswith((".", "~", os.sep)) or text.count("/") > 1


def _libraries() -> tuple[Any, Any]:
    with needed("loading a model", extra="demo"):
        import torch
        import transformers
    return torch, transformers


@contextmanager
def _progress_bars(transformers: Any, *, shown: bool) -> Iterator[None]:
    """Without a bar where there is next to nothing to wait for. The switch is the whole process's."""
    switch = transformers.utils.logging
    if shown or not switch.is_progress_bar_enabled():
        yield
        return
    switch.disable_progress_bar()
    try:
        yield
    finally:
        switch.enable_progress_bar()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
