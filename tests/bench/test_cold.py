"""The measuring of the cold tail: workers' replies, limits, and figures."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from bench.cold.measuring import Engine, measure_all, merged_rounds
from bench.cold.report import Measured, coverage, figures, table, worst
from bench.cold.section_b import examples
from bench.cold.worker import measured
from structgen.evaluation.engines.own import Structgen
from structgen.vocabulary import Vocabulary


def request(kind: str, spec: Any, *texts: str) -> dict[str, Any]:
    return {"kind": kind, "spec": spec, "texts": [list(text.encode()) for text in texts]}


def test_a_reply_has_a_time_for_each_mask() -> None:
    reply = measured(
        Structgen(Vocabulary.of_bytes()), request("json_schema", {"type": "integer"}, "12", "-3")
    )
    assert reply["status"] == "ok" and reply["first"] > 0
    assert [list(map(len, reply[figure])) for figure in ("masks", "again")] == [[2, 2], [2, 2]]


@pytest.mark.parametrize(
    ("kind", "spec", "text"), [("regex", "(ab)+", "abab"), ("gbnf", 'root ::= "a" root | "b"', "aab")]
)
def test_other_notations_are_measured_with_structgen(kind: str, spec: str, text: str) -> None:
    assert measured(Structgen(Vocabulary.of_bytes()), request(kind, spec, text))["status"] == "ok"


@pytest.mark.parametrize(
    ("spec", "text", "status"),
    [
        ({"type": "integer"}, "1.5", "rejected"),
        ({"minLength": 2}, '"a', "rejected"),
        ({"type": 3}, "1", "refused"),
    ],
)
def test_what_an_engine_does_not_take_is_said(spec: Any, text: str, status: str) -> None:
    reply = measured(Structgen(Vocabulary.of_bytes()), request("json_schema", spec, text))
    assert reply["status"] == status and reply["error"]


_WORKER = """
import json, sys
print(json.dumps({"ready": 1}), flush=True)
for line in sys.stdin:
    kind = json.loads(line)["kind"]
    while kind == "hang": pass
    if kind == "crash": sys.exit("it fell")
    if kind == "memory": held = bytearray(400 << 20)
    while kind == "memory": pass
    print(json.dumps({"status": "ok", "name": sys.argv[1]}), flush=True)
"""


def test_a_process_that_meets_a_limit_is_started_again() -> None:
    engine = Engine("some", "folder", 0.5, 200, [sys.executable, "-c", _WORKER])
    try:
        kinds = ("plain", "hang", "plain", "crash", "plain")
        assert [engine.measure({"kind": kind})["status"] for kind in kinds] == [
            "ok",
            "timeout",
            "ok",
            "crash",
            "ok",
        ]
        assert "it fell" in engine.measure({"kind": "crash"})["error"]
        engine.seconds = 1_000.0
        assert engine.measure({"kind": "memory"})["status"] == "memory"
        assert measure_all([engine], {"kind": "plain"}, 3) == {"some": {"status": "ok", "name": "some"}}
    finally:
        engine.close()


def reply(first: int, masks: list[int], again: list[int]) -> dict[str, Any]:
    return {"status": "ok", "first": first, "masks": [masks], "again": [again]}


def test_rounds_keep_the_smaller_time() -> None:
    assert merged_rounds(reply(9, [1, 5], [2, 2]), reply(7, [3, 4], [1, 3])) == reply(7, [1, 4], [1, 2])
    refused = {"status": "refused", "error": "no"}
    assert merged_rounds(refused, reply(1, [1], [1])) == refused == merged_rounds(reply(1, [1], [1]), refused)


ONE = Measured(
    "a/1",
    "open",
    [[5, 6]],
    {"x": reply(4_000, [1_000, 3_000], [500, 500]), "y": reply(8_000, [8_000, 8_000], [1_000, 1_000])},
)
TWO = Measured(
    "b/1", "open", [[5]], {"x": reply(1_000, [90_000], [1_000]), "y": {"status": "refused", "error": "no"}}
)


def test_figures_are_of_schemas_that_all_take() -> None:
    assert figures([ONE], "x")["mask, mean"] == 2.0
    lines = list(table([ONE, TWO], ["x", "y"], "Title"))
    assert lines[0] == "Title: 1 of 2 schemas, 2 masks a pass"
    assert "| mask, mean | 2.0 | 8.0 | 0.25 | 1/3 | 31.3 |" in lines
    assert "| mask, worst | 3.0 | 8.0 | 0.38 | 1/2 | 90.0 |" in lines
    assert list(table([TWO], ["x", "y"], "Title")) == ["Title: no schema that all engines take"]
    assert "| sum | 2 | 2 | 1 | 1 |" in list(coverage([ONE, TWO], ["x", "y"]))


def test_the_slowest_masks_have_their_place() -> None:
    found = worst([ONE, TWO], "x", 2)
    assert [(one.microseconds, one.name, one.figure, one.token) for one in found] == [
        (90.0, "b/1", "masks", 0),
        (3.0, "a/1", "masks", 1),
    ]


def test_examples_have_texts() -> None:
    assert len({one["name"] for one in examples()}) == len(examples())
    assert all(one["texts"] for one in examples())
