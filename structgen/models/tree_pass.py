"""`TreeReader`: read a draft tree of a recurrent model in one pass over its nodes, and keep any path of it.

Why: see `tree_scan`. A session would otherwise read a tree as one row for each path, and read accepted tokens again.
What: the layers of `transformers` that keep a state call a convolution and a scan by name. During a tree pass these
two are the ones for trees; everything else of a layer runs as it is. Attention gets a mask of each node's ancestors.
The pass records what the layers computed, so the cache after any path is built without another pass.
Invariant: models are tested once. Where the logits of a small tree differ from those of its paths there is no reader.
Cost: a test of a few passes for each model. A cache after a path copies the state, and moves keys together.
Source: Wu et al. 2025 (STree), "activation replay" for the state after the accepted path.
"""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from transformers import DynamicCache

from .caches import memory_of, positions, reads_trees
from .mixers import pass_lock, replaced_forwards
from .tree_scan import LevelScan, MaskedScan, TreeShape, tree_convolution

__all__ = ["TreePass", "TreeReader", "tree_reader_of"]

logger = logging.getLogger(__name__)

MOST_NODES = 64
"""Longer runs are read by the scans of `transformers`: a mask grows with the square of the nodes."""
_CONVOLUTION = "causal_conv1d_fn"
_SCANS: dict[str, type[MaskedScan] | type[LevelScan]] = {
    "mamba2_chunk_scan": MaskedScan,
    "mamba_selective_scan": LevelScan,
}
_LAYERS = {"DynamicLayer", "LinearAttentionLayer", "LinearAttentionAndFullAttentionLayer"}
_TOLERANCE = 1e-3
"""The allowed difference as a fraction of the largest logit."""
_HALF_TOLERANCE = 8
"""In half precision the fraction is at least this many times the machine epsilon."""
_PREFIX = 5

Forward = Callable[..., torch.Tensor]
"""`CachedSession._forward`: from ids, a cache, a number of last positions and inputs to logits."""


@dataclass(frozen=True)
class _Mixer:
    """A layer that keeps a state."""

    module: Any
    layer: int
    scan: str | None
    """The name of the scan that it calls; None if it keeps the inputs of its convolution only."""


@dataclass(frozen=True)
class TreePass:
    """A pass over a tree, from which a cache can be built that holds any of its paths."""

    before: Any
    """The cache before the pass."""
    after: Any
    """A cache with the keys, values and convolution inputs of all nodes after those of `before`."""
    scans: dict[int, MaskedScan | LevelScan]
    """What the scan of each layer computed."""

    def cache_after(self, path: Sequence[int]) -> Any:
        """Return a new cache that holds the tokens before the tree and the nodes of a path from its root."""
        kept = copy.copy(self.before)
        with torch.inference_mode():
            kept.layers = [self._layer_after(index, path) for index in range(len(self.before.layers))]
        return kept

    def _layer_after(self, index: int, path: Sequence[int]) -> Any:
        old, new = self.before.layers[index], self.after.layers[index]
        layer = copy.copy(old)
        if getattr(old, "is_initialized", False):
            held = old.keys.shape[-2]
            layer.keys, layer.values = _kept(new.keys, held, path, -2), _kept(new.values, held, path, -2)
        if hasattr(old, "conv_states"):
            inputs, width = new.conv_states[0], old.conv_states[0].shape[-1]
            # subtle: a decode step writes into both states, so neither may share memory with this pass.
            layer.conv_states = {0: _kept(inputs, width, path, -1)[..., -width:].clone()}
            if index in self.scans:
                before = old.recurrent_states[0]
                state = self.scans[index].state_after(path[-1]) if path else before.clone()
                layer.recurrent_states = {0: state}
        return layer


