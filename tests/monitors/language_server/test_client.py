"""The client against a scripted server: which requests it sends, in which order, about which text."""

from __future__ import annotations

import json
import threading
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from structgen.errors import OptionError
from structgen.monitors.language_server import Analyser, Knowledge, LanguageServer
from structgen.monitors.language_server.documents import OPEN_LIMIT, common_prefix

from .conftest import Fake

PLACE = Path("file.txt")
TEXTS = st.text(alphabet="ab\n\r é€\U0001f600", max_size=12)


def state(server: LanguageServer, text: str, offset: int, path: Path = PLACE) -> dict[str, Any]:
    """Return the state that the server recorded."""
    found = server.signatures(path, text, offset).result()
    assert found is not None, server.health
    seen: dict[str, Any] = json.loads(found.items[0].label)
    return seen


def test_the_client_is_an_analyser(fake: Fake) -> None:
    server = fake()
    assert isinstance(server, Analyser)
    found = server.completions(PLACE, "x.name_a", 8).result()
    assert found is not None and found.prefix == "name_a" and found.is_incomplete
    assert found.names() == {"name_a0", "name_a1", "name_a2"}
    (diagnostic,) = server.diagnostics(PLACE, "x.").result() or ()
    assert (diagnostic.message, diagnostic.severity, diagnostic.code) == ("x.", "warning", "7")
    assert diagnostic.tags == {"unnecessary"}
    assert server.health.answered == 2 and not server.health.faults


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
@pytest.mark.parametrize("sync", [0, 1, 2])
def test_the_server_has_the_current_text_at_every_query(fake: Fake, encoding: str, sync: int) -> None:
    server = fake(encoding=encoding, sync=sync)

    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    @given(texts=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5))
    def check(texts: list[tuple[str, str]]) -> None:
        for before, after in texts:
            seen = state(server, before + after, len(before))
            assert seen["text"] == before + after
            inside = before.endswith("\r") and after.startswith("\n")
            assert seen["offset"] == len(before) - inside

    check()
    assert not server.health.faults


def test_growing_text_is_sent_as_edits(fake: Fake) -> None:
    server = fake(encoding="utf-16")
    text = ""
    for piece in ("a😀\r", "\nb", "c\r", "d", "\n"):
        text += piece
        assert state(server, text, len(text))["text"] == text
    seen = state(server, text, 0)
    assert seen["seen"].count("textDocument/didOpen") == 1
    assert seen["seen"].count("textDocument/didChange") == 4


@given(one=TEXTS, other=TEXTS)
def test_the_common_prefix_is_the_longest(one: str, other: str) -> None:
    slow = 0
    while slow < min(len(one), len(other)) and one[slow] == other[slow]:
        slow += 1
    assert common_prefix(one, other) == slow
    assert common_prefix(one, one + other) == len(one)


def test_lone_surrogates_reach_no_server(fake: Fake) -> None:
    assert state(fake(), "a\ud800b", 3)["text"] == "a\ufffdb"


def test_few_documents_are_open(fake: Fake) -> None:
    server = fake()
    for number in range(OPEN_LIMIT + 2):
        seen = state(server, f"{number} ", 0, Path(f"{number}.txt"))
    assert seen["seen"].count("textDocument/didClose") == 2
    assert state(server, "again", 0, Path("0.txt"))["text"] == "again"


def test_requests_of_the_server_are_answered(fake: Fake, tmp_path: Path) -> None:
    server = fake({"settings": {"fake": {"inner": {"a": 1}}}})
    asked = state(server, "ASK ", 0)["asked"]
    folder = {"uri": tmp_path.resolve().as_uri(), "name": tmp_path.name}
    assert asked[0] == {"result": [{"a": 1}, None, {"fake": {"inner": {"a": 1}}}]}
    assert asked[1] == asked[2] == {"result": None}
    assert asked[3] == {"result": [folder]}
    assert asked[4]["result"]["applied"] is False
    assert asked[5]["error"]["code"] == -32601


def test_many_threads_query_one_document(fake: Fake) -> None:
    server = fake()
    futures: dict[str, Future[Any]] = {}

    def ask(thread: int) -> None:
        for number in range(10):
            text = f"{thread} {number} "
            futures[text] = server.signatures(PLACE, text, len(text))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait(futures.values())
    assert all(json.loads(future.result().items[0].label)["text"] == text for text, future in futures.items())


def test_the_typed_prefix_can_be_kept_from_the_server(fake: Fake) -> None:
    server = fake({"knowledge": Knowledge(asks_without_prefix=True)})
    found = server.completions(PLACE, "x.name_b1 = 2", 8).result()
    assert found is not None and found.names() == {"name_b0", "name_b1", "name_b2"}
    (diagnostic,) = server.diagnostics(PLACE, "x.name_b1 = 2").result() or ()
    assert diagnostic.message == "x.name_b1 = 2"


def test_a_truncated_list_is_requested_again(fake: Fake) -> None:
    server = fake({"knowledge": Knowledge(full_below=4)})
    found = server.completions(PLACE, "CAPPED.", 7).result()
    assert found is not None and not found.is_incomplete
    assert found.names() == {f"{letter}{number}" for letter in "abcZ_" for number in range(3)}
    short = fake({"knowledge": Knowledge(full_below=3)}).completions(PLACE, "CAPPED.", 7).result()
    assert short is not None and short.is_incomplete


def test_a_query_that_the_server_aborted_is_sent_again(fake: Fake) -> None:
    assert fake().signatures(PLACE, "DISTURBED ", 0).result() is not None
    server = fake(disturbances=9)
    assert server.signatures(PLACE, "DISTURBED ", 0).result() is None
    assert server.health.faults == {"refused": 1}


@pytest.mark.parametrize("push", ["versions", "plain"])
def test_pushed_diagnostics_are_waited_for(fake: Fake, push: str) -> None:
    server = fake(push=push)
    for text in ("a", "ab", "abc", "abc"):
        (diagnostic,) = server.diagnostics(PLACE, text).result() or ()
        assert diagnostic.message == f"pushed {len(text)}"


def test_an_offset_outside_the_text_is_an_error_at_once(fake: Fake) -> None:
    server = fake()
    for offset in (-1, 3):
        with pytest.raises(OptionError, match="outside the text of 2 characters"):
            server.completions(PLACE, "x.", offset)


def test_capabilities_that_a_server_lacks_give_no_result(fake: Fake) -> None:
    server = fake(without=["signatureHelpProvider"])
    assert server.signatures(PLACE, "", 0).result() is None
    assert server.health.faults == {"refused": 1}


def test_callbacks_may_close_the_server(fake: Fake) -> None:
    server = fake()
    done = threading.Event()

    def close(_: object) -> None:
        server.close()
        done.set()

    server.completions(PLACE, "x.", 2).add_done_callback(close)
    assert done.wait(300)
    assert server.completions(PLACE, "x.", 2).result() is None
