"""Infilling from the left: templates, constraints of holes and of the whole, weights by what follows."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

import structgen as sg
from structgen.errors import CombinationError, EmptyConstraint, OptionError, OutputInvalid
from structgen.infilling import infill
from structgen.infilling.template import read_template
from structgen.matcher import open_matcher
from structgen.models.memory import DistributionModel

TOKENS = [None, *(bytes([byte]) for byte in range(32, 127)), b"\n", b"ab", b", "]
VOCABULARY = sg.Vocabulary.from_tokens(TOKENS, [0])


def uniform(tokens: Any) -> Any:
    return np.full(VOCABULARY.size, 1 / VOCABULARY.size)


MODEL = DistributionModel(VOCABULARY, uniform)


def test_holes_are_filled_under_their_constraints() -> None:
    for seed in range(20):
        found = infill(
            MODEL,
            "f({{first}}, {{ second }}) = {{first}};",
            first=sg.regex("[a-c]{1,3}"),
            second=sg.regex("[0-9]+|, "),
            seed=seed,
            prompt="",
        )
        assert re.fullmatch(r"f\([a-c]{1,3}, ([0-9]+|, )\) = [a-c]{1,3};", found.text)
        assert found.text.startswith(f"f({found.holes['first']}, {found.holes['second']}) = ")
        assert found.method == "left-to-right"


def test_what_follows_can_always_follow() -> None:
    """A hole of any text, and a grammar for the whole: the hole is left only where the rest fits."""
    likely = np.array([30.0 if set(one or b"") <= set(b"17, ]") else 0.01 for one in TOKENS])
    likely[[0, TOKENS.index(b"]")]] = 3_000.0
    model = DistributionModel(VOCABULARY, lambda tokens: likely / likely.sum())
    for seed in range(12):
        found = infill(
            model, "[{{values}}, 7]", within=sg.grammar("json"), seed=seed, prompt="", max_tokens=300
        )
        assert sg.Matcher(sg.grammar("json"), VOCABULARY).explain(found.text).ok
        assert found.text == f"[{found.holes['values']}, 7]"


def test_weights_are_the_likelihood_of_what_follows() -> None:
    """After `x` the model expects `1`, after `y` hardly: holes are drawn by Bayes' rule."""

    def distribution(tokens: Any) -> Any:
        text = VOCABULARY.decode(tokens)
        p = np.full(VOCABULARY.size, 1e-9)
        ids = {one: place for place, one in enumerate(TOKENS) if one}
        if text in (b"", b"a"):
            p[ids[b"a" if not text else b"x"]] = 0.5
            p[ids[b"b" if not text else b"y"]] = 0.5
        else:
            p[ids[b"1"]] = 0.9 if text == b"ax" else 0.1
            p[ids[b"2"]] = 0.1 if text == b"ax" else 0.9
        return p / p.sum()

    model = DistributionModel(VOCABULARY, distribution)
    counts = {"x": 0, "y": 0}
    for seed in range(60):
        found = infill(
            model,
            "a{{hole}}1",
            hole=sg.regex("[xy]"),
            method="smc",
            particles=8,
            seed=seed,
            prompt="",
            max_tokens=4,
        )
        counts[found.holes["hole"]] += 1
        assert abs(sum(found.weights) - 1) < 1e-9 and len(found.texts) == len(found.weights)
    assert 0.75 < counts["x"] / 60 <= 1


def test_bad_input() -> None:
    for template, options, said in (
        ("no hole", {}, "no hole"),
        ("{{a}}", {"b": "x"}, "no hole 'b'"),
        ("{{a}}", {"method": "best"}, "method is 'best'"),
        ("{{a}}", {"method": "fim"}, "no tokens for filling in the middle"),
        (3, {}, "template is 3"),
        ("{{a}}", {"within": "cpp"}, "within is 'cpp'"),
        ("{{a}}", {"marks": "<"}, "marks is '<'"),
        ("{{a}}", {"a": "x", "constraints": {"a": "y"}}, "the hole 'a' has two constraints"),
        ("{{a}}", {"options": {"max_tokens": 3}}, "'max_tokens' is not an option of infill's"),
        ("{{a}}", {"max_tokens": 0}, "max_tokens is 0"),
        ("{{a}}", {"max_tokens": None}, "max_tokens is None"),
        ("{{a}}", {"constraints": [1]}, "constraints is .*; it must be a mapping"),
        ("{{a}}" * 101, {}, "has 101 holes; at most 100"),
    ):
        with pytest.raises(OptionError, match=said):
            infill(MODEL, template, **options)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="the first argument is"):
        infill("smollm", "({{a}})")
    with pytest.raises(CombinationError, match="'a' has a constraint that is not a regular"):
        infill(MODEL, "{{a}};", a=sg.grammar("json"), within=sg.grammar("sql"))


