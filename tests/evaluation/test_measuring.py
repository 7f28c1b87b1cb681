"""What is measured of an engine on a schema."""

from __future__ import annotations

from structgen.evaluation.datasets import Item
from structgen.evaluation.engines import open_engine
from structgen.evaluation.measuring import measure
from structgen.vocabulary import Vocabulary

_BYTES = Vocabulary.of_bytes()


def _encode(text: str) -> list[int]:
    return list(text.encode())


def test_right_verdicts_are_true_coverage_and_masks_are_timed() -> None:
    item = Item("a", "other", {"type": "integer"}, ((True, 12), (False, "x")))
    told = measure(open_engine("structgen", _BYTES), item, _encode, 256)
    assert told.outcome.declared and told.outcome.true
    assert len(told.mask_ns) == 3 + 1  # two digits and the end; the quote is refused at once
    assert told.overruled == 0 and told.error is None


def test_a_refused_schema_counts_and_fails() -> None:
    item = Item("a", "other", {"type": "nothing like it"}, ((True, 12),))
    told = measure(open_engine("structgen", _BYTES), item, _encode, 256)
    assert told.outcome.status == "refused" and told.outcome.true is False and told.error
