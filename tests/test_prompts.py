"""Prompt functions: what reaches the model, what comes back, and what is refused when they are written."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from typing import Any, Literal

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.errors import OptionError, PromptError, Truncated
from tests.oracles.scripted_model import ScriptedModel


class Person(BaseModel):
    name: str
    age: int


def echo_person(prompt: Any) -> str:
    """Writes the person of a prompt that ends in "NAME AGE"."""
    text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    name, age = text.split()[-2:]
    return f'{{"name": "{name}", "age": {age}}}'


MODEL = ScriptedModel(echo_person)


@sg.prompt(MODEL)
def extract(text: str) -> Person:
    """Extract the person from: {{ text }}"""


def test_a_call_is_typed() -> None:
    assert extract("Ann 31") == Person(name="Ann", age=31)
    assert extract(text="Bo 4") == Person(name="Bo", age=4)
    assert MODEL.prompts[-1].endswith("\n\nExtract the person from: Bo 4"), (
        "after what the type says of itself"
    )
    assert extract.__name__ == "extract" and "extract(text" in repr(extract)


def test_run_stream_and_aio_agree() -> None:
    result = extract.run("Ann 31")
    assert result.value == Person(name="Ann", age=31)
    assert result.log_weight is not None
    assert extract.run("Ann 31", exact_weight=False).log_weight is None
    assert list(extract.stream("Ann 31"))[-1] == Person(name="Ann", age=31)
    assert asyncio.run(extract.aio("Ann 31")) == Person(name="Ann", age=31)

    async def last() -> Any:
        return [partial async for partial in extract.astream("Ann 31")][-1]

    assert asyncio.run(last()) == Person(name="Ann", age=31)


def test_map_keeps_the_order_over_batches(capsys: pytest.CaptureFixture[str]) -> None:
    texts = [f"P{i} {i}" for i in range(11)]
    people = extract.map(texts, batch_size=4, progress=True)
    assert [person.age for person in people] == list(range(11))


def test_map_with_a_seed_draws_what_single_calls_draw() -> None:
    @sg.prompt(MODEL, temperature=30.0, max_tokens=40, close_within_budget=True)
    def wild(text: str) -> Person:
        """{{ text }}"""

    together = wild.map(["a 1", "b 2", "c 3"], seed=5, batch_size=2)
    alone = [wild(text, seed=(5, i)) for i, text in enumerate(["a 1", "b 2", "c 3"])]
    assert together == alone
    assert len({person.name for person in together}) > 1


def test_map_can_return_errors() -> None:
    values = extract.map(["Ann 31", "Oliver " + "9" * 40], return_errors=True, max_tokens=30)
    assert values[0] == Person(name="Ann", age=31)
    assert isinstance(values[1], Truncated)
    with pytest.raises(Truncated):
        extract.map(["Ann 31", "Oliver " + "9" * 40], max_tokens=30)
    with pytest.raises(OptionError, match="batch_size"):
        extract.map([], batch_size=0)


def test_map_spreads_tuples_and_dicts() -> None:
    @sg.prompt(MODEL)
    def describe(name: str, age: int = 7) -> Person:
        """{{ name }} {{ age }}"""

    assert [p.age for p in describe.map([("A", 1), {"name": "B", "age": 2}, "C"])] == [1, 2, 7]


def test_options_at_the_call_and_at_the_decorator() -> None:
    @sg.prompt(MODEL, max_tokens=5)
    def short(text: str) -> str:
        """{{ text }}"""

    assert len(short("Ann 31")) == 5
    assert len(short("Ann 31", max_tokens=7)) == 7
    assert len(short.with_options(max_tokens=3)("Ann 31")) == 3


def test_a_parameter_hides_an_option_of_its_name() -> None:
    @sg.prompt(MODEL)
    def grow(seed: str) -> Person:
        """{{ seed }}"""

    assert grow(seed="Tree 99") == Person(name="Tree", age=99)


def test_templates_are_jinja_and_arguments_are_data() -> None:
    @sg.prompt(MODEL)
    def many(names: list[str], note: str) -> str:
        """
        {% for name in names %}
        - {{ name }}
        {% endfor %}
        {{ note }}
        """

    assert many.render(["A", "B"], "{{ note }} X 1") == "- A\n- B\n{{ note }} X 1"


def test_system_prompts_make_messages() -> None:
    @sg.prompt(MODEL, system="You read {{ text | length }} letters.", describe=True)
    def described(text: str) -> Person:
        """Read: {{ text }}"""

    system, user = described.render("Ann 31")
    assert system == {"role": "system", "content": "You read 6 letters."}
    assert user["content"].startswith("Answer with JSON") and user["content"].endswith("\n\nRead: Ann 31")


def test_types_of_the_enclosing_function_are_found() -> None:
    class Local(BaseModel):
        name: str
        age: int

    @sg.prompt(MODEL)
    def local(text: str) -> list[Local] | Local:
        """{{ text }}"""

    assert local("Ann 31") == Local(name="Ann", age=31)


def test_constraints_as_annotations() -> None:
    @sg.prompt(ScriptedModel("yes"))
    def ask(text: str) -> sg.choice(["yes", "no"]):  # type: ignore[valid-type]
        """{{ text }}?"""

    assert ask("Well") == "yes"


def test_cancelling_stops_the_generation() -> None:
    started = threading.Event()

    class Slow(ScriptedModel):
        def _logits(self, tokens, prompt):  # type: ignore[no-untyped-def]
            started.set()
            time.sleep(0.01)
            return super()._logits(tokens, prompt)

    model = Slow("x" * 10_000)

    @sg.prompt(model, max_tokens=10_000)
    def long(text: str) -> str:
        """{{ text }}"""

    async def main() -> None:
        task = asyncio.create_task(long.aio("go"))
        await asyncio.to_thread(started.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    passes, end = -1, time.monotonic() + 600
    while model.forward_passes != passes:
        assert time.monotonic() < end, "it goes on"
        passes = model.forward_passes
        time.sleep(0.3)
    assert passes < 10_000


def test_a_prompt_function_is_a_method_in_a_class() -> None:
    class Clerk:
        def __init__(self, language: str) -> None:
            self.language = language

        @sg.prompt(ScriptedModel("a"))
        def ask(self, text: str) -> Literal["a", "b"]:
            """In {{ self.language }}: {{ text }}"""

    clerk = Clerk("English")
    assert clerk.ask.render("hi") == "In English: hi"
    assert clerk.ask(text="hi") == "a"
    assert len(clerk.ask.map(["x", "y"])) == 2
    assert Clerk.ask.render(clerk, "hi") == "In English: hi"
    assert clerk.ask.with_options(seed=1).render("hi") == "In English: hi"
    with pytest.raises(PromptError, match=r"ask\(text: .*missing a required argument: 'text'"):
        clerk.ask()


def test_a_prompt_that_fails_does_not_stop_the_others() -> None:
    @sg.prompt(ScriptedModel("a"))
    def pick(item: dict[str, str]) -> Literal["a", "b"]:
        """{{ item.name }}"""

    first, second, third = pick.map([{"name": "x"}, {}, {"name": "y"}], return_errors=True)
    assert first == third == "a"
    assert isinstance(second, PromptError)
    with pytest.raises(PromptError, match="name"):
        pick.map([{"name": "x"}, {}])


# -- what is refused


def test_mistakes_are_found_when_the_function_is_written() -> None:
    with pytest.raises(PromptError, match="no docstring"):

        @sg.prompt(MODEL)
        def silent(text: str) -> str: ...

    with pytest.raises(PromptError, match="no return annotation"):

        @sg.prompt(MODEL)
        def untyped(text: str):  # type: ignore[no-untyped-def]
            """{{ text }}"""

    with pytest.raises(PromptError, match="names txet, which is not a parameter"):

        @sg.prompt(MODEL)
        def misspelt(text: str) -> str:
            """{{ txet }}"""

    with pytest.raises(PromptError, match="line 2"):

        @sg.prompt(MODEL)
        def broken(text: str) -> str:
            """Fine.
            {% if %}"""

    with pytest.raises(PromptError, match="Nowhere"):

        @sg.prompt(MODEL)
        def lost(text: str) -> Nowhere:  # type: ignore[name-defined]  # noqa: F821
            """{{ text }}"""

    with pytest.raises(PromptError, match="got a function instead of a model"):

        @sg.prompt
        def bare(text: str) -> Literal["a"]:
            """{{ text }}"""

    with pytest.raises(PromptError, match="is an async function, but its body is never run") as caught:

        @sg.prompt(MODEL)
        async def asynchronous(text: str) -> str:
            """{{ text }}"""

    assert "await asynchronous.aio(...)" in str(caught.value)
    with pytest.raises(OptionError, match="tempo"):
        sg.prompt(MODEL, tempo=1)
    with pytest.raises(OptionError, match="is a str, not a model"):
        sg.prompt("smollm2")  # type: ignore[arg-type]


def test_wrong_arguments_name_the_signature() -> None:
    with pytest.raises(PromptError, match="missing a required argument"):
        extract()
    with pytest.raises(PromptError, match="(?s)unexpected keyword argument 'sed'.*temperature") as caught:
        extract("Ann 31", sed=3)
    assert "extract(text" in str(caught.value)


def test_a_template_that_fails_says_whose_it_is() -> None:
    @sg.prompt(MODEL)
    def deep(item: dict[str, str]) -> str:
        """{{ item.name }}"""

    with pytest.raises(PromptError, match=r"deep.*name"):
        deep({})


def test_parameters_that_never_reach_the_model_are_a_warning() -> None:
    with pytest.warns(
        sg.prompts.PromptWarning, match=r"\{review\} in the prompt of .*Write \{\{ review \}\}"
    ) as caught:

        @sg.prompt(MODEL)
        def judge(review: str) -> str:
            """Is this review good? {review}"""

    assert caught[0].filename == __file__
    with pytest.warns(
        sg.prompts.PromptWarning, match=r"does not use its parameter tone.*Write \{\{ tone \}\}"
    ):

        @sg.prompt(MODEL)
        def reply(review: str, tone: str = "calm") -> str:
            """Answer: {{ review }}"""

    with pytest.warns(sg.prompts.PromptWarning, match=r"\{item\.name!r\} in the prompt"):

        @sg.prompt(MODEL)
        def formatted(item: Person) -> str:
            """Who is {item.name!r}?"""

    @sg.prompt(MODEL, system="Speak {{ language }}.")
    def in_system(text: str, language: str, _note: str = "") -> str:
        """{{ text }}"""

    @sg.prompt(MODEL)
    def with_json(text: str) -> str:
        """Like {"text": 1}: {{ text }}"""

    assert with_json.render("a") == 'Like {"text": 1}: a'


def test_f_strings_are_no_docstrings() -> None:
    with pytest.raises(PromptError, match="is an f-string") as caught:

        @sg.prompt(MODEL)
        def ask(text: str) -> str:
            f"""Summarise {text}"""  # noqa: B021

    assert "{{ name }}" in str(caught.value)
    with pytest.raises(PromptError, match="has no docstring"):

        @sg.prompt(MODEL)
        def empty(text: str) -> str:
            return text


def test_doubled_braces_around_json() -> None:
    for text in ('Answer like {{"a": 1}}: {{ text }}', "{{text: 1}}", "{{}} {{ text }}"):

        def ask(text: str) -> str: ...

        ask.__doc__ = text
        with pytest.raises(PromptError, match="single braces") as caught:
            sg.prompt(MODEL)(ask)
        assert "line 1" in str(caught.value) and "raw" in str(caught.value)


def test_misspelt_names_and_options() -> None:
    with pytest.raises(PromptError, match="Did you mean review"):

        @sg.prompt(MODEL)
        def judge(review: str) -> str:
            """{{ reviw }}"""

    with pytest.raises(PromptError, match="Did you mean max_tokens"):
        extract("Ann 31", max_new_tokens=5)
    with pytest.raises(PromptError, match="Did you mean text"):
        extract(txt="Ann 31")


def test_an_item_that_fails_does_not_take_the_others_with_it() -> None:
    texts = ["Ann 31", "Bo 4", "Oliver " + "9" * 40, "Cy 5", "Di 6"]
    with pytest.raises(Truncated, match="item 2 of 5") as caught:
        extract.map(texts, max_tokens=30, batch_size=2)
    error = caught.value
    assert error.item == 2 and error.results is not None
    assert error.results[:2] == [Person(name="Ann", age=31), Person(name="Bo", age=4)]
    assert error.results[2] is error and error.results[3] == Person(name="Cy", age=5)
    assert len(error.results) == 4, "the batch of the item is done, later ones are not started"

    @sg.prompt(MODEL)
    def both(first: str, second: str) -> Person:
        """{{ first }} {{ second }}"""

    with pytest.raises(PromptError, match=r"item 1 of 2.*missing a required argument") as wrong:
        both.map([("Ann", "31"), ("Bo",)])
    assert wrong.value.results is not None and wrong.value.results[0] == Person(name="Ann", age=31)
    for items in ("Ann 31", 5):
        with pytest.raises(OptionError, match="not a list of items"):
            extract.map(items)  # type: ignore[arg-type]


def test_several_values_of_a_call() -> None:
    @sg.prompt(MODEL, temperature=30.0, max_tokens=40, close_within_budget=True)
    def wild(text: str) -> Person:
        """{{ text }}"""

    three: Any = wild("a 1", n=3, seed=5)
    assert three == [wild("a 1", seed=(5, i)) for i in range(3)] and len({one.name for one in three}) > 1
    results: Any = wild.run("a 1", n=2, seed=5)
    assert [result.value for result in results] == three[:2]
    assert asyncio.run(wild.aio("a 1", n=3, seed=5)) == three  # type: ignore[comparison-overlap]
    assert wild.with_options(n=3, seed=5)("a 1") == three  # type: ignore[comparison-overlap]
    with pytest.raises(OptionError, match="does not accept n"):
        wild.map(["a 1"], n=2)
    with pytest.raises(OptionError, match="takes no n"):
        next(wild.stream("a 1", n=2))
    with pytest.raises(OptionError, match="n is 0"):
        wild.with_options(n=0)

    @sg.prompt(MODEL)
    def named(n: int) -> Person:
        """Ann {{ n }}"""

    assert named(n=3) == Person(name="Ann", age=3), "a parameter hides an option of its name"


@pytest.mark.parametrize(
    ("given", "what", "hint"),
    [
        (classmethod(lambda cls: None), "got a classmethod", "Write @classmethod above @prompt(model)"),
        (staticmethod(lambda: None), "got a staticmethod", "Write @staticmethod above @prompt(model)"),
        (functools.partial(print, 1), "a partial, not a function", "above a function"),
        (int, "a type, not a function", "above a function"),
        (5, "5, an int, not a function", "above a function"),
    ],
)
def test_arguments_that_are_not_a_function(given: Any, what: str, hint: str) -> None:
    with pytest.raises(PromptError) as caught:
        sg.prompt(ScriptedModel("x"))(given)
    assert what in caught.value.message
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize("options", [{"system": 3}, {"describe": "yes"}, {"describe": 1}])
def test_options_of_the_decorator_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        sg.prompt(ScriptedModel("x"), **options)


@pytest.mark.parametrize("size", [0, -1, "2", True, None, 1.0])
def test_the_size_of_batches_is_checked(size: Any) -> None:
    @sg.prompt(ScriptedModel("x"))
    def ask(text: str) -> str:
        """{{ text }}"""

    with pytest.raises(OptionError, match="batch_size is"):
        ask.map(["a"], batch_size=size)


def test_class_methods() -> None:
    class Shop:
        name = "shop"

        @classmethod
        @sg.prompt(ScriptedModel("x"))
        def ask(cls, text: str) -> str:
            """{{ cls.name }}: {{ text }}"""

        @staticmethod
        @sg.prompt(ScriptedModel("x"))
        def tell(text: str) -> str:
            """{{ text }}"""

    assert Shop.ask.render("a") == Shop().ask.render("a") == "shop: a"
    assert Shop.tell.render("a") == Shop().tell.render("a") == "a"
