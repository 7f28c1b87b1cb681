"""What people reported of typed libraries, one test for each report: types, partial objects, connections, tools.

Each test is the shortest program of its kind; the tests of the modules go deeper.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import datetime as dt
import enum
import functools
import json
import pickle
import sys
import uuid
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Generic, Literal, TypeVar
from zoneinfo import ZoneInfo

import pytest
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    Json,
    PostgresDsn,
    RootModel,
    constr,
)
from typing_extensions import TypedDict

import structgen as sg
from structgen.errors import OptionError, OutputInvalid, StructgenError, Truncated, TypeNotSupported
from structgen.types import output_type
from tests.embedded import embedded_model
from tests.oracles.scripted_model import ScriptedModel

T = TypeVar("T")
BYTES = sg.Vocabulary.of_bytes()


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    good: bool = True


class Person(BaseModel):
    name: str
    age: int = Field(ge=0)


class Counts(RootModel[dict[str, int]]):
    pass


class Persons(RootModel[list[Person]]):
    pass


class Posted(BaseModel):
    a: int
    b: int

    def model_post_init(self, context: Any) -> None:
        assert self.a + self.b


class Derived(BaseModel):
    first: str
    full: str = Field(default_factory=lambda data: data["first"] + "!")


class Chosen(BaseModel):
    name: str = Field(validation_alias=AliasChoices("fullName", "name"))


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


@dataclasses.dataclass
class Limited:
    name: str
    count: int = Field(default=3)


@dataclasses.dataclass
class Pair(Generic[T]):
    left: T
    right: T


class Node(BaseModel, Generic[T]):
    value: T
    children: list[Node[T]] = []


class Movie(TypedDict):
    title: str
    year: int


class Task(BaseModel):
    id: uuid.UUID = Field(default_factory=uuid.uuid4)
    name: str


def partials(annotation: Any, text: str) -> list[Any]:
    """Return the partial values of a text, the whole value last."""
    growing = output_type(annotation).growing()
    return [growing(text[:end]) for end in range(len(text) + 1)]


# -- partial values


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (Counts, '{"a": 1, "b": 2}'),
        (Posted, '{"a": 1, "b": 2}'),
        (Derived, '{"first": "x"}'),
        (list[Annotated[Cat | Dog, Field(discriminator="kind")]], '[{"kind": "dog", "good": false}]'),
        (list[int | str], '[42, "42"]'),
        (list[bool | int], "[true, 1]"),
        (Chosen, '{"fullName": "Ann"}'),
        (Open, '{"a": 1, "b": "c"}'),
        (Limited, '{"name": "x"}'),
        (Pair[Person], '{"left": {"name": "a", "age": 1}, "right": {"name": "b", "age": 2}}'),
        (Node[Person], '{"value": {"name": "a", "age": 1}, "children": []}'),
        (list[Movie], '[{"title": "M", "year": 1931}]'),
        (Persons, '[{"name": "a", "age": 1}]'),
    ],
    ids=["root", "post_init", "data_factory", "discriminator", "int_str", "bool_int", "alias_choices", "extra",
         "dataclass_field", "generic_dataclass", "recursive_generic", "typed_dict", "root_list"],
)  # fmt: skip
def test_partial_values_end_in_the_value(annotation: Any, text: str) -> None:
    last = partials(annotation, text)[-1]
    value = output_type(annotation).validate(text)
    assert last == value and repr(last) == repr(value)


def test_the_default_of_a_dataclass_field_is_its_default() -> None:
    assert partials(Limited, '{"name": "x')[-1].count == 3


def test_an_id_does_not_change_with_each_partial() -> None:
    values = partials(list[Task], '[{"name": "abc"')
    assert len({one[0].id for one in values if one}) == 1


def test_an_incomplete_field_says_so() -> None:
    stream = sg.stream(ScriptedModel('{"name": "Ann", "age": 31}'), "?", Person)
    seen = {(stream.is_complete("name"), person.name) for person in stream}
    assert (False, "An") in seen and (True, "Ann") in seen and (True, "An") not in seen


def test_items_come_one_by_one() -> None:
    items = sg.stream_items(ScriptedModel("[1, 2, 3]"), "?", list[int])
    assert next(items) == 1 and len(items.text) < 6


# -- types whose texts cannot be validated


class Pairs(enum.Enum):
    A = (1, 2)


class Days(enum.Enum):
    A = dt.date(2020, 1, 1)


class Empty(enum.Enum):
    pass


class Deep(BaseModel):
    a: int = Field(validation_alias=AliasPath("x", "y"))


@pytest.mark.parametrize(
    "annotation",
    [
        Deep,
        list[Pairs],
        list[Days],
        list[Empty],
        Json[int],
        type[Person],
        Literal[b"x"],
        dict[tuple[int, int], int],
    ],
    ids=["alias_path", "tuples", "dates", "empty", "json", "class", "bytes", "tuple_keys"],
)
def test_types_that_json_cannot_represent_are_refused(annotation: Any) -> None:
    with pytest.raises(TypeNotSupported, match="cannot be an output type"):
        output_type(annotation)


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (dict[Annotated[int, Field(ge=1, le=5)], str], '{"3": "a"}', '{"7": "a"}'),
        (dict[constr(pattern="^[a-z]+$", max_length=2), int], '{"ab": 1}', '{"abc": 1}'),
        (PostgresDsn, "postgres://host/db", "host"),
        (ZoneInfo, "Europe/Paris", "Nowhere"),
        (Annotated[str, Field(pattern="^[[:alpha:]]$")], "a", ":"),
        (Annotated[str, Field(pattern="^[a-z&&[^b]]$")], "a", "b"),
        (Annotated[str, Field(pattern=r"^\W$")], "-", "é"),
        (Annotated[str, Field(pattern=r"^\D$")], "a", "٣"),
        (Annotated[str, Field(pattern=r"^\S$")], "a", "\x85"),
        (Annotated[str, Field(pattern="(?m)^b$")], "a\nb", "a\rb"),
    ],
    ids=[
        "int_keys",
        "str_keys",
        "postgres",
        "zone",
        "posix",
        "sets",
        "not_word",
        "not_digit",
        "not_space",
        "lines",
    ],
)
def test_the_constraint_enforces_what_the_validator_requires(annotation: Any, good: str, bad: str) -> None:
    kind = output_type(annotation)
    kind.validate(good)
    with pytest.raises(OutputInvalid):
        kind.validate(bad)

    def fits(text: str) -> bool:
        matcher = sg.Matcher(kind.constraint, BYTES)
        return all(map(matcher.advance, text.encode())) and matcher.is_complete()

    assert fits(good) and not fits(bad)


def test_the_order_of_a_union_is_kept() -> None:
    first, second = output_type(list[Cat | Dog]), output_type(list[Dog | Cat])
    assert first.schema != second.schema
    assert output_type(Literal["b", "a"]).description != output_type(Literal["a", "b"]).description


# -- pickles and copies


def truncated() -> Truncated:
    error = sg.run(ScriptedModel('{"name": "Ann", "age": 31}'), "?", Person, max_tokens=24).error
    assert isinstance(error, Truncated)
    return error


@pytest.mark.parametrize(
    "again", [lambda one: pickle.loads(pickle.dumps(one)), copy.deepcopy], ids=["pickle", "copy"]
)
@pytest.mark.parametrize(
    "make",
    [
        truncated,
        lambda: OutputInvalid("no", text="x"),
        lambda: sg.run(ScriptedModel("3"), "?", int),
        lambda: BYTES,
    ],
    ids=["truncated", "invalid", "result", "vocabulary"],
)
def test_errors_results_and_vocabularies_are_copied(
    again: Callable[[Any], Any], make: Callable[[], Any]
) -> None:
    original = make()
    assert str(again(original)) == str(original)


# -- tools


def call(name: str, **arguments: Any) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


def loop(tool: Any, first: str, **options: Any) -> Any:
    left = [first, "Done."]
    return sg.run_tools(ScriptedModel(lambda prompt: left.pop(0)), "Go.", [tool], **options)


def even(value: int) -> int:
    if value % 2:
        raise ValueError("must be even")
    return value


def shown(done: Any) -> str:
    return str(done.messages[3]["content"])


def test_async_tools_are_awaited() -> None:
    async def now(zone: str) -> str:
        """Say the time."""
        await asyncio.sleep(0)
        return f"noon in {zone}"

    assert "noon in x" in shown(loop(now, call("now", zone="x")))


def test_there_is_an_async_loop() -> None:
    async def run() -> Any:
        left = [call("add", a=1, b=2), "3."]
        model = ScriptedModel(lambda prompt: left.pop(0))
        return await sg.tools.run_tools_async(model, "Go.", [add])

    assert asyncio.run(run()).answer == "3."


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def test_keywords_that_are_set_are_not_offered() -> None:
    fixed = functools.partial(add, b=5)
    done = loop(fixed, call("add", a=1))
    assert "6" in shown(done) and '"b"' not in str(done.messages[0]["content"])


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (lambda: Person(name="Ann", age=3), '"name"'),
        (lambda: Limited("x"), '"count"'),
        (lambda: {(1, 2): 3}, "3"),
        (lambda: [looped := [1], looped.append(looped)][0], "1"),
        (lambda: {dt.date(2024, 1, 2)}, "2024-01-02"),
    ],
    ids=["model", "dataclass", "odd_keys", "cycle", "set"],
)
def test_results_are_shown_as_json(result: Callable[[], Any], text: str) -> None:
    def get() -> Any:
        """Get it."""
        return result()

    assert text in shown(loop(get, call("get")))


def test_arguments_that_a_validator_refuses_are_reported() -> None:
    def halve(value: Annotated[int, AfterValidator(even)]) -> int:
        """Halve."""
        return value // 2

    assert "must be even" in shown(loop(halve, call("halve", value=3)))


def test_a_call_that_takes_too_long_is_reported() -> None:
    async def wait() -> None:
        """Wait."""
        await asyncio.sleep(60)

    assert "within 0.05 seconds" in shown(loop(wait, call("wait"), timeout=0.05))


def test_the_final_answer_has_a_type() -> None:
    left = [call("add", a=1, b=2), '{"name": "Ann", "age": 3}']
    done = sg.run_tools(ScriptedModel(lambda prompt: left.pop(0)), "Go.", [add], answer=Person)
    assert done.value == Person(name="Ann", age=3)


# -- types wherever constraints are taken


@pytest.mark.parametrize(
    "make",
    [
        lambda: sg.reasoning(Person),
        lambda: sg.repeat(int, 2),
        lambda: sg.optional(int),
        lambda: sg.Matcher(int, BYTES),
        lambda: sg.dispatch({"<n>": int}),
        lambda: sg.tools([add], answer=Person),
        lambda: sg.regex("a") + Person,
        lambda: Person | sg.regex("a"),
        lambda: sg.diffusion.Canvas(int, BYTES, [sg.diffusion.Hole(3)]),
    ],
    ids=["reasoning", "repeat", "optional", "matcher", "dispatch", "tools", "plus", "or", "canvas"],
)
def test_types_are_taken_where_constraints_are(make: Callable[[], Any]) -> None:
    make()


def test_reasoning_gives_the_thinking_and_the_value() -> None:
    model = ScriptedModel('<think>Easy.</think>\n\n{"name": "Ann", "age": 3}')
    answer = sg.generate(model, "?", sg.reasoning(Person, max_tokens=40))
    assert (answer.thinking, answer.value) == ("Easy.", Person(name="Ann", age=3))


def test_labels_have_probabilities() -> None:
    found = sg.classify(ScriptedModel("yes"), "?", ["yes", "no"])
    assert found.label == "yes" and sum(found.probabilities.values()) == pytest.approx(1)


# -- repeated requests, prompt functions


def test_a_refused_value_is_drawn_again_with_the_reason() -> None:
    def small(value: int) -> int:
        if value > 9:
            raise ValueError("must be below ten")
        return value

    prompts: list[str] = []

    def script(prompt: Any) -> str:
        prompts.append(str(prompt))
        return "31" if len(prompts) == 1 else "7"

    assert sg.generate(ScriptedModel(script), "?", Annotated[int, AfterValidator(small)], attempts=2) == 7
    assert "must be below ten" in prompts[-1]


def test_a_parameter_that_the_prompt_leaves_out_is_noticed() -> None:
    with pytest.warns(UserWarning, match="review"):

        @sg.prompt(ScriptedModel("yes"))
        def judge(review: str) -> bool:
            """Is it good? {review}"""


def test_a_prompt_without_a_docstring_says_what_to_do() -> None:
    with pytest.raises(StructgenError, match="f-string|docstring"):

        @sg.prompt(ScriptedModel("yes"))
        def judge(review: str) -> bool:
            f"""Is it good? {sys.version}"""  # noqa: B021
            return True


def test_braces_of_json_in_a_prompt_say_what_to_do() -> None:
    with pytest.raises(StructgenError) as caught:

        @sg.prompt(ScriptedModel("yes"))
        def judge() -> bool:
            """Answer like {{"a": 1}}"""

    assert caught.value.hint


def test_an_iterable_is_a_list() -> None:
    @sg.prompt(ScriptedModel("[1, 2]"))
    def numbers() -> Iterable[int]:
        """Numbers."""

    found = numbers()
    assert list(found) == list(found) == [1, 2]


def test_a_bad_item_of_map_is_named_and_loses_nothing() -> None:
    def script(prompt: Any) -> str:
        return "12345" if "bad" in str(prompt) else "7"

    @sg.prompt(ScriptedModel(script), max_tokens=3)
    def number(text: str) -> int:
        """Number in {{ text }}"""

    with pytest.raises(StructgenError) as caught:
        number.map(["a", "bad", "c"])
    assert "1" in str(caught.value)
    results = number.map(["a", "bad", "c"], return_errors=True)
    assert [results[0], results[2]] == [7, 7] and isinstance(results[1], StructgenError)


def test_several_values_of_one_prompt() -> None:
    assert sg.generate(ScriptedModel("7"), "?", int, n=3) == [7, 7, 7]


@pytest.mark.parametrize(("name", "meant"), [("max_new_tokens", "max_tokens"), ("temprature", "temperature")])
def test_a_misspelt_option_says_what_was_meant(name: str, meant: str) -> None:
    with pytest.raises(OptionError, match=meant):
        sg.generate(ScriptedModel("7"), "?", int, **{name: 3})


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "3"},
        ],
    ],
    ids=["parts", "system", "tool_messages"],
)  # fmt: skip
def test_conversations_are_taken_as_the_server_takes_them(messages: list[Any]) -> None:
    assert sg.generate(embedded_model(), messages, Literal["yes", "no"]) in ("yes", "no")


# -- open objects, SQL, explanations, loading


def test_open_objects_can_be_closed() -> None:
    closed = sg.json_schema({"type": "object", "properties": {"a": {"type": "integer"}}}, closed=True)
    assert not sg.Matcher(closed, BYTES).explain('{"b": 1}').viable


def test_sql_has_no_comments_and_parameters_can_be_left_out() -> None:
    query = sg.grammar("sql", start="select", tables=["t"], columns=["a"], parameters=False)
    for text in ("SELECT a FROM t -- no", "SELECT a FROM t WHERE a = ?"):
        assert not sg.Matcher(query, BYTES).explain(text).viable


def test_an_explanation_agrees_with_itself() -> None:
    explained = sg.Matcher(sg.regex("ab"), BYTES).explain("ab")
    assert explained.ok and "not complete" not in str(explained.reason)


def test_reprs_are_short() -> None:
    left = ["Hi."]
    done = sg.run_tools(ScriptedModel(lambda prompt: left.pop(0)), "Go." * 900, [add])
    assert len(repr(done)) < 400 and len(repr(embedded_model())) < 400


@pytest.mark.parametrize("name", ["model.gguf", "folder"])
def test_a_model_that_cannot_be_loaded_says_why(name: str, tmp_path: Any) -> None:
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"GGUF")
    with pytest.raises(StructgenError) as caught:
        sg.load(str(path))
    assert caught.value.hint and "from one of: " not in str(caught.value)
