"""`attempts=n`: a local model is shown its error and draws again, as a model on a server does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field

import structgen as sg
from structgen.api import run_batch
from structgen.errors import DeadEnd, OptionError, OutputInvalid, PromptError, Truncated
from structgen.generation import SamplingOptions
from structgen.types import output_type
from tests.oracles.scripted_model import ScriptedModel


def even(value: int) -> int:
    if value % 2:
        raise ValueError("must be even")
    return value


Even = Annotated[int, Field(ge=0, le=999), AfterValidator(even)]


class Pair(BaseModel):
    first: int
    second: Even


def in_turn(*texts: str) -> ScriptedModel:
    """Return a model that writes these texts, one for each call."""
    left = list(texts)
    return ScriptedModel(lambda prompt: left.pop(0) if len(left) > 1 else left[0])


def last_word(prompt: Any) -> str:
    return str(prompt if isinstance(prompt, str) else prompt[-1]["content"])


def test_the_model_is_shown_its_answer_and_what_the_validator_said() -> None:
    model = in_turn("3", "4")
    result = sg.run(model, "An even number.", Even, attempts=3)
    assert result.value == 4 and result.text == "4" and result.error is None
    assert model.prompts[0] == "An even number."
    user, answer, wrong = model.prompts[1]
    assert user == {"role": "user", "content": "An even number."}
    assert answer == {"role": "assistant", "content": "3"}
    assert (
        wrong["role"] == "user" and "must be even" in wrong["content"] and "Answer again" in wrong["content"]
    )
    assert [(one.text, bool(one.problem), one.dialect) for one in result.account.attempts] == [
        ("3", True, "mask"),
        ("4", False, "mask"),
    ]
    assert result.account.tokens == 2 and all(one.seconds > 0 for one in result.account.attempts)


def test_local_and_remote_models_are_shown_the_same() -> None:
    pytest.importorskip("httpx2")
    from .remote.http_server import World, serve

    model = in_turn("3", "4")
    sg.generate(model, "An even number.", Even, attempts=2)
    with serve(World(says=["3", "4"])) as world, sg.connect(world.url, model="m", dialect="none") as remote:
        result: Any = sg.run(remote, "An even number.", Even, attempts=2)
        assert world.requests[1]["messages"][1:] == model.prompts[1][1:]
        shape = [(one.text, bool(one.problem)) for one in result.account.attempts]
        assert shape == [("3", True), ("4", False)]


@pytest.mark.parametrize("attempts", [1, 2, 4])
def test_attempts_end(attempts: int) -> None:
    model = in_turn("3")
    result = sg.run(model, "?", Even, attempts=attempts)
    assert isinstance(result.error, OutputInvalid) and len(model.prompts) == attempts
    assert len(result.account.attempts) == attempts
    if attempts > 1:
        assert f"no valid answer in {attempts} attempts" in str(result.error)
        assert "must be even" in str(result.error) and "attempts=" in str(result.error.hint)
    assert result.error.result is result and result.error.text == "3"


def test_without_attempts_nothing_changes() -> None:
    model = in_turn("3", "4")
    result = sg.run(model, "?", Even)
    assert isinstance(result.error, OutputInvalid) and len(model.prompts) == 1
    (one,) = result.account.attempts
    assert one.text == "3" and "must be even" in one.problem and one.dialect == "mask"
    assert sg.run(in_turn("4"), "?", Even).account.attempts[0].problem == ""


def test_a_truncated_text_is_drawn_again_shorter() -> None:
    model = in_turn("a" * 30, "abc")
    result = sg.run(model, "?", sg.regex("[a-z]+"), max_tokens=10, attempts=2)
    assert result.value == "abc" and "cut off after 10 tokens" in result.account.attempts[0].problem
    assert "shorter" in model.prompts[1][-1]["content"]
    with pytest.raises(Truncated, match="no valid answer in 2 attempts.*cut off"):
        sg.generate(in_turn("a" * 30), "?", sg.regex("[a-z]+"), max_tokens=10, attempts=2)
    free = sg.run(in_turn("a" * 30), "?", str, max_tokens=10, attempts=3)
    assert free.value == "a" * 10 and len(free.account.attempts) == 1


def test_errors_that_further_attempts_cannot_fix_end_them() -> None:
    class Dead(ScriptedModel):
        def _logits(self, tokens: Any, prompt: int) -> Any:
            return super()._logits(tokens, prompt) - float("inf")

    model = Dead("3")
    result = sg.run(model, "?", Even, attempts=3)
    assert isinstance(result.error, DeadEnd) and len(model.prompts) == 1
    cancelled = sg.run(in_turn("3"), "?", Even, attempts=3, cancel=lambda: True)
    assert cancelled.finish == "cancelled" and len(cancelled.account.attempts) == 1


def test_prompts_are_messages_texts_and_functions() -> None:
    model = in_turn("3", "4")
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "?"}]
    assert sg.generate(model, messages, Even, attempts=2) == 4
    assert model.prompts[1][:2] == messages and len(model.prompts[1]) == 4 and len(messages) == 2
    model = in_turn("3", "5", "8")

    @sg.prompt(model, attempts=3)
    def number(what: str) -> Even:
        """A number of {{ what }}."""

    assert number("legs") == 8 and model.prompts[2][1]["content"] == "5"
    once = number.with_options(attempts=1)
    with pytest.raises(OutputInvalid):
        sg.prompt(in_turn("3"), attempts=3)(once.__wrapped__)("legs", attempts=1)  # type: ignore[attr-defined]


async def test_without_blocking() -> None:
    @sg.prompt(in_turn("3", "4"), attempts=2)
    def number(what: str) -> Even:
        """{{ what }}"""

    assert await number.aio("?") == 4


def test_a_batch_is_drawn_again_where_it_failed() -> None:
    def script(prompt: Any) -> str:
        wanted = prompt if isinstance(prompt, str) else prompt[0]["content"]
        again = 0 if isinstance(prompt, str) else 1
        return {"one": ["3", "4"], "two": ["6", "9"], "three": ["5", "7"]}[wanted.split()[-1]][again]

    model = ScriptedModel(script)

    @sg.prompt(model, attempts=2)
    def number(word: str) -> Even:
        """A number for {{ word }}"""

    values = number.map(["one", "two", "three"], return_errors=True)
    assert values[:2] == [4, 6] and isinstance(values[2], OutputInvalid)
    assert len(model.prompts) == 5, "two of three are drawn again"
    each = [SamplingOptions(attempts=1), SamplingOptions(), SamplingOptions(attempts=2)]
    results = run_batch(model, ["one", "two", "one"], output_type(Even), each)
    assert [len(result.account.attempts) for result in results] == [1, 1, 2]
    assert [result.error is None for result in results] == [False, True, True]


def test_streams_start_again() -> None:
    model = in_turn('{"first": 10, "second": 3}', '{"first": 20, "second": 4}')
    *partial, last = sg.stream(model, "?", Pair, attempts=2)
    assert last == Pair(first=20, second=4)
    assert {one.first for one in partial} >= {10, 20}
    failing = sg.stream(in_turn('{"first": 1, "second": 3}'), "?", Pair, attempts=2)
    assert next(failing) is not None
    with pytest.raises(OutputInvalid, match="no valid answer in 2 attempts"):
        list(failing)
    *_, last = sg.stream(in_turn("a" * 20, "b"), "?", sg.regex("[a-z]+"), attempts=2, max_tokens=6)
    assert last == "b"


def test_seeds_repeat_all_attempts() -> None:
    def odd_at_first(prompt: Any) -> str:
        return "7" if isinstance(prompt, str) else "88"

    def texts(seed: int | tuple[int, ...]) -> list[str]:
        wild = {"temperature": 8.0, "seed": seed, "max_tokens": 6}
        result = sg.run(ScriptedModel(odd_at_first), "?", Even, attempts=6, **wild)
        return [one.text for one in result.account.attempts]

    for seed in (1, 2, (3, 4)):
        assert texts(seed) == texts(seed)
    first = sg.run(ScriptedModel(odd_at_first), "?", Even, temperature=8.0, seed=1, max_tokens=6)
    assert texts(1)[0] == first.text, "the first attempt is what is drawn without attempts"
    assert len({tuple(texts(seed)) for seed in range(6)}) > 1


def test_a_prompt_that_cannot_grow_keeps_the_answer_before() -> None:
    class Strict(ScriptedModel):
        def encode(self, prompt: Any) -> list[int]:
            if not isinstance(prompt, str):
                raise PromptError("the template refuses these messages")
            return super().encode(prompt)

    result = sg.run(Strict("3"), "?", Even, attempts=3)
    assert isinstance(result.error, OutputInvalid) and "template refuses" in str(result.error.hint)
    assert [one.text for one in result.account.attempts] == ["3"]

    class Full(ScriptedModel):
        def encode(self, prompt: Any) -> list[int]:
            return super().encode(prompt) * (1 if isinstance(prompt, str) else 99)

    result = sg.run(Full("3", context_length=50), "?", Even, attempts=3)
    assert result.text == "3" and isinstance(result.error, OutputInvalid)
    assert "o further attempt was possible" in str(result.error.hint)
    with pytest.raises(OutputInvalid, match="no valid answer in 1 attempt;"):
        list(sg.stream(Full("3", context_length=50), "?", Even, attempts=3))


def test_models_without_turns_read_on() -> None:
    class Plain(ScriptedModel):
        is_chat = False

    model = Plain(lambda prompt: "4" if "must be even" in last_word(prompt) else "3")
    assert sg.generate(model, "A number: ", Even, attempts=2) == 4
    assert model.prompts[1].startswith("A number: 3\n\nThat answer is wrong:")
    assert (
        sg.generate(
            sg.models.with_processors(model, lambda tokens, logits: logits), "Even: ", Even, attempts=2
        )
        == 4
    )
    assert isinstance(model.prompts[-1], str)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "3"])
def test_wrong_numbers_are_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match="'attempts'.*whole number of 1 or more"):
        sg.generate(in_turn("4"), "?", Even, attempts=wrong)


def test_the_former_name_of_steps_back_says_the_new_ones() -> None:
    @sg.prompt(in_turn("4"))
    def number(what: str) -> Even:
        """{{ what }}"""

    calls: list[Callable[[], Any]] = [
        lambda: sg.generate(in_turn("4"), "?", Even, max_retries=3),
        lambda: sg.prompt(in_turn("4"), max_retries=3),
        lambda: number("?", max_retries=3),
        lambda: number.map(["?"], max_retries=3),
        lambda: SamplingOptions().replace(max_retries=3),
    ]
    for call in calls:
        with pytest.raises(OptionError, match="max_retries") as caught:
            call()
        assert "max_backtracks" in str(caught.value.hint) and "attempts=n" in str(caught.value.hint)
    assert sg.generate(in_turn("4"), "?", Even, max_backtracks=3) == 4
