"""Clients that hang up in the middle of drafted passes: nothing of them remains, and other answers do not change."""

from __future__ import annotations

import gc
import http.client
import json
import random
import threading
import weakref
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from structgen.generation.batch_row import BatchRow
from structgen.generation.row import Row
from structgen.server.settings import ServerSettings
from structgen.server.ticket import Ticket
from structgen.serving import isolating_compiler
from structgen.serving.isolated_matcher import IsolatedMatcher
from structgen.serving.limits import RequestLimits
from structgen.serving.matcher_process import MatcherProcess
from structgen.serving.migrating_matcher import MigratingMatcher
from tests.unhurried import HANG_SECONDS

from .calls import PERSON, as_schema, post
from .conftest import KEY, NAME, Running, fetched, until

OTHER_KEY = "sk-other"
LINE = {
    "type": "object",
    "properties": {
        "article": {"enum": ["bolt", "nut", "washer"]},
        "price": {"type": "integer", "minimum": 0, "maximum": 99},
        "is_in_stock": {"type": "boolean"},
    },
    "required": ["article", "price", "is_in_stock"],
    "additionalProperties": False,
}
TABLE = {"type": "array", "items": LINE, "minItems": 1, "maxItems": 2}
KINDS: tuple[dict[str, Any], ...] = (
    {"response_format": as_schema(TABLE), "max_tokens": 90},
    {"response_format": as_schema(PERSON), "max_tokens": 40},
    {"guided_regex": "([a-f]{3} ){4,9}", "max_tokens": 40, "n": 2},
    {"guided_choice": ["a bolt", "a nut", "a washer and a screw"], "max_tokens": 12},
    {"max_tokens": 24},
    {"guided_regex": "[a-z ]{10,400}", "structgen": {"close_within_budget": True}, "max_tokens": 20},
)


def request(number: int) -> dict[str, Any]:
    """The fields of one of the requests. Every fourth one is greedy."""
    return {
        "model": NAME,
        "messages": [{"role": "user", "content": f"List the articles on shelf {number % 3}."}],
        "seed": number,
        "temperature": 0.0 if number % 4 == 0 else 1.0,
        **KINDS[number % len(KINDS)],
    }


def settings(*, speculate: bool, **more: Any) -> ServerSettings:
    return ServerSettings(
        model_name=NAME,
        api_keys=(KEY, OTHER_KEY),
        max_rows=4,
        samplers=0,
        speculate=speculate,
        request_seconds=HANG_SECONDS,
        limits=RequestLimits(whitespace="json.dumps", compile_seconds=60.0, step_seconds=60.0),
        **more,
    )


def texts_of(server: Running, number: int, key: str = KEY) -> list[str]:
    status, body = post(server, request(number), key=key)
    assert status == 200, body
    return [choice["message"]["content"] for choice in body["choices"]]


