"""Compiled constraints: they open matchers; slow ones have an engine of their own or are refused."""

import json

import pytest

from structgen.errors import LimitExceeded
from structgen.serving.compiler import ConstraintCompiler, check_build_time
from structgen.serving.limits import DEFAULT_LIMITS, RequestLimits
from structgen.serving.probe import ProbeResult, probe_compile
from structgen.serving.probes import ProbeJob

from .specs import BYTES


@pytest.fixture(scope="module")
def compiler():
    with ConstraintCompiler(BYTES, RequestLimits(compile_seconds=30.0), workers=1) as made:
        yield made


def test_a_compiled_spec_opens_matchers(compiler):
    compiled = compiler.compile("regex", "ab?")
    first, second = compiled.open(), compiled.open()
    assert first.advance(ord("a"))
    assert second.tokens == []
    assert first.is_complete()
    assert compiled.constraint.describe() == "the pattern /ab?/"


def test_text_and_value_are_different_specs(compiler):
    assert compiler.compile("json", "true").open().advance(ord("1"))
    assert compiler.compile("json", True).open().advance(ord("1"))


def test_a_constraint_that_takes_long_to_build_is_refused():
    limits = RequestLimits(install_seconds=1e-7)
    with ConstraintCompiler(BYTES, limits, workers=1) as compiler:
        with pytest.raises(LimitExceeded) as caught:
            compiler.compile("regex", "a")
        assert caught.value.limit == "install_seconds"


def _tools(count: int) -> str:
    """Return a structural tag with that many tools."""
    parameters = {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": "What to look for, in a few words of plain text. " * 4,
            },
            "most": {"type": "integer", "minimum": 1, "maximum": 50},
            "sources": {"type": "array", "items": {"enum": ["mail", "files", "web"]}},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    tags = [
        {
            "begin": f"<function=tool_{i}>",
            "content": {"type": "json_schema", "json_schema": parameters},
            "end": "</f>",
        }
        for i in range(count)
    ]
    found = {"type": "triggered_tags", "triggers": ["<function="], "tags": tags}
    return json.dumps({"type": "structural_tag", "format": found})


def _took(seconds: float, work: float | None = None, lowered: int = 0) -> ProbeResult:
    return ProbeResult("a constraint", b" " * lowered, seconds, seconds, work or seconds, 0.0)


def test_the_time_to_build_an_automaton_grows_with_the_spec():
    small, large = (
        ProbeJob("structural_tag", _tools(1), b"", []),
        ProbeJob("structural_tag", _tools(500), b"", []),
    )
    check_build_time(
        large, _took(0.2), DEFAULT_LIMITS
    )  # four times the limit of a small spec, as on a busy machine
    with pytest.raises(LimitExceeded, match="more than 50 for"):
        check_build_time(small, _took(0.051), DEFAULT_LIMITS)
    with pytest.raises(LimitExceeded, match="install_seconds"):
        check_build_time(large, _took(0.5), DEFAULT_LIMITS)
    with pytest.raises(LimitExceeded):
        check_build_time(ProbeJob("json_object", "", b"", []), _took(0.051), DEFAULT_LIMITS)


def test_a_busy_machine_may_take_longer_for_little_work():
    job = ProbeJob("structural_tag", _tools(1), b"", [])
    check_build_time(job, _took(0.19, work=0.04), DEFAULT_LIMITS)
    for refused in (_took(0.21, work=0.04), _took(0.06, work=0.06), _took(0.06, work=1.0)):
        with pytest.raises(LimitExceeded, match="install_seconds"):
            check_build_time(job, refused, DEFAULT_LIMITS)


def test_a_busy_machine_and_a_large_lowered_form_do_not_multiply():
    job = ProbeJob("structural_tag", _tools(1), b"", [])
    check_build_time(job, _took(0.19, work=0.19, lowered=3 << 20), DEFAULT_LIMITS)
    with pytest.raises(
        LimitExceeded, match=r"210 ms to build, more than 200 for \d+ bytes \(3,145,728 in the form"
    ):
        check_build_time(job, _took(0.21, work=0.04, lowered=3 << 20), DEFAULT_LIMITS)


def test_the_message_states_the_limit_of_a_busy_machine():
    job = ProbeJob("structural_tag", _tools(1), b"", [])
    with pytest.raises(LimitExceeded, match=r"210 ms to build, more than 200 for \d+ bytes \(limit"):
        check_build_time(job, _took(0.21, work=0.04), DEFAULT_LIMITS)


def test_reading_a_large_lowered_form_counts_as_work():
    """300 patterns of 18 KB lower to 3 MB, which takes a quarter of a second to read, but the core little work."""
    properties = {
        f"p{index}": {"type": "string", "pattern": rf"[\p{{L}}\p{{N}}{chr(0x2500 + index)}]"}
        for index in range(300)
    }
    spec = json.dumps({"type": "object", "properties": properties})
    probe = probe_compile("json", spec, BYTES, DEFAULT_LIMITS)
    most = DEFAULT_LIMITS.install_seconds_for(len(spec), len(probe.lowered))
    assert probe.install_work > most == 4 * DEFAULT_LIMITS.install_seconds


def test_the_lowered_form_counts_up_to_four_times_the_spec():
    job = ProbeJob("structural_tag", _tools(1), b"", [])
    for kilobytes, most in ((64, 0.05), (65, 0.1), (256, 0.2), (100_000, 0.2)):
        check_build_time(job, _took(most - 0.001, lowered=kilobytes << 10), DEFAULT_LIMITS)
        with pytest.raises(LimitExceeded, match="install_seconds"):
            check_build_time(job, _took(most + 0.001, lowered=kilobytes << 10), DEFAULT_LIMITS)


def test_five_hundred_tools_are_compiled(compiler):
    matcher = compiler.compile("structural_tag", _tools(500)).open()
    for token in b'<function=tool_499>{"query": "x"}</f>':
        assert matcher.advance(token)
    assert matcher.is_complete()


def test_a_spec_with_a_slow_mask_has_an_engine_of_its_own():
    limits = RequestLimits(slow_mask_seconds=1e-9)
    with ConstraintCompiler(BYTES, limits, workers=1) as compiler:
        compiled = compiler.compile("regex", "ab")
        assert compiled.is_slow
        assert compiled.vocabulary.engine is not compiler.vocabulary.engine
        assert compiled.vocabulary.native is compiler.vocabulary.native
        assert compiler.stats.slow == 1
