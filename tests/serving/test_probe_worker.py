"""Errors of a probe worker, as the serving process reads them."""

import pickle

import pytest

from structgen.errors import LimitExceeded
from structgen.serving.limits import RequestLimits
from structgen.serving.probe_worker import _answer
from structgen.serving.wire import decode_error, unpack

from .specs import BYTES


@pytest.mark.parametrize(
    ("raised", "limit"),
    [
        (KeyError("x"), "internal"),
        (AssertionError(), "internal"),
        (MemoryError(), "compile_bytes"),
        (RecursionError(), "request_depth"),
        (LimitExceeded("too much", limit="regex_nodes"), "regex_nodes"),
    ],
)
def test_an_error_in_a_worker_is_reported_with_its_own_limit(monkeypatch, caplog, raised, limit):
    def raises(*_):
        raise raised

    monkeypatch.setattr("structgen.serving.probe_worker.probe_compile", raises)
    frame = pickle.dumps(("regex", "a"))
    kind, content, tail = unpack(_answer(frame, BYTES, RequestLimits()))
    error = decode_error(content)
    assert kind == "error" and not tail and isinstance(error, LimitExceeded) and error.limit == limit
    assert ("Traceback" in caplog.text) == (limit == "internal")