class TreeReader:
    """Reads trees of one model. It refers to the model's layers, not to the model."""

    def __init__(self, mixers: Sequence[_Mixer], wants_positions: bool) -> None:
        self._mixers, self._wants_positions = mixers, wants_positions

    def takes(self, cache: Any, nodes: int) -> bool:
        """Return whether so many nodes can be read at once after what the cache holds."""
        # subtle: a single token is a decode step, for which the layers call other functions. A layer that was wrapped
        # meanwhile, such as by the hooks of accelerate, must be called through its wrapper.
        return 1 < nodes <= MOST_NODES and all(
            cache.layers[mixer.layer].has_previous_state[0] and "forward" not in vars(mixer.module)
            for mixer in self._mixers
        )

    def read(
        self,
        forward: Forward,
        cache: Any,
        tokens: Sequence[int],
        parents: Sequence[int],
        start: int,
        keep: int,
    ) -> tuple[torch.Tensor, TreePass]:
        """Read a tree.

        Args:
            forward: Runs the model.
            cache: A cache of one row, which stays as it is.
            tokens: The token of each node.
            parents: The parent of each node, which comes before it; -1 for a node that follows what the cache holds.
            start: The number of tokens that the cache holds.
            keep: The number of last nodes whose logits are returned.

        Returns:
            Logits ``[keep, size]``, and the pass.
        """
        device = cache.layers[self._mixers[0].layer].conv_states[0].device
        shape = TreeShape(parents, device)
        after = _recording(cache)
        inputs: dict[str, torch.Tensor] = {}
        if self._wants_positions:
            inputs["position_ids"] = torch.tensor([[start + depth for depth in shape.depths]], device=device)
        keys = next((layer.keys for layer in cache.layers if getattr(layer, "is_initialized", False)), None)
        if keys is not None:
            inputs["attention_mask"] = _attention_mask(shape, keys.shape[-2], keys.dtype)
        scans: dict[int, MaskedScan | LevelScan] = {}
        with torch.inference_mode():
            for mixer in self._mixers:
                if mixer.scan is not None:
                    scan = _SCANS[mixer.scan]
                    scans[mixer.layer] = scan(shape, cache.layers[mixer.layer].recurrent_states[0])
            with self._reading(shape, scans):
                logits = forward(torch.tensor([list(tokens)]), after, keep, **inputs)[0]
        return logits, TreePass(cache, after, scans)

    @contextmanager
    def _reading(self, shape: TreeShape, scans: dict[int, MaskedScan | LevelScan]) -> Iterator[None]:
        """Let the layers call functions for trees."""
        forwards = []
        for mixer in self._mixers:
            functions: dict[str, Any] = {_CONVOLUTION: functools.partial(tree_convolution, shape)}
            if mixer.scan is not None:
                functions[mixer.scan] = scans[mixer.layer]
            forwards.append(types.MethodType(_calling(_code_of(mixer.module), functions), mixer.module))
        with replaced_forwards([mixer.module for mixer in self._mixers], forwards):
            yield


_KNOWN: WeakKeyDictionary[Any, TreeReader | None] = WeakKeyDictionary()


def tree_reader_of(model: Any, size: int) -> TreeReader | None:
    """Return the reader of a model's trees; None if some of its layers have no form for trees, or the test fails."""
    with pass_lock(model):
        if model not in _KNOWN:
            mixers = _mixers(model)
            reader = mixers and TreeReader(mixers, memory_of(model, size).wants_positions)
            try:
                _KNOWN[model] = reader if reader and _is_exact(reader, model, size) else None
            except Exception as error:  # in a release whose functions have other arguments, for example
                logger.warning(
                    "draft trees of %s are not read in one pass", type(model).__name__, exc_info=True
                )
                if isinstance(error, torch.OutOfMemoryError):
                    return None  # there may be memory for the next session
                _KNOWN[model] = None
        return _KNOWN[model]


def _mixers(model: Any) -> list[_Mixer] | None:
    """Return all layers of a model that keep a state; None if one of them has no form for trees."""
    layers = DynamicCache(config=model.config).layers
    if not {type(layer).__name__ for layer in layers} <= _LAYERS:
        return None
    stateful = {index for index, layer in enumerate(layers) if hasattr(layer, "conv_states")}
    if any(getattr(layers[index], "number_of_states", None) != 1 for index in stateful):
        return None
    if len(stateful) < len(layers) and not reads_trees(model):
        return None
    found = {}
    for module in model.modules():
        if "forward" in vars(module) or not hasattr(module, "layer_idx"):
            continue  # something has wrapped its forward function, such as the hooks of accelerate
        called = set(_code_of(module).__code__.co_names)
        scan = next((name for name in _SCANS if name in called), None)
        if _CONVOLUTION in called and (scan is not None) == ("update_recurrent_state" in called):
            found[module.layer_idx] = _Mixer(module, module.layer_idx, scan)
    return list(found.values()) if set(found) == stateful else None


