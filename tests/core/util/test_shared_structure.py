"""Inputs that share their parts: as trees they are exponentially large, and the work must not be.

The core's own meter counts the work, so these tests give the same results on any machine. A depth beyond a documented
limit raises that limit's error. Nothing hangs, and nothing overflows the stack of a small thread.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench import shared_structure
from structgen._core import _native
from structgen.constraints.json_schema import check, json_schema
from structgen.errors import LimitExceeded, StructgenError
from structgen.matcher import Matcher
from tests.core.small_vocabulary import allowed, byte_vocabulary, renewed
from tests.oracles.json_validator import Validator

SCALARS = ("any", "number", "string", "boolean", "null")
CONTAINERS = ("object", "array")
CASES = [(step, leaf) for step in shared_structure.STEPS for leaf in shared_structure.LEAVES]
SMALL_STACK = 512 << 10


def walk(matcher: Matcher, steps: int = 24) -> None:
    rng = random.Random(7)
    walked = matcher.fork()
    for _ in range(steps):
        ids = [token for token in sorted(allowed(walked.mask())) if token > 1]
        if not ids:
            return
        common = [token for token in ids if chr(token - 2) in '{["0123tfn:],}ak']
        walked.advance(rng.choice(common or ids))


def operations(schema: Any) -> Iterator[Callable[[], object]]:
    """Every call of a matcher, at the start and where the first value starts."""
    vocabulary = renewed(byte_vocabulary())
    constraint = json_schema(schema)
    matcher = Matcher(constraint, vocabulary)
    yield matcher.mask
    yield matcher.forced
    yield lambda: [matcher.advance(byte + 2) for byte in b'{"a":']
    yield matcher.mask
    yield lambda: walk(matcher)
    yield matcher.witness
    yield lambda: matcher.least_tokens(50)
    yield matcher.explain
    yield constraint.describe
    yield constraint.minimal_text
    yield lambda: check(schema)


def work_of(schema: Any) -> int:
    before = _native.work_done()
    for operation in operations(schema):
        operation()
    return int(_native.work_done() - before)


def lists_values(step: str, leaf: str) -> bool:
    """Whether a level's language names one value more than the next one's.

    The normal forms of n levels then hold n * n / 2 values, so that no work below the quadratic can write them.
    """
    return step == "oneOf, enum" or leaf in ("any", "number", "string")


@pytest.mark.parametrize(("step", "leaf"), CASES)
def test_work_is_linear_in_the_depth(step: str, leaf: str) -> None:
    few, many = (work_of(shared_structure.inside(step, leaf, n)) for n in (40, 160))
    assert many < (22 if lists_values(step, leaf) else 6) * few
    assert many < 60_000_000


@pytest.mark.parametrize("leaf", shared_structure.LEAVES)
@pytest.mark.parametrize("step", ["properties", "items"])
def test_work_of_six_hundred_levels_is_linear(step: str, leaf: str) -> None:
    few, many = (work_of(shared_structure.inside(step, leaf, n)) for n in (60, 600))
    assert many < 12 * few


@pytest.mark.parametrize("leaf", [{}, {"type": "integer"}], ids=["any", "number"])
@pytest.mark.parametrize("step", shared_structure.UNEVALUATED)
def test_work_with_unevaluated_keywords(step: str, leaf: dict[str, Any]) -> None:
    """Quadratic: each value has a record of which of n levels it satisfies, and each is a formula of up to n parts."""
    few, many = (work_of(shared_structure.beside_unevaluated(step, leaf, n)) for n in (20, 60))
    assert many < 10 * few
    assert many < 120_000_000


@pytest.mark.parametrize("step", shared_structure.UNEVALUATED)
def test_masks_that_refuse_unevaluated_keywords(step: str) -> None:
    def work(n: int) -> int:
        levels = shared_structure.beside_unevaluated(step, {"type": "integer"}, n)
        schema = {"not": {"$ref": levels["$ref"]}, "$defs": levels["$defs"]}
        matcher = Matcher(json_schema(schema), renewed(byte_vocabulary()))
        before = _native.work_done()
        matcher.mask()
        for byte in b"[1," if step.startswith("items") else b'{"a":1':
            matcher.advance(byte + 2)
            matcher.mask()
        return int(_native.work_done() - before)

    few, many = work(20), work(60)
    assert many < 10 * few
    assert many < 20_000_000


@pytest.mark.parametrize("step", ["anyOf", "allOf", "items, anyOf", "items, allOf", "items, false"])
def test_six_hundred_levels_with_unevaluated_keywords(step: str) -> None:
    few, many = (work_of(shared_structure.beside_unevaluated(step, {}, n)) for n in (60, 600))
    assert many < (100 if step == "anyOf" else 20) * few


@pytest.mark.parametrize(("step", "leaf"), CASES)
def test_meaning(step: str, leaf: str) -> None:
    schema = shared_structure.schema(step, leaf, 4)
    validator = Validator(schema)
    matcher = Matcher(json_schema(schema), byte_vocabulary())
    for text in (
        *(
            "null",
            "true",
            "2",
            "3",
            "7.5",
            '"ab"',
            '"x1"',
            '"a0"',
            '"A"',
            "{}",
            '{"k":1}',
            '{"k":"1"}',
            '{"a":0}',
        ),
        *('{"a":3}', '{"a":{"k":1}}', "[]", "[1]", "[0]", "[3]", '["ab"]', "[[1]]"),
    ):
        matcher.reset()
        taken = all(matcher.advance(byte + 2) for byte in text.encode())
        assert (taken and matcher.is_complete()) == validator.accepts(text), text


@pytest.mark.parametrize(
    "step", [step for step in shared_structure.STEPS if step not in ("properties", "items")]
)
@pytest.mark.parametrize("leaf", ["any", "string", "object"])
def test_six_hundred_applicators_are_refused(step: str, leaf: str) -> None:
    before = _native.work_done()
    with pytest.raises(
        LimitExceeded, match="nested more than 600 deep .limit nested_applicators. at one place: #/"
    ):
        work_of(shared_structure.inside(step, leaf, 600))
    assert _native.work_done() - before < 1_000_000


def in_small_thread(work: Callable[[], object]) -> BaseException | None:
    """What the work raises on a thread with a small stack."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    before = threading.stack_size(SMALL_STACK)
    try:
        thread = threading.Thread(target=run)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    return raised[0] if raised else None


