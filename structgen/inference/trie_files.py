"""Files of bound tries: what exact samplers learned in one process, for another one.

What: numpy's ``.npz``, read without pickle. It has one row for each node (its parent's row, its token, the probability
of its tail, the number of tokens that it holds), the concatenated tokens, log probabilities and bounds of all nodes,
and a *label* that says what the distributions belong to.
Invariant: a trie that was read draws as the one that was written. A damaged file is refused.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen._core import StepBounds
from structgen.errors import LimitExceeded, OptionError

from .bound_trie import BoundTrie, Node

__all__ = ["read_trie", "write_trie"]

_FORMAT = 1
_FIELDS = ("format", "label", "parents", "tokens_taken", "tails", "counts", "tokens", "log_p", "theta")

Array = NDArray[Any]


def write_trie(path: str | Path, trie: BoundTrie, label: str) -> None:
    """Write all nodes to `path`."""
    nodes = trie.in_order()
    position_of = {id(node): i for i, node in enumerate(nodes)}
    with open(path, "wb") as file:
        np.savez_compressed(
            file,
            format=np.array(_FORMAT),
            label=np.array(label),
            parents=np.array(
                [
                    -1 if trie_node.parent is None else position_of[id(trie_node.parent)]
                    for trie_node in nodes
                ],
                np.int64,
            ),
            tokens_taken=np.array([trie_node.token for trie_node in nodes], np.int64),
            tails=np.array([trie_node.step.tail for trie_node in nodes], np.float64),
            counts=np.array([len(trie_node.step) for trie_node in nodes], np.int64),
            tokens=_joined([trie_node.step.tokens for trie_node in nodes], np.int32),
            log_p=_joined([trie_node.step.log_p for trie_node in nodes], np.float64),
            theta=_joined([trie_node.step.theta for trie_node in nodes], np.float64),
        )


def read_trie(path: str | Path, limit: int) -> tuple[BoundTrie, str]:
    """Read a trie and its label.

    Args:
        path: The file.
        limit: The largest memory of the trie in bytes.

    Raises:
        OptionError: The file is damaged, or something else.
        LimitExceeded: The trie is larger than `limit`.
    """
    content = _content(path, limit)
    try:
        with zipfile.ZipFile(content) as members:
            size = sum(member.file_size for member in members.infolist())
        if size > limit:
            raise _too_large(path, limit)
        with np.load(content, allow_pickle=False) as file:
            parts = {name: file[name] for name in _FIELDS}
    except LimitExceeded:
        raise
    except Exception as error:  # noqa: BLE001 — zipfile, zlib and numpy raise many types for damaged bytes
        raise _damaged(path, str(error)) from None
    if parts["format"].shape != () or parts["format"] != _FORMAT:
        raise _damaged(path, f"its format is {parts['format']!r:.40}")
    return _rebuilt(path, parts, limit), str(parts["label"])


def _content(path: str | Path, limit: int) -> io.BytesIO:
    """Return the bytes of a file, which is never larger than its content."""
    with open(path, "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise _too_large(path, limit)
    return io.BytesIO(content)


def _rebuilt(path: str | Path, parts: dict[str, Array], limit: int) -> BoundTrie:
    parents, taken, tails, counts = (parts[name] for name in ("parents", "tokens_taken", "tails", "counts"))
    tokens, log_p, theta = parts["tokens"], parts["log_p"], parts["theta"]
    kinds = [("i", array) for array in (parents, taken, counts, tokens)] + [
        ("f", array) for array in (tails, log_p, theta)
    ]
    if any(array.ndim != 1 or array.dtype.kind != kind for kind, array in kinds):
        raise _damaged(path, "its arrays have the wrong type")
    if not len(parents) == len(taken) == len(tails) == len(counts) or (counts < 0).any():
        raise _damaged(path, "its arrays of nodes differ in length")
    if not len(tokens) == len(log_p) == len(theta) == int(counts.sum()):
        raise _damaged(path, "its distributions do not match its nodes")
    if np.isnan(log_p).any() or not ((theta <= 0) & (log_p <= 1e-6)).all() or not (tails <= 1e-6).all():
        raise _damaged(path, "it contains a number that is not a log probability")
    trie = BoundTrie(limit)
    nodes: list[Node] = []
    ends = np.cumsum(counts)
    for i, parent in enumerate(parents.tolist()):
        if not (parent == -1 if i == 0 else 0 <= parent < i):
            raise _damaged(path, "its nodes are out of order")
        own = slice(int(ends[i] - counts[i]), int(ends[i]))
        if (np.diff(tokens[own]) <= 0).any() or (tokens[own] < 0).any() or (tokens[own] >= 2**31).any():
            raise _damaged(path, "the tokens of a node are out of order")
        if np.exp(log_p[own]).sum() + np.exp(tails[i]) > 1 + 1e-3:
            raise _damaged(path, "the probabilities of a node sum to more than 1")
        above = None if parent == -1 else nodes[parent]
        token = int(taken[i])
        if above is not None and (token in above.children or token not in above.step.tokens):
            raise _damaged(path, "the token of a node is not one of its parent's")
        step = StepBounds.restore(
            tokens[own].astype(np.int32),
            log_p[own].astype(np.float64),
            theta[own].astype(np.float64),
            float(tails[i]),
        )
        nodes.append(trie.restore(above, token, step))
    return trie


def _joined(parts: list[Array], kind: Any) -> Array:
    return np.concatenate(parts).astype(kind) if parts else np.zeros(0, kind)


def _too_large(path: str | Path, limit: int) -> LimitExceeded:
    return LimitExceeded(
        f"{path} holds more than {limit} bytes of distributions",
        limit="limit",
        hint="KnownDistributions.load(path, limit=...) raises it.",
    )


def _damaged(path: str | Path, why: str) -> OptionError:
    return OptionError(
        f"{path} was not written by KnownDistributions.save: {why}",
        hint="Write one with KnownDistributions.save(path).",
    )
