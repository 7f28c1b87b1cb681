"""Messages on a stream: a header that says how long the body is, and the body, which is JSON.

Why: what a server writes is not to be trusted; one print to its standard output breaks the stream for good. Invariant:
`read_message` gives a JSON object, None at a clean end of the stream, or raises `Nonsense` with what was seen; it
never waits for more than the limits allow to come. Cost: one copy of the body, and its parsing.
Spec: Language Server Protocol 3.17, "Base Protocol".
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

__all__ = ["HEADER_LIMIT", "MESSAGE_LIMIT", "Message", "Nonsense", "encode_message", "read_message"]

Message = dict[str, Any]

MESSAGE_LIMIT = 64 * 2**20
"""Bytes of a body; a server that announces more is at fault."""
HEADER_LIMIT = 2**12
"""Bytes of all header lines of a message."""


class Nonsense(Exception):
    """What a server sent breaks the protocol; the text says how."""


def encode_message(message: Message) -> bytes:
    """Return the bytes of a message, header included."""
    body = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode("ascii")
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


async def read_message(stream: asyncio.StreamReader, limit: int = MESSAGE_LIMIT) -> Message | None:
    """Return the next message, or None if the stream ended between two.

    Raises:
        Nonsense: no header, a body that is too long or no JSON object, or an end in the middle.
    """
    length = await _read_header(stream)
    if length is None:
        return None
    if length > limit:
        raise Nonsense(f"announced a message of {length} bytes, more than {limit}")
    try:
        body = await stream.readexactly(length)
    except asyncio.IncompleteReadError as error:
        raise Nonsense(f"ended after {len(error.partial)} of {length} bytes of a message") from None
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Nonsense(f"sent what is no JSON ({error}): {_shown(body)}") from None
    if not isinstance(message, dict):
        raise Nonsense(f"sent JSON that is no object: {_shown(body)}")
    return message


async def _read_header(stream: asyncio.StreamReader) -> int | None:
    length: int | None = None
    seen = 0
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # longer than the buffer of the stream
            raise Nonsense("sent a header line without an end") from None
        if not line and not seen:
            return None
        seen += len(line)
        if line in (b"\r\n", b"\n") and length is not None:
            return length
        name, colon, value = line.partition(b":")
        if not line.endswith(b"\n") or not colon or seen > HEADER_LIMIT:
            raise Nonsense(f"sent what is no header: {_shown(line)}")
        if name.strip().lower() == b"content-length":
            if not value.strip().isdigit() or len(value) > 32:
                raise Nonsense(f"sent a length that is no number: {_shown(line)}")
            length = int(value)


def _shown(data: bytes) -> str:
    return repr(data[:80].decode("utf-8", "replace")) + ("..." if len(data) > 80 else "")