def hang_up(server: Running, number: int, lines: int) -> None:
    """Read so many lines of a stream, and close the connection."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG_SECONDS)
    headers = {"Authorization": f"Bearer {KEY}"}
    body = json.dumps({**request(number), "stream": lines % 3 > 0})
    connection.request("POST", "/v1/chat/completions", body, headers)
    if lines:
        answer = connection.getresponse()
        for _ in range(lines):
            answer.readline()
    connection.close()


def alive() -> dict[str, int]:
    """Count the objects that belong to requests."""
    gc.collect()
    kinds = (Row, BatchRow, Ticket, MigratingMatcher, IsolatedMatcher, MatcherProcess)
    # subtle: not `isinstance`, which reads attributes of objects of other libraries.
    counts = Counter(map(type, gc.get_objects()))
    return {kind.__name__: counts[kind] for kind in kinds}


def is_released(server: Running) -> bool:
    thread, processes = server.service.model_thread, server.service.compiler.matcher_processes
    assert processes is not None
    batch = thread.batch
    drafting: Any = batch._drafting
    return (
        server.service.open == 0
        and batch.is_idle
        and batch._session is None
        and not (thread._tickets or thread._submitted or thread._cancelled)
        and not (drafting is not None and drafting._rows)
        and not len(server.service.rows.process_queue)
        and processes.running == 0
    )


@pytest.fixture(scope="module")
def answers_without_drafts(model: Any) -> dict[int, list[str]]:
    server = Running(model, settings(speculate=False))
    try:
        return {number: texts_of(server, number) for number in range(12)}
    finally:
        server.stop()


@pytest.mark.parametrize("is_isolated", [False, True])
def test_clients_that_hang_up_leave_nothing_and_change_no_other_answer(
    model: Any,
    answers_without_drafts: dict[int, list[str]],
    monkeypatch: pytest.MonkeyPatch,
    is_isolated: bool,
) -> None:
    if is_isolated:  # texts in matcher processes find no drafts, and their masks come late
        monkeypatch.setattr(isolating_compiler, "_BUILD_SECONDS", -1.0)
    server = Running(model, settings(speculate=True))
    try:
        texts_of(server, 0)
        until(lambda: is_released(server))
        before = alive()
        draw = random.Random(is_isolated)
        # A step of a text in a matcher process may take a second on a busy machine, so these are short.
        whole = [3, 4, 9] if is_isolated else list(range(12))
        jobs: list[tuple[int, int | None]] = [(number, None) for number in whole]
        jobs += [(draw.choice(whole), draw.choice([0, 0, 1, 2, 3, 5, 8, 13])) for _ in range(2 * len(whole))]
        draw.shuffle(jobs)

        def run(job: tuple[int, int | None]) -> list[str] | None:
            number, lines = job
            return texts_of(server, number) if lines is None else hang_up(server, number, lines)

        with ThreadPoolExecutor(8) as clients:
            found = list(clients.map(run, jobs))
        for (number, lines), texts in zip(jobs, found, strict=True):
            if lines is None:
                assert texts == answers_without_drafts[number], request(number)
        until(lambda: is_released(server))
        until(lambda: alive() == before, 60)
        counts = server.service.model_thread.batch.counts
        assert is_isolated or counts.accepted > 50, "the batch drafts"
        assert counts.failed == 0
    finally:
        server.stop()


def test_texts_of_one_key_draft_for_no_other(model: Any) -> None:
    """The store of earlier texts is keyed by the client and the constraint: a draft would show what others wrote."""
    server = Running(model, settings(speculate=True))
    try:
        drafting: Any = server.service.model_thread.batch._drafting
        speculation = drafting._all

        def proposals_of_the_store() -> int:
            kinds = speculation.tallies.known
            return int(sum(count[0] for kind, count in kinds.items() if kind.startswith("store")))

        first = texts_of(server, 0)
        assert proposals_of_the_store() == 0
        assert texts_of(server, 0, OTHER_KEY) == first
        assert proposals_of_the_store() == 0, "another key has the same constraint and seed"
        assert "store" not in speculation.report()
        assert texts_of(server, 0) == first
        assert proposals_of_the_store() > 0, "its own texts draft for it"
    finally:
        server.stop()


@pytest.mark.parametrize(
    "where", ["prompts", "long prompts", "rows", "rows in matcher processes", "samplers"]
)
def test_clients_that_hang_up_while_they_wait_free_their_places(
    model: Any, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue whose threads are busy must not grow by clients that send a request and disconnect."""
    if where == "rows in matcher processes":
        monkeypatch.setattr(isolating_compiler, "_BUILD_SECONDS", -1.0)
    limits = RequestLimits(max_matcher_processes=1, compile_seconds=60.0)
    server = Running(model, replace(settings(speculate=True), samplers=1, limits=limits, max_queue=20))
    service, may_run = server.service, threading.Event()
    threads = {
        "prompts": service._prompts._short,
        "long prompts": service._prompts._long,
        "rows": service.rows._threads,
        "rows in matcher processes": service.rows._isolated_threads,
        "samplers": service._samplers,
    }[where]
    fields: dict[str, Any] = {"guided_regex": "[ab]{3}", "max_tokens": 8}
    if where == "samplers":
        fields["structgen"] = {"sampler": {"name": "smc", "particles": 2}}
    if where == "long prompts":
        fields["user"] = "x" * 40_000
    body = {"model": NAME, "messages": [{"role": "user", "content": "Go."}], **fields}
    try:
        if where != "long prompts":
            assert post(server, body)[0] == 200  # the constraint is known then
        busy = [
            threads._submit("busy", lambda: may_run.wait(HANG_SECONDS), 1.0) for _ in range(threads._count)
        ]
        until(lambda: not len(threads))
        for _ in range(3):  # as often as 10 of them would be more than `max_queue`
            connections = [http.client.HTTPConnection("127.0.0.1", server.port) for _ in range(10)]
            for connection in connections:
                connection.request(
                    "POST", "/v1/chat/completions", json.dumps(body), {"Authorization": f"Bearer {KEY}"}
                )
            until(lambda: len(threads) == 10)
            assert json.loads(fetched(f"{server.url}/health"))["open"] == 10
            for connection in connections:
                connection.close()
            until(lambda: len(threads) == 0 and service.open == 0)
        may_run.set()
        assert all(one.result(HANG_SECONDS) for one in busy)
        assert post(server, body)[0] == 200
    finally:
        may_run.set()
        server.stop()


def are_released(objects: list[weakref.ref[Any]]) -> bool:
    gc.collect()
    return not any(one() for one in objects)


def test_what_a_key_has_drafted_does_not_outlive_it(model: Any) -> None:
    """Keys are rotated by a new start, also with the model that an earlier server of the process used."""
    key_of = {KEY: OTHER_KEY, OTHER_KEY: KEY}
    stores: list[weakref.ref[Any]] = []
    found: dict[str, list[str]] = {}
    for key in (KEY, OTHER_KEY):
        server = Running(model, replace(settings(speculate=True), api_keys=(key,)))
        try:
            status, body = post(server, request(0), key=key_of[key])
            assert status == 401 and body["error"]["code"] == "invalid_api_key"
            drafting: Any = server.service.model_thread.batch._drafting
            counts = server.service.model_thread.batch.counts
            found[key] = texts_of(server, 0, key)
            kinds = drafting._all.tallies.known
            assert not any(kind.startswith("store") for kind in kinds), "texts of an earlier key"
            assert counts.cached_prompts == 0, "a prompt of an earlier key"
            assert texts_of(server, 0, key) == found[key]
            assert any(kind.startswith("store") for kind in kinds) and counts.cached_prompts > 0
            assert not any(ref() for ref in stores), "the stores of an earlier key"
            stores = [weakref.ref(drafter) for drafter in drafting._all.drafters]
            stores.append(weakref.ref(server.service.model_thread.batch.prefixes))
            del drafting, counts, kinds
        finally:
            server.stop()
            del server
        until(partial(are_released, stores))
    assert found[KEY] == found[OTHER_KEY]
