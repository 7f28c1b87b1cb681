"""Random requests of every type that `structgen serve` answers, for comparisons of two servers.

What: chats, completions and requests to the Responses API. Their constraints are JSON Schemas, patterns, grammars,
choices, tools, custom tools and structural tags; a part has none. They are greedy or sampled, with truncation,
penalties, bias, log probabilities, several choices or a complete answer within its tokens. Most begin with one of a few
long system prompts.
Invariant: the same seed makes the same requests, and each request has a seed of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .server_drafts import extraction_request
from .vllm_serving.cases import draw_case

__all__ = ["ServedRequest", "draw_requests"]

_MOST_TOKENS = 64
_LONG_TOKENS = 120
_SYSTEMS = (
    "You work for a shop that sells bolts, nuts and washers. Answer in short plain sentences. Give prices in euros, "
    "with two digits after the point. Never invent an article that is not in the list. The list has the bolt for 1.20, "
    "the nut for 0.35, the washer for 0.10, the screw for 0.80 and the hook for 2.40. Orders below ten euros are not "
    "sent. Orders arrive within three days, or five if they go to an island.",
    "You read reports of machines in a factory and write down what they say. The machines are the press, the lathe, "
    "the drill, the furnace and the two cranes. A report has a date, the name of a machine and what was found. Write "
    "the facts and nothing else. If a fact is missing, say that it is missing. Do not guess a date. Use metres, "
    "kilograms and degrees Celsius.",
    "You help people who learn a language. Use easy words and short sentences. Correct one mistake at a time. When "
    "someone needs a word, give the word, one sentence that uses it, and a word that means the opposite, if there "
    "is one. Do not use more than sixty words. Be friendly, and never laugh at a mistake.",
)
_QUESTIONS = (
    "What does a washer cost?",
    "List two articles and their prices.",
    "The lathe was hot at noon on the second of May. What was found?",
    "Which word means the opposite of early? Which word means the opposite of loud?",
    "Write the sentence 'The press is clean, the drill is clean' twice.",
)
_PATTERNS = (
    "([a-f]{3} ){4,9}",
    "(red|green|blue)(, (red|green|blue)){2,6}",
    "[A-Z][a-z]+( [a-z]+){3,12}[.]",
    '"(item-[0-9]{2}; ){3,5}end"',
)
_CHAT, _COMPLETION, _RESPONSE = "/chat/completions", "/completions", "/responses"


@dataclass(frozen=True)
class ServedRequest:
    """One request."""

    kind: str
    path: str
    """Its path after the base URL."""
    body: dict[str, Any]
    """Its fields, without the model."""

    @property
    def streams(self) -> bool:
        """Return whether the answer is streamed."""
        return self.body.get("stream", False) is True


def draw_requests(count: int, seed: int) -> list[ServedRequest]:
    """Return so many random requests."""
    draw = random.Random(seed)
    return [_varied(draw.choice(_KINDS)(draw), draw) for _ in range(count)]


def _messages(draw: random.Random, question: str | None = None) -> list[dict[str, str]]:
    message = {"role": "user", "content": question or draw.choice(_QUESTIONS)}
    return (
        [message] if draw.random() < 0.3 else [{"role": "system", "content": draw.choice(_SYSTEMS)}, message]
    )


def _extraction(draw: random.Random) -> ServedRequest:
    body = {**extraction_request(draw, 0.0), "max_tokens": _LONG_TOKENS}
    return ServedRequest("extraction", _CHAT, body)


def _case(draw: random.Random) -> ServedRequest:
    case = draw_case(draw)
    options = {name: value for name, value in case.options.items() if name != "extra_body"}
    body = {"messages": _messages(draw), **options, **case.options.get("extra_body", {})}
    return ServedRequest(case.kind, _CHAT, body)


def _pattern(draw: random.Random) -> ServedRequest:
    return ServedRequest(
        "pattern", _CHAT, {"messages": _messages(draw), "guided_regex": draw.choice(_PATTERNS)}
    )


def _free(draw: random.Random) -> ServedRequest:
    body: dict[str, Any] = {"messages": _messages(draw)}
    if draw.random() < 0.3:
        body["stop"] = ["\n", "."]
    return ServedRequest("free text", _CHAT, body)


def _custom_tool(draw: random.Random) -> ServedRequest:
    definition = draw.choice(("SELECT [a-z]+(, [a-z]+){0,3} FROM (users|orders)", "[a-z]{2,9}[.](png|jpg)"))
    grammar = {"syntax": "regex", "definition": definition}
    custom = {"name": "query", "format": {"type": "grammar", "grammar": grammar}}
    body = {
        "messages": _messages(draw),
        "tools": [{"type": "custom", "custom": custom}],
        "tool_choice": draw.choice(("required", "auto")),
    }
    return ServedRequest("custom tool", _CHAT, body)


def _completion(draw: random.Random) -> ServedRequest:
    body: dict[str, Any] = {"prompt": f"{draw.choice(_SYSTEMS)}\n\n{draw.choice(_QUESTIONS)}\n"}
    if draw.random() < 0.5:
        body["guided_regex"] = draw.choice(_PATTERNS)
    return ServedRequest("completion", _COMPLETION, body)


def _response(draw: random.Random) -> ServedRequest:
    body: dict[str, Any] = {"input": draw.choice(_QUESTIONS), "instructions": draw.choice(_SYSTEMS)}
    if draw.random() < 0.6:
        schema = {
            "type": "object",
            "properties": {
                "article": {"enum": ["bolt", "nut", "washer"]},
                "price": {"type": "number", "minimum": 0, "maximum": 9},
                "comment": {"type": "string", "maxLength": 40},
            },
            "required": ["article", "price", "comment"],
        }
        body["text"] = {"format": {"type": "json_schema", "name": "article", "schema": schema}}
    return ServedRequest("response", _RESPONSE, body)


_KINDS: tuple[Callable[[random.Random], ServedRequest], ...] = (
    _extraction,
    _extraction,
    _case,
    _case,
    _case,
    _case,
    _pattern,
    _free,
    _custom_tool,
    _completion,
    _response,
)


def _varied(request: ServedRequest, draw: random.Random) -> ServedRequest:
    """Return a request with random options of the draws."""
    body = dict(request.body)
    body["seed"] = draw.randrange(1 << 30)
    body["temperature"] = draw.choice((0.0, 0.0, 0.7, 1.0, 1.0))
    length = "max_output_tokens" if request.path == _RESPONSE else "max_tokens"
    body[length] = body.pop("max_tokens", _MOST_TOKENS)
    if body["temperature"] and draw.random() < 0.3:
        body["top_p"] = 0.9
    if draw.random() < 0.2:
        body["frequency_penalty"] = draw.choice((-0.5, 0.5, 1.5))
    if draw.random() < 0.1:
        body["presence_penalty"] = 1.0
    if draw.random() < 0.1:
        body["repetition_penalty"] = 1.2
    if draw.random() < 0.1:
        body["logit_bias"] = {str(draw.randrange(40_000)): draw.choice((-100, -5, 5)) for _ in range(3)}
    if request.path == _RESPONSE:
        if draw.random() < 0.3:
            body |= {"include": ["message.output_text.logprobs"], "top_logprobs": 3}
    else:
        if draw.random() < 0.25:
            body |= {"logprobs": 3} if request.path == _COMPLETION else {"logprobs": True, "top_logprobs": 3}
        if draw.random() < 0.2:
            body["n"] = draw.choice((2, 3))
        if draw.random() < 0.15:
            body["structgen"] = {"close_within_budget": True}
    if draw.random() < 0.4:
        body["stream"] = True
    return ServedRequest(request.kind, request.path, body)
