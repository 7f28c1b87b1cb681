"""Measure a server that speaks the OpenAI protocol: request texts under schemas.

Why: what people serve with is a whole: engine, model and server together.
What: schemas go into ``response_format``, as ``json_schema``. Answers are streamed, which shows the time of the first
token. A schema counts as declared if the server begins to answer a request with it; the request is then cancelled. A
server cannot read instances, so true coverage is not measured.
Invariant: a request is repeated only if the server is busy (429). The key is read from the environment, by the name
that was given, and is in no record. Refused is 400, 404, 413, 415, 422 and 501; other failures are errors and
time-outs. A lost connection is a crash of the server; if the next one fails too, or the key is rejected, the run stops.
Cost: for coverage, one request up to its first chunk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urldefrag

from structgen.errors import OptionError, RemoteError
from structgen.extras import needed

from .decoding import Beat, Message, Written, prompt_for
from .engines.registry import ENDPOINT
from .items import Item
from .measuring import error_text, failed
from .records import CoverageRecord

__all__ = ["Endpoint"]

_REFUSED = frozenset({400, 404, 413, 415, 422, 501})
_NO_ENTRY = frozenset({401, 403})
_BUSY = 429
_PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)
_MOST_CHARACTERS = 1 << 20
"""Of one text."""


class Endpoint:
    """One server and one of its models."""

    def __init__(
        self,
        name: str,
        *,
        key_variable: str | None = None,
        seconds: float,
        max_tokens: int,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> None:
        """`name`: ``openai:URL`` or ``openai:URL#MODEL``; without a model, the only one that the server has.

        `seconds`: to wait for any part of an answer. Raises `OptionError`, and `RemoteError` where there is no server.
        """
        with needed("an endpoint of the evaluation", extra="eval"):
            import openai

        self._url, model = urldefrag(name.removeprefix(ENDPOINT))
        key = "none" if key_variable is None else os.environ.get(key_variable)
        if key is None:
            raise OptionError(f"the variable {key_variable} with the API key is not set")
        self._library = openai
        self._client = openai.OpenAI(base_url=self._url, api_key=key, timeout=seconds, max_retries=0)
        self._name = name
        self._options = {"temperature": temperature, "seed": seed}
        self._max_tokens = max_tokens
        self._is_lost = False
        self.model = model or self._only_model()

    def _only_model(self) -> str:
        try:
            names = [model.id for model in self._client.models.list()]
        except self._library.OpenAIError as error:
            raise self._unusable(error) from None
        if len(names) != 1:
            raise OptionError(
                f"the server at {self._url} has {len(names)} models",
                hint=f"Write {ENDPOINT}{self._url}#MODEL. They are: {', '.join(names[:8])}.",
            )
        return str(names[0])

    def cover(self, item: Item, dataset: str, beat: Beat) -> CoverageRecord:
        """Return whether the server takes the schema. Raises `RemoteError` where it cannot be used any more."""
        status, message = "ok", None
        try:
            with self._stream(beat, prompt_for(item.schema), item.schema) as stream:
                if next(iter(stream), None) is None:
                    raise ValueError("the server's answer is empty")
        except Exception as error:  # noqa: BLE001 — the client library and its transport raise anything
            status, message = self._failure(error)
        record = failed(item, status, message or "", name=self._name, dataset=dataset)
        return replace(record, message=message, verdicts=None)

    def write(self, messages: Sequence[Message], schema: object, name: str, beat: Beat) -> Written:
        """Return the text of a stream; its pieces are counted as tokens where the server does not tell their number.

        Raises `RemoteError` where the server cannot be used any more.
        """
        begin = time.perf_counter()
        first = last = 0.0
        pieces: list[str] = []
        tokens, length, finish = 0, 0, None
        status, message = "ok", None
        try:
            with self._stream(beat, messages, schema) as stream:
                for chunk in stream:
                    beat()
                    if chunk.usage is not None:
                        tokens = chunk.usage.completion_tokens
                    for choice in chunk.choices[:1]:
                        finish = choice.finish_reason or finish
                        if choice.delta.content:
                            last = time.perf_counter()
                            first = first or last
                            pieces.append(choice.delta.content)
                            length += len(choice.delta.content)
                    if length > _MOST_CHARACTERS:
                        raise ValueError(f"the text is longer than {_MOST_CHARACTERS:,} characters")
        except Exception as error:  # noqa: BLE001 — the client library and its transport raise anything
            status, message = self._failure(error)
        tokens = tokens or len(pieces)
        return Written(
            status=status,
            message=message,
            ttft_s=first - begin if pieces else None,
            tpot_s=(last - first) / (tokens - 1) if tokens > 1 and pieces else None,
            tokens=tokens,
            ended=finish == "stop",
            text="".join(pieces),
        )

    def _request(self, messages: Sequence[Message], schema: object) -> dict[str, Any]:
        form = {"name": "answer", "schema": schema, "strict": True}
        return {
            "model": self.model,
            "messages": [dict(message) for message in messages],
            "max_tokens": self._max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "response_format": {"type": "json_schema", "json_schema": form},
            **self._options,
        }

    def _stream(self, beat: Beat, messages: Sequence[Message], schema: object) -> Any:
        """Return the answer's stream, to be closed; repeat the request, after a pause, while the server is busy."""
        request = self._request(messages, schema)
        for pause in (*_PAUSES, None):
            beat()
            try:
                answer = self._client.chat.completions.create(**request)
                self._is_lost = False
                return answer
            except self._library.APIStatusError as error:
                self._is_lost = False
                if error.status_code != _BUSY or pause is None:
                    raise
                time.sleep(pause)
        raise AssertionError("the last pause is None")

    def _failure(self, error: Exception) -> tuple[str, str]:
        if isinstance(error, self._library.APIStatusError):
            if error.status_code in _NO_ENTRY or error.status_code == _BUSY:
                raise self._unusable(error)
            return "refused" if error.status_code in _REFUSED else "error", error_text(error)
        if "Timeout" in type(error).__name__:
            return "timeout", error_text(error)
        if isinstance(error, self._library.APIConnectionError):
            if self._is_lost:
                raise self._unusable(error)
            self._is_lost = True
            return "crash", error_text(error)
        return "error", error_text(error)

    def _unusable(self, error: Exception) -> RemoteError:
        return RemoteError(
            f"the server cannot be used: {error_text(error)}",
            where=self._url,
            hint="Is it running, is --api-key-env right, does it limit requests? Continue with --resume.",
        )
