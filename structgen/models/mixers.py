"""Let state-space layers that start a run from an empty state read it token by token.

Why: Mamba's and Jamba's layers in `transformers` continue from their state with a single token only. All other layers
could read a run of draft tokens in one pass.
What: while `reading_runs` lasts, these layers call themselves once for each token of a run. The others read it whole.
Invariant: the outputs are those of single tokens. A thread that replaces forward functions of a model, or runs such a
model, holds `pass_lock`.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch

__all__ = ["mixers_of", "pass_lock", "reading_runs", "replaced_forwards"]

_LOCKS: WeakKeyDictionary[Any, threading.RLock] = WeakKeyDictionary()
_LOCKS_LOCK = threading.Lock()


def pass_lock(model: Any) -> threading.RLock:
    """Return the lock of a model's forward functions, which a thread may take several times."""
    with _LOCKS_LOCK:
        return _LOCKS.setdefault(model, threading.RLock())


def mixers_of(model: Any) -> list[Any]:
    """Return the state-space layers of a model that take a cache."""
    return [
        module
        for module in model.modules()
        if "A_log" in dict(module.named_parameters(recurse=False)) and _takes_cache(module)
    ]


@contextlib.contextmanager
def reading_runs(mixers: Sequence[Any]) -> Iterator[None]:
    """Let these layers read runs token by token while the block runs."""
    with replaced_forwards(mixers, [_token_by_token(module.forward) for module in mixers]):
        yield


@contextlib.contextmanager
def replaced_forwards(modules: Sequence[Any], forwards: Sequence[Callable[..., Any]]) -> Iterator[None]:
    """Replace the forward function of each of these modules while the block runs."""
    # A module has a `forward` of its own if something has wrapped it, such as the hooks of accelerate.
    own = [vars(module).get("forward") for module in modules]
    try:
        for module, replacement in zip(modules, forwards, strict=True):
            module.forward = replacement
        yield
    finally:
        for module, forward in zip(modules, own, strict=True):
            vars(module).pop("forward", None)
            if forward is not None:
                module.forward = forward


def _takes_cache(module: Any) -> bool:
    names = inspect.signature(module.forward).parameters
    return "hidden_states" in names and ("cache" in names or "cache_params" in names)


def _token_by_token(forward: Callable[..., Any]) -> Callable[..., Any]:
    def each_token(hidden_states: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        count = hidden_states.shape[1]
        mask = options.get("attention_mask")
        outputs = []
        for index in range(count):
            if mask is not None and mask.shape[-1] == count:
                options["attention_mask"] = mask[..., index : index + 1]
            outputs.append(forward(hidden_states[:, index : index + 1], *arguments, **options))
        return torch.cat(outputs, dim=1)

    return each_token
