"""Which dialect a server speaks: what its list of models says, then a question whose answer shows it.

Why: a server that does not know a field of a request mostly ignores it in silence, so being accepted proves nothing.
What: `GET /models` names the model, if none was given, and in ``owned_by`` often the program. Where that is not known,
each dialect is asked, from the richest on, for a text that no model writes by itself; what comes back shows whether the
server keeps the model to it.
Invariant: a dialect that was found has kept a model to a constraint, or is of a program that is known to.
A refusal that does not name the constraint proves nothing either: a request without one shows what it is about.
Cost: at most six requests of a few tokens, once for each connection; none where `dialect` is given.
"""

from __future__ import annotations

import json
import secrets
from typing import Any

from structgen.constraints.choice import choice
from structgen.errors import RemoteError
from structgen.types import output_type

from .dialects import DIALECTS, Dialect, carried
from .refusals import cause_of, wants_completion_tokens
from .transport import Deadline, Transport, error_in

__all__ = ["Server", "ask_models", "content_of", "first_choice", "probe", "text_of"]

_PROGRAMS = {
    "vllm": "structured_outputs",
    "structgen": "structured_outputs",
    "sglang": "sglang",
    "llamacpp": "llama.cpp",
}
_MOST_MODELS = 8
"""Named in an error."""
_REFUSED = frozenset({400, 404, 415, 422, 501})


class Server:
    """What `GET /models` tells."""

    def __init__(self, data: Any) -> None:
        listed = data.get("data") if isinstance(data, dict) else None
        self.models = [
            one
            for one in (listed if isinstance(listed, list) else [])
            if isinstance(one, dict) and isinstance(one.get("id"), str)
        ]

    def only_model(self, url: str) -> str:
        """The model's name where there is one to take."""
        names = [str(one["id"]) for one in self.models]
        if len(names) == 1:
            return names[0]
        shown = ", ".join(names[:_MOST_MODELS]) + (", ..." if len(names) > _MOST_MODELS else "")
        raise RemoteError(
            f"the server has {len(names)} models" + (f": {shown}" if names else " that it tells of"),
            where=url,
            hint="Name one with model=."
            + (
                ""
                if names or "/v1" in url
                else " Most addresses end with /v1, and this one has no such part."
            ),
        )

    def dialect(self, model: str) -> Dialect | None:
        """That of the program, if it is a known one."""
        for one in self.models:
            name = one.get("owned_by")
            if one["id"] == model and isinstance(name, str) and name.lower() in _PROGRAMS:
                return DIALECTS[_PROGRAMS[name.lower()]]
        return None


def ask_models(transport: Transport, deadline: Deadline) -> Server:
    """What the server tells of its models; nothing where it has no such list."""
    try:
        return Server(transport.get("/models", deadline))
    except RemoteError as error:
        if error.status in (403, 404, 405, 501):
            return Server(None)
        raise


def probe(transport: Transport, model: str, deadline: Deadline) -> tuple[Dialect, str]:
    """Find the richest dialect in which the server keeps a model to what it is asked for.

    Returns:
        The dialect, and the name of the field that limits the length of an answer.

    Raises:
        RemoteError: The server refuses a request without any constraint, so nothing was learned about constraints.
    """
    server = _Probe(transport, model, deadline)
    for name in ("structured_outputs", "json_schema"):
        dialect = DIALECTS[name]
        wanted = f"ok-{secrets.token_hex(3)}"
        part = carried(dialect, output_type(choice([wanted])))
        assert part is not None
        text = server.ask(part.body)
        if text is not None and wanted == (_inside(text) if part.wrapped else text.strip()):
            return dialect, server.length_key
    any_object = DIALECTS["json_object"]
    assert any_object.json_only is not None
    text = server.ask(any_object.json_only)
    # It may run to the end of its few tokens; no model that is asked to say hello begins so by itself.
    found = any_object if text is not None and text.lstrip()[:1] == "{" else DIALECTS["none"]
    return found, server.length_key


def content_of(data: Any) -> tuple[str | None, str | None, Any]:
    """Text, why it ended, and the message, of an answer that is not streamed; no text: None."""
    first = first_choice(data)
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(message, dict) or not isinstance(first, dict):
        if (error := error_in(data)) is not None:
            raise RemoteError(f"the server answers with an error: {error}")
        raise RemoteError(f"the server's answer holds no message: {json.dumps(data)[:120]}")
    finish = first.get("finish_reason")
    return text_of(message.get("content")), finish if isinstance(finish, str) else None, message


def first_choice(data: Any) -> Any:
    """The choice with the index 0, of an answer or of an event of a stream."""
    choices = data.get("choices") if isinstance(data, dict) else None
    listed = choices if isinstance(choices, list) else []
    return next((one for one in listed if isinstance(one, dict) and not one.get("index")), None)


def text_of(content: Any) -> str | None:
    """The text of a content, which is a text or a list of parts; None if it has no text.

    Parts of other types, such as the reasoning of a model, are no part of the answer.
    """
    if not isinstance(content, list):
        return content if isinstance(content, str) else None
    texts = [
        one.get("text") if isinstance(one, dict) and one.get("type") in ("text", "output_text") else one
        for one in content
    ]
    found = [one for one in texts if isinstance(one, str)]
    return "".join(found) if found else None


class _Probe:
    """Short requests under a constraint, and one without where a refusal does not say what it is about."""

    def __init__(self, transport: Transport, model: str, deadline: Deadline) -> None:
        self.transport, self.model, self.deadline = transport, model, deadline
        self.length_key = "max_tokens"
        self._answers_plain = False

    def ask(self, part: dict[str, Any]) -> str | None:
        """What the server answers under a constraint; None where it refuses the constraint."""
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
