"""The fuzzer: it repeats itself, ends what does not end, and makes small what it finds."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import structgen as sg
from fuzz import campaign
from fuzz.campaign import run
from fuzz.core import altered
from fuzz.corpus import Corpus, Finding
from fuzz.minimizing import smallest
from fuzz.mutation import MOST, WORDS, mutated
from fuzz.process import Limits, Outcome, Worker
from fuzz.seeds import seeds
from fuzz.walking import Broken, check_matcher, vocabularies
from fuzz.writing import written
from structgen.errors import EmptyConstraint
from tests.clocks import HandClock

TARGETS = sorted(WORDS)


@pytest.mark.parametrize("target", TARGETS)
def test_the_same_seed_gives_the_same_inputs(target: str) -> None:
    known = seeds(target)[:40]
    assert known

    def some() -> list[str]:
        rng = random.Random(7)
        found = [mutated(target, known, rng) for _ in range(40)]
        return found if target in ("core", "served") else [*found, *(written(target, rng) for _ in range(40))]

    assert some() == some()
    assert len(set(some())) > 35
    if target in ("core", "served"):
        assert all(json.loads(text)["kind"] in WORDS for text in some())
    else:
        assert all(len(text) <= MOST for text in some()[:40])


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def test_the_smallest_input_is_found() -> None:
    assert smallest("abcXdefYghi" * 9, lambda text: "X" in text and "Y" in text) in ("XY", "YX")
    schema = json.dumps(
        {"properties": {"a": {"type": "string", "not": {"const": 1}}, "b": True}, "required": ["b"]}
    )
    assert smallest(schema, lambda text: '"not": {"' in text and _is_json(text)) == '{"not": {"":1}}'
    tried: list[str] = []
    smallest("".join(map(str, range(200))), lambda text: tried.append(text) is None and False, tries=20)
    assert len(tried) == 20


def test_altered_trees_are_trees() -> None:
    tree = sg.json_schema({"type": "array", "items": {"type": "integer"}}).lower()
    found = [altered(tree, random.Random(seed)) for seed in range(30)]
    assert tree == sg.json_schema({"type": "array", "items": {"type": "integer"}}).lower()
    assert sum(one != tree for one in found) > 20


def test_walks_give_finished_texts() -> None:
    known = vocabularies()
    for seed in range(5):
        text = check_matcher(sg.json_schema({"type": "array"}), known, random.Random(seed))
        assert text is not None and isinstance(json.loads(text), list)
    with pytest.raises(EmptyConstraint):
        check_matcher(sg.regex("a(?!a)a"), known, random.Random(0))
    assert Broken("an invariant", "how").invariant == "an invariant"


def test_a_corpus_keeps_any_text(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path, "regex")
    for text in ("a", "\ud800", "\x00\n\r\n"):
        corpus.keep(text)
    assert sorted(Corpus(tmp_path, "regex").inputs()) == ["\x00\n\r\n", "a", "\ud800"]
    corpus.report(Finding("kind", "\ud800", "long", "detail", 3))
    corpus.report(Finding("kind", "a", "long", "detail", 3))
    assert [finding.text for finding in corpus.findings()] == ["a"]


@pytest.fixture
def worker() -> Iterator[Worker]:
    found = Worker("regex", Limits())
    yield found
    found.close()


def test_how_inputs_end(worker: Worker) -> None:
    assert worker.meet("[a-c]+").done == "fine"
    refused = worker.meet("(a")
    assert refused.done == "refused" and refused.features[0].startswith("RegexSyntaxError")
    assert worker.meet("\ud800").done in ("fine", "refused")


def test_a_worker_that_dies_is_a_finding_and_the_next_one_goes_on(worker: Worker) -> None:
    assert worker.meet("a").done == "fine"
    worker._process.interrupt()
    worker._process.wait()
    outcome = worker.meet("b")
    assert outcome.done == "finding" and "SIGKILL" in outcome.kind
    assert worker.meet("b").done == "fine"


def test_what_takes_long_or_much_is_ended() -> None:
    grammar = "start: a+\na: " + " | ".join(f'"{i}" a?' for i in range(20_000))  # whole it takes minutes
    slow = Worker("lark", Limits(seconds=0.2))
    outcome = slow.meet(grammar)
    slow.close()
    assert outcome.done == "finding" and outcome.kind.startswith("longer than 0.2 s in stage")
    large = Worker("lark", Limits(memory=1 << 20))
    outcome = large.meet(grammar)
    large.close()
    assert outcome.done == "finding" and outcome.kind.startswith("memory past 1 MiB in stage")


def test_served_constraints_do_not_harm_their_neighbours() -> None:
    worker = Worker("served", Limits(seconds=60))
    try:
        for kind, source, done in (
            ("schema", json.dumps({"type": "array", "items": {"type": "integer"}}), "fine"),
            ("schema", json.dumps({"type": "objct"}), "refused"),
            ("regex", "(a|b)*a(a|b){13}c", "fine"),
            ("regex", "(a", "refused"),
            ("gbnf", 'root ::= "a" root | "b"', "fine"),
        ):
            outcome = worker.meet(json.dumps({"kind": kind, "source": source, "walk": 5}))
            assert outcome.done == done, outcome
        assert worker.meet("[]").done == "refused"
    finally:
        worker.close()


def test_a_campaign_goes_on_where_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "time", HandClock(tick=0.005))  # however long a worker takes to start
    said: list[str] = []
    first, findings = run("ltl", tmp_path, seconds=2, seed=3, limits=Limits(), say=said.append)
    assert findings == [] and said == []
    assert first.inputs == first.fine + first.refused + first.slow_judge > 300
    assert list(Corpus(tmp_path, "ltl").inputs())
    second, _ = run("ltl", tmp_path, seconds=1, seed=40, limits=Limits(), say=said.append)
    assert Corpus(tmp_path, "ltl").figures().inputs == first.inputs + second.inputs
    assert second.features > 0


def test_a_finding_that_was_fixed_hides_no_other_of_its_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "time", HandClock(tick=0.01))
    Corpus(tmp_path, "ltl").report(Finding("an invariant", "true", "true", "as it was before", 1))
    monkeypatch.setattr(
        Worker,
        "meet",
        lambda _, text: Outcome("fine") if text == "true" else Outcome("finding", "an invariant"),
    )
    _, findings = run("ltl", tmp_path, seconds=1, seed=2, limits=Limits(), say=lambda _: None)
    assert [(one.kind, one.text != "true", one.seed) for one in findings] == [("an invariant", True, 2)]
