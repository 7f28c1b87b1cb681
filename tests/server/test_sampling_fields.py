"""How a request's tokens are drawn, through OpenAI's own client: penalties, bias, choices, budgets."""

from __future__ import annotations

import json
import re
from typing import Any

import openai
import pytest

import structgen as sg
from structgen.server.completion_request import read_request
from structgen.server.reasoning import ChatTemplate
from structgen.server.settings import ServerSettings

from .calls import as_schema, ask
from .conftest import KEY, NAME, Running

PENALTIES: list[dict[str, Any]] = [
    {"frequency_penalty": 1.5},
    {"presence_penalty": 2.0},
    {"repetition_penalty": 1.6},
    {"frequency_penalty": 2.0, "presence_penalty": 2.0, "repetition_penalty": 0.8},
]


def send(client: Any, text: str, given: dict[str, Any], **options: Any) -> Any:
    """Send a request whose penalties may be fields that OpenAI's client does not know."""
    own = {name: value for name, value in given.items() if name == "repetition_penalty"}
    known = {name: value for name, value in given.items() if name not in own}
    return ask(client, text, extra=own, **known, **options)


@pytest.mark.parametrize("given", PENALTIES)
def test_penalties_are_those_of_the_library(client: Any, model: Any, given: dict[str, Any]) -> None:
    """The server drafts tokens, and the library without drafts draws the same."""
    text = "Count: one two one two one two"
    answer = send(client, text, given, temperature=0, max_tokens=24)
    expected = sg.run(model, text, max_tokens=24, speculate=False, temperature=0, **given)
    assert answer.choices[0].message.content == expected.generation.text
    plain = ask(client, text, temperature=0, max_tokens=24)
    assert answer.choices[0].message.content != plain.choices[0].message.content


def test_penalties_with_a_constraint(client: Any) -> None:
    options = {"temperature": 0, "max_tokens": 40, "extra": {"guided_regex": "(a|b){8}"}}
    answer = ask(client, "aaaaaaaa", logit_bias=None, frequency_penalty=2.0, **options)
    assert re.fullmatch("[ab]{8}", answer.choices[0].message.content)
    assert len(set(answer.choices[0].message.content)) == 2


def test_a_bias_decides_among_allowed_tokens_and_allows_no_others(client: Any, model: Any) -> None:
    first = {text: model.tokenizer.encode(text)[0] for text in ("red", "green", "blue")}
    for text in ("red", "green", "blue"):
        bias = {str(first[text]): 100, str(model.tokenizer.encode(" the")[0]): 100}
        answer = ask(client, "A colour?", logit_bias=bias, extra={"guided_choice": list(first)}, seed=1)
        assert answer.choices[0].message.content == text
    forced = ask(client, logit_bias={str(first["red"]): -100}, extra={"guided_choice": ["red"]})
    assert forced.choices[0].message.content == "red"


def test_a_bias_in_completions_and_streams(client: Any, model: Any) -> None:
    (token,) = model.tokenizer.encode(" the")
    parts = client.completions.create(
        model=NAME, prompt="Once", logit_bias={str(token): 100}, max_tokens=4, stream=True
    )
    assert "".join(part.choices[0].text for part in parts) == " the" * 4


def test_log_probabilities_are_those_of_the_changed_model(client: Any, model: Any) -> None:
    (token,) = model.tokenizer.encode(" the")
    answer = client.completions.create(
        model=NAME, prompt="Once", logit_bias={str(token): 100}, max_tokens=2, logprobs=1
    )
    assert answer.choices[0].logprobs.token_logprobs == pytest.approx([0, 0], abs=1e-6)


def test_the_most_log_probabilities(client: Any) -> None:
    chat = ask(client, logprobs=True, top_logprobs=20, max_tokens=2)
    assert [len(one.top_logprobs) for one in chat.choices[0].logprobs.content] == [20, 20]
    text = client.completions.create(model=NAME, prompt="Once", max_tokens=2, logprobs=5)
    assert [len(one) for one in text.choices[0].logprobs.top_logprobs] == [5, 5]
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model=NAME, prompt="Once", max_tokens=2, logprobs=21)
    assert refused.value.param == "logprobs"


def test_a_sampler_and_penalties_are_refused(client: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="frequency_penalty cannot be combined") as refused:
        ask(client, frequency_penalty=1, extra={"structgen": {"sampler": "smc"}})
    assert refused.value.param == "frequency_penalty"


def test_choices_share_one_reading_of_the_prompt(server: Running, client: Any) -> None:
    counts = server.service.model_thread.batch.counts
    before = counts.prompt_tokens + counts.cached_tokens
    answer = ask(client, "Several answers to one question?", n=4, max_tokens=3, seed=3)
    read = counts.prompt_tokens + counts.cached_tokens - before
    assert len(answer.choices) == 4 and read == answer.usage.prompt_tokens


# -- answers that are complete within their tokens


LIST = {"type": "array", "items": {"type": "integer"}, "minItems": 1}


@pytest.fixture(scope="module")
def closing(model: Any) -> Any:
    running = Running(model, ServerSettings(model_name=NAME, api_keys=(KEY,), close_within_budget=True))
    with running.client() as client:
        yield client
    running.stop()


def test_a_server_whose_answers_are_complete(closing: Any) -> None:
    options = {"response_format": as_schema(LIST), "temperature": 5.0, "max_tokens": 12}
    for seed in range(5):
        answer = ask(closing, "Numbers!", seed=seed, **options)
        assert answer.choices[0].finish_reason == "stop"
        assert isinstance(json.loads(answer.choices[0].message.content), list)
    reasons = {
        ask(closing, "Numbers!", seed=seed, extra={"structgen": {"close_within_budget": False}}, **options)
        .choices[0]
        .finish_reason
        for seed in range(5)
    }
    assert "length" in reasons  # a request's own field wins


def test_free_text_is_cut_off_and_says_so(closing: Any) -> None:
    answer = ask(closing, "Count to a hundred.", temperature=0, max_tokens=5)
    assert answer.choices[0].finish_reason == "length"


@pytest.mark.parametrize("default", [True, False])
@pytest.mark.parametrize("own", [True, False, None])
def test_whether_an_answer_closes(model: Any, default: bool, own: bool | None) -> None:
    body = {"model": NAME, "messages": [{"role": "user", "content": "?"}], "guided_regex": "a*"}
    body["structgen"] = {} if own is None else {"close_within_budget": own}
    read = read_request(body, "chat", ServerSettings(close_within_budget=default), ChatTemplate(model))
    assert read.options.close_within_budget is (default if own is None else own)
