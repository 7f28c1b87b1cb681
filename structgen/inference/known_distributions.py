"""What exact samplers have learned, kept between calls and between processes.

Why: what was refused under one prompt and constraint, and what the model said there, need not be found out twice.
Invariant: laws are used for nothing but what they are about: the same vocabulary, prompt, constraint, potentials and
sampler. Another model than the one that they were learned from (or any, of laws from a file) is asked for its own law
after some of the prefixes, which must be the same.
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

__all__ = ["KnownLaws"]

_SAME = 0.05
"""Log probabilities of one model in different arithmetic differ by less, those of two models by more."""

_TURN = 0.05
"""Seconds between looks at the limits of a call that waits."""

_COMPARED = 7
"""Prefixes beside the prompt itself, those visited last."""


@checks_names_of_init
class KnownLaws:
    """What walks have learned under one prompt, constraint and set of options; a new one knows nothing.

    `limit` bounds its memory, in bytes: what was visited longest ago is forgotten first.
    """

    def __init__(self, limit: int = 256 << 20) -> None:
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise OptionError(f"KnownLaws(limit={limit!r:.40}) is no number of bytes")
        self.trie = BoundTrie(limit)
        self.about: dict[str, str] = {}
        """What it is about, as hashes."""
        self.potentials: tuple[Potential, ...] = ()
        self.model: LanguageModel | None = None
        self.is_read = False
        """Is it from a file, and not yet compared with the model?"""
        self._lock = threading.Lock()
        self._holder: int | None = None

    def __repr__(self) -> str:
        used, limit = self.trie.memory / 1e6, self.trie.limit / 1e6
        return f"<KnownLaws of {self.trie.nodes} prefixes, {used:.1f} of {limit:.0f} MB>"

    @contextmanager
    def held(self, stops: Callable[[], bool]) -> Iterator[bool]:
        """For one call at a time: others wait, since what one forgets would pull the ground from under the other.

        False where `stops` said so before it was its turn.
        """
        if self._holder == threading.get_ident():
            raise OptionError(
                "these KnownLaws are used by a call that is under way",
                hint="Give the inner call others, or none.",
            )
        while not self._lock.acquire(timeout=_TURN):
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
        """Writes it to a file, for another process (``.npz``; not where potentials were used)."""
        if _processed(self.model):
            raise OptionError(
                "what was learned under processors cannot be saved: a file cannot tell which they were",
                hint="Keep the KnownLaws in one process, or sample from the model itself.",
            )
        if self.potentials:
            raise OptionError(
                "what was learned under potentials cannot be saved: a function has no name that lasts",
                hint="Keep the KnownLaws in one process, or sample without potentials.",
            )
        write_trie(path, self.trie, json.dumps(self.about))

    @classmethod
    def load(cls, path: str | Path, limit: int = 256 << 20) -> KnownLaws:
        """What `save` wrote; raises `OptionError` for anything else, `LimitExceeded` for more than `limit`."""
        trie, label = read_trie(path, limit)
        learned = cls(limit)
        learned.trie = trie
        learned.about = _about(path, label)
        learned.is_read = True
        return learned

    def trie_for(self, task: Task, sampler: str, potentials: Sequence[Potential]) -> BoundTrie:
        """The trie for a task, which must be what this is about, if it is about anything yet."""
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
                f"what was learned is about another {differs}", hint="Start with a new structgen.KnownLaws()."
            )
        self.model, self.is_read = task.model, False
        return self.trie

    def _differs_from(self, task: Task) -> str | None:
        """What came from a file fits the task's vocabulary and its model, whose law after the prompt is asked for."""
        size = task.model.vocabulary.size
        nodes = self.trie.in_order()
        if any(len(node.step) and node.step.tokens[-1] >= size for node in nodes):
            return "vocabulary"
        asked = [node for node in (*nodes[:1], *nodes[1:][-_COMPARED:]) if len(node.step)]
        if not asked:
            return None
        reader = PrefixReader(task.model, task.prompt, len(asked), task.temperature)
        laws = reader.read({lane: self.trie.prefix(node) for lane, node in enumerate(asked)})
        task.account.calls += reader.calls
        task.account.passes += reader.passes
        for lane, node in enumerate(asked):
            own = laws[lane].log_p[node.step.tokens]
            if not np.allclose(own, node.step.log_p, rtol=0, atol=_SAME):
                return "model"
        return None


def _processed(*models: LanguageModel | None) -> bool:
    return any(isinstance(model, ProcessedModel) for model in models)


def _about(path: str | Path, label: str) -> dict[str, str]:
    try:
        about = json.loads(label)
    except ValueError:
        about = None
    if not isinstance(about, dict) or not all(isinstance(one, str) for one in about.values()):
        raise OptionError(f"{path} does not say what its laws are about")
    return about


def _hash(*what: object) -> str:
    return hashlib.sha256(repr(what).encode("utf-8", "surrogatepass")).hexdigest()
