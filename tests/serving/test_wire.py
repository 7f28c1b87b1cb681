"""Answers of processes that ran hostile input are data: none of it is ever executed."""

from __future__ import annotations

import errno
import inspect
import json
import os
import pickle
import random
import subprocess
import sys
from typing import Any

import pytest

from structgen import errors
from structgen.errors import LimitExceeded, RegexSyntaxError, SchemaInvalid, StructgenError
from structgen.serving import matcher_process, probe_process, wire
from structgen.serving.limits import RequestLimits
from structgen.serving.matcher_answers import MatcherView
from structgen.serving.probe import LoweredConstraint, ProbeResult
from structgen.serving.requests import constraint_of
from structgen.serving.wire import Garbled, decode_error, dump_tree, encode_error, load_tree, pack, unpack
from structgen.vocabulary import Vocabulary

KINDS = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, StructgenError)
]


class Touch:
    """A pickle that makes a file where it is loaded."""

    def __init__(self, path: Any) -> None:
        self.path = str(path)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_errors_cross_unchanged(kind: Any) -> None:
    error = kind("what is wrong", hint="what to do")
    again = decode_error(json.loads(json.dumps(encode_error(error))))
    assert type(again) is kind and str(again) == str(error) and vars(again) == vars(error)


@pytest.mark.parametrize(
    "error",
    [
        RegexSyntaxError("a bracket is open", pattern="a(\n\ud800", position=1, end=2),
        SchemaInvalid("no type", pointer="#/a", hint="name one"),
        LimitExceeded("too much", limit="compile_bytes"),
        errors.UnsatisfiableFormula("never", core=("a", "!a"), formula="a & !a"),
    ],
)
def test_errors_keep_their_place(error: StructgenError) -> None:
    again = decode_error(json.loads(json.dumps(encode_error(error))))
    assert vars(again) == vars(error) and str(again) == str(error)


def test_errors_of_other_modules_keep_their_type() -> None:
    class Odd(SchemaInvalid):
        pass

    assert type(decode_error(encode_error(Odd("x", pointer="#/a")))) is SchemaInvalid


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {"kind": "Exception", "fields": {"message": "x"}},
        {"kind": "os.system", "fields": {"message": "x"}},
        {"kind": ["RegexError"], "fields": {"message": "x"}},
        {"kind": "RegexError", "fields": {"message": 5}},
        {"kind": "RegexError", "fields": {"message": "x", "__class__": "y"}},
        {"kind": "RegexError", "fields": {"message": "x", "pattern": {"a": 1}}},
        {"kind": "RegexError", "fields": {"message": "x", "pattern": 5}},
    ],
)
def test_an_invalid_error_is_garbled(content: Any) -> None:
    with pytest.raises(Garbled):
        decode_error(content)


def test_pickles_and_junk_are_garbled(tmp_path: Any) -> None:
    path = tmp_path / "touched"
    draw = random.Random(0)
    good = pack("probe", ["a pattern", True, 0.1, 0.1, 0.1, 0.1, None, {}], b"[]")
    junk = [
        pickle.dumps(Touch(path)),
        b"",
        b"\0\0\0",
        b"\xff\xff\xff\xff[]",
        pack("x")[:-1],
        b"\0\0\0\5hello",
        b"\0\0\0\2[]",
        b"\0\0\0\4[[]]",
        (b"[" * 100_000).join((b"\0\1\x86\xa0", b"")),
        *(bytes(draw.randrange(256) for _ in range(draw.randrange(40))) for _ in range(300)),
    ]
    for data in junk:
        with pytest.raises(Garbled):
            unpack(data)
    assert not path.exists()
    kind, content, tail = unpack(good)
    assert kind == "probe" and ProbeResult.unpacked(content, tail).lowered == b"[]"


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        [5, True, 0, 0, 0, 0, None, {}],
        ["x", True, -1, 0, 0, 0, None, {}],
        ["x", True, 0, 0, -1, 0, None, {}],
        ["x", True, "0", 0, 0, 0, None, {}],
        ["x", True, 0, 0, 0, 0, "5", {}],
        ["x", True, 0, 0, 0, 0, None, 1],
        ["x", True, 0, 0, 0, 0, None, {}, 1],
        ["x", True, 0, 0, 0, None, {}],
    ],
)
def test_an_invalid_probe_result_is_garbled(content: Any) -> None:
    with pytest.raises(Garbled):
        ProbeResult.unpacked(content, b"")


