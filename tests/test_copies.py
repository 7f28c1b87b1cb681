"""Pickled and copied errors, results, vocabularies, constraints, output types and prompt functions work as before."""

from __future__ import annotations

import copy
import datetime
import enum
import functools
import inspect
import pickle
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from pydantic import AfterValidator, Field

import structgen as sg
from structgen import errors
from structgen.generation import Generation
from structgen.remote import Account, Attempt, RemoteResult
from structgen.types import output_type

from . import copied_prompts
from .copied_prompts import Agent, Person, extract, model, refused
from .real_tokenizers import NAMES, tokenizer_path

COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda one: pickle.loads(pickle.dumps(one)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
copies = pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
BYTES = sg.Vocabulary.of_bytes(specials=["<|call|>"])


def kinds_of_errors(kind: type[Exception] = errors.StructgenError) -> Iterator[type[Exception]]:
    """Return every error class of the package, including those of its other modules."""
    yield kind
    for one in kind.__subclasses__():
        yield from kinds_of_errors(one)


def arguments(kind: type[Exception]) -> dict[str, Any]:
    """Return a value for each keyword of a constructor."""
    values: dict[str, Any] = {
        "int": 1,
        "tuple": ("a", "b"),
        "str": "text",
        "object": Account([Attempt("a", "", 1, 0.5, "none")]),
    }
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        if not issubclass(base, errors.StructgenError):
            break
        signature = inspect.signature(base.__init__).parameters.values()
        for one in signature:
            if one.kind is one.KEYWORD_ONLY:
                found[one.name] = next(value for word, value in values.items() if word in str(one.annotation))
        if not any(one.kind is one.VAR_KEYWORD for one in signature):
            break
    return found


@pytest.fixture(scope="module", autouse=True)
def _all_modules() -> None:
    for name in sg.__all__:
        getattr(sg, name)


@copies
def test_errors(copied: Callable[[Any], Any]) -> None:
    kinds = {one for one in kinds_of_errors() if one.__module__.startswith("structgen")}
    public = {getattr(errors, name) for name in errors.__all__}
    assert {one for one in kinds if one.__module__ == "structgen.errors"} <= public and len(kinds) > 35
    for kind in kinds:
        error = kind("what happened", **arguments(kind))
        error.account = {"calls": 3}  # type: ignore[attr-defined]
        other = copied(error)
        assert type(other) is kind and str(other) == str(error) and other.__dict__ == error.__dict__, kind


def even(value: int) -> int:
    if value % 2:
        raise ValueError("must be even")
    return value


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


Even = Annotated[int, AfterValidator(even), Field(ge=0, le=9)]


def constraints() -> dict[str, Any]:
    """Return one constraint of each constructor and each operator."""
    letters, digits = sg.regex("[a-z]{1,3}"), sg.regex("[0-9]{2}")
    return {
        "regex": sg.regex(r"\w+", flags=2),
        "choice": sg.choice(["red", "blue"]),
        "substring": sg.substring("red or blue", by="words", empty=True),
        "limit_tokens": sg.limit_tokens(letters, 2, at_limit="cut"),
        "json_schema": sg.json_schema({"type": "object", "properties": {"a": {"type": "integer"}}}),
        "lark": sg.lark('start: "a" NUMBER\nNUMBER: /[0-9]+/'),
        "gbnf": sg.gbnf('root ::= "a" [0-9]+'),
        "ebnf": sg.ebnf('root ::= "a" [0-9]+'),
        "grammar": sg.grammar("sql"),
        "text": sg.text("STOP", max_chars=9),
        "repeat": sg.repeat(letters, 1, 3, ", "),
        "optional": sg.optional(letters),
        "forbid": sg.forbid(sg.regex("[a-z]{1,9}"), ["ab"]),
        "special": sg.special("<|call|>") + letters,
        "token": sg.token("<|call|>"),
        "tokens": sg.token("<|call|>") + sg.tokens([97, range(99, 120)], exclude="f") + letters,
        "dispatch": sg.dispatch({"<call>": sg.json_schema({"type": "integer"}) + "</call>"}),
        "reasoning": sg.reasoning(letters),
        "capped reasoning": sg.reasoning(letters, max_tokens=20),
        "reasoning about a type": sg.reasoning(Person),
        "ltl_over": sg.ltl.ltl_over({"a": "a", "b": "b"}, "F b"),
        "plan": sg.plan(["go", "stop"], "F stop", max_steps=3),
        "tools": sg.tools([add]),
        "type": sg.types.constraint_for_type(Person),
        "and": letters & sg.regex("a.*"),
        "or": letters | digits,
        "plus": letters + digits,
        "literal": "x" + digits,
    }


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.parametrize("name", constraints())
@copies
def test_constraints(name: str, copied: Callable[[Any], Any]) -> None:
    constraint = constraints()[name]
    for _ in range(2):  # before it was compiled, and after
        other = copied(constraint)
        assert type(other) is type(constraint) and other.describe() == constraint.describe()
        if name != "plan":  # a plan is unfolded as it is read, and is equal to itself alone
            assert other == constraint and hash(other) == hash(constraint)
        here, there = sg.Matcher(constraint, BYTES), sg.Matcher(other, BYTES)
        for _ in range(3):
            assert np.array_equal(here.mask(), there.mask())
            token = int(np.flatnonzero(np.unpackbits(here.mask().view(np.uint8), bitorder="little"))[0])
            assert here.advance(token) and there.advance(token)
            if here.is_finished:
                break


def test_every_constructor_is_tried() -> None:
    made = {name for name in sg.__all__ if name in constraints()}
    not_made = {"monitored", "code", "check", "grammars", "constraint_for_type", "potential"}
    homes = (
        "structgen.constraints",
        "structgen.tools",
        "structgen.shelf",
        "structgen.types",
        "structgen.monitors",
    )
    functions = {
        name
        for name in sg.__all__
        if inspect.isfunction(one := getattr(sg, name)) and one.__module__.startswith(homes)
    }
    assert functions - made - not_made <= {"run_tools", "run_tools_async"}


def test_a_monitored_constraint_says_why_it_is_not_pickled() -> None:
    constraint = sg.monitored(sg.regex("[a-z]{1,8}"), sg.monitors.after("b", lambda context: ["c"]))
    assert copy.copy(constraint) is constraint and copy.deepcopy(constraint) is constraint
    with pytest.raises(errors.CombinationError, match="cannot be pickled"):
        pickle.dumps(constraint)
    result = sg.run(model, "?", constraint, max_tokens=20, seed=1)
    other = pickle.loads(pickle.dumps(result))
    assert (other.value, other.monitors) == (result.value, result.monitors)


@pytest.mark.parametrize(
    "given",
    [
        str,
        int,
        Person,
        list[Person],
        Person | None,
        Even,
        Colour,
        Literal["a", "b"],
        datetime.date,
        add,
        sg.regex("[a-z]+"),
        sg.json_schema({"type": "integer"}),
    ],
    # no addresses, which differ from process to process
    ids=lambda given: re.sub(r" at 0x[0-9a-f]+", "", str(given)),
)
@copies
def test_output_types(given: Any, copied: Callable[[Any], Any]) -> None:
    kind = output_type(given)
    other = copied(kind)
    assert other.constraint == kind.constraint and (other.name, other.schema) == (kind.name, kind.schema)
    result = sg.run(model, "?", kind, max_tokens=200, seed=3)
    try:
        value = kind.validate(result.text)
    except errors.OutputInvalid as error:
        with pytest.raises(errors.OutputInvalid, match=error.message[:30]):
            other.validate(result.text)
    else:
        found = other.validate(result.text)
        assert (found.arguments if given is add else found) == (value.arguments if given is add else value)
    for cut in range(len(result.text)):
        assert other.partial(result.text[:cut]) == kind.partial(result.text[:cut])


def results() -> dict[str, Any]:
    class_of = Annotated[list[int], Field(min_length=30)]
    return {
        "value": sg.run(model, "?", Person, max_tokens=200, seed=1),
        "text": sg.run(model, "?", str, max_tokens=5, seed=1),
        "cut off": sg.run(model, "?", class_of, max_tokens=400, seed=1).__class__(
            output_type(class_of),
            Generation("[1, 2", [91, 49], "length", -1.0, None),
        ),
        "invalid": sg.Result(output_type(Even), Generation("3", [51], "complete", -1.0, -2.0)),
        "dead end": sg.Result(output_type(Even), Generation("", [], "dead_end", None, None)),
        "failed": sg.Result(
            output_type(Even),
            Generation("", [], "failed", None, None, error=errors.LimitExceeded("no", limit="x")),
        ),
        "remote": RemoteResult(
            output_type(Person),
            Generation('{"name": "a", "age": 1}', [], "complete", None, None),
            Account([Attempt("x", "wrong", 1, 0.1, "none")], ["json_schema: no"]),
        ),
    }


@copies
def test_results(copied: Callable[[Any], Any]) -> None:
    for name, result in results().items():
        for looked_at in (False, True):
            other = copied(result)
            assert type(other) is type(result) and other.text == result.text, name
            assert (other.error is None) == (result.error is None) and str(other.error) == str(result.error)
            assert type(other.error) is type(result.error) and other.partial == result.partial
            if result.error is None:
                assert other.value == result.value
            assert repr(other) == repr(result) and other.generation == result.generation or result.error
            assert getattr(other, "account", None) == getattr(result, "account", None), looked_at


@copies
@pytest.mark.parametrize("kind", [errors.Truncated, errors.OutputInvalid])
def test_raised_errors(copied: Callable[[Any], Any], kind: type[errors.GenerationError]) -> None:
    result = results()["cut off" if kind is errors.Truncated else "invalid"]
    with pytest.raises(kind) as caught:
        result.value  # noqa: B018
    other = copied(caught.value)
    assert str(other) == str(caught.value) and other.text == result.text
    assert other.result.text == result.text and type(other.result.error) is kind


@copies
def test_posteriors_beams_and_infillings(copied: Callable[[Any], Any]) -> None:
    constraint = sg.choice(["a", "b", "ab"])
    posterior = sg.sample(model, "?", constraint, n=4, seed=1)
    other = copied(posterior)
    assert (other.texts, other.log_z, other.values) == (posterior.texts, posterior.log_z, posterior.values)
    assert str(other) == str(posterior) and repr(other) == repr(posterior)
    beams = sg.inference.beam(model, "?", constraint, width=2)
    other = copied(beams)
    assert repr(other) == repr(beams)
    infilling = sg.infill(model, "a {{x}} b", constraints={"x": sg.regex("[0-9]{2}")}, max_tokens=20)
    assert copied(infilling) == infilling


@functools.cache
def vocabulary_of(name: str) -> sg.Vocabulary:
    return BYTES if name == "bytes" else sg.Vocabulary.from_tokenizer(tokenizer_path(name))


@pytest.mark.parametrize("name", ["bytes", *NAMES])
@copies
def test_vocabularies(name: str, copied: Callable[[Any], Any]) -> None:
    vocabulary = vocabulary_of(name)
    limited = vocabulary.with_limits(mask_steps=1234)
    for one in (vocabulary, limited):
        other = copied(one)
        assert other.fingerprint == one.fingerprint and other.limits == one.limits
        assert other.encode("Wörter, and 日本") == one.encode("Wörter, and 日本") is not None
        here, there = (sg.Matcher(sg.regex("[a-z]+ ?"), each) for each in (one, other))
        assert np.array_equal(here.mask(), there.mask())


def test_vocabularies_of_loaded_tokenizers() -> None:
    tiktoken = pytest.importorskip("tiktoken")
    encoding = tiktoken.Encoding(
        "tiny",
        pat_str=".",
        mergeable_ranks={bytes([i]): i for i in range(256)},
        special_tokens={"<end>": 256},
    )
    vocabulary = sg.Vocabulary.from_tokenizer(encoding, eos_ids=[256])
    assert pickle.loads(pickle.dumps(vocabulary)).encode("añb") == vocabulary.encode("añb")


@copies
def test_prompt_functions(copied: Callable[[Any], Any]) -> None:
    assert copied(extract) is extract
    changed = copied(extract.with_options(seed=9))
    assert changed("x") == extract.with_options(seed=9)("x") and changed.model is model
    bound = copied(Agent("Ann").ask)
    assert bound("why?") == Agent("Ann").ask("why?") and "Ann, why?" in bound.render("why?")
    assert copied(Agent.ask) is Agent.ask


def test_prompt_functions_that_have_no_name_in_a_module() -> None:
    inner = copied_prompts.renamed()
    assert copy.copy(inner) is inner and copy.deepcopy(inner) is inner
    with pytest.raises(
        errors.PromptError, match=r"renamed\.<locals>\.inner cannot be pickled.*\n.*top level"
    ):
        pickle.dumps(inner)
    data = pickle.dumps(extract).replace(b"extract", b"exploit")
    with pytest.raises(errors.PromptError, match="no prompt function exploit"):
        pickle.loads(data)


def test_prompt_functions_run_in_other_processes() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        (there,) = pool.map(extract, ["x"])
        result = pool.submit(extract.run, "x").result()
        failure = pool.submit(refused.with_options(attempts=2), "x").exception()
    assert there == extract("x") and isinstance(there, Person)
    assert result.text == extract.run("x").text and result.value == there
    assert isinstance(failure, errors.OutputInvalid) and "never right" in str(failure)
    assert len(failure.result.account.attempts) == 2


@copies
def test_remote_models(copied: Callable[[Any], Any]) -> None:
    pytest.importorskip("httpx2")
    from .remote.http_server import World, serve

    with (
        serve(World(says=["true", "false"])) as world,
        sg.connect(world.url, model="small", dialect="none") as remote,
    ):
        assert sg.generate(remote, "?", bool) is True
        other = copied(remote)
        assert sg.generate(other, "?", bool) is False and other.url == remote.url and other.dialect == "none"
        other.close()


def test_matchers_are_forked_by_copies() -> None:
    matcher = sg.Matcher(sg.regex("abc"), BYTES)
    assert matcher.advance(ord("a"))
    for copied in (copy.copy, copy.deepcopy):
        other = copied(matcher)
        assert np.array_equal(other.mask(), matcher.mask()) and other.advance(ord("b"))
        assert not np.array_equal(other.mask(), matcher.mask()), "it moves alone"
    with pytest.raises(errors.OptionError, match="matcher cannot be pickled"):
        pickle.dumps(matcher)


def test_options_and_samplers() -> None:
    for one in (
        sg.SamplingOptions(top_k=4, seed=3),
        sg.inference.SMC(),
        sg.inference.MH(),
        sg.inference.AWRS(),
        sg.inference.Exact(),
    ):
        for copied in COPIES.values():
            assert repr(copied(one)) == repr(one)
