"""A model for samplers, whose passes run on the model's thread, between those of the batch.

Why: samplers (`structgen.sample`) drive sessions of their own, step by step. On the model's thread they would block all
requests until they end; on a thread of their own, two passes would run at the same time.
What: a forward pass gets at most `part()` tokens, or one token of each of a few rows. The batch runs a step after each
pass, so a sampler delays others no more than the prefill of a prompt does.
Cost: a thread switch per pass; the sampler and the batch each wait for one pass of the other. While rows move between
groups (see `_SharedSession`), the model's cache of some of them exists twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from structgen.protocols import Session, SessionCapabilities, capabilities_of
from structgen.vocabulary import Vocabulary

__all__ = ["SharedModel"]


class Run(Protocol):
    def __call__(self, function: Callable[[], Any], /, *, reads: bool = False) -> Any:
        """Run a function on the model's thread. `reads`: it is a forward pass, whose duration is measured."""


Part = Callable[[], int]

_MIN_ROWS = 16
"""Rows that every pass may read: a pass over fewer rows takes nearly as long."""
_TOKENS_PER_ROW = 2
"""Tokens of a prompt that cost about as much as one row of a pass."""


class SharedModel:
    """The model in the form that `structgen.sample` takes.

    Args:
        run: Runs a function on the thread of the model, between two passes of the batch.
        part: Returns the most tokens of one forward pass, over all rows.
    """

    def __init__(
        self, model: Any, vocabulary: Vocabulary, run: Run, part: Part, prompt: Sequence[int]
    ) -> None:
        self._model, self._run, self._part, self._prompt = model, run, part, list(prompt)
        self.vocabulary = vocabulary
        self.context_length = model.context_length

    def encode(self, prompt: Any) -> list[int]:
        """Return the tokens of the request's prompt; `prompt` is ignored."""
        return list(self._prompt)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids."""
        text: str = self._model.decode(ids)
        return text

    def start(self, prompts: Sequence[Sequence[int]]) -> Any:
        """Return a session over prompts, which are prefilled in parts."""
        first = max(1, self._part() // max(1, len(prompts)))
        heads = [list(prompt[:first]) for prompt in prompts]
        session = self._run(lambda: self._model.start(heads), reads=True)
        shared = _SharedSession(session, len(prompts), self._run, self._part)
        shared.append([list(prompt[first:]) for prompt in prompts])
        return shared


class _SharedSession(Session):
    """A session whose methods run on the model's thread.

    Sessions that can fork are split into `_groups` of at most as many rows as one pass may read. The others stay whole
    and get tokens for a few rows at a time: those of the package read such rows one by one, or read rows again.
    """

    def __init__(self, session: Any, rows: int, run: Run, part: Part) -> None:
        self._groups, self._sizes = [session], [rows]
        self._run, self._part = run, part

    def append(self, tokens: Sequence[Sequence[int]]) -> None:
        """See `Session.append`; a part at a time."""
        for session, _, part in self._parts(tokens):
            self._run(functools.partial(session.append, part), reads=True)

    def append_scored(self, tokens: Sequence[Sequence[int]]) -> Sequence[NDArray[np.float32]]:
        """See `Session.append_scored`; a part at a time."""
        scored: list[list[NDArray[np.float32]]] = [[] for _ in tokens]
        for session, first, part in self._parts(tokens):
            logits_by_row = self._run(functools.partial(session.append_scored, part), reads=True)
            for row, logits in enumerate(logits_by_row, first):
                scored[row].append(logits)
        any_logits = next((logits[0] for logits in scored if logits), None)
        if any_logits is None:
            any_logits = self.logits()
        return [np.concatenate(logits or [any_logits[:0]]) for logits in scored]

    def logits(self) -> NDArray[np.float32]:
        """See `Session.logits`."""
        parts = [self._run(session.logits) for session in self._groups]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def select(self, rows: Sequence[int]) -> None:
        """See `Session.select`."""
        most = self._most_rows()
        if not self._can_fork or not rows or (len(self._groups) == 1 and len(rows) <= most):
            session = self._groups[0]
            self._run(lambda: session.select(rows))
            self._groups, self._sizes = [session], [len(rows)]
        else:
            self._regroup(rows, most)

    def rollback(self, row: int, n: int) -> None:
        """See `Session.rollback`."""
        group, index = self._places()[row]
        session = self._groups[group]
        self._run(lambda: session.rollback(index, n))

    @property
    def capabilities(self) -> SessionCapabilities:
        """Those of the model's session, except trees, embeddings, hidden states, early exits, joins and forks."""
        can = capabilities_of(self._groups[0])
        return replace(
            can,
            reads_trees=False,
            reads_embeddings=False,
            hidden_states=False,
            exits=False,
            joins=False,
            forks=False,
        )

    def _parts(self, tokens: Sequence[Sequence[int]]) -> Iterator[tuple[Any, int, list[list[int]]]]:
        """Yield the passes to make: a session, the number of its first row, and the new tokens of its rows."""
        most = self._most_rows()
        if self._can_fork and max(self._sizes) > most and any(tokens):
            self._regroup(range(len(tokens)), most)
        first = 0
        for session, size in zip(self._groups, self._sizes, strict=True):
            for begin in range(first, first + size, most):
                read = range(begin, min(begin + most, first + size))
                at, longest = 0, max(len(tokens[row]) for row in read)
                while at < longest:
                    end = at + max(1, self._part() // sum(len(tokens[row]) > at for row in read))
                    rows = range(first, first + size)
                    yield session, first, [list(tokens[row][at:end]) if row in read else [] for row in rows]
                    at = end
            first += size

    @property
    def _can_fork(self) -> bool:
        can = capabilities_of(self._groups[0])
        return bool(can.forks and can.joins)

    def _most_rows(self) -> int:
        """Return the most rows of one pass, and of one group."""
        return max(_MIN_ROWS, self._part() // _TOKENS_PER_ROW)

    def _regroup(self, rows: Sequence[int], most: int) -> None:
        """Replace all rows by copies of these, one new group at a time."""
        places = self._places()
        wanted = [[places[row] for row in rows[at : at + most]] for at in range(0, len(rows), most)]
        left, self._groups, self._sizes = dict(enumerate(self._groups)), [], []
        while wanted:
            taken = wanted.pop(0)
            self._groups.append(self._run(functools.partial(_gathered, left, taken)))
            self._sizes.append(len(taken))
            needed = {group for rows_of_group in wanted for group, _ in rows_of_group}
            left = {group: session for group, session in left.items() if group in needed}

    def _places(self) -> list[tuple[int, int]]:
        """Return the group of each row, and its index in that group."""
        return [(group, index) for group, size in enumerate(self._sizes) for index in range(size)]


def _gathered(sessions: Mapping[int, Any], places: Sequence[tuple[int, int]]) -> Any:
    """Return a session with copies of rows of several sessions.

    Args:
        sessions: By number.
        places: The number of the session of each row, and the row's index in that session.
    """
    gathered: Any = None
    order: list[int] = []
    for number in dict.fromkeys(group for group, _ in places):
        mine = [at for at, (group, _) in enumerate(places) if group == number]
        fork = sessions[number].fork([places[at][1] for at in mine])
        order += mine
        if gathered is None:
            gathered = fork
        else:
            gathered.join(fork)
    if order != sorted(order):
        gathered.select(np.argsort(order).tolist())
    return gathered
