"""A language server as an analyser: unsaved text in, what the server knows out, always before a deadline.

    server = LanguageServer("ty", ["ty", "server"], project=".", language="python")
    future = server.completions(Path("app.py"), text, len(text))
    ... the model runs meanwhile ...
    completions = future.result()

Why: static analysis that never stops a generation, for any behaviour of the server.
Invariant: a future ends within `timeout` seconds (`warm_up` until the server has answered once), with None for every
fault. An answer is about the text of its query: queries about one document are sent one after another, each after its
text.
Cost: 0.3 ms over what the server takes: two hops between threads, a message each way, reading the answer.
"""

from __future__ import annotations

import asyncio
import os
import string
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from structgen.errors import OptionError
from structgen.monitors.language_server import background
from structgen.monitors.language_server.analysis import Completions, Diagnostic, Signatures
from structgen.monitors.language_server.completions import Knowledge, read_completions, word_start
from structgen.monitors.language_server.connection import METHOD_NOT_FOUND, Ended, Refused
from structgen.monitors.language_server.diagnostics import read_diagnostics
from structgen.monitors.language_server.document_query import DocumentQuery, language_of
from structgen.monitors.language_server.health import Health
from structgen.monitors.language_server.positions import encodable
from structgen.monitors.language_server.session import Ready, Session, Start
from structgen.monitors.language_server.signatures import dialect_of, read_signatures

__all__ = ["LanguageServer", "check_offset"]

T = TypeVar("T")

_HUNG_AFTER = 3
"""After this many missed deadlines in a row without any message a warm server is ended."""
_FIRST_LETTERS = "_" + string.ascii_letters


def check_offset(text: str, offset: int) -> None:
    """Raise `OptionError` for an offset outside the text."""
    if not 0 <= offset <= len(text):
        raise OptionError(
            f"the offset {offset} is outside the text of {len(text)} characters",
            hint="Pass the whole document, and an index in its characters (not in its bytes).",
        )


