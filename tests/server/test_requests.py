"""Requests of OpenAI's own client, answered by a real model."""

from __future__ import annotations

import asyncio
import json
import pickle
import re
import threading
from concurrent.futures import Future
from typing import Any

import jsonschema
import pytest

openai = pytest.importorskip("openai")

from structgen import _core  # noqa: E402
from structgen.errors import LimitExceeded  # noqa: E402
from structgen.serving.isolatable_constraint import IsolatableConstraint  # noqa: E402
from structgen.serving.requests import constraint_of  # noqa: E402
from structgen.tools.partial_turn import PartialTurn  # noqa: E402

from ..serving.specs import SLOW  # noqa: E402
from .conftest import KEY, NAME, Running, fetched, until  # noqa: E402

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"enum": ["Paris", "Rome"]},
                "days": {"type": "integer", "minimum": 0, "maximum": 9},
            },
            "required": ["city"],
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "clock", "description": "The time"}}


def ask(client: Any, text: str = "A person.", **options: Any) -> Any:
    extra = options.pop("extra", None)
    options.setdefault("max_tokens", 40)
    messages = options.pop("messages", [{"role": "user", "content": text}])
    return client.chat.completions.create(model=NAME, messages=messages, extra_body=extra, **options)


def as_schema(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "it", "schema": schema, "strict": True}}


def test_a_schema_is_followed(client: Any) -> None:
    answer = ask(client, response_format=as_schema(PERSON))
    jsonschema.validate(json.loads(answer.choices[0].message.content), PERSON)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens > 5 and answer.usage.prompt_tokens > 5


def test_pydantic_models_are_parsed(client: Any) -> None:
    from typing import Literal

    from pydantic import BaseModel

    class Colour(BaseModel):
        name: Literal["red", "green"]

    answer = client.chat.completions.parse(
        model=NAME,
        messages=[{"role": "user", "content": "A colour?"}],
        response_format=Colour,
        max_tokens=30,
    )
    assert answer.choices[0].message.parsed.name in ("red", "green")


@pytest.mark.parametrize(
    ("extra", "pattern"),
    [
        ({"structured_outputs": {"regex": "[A-Z]{2}-[0-9]{3}"}}, "[A-Z]{2}-[0-9]{3}"),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, "yes|no"),
        ({"structured_outputs": {"grammar": 'root ::= "a" [0-9] "b"'}}, "a[0-9]b"),
        ({"guided_regex": "x{3}"}, "xxx"),
        ({"guided_choice": ["one"]}, "one"),
        ({"structgen": {"grammar": 'start: "a" | "bc"'}}, "a|bc"),
        (
            {
                "structgen": {
                    "plan": {"actions": {"go": {"to": ["hall", "yard"]}}, "max_steps": 2},
                    "ltl": ["F go(yard)"],
                }
            },
            r"(go hall\n)?go yard(\ngo hall)?|go yard\ngo yard",
        ),
    ],
)
def test_other_constraints(client: Any, extra: dict[str, Any], pattern: str) -> None:
    answer = ask(client, extra=extra, seed=1)
    assert re.fullmatch(pattern, answer.choices[0].message.content)


def test_any_json_object(client: Any) -> None:
    answer = ask(client, response_format={"type": "json_object"}, max_tokens=50, seed=1)
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content), dict)


def test_the_same_seed_draws_the_same(client: Any) -> None:
    texts = [ask(client, seed=5, max_tokens=8).choices[0].message.content for _ in range(2)]
    assert texts[0] == texts[1] and texts[0]
    assert (
        ask(client, "Count to a hundred.", temperature=0, max_tokens=8).choices[0].finish_reason == "length"
    )


def test_several_answers_share_the_prompt(client: Any) -> None:
    answer = ask(client, n=3, max_tokens=6, seed=2)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in answer.choices}) > 1


