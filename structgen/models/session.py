"""Sessions of `transformers` models: batches over a KV cache whose rows grow, branch, are cropped and leave.

What: `BatchedSession` keeps all rows in one cache, and takes in those of another session (`join`). Rows share its
slots. A row that appends fewer tokens than its neighbours has empty slots before them, and a cropped row has empty ones
at its end. Empty slots are masked for that row, and positions count real tokens only. Rows of one length have no empty
slots and run without a mask, as `transformers` itself would run them. `SeparateSession` reads its rows one by one, for
models whose memory has no slots that could be empty: sliding windows, recurrent layers, biases by distance. Models
without a usable cache run in a `RereadingSession`.
Invariant: a row's logits are those of one forward pass over its own tokens, up to the rounding of the kernels.
Cost: a forward pass per `append`; a copy of the cache when rows leave or many slots are empty.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import Cache, DynamicCache

from structgen.errors import ModelError
from structgen.protocols import Session, SessionCapabilities

from .caches import NoCache, forgets, kinds_of_layers, memory_of, parameters_of, positions, reads_trees
from .tree_checks import check_decided, check_path, check_trees

if TYPE_CHECKING:
    from .rereading import RereadingSession

__all__ = ["BatchedSession", "CachedSession", "SeparateSession", "Tokens", "start_session", "to_numpy"]

# A shared prefix of the prompts is read once for all rows if it has at least this many tokens; less does not pay.
_SHORTEST_SHARED = 16
# The fraction of empty slots at which the cache is packed.
_MOST_WASTE = 0.25

Tokens = Sequence[Sequence[int]]


def start_session(
    model: Any, size: int, prompts: Tokens
) -> BatchedSession | SeparateSession | RereadingSession:
    """Prefill one row per prompt and return the session that fits the model."""
    from .rereading import RereadingSession

    if not all(prompts):
        raise ModelError("a prompt has no tokens", hint="Every row needs at least one token to start from.")
    kept = memory_of(model, size)
    if kept.argument is not None:
        kind = BatchedSession if kept.has_slots else SeparateSession
        try:
            return kind(model, size, prompts)
        except NoCache:
            forgets(model, size)
    return RereadingSession(model, size, prompts)


class CachedSession(Session):
    """What the sessions share: the model, each row's tokens and last logits, conversions of logits."""

    def __init__(self, model: Any, size: int, rows: int) -> None:
        self._model = model
        self._size = size
        self._keeps_last = "logits_to_keep" in parameters_of(model)
        self._cache_argument = memory_of(model, size).argument or ""
        self._tokens: list[list[int]] = [[] for _ in range(rows)]
        self._last = torch.zeros((rows, size), dtype=model.dtype, device=model.device)
        self._array: NDArray[np.float32] | None = None
        self._stale: set[int] = set()
        """Rows that were cropped: their logits are read again when they are needed."""
        self.keeps_hidden = False
        """Whether hidden states are kept, for drafters that use them."""
        self._read_hidden: torch.Tensor | None = None
        self._capabilities = SessionCapabilities(scores_runs=True)

    @property
    def capabilities(self) -> SessionCapabilities:
        """See `Session.capabilities`."""
        return self._capabilities

    def logits(self) -> NDArray[np.float32]:
        """See `Session.logits`; on a CPU in float32 the model's own array, not a copy."""
        tensor = self.logits_tensor()
        if self._array is None:
            self._array = to_numpy(tensor)
        return self._array

    def logits_tensor(self) -> torch.Tensor:
        """Return the logits on the model's device, in its own precision."""
        if self._stale:
            self._read_again()
        return self._last

    def append(self, tokens: Tokens) -> None:
        """See `Session.append`."""
        self._read(tokens, every=False)

    def append_scored(self, tokens: Tokens) -> list[NDArray[np.float32]]:
        """See `Session.append_scored`."""
        return [to_numpy(scores) for scores in self._read(tokens, every=True)]

    def _read(self, tokens: Tokens, *, every: bool) -> list[torch.Tensor]:
        """Read tokens; return the logits after each new token of each row if `every`."""
        raise NotImplementedError

    def _read_again(self) -> None:
        raise NotImplementedError

    def _check_rows(self, tokens: Sequence[Any]) -> None:
        if len(tokens) != len(self._tokens):
            raise ModelError(f"the session has {len(self._tokens)} rows, not {len(tokens)}")

    def _check_length(self, row: int, n: int) -> None:
        held = len(self._tokens[row])
        if not 0 <= n <= held:
            raise ModelError(f"cannot roll back {n} tokens of row {row}, which has {held}")

    def _forward(self, ids: torch.Tensor, cache: Any, keep: int, **inputs: Any) -> torch.Tensor:
        """Return the logits of the last `keep` positions."""
        device = self._model.device
        if self._keeps_last:
            inputs["logits_to_keep"] = keep
        if self.keeps_hidden:
            inputs["output_hidden_states"] = True
        inputs[self._cache_argument] = cache
        with torch.inference_mode():
            output = self._model(input_ids=ids.to(device), use_cache=True, **inputs)
            if not isinstance(getattr(output, self._cache_argument, None), Cache):
                raise NoCache
            logits: torch.Tensor = output.logits[:, -keep:, : self._size]
            self._read_hidden = output.hidden_states[-1] if self.keeps_hidden else None
        return logits


