"""The native core under all inputs it may get: constraints unchanged and altered, odd vocabularies, odd calls.

The front ends make well-formed trees and the matcher makes sensible calls. The core must not rely on either; under
AddressSanitizer and UBSan (`.ci/sanitize`) each fault becomes visible. An input is JSON: ``{"kind": "schema", "source":
"...", "alter": 3, "vocabulary": 1, "limits": {...}, "walk": 5}``, so that it can be kept, altered and reduced like the
others. `alter` 0 leaves the tree unchanged; numbers are seeds.

Invariant: the core returns, or raises `LimitError`, or `ValueError` on a malformed tree or argument; nothing else.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from structgen import _core
from structgen.constraints.base import IR, Constraint
from structgen.constraints.grammar.builders import ebnf, gbnf, lark
from structgen.constraints.json_schema import json_schema
from structgen.constraints.regex import regex
from structgen.errors import OptionError

__all__ = ["KINDS", "check_core"]

KINDS: dict[str, Callable[[str], Constraint]] = {
    "schema": json_schema,
    "regex": regex,
    "lark": lark,
    "gbnf": gbnf,
    "ebnf": ebnf,
}
_JUNK: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, -3, 300, 2**31, -(2**31), 2**32, 2**63, 2**80, 1.5, "", "a", "text", "regex",
    "special", "\ud800", b"a", (), (0,), (0, 0), ((),), [], {}, ("literal", "a"), ("empty",), ("class", ()),
    ("repeat", ("literal", "a"), 2, 1), ("regex", ("empty",)), ("union", ()), ("class", ((0, 0x10FFFF),)),
]  # fmt: skip
_TEXTS = (
    b"",
    b"a",
    b"{",
    b'{"',
    b"[1,",
    b'"\\',
    b'"\\ud8',
    b"\xff",
    b"\xc3",
    b"\n\t",
    b"e9",
    b"-0.",
    b"ab" * 40,
)
_BYTES = b'{}[]":,ab01e.-\\u \n\xc3\xa9\xf0\x9f'
_CALLS = 60


def check_core(text: str, stage: Callable[[str], None]) -> None:
    """One input of target core; an input of another form is refused with `OptionError`."""
    stage("read")
    try:
        case = json.loads(text)
        kind, source = KINDS[case["kind"]], str(case["source"])
        alter, choice, walk = (int(case.get(name, 0)) for name in ("alter", "vocabulary", "walk"))
        limits = {str(name): int(value) for name, value in dict(case.get("limits", {})).items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise OptionError("not an input of target core") from None
    rng = random.Random(walk)
    _apart(source, rng)
    tree: IR = kind(source).lower()
    if alter:
        tree = altered(tree, random.Random(alter))
    stage("compile")
    try:
        engine = _engine(choice, limits)
        program = engine.compile(tree)
        program.empty_parts(), program.shortest(), program.memory, engine.memory
        stage("walk")
        _drive(program, rng)
        stage("canvas")
        _canvas(program, rng)
    except _core.LimitError:
        return
    except ValueError:
        if not alter:
            raise


def _apart(source: str, rng: random.Random) -> None:
    """Call the parts of the core that are not constraints: readers of Lark, number languages."""
    for imports in (False, True):
        _core.read_lark(source, imports)
        _core.read_lark_module(source, -1)
    plain = _core.PlainLark.read(source)
    if plain is not None:
        _ = plain.terminals, plain.imports, plain.literals
    numbers = [
        "0",
        "-1.5",
        "1e3",
        "0.1",
        "7",
        "99999999999999999999",
        "1e-7",
        source[:12].encode("ascii", "replace").decode(),
    ]
    machine = _core.NumberMachine(max_exponent=rng.choice([3, 400]), max_fraction=rng.choice([2, 16]))
    try:
        state = machine.language(
            minimum=rng.choice([None, *numbers]),
            exclusive_maximum=rng.choice([None, *numbers]),
            multiple_of=rng.choice([None, None, *numbers]),
            integer=rng.random() < 0.5,
        )
        for byte in rng.choice([b"-12.5e-3", b"100000", b"0.30", source[:9].encode("utf-8", "replace")]):
            state = machine.step(state, byte)
            machine.accepts(state), machine.alive(state)
    except (ValueError, _core.LimitError):
        return


def _engine(choice: int, limits: dict[str, int]) -> _core.Engine:
    rng = random.Random(choice)
    tokens: list[bytes | None] = [bytes([byte]) for byte in range(256) if choice % 3 or rng.random() < 0.7]
    tokens += [bytes(rng.choices(_BYTES, k=rng.randint(1, 7))) for _ in range(rng.randint(0, 200))]
    if rng.random() < 0.2:
        tokens.append(b"a" * rng.randint(100, 3000))
    tokens += [None, None]
    size = len(tokens) + rng.choice([0, 0, 3, 40])
    ends = [len(tokens) - 1] if rng.random() < 0.9 else []
    vocabulary = _core.Vocabulary(tokens, ends, size, {"<x>": len(tokens) - 2})
    known = {"automaton_states": 5_000, "oracle_budget": 5_000, "emptiness_budget": 5_000, **limits}
    return _core.Engine(vocabulary, known)


def _drive(program: _core.Program, rng: random.Random) -> None:
    matchers = [_core.Matcher(program)]
    words = len(matchers[0].mask())
    for _ in range(_CALLS):
        matcher = rng.choice(matchers)
        text = rng.choice(_TEXTS)
        match rng.randrange(15):
            case 0 | 1 | 2 | 3:
                bits = np.flatnonzero(np.unpackbits(matcher.mask().view(np.uint8), bitorder="little"))
                if len(bits):
                    matcher.advance(int(rng.choice(bits)))
            case 4:
                matcher.advance(rng.choice([0, 5, words * 32 - 1, words * 32, 2**31 - 1]))
            case 5:
                matcher.rollback(rng.randint(0, len(matcher.tokens)))
            case 6 if len(matchers) < 8:
                matchers.append(matcher.fork())
            case 7:
                matcher.forced(rng.randint(0, 40)), matcher.forced_bytes(rng.randint(0, 40))
            case 8:
                matcher.witness(text, rng.random() < 0.5), matcher.witness_tokens(), matcher.least_tokens(20)
            case 9:
                matcher.viable_bytes(text), matcher.next_bytes(text), matcher.key_offers(text)
            case 10:
                matcher.describe(text)
            case 11:
                matcher.accepts([rng.randrange(words * 32) for _ in range(5)])
            case 12:
                for index, terminals in enumerate(matcher.lexemes()):
                    for terminal in terminals[:3]:
                        matcher.beginning(index, terminal)
            case 13:
                out = np.zeros((len(matchers), words), np.int32)
                _core.fill_masks(matchers, out, rng.randint(1, 3))
                matcher.allowed_count(), matcher.is_complete(), matcher.must_stop, matcher.is_dead
            case _:
                matcher.reset() if rng.random() < 0.2 else matcher.begin(text)


def _canvas(program: _core.Program, rng: random.Random) -> None:
    length, words = rng.randint(1, 12), len(_core.Matcher(program).mask())
    cells = [-1 if rng.random() < 0.8 else rng.randrange(-2, 40) for _ in range(length)]
    skips = [(0, length)] if rng.random() < 0.2 else []
    try:
        canvas = _core.Canvas(_core.CanvasProgram(program), cells, skips, [], 20_000, 1 << 26, 50_000_000)
    except (ValueError, IndexError):  # a constraint that canvases do not take, tokens that are not there
        return
    out = np.zeros((length, words), np.int32)
    canvas.masks(out)
    for cell in range(length):
        bits = np.flatnonzero(np.unpackbits(out[cell].view(np.uint8), bitorder="little"))
        if cells[cell] == -1 and len(bits):
            canvas.commit(cell, int(rng.choice(bits)))
            canvas.completion()
            if rng.random() < 0.3:
                canvas.copy().reopen(cell)


def altered(tree: Any, rng: random.Random) -> Any:
    """Return the tree with one to four parts replaced, removed or inserted."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        known = list(_places(tree))
        path = rng.choice(known[1:] or known)
        value = _at(tree, rng.choice(known)) if rng.random() < 0.4 else rng.choice(_JUNK)
        part = _at(tree, path)
        if isinstance(part, tuple) and part and rng.random() < 0.3:
            at = rng.randrange(len(part))
            value = part[:at] + part[at + 1 :] if rng.random() < 0.5 else (*part[:at], value, *part[at:])
        elif isinstance(part, int) and rng.random() < 0.5:
            value = part + rng.choice([-2, -1, 1, 2])
        tree = _with(tree, path, value)
    return tree


def _places(tree: Any, most: int = 3_000) -> Iterator[tuple[Any, ...]]:
    """Yield the paths to the parts of a tree, at most `most`."""
    todo: list[tuple[tuple[Any, ...], Any]] = [((), tree)]
    for _ in range(most):
        if not todo:
            return
        path, part = todo.pop()
        yield path
        if isinstance(part, dict):
            todo += [((*path, key), child) for key, child in part.items()]
        elif isinstance(part, (tuple, list)):
            todo += [((*path, at), child) for at, child in enumerate(part)]


def _at(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _with(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    if isinstance(tree, dict):
        return {**tree, path[0]: _with(tree[path[0]], path[1:], value)}
    parts = list(tree)
    parts[path[0]] = _with(parts[path[0]], path[1:], value)
    return type(tree)(parts)