def _is_exact(reader: TreeReader, model: Any, size: int) -> bool:
    """Return whether a small tree gives the logits of its paths, and so does a token after one of them."""
    memory = memory_of(model, size)

    def forward(ids: torch.Tensor, cache: Any, keep: int, **inputs: torch.Tensor) -> torch.Tensor:
        options: dict[str, Any] = {} if cache is None else {memory.argument or "": cache}
        with torch.inference_mode():
            output = model(input_ids=ids.to(model.device), use_cache=cache is not None, **options, **inputs)
        return output.logits[0, -keep:, :size].float()  # type: ignore[no-any-return]

    def step(token: int, cache: Any, start: int) -> torch.Tensor:
        inputs = {"position_ids": positions(start, 1).to(model.device)} if memory.wants_positions else {}
        return forward(torch.tensor([[token]]), cache, 1, **inputs)

    text = [(3 + 5 * index) % size for index in range(_PREFIX)]
    nodes, parents = [(2 + 7 * index) % size for index in range(6)], [-1, 0, 0, 2, 1, 3]
    paths = [[0], [0, 2], [0, 2, 3], [0, 2, 3, 5], [0, 1], [0, 1, 4]]
    longest = paths[3]
    caches = [DynamicCache(config=model.config) for _ in range(2)]
    for cache in caches:
        forward(torch.tensor([text]), cache, 1)
    if not reader.takes(caches[0], len(nodes)):
        return False
    read, tree = reader.read(
        lambda *given, **named: forward(*given, **named)[None], caches[0], nodes, parents, _PREFIX, len(nodes)
    )
    after = step(1, tree.cache_after(longest), _PREFIX + len(longest))
    texts = [[*text, *(nodes[node] for node in path)] for path in paths]
    wanted = torch.cat([forward(torch.tensor([tokens]), None, 1) for tokens in [*texts, [*texts[3], 1]]])
    found = torch.cat([read[[path[-1] for path in paths]], after])
    steps = [step(nodes[node], caches[1], _PREFIX + depth) for depth, node in enumerate(longest)]
    rounding = float((torch.cat(steps) - wanted[: len(longest)]).abs().max())
    tolerance = max(_TOLERANCE, _HALF_TOLERANCE * torch.finfo(model.dtype).eps)
    return float((found - wanted).abs().max()) <= 4 * rounding + tolerance * float(wanted.abs().max())


def _code_of(module: Any) -> Any:
    """Return the forward function of a module's class, without decorators."""
    return inspect.unwrap(type(module).forward)


def _calling(function: Any, replaced: dict[str, Any]) -> Any:
    """Return a copy of a function that calls other functions by the names of some of its globals."""
    names = function.__globals__ | replaced
    copied = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


def _recording(cache: Any) -> Any:
    """Return a copy of a cache to which a pass can append without a change of the original."""
    recording = copy.copy(cache)
    recording.layers = []
    for layer in cache.layers:
        mine = copy.copy(layer)
        if hasattr(layer, "conv_states"):
            # All inputs of convolutions are kept, in new tensors, instead of the last ones in the old tensor.
            mine.record_past = True
            mine.conv_states = dict(layer.conv_states)
        recording.layers.append(mine)
    return recording


def _attention_mask(shape: TreeShape, held: int, dtype: torch.dtype) -> torch.Tensor:
    """Return what nodes attend to, as numbers to add, ``[1, 1, nodes, held + nodes]``: the text and their ancestors."""
    hidden = torch.zeros((len(shape), held + len(shape)), dtype=dtype, device=shape.ancestors.device)
    hidden[:, held:].masked_fill_(~shape.ancestors, torch.finfo(dtype).min)
    return hidden[None, None]


def _kept(values: torch.Tensor, held: int, path: Sequence[int], dimension: int) -> torch.Tensor:
    """Return the first `held` values along a dimension and those of the nodes of a path after them."""
    if list(path) == list(range(len(path))):
        return values.narrow(dimension, 0, held + len(path))
    index = torch.tensor([*range(held), *(held + node for node in path)], device=values.device)
    return values.index_select(dimension, index)
