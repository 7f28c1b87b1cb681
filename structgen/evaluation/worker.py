"""The process that measures one engine, one schema after another; its crash ends nothing else.

Why: engines that compile untrusted schemas crash, hang and eat memory, and a benchmark must report it and continue.
What: lines of JSON. The first line is the `Role`; the answer is ``{"ready": true}`` or ``{"failed": ...}``. Each
further line is a question, answered by ``{"beat": true}`` now and then and by ``{"record": ...}`` in the end.
Invariant: nothing else is written to the standard output that it was given; what engines print goes to the standard
error. The process ends with its input, and with its parent. While a schema is measured, the address space is bounded.
Cost: starting takes 1 s for coverage, and as long as the model takes to load for texts.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from structgen._sandbox.child import die_with_parent, lift_memory_limit, limit_memory
from structgen.errors import OptionError, StructgenError
from structgen.models.loading import looks_local
from structgen.vocabulary import Vocabulary

from .decoding import Beat, LocalWriter, Writer, Written, prompt_for
from .endpoints import Endpoint
from .engines import is_endpoint, open_engine
from .items import Item
from .judging import Judge
from .measuring import Encode, failed, measure
from .records import CoverageRecord, GenerationRecord, Record, TaskRecord
from .settings import BYTES
from .tasks import Judgement, Task, judge, load_tasks

__all__ = ["Question", "Role", "main", "unanswered"]

_SLACK = 256 << 20
"""Bytes of address space beyond the bound: allocators reserve more than they use."""


@dataclass(frozen=True)
class Role:
    """What a process is for."""

    engine: str
    writes: bool
    """Texts (generation, tasks), or else coverage."""
    model: str | None
    seed: int
    max_tokens: int
    temperature: float
    seconds: float
    memory: int
    """MiB."""
    threads: int
    """Of the model."""
    api_key_env: str | None


@dataclass(frozen=True)
class Question:
    """One line of work."""

    kind: str
    """coverage, generation or task."""
    engine: str
    dataset: str
    part: str
    item: str
    schema: Any
    tests: tuple[tuple[bool, Any], ...] | None = None
    settled: bool = False

    def to_item(self) -> Item:
        """Return the schema with its instances."""
        return Item(self.item, self.part, self.schema, self.tests, self.settled)


def unanswered(question: Question, status: str, message: str) -> Record:
    """Return the record of a question that an engine has no answer to."""
    if question.kind == "coverage":
        return failed(question.to_item(), status, message, name=question.engine, dataset=question.dataset)
    if question.kind == "generation":
        return _generation(question, Written(status, message), valid=False)
    return TaskRecord(
        **_common(question), status=status, message=message, task=question.item.partition("/")[0], text="", valid=False,
        correct=False, score=0.0, tokens=0, seconds=0.0,
    )  # fmt: skip


def _common(question: Question) -> dict[str, Any]:
    return {name: getattr(question, name) for name in ("engine", "dataset", "part", "item")}


def _generation(question: Question, written: Written, *, valid: bool | None) -> GenerationRecord:
    return GenerationRecord(**_common(question), **asdict(written), valid=valid)


Answering = Callable[[Question, Beat], Record]


def _opened(role: Role) -> dict[str, Answering]:
    """Return what answers each kind of question."""
    if is_endpoint(role.engine):
        endpoint = Endpoint(
            role.engine,
            key_variable=role.api_key_env,
            seconds=role.seconds,
            max_tokens=role.max_tokens,
            temperature=role.temperature,
            seed=role.seed,
        )
        return {
            "coverage": lambda question, beat: endpoint.cover(question.to_item(), question.dataset, beat),
            **_writing(endpoint),
        }
    if role.writes:
        from structgen.models import load

        model = load(role.model, threads=role.threads)
        writer = LocalWriter(
            model,
            open_engine(role.engine, model.vocabulary),
            max_tokens=role.max_tokens,
            temperature=role.temperature,
            seed=role.seed,
            seconds=role.seconds,
        )
        return _writing(writer)
    vocabulary = _vocabulary(role.model)
    engine = open_engine(role.engine, vocabulary)
    encode, end = _encoder(vocabulary), vocabulary.eos_ids[0]

    def cover(question: Question, beat: Beat) -> CoverageRecord:
        name, dataset = question.engine, question.dataset
        return measure(engine, question.to_item(), encode, end, name=name, dataset=dataset)

    return {"coverage": cover}


def _writing(writer: Writer) -> dict[str, Answering]:
    def generate(question: Question, beat: Beat) -> GenerationRecord:
        written = writer.write(prompt_for(question.schema), question.schema, question.item, beat)
        valid = Judge(question.schema).text(written.text) if written.status == "ok" else False
        return _generation(question, written, valid=valid)

    def work(question: Question, beat: Beat) -> TaskRecord:
        task = _task(question.item)
        begin = time.perf_counter()
        written = writer.write(task.messages, task.schema, question.item, beat)
        seconds = round(time.perf_counter() - begin, 3)
        judgement = judge(task, written.text) if written.status == "ok" else Judgement(False, False, 0.0)
        return TaskRecord(
            **_common(question),
            status=written.status,
            message=written.message,
            task=task.name,
            text=written.text,
            valid=judgement.valid,
            correct=judgement.correct,
            score=judgement.score,
            tokens=written.tokens,
            seconds=seconds,
        )

    return {"generation": generate, "task": work}


def _task(item: str) -> Task:
    """``NAME/ID``, as records name it."""
    name, _, item_name = item.partition("/")
    return next(task for task in load_tasks([name]) if task.id == item_name)


def _vocabulary(name: str | None) -> Vocabulary:
    """Of a model that is not loaded."""
    if name == BYTES:
        return Vocabulary.of_bytes()
    if name is None:
        from structgen.models.embedded import embedded_directory

        return Vocabulary.from_tokenizer(str(embedded_directory()))
    if Path(name).exists():
        return Vocabulary.from_tokenizer(name)
    if looks_local(name):
        raise OptionError(f"there is no folder {name!r} of a model", hint="Give a name, a path, or bytes.")
    try:
        from transformers import AutoTokenizer

        return Vocabulary.from_tokenizer(AutoTokenizer.from_pretrained(name))
    except (ImportError, OSError, ValueError) as error:
        raise OptionError(f"the tokenizer of {name!r} cannot be loaded: {str(error)[:200]}") from None


def _encoder(vocabulary: Vocabulary) -> Encode:
    """Return the tokenizer's own tokens; where it cannot spell a text, the tokens of its bytes."""
    single = {vocabulary.token_bytes(token): token for token in range(vocabulary.size)}
    single.pop(None, None)

    def encode(text: str) -> list[int]:
        tokens = vocabulary.encode(text)
        if tokens is None:
            tokens = [single[bytes([byte])] for byte in text.encode()]
        return tokens

    return encode


