"""Errors in the form of OpenAI's API: a status, and a body that names the parameter."""

from __future__ import annotations

import copy
import re
from typing import Any

from structgen.errors import GenerationError, LimitExceeded, ModelError, PromptError, StructgenError
from structgen.serving.temporary_errors import WorkerUnavailable, temporary_status

from .request_ids import report_failure, request_id

__all__ = ["ApiError", "ShuttingDown", "as_text", "bad_request", "failed", "message_of", "of_error"]

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    422: "generation_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "unavailable_error",
    504: "timeout_error",
}


_LIBRARY_OPTION = re.compile(r"^Raise it|limits\(|limits=|^Allow the calls more time")
"""Matches hints about options of Python calls, which a client of the server cannot set."""
_LIBRARY_CLAUSE = re.compile(r", or raise the limit:? (with )?limits=\w+\([^)]*\)")

_LIBRARY_CALLS = {
    "Pass it in registry=; documents are never fetched.": "Put it into $defs; documents are never fetched.",
    " For your own, use sg.lark(), sg.gbnf() or sg.ebnf().": " For your own, send its text.",
    "; structgen.inference.SMC(32) and the like have options": "",
    "Pass the name of a rule: start=...": "Call the first rule start (Lark) or root (GBNF, EBNF).",
}
"""Replaces hints about Python calls by what a request writes instead."""


class ShuttingDown(GenerationError):
    """The server is shutting down. The request is not at fault, and may be sent to another server."""


class ApiError(Exception):
    """An error response."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        log_message: str | None = None,
    ) -> None:
        """Make an error.

        Args:
            status: The status of the response.
            message: What the client reads.
            param: The field at fault.
            code: A name for programs.
            log_message: What the log says instead of `message`, if that quotes a prompt or an answer.
        """
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.log_message = message if log_message is None else log_message

    @property
    def body(self) -> dict[str, Any]:
        """Return the JSON body of the response, in OpenAI's format, with the id of the current request."""
        kind = _TYPES.get(self.status, "invalid_request_error")
        fields = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        if (identity := request_id()) is not None:
            fields["request_id"] = identity
        return {"error": {name: None if value is None else as_text(value) for name, value in fields.items()}}

    def report(self) -> None:
        """Write the cause to the log, if the status is 500 or more."""
        if self.status >= 500:
            report_failure(self.status, as_text(self.log_message), code=self.code)

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers that the status requires."""
        if self.status in (429, 503):
            return {"Retry-After": "1"}
        return {"WWW-Authenticate": "Bearer"} if self.status == 401 else {}


def as_text(value: str) -> str:
    """Return a text with lone surrogates escaped, which UTF-8 cannot encode."""
    return value.encode("utf-8", "backslashreplace").decode()


def message_of(error: StructgenError) -> str:
    """Return an error's text with a hint that a client can follow."""
    if not error.hint:
        return str(error)
    shown = copy.copy(error)
    shown.hint = _LIBRARY_CLAUSE.sub("", error.hint)
    for of_python, of_requests in _LIBRARY_CALLS.items():
        shown.hint = shown.hint.replace(of_python, of_requests)
    if _LIBRARY_OPTION.search(shown.hint):
        shown.hint = "Send a smaller or simpler one."
    return str(shown)


def bad_request(param: str | None, message: str, code: str | None = None) -> ApiError:
    """Return the error for an invalid request.

    Args:
        param: The field at fault.
        message: What is wrong with it.
        code: A name for programs.
    """
    return ApiError(400, message, param=param, code=code)


def _is_end(error: StructgenError) -> bool:
    """Return whether a request was dropped because the server ends, or because its client has disconnected."""
    return isinstance(error, ShuttingDown) or (
        isinstance(error, LimitExceeded) and error.limit == "disconnected"
    )


def _cause_of(error: StructgenError) -> str | None:
    """Return what the log says of a temporary error, if that is more than its message."""
    return error.cause if isinstance(error, WorkerUnavailable) else None


def of_error(error: StructgenError, param: str | None, prompt: str = "messages") -> ApiError:
    """Return the response for an error of the library before generation starts.

    Args:
        error: The error.
        param: The field at fault.
        prompt: The field that holds the prompt.
    """
    if _is_end(error):
        return ApiError(503, "the server is shutting down", code="draining")
    if (status := temporary_status(error)) is not None:
        code = getattr(error, "limit", None)
        return ApiError(status, message_of(error), param=param, code=code, log_message=_cause_of(error))
    if isinstance(error, PromptError):
        param = prompt
    if isinstance(error, LimitExceeded) and error.limit == "context_length":
        return bad_request(prompt, message_of(error), "context_length_exceeded")
    code = "limit_exceeded" if isinstance(error, LimitExceeded) else "invalid_constraint" if param else None
    return bad_request(param, message_of(error), code)


def failed(error: StructgenError) -> ApiError:
    """Return the response for an error during generation."""
    if _is_end(error):
        return ApiError(503, "the server is shutting down", code="draining")
    if isinstance(error, LimitExceeded):
        return ApiError(
            temporary_status(error) or 422,
            message_of(error),
            code=error.limit or "limit_exceeded",
            log_message=_cause_of(error),
        )
    # Messages of other types quote the answer or the constraint.
    is_plain = type(error) in (GenerationError, ModelError)
    log_message = None if is_plain else f"{type(error).__name__} during generation"
    return ApiError(500, message_of(error), code="internal_error", log_message=log_message)
