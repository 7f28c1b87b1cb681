"""What exact samplers have learned, kept between calls and between processes.

Why: what the model and the constraint said under one prompt need not be computed twice.
Invariant: distributions are used only for the vocabulary, prompt, constraint, potentials and sampler that they belong
to. For another model object than the one that they come from, and for distributions from a file, some prefixes are read
again and must have the same distributions.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from structgen.argument_names import checks_names_of_init
from structgen.errors import OptionError
from structgen.generation.potentials import Potential
from structgen.inference.bound_trie import BoundTrie
from structgen.inference.drawing import Task
from structgen.inference.prefixes import PrefixReader
from structgen.inference.trie_files import read_trie, write_trie
from structgen.models.processed import ProcessedModel
from structgen.protocols import LanguageModel

__all__ = ["KnownDistributions"]

_SAME_MODEL_TOLERANCE = 0.05
"""Log probabilities of one model in different arithmetic differ by less than this, those of two models by more."""

_LIMIT_CHECK_SECONDS = 0.05
"""Seconds between checks of the limits of a call that waits."""

_COMPARED_PREFIXES = 7
"""The number of prefixes that are compared in addition to the prompt, the last visited ones."""


@checks_names_of_init
class KnownDistributions:
    """What walks have learned under one prompt, constraint and set of options.

    Args:
        limit: The largest memory in bytes. The least recently visited prefixes are forgotten first.

    Example:
        >>> learned = structgen.inference.KnownDistributions()
        >>> structgen.sample(model, prompt, output, n=10, learned=learned)

    Raises:
        OptionError: `limit` is not a number of bytes.
    """

    def __init__(self, limit: int = 256 << 20) -> None:
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise OptionError(f"KnownDistributions(limit={limit!r:.40}) is not a number of bytes")
        self.trie = BoundTrie(limit)
        self.about: dict[str, str] = {}
        """What the distributions belong to, as hashes by name."""
        self.potentials: tuple[Potential, ...] = ()
        self.model: LanguageModel | None = None
        self.is_read = False
        """Whether they come from a file and have not been compared with the model yet."""
        self._lock = threading.Lock()
        self._holder: int | None = None

    def __repr__(self) -> str:
        used, limit = self.trie.memory / 1e6, self.trie.limit / 1e6
        return f"<KnownDistributions of {self.trie.nodes} prefixes, {used:.1f} of {limit:.0f} MB>"

    @contextmanager
    def held(self, stops: Callable[[], bool]) -> Iterator[bool]:
        """Reserve the object for one call at a time; others wait, because forgetting would disturb a running walk.

        Yields:
            False if `stops` returned True before it was free.
        """
        if self._holder == threading.get_ident():
            raise OptionError(
                "these KnownDistributions are used by a call that is in progress",
                hint="Give the inner call other ones, or none.",
            )
        while not self._lock.acquire(timeout=_LIMIT_CHECK_SECONDS):
            if stops():
                yield False
                return
        self._holder = threading.get_ident()
        try:
            yield True
        finally:
            self._holder = None
            self._lock.release()

    def save(self, path: str | Path) -> None:
        """Write a file for another process.

        Args:
            path: The file, ``.npz``.

        Raises:
            OptionError: Potentials or processors were used, which a file cannot identify.
        """
        if _processed(self.model):
            raise OptionError(
                "what was learned under processors cannot be saved: a file cannot identify them",
                hint="Keep the KnownDistributions in one process, or sample from the model itself.",
            )
        if self.potentials:
            raise OptionError(
                "what was learned under potentials cannot be saved: a file cannot identify functions",
                hint="Keep the KnownDistributions in one process, or sample without potentials.",
            )
        write_trie(path, self.trie, json.dumps(self.about))

    @classmethod
    def load(cls, path: str | Path, limit: int = 256 << 20) -> KnownDistributions:
        """Read what `save` wrote.

        Args:
            path: The file.
            limit: The largest memory in bytes.

        Raises:
            OptionError: The file is damaged, or something else.
            LimitExceeded: It holds more than `limit` bytes.
        """
        trie, label = read_trie(path, limit)
        learned = cls(limit)
        learned.trie = trie
        learned.about = _about(path, label)
        learned.is_read = True
        return learned

    def trie_for(self, task: Task, sampler: str, potentials: Sequence[Potential]) -> BoundTrie:
        """Return the trie for a task, which must match what the distributions belong to, if there are any."""
        about = {
            "vocabulary": task.model.vocabulary.fingerprint,
            "prompt": _hash(*task.prompt),
            "constraint": _hash(task.matcher.constraint.lower()),
            "sampler": sampler,
            "temperature": repr(task.temperature),
            "max_tokens": repr(task.max_tokens),
        }
        if not self.about:
            self.about, self.potentials = about, tuple(potentials)
        differs = next((name for name in about if self.about.get(name) != about[name]), None)
        if differs is None and self.potentials != tuple(potentials):
            differs = "potential"
        is_other = self.model is not None and self.model is not task.model
        if differs is None and is_other and _processed(self.model, task.model):
            differs = "model"
        if differs is None and (self.is_read or is_other):
            differs = self._differs_from(task)
        if differs is not None:
            raise OptionError(
                f"what was learned belongs to another {differs}",
                hint="Start with a new structgen.inference.KnownDistributions().",
            )
        self.model, self.is_read = task.model, False
        return self.trie

    def _differs_from(self, task: Task) -> str | None:
        """Compare distributions from a file, or of another model object, with the model; return what differs."""
        size = task.model.vocabulary.size
        nodes = self.trie.in_order()
        if any(len(node.step) and node.step.tokens[-1] >= size for node in nodes):
            return "vocabulary"
        nodes_to_compare = [node for node in (*nodes[:1], *nodes[1:][-_COMPARED_PREFIXES:]) if len(node.step)]
        if not nodes_to_compare:
            return None
        reader = PrefixReader(task.model, task.prompt, len(nodes_to_compare), task.temperature)
        distributions = reader.read(
            {slot: self.trie.prefix(node) for slot, node in enumerate(nodes_to_compare)}
        )
        task.account.calls += reader.calls
        task.account.passes += reader.passes
        for slot, node in enumerate(nodes_to_compare):
            own = distributions[slot].log_p[node.step.tokens]
            if not np.allclose(own, node.step.log_p, rtol=0, atol=_SAME_MODEL_TOLERANCE):
                return "model"
        return None


def _processed(*models: LanguageModel | None) -> bool:
    return any(isinstance(model, ProcessedModel) for model in models)


def _about(path: str | Path, label: str) -> dict[str, str]:
    try:
        about = json.loads(label)
    except ValueError:
        about = None
    if not isinstance(about, dict) or not all(isinstance(value, str) for value in about.values()):
        raise OptionError(f"{path} does not say what its distributions belong to")
    return about


def _hash(*what: object) -> str:
    return hashlib.sha256(repr(what).encode("utf-8", "surrogatepass")).hexdigest()