@pytest.mark.parametrize("step", shared_structure.STEPS)
@pytest.mark.parametrize("leaf", ["any", "string", "object", "array"])
def test_small_stacks(step: str, leaf: str) -> None:
    raised = in_small_thread(lambda: work_of(shared_structure.inside(step, leaf, 190)))
    assert raised is None or isinstance(raised, StructgenError)


def nested_values(levels: int) -> dict[str, Any]:
    """Items that must differ, each an object of objects that are shared."""
    keys = "abcdefgh"
    levels_of = {
        f"d{i}": {
            "type": "object",
            "properties": {key: {"$ref": f"#/$defs/d{i + 1}"} for key in keys},
            "additionalProperties": False,
            "maxProperties": len(keys),
        }
        for i in range(levels)
    }
    return {
        "type": "array",
        "items": {"$ref": "#/$defs/d0"},
        "uniqueItems": True,
        "minItems": 60,
        "$defs": {**levels_of, f"d{levels}": {"enum": [1, 2]}},
    }


def test_different_values_of_shared_containers() -> None:
    def work(levels: int) -> int:
        before = _native.work_done()
        matcher = Matcher(json_schema(nested_values(levels)), renewed(byte_vocabulary()))
        matcher.mask()
        return int(_native.work_done() - before)

    assert work(8) < 8 * work(4)


# ------------------------------------------------------------------ grammars

GRAMMAR_LEVELS = (40, 160)


def grammar_work(name: str, n: int) -> int:
    import structgen as sg

    notation, text = shared_structure.GRAMMARS[name]
    before = _native.work_done()
    constraint = {"gbnf": sg.gbnf, "ebnf": sg.ebnf, "lark": sg.lark}[notation](text(n))
    matcher = Matcher(constraint, renewed(byte_vocabulary()))
    for operation in (matcher.mask, matcher.forced, lambda: walk(matcher, 12), matcher.explain):
        operation()
    return int(_native.work_done() - before)


@pytest.mark.parametrize("name", shared_structure.GRAMMARS)
def test_work_of_grammars(name: str) -> None:
    try:
        few, many = (grammar_work(name, n) for n in GRAMMAR_LEVELS)
    except LimitExceeded:
        return
    # A text of `options` has a number of parses that grows with the fourth power: any level may have read each part.
    assert many < (400 if name == "options" else 6) * max(few, 10_000)


@pytest.mark.parametrize("name", shared_structure.GRAMMARS)
def test_deep_grammars_on_small_stacks(name: str) -> None:
    raised = in_small_thread(lambda: grammar_work(name, 600))
    assert raised is None or isinstance(raised, StructgenError)


# ------------------------------------------------------------------ regular languages


class Expressions:
    """Expressions of the core, each level made of the next one twice."""

    def __init__(self) -> None:
        self.space = _native.RegexSpace()

    def text(self, text: str) -> int:
        return self.space.compile(("literal", text))

    def chain(self, n: int, step: Callable[[int, int], int]) -> int:
        made = self.text("end")
        for i in range(n):
            made = step(made, i)
        return made


def exclusive(e: Expressions, r: int, i: int) -> int:
    space, other = e.space, e.text(f"x{i}")
    return space.alternate(
        space.intersect(r, space.complement(other)), space.intersect(other, space.complement(r))
    )


def branches(e: Expressions, r: int, i: int) -> int:
    return e.space.alternate(
        e.space.concat(e.text(f"a{i}"), r), e.space.concat(e.text(f"b{i}"), e.space.complement(r))
    )


def alike(e: Expressions, r: int, i: int) -> int:
    return e.space.alternate(e.space.concat(e.text("a"), r), e.space.concat(e.text("b"), r))


def counted(e: Expressions, r: int, i: int) -> int:
    return e.space.alternate(e.space.repeat(r, 1, 3), e.space.concat(e.text(f"c{i}"), r))