class LanguageServer:
    """An `Analyser` that queries a language server, which it starts in the background and restarts after a crash.

    Args:
        name: Its name in messages.
        command: The program and its arguments; it speaks the protocol on its standard input and output.
        project: The folder of the project, which may have errors.
        language: The protocol's name for documents whose suffix says nothing: "python", "typescript".
        knowledge: How to read its lists of completions.
        options: What it gets at the start (``initializationOptions``).
        settings: What it gets when it requests its configuration, by section.
        environment: Variables for it, in addition to those of this process.
        timeout: Seconds for an answer.
        warm_up: Seconds for an answer until it has answered once.
        restarts: How often it may be restarted.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        project: str | Path,
        language: str,
        *,
        knowledge: Knowledge | None = None,
        options: object = None,
        settings: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        timeout: float = 2.0,
        warm_up: float = 10.0,
        restarts: int = 3,
    ) -> None:
        self.name = name
        self.health = Health(name)
        self.timeout = timeout
        self.warm_up = warm_up
        self.project = Path(project).resolve()
        self._language = language
        self._knowledge = knowledge or Knowledge()
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._owner = os.getpid()
        start = Start(tuple(command), self.project, environment, options, settings or {}, restarts)
        self._session = session = Session(start, self.health)
        background.at_end(id(session), lambda: session.close(politely=False))
        self._finalizer = weakref.finalize(self, _forget, session, self._owner)
        self._finalizer.atexit = False
        background.call(session.begin)

    def completions(self, path: Path, text: str, offset: int) -> Future[Completions | None]:
        """Return the names that may stand at the offset; `servers` lists what None means for each server."""
        check_offset(text, offset)
        text = encodable(text)

        async def ask(query: DocumentQuery) -> Completions | None:
            _need(query.ready, "completionProvider")
            return await self._complete(query, text, offset)

        return self._submit(path, "completions", ask)

    def signatures(self, path: Path, text: str, offset: int) -> Future[Signatures | None]:
        """Return the signatures of the call that the offset is in; None also outside of calls."""
        check_offset(text, offset)
        text = encodable(text)

        async def ask(query: DocumentQuery) -> Signatures | None:
            _need(query.ready, "signatureHelpProvider")
            more = {"context": {"triggerKind": 1, "isRetrigger": False}}
            result = await query.request_at("textDocument/signatureHelp", text, offset, more)
            return read_signatures(result, dialect_of(query.language))

        return self._submit(path, "signatures", ask)

    def diagnostics(self, path: Path, text: str) -> Future[tuple[Diagnostic, ...] | None]:
        """Return what is wrong with the text, by a request, or from what the server pushes."""
        text = encodable(text)

        async def ask(query: DocumentQuery) -> tuple[Diagnostic, ...] | None:
            if query.ready.can("diagnosticProvider"):
                result = await query.request("textDocument/diagnostic", text, {})
                items = result["items"]
            else:
                items = await query.pushed(text)
            return read_diagnostics(items, text, query.ready.encoding)

        return self._submit(path, "diagnostics", ask)

    def files_changed(self, paths: Iterable[Path]) -> None:
        """Notify the server, if it runs, that files of the project were written or deleted.

        Some servers do not watch files. The next query is answered with the new files.
        """
        relative = [self._place(path) for path in paths]
        background.call(lambda: self._session.files_changed(relative))

    def close(self) -> None:
        """End the server; this takes up to a second if it does not end by itself."""
        if os.getpid() != self._owner or background.has_ended() or not self._finalizer.detach():
            return
        background.not_at_end(id(self._session))
        if background.is_background():
            _forget(self._session, self._owner)
        else:
            background.submit(self._session.close()).result()

    def __enter__(self) -> LanguageServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LanguageServer({self.name!r}, {' '.join(self._session.start.command)!r})"

    def _submit(
        self, path: Path, what: str, ask: Callable[[DocumentQuery], Awaitable[T | None]]
    ) -> Future[T | None]:
        if os.getpid() != self._owner or background.has_ended():
            self.health.fault(
                "closed", f"{what}: asked in a forked process, or at the end; make a new analyser there"
            )
            self.health.fail()
            nothing: Future[T | None] = Future()
            nothing.set_result(None)
            return nothing
        return background.submit(self._answer(self._place(path), what, ask))

    def _place(self, path: Path) -> Path:
        return Path(os.path.abspath(self.project / path))

    async def _answer(
        self, path: Path, what: str, ask: Callable[[DocumentQuery], Awaitable[T | None]]
    ) -> T | None:
        """Return the answer before the deadline, or None and a fault on record."""
        seconds = self.timeout if self._session.is_warm else max(self.timeout, self.warm_up)
        query: DocumentQuery | None = None
        try:
            async with asyncio.timeout(seconds):
                ready = await self._session.ready()
                uri = path.as_uri()
                lock = self._locks.setdefault(uri, asyncio.Lock())
                async with lock:
                    query = DocumentQuery(ready, uri, language_of(path, self._language))
                    result = await ask(query)
        except asyncio.CancelledError:
            self.health.cancel()
            raise
        except TimeoutError:
            self.health.fault("late", f"{what}: no answer within {seconds:g} s")
            self._missed(query)
        except Ended:
            pass  # the session has recorded it
        except Refused as refused:
            self.health.fault("refused", f"{what}: {refused}")
        except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
            self.health.fault("nonsense", f"{what}: an answer that breaks the protocol: {error!r:.200}")
        else:
            ready.is_warm, ready.missed = True, 0
            self._session.earn()
            self.health.answer(result is not None)
            return result
        finally:
            if query is not None:
                self._note_unexpected(query.ready)
        self.health.fail()
        return None

    def _missed(self, query: DocumentQuery | None) -> None:
        """Count a missed deadline; a server that stays silent through several is ended, so that it restarts."""
        if query is None or not query.is_sent:
            return
        ready, connection = query.ready, query.ready.connection
        ready.missed = ready.missed + 1 if connection.received == ready.received_before else 1
        ready.received_before = connection.received
        if ready.is_warm and ready.missed >= _HUNG_AFTER:
            connection.fail(Ended("hang", f"sent nothing through {ready.missed} deadlines"))

    def _note_unexpected(self, ready: Ready) -> None:
        while ready.connection.unexpected:
            self.health.fault("nonsense", ready.connection.unexpected.popleft())

    async def _complete(self, query: DocumentQuery, text: str, offset: int) -> Completions | None:
        knowledge = self._knowledge
        start = word_start(text, offset)
        prefix = text[start:offset]
        if knowledge.asks_without_prefix:
            text, offset = text[:start] + text[offset:], start
        completions = await self._list(query, text, offset, prefix)
        if completions is None or not completions.is_incomplete or knowledge.full_below is None:
            return completions
        return await self._widen(query, text, start, completions)

    async def _widen(
        self, query: DocumentQuery, text: str, start: int, completions: Completions
    ) -> Completions:
        """Repeat a query whose list was cut with each first letter typed, while half of the time is left."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.timeout / 2
        items = {item.name: item for item in completions.items}
        is_incomplete = False
        for typed in [completions.prefix] if completions.prefix else _FIRST_LETTERS:
            if loop.time() > until:
                is_incomplete = True
                break
            more = await self._list(
                query, text[:start] + typed + text[start:], start + len(typed), completions.prefix or typed
            )
            if more is not None:
                is_incomplete = is_incomplete or more.is_incomplete
                items.update({item.name: item for item in more.items if item.name not in items})
        return replace(completions, items=tuple(items.values()), is_incomplete=is_incomplete)

    async def _list(self, query: DocumentQuery, text: str, offset: int, prefix: str) -> Completions | None:
        """Return one list, of names that begin with the prefix."""
        provider = query.ready.capabilities.get("completionProvider")
        triggers = provider.get("triggerCharacters") if isinstance(provider, dict) else None
        last = text[offset - 1 : offset]
        context: dict[str, Any] = {"triggerKind": 1}
        if last and last in (triggers or ()):
            context = {"triggerKind": 2, "triggerCharacter": last}
        result = await query.request_at("textDocument/completion", text, offset, {"context": context})
        return read_completions(result, text, offset, query.ready.encoding, self._knowledge, prefix)


def _need(ready: Ready, capability: str) -> None:
    if not ready.can(capability):
        raise Refused(METHOD_NOT_FOUND, f"the server has no {capability}")


def _forget(session: Session, owner: int) -> None:
    """End a server without waiting for it; not that of the parent, in a forked child."""
    if os.getpid() != owner or background.has_ended():
        return
    background.not_at_end(id(session))
    background.call(lambda: asyncio.ensure_future(session.close(politely=False)))