@dataclass
class _Undecided:
    """A tree that was read and for which `keep` was not called yet."""

    tokens: list[int]
    parents: list[int]
    run: int
    """The number of tokens before it in the same pass."""
    logits: torch.Tensor


class BatchedSession(CachedSession):
    """All rows in one cache, one forward pass for all of them."""

    def __init__(self, model: Any, size: int, prompts: Tokens) -> None:
        shared = _shared_length(prompts)
        is_shared = shared >= _SHORTEST_SHARED
        super().__init__(model, size, 1 if is_shared else len(prompts))
        self._capabilities = SessionCapabilities(
            scores_runs=True,
            reads_trees=reads_trees(model),
            crops_cheaply=True,
            takes_padding=True,
            hidden_states=True,
            joins=True,
            forks=True,
        )
        self._undecided: dict[int, _Undecided] = {}
        self._hidden_at: list[list[int]] = [[] for _ in self._tokens]
        """Where the last pass read the last tokens of each row, as far as it did."""
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
        self._hidden_at = [list(self._hidden_at[row]) for row in rows]
        if self._read_hidden is not None:
            self._read_hidden = self._read_hidden[index]
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
        self._hidden_at += [[] for _ in other._tokens]
        self._read_hidden = None

    def rollback(self, row: int, n: int) -> None:
        """See `Session.rollback`."""
        self._check_decided()
        self._check_length(row, n)
        if n:
            self._take_back(row, n)
            self._stale.add(row)
            del self._hidden_at[row][-n:]

    def append_trees(
        self, tokens: Tokens, trees: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> list[NDArray[np.float32]]:
        """See `Session.append_trees`."""
        self._check_rows(tokens)
        self._check_rows(trees)
        self._check_decided()
        check_trees(trees)
        longest = max(
            (len(run) + len(nodes) for run, (nodes, _) in zip(tokens, trees, strict=True)), default=0
        )
        logits = self._last.new_empty((len(tokens), 0, self._size))
        if longest:
            self._pack()
            ids, real, inputs = self._lay_out_trees(tokens, trees, longest)
            logits = self._forward(ids, self._cache, longest, **inputs)
            self._filled = np.concatenate([self._filled, real], axis=1)
            # subtle: `keep` writes to the last logits, which may be part of what was returned before.
            self._last, self._array = self._last.clone(), None
            self._hidden_at = [[] for _ in tokens]
        scores = []
        for row, (run, (nodes, parents)) in enumerate(zip(tokens, trees, strict=True)):
            read = logits[row, longest - len(run) - len(nodes) :]
            self._tokens[row].extend(run)
            self._undecided[row] = _Undecided(list(nodes), list(parents), len(run), read)
            scores.append(to_numpy(read))
        return scores

    def keep(self, row: int, nodes: Sequence[int]) -> None:
        """See `Session.keep`."""
        tree = self._undecided.get(row)
        check_path(row, None if tree is None else tree.parents, nodes)
        tree = self._undecided.pop(row)
        end, size = self._filled.shape[1], len(tree.tokens)
        self._filled[row, end - size :] = False
        self._filled[row, [end - size + node for node in nodes]] = True
        self._tokens[row].extend(tree.tokens[node] for node in nodes)
        last = (tree.run + nodes[-1] if nodes else tree.run - 1) if tree.run or nodes else None
        if last is not None:
            with torch.inference_mode():
                self._last[row] = tree.logits[last]
            self._array = None
            self._stale.discard(row)
        if self._read_hidden is not None and len(tree.logits):
            first = self._read_hidden.shape[1] - size
            self._hidden_at[row] = [*range(first - tree.run, first), *(first + node for node in nodes)]
        if not self._undecided:
            if len(self._tokens) == 1:
                self._close_up(end - size, list(nodes))
            self._crop_unused()

    def hidden(self) -> list[NDArray[np.float32] | None]:
        """See `Session.hidden`."""
        self._check_decided()
        read = self._read_hidden
        if read is None:
            return [None] * len(self._tokens)
        return [to_numpy(read[row, at[-1]]) if at else None for row, at in enumerate(self._hidden_at)]

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

    def _check_decided(self) -> None:
        check_decided(self._undecided)

    def _take_back(self, row: int, n: int) -> None:
        held = np.flatnonzero(self._filled[row])
        self._filled[row, held[len(held) - n :]] = False
        del self._tokens[row][len(self._tokens[row]) - n :]
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
        self._hidden_at = [list(range(longest - len(new), longest)) for new in tokens]
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
        if self._is_even or longest == slots or (slots - longest <= _MOST_WASTE * slots and not is_even):
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


class SeparateSession(CachedSession):
    """One cache per row, one forward pass per row."""

    def __init__(self, model: Any, size: int, prompts: Tokens) -> None:
        super().__init__(model, size, len(prompts))
        kinds = kinds_of_layers(model)
        self._memory = memory_of(model, size)
        crops_cheaply = kinds <= {"DynamicLayer", "DynamicSlidingWindowLayer"}  # others are rebuilt
        self._capabilities = SessionCapabilities(
            scores_runs=True, crops_cheaply=crops_cheaply, joins=True, draft_limit=self._memory.same_up_to
        )
        self._slides = crops_cheaply and kinds != {"DynamicLayer"}
        self._caches: list[Any] = [self._cache() for _ in prompts]
        self._owed = [0 for _ in prompts]
        """Tokens that the cache still has and the row has not. With sliding windows they are cropped before the next
        pass, because only until then does the cache hold what slid out of the window."""
        self._fresh = [0 for _ in prompts]
        """The number of tokens of each row in the last pass."""
        self.append(prompts)

    def select(self, rows: Sequence[int]) -> None:
        """See `Session.select`."""
        taken: set[int] = set()
        caches = []
        for row in rows:
            caches.append(copy.deepcopy(self._caches[row]) if row in taken else self._caches[row])
            taken.add(row)
        self._caches = caches
        self._owed = [self._owed[row] for row in rows]
        self._fresh = [self._fresh[row] for row in rows]
        self._tokens = [list(self._tokens[row]) for row in rows]
        self._stale = {index for index, row in enumerate(rows) if row in self._stale}
        self._last, self._array = self._last[list(rows)], None

    def join(self, other: SeparateSession) -> None:
        """See `Session.join`."""
        held = len(self._tokens)
        self._caches += other._caches
        self._owed += other._owed
        self._fresh += other._fresh
        self._tokens += other._tokens
        self._stale |= {held + row for row in other._stale}
        self._last, self._array = torch.cat([self._last, other._last]), None

    def rollback(self, row: int, n: int) -> None:
        """See `Session.rollback`. A memory that cannot be cropped so far is rebuilt from the tokens."""
        self._check_length(row, n)
        if n:
            self._take_back(row, n)
            self._stale.add(row)

    def _cache(self) -> Any:
        cache = DynamicCache(config=self._model.config)
        if self._slides:
            cache.activate_past_recording()
        return cache

    def _take_back(self, row: int, n: int) -> None:
        del self._tokens[row][len(self._tokens[row]) - n :]
        if self._slides:
            self._owed[row] += n
            if self._owed[row] > self._fresh[row]:
                self._rebuild(row)
            return
        try:
            self._caches[row].crop(-n)
        except RuntimeError:
            self._rebuild(row)

    def _rebuild(self, row: int) -> None:
        self._caches[row] = self._cache()
        self._owed[row], self._fresh[row] = 0, len(self._tokens[row])
        if self._tokens[row]:
            self._forward(torch.tensor([self._tokens[row]]), self._caches[row], 1)

    def _crop_owed(self, row: int, new: int) -> None:
        """Before a pass, crop the owed tokens and drop what slid out of the window."""
        if self._slides and self._fresh[row]:
            self._caches[row].crop(-self._owed[row])
        self._owed[row], self._fresh[row] = 0, new

    def _read_again(self) -> None:
        for row in sorted(self._stale):
            if not self._tokens[row]:
                raise ModelError(
                    "a row without tokens has no logits", hint="Append tokens after a rollback to nothing."
                )
            last = self._tokens[row][-1]
            self._take_back(row, 1)
            self._read([[last] if index == row else [] for index in range(len(self._tokens))], every=False)

    def _read(self, tokens: Tokens, *, every: bool) -> list[torch.Tensor]:
        self._check_rows(tokens)
        scores = []
        last = list(self._last)
        for row, new in enumerate(tokens):
            if not new:
                scores.append(self._last.new_empty((0, self._size)))
                continue
            self._crop_owed(row, len(new))
            logits = self._read_row(row, new, every)
            self._tokens[row].extend(new)
            self._stale.discard(row)
            last[row] = logits[-1]
            scores.append(logits)
        self._last, self._array = torch.stack(last), None
        return scores if every else []

    def _read_row(self, row: int, new: Sequence[int], every: bool) -> torch.Tensor:
        start = len(self._tokens[row])
        runs = [list(new)] if self._memory.reads_runs or not start else [[token] for token in new]
        logits = []
        for run in runs:
            inputs = {}
            if self._memory.wants_positions:
                inputs["position_ids"] = positions(start, len(run)).to(self._model.device)
            keep = len(run) if every else 1
            logits.append(self._forward(torch.tensor([run]), self._caches[row], keep, **inputs)[0])
            start += len(run)
        return torch.cat(logits)


def _shared_length(prompts: Tokens) -> int:
    """Return the length of the common prefix of all prompts; 0 for a single one."""
    if len(prompts) < 2:
        return 0
    first, last = min(map(list, prompts)), max(map(list, prompts))
    pairs = zip(first, last, strict=False)
    return next((index for index, (one, other) in enumerate(pairs) if one != other), len(first))


def _stacked(one: torch.Tensor, other: torch.Tensor, slots: int) -> torch.Tensor:
    """Return keys or values of two caches, ``[rows, heads, slots, size]``, as one; both end at the last slot."""
    rows = len(one) + len(other)
    stacked = one.new_zeros((rows, one.shape[1], slots, one.shape[3]))
    stacked[: len(one), :, slots - one.shape[2] :] = one
    stacked[len(one) :, :, slots - other.shape[2] :] = other
    return stacked


def _widened(filled: NDArray[np.bool_], slots: int) -> NDArray[np.bool_]:
    """Return the flags with empty slots before the others."""
    return np.pad(filled, ((0, 0), (slots - filled.shape[1], 0)))


def to_numpy(logits: torch.Tensor) -> NDArray[np.float32]:
    """Return a float32 array in the memory of the CPU, of the same shape."""
    array: NDArray[np.float32] = logits.float().cpu().numpy()
    return array
