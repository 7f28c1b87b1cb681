"""Detect the dialect of a server, from its list of models or by short test requests.

Why: most servers silently ignore an unknown field of a request, so an accepted request proves nothing.
What: `GET /models` names the model, if none was given, and often the program, in ``owned_by``. If the program is not
known, each dialect, richest first, requests a text that no model writes by itself. The answer shows whether the server
enforces the constraint.
Invariant: a detected dialect has enforced a constraint, or belongs to a program that is known to.
A refusal that does not name the constraint proves nothing either; then a request without one is made.
Cost: at most six requests of a few tokens, once per connection; none if `dialect` is given.
"""

from __future__ import annotations

import json
import secrets
from typing import Any

from structgen.constraints.choice import choice
from structgen.errors import RemoteError
from structgen.types import output_type

from .dialects import DIALECTS, Dialect, request_part
from .refusals import cause_of, wants_completion_tokens
from .transport import Deadline, Transport, error_in

__all__ = ["Server", "content_of", "first_choice", "list_models", "probe", "text_of"]

_PROGRAMS = {
    "vllm": "structured_outputs",
    "structgen": "structured_outputs",
    "sglang": "sglang",
    "llamacpp": "llama.cpp",
}
_MOST_MODELS = 8
"""Models that an error names."""
_REFUSED = frozenset({400, 404, 415, 422, 501})


class Server:
    """The list of models of a server."""

    def __init__(self, data: Any) -> None:
        listed = data.get("data") if isinstance(data, dict) else None
        self.models = [
            entry
            for entry in (listed if isinstance(listed, list) else [])
            if isinstance(entry, dict) and isinstance(entry.get("id"), str)
        ]

    def only_model(self, url: str) -> str:
        """Return the name of the only model. Raises `RemoteError` if there are several, or none is listed."""
        names = [str(model["id"]) for model in self.models]
        if len(names) == 1:
            return names[0]
        shown = ", ".join(names[:_MOST_MODELS]) + (", ..." if len(names) > _MOST_MODELS else "")
        raise RemoteError(
            f"the server has {len(names)} models" + (f": {shown}" if names else " in its list"),
            where=url,
            hint="Name one with model=."
            + (
                "" if names or "/v1" in url else " Most addresses end with /v1; this one does not contain it."
            ),
        )

    def dialect(self, model: str) -> Dialect | None:
        """Return the dialect of the server's program; None if the program is not known."""
        for entry in self.models:
            name = entry.get("owned_by")
            if entry["id"] == model and isinstance(name, str) and name.lower() in _PROGRAMS:
                return DIALECTS[_PROGRAMS[name.lower()]]
        return None


def list_models(transport: Transport, deadline: Deadline) -> Server:
    """Request the list of models; it is empty if the server has none."""
    try:
        return Server(transport.get("/models", deadline))
    except RemoteError as error:
        if error.status in (403, 404, 405, 501):
            return Server(None)
        raise


def probe(transport: Transport, model: str, deadline: Deadline) -> tuple[Dialect, str]:
    """Find the richest dialect that the server enforces.

    Returns:
        The dialect, and the name of the field that limits the length of an answer.

    Raises:
        RemoteError: The server refuses a request without any constraint, so nothing was learned about constraints.
    """
    server = _Probe(transport, model, deadline)
    for name in ("structured_outputs", "json_schema"):
        dialect = DIALECTS[name]
        wanted = f"ok-{secrets.token_hex(3)}"
        part = request_part(dialect, output_type(choice([wanted])))
        assert part is not None
        text = server.request(part.body)
        if text is not None and wanted == (_inside(text) if part.wrapped else text.strip()):
            return dialect, server.length_key
    any_object = DIALECTS["json_object"]
    assert any_object.json_only is not None
    text = server.request(any_object.json_only)
    # The answer may be cut off; but no model that should say hello starts with a brace by itself.
    found = any_object if text is not None and text.lstrip()[:1] == "{" else DIALECTS["none"]
    return found, server.length_key


def content_of(data: Any) -> tuple[str | None, str | None, Any]:
    """Return the text, the finish reason and the message of a response that is not streamed."""
    first = first_choice(data)
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(message, dict) or not isinstance(first, dict):
        if (error := error_in(data)) is not None:
            raise RemoteError(f"the server answers with an error: {error}")
        raise RemoteError(f"the server's answer contains no message: {json.dumps(data)[:120]}")
    finish = first.get("finish_reason")
    return text_of(message.get("content")), finish if isinstance(finish, str) else None, message


def first_choice(data: Any) -> Any:
    """Return the choice with index 0 of a response or of an event of a stream."""
    choices = data.get("choices") if isinstance(data, dict) else None
    listed = choices if isinstance(choices, list) else []
    return next((choice for choice in listed if isinstance(choice, dict) and not choice.get("index")), None)


def text_of(content: Any) -> str | None:
    """Return the text of a content, which is a text or a list of parts; None if it has no text.

    Parts of other types, such as reasoning, do not belong to the answer.
    """
    if not isinstance(content, list):
        return content if isinstance(content, str) else None
    texts = [
        part.get("text") if isinstance(part, dict) and part.get("type") in ("text", "output_text") else part
        for part in content
    ]
    found = [text for text in texts if isinstance(text, str)]
    return "".join(found) if found else None


class _Probe:
    """Makes short requests under a constraint, and one without if a refusal does not name its cause."""

    def __init__(self, transport: Transport, model: str, deadline: Deadline) -> None:
        self.transport, self.model, self.deadline = transport, model, deadline
        self.length_key = "max_tokens"
        self._answers_plain = False

    def request(self, part: dict[str, Any]) -> str | None:
        """Return the answer to a request with this constraint; None if the server refuses the constraint."""
        try:
            return self._answer(part)
        except RemoteError as error:
            if error.status not in _REFUSED:
                raise
            if cause_of(error) != "constraint" and not self._answers_plain:
                self._answer({})
                self._answers_plain = True
            return None

    def _answer(self, part: dict[str, Any]) -> str:
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": "Say hello. (Answer in JSON if you must.)"}],
            self.length_key: 40,
            **part,
        }
        try:
            return content_of(self.transport.post("/chat/completions", body, self.deadline))[0] or ""
        except RemoteError as error:
            if self.length_key == "max_tokens" and wants_completion_tokens(error):
                self.length_key = "max_completion_tokens"
                return self._answer(part)
            raise


def _inside(text: str) -> object:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return data.get("value") if isinstance(data, dict) else None
