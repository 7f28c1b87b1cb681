"""Log probabilities of given texts after a prompt, summed over their tokenizations.

What: a *path* is a tokenization of a text. Paths share prefixes, and the model reads each distinct prefix once: as a
tree if its sessions read trees, otherwise as rows.
Invariant: a likelihood is a function of the prompt and the paths (up to the rounding of the model).
Cost: one forward pass over the prompt, and one for each `_NODES_PER_PASS` prefixes (or `_ROWS_PER_PASS`, as rows).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from structgen.errors import LimitExceeded
from structgen.protocols import capabilities_of

from .prefixes import Prefix, PrefixReader, distribution_of

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel, Session
    from structgen.vocabulary import Vocabulary

__all__ = ["all_paths", "likelihoods", "log_sum"]

_NODES_PER_PASS = 64
"""The number of prefixes of labels that one forward pass reads as a tree."""
_ROWS_PER_PASS = 16
"""The number of prefixes that one forward pass reads as rows, each with a copy of the prompt's cache."""
_MOST_BEGINNINGS = 4_096
"""The largest number of prefixes of all tokenizations of all labels."""
_LOG_NEGLIGIBLE = math.log(1e-9)
"""Prefixes less probable than this fraction of the label's canonical tokens are ignored for "all": a relative error
below 1e-5."""


def all_paths(texts: list[str], vocabulary: Vocabulary) -> dict[str, list[Prefix]]:
    """Return all tokenizations of each text."""
    whole = [text.encode() for text in texts]
    pieces = {label[i:j] for label in whole for i in range(len(label)) for j in range(i + 1, len(label) + 1)}
    spelling: dict[bytes, list[int]] = {}
    for token in range(vocabulary.size):
        data = vocabulary.token_bytes(token)
        if data in pieces and token not in vocabulary.eos_ids:
            spelling.setdefault(data, []).append(token)
    room = _MOST_BEGINNINGS
    paths: dict[str, list[Prefix]] = {}
    for text, data in zip(texts, whole, strict=True):
        paths[text] = list(_paths_of(data, spelling, room))
        room -= sum(map(len, paths[text]))
    return paths


def _paths_of(data: bytes, spelling: Mapping[bytes, list[int]], room: int) -> Iterator[Prefix]:
    reaches = [False] * len(data) + [True]  # whether tokens lead from a position to the end
    for index in range(len(data) - 1, -1, -1):
        reaches[index] = any(
            data[index:end] in spelling and reaches[end] for end in range(index + 1, len(data) + 1)
        )
    growing: list[tuple[int, Prefix]] = [(0, ())]
    while growing:
        index, path = growing.pop()
        if index == len(data):
            yield path
            continue
        for end in range(index + 1, len(data) + 1):
            for token in spelling.get(data[index:end], ()) if reaches[end] else ():
                room -= 1
                if room < 0:
                    raise LimitExceeded(
                        f"the labels have more than {_MOST_BEGINNINGS:,} prefixes in all tokenizations",
                        limit="label_tokenizations",
                        hint="Use shorter labels, or tokenizations='canonical'.",
                    )
                growing.append((end, (*path, token)))


class _Started:
    """A model that returns a session whose prompt has been read."""

    context_length = None

    def __init__(self, session: Session) -> None:
        self._session = session

    def start(self, prompts: Any) -> Any:
        return self._session


