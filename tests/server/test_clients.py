"""Client libraries that people use, against the real server: the official client, instructor, pydantic-ai, LangChain.

Each test is a typical use from the library's own documentation. What a library is not installed is skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

import pytest

from .calls import Colour
from .conftest import KEY, NAME, Running

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:Pydantic serializer:UserWarning"
)


def colour_of(name: Literal["sky", "sea"]) -> str:
    """Look up the colour of a thing."""
    return "red" if name == "sky" else "green"


# -- the official client


def test_openai_parses_models(client: Any) -> None:
    history: list[Any] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "A colour?"},
    ]
    first = client.chat.completions.parse(model=NAME, messages=history, response_format=Colour, max_tokens=60)
    message = first.choices[0].message
    assert isinstance(message.parsed, Colour) and message.refusal is None
    # The message goes back as it came, as an object and as a dictionary with all its keys.
    question = {"role": "user", "content": "Another one?"}
    again = client.chat.completions.create(
        model=NAME,
        messages=[
            *history,
            message,
            question,
            message.model_dump(warnings=False),
            question,
            message.to_dict(),
            question,
        ],
        max_tokens=3,
    )
    assert again.choices[0].message.content is not None


def test_openai_streams_models(client: Any) -> None:
    with client.chat.completions.stream(
        model=NAME,
        messages=[{"role": "user", "content": "A colour?"}],
        response_format=Colour,
        max_tokens=60,
        stream_options={"include_usage": True},
    ) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert isinstance(final.choices[0].message.parsed, Colour) and final.usage.completion_tokens
    assert {"content.delta", "content.done"} <= kinds


def test_openai_streams_and_parses_tool_calls(client: Any) -> None:
    tool = pydantic_tool()
    messages: list[Any] = [{"role": "user", "content": "A colour?"}]
    with client.chat.completions.stream(
        model=NAME,
        messages=messages,
        tools=[tool],
        tool_choice="required",
        parallel_tool_calls=False,
        max_tokens=80,
    ) as stream:
        events = list(stream)
        final = stream.get_final_completion()
    deltas = [event for event in events if event.type == "tool_calls.function.arguments.delta"]
    (call,) = final.choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, Colour)
    assert "".join(event.arguments_delta for event in deltas) == call.function.arguments and len(deltas) > 2
    message = final.choices[0].message
    result = {"role": "tool", "tool_call_id": call.id, "content": "done"}
    received = [message, message.model_dump(warnings=False), message.to_dict()]
    for sent in received:
        messages += [sent, result]
    assert client.chat.completions.create(model=NAME, messages=messages, tools=[tool], max_tokens=3).choices


def pydantic_tool() -> Any:
    import openai

    return openai.pydantic_function_tool(Colour)


# -- instructor


@pytest.mark.parametrize("mode", ["JSON_SCHEMA", "TOOLS"])
def test_instructor(client: Any, mode: str) -> None:
    instructor = pytest.importorskip("instructor")
    asking = instructor.from_openai(client, mode=getattr(instructor.Mode, mode))
    found = asking.chat.completions.create(
        model=NAME,
        messages=[{"role": "user", "content": "A colour?"}],
        response_model=Colour,
        max_tokens=80,
        max_retries=0,
    )
    assert isinstance(found, Colour)


def test_instructor_streams_partial_objects(client: Any) -> None:
    instructor = pytest.importorskip("instructor")
    asking = instructor.from_openai(client, mode=instructor.Mode.TOOLS)
    parts = list(
        asking.chat.completions.create_partial(
            model=NAME,
            messages=[{"role": "user", "content": "A colour?"}],
            response_model=Colour,
            max_tokens=80,
        )
    )
    assert parts[-1].name in ("red", "green") and parts[-1].brightness is not None and len(parts) > 2


# -- pydantic-ai


@pytest.fixture(params=["OpenAIChatModel", "OpenAIResponsesModel"])
async def agent(server: Running, request: Any) -> AsyncIterator[Any]:
    """Makes agents, over either endpoint."""
    pydantic_ai = pytest.importorskip("pydantic_ai")
    models = pytest.importorskip("pydantic_ai.models.openai")
    providers = pytest.importorskip("pydantic_ai.providers.openai")
    settings = {"max_tokens": 80, "temperature": 0.5, "parallel_tool_calls": False}
    async with server.async_client() as client:
        made = getattr(models, request.param)
        model = made(NAME, provider=providers.OpenAIProvider(openai_client=client))
        yield lambda output, **options: pydantic_ai.Agent(
            model, output_type=output, model_settings=settings, **options
        )


@pytest.mark.parametrize("form", ["tool", "native"])
async def test_pydantic_ai_answers_with_a_type(agent: Any, form: str) -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")
    output = Colour if form == "tool" else pydantic_ai.NativeOutput(Colour)
    found = await agent(output, system_prompt="Be brief.").run("A colour?")
    assert isinstance(found.output, Colour)
    again = await agent(output).run("Another one?", message_history=found.all_messages())
    assert isinstance(again.output, Colour)


async def test_pydantic_ai_streams(agent: Any) -> None:
    async with agent(Colour).run_stream("A colour?") as stream:
        found = await stream.get_output()
    assert isinstance(found, Colour)


async def test_pydantic_ai_calls_tools(agent: Any) -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")
    called = []

    def look_up(thing: Literal["sky", "sea"]) -> str:
        """Look up the colour of a thing."""
        called.append(thing)
        return "green"

    asking = agent(Colour, tools=[look_up])
    limits = pydantic_ai.UsageLimits(request_limit=3)
    try:
        found = await asking.run("Look up the colour of the sky.", usage_limits=limits)
        assert isinstance(found.output, Colour)
    except pydantic_ai.UsageLimitExceeded:  # the small model may look up the same thing again and again
        assert called
    assert set(called) <= {"sky", "sea"}


# -- LangChain


@pytest.fixture(scope="module", params=["chat", "responses"])
def langchain(server: Running, request: Any) -> Iterator[Any]:
    """A chat model, over either endpoint."""
    openai = pytest.importorskip("openai")
    module = pytest.importorskip("langchain_openai")
    with openai.DefaultHttpxClient() as http_client:  # LangChain's own would serve both
        yield module.ChatOpenAI(
            base_url=f"{server.url}/v1",
            api_key=KEY,
            model=NAME,
            max_tokens=80,
            max_retries=0,
            stream_usage=True,
            use_responses_api=request.param == "responses",
            http_client=http_client,
        )


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_langchain_structured_output(langchain: Any, method: str) -> None:
    found = langchain.with_structured_output(Colour, method=method).invoke("A colour?")
    assert isinstance(found, Colour)


def test_langchain_calls_tools_and_goes_on(langchain: Any) -> None:
    tools = pytest.importorskip("langchain_core.tools")
    messages = pytest.importorskip("langchain_core.messages")
    tool = tools.tool(colour_of)
    bound = langchain.bind_tools([tool], tool_choice="required", parallel_tool_calls=False)
    history: list[Any] = [
        messages.SystemMessage("Be brief."),
        messages.HumanMessage("What colour is the sky?"),
    ]
    answer = bound.invoke(history)
    (call,) = answer.tool_calls
    assert call["name"] == "colour_of" and call["args"]["name"] in ("sky", "sea")
    history += [answer, messages.ToolMessage("red", tool_call_id=call["id"])]
    assert langchain.bind_tools([tool]).invoke(history, max_tokens=3) is not None


def test_langchain_streams(langchain: Any) -> None:
    whole: Any = None
    for part in langchain.bind_tools([Colour], tool_choice="required", parallel_tool_calls=False).stream(
        "A colour?"
    ):
        whole = part if whole is None else whole + part
    (call,) = whole.tool_calls
    assert Colour.model_validate(call["args"]) and whole.usage_metadata["output_tokens"] > 0
    assert json.loads(whole.tool_call_chunks[0]["args"]) == call["args"]


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
