"""Client libraries that use /v1/responses, against the real server: OpenAI's, its Agents SDK, and instructor.

Each test is a typical use from the library's own documentation. What a library is not installed is skipped.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest

from ..calls import Colour
from ..conftest import NAME, Running

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:Pydantic serializer:UserWarning", "ignore::ResourceWarning"
)


# -- the official client


def test_openai_parses_models(client: Any) -> None:
    history: list[Any] = [{"role": "user", "content": "A colour?"}]
    first = client.responses.parse(
        model=NAME, instructions="Be brief.", input=history, text_format=Colour, max_output_tokens=60
    )
    assert isinstance(first.output_parsed, Colour) and first.status == "completed"
    # The items go back as they came, as objects and as dictionaries with all their keys.
    question = {"role": "user", "content": "Another one?"}
    given = [*history, *first.output, question, *(item.to_dict() for item in first.output), question]
    again = client.responses.create(model=NAME, input=given, max_output_tokens=3)
    assert isinstance(again.output_text, str) and again.usage.input_tokens > first.usage.input_tokens


def test_openai_streams_models(client: Any) -> None:
    with client.responses.stream(
        model=NAME, input="A colour?", text_format=Colour, max_output_tokens=60
    ) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert isinstance(final.output_parsed, Colour) and final.usage.output_tokens
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


@pytest.mark.parametrize("streams", [False, True])
def test_openai_calls_tools_and_goes_on(client: Any, streams: bool) -> None:
    import openai

    options: dict[str, Any] = {
        "model": NAME,
        "tools": [openai.pydantic_function_tool(Colour)["function"] | {"type": "function"}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_output_tokens": 80,
    }
    history: list[Any] = [{"role": "user", "content": "A colour?"}]
    if streams:
        with client.responses.stream(input=history, **options) as stream:
            pieces = [e.delta for e in stream if e.type == "response.function_call_arguments.delta"]
            response = stream.get_final_response()
        assert "".join(pieces) == response.output[0].arguments and len(pieces) > 2
    else:
        response = client.responses.parse(input=history, **options)
    (call,) = response.output
    assert call.type == "function_call" and Colour.model_validate(call.parsed_arguments)
    history += [*response.output, {"type": "function_call_output", "call_id": call.call_id, "output": "done"}]
    answer = client.responses.create(
        **{**options, "tool_choice": "auto", "max_output_tokens": 3}, input=history
    )
    assert answer.status in ("completed", "incomplete")


# -- the Agents SDK


@pytest.fixture
def agents() -> Any:
    """Return the module of the Agents SDK, which sends no traces."""
    module = pytest.importorskip("agents")
    module.set_tracing_disabled(True)
    return module


@pytest.fixture(params=["responses", "chat"])
async def agent(server: Running, agents: Any, request: Any) -> AsyncIterator[Any]:
    """Makes agents, over either endpoint."""
    settings = agents.ModelSettings(max_tokens=80, temperature=0.5, parallel_tool_calls=False)
    async with server.async_client() as client:
        kind = (
            agents.OpenAIResponsesModel if request.param == "responses" else agents.OpenAIChatCompletionsModel
        )
        model = kind(model=NAME, openai_client=client)
        yield lambda **options: agents.Agent(
            name="helper",
            instructions="Be brief.",
            model=model,
            **{"model_settings": settings, **options},
        )


async def test_agents_answer_with_a_type(agent: Any, agents: Any) -> None:
    result = await agents.Runner.run(agent(output_type=Colour), "A colour?")
    assert isinstance(result.final_output, Colour)
    again = await agents.Runner.run(
        agent(output_type=Colour), [*result.to_input_list(), {"role": "user", "content": "Another one?"}]
    )
    assert isinstance(again.final_output, Colour)


async def test_agents_stream(agent: Any, agents: Any) -> None:
    result = agents.Runner.run_streamed(agent(output_type=Colour), "A colour?")
    kinds = [event.type async for event in result.stream_events()]
    assert isinstance(result.final_output, Colour) and kinds.count("raw_response_event") > 4


async def test_agents_call_tools(agent: Any, agents: Any) -> None:
    called = []

    @agents.function_tool
    def look_up(thing: Literal["sky", "sea"]) -> str:
        """Look up the colour of a thing."""
        called.append(thing)
        return "green"

    settings = agents.ModelSettings(max_tokens=80, tool_choice="required", parallel_tool_calls=False)
    made = agent(tools=[look_up], model_settings=settings, tool_use_behavior="stop_on_first_tool")
    result = await agents.Runner.run(made, "Look up the colour of the sky.")
    assert result.final_output == "green" and called and set(called) <= {"sky", "sea"}


async def test_agents_refuse_an_answer_that_is_cut_off(server: Running, agents: Any) -> None:
    async with server.async_client() as client:
        made = agents.Agent(
            name="helper",
            model=agents.OpenAIResponsesModel(model=NAME, openai_client=client),
            model_settings=agents.ModelSettings(max_tokens=3),
        )
        with pytest.raises(agents.exceptions.AgentsException, match="max_output_tokens"):
            await agents.Runner.run(made, "A long story.")


# -- instructor


def test_instructor(client: Any) -> None:
    instructor = pytest.importorskip("instructor")
    asking = instructor.from_openai(client, mode=instructor.Mode.RESPONSES_TOOLS)
    found = asking.responses.create(
        model=NAME, input="A colour?", response_model=Colour, max_output_tokens=80, max_retries=0
    )
    assert isinstance(found, Colour)
