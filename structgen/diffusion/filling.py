"""Filling a canvas with a masked diffusion model: which token goes into which cell, step by step.

Why: what is allowed in each of two cells alone need not be allowed in both, so tokens are committed one after the
other, the surest first, each under the masks that the ones before it leave.
Invariant: after every commit the canvas can be completed, so no decoding ends without a text. Masks only shrink while
cells are filled and confidences do not depend on them, so a candidate is tried under an older mask first: what it lacks
needs no question, and what the core refuses is struck out and the cell's next one tried.
Cost: beside the model, a chart of the canvas for a token that no completion at hand agrees with.
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
_NEVER = -1e5
"""The log of a probability that counts for nothing."""
_MOST_REFUSED = 64
"""Tokens of one cell that a monitor refuses in one step, before it is overruled."""


@short_repr
@dataclass
class Filling:
    """A canvas that a model has filled."""

    text: str
    tokens: list[int]
    canvas: Canvas
    steps: int = 0
    """Passes of the model."""
    order: list[int] = field(default_factory=list)
    """The cells in the order in which they were filled."""
    refused: int = 0
    """Tokens that were tried and could not stand."""
    drafted: int = 0
    taken: int = 0
    """Commits that were drafted, and those that the model agreed with."""
    reopened: int = 0
    """Cells that were taken back."""
    repaired: int = 0
    """How often cells were opened again because a monitor found a fault in the finished text."""
    is_right: bool | None = None
    """What the monitor says of the text at last; None: there is none."""
    faults: list[int] = field(default_factory=list)
    """The cells that it finds wrong."""
    overruled: list[int] = field(default_factory=list)
    """Cells that hold a token which the monitor refused: it refused all that may stand there, or very many."""
    ended_early: bool = False
    timing: Timing = field(default_factory=Timing)

    @property
    def reason(self) -> str | None:
        """Why the text is not right; None where it is, or nobody was asked."""
        if self.is_right is not False:
            return None
        told = [f"the monitor finds a fault in {_listed(self.faults)}"]
        if self.repaired:
            told.append(f"opened again {self.repaired} times in vain")
        if self.overruled:
            told.append(f"it refused what is in {_listed(self.overruled)}, and nearly all else there")
        return "; ".join(told)

    def frames(self, count: int = 8, hole: str = "░") -> list[str]:
        """The canvas while it was filled: so many moments at most, the first and the last of them included."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 2:
            raise OptionError(f"count is {count!r:.40}; a canvas has 2 frames at least")
        whole = self.canvas.tokens
        moments = sorted({round(n * len(self.order) / (count - 1)) for n in range(count)})
        shown = []
        for moment in moments:
            later = set(self.order[moment:])  # a cell that was taken back is open until it is filled for good
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
    prompt: Any = None,
    *,
    monitor: CanvasMonitor | None = None,
    repairs: int = 8,
    **options: Any,
) -> Filling:
    """Fill the open cells of a canvas, which is left as it was.

        fill(model, Canvas(sg.grammar("smiles"), model.vocabulary, [Hole(32)]), tokens_per_step=2)

    Options are those of `DecodingOptions`. A `monitor` is asked about tokens before they are committed, and about the
    finished text: what it finds wrong is opened again, `repairs` times at most, and `Filling.is_right` has its last
    word. Raises `CanvasInfeasible` before the model is run if no text fits.
    """
    chosen = DecodingOptions.of(options)
    check_model(model)
    if isinstance(repairs, bool) or not isinstance(repairs, int) or repairs < 0:
        raise OptionError(f"repairs is {repairs!r:.40}; it is a whole number, 0 at least")
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
    """A canvas with what was allowed in each cell when that was last asked for, or less."""

    def __init__(self, canvas: Canvas, allowed: NDArray[np.bool_] | None = None) -> None:
        self.canvas = canvas
        self.allowed = _allowed(canvas) if allowed is None else allowed

    def fork(self) -> _State:
        return _State(self.canvas.fork(), self.allowed.copy())

    def commit(self, cell: int, token: int) -> bool:
        if not self.canvas.commit(cell, token):
            self.allowed = _allowed(self.canvas)  # found out when the token was refused
            return False
        self.allowed[cell] = False
        self.allowed[cell, token] = True
        return True


