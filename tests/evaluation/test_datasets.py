"""Files of schemas, their parts, and samples."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen.errors import OptionError
from structgen.evaluation.datasets import PARTS, Dataset, Item, open_dataset, part_of
from tests import shared


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
    for name in ("a.jsonl", "a.jsonl.gz"):
        assert list(open_dataset(f"maskbench:{tmp_path / name}")) == wanted
        assert list(open_dataset(str(tmp_path / name))) == wanted


def test_a_line_may_be_a_schema_itself(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"type": "integer"}\n{"schema": {"type": "null"}}\n')
    found = list(open_dataset(str(tmp_path / "a.jsonl")))
    assert [item.schema for item in found] == [{"type": "integer"}, {"type": "null"}]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[]", "line 2 is no item"),
        ("{", "line 2 is no item: JSONDecodeError"),
        ("[" * 100_000, "line 2 is no item: RecursionError"),
        ('{"schema": 1, "tests": [{"valid": "false", "data": 1}]}', "not true or false"),
        ('{"schema": 1, "tests": {"valid": 1}}', "line 2 is no item"),
        ("\xff", "line 2 is no item"),
    ],
)
def test_a_line_that_is_not_an_item_is_named(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"schema": {}}\n' + line.encode("latin-1") + b"\n")
    with pytest.raises(OptionError, match=message):
        list(open_dataset(f"maskbench:{tmp_path / 'a.jsonl'}"))


def test_an_unknown_data_set_is_reported_with_the_known_ones(tmp_path: Path) -> None:
    for spec in ("none.jsonl", "maskbench:none.jsonl", "suite:none", "nothing:x"):
        with pytest.raises(OptionError, match="there is no data set") as report:
            open_dataset(spec)
        assert "bundled, maskbench:PATH" in str(report.value)
    with pytest.raises(OptionError, match="after the colon"):
        open_dataset("maskbench:")
    with pytest.raises(OptionError, match=r"no \*\.json"):
        list(open_dataset(str(tmp_path)))
    (tmp_path / "broken.jsonl.gz").write_bytes(gzip.compress(b'{"schema": {}}\n' * 1000)[:-9])
    with pytest.raises(OptionError, match="cannot read the data"):
        list(open_dataset(f"maskbench:{tmp_path / 'broken.jsonl.gz'}"))
    damaged = bytearray(gzip.compress(b'{"schema": {}}\n' * 1000))
    damaged[20:30] = b"\xff" * 10
    (tmp_path / "broken.jsonl.gz").write_bytes(damaged)
    with pytest.raises(OptionError, match="cannot read the data"):
        list(open_dataset(f"maskbench:{tmp_path / 'broken.jsonl.gz'}"))
    with pytest.raises(OptionError, match=r"(?s)no part 'x'.*It has Github_easy"):
        open_dataset("bundled", parts=["x"])


def test_a_file_is_streamed_not_held(tmp_path: Path) -> None:
    line = json.dumps({"schema": {"const": "x" * 10_000}}) + "\n"
    (tmp_path / "a.jsonl").write_text(line * 1000)  # 10 MB
    data = open_dataset(str(tmp_path / "a.jsonl"))
    tracemalloc.start()
    try:
        assert sum(1 for _ in data.sample(500)) == 500
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000


def test_names_are_distinct(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"schema": {}, "_file": "a"}\n' * 3)
    assert [item.name for item in open_dataset(str(tmp_path / "a.jsonl"))] == ["a", "a (2)", "a (3)"]


def test_a_folder_of_schemas_and_items(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "b.json").write_text('{"type": "integer"}')
    (tmp_path / "Snowplow---c.json").write_text('{"schema": {}, "tests": [{"valid": true, "data": 1}]}')
    (tmp_path / "read.me").write_text("no schema")
    data = open_dataset(str(tmp_path))
    assert list(data) == [
        Item("Snowplow---c.json", "Snowplow", {}, ((True, 1),)),
        Item("ours/b.json", "ours", {"type": "integer"}, None),
    ]
    assert data.parts() == {"Snowplow": 1, "ours": 1}
    assert [item.name for item in data.only(["ours"])] == ["ours/b.json"]
    (tmp_path / "d.json").write_text("[1]")
    with pytest.raises(OptionError, match="is no schema but a list"):
        list(data)


def test_the_suite_from_a_folder_leaves_out_what_it_says(tmp_path: Path) -> None:
    group = {"description": "", "tests": [{"description": "", "data": 1, "valid": True}]}
    draft = tmp_path / "tests" / "draft7"
    (draft / "optional" / "format").mkdir(parents=True)
    (draft / "a.json").write_text(
        json.dumps([{"schema": {}} | group, {"schema": {"$ref": "http://localhost:1234/x"}} | group])
    )
    for other in ("optional/b.json", "optional/format/c.json", "format.json"):
        (draft / other).write_text(json.dumps([{"schema": True} | group]))
    found = list(open_dataset(f"suite:{tmp_path}"))
    schema = {"$schema": "http://json-schema.org/draft-07/schema#"}
    assert found == [
        Item("draft7/a#0", "draft7", schema, ((True, 1),), settled=True),
        Item("draft7/optional/b#0", "draft7 optional", True, ((True, 1),), settled=True),
        Item("draft7/optional/format/c#0", "draft7 format", True, ((True, 1),), settled=True),
    ]
    with pytest.raises(OptionError, match="holds no JSON Schema test suite"):
        list(open_dataset(f"suite:{draft}"))


def test_the_official_suite() -> None:
    data = open_dataset(f"suite:{shared.path('data', 'json-schema-test-suite.tar.gz')}")
    parts = data.parts()
    # The groups of the required files that name no remote document: 3 or 4 of each draft name one.
    assert {part: parts[part] for part in ("draft4", "draft6", "draft7", "draft2019-09", "draft2020-12")} == {
        "draft4": 143,
        "draft6": 209,
        "draft7": 226,
        "draft2019-09": 332,
        "draft2020-12": 338,
    }
    assert parts["draft2020-12 format"] > 10


def test_the_public_data_has_all_ten_parts() -> None:
    parts = open_dataset(f"maskbench:{shared.path('data', 'maskbench-dev.jsonl.gz')}").parts()
    assert set(PARTS) < set(parts) and "other" not in parts


def test_the_hub_needs_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(OptionError, match=r"(?s)needs the library `datasets`.*pip install datasets"):
        list(open_dataset("hub:epfl-dlab/JSONSchemaBench"))


def test_the_hub_through_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets")
    (tmp_path / "README.md").write_text(
        "---\nconfigs:\n- config_name: Kubernetes\n  data_files: k.jsonl\n- config_name: Snowplow\n"
        "  data_files: s.jsonl\n---\n"
    )
    for name in "ks":
        row = {"json_schema": '{"type": "integer"}', "unique_id": f"{name}1"}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row))
    wanted = [Item("s1", "Snowplow", {"type": "integer"}, None)]
    assert list(open_dataset(f"hub:{tmp_path}:Snowplow")) == wanted
    with pytest.raises(OptionError, match="cannot load part 'Github_trivial'"):
        list(open_dataset(f"hub:{tmp_path}"))


def test_a_sample_has_each_part_by_its_size_and_is_repeatable() -> None:
    items = [
        Item(f"{part}---{i}", part, {}, None)
        for part, n in (("A", 60), ("B", 30), ("C", 10))
        for i in range(n)
    ]

    def drawn(items: list[Item], count: int) -> list[Item]:
        return sorted(
            Dataset("x", "x", lambda: iter(items)).sample(count, seed=1), key=lambda item: item.name
        )

    found = drawn(items, 10)
    assert Counter(item.part for item in found) == {"A": 6, "B": 3, "C": 1}
    assert found == drawn(items[::-1], 10) and len(drawn(items, 1000)) == 100
    streamed = Dataset("x", "x", lambda: iter(items)).sample(10, seed=1)
    assert list(streamed) == list(streamed)


@given(st.lists(st.sampled_from("ABC"), max_size=30), st.integers(0, 40), st.integers(0, 5))
def test_a_sample_has_the_requested_number_of_items(parts: list[str], count: int, seed: int) -> None:
    items = [Item(f"{part}---{i}", part, {}, None) for i, part in enumerate(parts)]
    drawn = list(Dataset("x", "x", lambda: iter(items)).sample(count, seed))
    assert len(drawn) == min(count, len(items))
    for part in set(parts):
        exact = count * parts.count(part) / len(parts)
        assert abs(sum(item.part == part for item in drawn) - min(exact, parts.count(part))) < 1


def test_the_bundled_sample() -> None:
    jsonschema_rs = pytest.importorskip("jsonschema_rs")
    data = list(open_dataset("bundled"))
    counts = Counter(item.part for item in data)
    assert len(data) >= 60 and set(counts) == set(PARTS) and min(counts.values()) >= 5
    for item in data:
        assert item.tests is not None
        assert {label for label, _ in item.tests} == {True, False}, item.name
        report = jsonschema_rs.validator_for(item.schema, validate_formats=True)
        for label, value in item.tests:
            assert report.is_valid(value) == label, (item.name, value)


def test_the_bundled_sample_is_what_its_script_writes() -> None:
    pytest.importorskip("jsonschema_rs")
    from bench.evaluation.schemas import items
    from structgen.evaluation import datasets

    path = Path(datasets.__file__).parent / "data" / "schemas.jsonl"
    assert [json.loads(line) for line in path.read_text("utf-8").splitlines()] == list(items())
