"""Which requests are compiled without a probe, and that they have the same constraint as with one."""

import json
import random

import pytest

from structgen import _core
from structgen.errors import LimitExceeded, SchemaInvalid, StructgenError
from structgen.serving.compiler import ConstraintCompiler
from structgen.serving.limits import DEFAULT_LIMITS, RequestLimits
from structgen.serving.requests import constraint_of
from structgen.serving.simple_specs import simple_constraint

from .specs import BYTES

_CALL = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}


def _tag(name, content=None, end="</call>", **more):
    content = {"type": "json_schema", "json_schema": _CALL} if content is None else content
    return {"type": "tag", "begin": f"<{name}>", "content": content, "end": end, **more}


def _triggered(tags, **more):
    return {
        "type": "structural_tag",
        "format": {"type": "triggered_tags", "triggers": ["<"], "tags": tags, **more},
    }


_THINKING = {"type": "tag", "begin": "<think>", "content": {"type": "any_text"}, "end": "</think>"}
_TOOLS = [_tag(f"tool_{index}") for index in range(40)]
_SIMPLE = {
    "a schema": ("json", _CALL),
    "a schema as text": ("json", json.dumps(_CALL)),
    "a schema as bytes": ("json", json.dumps(_CALL).encode()),
    "tools": ("structural_tag", json.dumps(_triggered(_TOOLS))),
    "at least one tool": ("structural_tag", _triggered(_TOOLS, at_least_one=True)),
    "the older form": (
        "structural_tag",
        {
            "structures": [{"begin": f"<t{i}>", "schema": _CALL, "end": "</t>"} for i in range(10, 30)],
            "triggers": ["<t"],
        },
    ),
    "tags with a separator": (
        "structural_tag",
        {
            "type": "structural_tag",
            "format": {"type": "tags_with_separator", "tags": _TOOLS, "separator": ","},
        },
    ),
    "reasoning and a call": (
        "structural_tag",
        {
            "format": {
                "type": "sequence",
                "elements": [_THINKING, {"type": "const_string", "value": "\n"}, _tag("a")],
            }
        },
    ),
    "reasoning, then tools": (
        "structural_tag",
        {"format": {"type": "sequence", "elements": [_THINKING, _triggered(_TOOLS)["format"]]}},
    ),
}
_NUMBER = {"type": "integer", "minimum": 0}
_NUMBER_FORMAT = {"type": "json_schema", "json_schema": _NUMBER}
_HOSTILE = {"pattern": "^[ab]*a[ab]{30}$"}
_NOT_SIMPLE = {
    "a hostile schema": ("json", _HOSTILE),
    "a pattern": ("regex", "a"),
    "a grammar": ("grammar", 'start: "a"'),
    "a hostile schema in a tag": (
        "structural_tag",
        _triggered([_tag("a", {"type": "json_schema", "json_schema": _HOSTILE})]),
    ),
    "a pattern in a tag": ("structural_tag", _triggered([_tag("a", {"type": "regex", "pattern": "a"})])),
    "the same begin twice": ("structural_tag", _triggered([_tag("a"), _tag("b"), _tag("a")])),
    "a begin that begins with another": (
        "structural_tag",
        _triggered([{**_tag("a"), "begin": "<a"}, {**_tag("a"), "begin": "<ab"}]),
    ),
    "long begins": ("structural_tag", _triggered([_tag("a" * 300)])),
    "many triggers": (
        "structural_tag",
        {"format": {**_triggered([_tag("a")])["format"], "triggers": ["<"] * 17}},
    ),
    "excluded texts": ("structural_tag", _triggered([_tag("a")], excludes=["x"])),
    "alternatives": ("structural_tag", {"format": {"type": "or", "elements": [_tag("a"), _tag("b")]}}),
    "elements": (
        "structural_tag",
        _triggered([_tag("a", {"type": "json_schema", "json_schema": _CALL, "style": "qwen_xml"})]),
    ),
    "free text many times": (
        "structural_tag",
        {"format": {"type": "sequence", "elements": [_triggered([_tag("a")])["format"]] * 50}},
    ),
    "free text in a tag": (
        "structural_tag",
        {"format": {"type": "sequence", "elements": [_tag("a", _triggered([_tag("b")])["format"])]}},
    ),
    "numbers after one another": (
        "structural_tag",
        {"format": {"type": "sequence", "elements": [{"type": "json_schema", "json_schema": _NUMBER}] * 50}},
    ),
    "numbers whose ends are digits": (
        "structural_tag",
        {"format": {"type": "sequence", "elements": [_tag("a", _NUMBER_FORMAT, end="1")] * 50}},
    ),
    "no format": ("structural_tag", {"format": 3}),
    "a list": ("structural_tag", []),
    "no begins": ("structural_tag", _triggered([{**_tag("a"), "begin": 3}])),
}


def _simple(kind, spec, limits=DEFAULT_LIMITS):
    return simple_constraint(kind, spec, limits, ())


