"""A run: every question to every engine once, in processes that may die, recorded as answers arrive.

What: questions are made as they are needed, engine by engine (so that each process opens one engine and at most one
model); `workers` threads take them in turn, each with a process of its own.
Invariant: a question that has a record, of any status, is not repeated; one that was interrupted when the run stopped
is. All engines get the same schemas and the same prompts. A fault of the model or the server, which no schema is to
blame for, ends the run with its error and loses nothing.
Cost: a data set of up to 2,000 schemas is kept in memory, a larger one is read again for each engine.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from structgen.errors import OptionError

from .contained import Contained
from .datasets import Dataset, open_dataset
from .engines import is_endpoint
from .folder import RunFolder
from .items import Item
from .records import Record
from .settings import Counted, RunOptions, described, options_of
from .tasks import load_tasks
from .worker import Question, Role

__all__ = ["Phase", "Plan", "begin", "resume", "run"]

_KEPT = 2000
_MOST_WORKERS = 64
TASKS = "tasks"
"""The data set of tasks, in records."""


@dataclass
class Phase:
    """All questions of a kind to an engine."""

    kind: str
    engine: str
    total: int
    done: int = 0


@dataclass
class Plan:
    """What a run asks."""

    options: RunOptions
    folder: RunFolder
    datasets: list[Counted]
    readings: list[Dataset] = field(repr=False)
    tasks: list[Question] = field(repr=False)
    """Without an engine."""
    workers: int
    threads: int

    def phases(self) -> list[Phase]:
        """Return the phases in the order in which they run."""
        schemas = sum(dataset.schemas for dataset in self.datasets)
        texts = sum(min(dataset.schemas, self.options.generate) for dataset in self.datasets)
        totals = {
            "coverage": schemas if self.options.coverage else 0,
            "generation": texts,
            "task": len(self.tasks),
        }
        found = {
            (kind, engine): Phase(kind, engine, total)
            for kinds in (("coverage",), ("generation", "task"))
            for engine in self.options.engines
            for kind in kinds
            if (total := totals[kind])
        }
        for kind, engine, *_ in self.folder.done:
            if (kind, engine) in found:
                found[kind, engine].done += 1
        return list(found.values())

    def questions(self) -> Iterator[Question]:
        """Yield those that have no record yet."""
        for phase in self.phases():
            for question in self._of(phase.kind):
                asked = Question(**vars(question) | {"engine": phase.engine})
                if (asked.kind, asked.engine, asked.dataset, asked.item) not in self.folder.done:
                    yield asked

    def _of(self, kind: str) -> Iterator[Question]:
        if kind == "task":
            yield from self.tasks
            return
        for counted, dataset in zip(self.datasets, self.readings, strict=True):
            items = (
                dataset if kind == "coverage" else dataset.sample(self.options.generate, self.options.seed)
            )
            for item in items:
                yield _question(kind, counted.name, item)


def _question(kind: str, dataset: str, item: Item) -> Question:
    tests = item.tests if kind == "coverage" else None
    return Question(kind, "", dataset, item.part, item.name, item.schema, tests, item.settled)


def begin(options: RunOptions, path: Path, *, workers: int = 1, threads: int | None = None) -> Plan:
    """Return a new run in a folder. The data sets are read once here, to count them.

    `workers`: processes at a time. `threads`: of a model in each; None: OMP_NUM_THREADS if it is set, otherwise the
    machine's processors, divided by the workers.
    """
    workers, threads = _shared(workers, threads)
    readings, counted = _read(options)
    tasks = _tasks(options)
    folder = RunFolder.create(path, described(options, counted, workers, threads))
    return Plan(options, folder, counted, readings, tasks, workers, threads)


def resume(path: Path, *, workers: int = 1, threads: int | None = None) -> Plan:
    """Return the run of a folder, to go on with; an `OptionError` where it could not go on as it began.

    `threads`: None: as many as before, so that the times of one run compare.
    """
    workers, given = _shared(workers, threads)
    folder = RunFolder.resume(path)
    try:
        threads = _threads_before(folder.settings) if threads is None else given
        options = options_of(folder.settings)
        readings, counted = _read(options)
        before = [
            (dataset.get("name"), dataset.get("digest")) for dataset in folder.settings.get("datasets", [])
        ]
        if before != [(dataset.name, dataset.digest) for dataset in counted]:
            raise OptionError("the data sets are not what they were when the run was started")
        return Plan(options, folder, counted, readings, _tasks(options), workers, threads)
    except BaseException:
        folder.close()
        raise


def _read(options: RunOptions) -> tuple[list[Dataset], list[Counted]]:
    if not options.asks_schemas:
        return [], []
    readings, counted, names = [], [], set()
    for spec in options.datasets:
        dataset = open_dataset(spec, options.parts)
        if options.sample is not None:
            dataset = dataset.sample(options.sample, options.seed)
        name = spec if dataset.name in names else dataset.name
        names.add(name)
        dataset = _kept(Dataset(name, spec, dataset.__iter__))
        counts = _counted(dataset)
        if not counts.parts:
            raise OptionError(f"the data set {spec!r} has no schemas")
        readings.append(dataset)
        counted.append(counts)
    return readings, counted


def _counted(dataset: Dataset) -> Counted:
    parts: Counter[str] = Counter()
    digest = hashlib.sha256()
    for item in dataset:
        parts[item.part] += 1
        with contextlib.suppress(
            RecursionError
        ):  # such a schema goes to no engine, and has a record of its own
            digest.update(json.dumps([item.name, item.schema, item.tests]).encode())
    return Counted(dataset.name, dataset.spec, dict(sorted(parts.items())), digest.hexdigest())


def _kept(dataset: Dataset) -> Dataset:
    """Return the same one, in memory if it is small."""
    items = []
    for item in dataset:
        items.append(item)
        if len(items) > _KEPT:
            return dataset
    return Dataset(dataset.name, dataset.spec, lambda: iter(items))


def _tasks(options: RunOptions) -> list[Question]:
    return [
        Question("task", "", TASKS, task.part, f"{name}/{task.id}", task.schema)
        for name in options.tasks
        for task in load_tasks([name])[: options.task_items]
    ]


def _threads_before(settings: Mapping[str, Any]) -> int:
    threads = settings.get("threads")
    return threads if isinstance(threads, int) and threads >= 1 else 1


def _shared(workers: int, threads: int | None) -> tuple[int, int]:
    if not isinstance(workers, int) or not 1 <= workers <= _MOST_WORKERS:
        raise OptionError(f"workers is {workers!r}; it is a whole number from 1 to {_MOST_WORKERS}")
    if threads is None:
        said = os.environ.get("OMP_NUM_THREADS", "")
        if said.isdecimal() and int(said) >= 1:
            return workers, int(said)
        return workers, max(1, (os.cpu_count() or 1) // workers)
    if not isinstance(threads, int) or threads < 1:
        raise OptionError(f"threads is {threads!r}; it is a whole number of 1 or more")
    return workers, threads


def run(plan: Plan, on_record: Callable[[Record], None] = lambda record: None) -> None:
    """Ask all questions that are left; `on_record` is called with each record, from several threads, one at a time.

    Raises `ModelError` where a process cannot do its work at all, and `OptionError` where data cannot be read.
    The folder is closed.
    """
    crew = _Crew(plan, on_record)
    threads = [
        threading.Thread(target=crew.work, name=f"structgen-eval-{number}", daemon=True)
        for number in range(plan.workers)
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)  # so that an interrupt is heard
    except BaseException:
        crew.stop()
        raise
    finally:
        for thread in threads:
            thread.join(10)
        plan.folder.close()
    if crew.faults:
        raise crew.faults[0]


class _Crew:
    """What the threads share."""

    def __init__(self, plan: Plan, on_record: Callable[[Record], None]) -> None:
        self._plan = plan
        self._on_record = on_record
        self._questions = plan.questions()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._processes: set[Contained] = set()
        self.faults: list[BaseException] = []

    def work(self) -> None:
        """Run one thread of the crew."""
        process: Contained | None = None
        try:
            while (question := self._next()) is not None:
                role = self._role(question)
                if process is None or process.role != role:
                    process = self._replaced(process, role)
                record = process.ask(question)
                with self._lock:
                    if self._stopped.is_set():
                        break  # its process may have been killed for that
                    self._plan.folder.append(record)
                    self._on_record(record)
        except BaseException as fault:  # noqa: BLE001 — the main thread raises it again
            self.faults.append(fault)
            self.stop()
        finally:
            if process is not None:
                process.close()

    def stop(self) -> None:
        """Pose no further question; the current ones are lost."""
        with self._lock:
            self._stopped.set()
            for process in self._processes:
                process.interrupt()

    def _next(self) -> Question | None:
        with self._lock:
            return None if self._stopped.is_set() else next(self._questions, None)

    def _replaced(self, process: Contained | None, role: Role) -> Contained:
        started = Contained(role)
        with self._lock:
            if process is not None:
                self._processes.discard(process)
            self._processes.add(started)
        if process is not None:
            process.close()
        return started

    def _role(self, question: Question) -> Role:
        options = self._plan.options
        writes = question.kind != "coverage" and not is_endpoint(question.engine)
        return Role(
            engine=question.engine,
            writes=writes,
            model=options.model,
            seed=options.seed,
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            seconds=options.seconds,
            memory=options.memory,
            threads=self._plan.threads if writes else 1,
            api_key_env=options.api_key_env,
        )
