"""Read a response request into the same record as a chat.

    OpenAI    input, instructions, text.format, tools, reasoning, max_output_tokens, include, ...
    others    structgen, structured_outputs, seed, top_k and the like, as in a chat

Invariant: an unsupported field is refused by its name. What needs stored responses is refused, since nothing is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from structgen.errors import did_you_mean, with_kind

from ..completion_request import (
    CompletionRequest,
    ConstraintSpec,
    check_combinations,
    read_closed,
    read_constraint,
)
from ..errors import bad_request
from ..fields import Fields
from ..reasoning import ChatTemplate, read_effort, read_reasoning, read_template_variables
from ..sampler_fields import read_sampler
from ..sampling_fields import read_options
from ..settings import ServerSettings
from ..tool_fields import read_tool_format
from .input_items import read_input
from .tool_items import read_response_tools

__all__ = ["read_response_request"]

_MOST_LOGPROBS = 20
_MOST_METADATA, _LONGEST_KEY, _LONGEST_VALUE = 16, 64, 512
_LOGPROBS = "message.output_text.logprobs"
_INCLUDES = (
    _LOGPROBS, "reasoning.encrypted_content", "file_search_call.results", "web_search_call.results",
    "web_search_call.action.sources", "message.input_image.image_url", "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
)  # fmt: skip
"""Known values of `include`. The others concern items that this server never returns, or returns in full."""


def read_response_request(
    body: Mapping[str, Any], settings: ServerSettings, template: ChatTemplate
) -> CompletionRequest:
    """Read the JSON object of a request.

    Args:
        body: The object.
        settings: Defaults and upper bounds.
        template: The model's chat template.

    Raises:
        ApiError: A field is unknown, unsupported or invalid.
    """
    fields = Fields(body)
    model = fields.text("model")
    if model is None:
        raise bad_request("model", "model is missing")
    _refuse_stored(fields)
    stream = _read_stream(fields)
    own = fields.object("structgen")
    variables, shown_reasoning = _read_variables(fields, template)
    reasoning = read_reasoning(own, template, variables, is_on=settings.reasoning == "auto")
    format = read_tool_format(own, settings, template)
    tools, echoed = read_response_tools(fields, own, format)
    instructions, messages = read_input(fields, tools, format)
    closes = read_closed(own)
    formats, text = _read_text(fields, settings.closed_objects if closes is None else closes)
    spec = read_constraint(formats, fields, own, tools, reasoning, closes=closes)
    sampler = None if own is None else read_sampler(own, settings)
    logprobs, top_logprobs = _read_logprobs(fields)
    details = own is not None
    options = read_options(
        fields,
        own,
        settings,
        ("max_output_tokens",),
        wants_scores=logprobs or details,
        is_constrained=spec is not None,
    )
    echoed |= {
        "instructions": instructions,
        "max_output_tokens": body.get("max_output_tokens"),
        "metadata": _read_metadata(fields),
        "reasoning": shown_reasoning,
        "temperature": options.effective_temperature,
        "text": text,
        "top_logprobs": top_logprobs,
        "top_p": 1.0 if options.top_p is None else options.top_p,
    }
    _take_fixed(fields)
    if own is not None:
        own.end()
    fields.end()
    request = CompletionRequest(
        "response",
        model,
        messages,
        options,
        spec=spec,
        tools=tools,
        sampler=sampler,
        stream=stream,
        logprobs=logprobs,
        details=details,
        variables=variables,
        reasoning=reasoning,
        top_logprobs=top_logprobs,
        echoed=echoed,
    )
    check_combinations(request)
    return request


# -- parts


def _refuse_stored(fields: Fields) -> None:
    """Refuse what needs stored responses. Raises `ApiError`."""
    fields.only("store", [False], "nothing is stored; leave store out, or send false")
    fields.only("background", [False], "nothing is stored; wait for the response, or stream it")
    for key in ("previous_response_id", "conversation"):
        fields.only(key, [], "nothing is stored; send the earlier items in input")
    fields.only("prompt", [], "no prompts are stored; send instructions and input")


def _read_stream(fields: Fields) -> bool:
    stream = fields.flag("stream")
    options = fields.object("stream_options")
    if options is not None:
        if not stream:
            raise bad_request("stream_options", "stream_options are for requests with stream=true")
        options.only("include_obfuscation", [False], "nothing is padded")
        options.end()
    return stream


def _read_variables(fields: Fields, template: ChatTemplate) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the variables of the chat template, and the field `reasoning` as the response shows it."""
    variables: dict[str, Any] = {}
    shown: dict[str, Any] = {"effort": None, "summary": None}
    given = fields.object("reasoning")
    if given is not None:
        effort, variables = read_effort(given, "effort", template)
        if variables:
            shown["effort"] = effort
        for key in ("summary", "generate_summary"):
            given.only(
                key, ["auto", "concise", "detailed"], "there are no summaries"
            )  # the text itself is shown
        given.only("context", ["auto", "current_turn"], "earlier reasoning is not shown to the model")
        given.only("mode", ["standard"], "there is only one mode")
        given.end()
    return read_template_variables(fields, template, variables, "reasoning.effort"), shown