@pytest.mark.parametrize(
    ("content", "mask"),
    [
        (None, b"\0" * 8),
        ([1, True, True, [], None], b"\0" * 7),
        ([1, 1, True, [], None], b"\0" * 8),
        (["1", True, True, [], None], b"\0" * 8),
        ([1, True, True, [60], None], b"\0" * 8),
        ([61, True, True, [], None], b"\0" * 8),
        ([-1, True, True, [], None], b"\0" * 8),
        ([1, True, True, [-1], None], b"\0" * 8),
        ([1, True, True, "ab", None], b"\0" * 8),
        ([1, True, True, []], b"\0" * 8),
        ([1, True, True, [], "1"], b"\0" * 8),
        ([1, True, True, [], -1], b"\0" * 8),
        ([1, True, True, [], True], b"\0" * 8),
    ],
)
def test_an_invalid_view_is_garbled(content: Any, mask: bytes) -> None:
    with pytest.raises(Garbled):
        MatcherView.unpacked(content, mask, 60)


def test_a_view_crosses_unchanged() -> None:
    view = MatcherView(b"\1\0\0\0" * 2, 2, True, False, (0, 32), 0.5)
    kind, content, tail = unpack(view.pack())
    assert kind == "view" and MatcherView.unpacked(content, tail, 60) == view


@pytest.mark.parametrize("module", [probe_process, matcher_process])
def test_the_parents_load_no_pickles(module: Any) -> None:
    assert "pickle.load" not in inspect.getsource(module)
    assert "pickle" not in inspect.getsource(wire).partition('"""')[2].partition('"""')[2]


def test_a_process_that_answers_nonsense_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = probe_process.ProbeProcess(Vocabulary.of_bytes(), RequestLimits())
    try:
        worker.start()
        monkeypatch.setattr(worker, "_exchange", lambda data, may_continue: pickle.dumps("x"))
        with pytest.raises(LimitExceeded) as caught:
            worker.probe("regex", "a")
        assert caught.value.limit == "internal"
        monkeypatch.undo()
        assert worker.probe("regex", "a").description == "the pattern /a/"
    finally:
        worker.close()
        worker.kill()


# -- trees


def as_lists(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: as_lists(value) for key, value in tree.items()}
    return [as_lists(one) for one in tree] if isinstance(tree, (tuple, list)) else tree


@pytest.mark.parametrize("seed", range(30))
def test_trees_cross_unchanged(seed: int) -> None:
    draw = random.Random(seed)
    parts: list[Any] = [None, True, 1, -(2**70), 1.5, "", "\ud800\0", "a", (), {}, []]
    for _ in range(60):
        some = draw.choices(parts[-20:] if draw.random() < 0.7 else parts, k=draw.randrange(4))
        parts.append(draw.choice([tuple(some), some, {f"k{at}": one for at, one in enumerate(some)}]))
    written = dump_tree(parts[-1])
    assert written is not None and load_tree(written) == as_lists(parts[-1])


def test_shared_nodes_are_written_once() -> None:
    tree: Any = ("leaf", "x")
    for _ in range(200):
        tree = ("union", tree, tree)
    written = dump_tree(tree)
    assert written is not None and len(written) < 20_000
    again = load_tree(written)
    assert again[0] == "union" and again[1] is again[2]