def test_tokens_for_the_middle() -> None:
    marked = sg.Vocabulary.from_tokens(
        [*TOKENS, None, None, None], [0],
        specials={"<fim_prefix>": 99, "<fim_suffix>": 100, "<fim_middle>": 101},
    )  # fmt: skip
    asked: list[str] = []

    class Middle(DistributionModel):
        def encode(self, prompt: Any) -> list[int]:
            asked.append(prompt)
            return [0]

    model = Middle(marked, lambda tokens: np.full(marked.size, 1 / marked.size))
    found = infill(model, "a {{hole}} b", hole=sg.regex("[xy]{2}"), seed=1)
    assert found.method == "fim" and asked == ["<fim_prefix>a <fim_suffix> b<fim_middle>"]
    assert found.text == f"a {found.holes['hole']} b"


def test_what_comes_to_no_end_is_completed() -> None:
    """A model that likes one letter; and where the option is given, what it means stays."""
    likely = np.array([1e-6 if one != b"a" else 1.0 for one in TOKENS])
    model = DistributionModel(VOCABULARY, lambda tokens: likely / likely.sum())
    found = infill(model, "({{x}})", x=sg.regex("a*b?"), max_tokens=9, prompt="", seed=1)
    assert found.text == "(" + "a" * 9 + ")" or re.fullmatch(r"\(a{0,9}\)", found.text)
    assert found.hole_ends == ["cut"] and found.holes["x"] in found.text
    found = infill(model, "({{x}})", x=sg.regex("a{12}b?"), max_tokens=9, prompt="", seed=1)
    assert found.text == "(" + "a" * 12 + ")" and found.hole_ends == ["completed"]


def test_a_hole_is_cut_where_what_follows_is_likeliest() -> None:
    """The model continues with letters for ever, and expects a semicolon after `cab` most."""
    ids = {one: place for place, one in enumerate(TOKENS) if one}

    def distribution(tokens: Any) -> Any:
        text = VOCABULARY.decode(tokens)
        p = np.full(VOCABULARY.size, 1e-6)
        p[ids[b"abc"[(len(text) + 2) % 3 :][:1]]] = 1.0
        p[ids[b";"]] = {b"c": 0.01, b"ca": 0.02, b"cab": 0.2, b"cabc": 0.1}.get(text, 0.001)
        return p / p.sum()

    model = DistributionModel(VOCABULARY, distribution)
    found = infill(model, "{{x}};", x=sg.regex("[a-c]*"), max_tokens=9, prompt="", options={"temperature": 0})
    assert (found.text, found.hole_ends) == ("cab;", ["cut"])
    found = infill(
        model, "{{x}};", x=sg.regex("[a-c]{4,}"), max_tokens=9, prompt="", options={"temperature": 0}
    )
    assert found.text == "cabc;"


def test_a_hole_is_left_where_the_rest_can_be_written() -> None:
    """`)` ends the hole only where no bracket of its own is open; holes with nothing between them are one."""
    distribution = np.full(VOCABULARY.size, 1e-9)
    for one in b"()1+":
        distribution[TOKENS.index(bytes([one]))] = 1.0
    model = DistributionModel(VOCABULARY, lambda tokens: distribution / distribution.sum())
    arithmetic = sg.grammar("arithmetic")
    for seed in range(20):
        found = infill(
            model, "f({{x}}) + g({{a}}{{b}})", within=arithmetic, seed=seed, prompt="", max_tokens=12
        )
        assert sg.Matcher(arithmetic, VOCABULARY).explain(found.text).ok
        x, rest = found.holes["x"], found.holes["a"] + found.holes["b"]
        assert found.text == f"f({x}) + g({rest})" and len(found.hole_ends) == 2
        assert x.count("(") == x.count(")")


