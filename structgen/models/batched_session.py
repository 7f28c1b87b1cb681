"""`BatchedSession`: all rows of a batch in one KV cache, one forward pass for all of them.

What: rows share the slots of the cache. A row that appends fewer tokens than its neighbours has empty slots before
them, and a cropped row has empty ones at its end. Empty slots are masked for that row, and positions count real tokens
only. Rows of one length have no empty slots and run without a mask, as `transformers` itself would run them.
Invariant: a row's logits are those of one forward pass over its own tokens, up to the rounding of the kernels.
Cost: a forward pass per `append`; a copy of the cache when rows leave or many slots are empty.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache

from structgen.errors import ModelError
from structgen.protocols import SessionCapabilities

from .cached_session import CachedSession, Tokens, to_numpy
from .caches import reads_embeddings, reads_trees
from .early_exit import EarlyExit, can_exit, first_layers
from .tree_checks import check_decided, check_path, check_probes, check_trees

__all__ = ["BatchedSession"]

_MIN_SHARED_PREFIX = 16
"""A shared prefix of the prompts is read once for all rows if it has at least this many tokens; less does not pay."""
_MAX_EMPTY_FRACTION = 0.25
"""The fraction of empty slots at which the cache is packed."""


@dataclass
class _Undecided:
    """A tree that was read and for which `keep` was not called yet."""

    tokens: list[int]
    parents: list[int]
    run: int
    """The number of tokens before it in the same pass."""
    logits: torch.Tensor
    probes: int = 0
    """The number of embeddings after its nodes."""


class BatchedSession(CachedSession):
    """All rows in one cache, one forward pass for all of them."""

    def __init__(self, model: Any, size: int, prompts: Tokens, layers: Sequence[int] = ()) -> None:
        shared = _shared_length(prompts)
        is_shared = shared >= _MIN_SHARED_PREFIX
        super().__init__(model, size, 1 if is_shared else len(prompts), layers)
        self._capabilities = SessionCapabilities(
            scores_runs=True,
            reads_trees=reads_trees(model),
            reads_embeddings=reads_trees(model) and reads_embeddings(model),
            crops_cheaply=True,
            takes_padding=True,
            exits=bool(layers) and can_exit(model, self._cache_argument),
            joins=True,
            forks=True,
        )
        self._undecided: dict[int, _Undecided] = {}
        self._cache: Any = DynamicCache(config=model.config)
        self._filled: NDArray[np.bool_] = np.zeros((len(self._tokens), 0), dtype=bool)
        """Which slots of the cache hold a token of the row, ``[rows, slots]``."""
        self._is_even = True
        """Whether no slot is empty, so that all rows have the same length."""
        if is_shared:
            self.append([list(prompts[0][:shared])])
            self.select([0] * len(prompts))
        self.append([list(prompt[shared if is_shared else 0 :]) for prompt in prompts])

    def logits_tensor(self) -> torch.Tensor:
        """See `CachedSession.logits_tensor`."""
        self._check_decided()
        return super().logits_tensor()

    def select(self, rows: Sequence[int]) -> None:
        """See `Session.select`."""
        self._check_decided()
        index = torch.tensor(list(rows), dtype=torch.long, device=self._last.device)
        self._cache.reorder_cache(index)
        self._last, self._array = self._last[index], None
        self._tokens = [list(self._tokens[row]) for row in rows]
        self._stale = {index for index, row in enumerate(rows) if row in self._stale}
        self._filled = self._filled[list(rows)]
        if self._hidden is not None:
            self._hidden = self._hidden.select(rows)
        self._pack()

    def fork(self, rows: Sequence[int]) -> BatchedSession:
        """Return a new session with copies of these rows."""
        self._check_decided()
        other = copy.copy(self)
        other._cache = copy.copy(self._cache)
        other._cache.layers = [copy.copy(layer) for layer in self._cache.layers]
        other._undecided = {}
        other.select(rows)  # subtle: `select` replaces what both sessions hold and writes into none of it.
        return other

    def join(self, other: BatchedSession) -> None:
        """See `Session.join`. The session with fewer slots gets empty ones before its tokens."""
        self._check_decided()
        other._check_decided()
        held = len(self._tokens)
        if self._hidden is not None and other._hidden is not None:
            self._hidden.join(other._hidden)
        slots = max(self._filled.shape[1], other._filled.shape[1])
        with torch.inference_mode():
            for mine, theirs in zip(self._cache.layers, other._cache.layers, strict=True):
                for name in ("keys", "values"):
                    setattr(mine, name, _stacked(getattr(mine, name), getattr(theirs, name), slots))
            self._last, self._array = torch.cat([self._last, other._last]), None
        self._filled = np.concatenate([_widened(self._filled, slots), _widened(other._filled, slots)])
        self._is_even = bool(self._filled.all())
        self._tokens += other._tokens
        self._stale |= {held + row for row in other._stale}

    def rollback(self, row: int, n: int) -> None:
        """See `Session.rollback`."""
        self._check_decided()
        self._check_length(row, n)
        if n:
            self._take_back(row, n)
            self._stale.add(row)

    def append_trees(
        self, tokens: Tokens, trees: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> list[NDArray[np.float32]]:
        """See `Session.append_trees`."""
        return self.append_probed(tokens, trees, None, [()] * len(trees))[0]

    def append_probed(
        self,
        tokens: Tokens,
        trees: Sequence[tuple[Sequence[int], Sequence[int]]],
        embeddings: torch.Tensor | None,
        after: Tokens,
    ) -> tuple[list[NDArray[np.float32]], list[NDArray[np.float32]]]:
        """See `Session.append_probed`."""
        self._check_rows(tokens)
        self._check_rows(trees)
        self._check_rows(after)
        self._check_decided()
        check_trees(trees)
        check_probes(trees, after)
        count = 0 if embeddings is None else len(embeddings)
        read = [_with_probes(tree, nodes, count) for tree, nodes in zip(trees, after, strict=True)]
        longest = max(
            (len(run) + len(nodes) for run, (nodes, _) in zip(tokens, read, strict=True)), default=0
        )
        logits = self._last.new_empty((len(tokens), 0, self._size))
        if longest:
            self._pack()
            ids, real, inputs = self._lay_out_trees(tokens, read, longest)
            if embeddings is not None:
                inputs["inputs_embeds"] = self._embedded(ids, embeddings, [len(nodes) for nodes in after])
            logits = self._forward(ids, self._cache, longest, **inputs)
            self._filled = np.concatenate([self._filled, real], axis=1)
            # subtle: `keep` writes to the last logits, which may be part of what was returned before.
            self._last, self._array = self._last.clone(), None
        scores, probed = [], []
        for row, (run, (nodes, parents), ends) in enumerate(zip(tokens, trees, after, strict=True)):
            probes = len(ends) * count
            first, end = longest - len(run) - len(nodes) - probes, longest - probes
            if self._hidden is not None and self._read_states is not None and longest:
                self._hidden.append(row, self._read_states[row, first:end])
            self._tokens[row].extend(run)
            self._undecided[row] = _Undecided(
                list(nodes), list(parents), len(run), logits[row, first:end], probes
            )
            scores.append(to_numpy(logits[row, first:end]))
            probed.append(to_numpy(logits[row, end:].view(len(ends), count, self._size)))
        return scores, probed

    def keep(self, row: int, nodes: Sequence[int]) -> None:
        """See `Session.keep`."""
        tree = self._undecided.get(row)
        check_path(row, None if tree is None else tree.parents, nodes)
        tree = self._undecided.pop(row)
        end, size = self._filled.shape[1] - tree.probes, len(tree.tokens)
        self._filled[row, end - size :] = False
        self._filled[row, [end - size + node for node in nodes]] = True
        self._tokens[row].extend(tree.tokens[node] for node in nodes)
        last = (tree.run + nodes[-1] if nodes else tree.run - 1) if tree.run or nodes else None
        if last is not None:
            with torch.inference_mode():
                self._last[row] = tree.logits[last]
            self._array = None
            self._stale.discard(row)
        if self._hidden is not None:
            self._hidden.keep(row, nodes, size)
        if not self._undecided:
            if len(self._tokens) == 1:
                self._close_up(end - size, list(nodes))
            self._crop_unused()

    def early_exit(self, row: int, count: int, layers: int) -> EarlyExit:
        """See `Session.early_exit`."""
        self._check_decided()
        slots = np.flatnonzero(self._filled[row])[:count]
        if not 0 < layers < len(self._cache.layers) or not 0 < len(slots) == count:
            raise ModelError(
                f"there is no exit after {layers} of {len(self._cache.layers)} layers and {count} of "
                f"{len(self._tokens[row])} tokens"
            )
        first = int(slots[0])
        places: Any = slice(first, first + count)  # a view; a copy if there are empty slots between them
        if slots[-1] - first + 1 != count:
            places = torch.from_numpy(slots).to(self._last.device)
        held = [
            (layer.keys[row : row + 1, :, places], layer.values[row : row + 1, :, places])
            for layer in self._cache.layers[:layers]
        ]
        return EarlyExit(first_layers(self._model, layers), self._cache_argument, held)

    def _close_up(self, first: int, nodes: list[int]) -> None:
        """Move the kept nodes of a single row together."""
        if nodes == list(range(len(nodes))):
            return
        sources = torch.tensor([first + node for node in nodes], device=self._last.device)
        with torch.inference_mode():
            for layer in self._cache.layers:
                for held in (layer.keys, layer.values):
                    held[:, :, first : first + len(nodes)] = held.index_select(2, sources)
        self._filled[0, first:] = False
        self._filled[0, first : first + len(nodes)] = True

    def _embedded(self, ids: torch.Tensor, embeddings: torch.Tensor, ends: Sequence[int]) -> torch.Tensor:
        """Return the embeddings of ids, the last ones of each row replaced `ends` times by the given ones."""
        with torch.inference_mode():
            inputs: torch.Tensor = self._model.get_input_embeddings()(ids.to(self._model.device)).clone()
            if embeddings.shape[1:] != inputs.shape[2:]:
                raise ModelError(
                    f"embeddings of shape {list(embeddings.shape)} for a model whose embeddings have "
                    f"{inputs.shape[2]} numbers"
                )
            for row, times in enumerate(ends):
                probes = embeddings.to(inputs).repeat(times, 1)
                inputs[row, inputs.shape[1] - len(probes) :] = probes
        return inputs

    def _check_decided(self) -> None:
        check_decided(self._undecided)

    def _take_back(self, row: int, n: int) -> None:
        held = np.flatnonzero(self._filled[row])
        self._filled[row, held[len(held) - n :]] = False
        del self._tokens[row][len(self._tokens[row]) - n :]
        if self._hidden is not None:
            self._hidden.crop(row, n)
        self._crop_unused()

    def _crop_unused(self) -> None:
        used = np.flatnonzero(self._filled.any(axis=0))
        unused = self._filled.shape[1] - (int(used[-1]) + 1 if len(used) else 0)
        if unused:
            self._cache.crop(-unused)
            self._filled = self._filled[:, : self._filled.shape[1] - unused]
        self._is_even = bool(self._filled.all())

    def _read_again(self) -> None:
        """Read the last token of each stale row again, for its logits."""
        last = [self._tokens[row][-1:] if row in self._stale else [] for row in range(len(self._tokens))]
        if not all(last[row] for row in self._stale):
            raise ModelError(
                "a row without tokens has no logits", hint="Append tokens after a rollback to nothing."
            )
        for row in self._stale:
            self._take_back(row, 1)
        self._read(last, every=False)

    def _read(self, tokens: Tokens, *, every: bool) -> list[torch.Tensor]:
        self._check_rows(tokens)
        self._check_decided()
        longest = max(map(len, tokens), default=0)
        if not longest:
            return [self._last.new_empty((0, self._size)) for _ in tokens]
        self._pack()
        ids, real, inputs = self._lay_out(tokens, longest)
        logits = self._forward(ids, self._cache, longest if every else 1, **inputs)
        for held, new in zip(self._tokens, tokens, strict=True):
            held.extend(new)
        self._filled = np.concatenate([self._filled, real], axis=1)
        self._stale -= {row for row, new in enumerate(tokens) if new}
        self._array = None
        if self._hidden is not None and self._read_states is not None:
            for row, new in enumerate(tokens):
                self._hidden.append(row, self._read_states[row, longest - len(new) :])
        if all(tokens):
            self._last = logits[:, -1]
        else:
            has_new = torch.tensor([bool(new) for new in tokens], device=logits.device)
            self._last = torch.where(has_new[:, None], logits[:, -1], self._last)
        return [logits[row, longest - len(new) :] for row, new in enumerate(tokens)] if every else []

    def _lay_out(
        self, tokens: Tokens, longest: int
    ) -> tuple[torch.Tensor, NDArray[np.bool_], dict[str, Any]]:
        """Return ids, which of them are real, and the other inputs of the model. Shorter runs end at the same slot."""
        real = np.ones((len(tokens), longest), dtype=bool)
        if all(len(new) == longest for new in tokens) and self._is_even:
            return torch.tensor([list(new) for new in tokens]), real, {}
        self._is_even = False
        ids = np.zeros((len(tokens), longest), dtype=np.int64)
        positions = np.zeros_like(ids)
        for row, new in enumerate(tokens):
            gap, start = longest - len(new), len(self._tokens[row])
            real[row, :gap] = False
            ids[row, gap:] = new
            positions[row, gap:] = np.arange(start, start + len(new))
        device = self._model.device
        mask = torch.from_numpy(np.concatenate([self._filled, real], axis=1).astype(np.int64))
        inputs = {"attention_mask": mask.to(device), "position_ids": torch.from_numpy(positions).to(device)}
        return torch.from_numpy(ids), real, inputs

    def _lay_out_trees(
        self, tokens: Tokens, trees: Sequence[tuple[Sequence[int], Sequence[int]]], longest: int
    ) -> tuple[torch.Tensor, NDArray[np.bool_], dict[str, Any]]:
        """As `_lay_out`, with a mask of what each position sees: all before it in its row, except other branches."""
        self._is_even = False
        rows, slots = len(tokens), self._filled.shape[1]
        real = np.zeros((rows, longest), dtype=bool)
        ids = np.zeros((rows, longest), dtype=np.int64)
        positions = np.zeros_like(ids)
        sees = np.zeros((rows, longest, slots + longest), dtype=bool)
        for row, (run, (nodes, parents)) in enumerate(zip(tokens, trees, strict=True)):
            gap, start = longest - len(run) - len(nodes), len(self._tokens[row])
            real[row, gap:] = True
            ids[row, gap:] = [*run, *nodes]
            first = gap + len(run)
            positions[row, gap:first] = np.arange(start, start + len(run))
            sees[row, gap:, :slots] = self._filled[row]
            for position in range(gap, first):
                sees[row, position, slots + gap : slots + position + 1] = True
            for node, parent in enumerate(parents):
                position, above = first + node, first + parent if parent >= 0 else first - 1
                # subtle: without a run, the first nodes follow what the row already holds.
                if above >= gap:
                    sees[row, position] = sees[row, above]
                    positions[row, position] = positions[row, above] + 1
                else:
                    positions[row, position] = start
                sees[row, position, slots + position] = True
            # A position that sees nothing has no attention to normalise, so it sees itself.
            sees[row, range(gap), range(slots, slots + gap)] = True
        device, kind = self._model.device, self._model.dtype
        mask = torch.zeros(sees.shape, dtype=kind).masked_fill(torch.from_numpy(~sees), torch.finfo(kind).min)
        inputs = {
            "attention_mask": mask[:, None].to(device),
            "position_ids": torch.from_numpy(positions).to(device),
        }
        return torch.from_numpy(ids), real, inputs

    def _pack(self) -> None:
        """Move the rows' tokens together at the end of the cache, if that frees many slots or all empty ones.

        Keys are already rotated by their positions, so slots may move; their order within a row is kept.
        """
        lengths, slots = self._filled.sum(axis=1), self._filled.shape[1]
        longest = int(lengths.max(initial=0))
        is_even = bool((lengths == longest).all())
        if (
            self._is_even
            or longest == slots
            or (slots - longest <= _MAX_EMPTY_FRACTION * slots and not is_even)
        ):
            return
        sources = np.zeros((len(lengths), longest), dtype=np.int64)
        filled = np.zeros(sources.shape, dtype=bool)
        for row, length in enumerate(lengths.tolist()):
            sources[row, longest - length :] = np.flatnonzero(self._filled[row])
            filled[row, longest - length :] = True
        index = torch.from_numpy(sources)[:, None, :, None].to(self._last.device)
        for layer in self._cache.layers:
            for name in ("keys", "values"):
                held = getattr(layer, name)
                setattr(layer, name, held.gather(2, index.expand(-1, held.shape[1], -1, held.shape[3])))
        self._filled, self._is_even = filled, is_even


def _with_probes(
    tree: tuple[Sequence[int], Sequence[int]], ends: Sequence[int], count: int
) -> tuple[Sequence[int], Sequence[int]]:
    """Return the tree with a chain of `count` nodes after each of `ends`; their tokens are no tokens of the text."""
    nodes, parents = [*tree[0], *[0] * (len(ends) * count)], list(tree[1])
    for end in ends:
        parents += [end if index == 0 else len(parents) + index - 1 for index in range(count)]
    return nodes, parents


def _shared_length(prompts: Tokens) -> int:
    """Return the length of the common prefix of all prompts; 0 for a single one."""
    if len(prompts) < 2:
        return 0
    first, last = min(map(list, prompts)), max(map(list, prompts))
    pairs = zip(first, last, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), len(first))


def _stacked(first: torch.Tensor, second: torch.Tensor, slots: int) -> torch.Tensor:
    """Return keys or values of two caches, ``[rows, heads, slots, size]``, as one; both end at the last slot."""
    rows = len(first) + len(second)
    stacked = first.new_zeros((rows, first.shape[1], slots, first.shape[3]))
    stacked[: len(first), :, slots - first.shape[2] :] = first
    stacked[len(first) :, :, slots - second.shape[2] :] = second
    return stacked


def _widened(filled: NDArray[np.bool_], slots: int) -> NDArray[np.bool_]:
    """Return the flags with empty slots before the others."""
    return np.pad(filled, ((0, 0), (slots - filled.shape[1], 0)))