@pytest.mark.parametrize("tree", [object(), (b"x",), {5: 1}, {"a": {1, 2}}, (float("nan"),)])
def test_values_outside_json_are_not_written(tree: Any) -> None:
    assert dump_tree(tree) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"\xff",
        b"[1",
        b"1\n\n2",
        b"NaN",
        b"[-Infinity]",
        b'{"\\u0000":0}',
        b'[1]\n{"\\u0000":1}',
        b'[1]\n{"\\u0000":-1}',
        b'[1]\n{"\\u0000":true}',
        b'[1]\n{"\\u0000":"0"}',
        b'[1]\n{"\\u0000":[0]}',
        b'[1]\n{"\\u0000":null}',
        b"[" * 100_000,
        b"1" * 5_000,
    ],
    ids=lambda data: repr(data[:20]),
)
def test_an_invalid_tree_is_garbled(data: bytes) -> None:
    with pytest.raises(Garbled):
        load_tree(data)
    with pytest.raises(LimitExceeded) as caught:
        LoweredConstraint(data, "a pattern").lower()
    assert caught.value.limit == "internal"


@pytest.mark.parametrize(
    "announced", [b"0 0", b"-1 0", b"%d 0" % (1 << 31), b"%d 0" % (1 << 80), b"x 0", b"5", b""]
)
def test_an_invalid_process_id_is_not_killed(announced: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, signal: killed.append(pid))
    worker = probe_process.ProbeProcess(Vocabulary.of_bytes(), RequestLimits())
    with pytest.raises(probe_process._Died):
        worker._adopt(probe_process.READY + announced)
    worker.kill()
    assert not killed


def test_a_process_that_is_not_ours_is_not_killed() -> None:
    """The frame comes from a process that ran hostile input, and may name any process of the user."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        worker = probe_process.ProbeProcess(Vocabulary.of_bytes(), RequestLimits())
        worker.start()
        with pytest.raises(probe_process._Died):
            worker._adopt(probe_process.READY + b"%d 0" % other.pid)
        worker.kill()
        assert other.poll() is None
        other.communicate(b"\n")
        assert other.returncode == 0


@pytest.mark.parametrize(
    ("error", "is_killed"),
    [
        (OSError(errno.EINVAL, ""), False),
        (OSError(errno.ESRCH, ""), False),
        (OverflowError(), False),
        (OSError(errno.ENOSYS, ""), True),
        (AttributeError(), True),
    ],
    ids=repr,
)
def test_a_process_id_identifies_a_process_only_on_an_old_kernel(
    error: Exception, is_killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int) -> int:
        raise error

    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, signal: killed.append(pid))
    monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)
    worker = probe_process.ProbeProcess(Vocabulary.of_bytes(), RequestLimits())
    worker._adopt(probe_process.READY + b"5 0")
    worker.kill()
    assert killed == ([5] if is_killed else [])


def test_every_exit_code_has_a_reason() -> None:
    worker = probe_process.ProbeProcess(Vocabulary.of_bytes(), RequestLimits())
    assert all(str(worker._crash(status)) for status in (-(1 << 70), -500, -32, -11, 0, 1, 255, 1 << 70))


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("json", {"type": "object", "properties": {f"k{i}": {"pattern": r"^\w+$"} for i in range(9)}}),
        ("regex", r"(\w+|\Wx){2,5}"),
        ("choice", ["a", "b"]),
        ("grammar", 'root ::= "(" root ")" | "a"'),
    ],
)
def test_irs_cross_unchanged(kind: Any, spec: Any) -> None:
    ir = constraint_of(kind, spec).lower()
    written = dump_tree(ir)
    assert written is not None and load_tree(written) == as_lists(ir)


def test_the_patterns_of_formats_are_written_once() -> None:
    one, many = (
        dump_tree(
            constraint_of(
                "json",
                {"type": "object", "properties": {f"k{i}": {"format": "idn-email"} for i in range(count)}},
            ).lower()
        )
        for count in (1, 100)
    )
    assert one is not None and many is not None
    assert len(one) > 1_000 and len(many) - len(one) < 99 * 100
