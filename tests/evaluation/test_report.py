"""The page of a run is well-formed, a single file, and safe for any content."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen.errors import OptionError
from structgen.evaluation.durations import duration
from structgen.evaluation.metrics import Share
from structgen.evaluation.records import Run
from structgen.evaluation.report import report, write_report
from structgen.evaluation.report.markup import element, table
from structgen.evaluation.report.plots import bars

from .runs import masks, read, run_of, worked, written

HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[31m&\"'`"


def parsed(page: str) -> ElementTree.Element:
    """Parse the content as XML, which is stricter than HTML."""
    return ElementTree.fromstring(page[page.index("<main>") : page.index("</main>") + len("</main>")])


def texts(page: str) -> str:
    return " ".join("".join(parsed(page).itertext()).split())


def full_run() -> Run:
    return run_of(
        read("a", "1", verdicts="=", compile_s=0.001, masks_us=masks(1, 2, 900)),
        read("a", "2", verdicts="><", compile_s=2.0, masks_us=masks(0.0), part="Kubernetes"),
        read("b", "1", status="refused", message="no oneOf"),
        read("b", "2", compile_s=0.01, masks_us=masks(5), part="Kubernetes"),
        written("a", "1"),
        written("a", "2", ended=False, part="Kubernetes"),
        worked("a", "t", 1),
        worked("b", "t", 0.5),
        worked("a", "u", 0, task="arithmetic"),
    )


def test_times_that_no_schemas_share_are_not_compared() -> None:
    """One engine refuses what the other handles, and the other way round."""
    page = report(
        run_of(
            read("a", "1", compile_s=0.001, masks_us=masks(1, 2)),
            read("b", "1", status="refused", message="no oneOf"),
            read("a", "2", status="refused", message="no oneOf"),
            read("b", "2", compile_s=0.01, masks_us=masks(5)),
        )
    )
    shown = texts(page)
    assert "the 0 schemas" not in shown and "Bars count" not in shown
    assert "No schema was handled by all engines, so their times are not compared." in shown
    assert "Time of a mask, over all that each engine handled" in shown


def test_times_without_masks_have_no_bars() -> None:
    shown = texts(report(run_of(read("a", "1", compile_s=0.001), read("b", "1", compile_s=0.002))))
    assert "Bars count" not in shown and "the 0 schemas" not in shown
    assert "Time to compile a schema, over the schemas that all handled" in shown
    assert "Bars count" in texts(report(full_run()))


def test_what_is_on_the_page() -> None:
    page = report(full_run())
    shown = texts(page)
    for wanted in (
        "Schemas: d",
        "Declared: the engine takes the schema",
        "Kubernetes",
        "Tasks with answers",
        "Engines against one another",
        "What went wrong: d",
        "refused: no oneOf",
        "its verdicts are too strict and too loose",
        "its text was cut off",
        "100.0 % 2/2, 34.2 to 100.0",
    ):
        assert wanted in shown, wanted
    plots = [one for one in parsed(page).iter("svg") if one.get("role") == "img"]
    assert len(plots) == 4 + 2 + 3  # kinds of coverage, two of times, tasks and their sum
    for plot in plots:
        assert re.search(r"a: .*[%s]", plot.get("aria-label") or "")
    for one in parsed(page).iter("table"):
        assert one.find("caption") is not None and all(head.get("scope") for head in one.iter("th"))


def test_nothing_is_loaded_and_nothing_runs() -> None:
    page = report(full_run())
    assert "default-src 'none'" in page
    assert not re.search(r"<(script|link|img|iframe|object|base)\b", page)
    assert not re.search(r"\b(src|href|action|on\w+)=", page) and "url(" not in page and "@import" not in page


def test_the_same_run_gives_the_same_page() -> None:
    assert report(full_run()) == report(full_run())


@pytest.mark.parametrize("field", ["engine", "dataset", "part", "item", "message"])
def test_untrusted_input_is_shown_as_text(field: str) -> None:
    bad = replace(read("a", "1", status="refused"), **{field: HOSTILE})
    page = report(run_of(bad, read("a", "2", verdicts=">")))
    assert "alert(1)" in page
    for markup in ("<script", "<img", "\u202e", "\x1b"):
        assert markup not in page
    assert "\\u202e" in page
    parsed(page)


def test_any_settings_can_be_shown() -> None:
    settings = dict.fromkeys(
        ("engines", "machine", "limits", "versions", "datasets", "tasks", "model", "started")
    )
    assert "The run holds no answer yet." in report(Run({"format": 1} | settings, ()))
    assert "alert(1)" in report(run_of(read("a", "1"), model=HOSTILE, versions={HOSTILE: HOSTILE}))


@given(st.text(), st.text())
def test_any_text_makes_well_formed_elements(inner: str, value: str) -> None:
    found = ElementTree.fromstring(element("p", inner, title=value))
    if value.isprintable():
        assert found.get("title") == value
    if inner.isprintable():
        assert found.text == (inner or None)


def test_long_lists_are_cut_and_say_so() -> None:
    page = report(run_of(*(read("a", f"item {at:03}", verdicts=">") for at in range(150))))
    assert "… and 50 more." in page and "item 099" in page and "item 100" not in page
    page = report(run_of(*(read("a", str(at), status="refused", message="x" * at) for at in range(50))))
    assert "… and 30 more messages." in page


def test_messages_that_differ_in_a_place_are_one() -> None:
    said = [f"no oneOf in line {at}\n  while reading #/{at}" for at in range(3)]
    shown = texts(
        report(run_of(*(read("a", str(at), status="refused", message=one) for at, one in enumerate(said))))
    )
    assert "3refused: no oneOf in line 0 while reading #/00" in shown and "line 1" not in shown


def test_a_page_of_thousands_of_schemas_is_small() -> None:
    records = [
        read(
            "a",
            str(at),
            verdicts="=",
            compile_s=1e-4 * (at + 1),
            masks_us=masks(1, 10, at + 1),
            part=f"p{at % 10}",
        )
        for at in range(3000)
    ]
    assert len(report(run_of(*records))) < 100_000


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    write_report(full_run(), tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == report(full_run())
    with pytest.raises(OptionError, match="cannot write the report"):
        write_report(full_run(), tmp_path)


def test_bars_have_labels() -> None:
    drawn = ElementTree.fromstring(bars("Declared", [("a", 0, Share(1, 2)), ("b", 1, Share(0, 0))]))
    shown = drawn.find("svg").get("aria-label")  # type: ignore[union-attr]
    assert shown == "Declared: a: 50.0 % (1 of 2; 95 % interval 9.5 to 90.5); b: nothing was measured"


def test_heads_are_aligned_as_their_columns() -> None:
    shown = table("c", ["Engine", "Count"], [["a", ("1", "number")]])
    assert '<th scope="col" class="number">Count</th>' in shown and '<th scope="row">a</th>' in shown


@pytest.mark.parametrize(
    ("microseconds", "shown"),
    [
        (0, "0.00 µs"),
        (1.234, "1.23 µs"),
        (999.4, "999 µs"),
        (12_345, "12.3 ms"),
        (2e6, "2.00 s"),
        (4e9, "4,000 s"),
    ],
)
def test_durations_read_well(microseconds: float, shown: str) -> None:
    assert duration(microseconds) == shown
