"""Files of schemas, their parts, and samples."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from structgen.errors import OptionError
from structgen.evaluation.datasets import Item, part_of, read_items, sample


@pytest.mark.parametrize(
    ("name", "part"),
    [("Github_easy---o1.json", "Github_easy"), ("BFCL_java_0.json", "BFCL"), ("mine.json", "other")],
)
def test_parts(name: str, part: str) -> None:
    assert part_of(name) == part


def test_files_are_read_plain_and_gzipped(tmp_path: Path) -> None:
    line = json.dumps({"_file": "Kubernetes---a.json", "schema": True, "tests": [{"valid": True, "data": 1}]})
    (tmp_path / "a.jsonl").write_text(line + "\n\n")
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(line.encode()))
    wanted = [Item("Kubernetes---a.json", "Kubernetes", True, ((True, 1),))]
    assert read_items(tmp_path / "a.jsonl") == read_items(tmp_path / "a.jsonl.gz") == wanted


def test_a_line_that_is_no_item_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"schema": {}}\n[]\n')
    with pytest.raises(OptionError, match="line 2 is no item"):
        read_items(tmp_path / "a.jsonl")
    with pytest.raises(OptionError, match="cannot read the data"):
        read_items(tmp_path / "none.jsonl")


def test_a_sample_has_each_part_by_its_size_and_is_repeatable() -> None:
    items = [
        Item(f"{part}---{i}", part, {}, None)
        for part, n in (("A", 60), ("B", 30), ("C", 10))
        for i in range(n)
    ]
    drawn = sample(items, 10, seed=1)
    assert Counter(item.part for item in drawn) == {"A": 6, "B": 3, "C": 1}
    assert drawn == sample(items[::-1], 10, seed=1)
    assert len(sample(items, 1000)) == 100
