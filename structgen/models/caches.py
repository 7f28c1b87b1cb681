"""What a `transformers` model keeps between passes, and what it takes from its caller: what decides how it is read.

Why: most take a `Cache` and hand it back; some call it otherwise (Mamba), some keep what is theirs alone or nothing
(RWKV, RecurrentGemma, GPT-1). The latter are read anew with each token, and their users are told.
Invariant: a model that may let a position see what comes later is tried, and refused if it does: of a text that is
written from left to right it would give other laws than those of its own passes.
Cost: a look at the signature, once per model; where this does not settle it, a few passes over a few tokens.
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from transformers import DynamicCache

from structgen.errors import ModelError, ModelWarning

__all__ = [
    "Memory",
    "NoCache",
    "forgets",
    "kinds_of_layers",
    "memory_of",
    "parameters_of",
    "positions",
    "reads_trees",
]

# How models are tried: with so many tokens, and so many behind them.
_FIRST, _BEHIND = 4, 4
# Of the largest logit.
_TOLERANCE = 1e-4
_LONGER = ("longrope", "dynamic")
# What models call a cache of keys and values; before transformers 5.24 it had the second name.
_ATTENDED = ("cache", "past_key_values")
_CROPPED = {"DynamicLayer", "DynamicSlidingWindowLayer"}


class NoCache(Exception):
    """A pass has given no cache that the next one could go on from."""


@dataclass(frozen=True)
class Memory:
    """What is known of a model."""

    argument: str | None
    """The name under which it takes a `Cache` and gives it back; None where it keeps none of use."""
    has_slots: bool
    """Whether it reads positions and masks from its caller and keeps nothing but keys and values."""
    reads_runs: bool
    """Whether it goes on from its cache with several tokens in one pass."""
    wants_positions: bool
    """Whether it is told positions that it could count itself: Bamba counts those of a pass from 0."""
    same_up_to: int | None = None
    """Up to this position keys are turned in one way; where a pass goes beyond, all of it is turned otherwise."""


_KNOWN: WeakKeyDictionary[Any, Memory] = WeakKeyDictionary()


def memory_of(model: Any, size: int) -> Memory:
    """What the model keeps, as far as it can be seen before its first pass with a cache."""
    if model not in _KNOWN:
        argument = _argument(model)
        if argument is None:
            forgets(model, size)
        else:
            if getattr(model.config, "is_decoder", True) is False:
                _check_causal(model, size)  # BERT and its kind read both ways unless they are told
            kinds = kinds_of_layers(model)
            is_recurrent = not kinds <= _CROPPED
            wants_positions = is_recurrent and "position_ids" in parameters_of(model)
            reads_runs = not is_recurrent or _reads_runs(model, size, argument, wants_positions)
            turns = _same_up_to(model.config)
            has_slots = turns is None and _has_slots(model, kinds)  # else rows would turn as the longest does
            _KNOWN[model] = Memory(argument, has_slots, reads_runs, wants_positions, turns)
    return _KNOWN[model]


def forgets(model: Any, size: int) -> None:
    """The model keeps nothing of use: note and tell it, if it can be read anew with each token."""
    _check_causal(model, size)
    _KNOWN[model] = Memory(None, has_slots=False, reads_runs=False, wants_positions=False)
    warnings.warn(
        f"{type(model).__name__} keeps no cache of transformers that a pass could go on from, so each token reads the "
        "whole text anew: what is generated is right, and slow where texts are long",
        ModelWarning,
        stacklevel=2,
    )


def parameters_of(model: Any) -> set[str]:
    """What its forward pass takes by name."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    return set(inspect.signature(inner.forward).parameters)


def kinds_of_layers(model: Any) -> set[str]:
    """The kinds of layers that the cache of such a model has."""
    return {type(layer).__name__ for layer in DynamicCache(config=model.config).layers}


def reads_trees(model: Any) -> bool:
    """Whether a node can be hidden from other branches: kernels that know causal masks alone cannot, nor models that
    count distances in the mask."""
    kernel = getattr(model.config, "_attn_implementation", None)
    return kernel in ("sdpa", "eager") and not getattr(model.config, "alibi", False)


