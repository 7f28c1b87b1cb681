"""What a `transformers` model keeps between forward passes, and which inputs it takes: this decides how it is read.

Why: most models take a `Cache` and return it. Some name it differently (Mamba); some keep only states of their own or
none at all (RWKV, RecurrentGemma, GPT-1). These read the whole text again for each token, and their users are warned.
Invariant: a model that may let a position see later tokens is tested, and refused if it does: its logits inside a text
would differ from those of its own decode steps.
Cost: a look at the signature, once per model; if that is not enough, a few passes over a few tokens.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from transformers import DynamicCache

from structgen.errors import ModelError, ModelWarning

from .mixers import mixers_of, reading_runs

__all__ = [
    "Memory",
    "NoCache",
    "forgets",
    "kinds_of_layers",
    "memory_of",
    "parameters_of",
    "positions",
    "reads_embeddings",
    "reads_trees",
]

# Models are tested with this many tokens, and this many after them.
_FIRST, _LATER = 4, 4
# As a fraction of the largest logit.
_TOLERANCE = 1e-4
_LENGTH_DEPENDENT_ROPE = ("longrope", "dynamic")
# The argument for a cache of keys and values; before transformers 5.24 it had the second name.
_CACHE_ARGUMENTS = ("cache", "past_key_values")
_CROPPED = {"DynamicLayer", "DynamicSlidingWindowLayer"}


class NoCache(Exception):
    """A forward pass has returned no cache for the next one."""


@dataclass(frozen=True)
class Memory:
    """What is known of a model's memory."""

    argument: str | None
    """The name of its `Cache` argument and result; None if it has no usable cache."""
    has_slots: bool
    """Whether it takes positions and masks from its caller and keeps nothing but keys and values."""
    reads_runs: bool
    """Whether it continues from its cache with several tokens in one pass."""
    wants_positions: bool
    """Whether it needs positions that it could count itself: Bamba counts those of a pass from 0."""
    is_recurrent: bool = False
    """Whether some of its layers keep a state, which cannot be cropped."""
    mixes_tokens: bool = False
    """Whether some layers must read the tokens of a run one by one (`mixers.reading_runs`)."""
    same_up_to: int | None = None
    """The length up to which all passes rotate keys in the same way; a longer pass rotates all of them differently."""


_KNOWN: WeakKeyDictionary[Any, Memory] = WeakKeyDictionary()


def memory_of(model: Any, size: int) -> Memory:
    """Return what the model keeps, as far as it shows before its first pass with a cache."""
    if model not in _KNOWN:
        argument = _argument(model)
        if argument is None:
            forgets(model, size)
        else:
            if getattr(model.config, "is_decoder", True) is False:
                _check_causal(model, size)  # BERT and similar models attend in both directions by default
            kinds = kinds_of_layers(model)
            is_recurrent = not kinds <= _CROPPED
            wants_positions = is_recurrent and "position_ids" in parameters_of(model)
            mixers: list[Any] = []
            reads_runs = not is_recurrent or _reads_runs(model, size, argument, wants_positions, mixers)
            if not reads_runs and (mixers := mixers_of(model)):
                reads_runs = _reads_runs(model, size, argument, wants_positions, mixers)
            turns = _same_up_to(model.config)
            has_slots = turns is None and _has_slots(
                model, kinds
            )  # else all rows would rotate like the longest
            _KNOWN[model] = Memory(
                argument, has_slots, reads_runs, wants_positions, is_recurrent, bool(mixers), turns
            )
    return _KNOWN[model]


def forgets(model: object, size: int) -> None:
    """Note that the model has no usable cache, and warn; raise `ModelError` if it cannot be read again either."""
    _check_causal(model, size)
    _KNOWN[model] = Memory(None, has_slots=False, reads_runs=False, wants_positions=False)
    warnings.warn(
        f"{type(model).__name__} keeps no cache of transformers that a pass could continue from, so each token reads "
        "the whole text again: the output is correct, and slow for long texts",
        ModelWarning,
        stacklevel=2,
    )


