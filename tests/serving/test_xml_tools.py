"""A thousand tools whose arguments are XML elements, in the compiler of the plugins."""

import json
import random
from dataclasses import replace

import pytest

from bench.schemas.generated import tools
from structgen import _core
from structgen.errors import LimitExceeded
from structgen.serving.compiler import ConstraintCompiler
from structgen.serving.limits import DEFAULT_LIMITS, RequestLimits
from structgen.serving.probe import serving_vocabulary
from structgen.serving.requests import constraint_of

from .specs import BYTES

_STYLES = ("qwen_xml", "glm_xml", "minimax_xml", "deepseek_xml")
_PATIENT = RequestLimits(compile_seconds=60.0, install_seconds=1.0)
"""Limits that a busy machine meets: what is tested is that a set is not refused for its kind."""


def structural_tag(count, style):
    tags = [
        {
            "type": "tag",
            "begin": f"<call>{tool['name']}>",
            "content": {"type": "json_schema", "style": style, "json_schema": tool["inputSchema"]},
            "end": "</call>",
        }
        for tool in tools(random.Random(count), count)
    ]
    return {
        "type": "structural_tag",
        "format": {"type": "triggered_tags", "triggers": ["<call>"], "tags": tags},
    }


def _work(style: str, count: int) -> int:
    """Return the units of work that the core counts while it builds the automaton."""
    lowered = constraint_of("structural_tag", structural_tag(count, style)).lower()
    engine = serving_vocabulary(BYTES).engine
    before = _core.work_done()
    engine.compile(lowered)
    return _core.work_done() - before


@pytest.mark.parametrize("style", _STYLES)
def test_a_thousand_tools_are_accepted(style):
    spec = structural_tag(1_000, style)
    with ConstraintCompiler(BYTES, _PATIENT, workers=1) as compiler:
        compiled = compiler.compile("structural_tag", json.dumps(spec))
    for tag in spec["format"]["tags"][::250]:
        matcher = compiled.open()
        assert all(map(matcher.advance, tag["begin"].encode()))
        assert matcher.mask().any()


@pytest.mark.parametrize("style", _STYLES)
def test_building_takes_a_small_multiple_of_the_work_for_json(style):
    """If each tool were built alone, it would be up to 21 times as much."""
    assert _work(style, 400) < 7 * _work("json", 400)


def test_work_grows_with_the_number_of_tools():
    few, many = _work("qwen_xml", 200), _work("qwen_xml", 800)
    assert many < 5 * few


def test_equal_parameters_are_compiled_once():
    def parts(count):
        return len(constraint_of("structural_tag", structural_tag(count, "glm_xml")).lower()[1]["terminals"])

    # Each tool adds its name, and its elements; of the values, only those that are its own.
    assert parts(400) - parts(200) < 200 * 3


def _distinct_classes(letters: str) -> dict[str, object]:
    """Return one tool with many parameters, of which no two have the same characters, so sharing does not help."""
    properties = {
        f"p{index}": {"type": "string", "pattern": f"[{letters}{chr(0x2500 + index)}]"}
        for index in range(600)
    }
    schema = {"type": "object", "properties": properties}
    content = {"type": "json_schema", "style": "qwen_xml", "json_schema": schema}
    tag = {"type": "tag", "begin": "<f>", "content": content, "end": "</f>"}
    return {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<"], "tags": [tag]}}


def test_costly_parameters_are_refused_and_cheap_ones_accepted():
    """Each class of all letters and digits lowers to hundreds of ranges."""
    limits = replace(DEFAULT_LIMITS, compile_seconds=60.0)  # only the time to build decides
    with ConstraintCompiler(BYTES, limits, workers=1) as compiler:
        assert compiler.compile("structural_tag", _distinct_classes("a-z")).open().mask().any()
        with pytest.raises(LimitExceeded) as caught:
            compiler.compile("structural_tag", _distinct_classes(r"\p{L}\p{N}"))
    assert caught.value.limit == "install_seconds"