def ahead(e: Expressions, r: int, i: int) -> int:
    condition = e.space.look_ahead(e.text("e"))
    return e.space.alternate(
        e.space.concat(e.text("a"), e.space.concat(condition, r)), e.space.concat(e.text("b"), r)
    )


def ahead_repeated(e: Expressions, r: int, i: int) -> int:
    return e.space.repeat(ahead(e, r, i), 0, None)


def look_behind(e: Expressions, r: int, i: int) -> int:
    inside = e.space.look_behind(e.space.concat(e.space.look_ahead(e.text("b")), e.text("b")))
    return e.space.alternate(
        e.space.concat(e.text("b"), e.space.concat(inside, r)), e.space.concat(e.text("a"), r)
    )


EXPRESSIONS = [exclusive, branches, alike, counted, ahead, ahead_repeated, look_behind]


@pytest.mark.parametrize("step", EXPRESSIONS, ids=lambda step: step.__name__)
def test_work_of_expressions(step: Callable[[Expressions, int, int], int]) -> None:
    def work(n: int) -> int:
        e = Expressions()
        before = _native.work_done()
        r = e.chain(n, lambda r, i: step(e, r, i))
        e.space.describe(r)
        e.space.nullable(r)
        e.space.alive(r)
        e.space.matches(r, b"a0end")
        e.space.row(r)
        e.space.bounded_by_length(r)
        e.space.min_length(r)
        return int(_native.work_done() - before)

    few, many = work(15), work(60)
    assert many < 70 * max(few, 10_000), "more than cubic"


def test_shared_expressions_of_python() -> None:
    from structgen.constraints.expressions import ANY, has_look, nullable, tree_size

    part: tuple[Any, ...] = ("repeat", ANY, 0, 3)
    for _ in range(600):
        part = ("concat", (("alternate", (part, ("literal", "a"))), part))
    assert nullable(part) is True
    assert not has_look(part)
    assert tree_size(part) > 2**600


def test_constraints_made_of_shared_constraints() -> None:
    import structgen as sg

    def chain(step: Callable[[Any, int], Any], start: Any, n: int) -> Any:
        for i in range(n):
            start = step(start, i)
        return start

    record = sg.json_schema({"type": "object", "properties": {"k": {"type": "integer"}}})
    brackets = sg.gbnf('root ::= "(" root ")" | "x"')
    steps: list[Callable[[Any, int], Any]] = [
        lambda r, i: r + r,
        lambda r, i: (sg.regex(f"a{i}") + r) | (sg.regex(f"b{i}") + r),
        lambda r, i: sg.optional(r) + r,
        lambda r, i: sg.repeat(r, 1, 3, ", ") + r,
        lambda r, i: sg.forbid(r | (sg.regex(f"b{i}") + r), f"c{i}"),
    ]
    for place, step in enumerate(steps):
        for start in (sg.regex("x(?=y).*|[ab]"), brackets if place % 2 else record):
            with pytest.raises((LimitExceeded, sg.StructgenError)):
                chain(step, start, 600)
            try:
                made = chain(step, start, 4)
            except StructgenError:
                continue  # `forbid` is for regular constraints
            matcher = Matcher(made, byte_vocabulary())
            matcher.mask()
            assert made.describe()


def test_formulas_made_of_shared_formulas() -> None:
    from structgen.errors import OptionError
    from structgen.formulas.formula import atom, make

    def chain(n: int) -> Any:
        formula = atom("a")
        for i in range(n):
            formula = make("iff", formula, make("U", formula, atom(f"b{i}")))
        return formula

    assert str(chain(4))
    with pytest.raises(OptionError, match="nodes"):
        chain(60)


# ------------------------------------------------------------------ values and productions


def test_long_productions_on_a_canvas() -> None:
    import structgen as sg

    text = 'root ::= "(" root ")" | ' + "x " * 3_000 + '\nx ::= "y" | "(" x ")"\n'
    raised = in_small_thread(
        lambda: sg.diffusion.Canvas(sg.gbnf(text), byte_vocabulary(), [sg.diffusion.Hole(4)]).completable()
    )
    assert raised is None or isinstance(raised, StructgenError)


def test_deep_values_on_a_small_stack() -> None:
    """Items that must differ are read as values, however deep they are."""
    matcher = Matcher(
        json_schema({"type": "array", "uniqueItems": True}),
        renewed(byte_vocabulary(), max_depth=100_000),
    )

    def work() -> None:
        deep = "[" * 20_000 + "]" * 20_000
        for byte in f"[{deep},{deep[:-1]}".encode():
            if not matcher.advance(byte + 2):
                return

    raised = in_small_thread(work)
    assert raised is None or isinstance(raised, StructgenError)


def test_deep_expressions_on_a_small_stack() -> None:
    space = _native.RegexSpace()
    nested: tuple[Any, ...] = ("literal", "a")
    for i in range(900):
        nested = ("alternate", (("literal", f"b{i}"), ("concat", (nested, ("any",)))))
    raised = in_small_thread(lambda: space.compile(nested))
    assert raised is None or isinstance(raised, _native.LimitError)
