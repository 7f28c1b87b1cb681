"""The benchmarks of many tools run, and print what their tables need."""

import pytest

from bench import tool_growth, tool_masks

pytest.importorskip("transformers")


def test_growth(capsys):
    assert tool_growth.main(["--tools", "3", "--repeats", "1", "--engines", "structgen"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head == "tools | structgen | plugins | probed"
    assert len(row.split(" | ")) == 4
    assert row.startswith("3 | ")


def test_growth_in_formats(capsys):
    pytest.importorskip("xgrammar")
    arguments = [
        "--tools",
        "3",
        "--repeats",
        "1",
        "--engines",
        "xgrammar",
        "--format",
        "qwen3_coder",
        "hermes",
    ]
    assert tool_growth.main(arguments) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head == "format | tools | bytes | structgen | plugins | probed | xgrammar"
    assert [row.split(" | ")[:2] for row in rows] == [["qwen3_coder", "3"], ["hermes", "3"]]
    for row in rows:
        assert all(float(time) > 0 for time in row.split(" | ")[3:5])


def test_masks(capsys):
    assert tool_masks.main(["--tools", "3", "--sets", "1", "--calls", "2"]) == 0
    head, first, later, *slowest = capsys.readouterr().out.splitlines()
    assert head.startswith("masks | number")
    assert first.startswith("first of a set | 1 | ")
    assert later.startswith("later | ")
    assert len(slowest) == 3