def _argument(model: Any) -> str | None:
    parameters = parameters_of(model)
    attended = next((name for name in _ATTENDED if name in parameters), None)
    if attended and kinds_of_layers(model) <= _CROPPED:
        return attended
    options = {"use_cache": True} if "use_cache" in parameters else {}
    with torch.inference_mode():
        output = model(input_ids=torch.zeros((1, 1), dtype=torch.long, device=model.device), **options)
    names = sorted((*_ATTENDED, "cache_params"), key=lambda name: name not in parameters)
    # subtle: MiniMax has a kind of its own, and takes no other.
    return next((name for name in names if type(getattr(output, name, None)) is DynamicCache), None)


def _has_slots(model: Any, kinds: set[str]) -> bool:
    if not {"position_ids", "attention_mask"} <= parameters_of(model) or kinds != {"DynamicLayer"}:
        return False
    if "local" in getattr(model.config, "attention_layers", ()):
        return False  # GPT-Neo counts its windows in slots
    if getattr(model.config, "model_type", None) == "git":
        return False  # its masks are widened by the slots of a picture, whether there is one or not
    # RoBERTa and its kind count positions from behind that of padding.
    learned = (getattr(module, "position_embeddings", None) for module in model.modules())
    return all(getattr(table, "padding_idx", None) is None for table in learned)


def _same_up_to(config: Any) -> int | None:
    """Where rotary frequencies depend on how long the text of a pass is: the length up to which they do not."""
    told = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    found = []
    for one in (told, *told.values()):  # of some models each kind of layer has its own
        if not isinstance(one, dict) or one.get("rope_type", one.get("type")) not in _LONGER:
            continue
        lengths = (one, config.to_dict())
        names = ("original_max_position_embeddings", "max_position_embeddings")
        length = next((of[name] for name in names for of in lengths if of.get(name)), None)
        found.append(1 if length is None else int(length))
    return min(found, default=None)


def _reads_runs(model: Any, size: int, argument: str, wants_positions: bool) -> bool:
    """Whether a run of tokens behind others is read as one after another. Mamba's scan forgets its state."""
    ids = torch.tensor([_some_tokens(size, 0)], device=model.device)
    whole, run, single = (
        _read_in_parts(model, ids, argument, lengths, wants_positions)
        for lengths in ([_FIRST + _BEHIND], [_FIRST, _BEHIND], [_FIRST, *[1] * _BEHIND])
    )
    rounding = float((single - whole).abs().max())
    return float((run - whole).abs().max()) <= 4 * rounding + _TOLERANCE * float(whole.abs().max())


def _read_in_parts(
    model: Any, ids: torch.Tensor, argument: str, lengths: list[int], wants_positions: bool
) -> torch.Tensor:
    options: dict[str, Any] = {argument: DynamicCache(config=model.config), "use_cache": True}
    logits, start = [], 0
    for part in torch.split(ids, lengths, dim=1):
        if wants_positions:
            options["position_ids"] = positions(start, part.shape[1]).to(ids.device)
        with torch.inference_mode():
            logits.append(model(input_ids=part, **options).logits[0].float())
        start += part.shape[1]
    return torch.cat(logits)


def positions(start: int, count: int) -> torch.Tensor:
    """Of tokens behind `start` others, of one row."""
    return torch.arange(start, start + count)[None]


def _some_tokens(size: int, which: int) -> list[int]:
    """Texts for trying models: the same at first, then others."""
    behind = [(2 + which + 7 * place) % size for place in range(_BEHIND)]
    return [*((3 + 5 * place) % size for place in range(_FIRST)), *behind]


def _check_causal(model: Any, size: int) -> None:
    """Refuse a model in which tokens change the logits of those before them."""
    ids = [_some_tokens(size, 0), _some_tokens(size, 1)]
    options = {"use_cache": False} if "use_cache" in parameters_of(model) else {}
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor(ids, device=model.device), **options).logits.float()
    one, other = logits[:, :_FIRST]
    if float((one - other).abs().max()) > _TOLERANCE * float(logits.abs().max()):
        is_switched_off = getattr(model.config, "is_decoder", True) is False
        raise ModelError(
            f"{type(model).__name__} is not causal: what it says at a position changes with the tokens behind it, so "
            "it cannot write a text from left to right",
            hint="Load it with is_decoder=True in its configuration."
            if is_switched_off
            else "Load a causal language model, one that reads from left to right alone.",
        )
