"""A small world for monitors, with a slow reference of its texts: a name after ``x.`` must be a member of ``x``."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from structgen import Vocabulary
from structgen.monitors import Context, Language, Monitor, Quotes

SMALL = Language("small", {b"'": Quotes(b"'", escapes=False)}, line_comments=(b"#",), line_statements=True)
"""Strings in single quotes, comments after ``#``."""
TOKENS = [
    b"x", b"y", b".", b"x.", b".a", b"a", b"b", b"ab", b"abc", b" ", b"\n", b".a.", b"y.b", b"c", b"ab x.ab", b")",
    b"'", b"#", b"x.c y", b"..", b"1.", b"",
]  # fmt: skip
EOS = len(TOKENS) - 1
MEMBERS = {"x": ("a", "ab"), "y": ("b",), "a": ("c", "abc"), "x.a": (), "y.b": ("x",)}


def vocabulary() -> Vocabulary:
    """Return a vocabulary whose tokens cut names and triggers in many ways."""
    return Vocabulary.from_tokens([token or None for token in TOKENS], eos_ids=[EOS])


class Members(Monitor):
    """Knows the members of some names."""

    def __init__(self, members: Mapping[str, Sequence[str]] = MEMBERS, *, later: bool = False) -> None:
        super().__init__("members", ("member",))
        self.members, self.later = members, later
        self.asked: list[str] = []

    def suggest(self, context: Context) -> Any:
        self.asked.append(context.receiver)
        answer = self.members.get(context.receiver)
        if not self.later:
            return answer
        future: Future[Any] = Future()
        threading.Timer(0.001, future.set_result, (answer,)).start()
        return future


def places(text: str) -> list[tuple[int, str]]:
    """Return the offsets and receivers of member accesses: in a line, outside of strings and comments."""
    found = []
    place = 0
    for line in text.splitlines(keepends=True):
        code = re.sub(r"'[^'\n]*'?|#[^\n]*", lambda match: "'" * len(match[0]), line)
        for match in re.finditer(r"\.", code):
            before = code[: match.start()].rstrip(" ")
            if re.search(r"(?<![\w])\d[\w.]*$", before) and before == code[: match.start()]:
                continue  # the dot of a number
            if before and (re.search(r"[\w)']$", before)):
                receiver = re.search(r"(?:[\w]+\.)*[\w]+$", before)
                named = receiver and not before[: receiver.start()].rstrip(" ").endswith(".")
                found.append((place + match.end(), receiver[0] if named and receiver else ""))
        place += len(line)
    return found


def is_beginning(text: str, members: Mapping[str, Sequence[str]] = MEMBERS) -> bool:
    """Return whether the text can go on so that every name after a dot is a member."""
    for offset, receiver in places(text):
        names = members.get(receiver)
        if names is None:
            continue
        match = re.match(r"(\w*)([^\w]?)", text[offset:])
        assert match is not None
        name, end = match.groups()
        if not (name in names if end else any(one.startswith(name) for one in names)):
            return False
    return True


def is_whole(text: str, members: Mapping[str, Sequence[str]] = MEMBERS) -> bool:
    """Return whether the text is right if it ends here."""
    return is_beginning(text + "\n", members)


def next_probabilities(tokens: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return the next-token distribution, which depends on the tokens only and is nowhere zero."""
    seed = int.from_bytes(hashlib.blake2b(bytes(tokens), digest_size=8).digest(), "little")
    random = np.random.default_rng(seed)
    weights = random.exponential(size=len(TOKENS)) + 0.05
    weights[EOS] *= 2
    return weights / weights.sum()
