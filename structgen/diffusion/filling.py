"""Filling a canvas with a masked diffusion model, step by step.

Why: two tokens that are allowed in their cells separately need not be allowed together. So tokens are committed one
after the other, the most confident one first, each under the masks that the commits before it leave.
Invariant: after every commit the canvas can be completed, so decoding always ends with a text. Masks only shrink while
cells are filled, and confidences do not depend on them. So a candidate is tested against an older mask first: a token
outside it needs no further test, and if the core refuses a token, the cell's next candidate is tried.
Cost: besides the model, a chart of the canvas for each token that differs from all cached completions.
Source: Nie et al. 2025 (LLaDA, arXiv 2502.09992) for the loop.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.argument_names import checks_names
from structgen.brief import short_repr
from structgen.errors import OptionError
from structgen.generation.results import Timing

from .canvas import Canvas
from .judging import CanvasMonitor
from .model import DiffusionModel, check_model, read_logits
from .options import DecodingOptions
from .schedules import confidences

__all__ = ["Filling", "fill"]

Array = NDArray[np.float64]
_MIN_LOG_PROB = -1e5
"""A log probability that is practically minus infinity."""
_MOST_REFUSED = 64
"""The number of tokens of one cell that a monitor may refuse in one step before it is overruled."""


@short_repr
@dataclass
class Filling:
    """The result of filling a canvas."""

    text: str
    tokens: list[int]
    canvas: Canvas
    steps: int = 0
    """The number of forward passes of the model."""
    order: list[int] = field(default_factory=list)
    """The cells in the order in which they were filled."""
    refused: int = 0
    """The number of tokens that were tried and refused."""
    drafted: int = 0
    accepted: int = 0
    """The number of drafted commits, and of those that the model confirmed."""
    reopened: int = 0
    """The number of cells that remasking opened again."""
    repaired: int = 0
    """The number of repairs, in which a monitor found a fault in the finished text and cells were opened again."""
    is_right: bool | None = None
    """The monitor's verdict on the final text; None without a monitor."""
    faults: list[int] = field(default_factory=list)
    """The cells that it found wrong."""
    overruled: list[int] = field(default_factory=list)
    """Cells with a token that the monitor refused, because it refused all tokens of the cell, or very many."""
    ended_early: bool = False
    timing: Timing = field(default_factory=Timing)

    @property
    def reason(self) -> str | None:
        """Why the text is not right; None if it is, or without a monitor."""
        if self.is_right is not False:
            return None
        reasons = [f"the monitor finds a fault in {_listed(self.faults)}"]
        if self.repaired:
            reasons.append(f"{self.repaired} repairs did not help")
        if self.overruled:
            reasons.append(f"it refused the content of {_listed(self.overruled)}, and nearly all else there")
        return "; ".join(reasons)

    def frames(self, count: int = 8, hole: str = "░") -> list[str]:
        """Return the canvas at `count` moments of its filling, the first and the last included."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 2:
            raise OptionError(f"count is {count!r:.40}; it must be a whole number of 2 or more")
        whole = self.canvas.tokens
        moments = sorted({round(n * len(self.order) / (count - 1)) for n in range(count)})
        shown = []
        for moment in moments:
            later = set(self.order[moment:])  # a cell that was opened again is open until its last commit
            shown.append(
                b"".join(
                    hole.encode()
                    if token is None or cell in later
                    else b""
                    if token in self.canvas.closing
                    else self.canvas.vocabulary.token_bytes(token) or b""
                    for cell, token in enumerate(whole)
                ).decode("utf-8", "replace")
            )
        return shown


@checks_names
def fill(
    model: DiffusionModel,
    canvas: Canvas,
    prompt: object = None,
    *,
    monitor: CanvasMonitor | None = None,
    repairs: int = 8,
    **options: Any,
) -> Filling:
    """Fill the open cells of a canvas, which is not changed.

        fill(model, Canvas(sg.grammar("smiles"), model.vocabulary, [Hole(32)]), tokens_per_step=2)

    Args:
        model: A masked diffusion model.
        canvas: A canvas of the model's vocabulary, without holes of varying length and gaps.
        prompt: What the model reads before the canvas, in the form that its `frame` takes.
        monitor: Judges tokens before they are committed, and the finished text. What it finds wrong is opened again,
            and `Filling.is_right` has its verdict on the final text.
        repairs: The largest number of such repairs.
        options: The fields of `DecodingOptions`.

    Returns:
        The filled canvas with statistics.

    Raises:
        CanvasInfeasible: No text fits; raised before the model runs.
        OptionError: An argument is not valid.
    """
    chosen = DecodingOptions.of(options)
    check_model(model)
    if isinstance(repairs, bool) or not isinstance(repairs, int) or repairs < 0:
        raise OptionError(f"repairs is {repairs!r:.40}; it must be a whole number of 0 or more")
    if (
        canvas.vocabulary is not model.vocabulary
        and canvas.vocabulary.fingerprint != model.vocabulary.fingerprint
    ):
        raise OptionError(
            "the canvas is of another vocabulary than the model", hint="Give it model.vocabulary."
        )
    canvas.check()
    if not canvas.is_exact:
        raise OptionError(
            "a diffusion model fills each cell with one token; this canvas has holes or gaps of any length",
            hint="Give the number of cells: Hole(n), with closing tokens for texts that may be shorter.",
        )
    return _Run(model, canvas.fork(), prompt, chosen, monitor, repairs).filled()


class _State:
    """A canvas with its masks as of the last query, or smaller ones."""

    def __init__(self, canvas: Canvas, allowed: NDArray[np.bool_] | None = None) -> None:
        self.canvas = canvas
        self.allowed = _allowed(canvas) if allowed is None else allowed

    def fork(self) -> _State:
        return _State(self.canvas.fork(), self.allowed.copy())

    def commit(self, cell: int, token: int) -> bool:
        if not self.canvas.commit(cell, token):
            self.allowed = _allowed(self.canvas)  # the core computed the masks when it refused the token
            return False
        self.allowed[cell] = False
        self.allowed[cell, token] = True
        return True


class _Run:
    """The state of one call of `fill`."""

    def __init__(
        self,
        model: DiffusionModel,
        canvas: Canvas,
        prompt: object,
        options: DecodingOptions,
        monitor: CanvasMonitor | None,
        repairs: int,
    ) -> None:
        self.model, self.options, self.monitor, self.repairs = model, options, monitor, repairs
        self.before, self.after = model.frame(prompt)
        self.filling = Filling("", [], canvas)
        self.state = _State(canvas)
        self.count = len(canvas.open_cells)
        self.sureness: dict[int, float] = {}
        self.reopened: set[int] = set()
        self.first_open = canvas.open_cells
        self.banned: dict[int, set[int]] = {}
        self.overruled: dict[int, int] = {}
        """Tokens that were committed although the monitor refused them, by cell."""

    def filled(self) -> Filling:
        started = time.perf_counter()
        found = self.filling
        while True:
            self._fill()
            if self._is_done():
                break
        found.canvas = self.state.canvas
        found.tokens = [token for token in found.canvas.tokens if token is not None]
        found.text = found.canvas.text()
        # Cells may have been opened again since, and drafts discarded.
        found.overruled = [
            cell for cell, token in sorted(self.overruled.items()) if found.canvas.tokens[cell] == token
        ]
        found.timing.total = time.perf_counter() - started
        return found

    def _fill(self) -> None:
        found = self.filling
        logits: NDArray[np.float32] | None = None
        while self.state.canvas.open_cells:
            if logits is None:
                logits = self._read([self.state.canvas])[0]
            before, in_model = time.perf_counter(), found.timing.model
            if self._ends_early(logits):
                self._finish(logits)
            elif self.options.draft:
                logits = self._drafted(logits)
            else:
                found.order += self._step(self.state, logits)
                self._reopen()
                logits = None
            found.timing.constraint += time.perf_counter() - before - (found.timing.model - in_model)

    def _is_done(self) -> bool:
        """Return whether the text is final; otherwise open cells again for a repair."""
        if self.monitor is None:
            return True
        tokens = [token for token in self.state.canvas.tokens if token is not None]
        faults = set(self.monitor.faults(tokens))
        self.filling.is_right = not faults
        self.filling.faults = sorted(faults)
        if not faults or self.filling.repaired >= self.repairs:
            return True
        canvas = self.state.canvas
        for cell in faults & set(self.first_open):
            self.banned.setdefault(cell, set()).add(tokens[cell])
        # The range around a fault grows with each repair, since its cause may be there.
        reach = self.filling.repaired
        for cell in self.first_open:
            if any(abs(cell - fault) <= reach for fault in faults):
                canvas.reopen(cell)
        self.filling.repaired += 1
        self.state = _State(canvas)
        return not canvas.open_cells

    # -- one step

    def _step(self, state: _State, logits: NDArray[np.float32]) -> list[int]:
        """Commit the most confident candidates; return the cells that were filled, in order."""
        options, canvas = self.options, state.canvas
        cells = self._active(canvas)
        log_p = _log_softmax(logits[cells])
        # The same seed for the same text, in any order of commits; another one after cells were opened again.
        again = self.filling.reopened + self.filling.repaired
        chance = np.random.default_rng([options.seed, self.count - len(canvas.open_cells), again])
        scores = log_p
        if options.temperature:
            scores = log_p / options.temperature + chance.gumbel(size=log_p.shape)
        wanted = self._likeliest(canvas, logits) if options.joint else None
        banned = {cell: set(self.banned.get(cell, ())) for cell in cells}
        tokens = [
            _best(scores[row], state.allowed[cell], banned[cell])
            if wanted is None
            else int(wanted[cell] or 0)
            for row, cell in enumerate(cells)
        ]
        likely = [0] * len(canvas)
        for cell, token in zip(cells, tokens, strict=True):
            likely[cell] = token
        canvas.prefer(likely)
        sure = confidences(options.schedule, log_p, tokens, cells, chance)
        heap = [(-sure[row], row) for row in range(len(cells))]
        heapq.heapify(heap)
        threshold = np.inf if options.threshold is None else np.log(max(options.threshold, 1e-300))
        filled: list[int] = []
        while heap:
            _, row = heapq.heappop(heap)
            if len(filled) >= options.tokens_per_step and log_p[row, tokens[row]] < threshold:
                continue
            cell = cells[row]
            if self._agrees(state, cell, tokens[row], banned[cell]) and state.commit(cell, tokens[row]):
                filled.append(cell)
                self.sureness[cell] = float(log_p[row, tokens[row]])
                continue
            self.filling.refused += 1
            tokens[row] = _best(scores[row], state.allowed[cell], banned[cell])
            surer = confidences(options.schedule, log_p[[row]], [tokens[row]], [cell], chance)[0]
            heapq.heappush(heap, (-surer if options.schedule != "random" else -sure[row], row))
        return filled

    def _agrees(self, state: _State, cell: int, token: int, banned: set[int]) -> bool:
        """Return whether the monitor allows the token, or is overruled because it refuses very many of the cell."""
        if self.monitor is None:
            return True
        if token not in banned and len(banned) < _MOST_REFUSED:
            if self.monitor.allows(state.canvas.tokens, cell, token):
                return True
            banned.add(token)
            return False
        if not self.monitor.allows(state.canvas.tokens, cell, token):
            self.overruled[cell] = token
        return True

    def _active(self, canvas: Canvas) -> list[int]:
        """Return the open cells of the first block that has some."""
        cells = canvas.open_cells
        if self.options.block is None:
            return cells
        block = cells[0] // self.options.block
        return [cell for cell in cells if cell // self.options.block == block]

    def _likeliest(self, canvas: Canvas, logits: NDArray[np.float32]) -> list[int | None]:
        """Return the most probable completion; tokens ruled out by model or monitor are used only if necessary."""
        log_p = np.maximum(_log_softmax(logits), _MIN_LOG_PROB).astype(np.float32)
        for cell, tokens in self.banned.items():
            log_p[cell, list(tokens)] = 2 * _MIN_LOG_PROB
        found = canvas.best(log_p)
        assert found is not None  # the canvas has a completion, and all weights are finite
        return found[0]

    # -- speed-ups and remasking

    def _ends_early(self, logits: NDArray[np.float32]) -> bool:
        if self.options.early is None:
            return False
        cells = self.state.canvas.open_cells
        best = np.partition(logits[cells], -2, axis=1)[:, -2:]
        third = min(2, 3 * (self.count - len(cells)) // max(1, self.count))
        return bool((best[:, 1] - best[:, 0]).mean() >= self.options.early[third])

    def _finish(self, logits: NDArray[np.float32]) -> None:
        """Fill all open cells with the most probable completion."""
        for cell, token in enumerate(self._likeliest(self.state.canvas, logits)):
            if token is not None and self.state.canvas.is_open(cell):
                self.state.commit(cell, token)
                self.filling.order.append(cell)
        self.filling.ended_early = True

    def _drafted(self, logits: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """Commit one cell, and as many drafted ones as the model confirms; return the logits after the last."""
        drafts: list[tuple[_State, list[int]]] = []
        state = self.state
        for _ in range(self.options.draft + 1):
            if not state.canvas.open_cells:
                break
            state = state.fork()
            drafts.append((state, self._step(state, logits)))
        # After a text that is complete the model need not be read.
        canvases = [draft.canvas for draft, _ in drafts if draft.canvas.open_cells]
        read = self._read(canvases) if canvases else None
        self.filling.drafted += len(drafts) - 1
        self.state, filled = drafts[0]
        self.filling.order += filled
        for index, (drafted, _) in enumerate(drafts[1:]):
            assert read is not None
            true = self.state.fork()
            filled = self._step(true, read[index])
            self.state = true
            self.filling.order += filled
            if true.canvas.tokens != drafted.canvas.tokens:
                return None
            self.filling.accepted += 1
        if read is None or len(canvases) < len(drafts):
            return None
        last: NDArray[np.float32] = read[-1]
        return last

    def _reopen(self) -> None:
        """Open the cells with the lowest confidence again, each at most once."""
        share = self.options.remask
        canvas = self.state.canvas
        if not share or not canvas.open_cells:
            return
        held = [cell for cell in self.sureness if not canvas.is_open(cell) and cell not in self.reopened]
        for cell in sorted(held, key=lambda candidate: self.sureness[candidate])[: int(share * len(held))]:
            canvas.reopen(cell)
            self.reopened.add(cell)
            self.filling.reopened += 1
        self.state.allowed = _allowed(canvas)

    def _read(self, canvases: Sequence[Canvas]) -> NDArray[np.float32]:
        before = time.perf_counter()
        cells = [
            [self.model.mask_id if token is None else token for token in canvas.tokens] for canvas in canvases
        ]
        found = read_logits(self.model, self.before, cells, self.after)
        self.filling.steps += 1
        self.filling.timing.forward_passes += 1
        self.filling.timing.model += time.perf_counter() - before
        return found


def _allowed(canvas: Canvas) -> NDArray[np.bool_]:
    bits = np.unpackbits(canvas.masks().view(np.uint8), axis=1, bitorder="little")
    return bits[:, : canvas.vocabulary.size].astype(bool)


def _listed(cells: Sequence[int]) -> str:
    named = ", ".join(map(str, cells[:8]))
    return f"cell{'s' * (len(cells) > 1)} {named}{', ...' * (len(cells) > 8)}"


def _best(scores: Array, allowed: NDArray[np.bool_], banned: Collection[int] = ()) -> int:
    """Return the allowed token with the greatest score.

    One without probability is returned if there is no other, and a banned one if all are banned.
    """
    masked = np.where(allowed, scores, -np.inf)
    if banned and not set(np.flatnonzero(allowed).tolist()) <= set(banned):
        masked[list(banned)] = -np.inf
        allowed = allowed.copy()
        allowed[list(banned)] = False
    token = int(masked.argmax())
    return token if allowed[token] else int(allowed.argmax())


def _log_softmax(logits: NDArray[np.float32]) -> Array:
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    log_p: Array = wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True))
    return log_p
