"""Messages survive any cut of the stream; what is no message is refused with what was seen."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen.monitors.language_server.framing import Nonsense, encode_message, read_message

JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=9), lambda inner: st.lists(inner, max_size=3)
)
MESSAGES = st.dictionaries(st.text(max_size=5).filter(lambda key: key != "jsonrpc"), JSON, max_size=4)


def read_all(chunks: list[bytes], limit: int = 1000) -> list[Any]:
    async def read() -> list[Any]:
        stream = asyncio.StreamReader(limit=2**16)
        feeding = asyncio.create_task(feed(stream))
        found = []
        while (message := await read_message(stream, limit)) is not None:
            found.append(message)
        await feeding
        return found

    async def feed(stream: asyncio.StreamReader) -> None:
        for chunk in chunks:
            stream.feed_data(chunk)
            await asyncio.sleep(0)
        stream.feed_eof()

    return asyncio.run(read())


@given(messages=st.lists(MESSAGES, max_size=4), size=st.integers(1, 40))
def test_messages_survive_any_cuts(messages: list[dict[str, Any]], size: int) -> None:
    data = b"".join(map(encode_message, messages))
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    assert read_all(chunks, 10**6) == [{"jsonrpc": "2.0", **message} for message in messages]


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (b"hello\n", "no header"),
        (b"hello", "no header"),
        (b"Content-Length: x\r\n\r\n", "no number"),
        (b"Content-Length: -5\r\n\r\n", "no number"),
        (b"Content-Length: 5000\r\n\r\n", "5000 bytes, more than 1000"),
        (b"Content-Length: 5\r\n\r\n{}", "after 2 of 5"),
        (b"Content-Length: 2\r\n\r\n[]", "no object"),
        (b"Content-Length: 2\r\n\r\n{\xff", "no JSON"),
        (b"Content-Length: 1000\r\n\r\n" + b"[" * 1000, "no JSON"),
        (b"Content-Type: x\r\n\r\n", "no header"),
        (b"A: " + b"b" * 5000 + b"\r\n", "no header"),
        (b"A: " + b"b" * 2**18, "header line without an end"),
    ],
)
def test_invalid_messages_are_refused(data: bytes, seen: str) -> None:
    with pytest.raises(Nonsense, match=seen):
        read_all([data])
