"""A server that closes an idle connection as a request arrives: the request is sent again, and only then."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

pytest.importorskip("httpx2")
openai = pytest.importorskip("openai")

from bench.clients import RETRIES, client_of  # noqa: E402

_BODY = json.dumps(
    {"object": "list", "data": [{"id": "m", "object": "model", "created": 0, "owned_by": "x"}]}
)
Answer = Callable[[int, asyncio.StreamWriter], None]


async def _served(answer: Answer, ask: Callable[[str], Awaitable[None]]) -> list[int]:
    """How many requests came on each connection; `answer` is given the number of the request on its connection."""
    connections: list[int] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place = len(connections)
        connections.append(0)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                connections[place] += 1
                answer(connections[place], writer)
                if writer.is_closing():
                    return
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        await ask(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
    return connections


def _whole(writer: asyncio.StreamWriter, status: str = "200 OK") -> None:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(_BODY)}\r\n\r\n"
    writer.write((head + _BODY).encode())


def _closes_the_second(number: int, writer: asyncio.StreamWriter) -> None:
    writer.close() if number == 2 else _whole(writer)


def test_the_official_client_without_retries_fails_there() -> None:
    async def ask(url: str) -> None:
        async with openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as client:
            await client.models.list()
            with pytest.raises(openai.APIConnectionError):
                await client.models.list()

    assert asyncio.run(_served(_closes_the_second, ask)) == [2]


def test_it_is_sent_again_on_another_connection() -> None:
    async def ask(url: str) -> None:
        async with client_of(url) as (client, sending):
            for _ in range(4):
                assert (await client.models.list()).data[0].id == "m"
            assert sending.sent_again == 3

    assert asyncio.run(_served(_closes_the_second, ask)) == [2, 2, 2, 1]


def test_idle_connections_are_not_used_again() -> None:
    async def ask(url: str) -> None:
        async with client_of(url, idle_seconds=0.05) as (client, sending):
            await client.models.list()
            await asyncio.sleep(0.2)
            await client.models.list()
            assert sending.sent_again == 0

    assert asyncio.run(_served(_closes_the_second, ask)) == [1, 1]


def test_errors_and_answers_that_break_off_are_seen() -> None:
    def answer(number: int, writer: asyncio.StreamWriter) -> None:
        if number == 1:
            _whole(writer, "500 Internal Server Error")
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        writer.close()

    async def ask(url: str) -> None:
        async with client_of(url) as (client, sending):
            with pytest.raises(openai.InternalServerError):
                await client.models.list()
            with pytest.raises(Exception, match=r"closed|Connection"):
                await client.models.list()
            assert sending.sent_again == 0

    assert asyncio.run(_served(answer, ask)) == [2]


def test_a_server_that_never_answers_gets_a_limited_number_of_requests() -> None:
    async def ask(url: str) -> None:
        async with client_of(url) as (client, sending):
            with pytest.raises(openai.APIConnectionError):
                await client.models.list()
            assert sending.sent_again == RETRIES

    assert asyncio.run(_served(lambda _, writer: writer.close(), ask)) == [1] * (RETRIES + 1)