def main() -> None:
    """Answer questions from the standard input until it ends, under the `Role` in its first line."""
    target = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    die_with_parent()
    first = sys.stdin.readline()
    if not first:
        return
    role = Role(**json.loads(first))
    try:
        answering = _opened(role)
    except StructgenError as error:
        _say(target, {"failed": str(error)})
        return
    _say(target, {"ready": True})
    for line in sys.stdin:
        fields = json.loads(line)
        fields["tests"] = None if fields["tests"] is None else tuple(map(tuple, fields["tests"]))
        _say(target, _answer(Question(**fields), answering, role, lambda: _say(target, {"beat": True})))


def _answer(question: Question, answering: Mapping[str, Answering], role: Role, beat: Beat) -> dict[str, Any]:
    try:
        with _bounded(role.memory):
            record = answering[question.kind](question, beat)
    except MemoryError:
        record = unanswered(question, "memory", f"it takes more than {role.memory} MiB")
    except RecursionError:
        record = unanswered(question, "error", "the schema is nested too deep for Python")
    except StructgenError as error:
        return {"failed": str(error)}  # the model's or the server's: nothing that a schema is to blame for
    return {"record": record.to_json()}


@contextlib.contextmanager
def _bounded(memory: int) -> Any:
    """Let the address space grow by so many MiB at most, where the system can bound it."""
    limit_memory((memory << 20) + _SLACK)
    try:
        yield
    finally:
        lift_memory_limit()


def _say(target: Any, message: Mapping[str, Any]) -> None:
    target.write(json.dumps(message) + "\n")
    target.flush()


if __name__ == "__main__":
    main()
