"""Readers of tokenizers, one module per kind; the kinds do not know one another. `read_tokenizer` selects the reader.

Optional packages such as `tokenizers` and `sentencepiece` are imported when a file needs them.
"""

from __future__ import annotations

import os
from pathlib import Path

from structgen.errors import VocabularyError

from .gguf import read_file
from .hugging_face import read_backend, read_byte_decoder, read_folder, read_wrapper
from .mistral import find_mistral, read_mistral, read_tekken_file
from .sentencepiece import read_model_file, read_processor, read_slow_tokenizer
from .table import TokenTable
from .tiktoken import find_encoding, read_encoding, read_tiktoken_wrapper

__all__ = ["TokenTable", "read_tokenizer"]


def read_tokenizer(tokenizer: object) -> TokenTable:
    """Return the tokens of a tokenizer.

    Args:
        tokenizer: A tokenizer of `transformers`, `tokenizers`, `tiktoken`, `sentencepiece` or `mistral-common`, or a
            path: of a folder or a ``tokenizer.json``, a ``tekken.json``, a SentencePiece ``.model`` or a ``.gguf``
            file. Objects are recognised by their methods.

    Raises:
        VocabularyError: The kind is unknown, or the bytes of its tokens cannot be determined exactly.
    """
    if isinstance(tokenizer, str | os.PathLike):
        return _read_path(Path(tokenizer))
    library = type(tokenizer).__module__.partition(".")[0]
    if hasattr(tokenizer, "backend_tokenizer"):
        return read_wrapper(tokenizer)
    if library == "tokenizers":
        return read_backend(tokenizer)
    if library == "tiktoken":
        return read_encoding(tokenizer)
    if library == "sentencepiece":
        return read_processor(tokenizer)
    if (mistral := find_mistral(tokenizer)) is not None:
        return read_mistral(mistral)
    if (encoding := find_encoding(tokenizer)) is not None:
        return read_tiktoken_wrapper(tokenizer, encoding)
    if hasattr(tokenizer, "sp_model"):
        return read_slow_tokenizer(tokenizer)
    if hasattr(tokenizer, "byte_decoder"):
        return read_byte_decoder(tokenizer)
    raise VocabularyError(
        f"{type(tokenizer).__module__}.{type(tokenizer).__name__} is not a tokenizer that structgen can read",
        hint="Pass a tokenizer of transformers, tokenizers, tiktoken, sentencepiece or mistral-common, the path of a "
        "tokenizer.json, tekken.json, .model or .gguf file, or call Vocabulary.from_tokens with the bytes of each "
        "token.",
    )


def _read_path(path: Path) -> TokenTable:
    if not path.exists():
        raise VocabularyError(f"there is no file {str(path)!r}", hint="Pass a path, or a loaded tokenizer.")
    if path.suffix == ".gguf":
        return read_file(path)
    if path.suffix == ".model":
        return read_model_file(path)
    if path.name.startswith("tekken") and path.suffix == ".json":
        return read_tekken_file(path)
    return read_folder(path)
