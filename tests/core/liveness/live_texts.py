"""The live texts of a small alphabet."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import HealthCheck

from structgen.matcher import Matcher

LETTERS = "ab1_"
RELAXED = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def live_texts(matcher: Matcher, alphabet: bytes, most: int) -> Iterator[bytes]:
    """Yield at most `most` texts that are live after each of their bytes, shortest first."""
    layer = [b""]
    while layer and most > 0:
        yield from layer[:most]
        most -= len(layer)
        followers = ((text, matcher.native.next_bytes(text)[0]) for text in layer)
        layer = [text + bytes([byte]) for text, after in followers for byte in after if byte in alphabet]