def _read_text(fields: Fields, closed: bool) -> tuple[list[ConstraintSpec], dict[str, Any]]:
    """Return the constraint that `text.format` describes, if any, and the field `text` as the response shows it."""
    specs: list[ConstraintSpec] = []
    text = fields.object("text")
    given = None if text is None else text.object("format")
    shown: dict[str, Any] = {"type": "text"}
    if text is not None:
        text.only("verbosity", ["medium"], "say in instructions how long the answer is to be")
        text.end()
    if given is not None:
        shown = given.copy()
        kind = given.take("type")
        if kind == "json_object":
            specs = [ConstraintSpec("json_object", None, "text.format")]
        elif kind == "json_schema":
            specs = [ConstraintSpec("json", _schema_of(given), "text.format", closed)]
        elif kind != "text":
            where = given.name("type")
            raise bad_request(where, f"{where} is {kind!r:.60}; it is text, json_object or json_schema")
        given.end()
    return specs, {"format": shown}


def _schema_of(format: Fields) -> Any:
    schema = format.take("schema")
    if not isinstance(schema, dict | bool):
        where = format.name("schema")
        what = f"{where} is missing" if schema is None else f"{where} is {with_kind(schema)}"
        nested = format.take("json_schema") is not None
        hint = (
            ". The field json_schema is the form of chats; here the schema is a field of the format itself"
            if nested
            else ""
        )
        raise bad_request(where, f"{what}; it is a JSON Schema: an object, true or false{hint}")
    format.ignored("name", "description")
    format.flag("strict")  # every schema is followed strictly
    return schema


def _read_logprobs(fields: Fields) -> tuple[bool, int]:
    """Return whether tokens are scored, and how many of the most probable tokens are shown for each."""
    given = fields.take("include")
    included = [] if given is None else given
    if not isinstance(included, list):
        raise bad_request("include", f"include is {with_kind(included)}, not a list")
    for index, name in enumerate(included):
        if not isinstance(name, str) or name not in _INCLUDES:
            near = did_you_mean(name, _INCLUDES) if isinstance(name, str) else None
            raise bad_request(
                f"include[{index}]",
                f"include[{index}] is {name!r:.60}; it is one of {', '.join(_INCLUDES)}"
                + (f". {near}" if near else ""),
            )
    wanted = _LOGPROBS in included
    count = fields.number("top_logprobs", 0, _MOST_LOGPROBS, whole=True, default=0)
    if count and not wanted:
        raise bad_request("top_logprobs", f'top_logprobs needs include=["{_LOGPROBS}"]')
    return wanted, count


def _read_metadata(fields: Fields) -> dict[str, str]:
    given = fields.object("metadata")
    metadata = {} if given is None else given.rest()
    if len(metadata) > _MOST_METADATA:
        raise bad_request(
            "metadata", f"metadata has {len(metadata)} keys, and at most {_MOST_METADATA} are allowed"
        )
    for key, value in metadata.items():
        if len(key) > _LONGEST_KEY:
            raise bad_request("metadata", f"the key {key[:40]!r}... has more than {_LONGEST_KEY} characters")
        if not isinstance(value, str) or len(value) > _LONGEST_VALUE:
            where = f"metadata.{key}"
            raise bad_request(where, f"{where} is not a text of at most {_LONGEST_VALUE} characters")
    return metadata


def _take_fixed(fields: Fields) -> None:
    """Take fields for which this server has a single behaviour."""
    fields.ignored(
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "prompt_cache_options",
        "request_id",
    )
    fields.number("max_tool_calls", 1, whole=True)  # it counts calls of hosted tools only
    fields.only("truncation", ["disabled"], "an input that is too long is refused, never shortened")
    fields.only("service_tier", ["auto", "default"], "there is only one tier")
    fields.only("context_management", [[]], "an input that is too long is refused, never shortened")
    fields.only("stop", [[]], "stop sequences are not part of this endpoint; /v1/chat/completions has stop")
    fields.only("n", [1], "a response has one answer; /v1/chat/completions has n")