@pytest.mark.parametrize(("kind", "spec"), _SIMPLE.values(), ids=_SIMPLE)
def test_a_simple_spec_has_the_constraint_that_a_probe_reads(kind, spec):
    assert _simple(kind, spec).lower() == constraint_of(kind, spec).lower()


@pytest.mark.parametrize(("kind", "spec"), _NOT_SIMPLE.values(), ids=_NOT_SIMPLE)
def test_others_are_not_simple(kind, spec):
    assert _simple(kind, spec) is None


def test_the_form_of_json_is_that_of_the_limits():
    limits = RequestLimits(whitespace="compact", integers="any")
    assert _simple("json", _CALL, limits).lower() == constraint_of("json", _CALL, limits).lower()
    assert _simple("json", _CALL, RequestLimits(ordered=False)) is None


@pytest.fixture(scope="module")
def compiler():
    with ConstraintCompiler(BYTES, RequestLimits(compile_seconds=30.0), workers=1) as made:
        yield made


@pytest.mark.parametrize("name", [name for name in _SIMPLE if name != "a schema as bytes"])
def test_a_simple_spec_is_compiled_at_once_and_kept(compiler, name):
    kind, spec = _SIMPLE[name]
    before = compiler.stats
    compiled = compiler.compile(kind, spec)
    assert compiler.compile(kind, spec) is compiled
    after = compiler.stats
    assert (after.unprobed, after.hits) == (before.unprobed + 1, before.hits + 1)
    oracle = _core.Matcher(compiler.vocabulary.engine.compile(constraint_of(kind, spec).lower()))
    matcher, source = compiled.open(), random.Random(1)
    for _ in range(60):
        mask = matcher.mask()
        assert (mask == oracle.mask()).all()
        allowed = [byte for byte in range(256) if mask[byte >> 5] >> (byte & 31) & 1]
        if not allowed:
            break
        byte = source.choice(allowed)
        assert matcher.advance(byte)
        assert oracle.advance(byte)
    assert compiled.in_own_engine().open().mask().any()


def test_other_specs_are_still_probed(compiler):
    before = compiler.stats.unprobed
    compiler.compile("json", {**_CALL, "minProperties": 1})
    compiler.compile("json", {"type": "string", "pattern": "^(?:ab){2,5}$"})
    assert compiler.stats.unprobed == before


@pytest.mark.parametrize(
    "spec",
    [
        '{"type": "string", "type": "number"}',
        "[" * 5_000,
        {"type": "object", "required": ["a"], "additionalProperties": False},
        {"type": "integer", "minimum": 3, "maximum": 2},
        {"anyOf": []},
    ],
    ids=str,
)
def test_a_fault_is_reported_by_the_probe(compiler, spec):
    before = compiler.stats.unprobed
    with pytest.raises(StructgenError) as caught:
        compiler.compile("json", spec)
    assert compiler.stats.unprobed == before
    with ConstraintCompiler(BYTES, workers=0) as other, pytest.raises(type(caught.value)) as expected:
        other.submit("json", spec).result()
    assert str(expected.value) == str(caught.value)


def test_a_spec_that_is_too_large_is_refused(compiler):
    with pytest.raises(LimitExceeded) as caught:
        compiler.compile("json", {"description": "a" * (1 << 20)})
    assert caught.value.limit == "max_bytes"


def test_work_without_a_probe_is_bounded():
    """With hardly any time to build, a simple spec is probed, and that decides."""
    large = {"type": "object", "properties": {f"key_{i}": {"type": "string"} for i in range(400)}}
    with ConstraintCompiler(BYTES, RequestLimits(install_seconds=1e-9), workers=1) as compiler:
        with pytest.raises(LimitExceeded) as caught:
            compiler.compile("json", large)
        assert caught.value.limit == "install_seconds"
        assert compiler.stats.unprobed == 0


def test_an_unexpected_error_leads_to_the_probe(compiler, monkeypatch, caplog):
    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("structgen.serving.compiler.simple_constraint", fail)
    assert compiler.compile("json", {"type": "string", "maxLength": 77}).open().mask().any()
    assert "without a probe" in caplog.text


def test_equal_specs_at_the_same_time_have_one_outcome(compiler, monkeypatch):
    """A second caller joins the job that the first one compiles itself."""
    real, spec, joined = simple_constraint, {"type": "string", "maxLength": 78}, []

    def read(*arguments):
        if not joined:
            joined.append(compiler.submit("json", spec))
        return real(*arguments)

    monkeypatch.setattr("structgen.serving.compiler.simple_constraint", read)
    compiled = compiler.compile("json", spec)
    assert joined[0].result(30) is compiled


def test_a_closed_compiler_refuses_simple_specs():
    compiler = ConstraintCompiler(BYTES, workers=0)
    compiler.close()
    with pytest.raises(LimitExceeded) as caught:
        compiler.compile("json", _CALL)
    assert caught.value.limit == "closed"


def test_faults_have_their_own_class(compiler):
    with pytest.raises(SchemaInvalid):
        compiler.compile("json", {"type": "strin"})