def test_stop_strings_end_a_text(client: Any) -> None:
    whole = ask(client, temperature=0, max_tokens=12).choices[0].message.content
    stop = whole[len(whole) // 2 :][:2]
    answer = ask(client, temperature=0, max_tokens=12, stop=[stop]).choices[0]
    assert answer.message.content == whole[: whole.index(stop)] and answer.finish_reason == "stop"
    parts = list(ask(client, temperature=0, max_tokens=12, stop=stop, stream=True))
    assert "".join(one.choices[0].delta.content or "" for one in parts) == answer.message.content


def test_a_stream_is_the_same_text(client: Any) -> None:
    options = {"seed": 3, "max_tokens": 30, "response_format": as_schema(PERSON)}
    whole = ask(client, **options)
    parts = list(ask(client, stream=True, stream_options={"include_usage": True}, **options))
    assert parts[0].choices[0].delta.role == "assistant"
    choices = [one.choices[0] for one in parts if one.choices]
    assert "".join(one.delta.content or "" for one in choices) == whole.choices[0].message.content
    assert choices[-1].finish_reason == whole.choices[0].finish_reason
    assert parts[-1].usage == whole.usage and not parts[-1].choices
    assert len(parts) > 4


@pytest.mark.parametrize("seed", range(6))
def test_streams_of_several_answers_go_on_when_one_ends(client: Any, seed: int) -> None:
    options = {"n": 2 + seed % 3, "seed": seed, "extra": {"structured_outputs": {"regex": "[ab]{1,9}"}}}
    whole = ask(client, **options)
    texts = dict.fromkeys(range(options["n"]), "")
    ended: list[int] = []
    for part in ask(client, stream=True, **options):
        for choice in part.choices:
            assert choice.index not in ended
            texts[choice.index] += choice.delta.content or ""
            if choice.finish_reason:
                ended.append(choice.index)
    assert sorted(ended) == sorted(texts)
    assert list(texts.values()) == [choice.message.content for choice in whole.choices]


def test_streams_of_several_turns_with_tools(client: Any) -> None:
    options = {"n": 3, "tools": [WEATHER, CLOCK], "max_tokens": 24, "seed": 2}
    whole = ask(client, "The weather in Rome?", **options)
    parts = list(ask(client, "The weather in Rome?", stream=True, **options))
    for place, choice in enumerate(whole.choices):
        calls, content, reason = joined(parts, place)
        shown = choice.message.tool_calls or []
        assert [one[1:] for one in calls] == [(one.function.name, one.function.arguments) for one in shown]
        assert (content, reason) == (choice.message.content or "", choice.finish_reason)


def test_an_error_of_one_answer_comes_after_the_others(
    server: Running, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row fails because its matcher meets a limit, as with a slow constraint."""
    options = {"n": 3, "seed": 4, "extra": {"structured_outputs": {"regex": "[ab]{8,12}"}}}
    whole = ask(client, **options)
    submit = server.service.model_thread.submit

    def spoiled(ticket: Any) -> None:
        advance, count = ticket.rows[1].matcher.advance, 0

        def fails(token: int) -> bool:
            nonlocal count
            count += 1
            if count > 2:
                raise LimitExceeded("a mask takes too long", limit="mask_steps")
            return bool(advance(token))

        ticket.rows[1]._matcher = SpoiledMatcher(ticket.rows[1].matcher, fails)
        submit(ticket)

    texts = dict.fromkeys(range(3), "")
    ended: list[int] = []
    monkeypatch.setattr(server.service.model_thread, "submit", spoiled)
    with pytest.raises(openai.APIError, match="choice 1: a mask takes"):  # noqa: PT012
        for part in ask(client, stream=True, **options):
            for choice in part.choices:
                texts[choice.index] += choice.delta.content or ""
                ended += [choice.index] if choice.finish_reason else []
    assert sorted(ended) == [0, 2]
    for place in (0, 2):
        assert texts[place] == whole.choices[place].message.content
    assert whole.choices[1].message.content.startswith(texts[1])


class SpoiledMatcher:
    """A matcher whose `advance` is another function."""

    def __init__(self, matcher: Any, advance: Any) -> None:
        self._matcher, self.advance = matcher, advance

    def __getattr__(self, name: str) -> Any:
        return getattr(self._matcher, name)


def test_completions(client: Any) -> None:
    answer = client.completions.create(model=NAME, prompt="Once upon a", max_tokens=5, logprobs=0, seed=1)
    choice = answer.choices[0]
    assert "".join(choice.logprobs.tokens) == choice.text
    assert all(score <= 0 for score in choice.logprobs.token_logprobs)
    ids = client.completions.create(model=NAME, prompt=[1, 2, 3], max_tokens=2)
    assert ids.usage.prompt_tokens == 3
    parts = list(
        client.completions.create(model=NAME, prompt="Once upon a", max_tokens=5, seed=1, stream=True)
    )
    assert "".join(one.choices[0].text for one in parts) == choice.text


def test_logprobs_of_chats(client: Any) -> None:
    answer = ask(client, logprobs=True, max_tokens=20, response_format=as_schema({"const": {"a": [1, 2]}}))
    scored = answer.choices[0].logprobs.content
    assert "".join(one.token for one in scored) == answer.choices[0].message.content
    assert all(one.logprob <= 0 for one in scored)


def test_the_most_probable_tokens_at_each_position(client: Any) -> None:
    """Forced tokens and drawn ones, whole and as a stream; at temperature 0 what is drawn freely is the first."""
    options = {"logprobs": True, "top_logprobs": 3, "max_tokens": 12, "temperature": 0.0}
    schema = as_schema({"const": {"a": [1, 2]}})
    for more in ({}, {"response_format": schema}):
        answer = ask(client, **options, **more)
        scored = answer.choices[0].logprobs.content
        assert scored and all(len(one.top_logprobs) == 3 for one in scored)
        for one in scored:
            tops = [each.logprob for each in one.top_logprobs]
            assert tops == sorted(tops, reverse=True) and one.logprob <= tops[0] + 1e-6
            if not more:
                assert one.top_logprobs[0].token == one.token and one.top_logprobs[0].logprob == one.logprob
        parts = [part.choices[0] for part in ask(client, stream=True, **options, **more) if part.choices]
        (streamed,) = [part.logprobs for part in parts if part.logprobs]
        assert [one.token for one in streamed.content] == [one.token for one in scored]
        assert all(len(one.top_logprobs) == 3 for one in streamed.content)
    legacy = client.completions.create(
        model=NAME, prompt="Once upon a", max_tokens=3, temperature=0, logprobs=2
    )
    found = legacy.choices[0].logprobs
    assert [max(one, key=one.get) for one in found.top_logprobs] == found.tokens
    assert all(len(one) == 2 for one in found.top_logprobs)


# -- tools


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("format", ["hermes", "llama3_json", "pythonic", "qwen3_coder"])
def test_a_tool_that_must_be_called(client: Any, stream: bool, format: str) -> None:
    options: dict[str, Any] = {
        "tools": [WEATHER, CLOCK],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "stream": stream,
        "max_tokens": 100,  # for every possible call
        "extra": {"structgen": {"tool_format": format}},
    }
    answer = ask(client, "The weather in Rome?", **options)
    if stream:
        (call,), content, reason = joined(answer)
        assert not content
    else:
        (shown,) = answer.choices[0].message.tool_calls
        call = (shown.id, shown.function.name, shown.function.arguments)
        reason = answer.choices[0].finish_reason
    assert call[1] == "weather" and call[0]
    jsonschema.validate(json.loads(call[2]), WEATHER["function"]["parameters"])  # type: ignore[index]
    assert reason == "tool_calls"


def joined(parts: Any, index: int = 0) -> tuple[list[tuple[str, str, str]], str, str]:
    """The calls (id, name, arguments), the text and the reason that a stream's deltas of one choice make up."""
    calls: dict[int, list[str]] = {}
    content, reason = "", ""
    for part in parts:
        for choice in part.choices:
            if choice.index != index:
                continue
            content += choice.delta.content or ""
            reason = choice.finish_reason or reason
            for delta in choice.delta.tool_calls or []:
                if delta.index not in calls:
                    assert delta.type == "function" and delta.function.arguments == ""
                    calls[delta.index] = [delta.id, delta.function.name, ""]
                else:
                    assert delta.id is None and delta.function.name is None
                calls[delta.index][2] += delta.function.arguments
    return [(one[0], one[1], one[2]) for one in calls.values()], content, reason


@pytest.mark.parametrize("format", ["hermes", "pythonic", "harmony", "qwen3_coder"])
def test_streamed_arguments_are_those_of_the_whole_answer(client: Any, format: str) -> None:
    options: dict[str, Any] = {
        "tools": [WEATHER, CLOCK],
        "tool_choice": "required",
        "seed": 7,
        "max_tokens": 60,
        "extra": {"structgen": {"tool_format": format}},
    }
    message = ask(client, "The weather in Rome, and the time?", **options).choices[0]
    parts = list(ask(client, "The weather in Rome, and the time?", stream=True, **options))
    calls, content, reason = joined(parts)
    shown = message.message.tool_calls
    assert [one[1:] for one in calls] == [(one.function.name, one.function.arguments) for one in shown]
    assert (content, reason) == (message.message.content or "", message.finish_reason)
    assert len({one[0] for one in calls}) == len(calls)


def test_arguments_are_streamed_while_they_are_written(client: Any) -> None:
    parts = ask(
        client,
        tools=[note(40, 60)],
        tool_choice="required",
        parallel_tool_calls=False,
        stream=True,
        max_tokens=120,
        seed=1,
    )
    pieces = [
        delta.function.arguments
        for part in parts
        for delta in part.choices[0].delta.tool_calls or []
        if delta.function.arguments
    ]
    assert len(pieces) > 5 and 40 <= len(json.loads("".join(pieces))["text"]) <= 60


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_is_cut_off_is_shown_as_far_as_it_goes(client: Any, stream: bool) -> None:
    options = {
        "tools": [note(30, 3000)],
        "tool_choice": "required",
        "max_tokens": 80,
        "stream": stream,
        "seed": 1,
    }
    answer = ask(client, "Note a long story of a dog and a cat in five sentences.", **options)
    if stream:
        ((_, name, arguments),), _, reason = joined(answer)
    else:
        (shown,) = answer.choices[0].message.tool_calls
        name, arguments = shown.function.name, shown.function.arguments
        reason = answer.choices[0].finish_reason
    assert reason == "length" and name == "note" and arguments.startswith('{"text": "')


def note(least: int, most: int) -> dict[str, Any]:
    text = {"type": "string", "minLength": least, "maxLength": most}
    parameters = {"type": "object", "properties": {"text": text}, "required": ["text"]}
    return {"type": "function", "function": {"name": "note", "parameters": parameters}}


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_read_without_work_in_the_core(
    client: Any, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading is done on the event loop, where nothing limits it."""
    feed, found = PartialTurn.feed, []

    def counted(turn: PartialTurn, text: str, **options: Any) -> None:
        before = _core.work_done()
        feed(turn, text, **options)
        found.append((turn._forms, _core.work_done() - before))

    monkeypatch.setattr(PartialTurn, "feed", counted)
    options: dict[str, Any] = {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False}
    options["max_tokens"] = 100  # for every possible call
    extra = {"structgen": {"tool_format": "qwen3_coder"}}
    answer = ask(client, "The weather in Rome?", stream=stream, extra=extra, **options)
    if stream:
        assert [call for one in answer for call in one.choices[0].delta.tool_calls or []]
    else:
        assert answer.choices[0].message.tool_calls
    assert found and all(one == ({"weather": {"city": "string", "days": "json"}}, 0) for one in found)


def test_a_conversation_with_tools(client: Any) -> None:
    first = ask(client, "What time is it?", tools=[CLOCK], tool_choice="required", parallel_tool_calls=False)
    (call,) = first.choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments) == ("clock", "{}")
    messages = [
        {"role": "user", "content": "What time is it?"},
        first.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "noon"},
    ]
    for choice in ("auto", "none"):
        second = ask(client, messages=messages, tools=[CLOCK], tool_choice=choice, max_tokens=12)
        assert second.choices[0].finish_reason in ("stop", "length", "tool_calls")


def test_streamed_text_is_not_a_call_when_tools_are_offered(client: Any) -> None:
    parts = list(ask(client, "Tell me a story.", tools=[CLOCK], stream=True, max_tokens=10, seed=1))
    text = "".join(one.choices[0].delta.content or "" for one in parts)
    calls = [one for one in parts if one.choices[0].delta.tool_calls]
    assert "<tool_call>" not in text and bool(text) != bool(calls)


def test_calls_in_an_order(client: Any) -> None:
    answer = ask(
        client,
        "The weather.",
        tools=[WEATHER, CLOCK],
        tool_choice="required",
        max_tokens=120,
        extra={"structgen": {"ltl": ["!weather W clock", "F weather"]}},
    )
    calls = [call.function.name for call in answer.choices[0].message.tool_calls or ()]
    if answer.choices[0].finish_reason == "tool_calls":
        assert calls[0] == "clock"


# -- samplers


def test_a_sampler_draws_from_the_conditional_distribution(client: Any) -> None:
    answer = ask(
        client,
        n=2,
        seed=1,
        extra={
            "structured_outputs": {"choice": ["yes", "no"]},
            "structgen": {"sampler": {"name": "smc", "particles": 3}},
        },
    )
    assert {choice.message.content for choice in answer.choices} <= {"yes", "no"}
    report = answer.model_extra["structgen"]
    assert report["sampler"] == "smc" and report["draws"] == 3
    assert sum(one["weight"] for one in report["texts"]) == pytest.approx(1)


def test_samplers_and_streams_run_side_by_side(server: Running) -> None:
    async def both() -> tuple[Any, list[str]]:
        async with server.async_client() as client:

            async def stream() -> list[str]:
                parts = await ask(client, stream=True, max_tokens=20, seed=2)
                return [one.choices[0].delta.content or "" async for one in parts]

            sampled = ask(
                client,
                seed=1,
                extra={"structured_outputs": {"regex": "[ab]{6}"}, "structgen": {"sampler": "awrs"}},
            )
            return await asyncio.gather(sampled, stream())

    sampled, texts = asyncio.run(both())
    assert re.fullmatch("[ab]{6}", sampled.choices[0].message.content) and "".join(texts)


# -- many at once


def test_mixed_constraints_at_once(server: Running) -> None:
    cases: list[tuple[dict[str, Any], Any]] = [
        ({"response_format": as_schema(PERSON)}, lambda text: jsonschema.validate(json.loads(text), PERSON)),
        (
            {"extra": {"structured_outputs": {"regex": "[a-f]{3,9}"}}},
            lambda text: re.fullmatch("[a-f]{3,9}", text),
        ),
        (
            {"extra": {"structured_outputs": {"choice": ["red", "blue"]}}},
            lambda text: text in ("red", "blue"),
        ),
        ({"max_tokens": 5}, lambda text: len(text) > 0),
        ({"response_format": as_schema({"type": "boolean"})}, lambda text: text in ("true", "false")),
    ]

    for options, _ in cases:  # each is compiled then, so that all of them come at once
        with server.client() as one:
            ask(one, **{**options, "max_tokens": 40})

    async def all_of_them() -> list[Any]:
        chosen = [cases[number % len(cases)] for number in range(20)]
        async with server.async_client() as client:
            return await asyncio.gather(
                *(ask(client, seed=i, **options) for i, (options, _) in enumerate(chosen))
            )

    engine = server.service.model_thread
    before = engine.batch.counts
    passes, rows = before.passes, before.rows
    holding = threading.Thread(
        target=engine.call, args=(lambda: until(lambda: len(engine._submitted) == 20),)
    )
    holding.start()
    answers = asyncio.run(all_of_them())
    holding.join()
    for number, answer in enumerate(answers):
        text = answer.choices[0].message.content
        check = cases[number % len(cases)][1]
        assert answer.choices[0].finish_reason in ("stop", "length")
        if answer.choices[0].finish_reason == "stop":
            assert check(text) in (None, True) or check(text)
    after = server.service.model_thread.batch.counts
    assert after.rows - rows > 1.5 * (after.passes - passes), "they were not drawn side by side"


def test_a_client_that_disconnects_frees_its_rows(server: Running) -> None:
    service = server.service

    async def hang_up(stream: bool) -> None:
        client = server.async_client()
        asked = asyncio.ensure_future(ask(client, "A long story.", max_tokens=2000, stream=stream))
        if stream:
            parts = await asked
            async for _ in parts:
                break
            await parts.close()
        else:
            while not service.model_thread.batch.running:
                await asyncio.sleep(0.02)
            asked.cancel()
        await client.close()

    for stream in (False, True):
        asyncio.run(hang_up(stream))
        until(lambda: service.open == 0 and service.model_thread.batch.is_idle)


def test_a_client_that_disconnects_does_not_keep_a_matcher_process(
    server: Running, monkeypatch: pytest.MonkeyPatch, stopped_processes: list[int]
) -> None:
    processes = server.service.compiler.matcher_processes
    assert processes is not None
    pickled = pickle.dumps(constraint_of("grammar", SLOW))
    found: Future[Any] = Future()
    found.set_result(IsolatableConstraint("grammar", b"", pickled, processes, None))
    monkeypatch.setattr(server.service.compiler, "submit", lambda kind, spec: found)

    async def hang_up() -> None:
        client = server.async_client()
        asked = asyncio.ensure_future(ask(client, extra={"structured_outputs": {"grammar": "any"}}))
        while not stopped_processes and not asked.done():
            await asyncio.sleep(0.02)
        assert not asked.done()
        asked.cancel()
        await client.close()

    asyncio.run(hang_up())
    until(lambda: server.service.open == 0 and processes.running == 0)


def test_metrics_and_health(server: Running, client: Any) -> None:
    ask(client, max_tokens=2)
    assert json.loads(fetched(f"{server.url}/health"))["status"] == "ok"
    page = fetched(f"{server.url}/metrics")
    assert 'structgen_requests_total{endpoint="/v1/chat/completions",status="200"}' in page
    assert "structgen_token_gap_seconds_bucket" in page and "structgen_compile_seconds_bucket" in page
    assert KEY not in page


def test_models(client: Any) -> None:
    assert [one.id for one in client.models.list()] == [NAME]
    assert client.models.retrieve(NAME).owned_by == "structgen"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


def test_typed_calls_over_the_server(server: Running) -> None:
    pytest.importorskip("httpx2")
    from typing import Literal

    import structgen as sg

    with sg.connect(f"{server.url}/v1", api_key=KEY) as connected:
        found = sg.generate(connected, "Red or green?", Literal["red", "green"], max_tokens=10)
        assert found in ("red", "green")
        assert re.fullmatch("a{2,4}", sg.generate(connected, "Say aaa.", sg.regex("a{2,4}"), max_tokens=10))


def test_a_request_that_does_not_fit_does_not_cost_a_connection_its_constraints(server: Running) -> None:
    pytest.importorskip("httpx2")
    import structgen as sg
    from structgen import errors

    with sg.connect(f"{server.url}/v1", model=NAME, api_key=KEY) as model:
        for prompt, letters, most in (("x", 500, 5), ("x " * 20_000, 2, 5)):
            result: Any = sg.run(model, prompt, sg.regex(f"[a-z]{{{letters}}}"), max_tokens=most)
            assert isinstance(result.error, errors.RemoteError) and result.error.status in (400, 413)
            assert not result.account.refused
        result = sg.run(model, "x", sg.regex("[a-z]{2}"), max_tokens=5)
        assert len(result.value) == 2
        assert [one.dialect for one in result.account.attempts] == ["structured_outputs"]


def test_details_that_only_this_server_reports(client: Any) -> None:
    answer = ask(client, seed=4, extra={"structgen": {}, "guided_choice": ["yes", "no"]})
    details = answer.choices[0].model_extra["structgen"]
    assert details["finish"] == "complete" and details["logprob"] < details["log_weight"] <= 0
    assert details["seed"] == [4, 0]
    short = ask(
        client,
        max_tokens=14,
        extra={"structgen": {"close_within_budget": True}, "guided_regex": "[a-z]+( [a-z]+)*[.]"},
    )
    assert short.choices[0].finish_reason == "stop"
