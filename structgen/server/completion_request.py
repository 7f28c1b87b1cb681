"""Read a request into one record: the fields of OpenAI's API, vLLM's and our own.

    OpenAI    messages or prompt, response_format, tools, tool_choice, n, stop, seed, temperature, ...
    vLLM      structured_outputs (and the older guided_*), top_k, min_p
    our own   structgen: a ready-made grammar, plans and orders of calls by temporal logic, samplers

Invariant: an unsupported field is refused by its name. A request has at most one constraint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from structgen.errors import with_kind
from structgen.generation.options import SamplingOptions
from structgen.serving.requests import Kind
from structgen.tools.partial_turn import PartialTurn

from .errors import bad_request
from .fields import Fields
from .messages import read_messages
from .reasoning import ChatTemplate, ReasoningFormat, read_reasoning, read_variables
from .sampler_fields import RequestedSampler, read_sampler
from .sampling_fields import changed_distribution, read_logprobs, read_options
from .settings import ServerSettings
from .tool_fields import RequestedTools, read_requested_tools, read_tool_format

__all__ = [
    "CompletionRequest",
    "ConstraintSpec",
    "Endpoint",
    "check_combinations",
    "read_closed",
    "read_constraint",
    "read_request",
]

TextEndpoint = Literal["chat", "completion"]
Endpoint = Literal[TextEndpoint, "response"]
_PROMPTS: dict[Endpoint, str] = {"chat": "messages", "completion": "prompt", "response": "input"}
_MOST_STOPS = 16
_LONGEST_STOP = 1_000
_LENGTHS: dict[TextEndpoint, tuple[str, ...]] = {
    "chat": ("max_tokens", "max_completion_tokens"),
    "completion": ("max_tokens",),
}
_LIKELY = "tokens are sampled from the model's distribution"


@dataclass(frozen=True)
class ConstraintSpec:
    """A constraint as a request describes it."""

    kind: Kind | Literal["text"]
    spec: Any
    param: str
    """The field that it came from, for errors."""
    closed: bool = False
    """For a schema: objects that declare their keys have no others."""

    def as_answer(self) -> dict[str, Any]:
        """Return the spec as one of kind ``answer``."""
        return {"kind": self.kind, "spec": self.spec, **({"closed": True} if self.closed else {})}


@dataclass(frozen=True)
class CompletionRequest:
    """One request."""

    endpoint: Endpoint
    model: str
    prompt: Any
    """Messages; or, of a completion, a text or token ids."""
    options: SamplingOptions
    n: int = 1
    stops: tuple[str, ...] = ()
    spec: ConstraintSpec | None = None
    tools: RequestedTools | None = None
    sampler: RequestedSampler | None = None
    stream: bool = False
    include_usage: bool = False
    logprobs: bool = False
    details: bool = False
    """Whether the answer has a field `structgen` with details that only this server reports."""
    variables: dict[str, Any] = field(default_factory=dict)
    """The variables of the chat template."""
    reasoning: ReasoningFormat | None = None
    """How reasoning is written before the answer; None without reasoning."""
    top_logprobs: int = 0
    """Number of most probable tokens to show for each position."""
    echoed: dict[str, Any] = field(default_factory=dict)
    """The fields of the request that a response object repeats."""

    @property
    def has_messages(self) -> bool:
        """Return whether the prompt is a list of messages."""
        return self.endpoint != "completion"

    @property
    def prompt_param(self) -> str:
        """Return the name of the field that holds the prompt, for errors."""
        return _PROMPTS[self.endpoint]

    def reader(self) -> PartialTurn | None:
        """Return a reader of one answer, whole or while it is written; None if its text is the answer."""
        if self.tools is not None:
            return self.tools.reader(self.reasoning)
        return None if self.reasoning is None else self.reasoning.reader()

    def compiler_spec(self) -> tuple[Kind, Any] | None:
        """Kind and spec of the constraint, with the reasoning before it; None without a constraint."""
        spec, reasoning = self.spec, self.reasoning
        if spec is None:
            return None
        is_plain = spec.kind == "tools" or (reasoning is None and not spec.closed)
        if is_plain and spec.kind != "text":
            return spec.kind, spec.spec
        options: dict[str, Any] = {} if reasoning is None else {"reasoning": reasoning.options()}
        if reasoning is not None and (turn := reasoning.turn_options()) is not None:
            options = {"turn": turn}
        return "answer", {**spec.as_answer(), **options}


def read_request(
    body: Mapping[str, Any], endpoint: TextEndpoint, settings: ServerSettings, template: ChatTemplate
) -> CompletionRequest:
    """Read the JSON object of a request.

    Args:
        body: The object.
        endpoint: The endpoint that received it.
        settings: Defaults and upper bounds.
        template: The model's chat template.

    Raises:
        ApiError: A field is unknown, unsupported or invalid.
    """
    fields = Fields(body)
    model = fields.text("model")
    if model is None:
        raise bad_request("model", "model is missing")
    stream, include_usage = _streaming(fields)
    n = fields.number("n", 1, settings.max_choices, whole=True, default=1)
    stops = _stops(fields)
    own = fields.object("structgen")
    details = own is not None
    logprobs, top_logprobs = read_logprobs(fields, endpoint)
    tools, reasoning, variables = None, None, {}
    if endpoint == "chat":
        variables = read_variables(fields, template)
        reasoning = read_reasoning(own, template, variables, is_on=settings.reasoning == "auto")
        format = read_tool_format(own, settings, template)
        tools = read_requested_tools(fields, own, format)
        prompt = read_messages(fields, tools, format)
    else:
        prompt = _prompt(fields)
        fields.only("echo", [False], "the prompt is not part of an answer")
        fields.only("best_of", [1], "use n, or a sampler (structgen.sampler)")
        fields.only("suffix", [""], "completions continue a prompt")
    closes = read_closed(own)
    formats = _response_format(fields, settings.closed_objects if closes is None else closes)
    spec = read_constraint(formats, fields, own, tools, reasoning, closes=closes)
    sampler = None if own is None else read_sampler(own, settings)
    options = read_options(
        fields,
        own,
        settings,
        _LENGTHS[endpoint],
        wants_scores=logprobs or details,
        is_constrained=spec is not None,
    )
    _take_fixed(fields)
    if own is not None:
        own.end()
    fields.end()
    request = CompletionRequest(
        endpoint,
        model,
        prompt,
        options,
        n=n,
        stops=stops,
        spec=spec,
        tools=tools,
        sampler=sampler,
        stream=stream,
        include_usage=include_usage,
        logprobs=logprobs,
        details=details,
        variables=variables,
        reasoning=reasoning,
        top_logprobs=top_logprobs,
    )
    check_combinations(request)
    return request


def check_combinations(request: CompletionRequest) -> None:
    """Raise `ApiError` if two fields cannot be combined."""
    if request.stops and request.spec is not None and request.spec.kind != "text":
        raise bad_request(
            "stop",
            "stop cannot be combined with structured outputs or tools: an answer that is cut off would violate its "
            "constraint. Let the constraint say where the answer ends.",
        )
    if request.sampler is not None:
        given = (("stream", request.stream), ("stop", request.stops), ("logprobs", request.logprobs))
        for name, is_given in given:
            if is_given:
                raise bad_request(name, f"{name} cannot be combined with structgen.sampler")
        for name in changed_distribution(request.options):
            raise bad_request(
                name,
                f"{name} cannot be combined with structgen.sampler, which draws from the model's own distribution",
            )
        if not request.options.effective_temperature:
            raise bad_request("temperature", "structgen.sampler needs a temperature above 0")


# -- parts


def _streaming(fields: Fields) -> tuple[bool, bool]:
    """Return whether the answer is streamed, and whether the stream ends with token counts."""
    stream = fields.flag("stream")
    options = fields.object("stream_options")
    if options is None:
        return stream, False
    if not stream:
        raise bad_request("stream_options", "stream_options are for requests with stream=true")
    include_usage = options.flag("include_usage")
    options.only("include_obfuscation", [False], "nothing is padded")
    options.end()
    return stream, include_usage


def _prompt(fields: Fields) -> Any:
    prompt = fields.take("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str) and prompt:
        return prompt
    if isinstance(prompt, list) and prompt and all(type(token) is int and token >= 0 for token in prompt):
        return prompt
    raise bad_request("prompt", "prompt must be one non-empty text, or one list of token ids")


def _stops(fields: Fields) -> tuple[str, ...]:
    given = fields.take("stop")
    stops = [given] if isinstance(given, str) else [] if given is None else given
    if not isinstance(stops, list) or not all(isinstance(stop, str) and stop for stop in stops):
        raise bad_request("stop", "stop must be a non-empty text or a list of them")
    if len(stops) > _MOST_STOPS or any(len(stop) > _LONGEST_STOP for stop in stops):
        raise bad_request("stop", f"stop has at most {_MOST_STOPS} texts of {_LONGEST_STOP} characters")
    return tuple(stops)


_STRUCTURED: dict[str, Kind] = {
    "json": "json",
    "regex": "regex",
    "choice": "choice",
    "grammar": "grammar",
    "json_object": "json_object",
    "structural_tag": "structural_tag",
}


_ANSWERS = ("json", "json_object", "regex", "choice", "grammar", "shelf")
"""Kinds of constraints that the answer of a turn with tools may have."""


def read_closed(own: Fields | None) -> bool | None:
    """Return the field ``structgen.closed``; None if the request does not say. Raises `ApiError`."""
    closes = None if own is None else own.take("closed")
    if not isinstance(closes, bool | None):
        raise bad_request("structgen.closed", f"structgen.closed is {closes!r:.60}; it is true or false")
    return closes


def read_constraint(
    formats: Sequence[ConstraintSpec],
    fields: Fields,
    own: Fields | None,
    tools: RequestedTools | None,
    reasoning: ReasoningFormat | None,
    *,
    closes: bool | None,
) -> ConstraintSpec | None:
    """Return the only constraint of a request.

    Args:
        formats: The constraint that the endpoint's own field describes, if there is one.
        fields: The fields of the request.
        own: Those of its field `structgen`.
        tools: The tools that the answer may call.
        reasoning: How the answer reasons.
        closes: Whether the request closes objects; None if it does not say.

    Raises:
        ApiError: A constraint is malformed, or there are several.
    """
    # Objects in vLLM's fields stay open, as in vLLM, unless the request closes them.
    specs = [
        *formats,
        *_structured_outputs(fields, closed=closes is True),
        *_guided(fields, closed=closes is True),
        *([] if own is None else _own(own, tools)),
    ]
    if len(specs) > 1:
        params = " and ".join(spec.param for spec in specs)
        raise bad_request(specs[1].param, f"{params} are given; a request has at most one constraint")
    spec = specs[0] if specs else None
    if tools is not None:
        return _turn(tools, spec, reasoning)
    if spec is None and reasoning is not None:
        if reasoning.most is not None or reasoning.most_tokens is not None:
            name = "max_reasoning" if reasoning.most is not None else "max_reasoning_tokens"
            return ConstraintSpec("text", None, f"structgen.{name}")
        if reasoning.frame is not None or (not reasoning.optional and reasoning.open):
            return ConstraintSpec("text", None, "structgen.reasoning")
    return spec


def _turn(
    tools: RequestedTools, answer: ConstraintSpec | None, reasoning: ReasoningFormat | None
) -> ConstraintSpec:
    """Return the spec of a turn: calls, or an answer with its own constraint."""
    if answer is not None:
        if answer.kind not in _ANSWERS:
            raise bad_request(answer.param, f"{answer.param} cannot be combined with tools")
        tools.spec["answer"] = answer.as_answer()
    if reasoning is not None:
        choice = reasoning.choice
        # The operator may have set a format other than that of the chat template.
        is_other = choice == "skipped" and tools.format != reasoning.frame
        tools.spec["reasoning"] = False if is_other else choice
        if reasoning.most is not None:
            tools.spec["max_reasoning"] = reasoning.most
        if reasoning.most_tokens is not None:
            tools.spec["max_reasoning_tokens"] = reasoning.most_tokens
    return ConstraintSpec("tools", tools.spec, "tools" if answer is None else f"tools and {answer.param}")


def _response_format(fields: Fields, closed: bool) -> list[ConstraintSpec]:
    given = fields.object("response_format")
    if given is None:
        return []
    kind = given.take("type")
    specs: list[ConstraintSpec] = []
    if kind == "json_object":
        specs = [ConstraintSpec("json_object", None, "response_format")]
    elif kind == "json_schema":
        inner = given.object("json_schema")
        schema = None if inner is None else inner.take("schema")
        if inner is None or not isinstance(schema, dict | bool):
            what = "json_schema has no schema" if schema is None else f"the schema is {schema!r:.60}"
            raise bad_request(
                "response_format.json_schema.schema", f"{what}; it is a JSON Schema: an object, true or false"
            )
        inner.ignored("name", "description")
        inner.flag("strict")  # every schema is followed strictly
        inner.end()
        specs = [ConstraintSpec("json", schema, "response_format", closed)]
    elif kind == "structural_tag":
        return [ConstraintSpec("structural_tag", {"type": kind, **given.rest()}, "response_format")]
    elif kind != "text":
        raise bad_request(
            "response_format.type",
            f"response_format.type is {kind!r:.60}; it is text, json_object, json_schema or structural_tag",
        )
    given.end()
    return specs


def _structured_outputs(fields: Fields, *, closed: bool) -> list[ConstraintSpec]:
    given = fields.object("structured_outputs")
    if given is None:
        return []
    specs = []
    for key, kind in _STRUCTURED.items():
        value = given.take(key)
        if value is not None and not (key == "json_object" and value is False):
            specs.append(ConstraintSpec(kind, value, given.name(key), closed and kind == "json"))
    given.only("disable_any_whitespace", [False], "white space is bounded, not forbidden")
    given.only("disable_fallback", [True, False], "")
    given.end()
    if len(specs) != 1:
        raise bad_request("structured_outputs", f"structured_outputs has one of {', '.join(_STRUCTURED)}")
    return specs


def _guided(fields: Fields, *, closed: bool) -> list[ConstraintSpec]:
    specs = []
    for key in ("json", "regex", "choice", "grammar"):
        value = fields.take(f"guided_{key}")
        if value is not None:
            specs.append(ConstraintSpec(_STRUCTURED[key], value, f"guided_{key}", closed and key == "json"))
    return specs


def _own(own: Fields, tools: RequestedTools | None) -> list[ConstraintSpec]:
    """Return our own constraints: ``grammar`` (a text, or {"name": ...} of a ready-made one) and ``plan``."""
    specs = []
    grammar = own.take("grammar")
    if isinstance(grammar, str):
        specs.append(ConstraintSpec("grammar", grammar, "structgen.grammar"))
    elif isinstance(grammar, dict):
        specs.append(ConstraintSpec("shelf", grammar, "structgen.grammar"))
    elif grammar is not None:
        raise bad_request(
            "structgen.grammar", f"structgen.grammar is {with_kind(grammar)}, not a text or an object"
        )
    formulas, plan = own.take("ltl"), own.take("plan")
    if plan is not None:
        if not isinstance(plan, dict):
            raise bad_request("structgen.plan", f"structgen.plan is {with_kind(plan)}, not an object")
        specs.append(
            ConstraintSpec(
                "plan", plan if formulas is None else {**plan, "formulas": formulas}, "structgen.plan"
            )
        )
    elif formulas is not None:
        if tools is None:
            raise bad_request(
                "structgen.ltl",
                "structgen.ltl needs tools, whose calls it orders, or structgen.plan with actions",
            )
        tools.spec["order"] = formulas
    return specs


def _take_fixed(fields: Fields) -> None:
    """Take fields of other servers for which this one has a single behaviour."""
    fields.ignored(
        "user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "request_id"
    )
    fields.only("store", [False], "nothing is stored")
    fields.only("service_tier", ["auto", "default"], "there is only one tier")
    fields.only("modalities", [["text"]], "answers are text")
    fields.only("min_tokens", [0], "a constraint can require longer texts")
    fields.only("ignore_eos", [False], "texts end where the model ends them")
    fields.only("skip_special_tokens", [True], "special tokens are not text")
    fields.only("spaces_between_special_tokens", [True, False], "")  # no effect without special tokens
    fields.only("include_stop_str_in_output", [False], "a text ends before its stop string")
    fields.only("stop_token_ids", [[]], "texts end where the model ends them, or at a text of stop")
    fields.only("use_beam_search", [False], f"{_LIKELY}; structgen.sampler offers other methods")
    fields.only("length_penalty", [1], f"{_LIKELY}, of any length")
    fields.only("add_generation_prompt", [True], "the answer is a message of its own")
    fields.only("continue_final_message", [False], "the answer is a message of its own")
    fields.only("functions", [[]], "use tools, which replace functions")
    fields.only("function_call", ["none"], "use tool_choice, which replaces function_call")
