"""The end of a run says what was skipped, and what makes it run."""

from __future__ import annotations

import pytest

from tests.skipped import lines


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        (["vLLM is not installed"] * 12, ["12 tests: vLLM is not installed: make test-vllm"]),
        (["Skipped: mona is not installed"], ["1 test: mona is not installed: make programs"]),
        (
            ["Skipped: could not import 'xgrammar': No module named 'xgrammar'"] * 2,
            ["2 tests: xgrammar is not installed: make develop"],
        ),
        (
            ["needs data/x.gz of the shared data; set STRUCTGEN_SHARED to its folder"],
            ["1 test: needs data/x.gz of the shared data; set STRUCTGEN_SHARED to its folder"],
        ),
        (
            ["vLLM is not installed; make test-vllm runs these"],
            ["1 test: vLLM is not installed; make test-vllm runs these"],
        ),
        (["jedi reports no types"], ["1 test: jedi reports no types"]),
        ([], []),
    ],
)
def test_reasons_are_grouped_and_come_with_a_command(reasons: list[str], said: list[str]) -> None:
    assert lines(reasons) == said


def test_the_most_frequent_reason_comes_first() -> None:
    assert [line[0] for line in lines(["b", "a", "c", "c"])] == ["2", "1", "1"]