class _Scorer:
    """Log probabilities of paths after one prompt."""

    def __init__(
        self, model: LanguageModel, prompt: Sequence[int], wanted: Mapping[Prefix, set[int]]
    ) -> None:
        """`wanted`: after each prefix, the tokens whose probabilities may be needed."""
        _check_room(len(prompt) + max(map(len, wanted)), model.context_length)
        self._wanted = wanted
        self._known: dict[Prefix, dict[int, float]] = {}
        self._session: Any = model.start([list(prompt)])
        self._keep((), self._session.logits()[0])
        self._reader: PrefixReader | None = None
        if not capabilities_of(self._session).reads_trees:
            started: Any = _Started(self._session)
            self._reader = PrefixReader(
                started, prompt, parallel=max(1, min(_ROWS_PER_PASS, len(wanted) - 1))
            )

    def read(self, beginnings: Iterable[Prefix]) -> None:
        """Read the distributions after these prefixes that are not known, in as few passes as memory allows."""
        new = sorted({prefix for prefix in beginnings if prefix not in self._known})
        read, size = (
            (self._read_tree, _NODES_PER_PASS) if self._reader is None else (self._read_rows, _ROWS_PER_PASS)
        )
        for start in range(0, len(new), size):
            read(new[start : start + size])

    def _read_tree(self, part: list[Prefix]) -> None:
        """Read all prefixes in one pass, as a tree."""
        nodes = sorted({prefix[:length] for prefix in part for length in range(1, len(prefix) + 1)}, key=len)
        indices = {node: index for index, node in enumerate(nodes)}
        tree = [node[-1] for node in nodes], [indices.get(node[:-1], -1) for node in nodes]
        (scores,) = self._session.append_trees([[]], [tree])
        for prefix in part:
            self._keep(prefix, scores[indices[prefix]])
        self._session.keep(0, [])

    def _read_rows(self, part: list[Prefix]) -> None:
        """Read all prefixes in one pass, as rows."""
        assert self._reader is not None
        for slot, distribution in self._reader.read(dict(enumerate(part))).items():
            self._keep(part[slot], distribution.log_p)

    def _keep(self, beginning: Prefix, logits: Any) -> None:
        log_p = distribution_of(logits, 1.0).log_p
        self._known[beginning] = {token: float(log_p[token]) for token in self._wanted.get(beginning, ())}

    def log_p(self, path: Prefix, ends: Sequence[int] = ()) -> float:
        """Return log P(path), with one of the ends after it if there are any; -inf if a prefix was not read."""
        total = 0.0
        for index, token in enumerate(path):
            after = self._known.get(path[:index])
            total += -math.inf if after is None else after[token]
        if ends:
            after = self._known.get(path)
            total += -math.inf if after is None else log_sum(after[token] for token in ends)
        return total


def likelihoods(
    model: LanguageModel,
    prompt: Sequence[int],
    canonical: Mapping[str, Prefix],
    paths: Mapping[str, Sequence[Prefix]],
    ends: Sequence[int],
) -> dict[str, float]:
    """Return log P of each label after the prompt, summed over its paths, the canonical one included."""
    wanted: dict[Prefix, set[int]] = {}
    for path in (path for several in paths.values() for path in several):
        for index, token in enumerate(path):
            wanted.setdefault(path[:index], set()).add(token)
        if ends:
            wanted.setdefault(path, set()).update(ends)
    scorer = _Scorer(model, prompt, wanted)
    scorer.read(prefix for path in canonical.values() for prefix in _beginnings(path, ends))
    floors = {text: scorer.log_p(path, ends) + _LOG_NEGLIGIBLE for text, path in canonical.items()}
    for length in range(max(len(path) for several in paths.values() for path in several) + 1):
        # A path is at most as probable as its prefixes, so most others need not be read.
        scorer.read(
            path[:length]
            for text, several in paths.items()
            for path in several
            if (length < len(path) or (ends and length == len(path)))
            and scorer.log_p(path[:length]) >= floors[text]
        )
    return {text: log_sum(scorer.log_p(path, ends) for path in several) for text, several in paths.items()}


def _check_room(tokens: int, context_length: int | None) -> None:
    if context_length is not None and tokens > context_length:
        raise LimitExceeded(
            f"the prompt and the longest label are {tokens} tokens, more than the model's context of {context_length}",
            limit="context_length",
            hint="Shorten the prompt.",
        )


def _beginnings(path: Prefix, ends: Sequence[int]) -> list[Prefix]:
    return [path[:index] for index in range(len(path) + bool(ends))]


def log_sum(logs: Any) -> float:
    """Return the logarithm of the sum of the exponentials, -inf for no summands."""
    listed = list(logs)
    peak = max(listed, default=-math.inf)
    return (
        peak if peak == -math.inf else peak + math.log(math.fsum(math.exp(value - peak) for value in listed))
    )