def parameters_of(model: Any) -> set[str]:
    """Return the names of the arguments of its forward pass."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    return set(inspect.signature(inner.forward).parameters)


def kinds_of_layers(model: Any) -> set[str]:
    """Return the types of layers of the cache of such a model."""
    return {type(layer).__name__ for layer in DynamicCache(config=model.config).layers}


def reads_trees(model: Any) -> bool:
    """Return whether attention can hide a node from other branches.

    Kernels with causal masks only cannot, nor can models that count distances in the mask.
    """
    kernel = getattr(model.config, "_attn_implementation", None)
    return kernel in ("sdpa", "eager") and not getattr(model.config, "alibi", False)


def reads_embeddings(model: Any) -> bool:
    """Return whether embeddings may take the place of token ids."""
    return "inputs_embeds" in parameters_of(model) and model.get_input_embeddings() is not None


def _argument(model: Any) -> str | None:
    parameters = parameters_of(model)
    attended = next((name for name in _CACHE_ARGUMENTS if name in parameters), None)
    if attended and kinds_of_layers(model) <= _CROPPED:
        return attended
    options = {"use_cache": True} if "use_cache" in parameters else {}
    with torch.inference_mode():
        output = model(input_ids=torch.zeros((1, 1), dtype=torch.long, device=model.device), **options)
    names = sorted((*_CACHE_ARGUMENTS, "cache_params"), key=lambda name: name not in parameters)
    # subtle: MiniMax has a cache type of its own, and takes no other.
    return next((name for name in names if type(getattr(output, name, None)) is DynamicCache), None)


def _has_slots(model: Any, kinds: set[str]) -> bool:
    if not {"position_ids", "attention_mask"} <= parameters_of(model) or kinds != {"DynamicLayer"}:
        return False
    if "local" in getattr(model.config, "attention_layers", ()):
        return False  # GPT-Neo counts its windows in slots of the cache
    if getattr(model.config, "model_type", None) == "git":
        return False  # its masks have slots for a picture, even without one
    # RoBERTa and similar models count positions from the one after the padding's.
    learned = (getattr(module, "position_embeddings", None) for module in model.modules())
    return all(getattr(table, "padding_idx", None) is None for table in learned)


def _same_up_to(config: Any) -> int | None:
    """Return the length up to which rotary frequencies do not depend on the text's length; None if they never do."""
    rotary = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    found = []
    for parameters in (rotary, *rotary.values()):  # some models have parameters for each type of layer
        if (
            not isinstance(parameters, dict)
            or parameters.get("rope_type", parameters.get("type")) not in _LENGTH_DEPENDENT_ROPE
        ):
            continue
        lengths = (parameters, config.to_dict())
        names = ("original_max_position_embeddings", "max_position_embeddings")
        length = next((of[name] for name in names for of in lengths if of.get(name)), None)
        found.append(1 if length is None else int(length))
    return min(found, default=None)


def _reads_runs(model: Any, size: int, argument: str, wants_positions: bool, mixers: Sequence[Any]) -> bool:
    """Return whether a run of tokens gives the same logits as one token at a time. Mamba's scan forgets its state."""
    ids = torch.tensor([_some_tokens(size, 0)], device=model.device)
    whole, run, single = (
        _read_in_parts(model, ids, argument, lengths, wants_positions, mixers)
        for lengths in ([_FIRST + _LATER], [_FIRST, _LATER], [_FIRST, *[1] * _LATER])
    )
    rounding = float((single - whole).abs().max())
    return float((run - whole).abs().max()) <= 4 * rounding + _TOLERANCE * float(whole.abs().max())


def _read_in_parts(
    model: Any,
    ids: torch.Tensor,
    argument: str,
    lengths: list[int],
    wants_positions: bool,
    mixers: Sequence[Any] = (),
) -> torch.Tensor:
    options: dict[str, Any] = {argument: DynamicCache(config=model.config), "use_cache": True}
    logits, start = [], 0
    for part in torch.split(ids, lengths, dim=1):
        if wants_positions:
            options["position_ids"] = positions(start, part.shape[1]).to(ids.device)
        with torch.inference_mode(), reading_runs(mixers if start else ()):
            logits.append(model(input_ids=part, **options).logits[0].float())
        start += part.shape[1]
    return torch.cat(logits)


def positions(start: int, count: int) -> torch.Tensor:
    """Return the positions of `count` tokens of one row after `start` others."""
    return torch.arange(start, start + count)[None]


def _some_tokens(size: int, which: int) -> list[int]:
    """Return tokens for testing a model: the first ones are the same for each `which`, the later ones differ."""
    later = [(2 + which + 7 * index) % size for index in range(_LATER)]
    return [*((3 + 5 * index) % size for index in range(_FIRST)), *later]


def _check_causal(model: Any, size: int) -> None:
    """Refuse a model in which tokens change the logits before them."""
    ids = [_some_tokens(size, 0), _some_tokens(size, 1)]
    options = {"use_cache": False} if "use_cache" in parameters_of(model) else {}
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor(ids, device=model.device), **options).logits.float()
    one, other = logits[:, :_FIRST]
    if float((one - other).abs().max()) > _TOLERANCE * float(logits.abs().max()):
        is_switched_off = getattr(model.config, "is_decoder", True) is False
        raise ModelError(
            f"{type(model).__name__} is not causal: its logits at a position depend on later tokens, so it cannot "
            "generate text from left to right",
            hint="Load it with is_decoder=True in its configuration."
            if is_switched_off
            else "Load a causal language model, which attends to earlier tokens only.",
        )