def test_where_no_text_fits_is_reported() -> None:
    json = sg.grammar("json")
    for template, said in (
        ("}{{x}}", "begins with '}', the template's first literal"),
        ("[{{x}}, ]{{y}}]", "has ', ]' after the hole 'x'"),
        ("[{{x}}, {{y}}}", "ends with '}', the template's last literal"),
    ):
        with pytest.raises(EmptyConstraint, match=re.escape(said)):
            infill(MODEL, template, within=json, x=sg.regex("[0-9]*"))


def test_names_of_parameters_and_other_marks() -> None:
    found = infill(
        MODEL,
        "{{seed}}: <<seed>>",
        constraints={"seed": sg.regex("[0-9]{3}")},
        marks=("<<", ">>"),
        seed=1,
        prompt="",
    )
    assert re.fullmatch(r"\{\{seed\}\}: [0-9]{3}", found.text) and found.holes["seed"] == found.text[-3:]


def test_a_schema_for_the_whole() -> None:
    """Keys that the template writes, values that the schema wants, and the end of each known from both sides."""
    schema = {
        "type": "object",
        "properties": {
            "name": {"enum": ["ab", "abc"]},
            "age": {"type": "integer", "minimum": 3, "maximum": 40},
        },
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    for seed in range(12):
        found = infill(
            MODEL, '{"age":{{age}},{{rest}}}', within=sg.json_schema(schema, whitespace="compact"),
            seed=seed, prompt="", max_tokens=12,
        )  # fmt: skip
        value = json.loads(found.text)
        assert value["name"] in ("ab", "abc") and 3 <= value["age"] <= 40 and found.notes == ()
        assert found.holes["rest"] in ('"name":"ab"', '"name":"abc"')
    with pytest.raises(EmptyConstraint, match="after the hole 'age'"):
        infill(MODEL, '{"age":{{age}},"name":"b"}', within=sg.json_schema(schema, whitespace="compact"))
    with pytest.raises(CombinationError, match="uniqueItems"):
        infill(MODEL, "[{{x}}]", within=sg.json_schema({"type": "array", "uniqueItems": True}))


def test_keys_that_stand_twice_are_reported() -> None:
    loose = sg.json_schema({"type": "object", "additionalProperties": {"const": 1}}, whitespace="compact")
    found = infill(MODEL, '{"a":1,{{x}}', x='"b":1}', within=loose, prompt="")
    assert found.text == '{"a":1,"b":1}' and [note.kind for note in found.notes] == ["repeats"]
    with pytest.raises(OutputInvalid, match="violates the schema"):
        infill(MODEL, '{"a":1,{{x}}', x='"a":1}', within=loose, prompt="")


def test_several_holes_in_a_function_are_followed_exactly() -> None:
    """Large enough for the chart of the grammar to need rows that are shared."""
    source = (
        "def span_of(start, stop, length):\n"
        "    # Places are counted from one, as people do who read\n"
        "    beginning = {{a}}     # the first line that counts\n"
        "    if not length:\n"
        "        beginning -= 1        # an empty span begins at the line just before\n"
        "    if {{b}}:\n"
        "        {{c}}\n"
        "    return '{},{}'.format(beginning, length)\n"
    )
    template = read_template(source, {}, sg.grammar("python"), ("{{", "}}"))
    matcher = open_matcher(template.constraint(template.literals[0], 0), sg.Vocabulary.of_bytes())
    text = source.replace("{{a}}", "start + 1").replace("{{b}}", "length == 1").replace("{{c}}", "return 'x'")
    for byte in text.encode():
        assert matcher.advance(byte)
    assert matcher.is_complete() and matcher.unproven == 0


def test_a_text_that_is_whole_at_once() -> None:
    """Holes that hold one text each are written by the first."""
    found = infill(MODEL, "{{a}}-{{b}}", a="x", b="y", prompt="")
    assert found.text == "x-y" and found.holes == {"a": "x", "b": "y"} and len(found.hole_ends) == 2


def test_what_follows_a_hole_is_not_counted_as_the_hole() -> None:
    """The model writes `abc` and then a literal that is longer than the hole may be."""
    literal = "=" * 50 + "."
    ids = {one: place for place, one in enumerate(TOKENS) if one}

    def distribution(tokens: Any) -> Any:
        text = VOCABULARY.decode(tokens)
        written = b"abc" + literal.encode()
        p = np.full(VOCABULARY.size, 1e-6)
        p[ids[written[len(text) :][:1]] if len(text) < len(written) else ids[b"z"]] = 1.0
        return p / p.sum()

    model = DistributionModel(VOCABULARY, distribution)
    found = infill(
        model, "{{a}}" + literal + "{{b}}!", a=sg.regex("[a-c]+"), b=sg.regex("z*"), prompt="",
        max_tokens=16, options={"temperature": 0},
    )  # fmt: skip
    assert found.hole_ends[0] == "model" and found.holes["a"] == "abc"
    distribution_of_letters = np.array([1.0 if one == b"a" else 1e-6 for one in TOKENS])
    model = DistributionModel(
        VOCABULARY, lambda tokens: distribution_of_letters / distribution_of_letters.sum()
    )
    found = infill(model, "{{x}}ab;", x=sg.regex("a*"), max_tokens=9, prompt="", options={"temperature": 0})
    assert (
        found.hole_ends == ["cut"] and len(found.text) <= 13
    )  # what may always begin the literal comes to an end


def test_an_impossible_template_is_reported_for_any_was_read_before() -> None:
    vocabulary = sg.Vocabulary.of_bytes()
    source = read_template("x = {{a}}\n", {}, sg.grammar("python"), ("{{", "}}"))
    open_matcher(source.constraint(source.literals[0], 0), vocabulary)
    query = read_template(
        "SELECT {{a}} FROM FROM t", {"a": sg.regex("[a-z]{1,5}")}, sg.grammar("sql"), ("{{", "}}")
    )
    with pytest.raises(EmptyConstraint):
        query.check(vocabulary)


def test_notes_of_a_schema_are_reported_where_nothing_fits() -> None:
    keys = [f"k{number}" for number in range(7)]
    many = {
        "type": "object",
        "properties": {key: {"type": "string"} for key in keys},
        "required": keys,
        "additionalProperties": False,
    }
    with pytest.raises(EmptyConstraint, match="As a grammar the schema is not exact"):
        infill(MODEL, '{"k6":{{x}}', within=sg.json_schema(many, whitespace="compact"), prompt="")
    tabs = sg.Vocabulary.from_tokens([None, *(bytes([byte]) for byte in range(32, 127))], [0])
    model = DistributionModel(tabs, lambda tokens: np.full(tabs.size, 1 / tabs.size))
    with pytest.raises(EmptyConstraint, match="no token for '\\\\n'"):
        infill(model, "[1,\n{{x}}]", within=sg.grammar("json"), prompt="")


def test_particles_that_are_not_of_the_schema_are_dropped() -> None:
    loose = sg.json_schema({"type": "object", "additionalProperties": {"const": 1}}, whitespace="compact")
    for seed in range(6):
        found = infill(
            MODEL, '{"a":1,{{x}}', x=sg.regex('"[ab]":1}'), within=loose, method="smc", particles=8,
            seed=seed, prompt="",
        )  # fmt: skip
        assert set(found.texts) == {'{"a":1,"b":1}'} and abs(sum(found.weights) - 1) < 1e-9


def test_a_vocabulary_without_an_end() -> None:
    endless = sg.Vocabulary.from_tokens(TOKENS[1:], [])
    model = DistributionModel(endless, lambda tokens: np.full(endless.size, 1 / endless.size))
    found = infill(model, "a{{x}}", x=sg.regex("[a-c]*"), prompt="", max_tokens=5, seed=1)
    assert re.fullmatch("a[a-c]*", found.text)
