"""`RecurrentSession`: one cache for each row, of a model whose memory is a state that tokens change and cannot leave.

Why: a state cannot be cropped. Reading the whole text again for each rejected draft token would cost more than drafts
save.
What: runs and draft trees are read in one pass over their tokens (`tree_pass`), from which the state after any path
is built, so a rollback within the last pass reads nothing again. Where a model's layers have no form for trees, or a
run is long, the state is copied before the pass. A rollback puts the copy back; the tokens of the pass that remain are
read again together with those of the next pass, so it costs no pass of its own. Such a model reads a tree as one
batch, with one row for each path from the root to a leaf. Only a tree without branches leaves a state, so many tokens
that no pass has left in the state are read before.
Invariant: a row's logits are those of one forward pass over its own tokens, up to the rounding of the kernels.
Cost: a copy of the recurrent state for each pass; keys and values are shared with the copy. After a packed pass, the
keys and values before it, those with its nodes, and those of the kept path are held until the next pass of the row. So
are, for scans by depth (`LevelScan`), the states of all nodes. A rollback beyond the last pass reads all tokens again.
Source: Wu et al. 2025 (STree).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from structgen.protocols import SessionCapabilities, Tree

from .cached_session import Tokens, to_numpy
from .caches import memory_of, positions
from .mixers import mixers_of, pass_lock, reading_runs
from .separate_session import SeparateSession
from .tree_checks import check_decided, check_path, check_trees
from .tree_pass import TreePass, tree_reader_of

__all__ = ["RecurrentSession"]

_MOST_UNREAD = 16
"""Before a batch of paths, more unread tokens than this are read in a pass of their own, not once for each path."""


@dataclass
class _Undecided:
    """A tree that was read and for which `keep` was not called yet."""

    tokens: list[int]
    parents: list[int]
    logits: torch.Tensor
    """The logits after the run and after each node, ``[1 + nodes, size]``."""


@dataclass
class _LastPass:
    """The last pass over a row."""

    before: Any = None
    """A copy of the cache from before it; None before the first one, and after a pass over a tree."""
    tree: TreePass | None = None
    """The pass, if the cache after any of its paths can be built from it."""
    path: list[int] = field(default_factory=list)
    """The nodes of `tree` that the cache holds."""
    read: list[int] = field(default_factory=list)
    """The tokens that it read, which the cache holds."""
    unread: list[int] = field(default_factory=list)
    """Tokens of the row that are to be read again, because the cache was put back to before them."""


class RecurrentSession(SeparateSession):
    """One cache per row, with what is needed to undo the last pass.

    Args:
        model: The model.
        size: The number of tokens of its vocabulary.
        prompts: The tokens of each row.
        layers: The layers whose hidden states are kept.
        packs_trees: Whether a tree is read in one pass over its nodes where the model allows that. If not, each path
            is a row of a batch.
    """

    def __init__(
        self, model: Any, size: int, prompts: Tokens, layers: Sequence[int] = (), *, packs_trees: bool = True
    ) -> None:
        self._pass_lock = pass_lock(model)
        self._reader = tree_reader_of(model, size) if packs_trees else None
        self._mixers = mixers_of(model) if memory_of(model, size).mixes_tokens else []
        self._passes = [_LastPass() for _ in prompts]
        self._undecided: dict[int, _Undecided] = {}
        super().__init__(model, size, prompts, layers)
        self._capabilities = SessionCapabilities(
            scores_runs=True,
            reads_trees=True,
            crops_cheaply=True,
            joins=True,
            draft_limit=self._memory.same_up_to,
        )

    def logits_tensor(self) -> torch.Tensor:
        """See `CachedSession.logits_tensor`."""
        check_decided(self._undecided)
        return super().logits_tensor()

    def select(self, rows: Sequence[int]) -> None:
        """See `Session.select`."""
        check_decided(self._undecided)
        super().select(rows)
        taken: set[int] = set()
        passes = []
        for row in rows:
            passes.append(copy.deepcopy(self._passes[row]) if row in taken else self._passes[row])
            taken.add(row)
        self._passes = passes

    def join(self, other: SeparateSession) -> None:
        """See `Session.join`."""
        check_decided(self._undecided)
        assert isinstance(other, RecurrentSession)
        super().join(other)
        self._passes += other._passes

    def rollback(self, row: int, n: int) -> None:
        """See `Session.rollback`."""
        check_decided(self._undecided)
        super().rollback(row, n)

    def append_trees(self, tokens: Tokens, trees: Sequence[Tree]) -> list[NDArray[np.float32]]:
        """See `Session.append_trees`."""
        self._check_rows(tokens)
        self._check_rows(trees)
        check_decided(self._undecided)
        check_trees(trees)
        scores = []
        last = list(self._last)
        for row, (run, (nodes, parents)) in enumerate(zip(tokens, trees, strict=True)):
            with self._pass_lock:
                logits = self._read_tree(row, run, nodes, parents)
            if run or nodes:
                self._keep_states(row, len(run) + len(nodes))
            self._tokens[row].extend(run)
            if run:
                self._stale.discard(row)
                last[row] = logits[len(run) - 1]
            after = torch.cat([last[row][None], logits[len(run) :]])
            self._undecided[row] = _Undecided(list(nodes), list(parents), after)
            scores.append(to_numpy(logits))
        self._last, self._array = torch.stack(last), None
        return scores

    def keep(self, row: int, nodes: Sequence[int]) -> None:
        """See `Session.keep`."""
        tree = self._undecided.get(row)
        check_path(row, None if tree is None else tree.parents, nodes)
        tree = self._undecided.pop(row)
        known, kept = self._passes[row], [tree.tokens[node] for node in nodes]
        held = len(known.read) - len(tree.tokens)
        if known.tree is not None and tree.tokens:
            self._keep_path(row, [*range(held), *(held + node for node in nodes)])
        elif tree.tokens and (len(nodes) < len(tree.tokens) or not known.read):
            run = known.read[:held] if known.read else known.unread
            self._put_back(row, [*run, *kept])
        self._tokens[row].extend(kept)
        if self._hidden is not None:
            self._hidden.keep(row, nodes, len(tree.tokens))
        if nodes:
            with torch.inference_mode():
                self._last[row] = tree.logits[1 + nodes[-1]]
            self._array = None
            self._stale.discard(row)

    def _read(self, tokens: Tokens, *, every: bool) -> list[torch.Tensor]:
        with self._pass_lock:
            return super()._read(tokens, every=every)

    def _forward(self, ids: torch.Tensor, cache: object, keep: int, **inputs: Any) -> torch.Tensor:
        # subtle: in the pass of another session, on another thread, the layers call functions for its tree.
        with self._pass_lock:
            return super()._forward(ids, cache, keep, **inputs)

    def _read_tree(
        self, row: int, run: Sequence[int], nodes: Sequence[int], parents: Sequence[int]
    ) -> torch.Tensor:
        """Read a run and a tree; return the logits after each of their tokens.

        `_read_states` then has the hidden states of the same tokens, after those of others.
        """
        if not run and not nodes:
            return self._last.new_empty((0, self._size))
        known = self._passes[row]
        unread = [*known.unread, *run]
        if self._reader and self._reader.takes(self._caches[row], len(unread) + len(nodes)):
            return self._read_packed(row, unread, nodes, parents, len(run) + len(nodes))
        is_chain = all(parent == node - 1 for node, parent in enumerate(parents))
        if is_chain:
            return self._read_row(row, [*run, *nodes], every=True)
        if len(known.unread) > _MOST_UNREAD:
            self._read_row(row, [], every=False)
            known, unread = self._passes[row], list(run)
        start = len(self._tokens[row]) - len(known.unread)
        paths = _paths(parents)
        self._passes[row] = _LastPass(before=self._caches[row], unread=unread)
        longest = max(map(len, paths))
        ids = torch.tensor(
            [[*unread, *(nodes[node] for node in path), *[0] * (longest - len(path))] for path in paths]
        )
        cache = _copy(self._caches[row])
        cache.reorder_cache(torch.zeros(len(paths), dtype=torch.long, device=self._last.device))
        inputs = {}
        if self._memory.wants_positions:
            inputs["position_ids"] = (
                positions(start, ids.shape[1]).expand(len(paths), -1).to(self._model.device)
            )
        with reading_runs(self._mixers):
            logits = self._forward(ids, cache, longest + len(run), **inputs)
        places = [(0, position) for position in range(len(run))] + [(0, 0)] * len(nodes)
        for branch, path in enumerate(paths):
            for depth, node in enumerate(path):
                places[len(run) + node] = branch, len(run) + depth
        branches, at = (torch.tensor(each, device=logits.device) for each in zip(*places, strict=True))
        if self._read_states is not None:
            skipped = self._read_states.shape[1] - logits.shape[1]
            self._read_states = self._read_states[branches, skipped + at][None]
        return logits[branches, at]

    def _read_packed(
        self, row: int, run: Sequence[int], nodes: Sequence[int], parents: Sequence[int], keep: int
    ) -> torch.Tensor:
        """Read a run and a tree in one pass; return the logits of the last `keep` tokens. The cache stays as it is."""
        assert self._reader is not None
        read, first = [*run, *nodes], len(run)
        above = [*range(-1, first - 1), *(first + parent for parent in parents)]
        start = len(self._tokens[row]) - len(self._passes[row].unread)
        logits, tree = self._reader.read(self._forward, self._caches[row], read, above, start, keep)
        self._passes[row] = _LastPass(tree=tree, read=read)
        if not nodes:
            self._keep_path(row, range(first))
        return logits

    def _keep_path(self, row: int, path: Sequence[int]) -> None:
        """Let the cache of a row hold these nodes of the last pass, and no others."""
        known = self._passes[row]
        assert known.tree is not None
        self._caches[row], known.path = known.tree.cache_after(path), list(path)

    def _put_back(self, row: int, unread: list[int]) -> None:
        """Put the cache back to before the last pass; `unread` are the tokens of the row that it then lacks."""
        self._caches[row], self._passes[row] = self._passes[row].before, _LastPass(unread=unread)

    def _take_back(self, row: int, n: int) -> None:
        known = self._passes[row]
        mine = [*known.read, *known.unread]
        if n <= len(known.unread):
            del known.unread[len(known.unread) - n :]
        elif known.tree is not None and n <= len(known.path):
            self._keep_path(row, known.path[: len(known.path) - n])
        elif known.tree is None and n <= len(mine) and known.before is not None:
            self._put_back(row, mine[: len(mine) - n])
        else:
            del self._tokens[row][len(self._tokens[row]) - n :]
            self._rebuild(row)
            return
        del self._tokens[row][len(self._tokens[row]) - n :]

    def _rebuild(self, row: int) -> None:
        super()._rebuild(row)
        self._passes[row] = _LastPass()

    def _read_row(self, row: int, new: Sequence[int], every: bool) -> torch.Tensor:
        unread = self._passes[row].unread
        run = [*unread, *new]
        keep = len(new) if every else 1
        if self._reader and self._reader.takes(self._caches[row], len(run)):
            return self._read_packed(row, run, [], [], keep)
        start = len(self._tokens[row]) - len(unread)
        self._passes[row] = _LastPass(before=_copy(self._caches[row]), read=run)
        inputs = {}
        if self._memory.wants_positions:
            inputs["position_ids"] = positions(start, len(run)).to(self._model.device)
        with reading_runs(self._mixers if start and len(run) > 1 else ()):
            return self._forward(torch.tensor([run]), self._caches[row], keep, **inputs)[0]


def _copy(cache: Any) -> Any:
    """Return a copy of a cache. Its layers write into recurrent states, and replace keys and values."""
    other = copy.copy(cache)
    other.layers = []
    for layer in cache.layers:
        mine = copy.copy(layer)
        for name, value in vars(layer).items():
            if isinstance(value, dict):
                copied = {
                    key: one.clone() if isinstance(one, torch.Tensor) else one for key, one in value.items()
                }
                setattr(mine, name, copied)
        other.layers.append(mine)
    return other


def _paths(parents: Sequence[int]) -> list[list[int]]:
    """Return the nodes of each path from the root to a leaf."""
    leaves = set(range(len(parents))) - set(parents)
    found = []
    for leaf in sorted(leaves):
        path, node = [], leaf
        while node >= 0:
            path.append(node)
            node = parents[node]
        found.append(path[::-1])
    return found