class _Run:
    """One canvas while it is filled."""

    def __init__(
        self,
        model: DiffusionModel,
        canvas: Canvas,
        prompt: Any,
        options: DecodingOptions,
        monitor: CanvasMonitor | None,
        repairs: int,
    ) -> None:
        self.model, self.options, self.monitor, self.repairs = model, options, monitor, repairs
        self.before, self.behind = model.frame(prompt)
        self.filling = Filling("", [], canvas)
        self.state = _State(canvas)
        self.count = len(canvas.open_cells)
        self.sureness: dict[int, float] = {}
        self.reopened: set[int] = set()
        self.first_open = canvas.open_cells
        self.banned: dict[int, set[int]] = {}
        self.overruled: dict[int, int] = {}
        """Tokens that were put in although the monitor refused them, by cell."""

    def filled(self) -> Filling:
        begun = time.perf_counter()
        found = self.filling
        while True:
            self._fill()
            if self._is_done():
                break
        found.canvas = self.state.canvas
        found.tokens = [token for token in found.canvas.tokens if token is not None]
        found.text = found.canvas.text()
        # Cells may have been opened again since, and drafts thrown away.
        found.overruled = [
            cell for cell, token in sorted(self.overruled.items()) if found.canvas.tokens[cell] == token
        ]
        found.timing.total = time.perf_counter() - begun
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
        """Is there nothing to mend, or no more of that to do? Otherwise cells are opened again."""
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
        # Ever more around a fault, since its cause may be there.
        reach = self.filling.repaired
        for cell in self.first_open:
            if any(abs(cell - fault) <= reach for fault in faults):
                canvas.reopen(cell)
        self.filling.repaired += 1
        self.state = _State(canvas)
        return not canvas.open_cells

    # -- one step

    def _step(self, state: _State, logits: NDArray[np.float32]) -> list[int]:
        """Commit the surest candidates; the cells that were filled, in order."""
        options, canvas = self.options, state.canvas
        cells = self._active(canvas)
        log_p = _log_softmax(logits[cells])
        # The same for the same text, however it was come to; another where cells were taken back.
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
        """Has the monitor nothing against it, or against very many that may stand there?"""
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
        """The open cells of the first block that has some."""
        cells = canvas.open_cells
        if self.options.block is None:
            return cells
        block = cells[0] // self.options.block
        return [cell for cell in cells if cell // self.options.block == block]

    def _likeliest(self, canvas: Canvas, logits: NDArray[np.float32]) -> list[int | None]:
        """The tokens of the most likely completion; what the model, or a monitor, rules out is in none but by need."""
        log_p = np.maximum(_log_softmax(logits), _NEVER).astype(np.float32)
        for cell, tokens in self.banned.items():
            log_p[cell, list(tokens)] = 2 * _NEVER
        found = canvas.best(log_p)
        assert found is not None  # the canvas can be completed, and all weights are finite
        return found[0]

    # -- ways to be faster, and to take back

    def _ends_early(self, logits: NDArray[np.float32]) -> bool:
        if self.options.early is None:
            return False
        cells = self.state.canvas.open_cells
        best = np.partition(logits[cells], -2, axis=1)[:, -2:]
        third = min(2, 3 * (self.count - len(cells)) // max(1, self.count))
        return bool((best[:, 1] - best[:, 0]).mean() >= self.options.early[third])

    def _finish(self, logits: NDArray[np.float32]) -> None:
        """Fill all that is open by the most likely completion."""
        for cell, token in enumerate(self._likeliest(self.state.canvas, logits)):
            if token is not None and self.state.canvas.is_open(cell):
                self.state.commit(cell, token)
                self.filling.order.append(cell)
        self.filling.ended_early = True

    def _drafted(self, logits: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """Commit one cell, and as many drafted ones as the model agrees with; the logits behind the last."""
        drafts: list[tuple[_State, list[int]]] = []
        state = self.state
        for _ in range(self.options.draft + 1):
            if not state.canvas.open_cells:
                break
            state = state.fork()
            drafts.append((state, self._step(state, logits)))
        # Behind a text that is full there is nothing to ask the model.
        asked = [one.canvas for one, _ in drafts if one.canvas.open_cells]
        read = self._read(asked) if asked else None
        self.filling.drafted += len(drafts) - 1
        self.state, filled = drafts[0]
        self.filling.order += filled
        for place, (drafted, _) in enumerate(drafts[1:]):
            assert read is not None
            true = self.state.fork()
            filled = self._step(true, read[place])
            self.state = true
            self.filling.order += filled
            if true.canvas.tokens != drafted.canvas.tokens:
                return None
            self.filling.taken += 1
        if read is None or len(asked) < len(drafts):
            return None
        last: NDArray[np.float32] = read[-1]
        return last

    def _reopen(self) -> None:
        """Take the least sure tokens back, each once."""
        share = self.options.remask
        canvas = self.state.canvas
        if not share or not canvas.open_cells:
            return
        held = [cell for cell in self.sureness if not canvas.is_open(cell) and cell not in self.reopened]
        for cell in sorted(held, key=lambda one: self.sureness[one])[: int(share * len(held))]:
            canvas.reopen(cell)
            self.reopened.add(cell)
            self.filling.reopened += 1
        self.state.allowed = _allowed(canvas)

    def _read(self, canvases: Sequence[Canvas]) -> NDArray[np.float32]:
        before = time.perf_counter()
        cells = [
            [self.model.mask_id if token is None else token for token in canvas.tokens] for canvas in canvases
        ]
        found = read_logits(self.model, self.before, cells, self.behind)
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
    """The allowed token with the greatest score; one without a chance where there is no other, and one that is banned
    where all are."""
    masked = np.where(allowed, scores, -np.inf)
    if banned and not set(np.flatnonzero(allowed).tolist()) <= set(banned):
        masked[list(banned)] = -np.inf
        allowed = allowed.copy()
        allowed[list(banned)] = False
    found = int(masked.argmax())
    return found if allowed[found] else int(allowed.argmax())


def _log_softmax(logits: NDArray[np.float32]) -> Array:
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    found: Array = wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True))
    return found
