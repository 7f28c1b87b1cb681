"""Verdicts and times of an engine on a schema."""

from __future__ import annotations

from typing import Any

import pytest

from structgen.evaluation.engines import open_engine
from structgen.evaluation.items import Item
from structgen.evaluation.judging import Judge
from structgen.evaluation.measuring import measure
from structgen.evaluation.records import CoverageRecord
from structgen.vocabulary import Vocabulary

_BYTES = Vocabulary.of_bytes()


def _encode(text: str) -> list[int]:
    return list(text.encode())


def _measured(
    schema: Any, tests: tuple[tuple[bool, Any], ...] | None, *, settled: bool = False
) -> CoverageRecord:
    item = Item("a", "other", schema, tests, settled)
    return measure(open_engine("structgen", _BYTES), item, _encode, 256, name="structgen", dataset="d")


def test_right_verdicts_and_timed_masks() -> None:
    found = _measured({"type": "integer"}, ((True, 12), (False, "x"), (True, "\ud800")))
    assert found.status == "ok" and found.message is None and found.compile_s is not None
    assert found.verdicts == ((True, True), (False, False))  # half a surrogate pair is not tested
    assert found.masks_us is not None
    assert found.masks_us.count == 3 + 1  # two digits and the end; the quote is refused at once
    assert 0 < found.masks_us.p50 <= found.masks_us.p99 <= found.masks_us.max <= found.masks_us.sum
    assert found.key == ("coverage", "structgen", "d", "a") and found.overruled == 0


def test_a_refused_schema_counts_and_fails() -> None:
    found = _measured({"type": "nothing like it"}, ((True, 12),))
    assert found.status == "refused" and found.verdicts == ((True, False),) and found.compile_s is None
    assert found.message is not None and found.message.startswith("SchemaInvalid: #/type")
    assert _measured({"type": "nothing like it"}, None).verdicts is None


def test_wrong_labels_are_overruled_unless_settled() -> None:
    pytest.importorskip("jsonschema_rs")
    wrong = ((False, 12),)
    found = _measured({"type": "integer"}, wrong)
    assert found.overruled == 1 and found.verdicts == ((True, True),)
    found = _measured({"type": "integer"}, wrong, settled=True)
    assert found.overruled == 0 and found.verdicts == ((False, True),)


def test_texts_are_judged() -> None:
    pytest.importorskip("jsonschema_rs")
    judge = Judge({"type": "object", "properties": {"a": {"format": "date"}}})
    assert judge.text('{"a": "2026-11-24"}') is True
    assert judge.text('{"a": "24.11."}') is False  # formats are asserted
    for text in ("", "{", '{"a": NaN}', "[" * 100_000):
        assert judge.text(text) is False
    for schema in ({"$ref": "http://example.org/x"}, {"type": "nothing like it"}):
        assert Judge(schema).text("1") is None and Judge(schema).text("x") is False
