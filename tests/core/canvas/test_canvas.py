"""Canvases compared with enumeration: verdicts, the mask of every cell, commits, completions.

The enumeration fills cells from the left with the matcher, which other tests compare with an enumeration of texts. All
random grammars have fixed seeds.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pytest

from structgen import _core
from structgen.constraints.grammar.builders import lark
from structgen.vocabulary import Vocabulary
from tests.oracles.chi_squared import critical_value

from ..grammar.test_grammars import EOS, ir_of, random_case, vocabulary
from ..small_vocabulary import allowed

OPEN, GAP = -1, -2
Form = tuple[list[int], list[tuple[int, int]], list[int]]
"""Cells, skips, closing tokens."""

SCANNERLESS = vocabulary("ab(", b"aa", b"ab", b"ba", b"(a", b"a(", b"((", b"aab", b"abab", b"b(a")
LEXED = vocabulary("ab (", b"aa", b"ab", b"(a", b"a(", b" a", b"a ", b"  ", b"a b", b" ab", b"b (")


def canvas(program: Any, form: Form) -> Any:
    return _core.Canvas(_core.CanvasProgram(program), *form, nodes=10_000, bytes=1 << 26)


def fills(program: Any, size: int, form: Form) -> Iterator[tuple[int, ...]]:
    """All ways to fill the cells; a closing token stands for itself, a cell that is skipped is `OPEN`."""
    cells, skips, closing = form
    matcher = _core.Matcher(program)

    def ways(place: int) -> Iterator[tuple[int, ...]]:
        if place == len(cells):
            if matcher.is_complete():
                yield ()
            return
        for start, end in skips:
            if start == place:
                yield from ((OPEN,) * (end - start) + rest for rest in ways(end))
        for token in [cells[place]] if cells[place] != OPEN else range(size):
            if matcher.advance(token):
                if token != EOS:
                    yield from ((token, *rest) for rest in ways(place + 1))
                matcher.rollback(1)
        if closing and matcher.is_complete():
            yield from closings(place)

    def closings(place: int) -> Iterator[tuple[int, ...]]:
        if place == len(cells):
            yield ()
            return
        for token in closing:
            if cells[place] in (OPEN, token):
                yield from ((token, *rest) for rest in closings(place + 1))

    yield from ways(0)


def satisfiable(name: str, lexing: str, seed: int) -> Iterator[tuple[random.Random, Any, Any, Any]]:
    """Random grammars that have a text: chance, vocabulary, case and program."""
    rng = random.Random(f"{name} {lexing} {seed}")
    known = SCANNERLESS if lexing == "scannerless" else LEXED
    while True:
        case = random_case(rng, lexing)
        program = known.engine.compile(case.ir)
        if program.empty_parts() is None:
            yield rng, known, case, program


def masks_of(found: Sequence[tuple[int, ...]], count: int) -> list[set[int]]:
    return [{one[place] for one in found} - {OPEN} for place in range(count)]


def random_form(rng: random.Random, size: int) -> Form:
    cells = [OPEN if rng.random() < 0.65 else rng.randrange(1, size) for _ in range(rng.randint(1, 4))]
    skips = []
    if rng.random() < 0.3:  # a hole of up to so many cells
        first = rng.randrange(len(cells))
        end = rng.randint(first + 1, len(cells))
        for place in range(first, end):
            cells[place] = OPEN
            skips.append((place, end))
    return cells, skips, [EOS] if rng.random() < 0.3 else []


@pytest.mark.parametrize("lexing", ["scannerless", "longest", "ordered"])
@pytest.mark.parametrize("seed", range(12))
def test_random_canvases(lexing: str, seed: int) -> None:
    rng = random.Random(f"canvas {lexing} {seed}")
    known = SCANNERLESS if lexing == "scannerless" else LEXED
    completed = 0
    for _ in range(25):
        case = random_case(rng, lexing)
        program = known.engine.compile(case.ir)
        for _ in range(4):
            form = random_form(rng, known.size)
            found = set(fills(program, known.size, form)) if program.empty_parts() is None else set()
            held = canvas(program, form)
            assert held.completable() == bool(found), (case, form)
            expected = masks_of(sorted(found), len(form[0]))
            out = np.zeros((len(form[0]), (known.size + 31) // 32), np.int32)
            held.masks(out)
            assert [allowed(row) for row in out] == expected, (case, form)
            completed += bool(found)
            if found:
                check_completion(held, form, found)
                check_commits(held, form, found, rng)
    assert completed > 20


def test_tokens_of_thousands_of_lexemes_need_no_deep_stack() -> None:
    known = vocabulary("ab", b"a" * 3000, b"ab" * 1500)
    program = known.engine.compile(ir_of("longest", ["a", "b"], [], ((0, ~0, 0), (0, ~1, 0), (0,))))
    found: list[Any] = []

    def look() -> None:
        out = np.zeros((1, 1), np.int32)
        canvas(program, ([OPEN], [], [])).masks(out)
        found.append(allowed(out[0]))

    before = threading.stack_size(1 << 18)
    try:
        thread = threading.Thread(target=look)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert found == [{1, 2, 3, 4}]


def test_charts_of_thousands_of_positions_meet_a_limit_on_work() -> None:
    known = vocabulary("ab", b"a" * 3000, b"ab" * 1500)
    program = known.engine.compile(ir_of("longest", ["a", "b"], [], ((0, ~0, 0), (0, ~1, 0), (0,))))
    form: Form = ([OPEN] * 3, [], [])
    out = np.zeros((3, 1), np.int32)
    begin = time.process_time()
    with pytest.raises(_core.LimitError, match="canvas_words"):
        _core.Canvas(_core.CanvasProgram(program), *form, 20_000, 1 << 30, 5_000_000).masks(out)
    assert time.process_time() - begin < 20


def test_best_and_drawn_completions_meet_a_limit_on_work() -> None:
    known = vocabulary("ab", b"a" * 300, b"ab" * 150)
    program = _core.CanvasProgram(
        known.engine.compile(ir_of("longest", ["a", "b"], [], ((0, 0, 0), (0, ~0), (0, ~1))))
    )
    form: Form = ([OPEN] * 3, [], [])
    log_p = np.zeros((3, known.size), np.float32)
    out = np.zeros((3, 1), np.int32)
    _core.Canvas(program, *form, 20_000, 1 << 30, 30_000_000).masks(out)
    held = _core.Canvas(program, *form, 20_000, 1 << 30, 30_000_000)
    begin = time.process_time()
    for ask in (lambda: held.best(log_p), lambda: held.draw(log_p, 1)):
        with pytest.raises(_core.LimitError, match="canvas_words"):
            ask()
    assert time.process_time() - begin < 20


def test_the_work_of_reading_a_canvas_is_limited() -> None:
    keywords = [f"k{i}z" for i in range(200)]
    known = Vocabulary.from_tokens([None, *(word.encode() for word in keywords)], [0])
    source = "start: (" + " | ".join(f'"{word}"' for word in keywords) + ")+"
    program = _core.CanvasProgram(known.engine.compile(lark(source, lexer="longest").lower()))
    cells = [OPEN] * 1500
    with pytest.raises(_core.LimitError, match="canvas_bytes"):
        _core.Canvas(program, cells, [], [], 20_000, 40 << 20).completable()
    with pytest.raises(_core.LimitError, match="canvas_words"):
        _core.Canvas(program, cells, [], [], 20_000, 1 << 30, 1000).completable()


def test_results_after_a_limit_equal_those_without_one() -> None:
    source = """
        start: (IF | NAME | NUM | C | "(" start ")")+
        IF: "if"
        NAME: /[a-z]+(foo|bar|baz)[0-9]{2,9}/
        NUM: /[0-9]+([.][0-9]{1,12})?/
        C: /\\/[*]([^*]|[*][^\\/])*[*]\\//
    """
    tokens = [
        None,
        *(bytes([b]) for b in range(40, 127)),
        b"ab",
        b"abfoo",
        b"if(",
        b"a/*b",
        b"*/a",
        b"/*",
        b"foo12",
        b"aabarfoo123b",
    ]
    known = Vocabulary.from_tokens(tokens, [0])
    plan = lark(source, lexer="longest").lower()
    forms = [[OPEN] * 3, [len(tokens) - 1, OPEN, OPEN, OPEN], [OPEN, len(tokens) - 2, OPEN]]

    def masks(program: Any, cells: list[int]) -> Any:
        out = np.zeros((len(cells), known.words), np.int32)
        _core.Canvas(program, cells, [], [], 20_000, 1 << 28).masks(out)
        return out

    free = _core.CanvasProgram(known.engine.compile(plan))
    right = [masks(free, cells) for cells in forms]
    met = 0
    for states in range(5, 60):
        try:
            program = _core.CanvasProgram(known.with_limits(automaton_states=states).engine.compile(plan))
        except _core.LimitError:
            continue
        for cells, wanted in zip(forms * 3, right * 3, strict=True):
            try:
                assert (masks(program, cells) == wanted).all(), (states, cells)
            except _core.LimitError:
                met += 1
    assert met > 20


def check_completion(held: Any, form: Form, found: set[tuple[int, ...]]) -> None:
    completion = held.completion()
    assert completion is not None
    if not form[1]:
        ended = tuple(EOS if one == -1 else one for one in completion)
        assert ended in found, form


def check_commits(held: Any, form: Form, found: set[tuple[int, ...]], rng: random.Random) -> None:
    """Tokens one after the other, also some that cannot stand there."""
    held = held.copy()
    cells = list(form[0])
    order = [place for place, cell in enumerate(cells) if cell == OPEN]
    rng.shuffle(order)
    for place in order:
        if not (here := sorted({one[place] for one in found} - {OPEN})):
            continue
        for token in rng.sample(range(max(max(here), 12)), 3):
            assert held.copy().commit(place, token) == (token in here), (form, place, token)
        token = rng.choice(here)
        assert held.commit(place, token)
        found = {one for one in found if one[place] == token}
    assert held.completable()


@pytest.mark.parametrize("lexing", ["scannerless", "longest"])
@pytest.mark.parametrize("seed", range(8))
def test_random_gaps(lexing: str, seed: int) -> None:
    """A gap is any number of tokens: as many as three, here, which grammars this small do not go beyond."""
    for rng, known, case, program in islice(satisfiable("gaps", lexing, seed), 10):
        cells = [rng.choice([OPEN, rng.randrange(1, known.size)]) for _ in range(rng.randint(0, 2))]
        gap = rng.randint(0, len(cells))
        held = canvas(program, ([*cells[:gap], GAP, *cells[gap:]], [], []))
        found: list[tuple[int, ...]] = []
        expected: list[set[int]] = [set() for _ in range(len(cells) + 1)]
        for more in range(5):
            wide = ([*cells[:gap], *[OPEN] * more, *cells[gap:]], [], [])
            for one in fills(program, known.size, wide):
                found.append(one)
                for place, token in enumerate(one):
                    at = place if place < gap else gap if place < gap + more else place - more + 1
                    expected[at].add(token)
            if more >= 2 and sum(len(one) == len(cells) + more for one in found) > 30_000:
                break
        assert held.completable() == bool(found), (case, cells, gap)
        out = np.zeros((len(cells) + 1, (known.size + 31) // 32), np.int32)
        held.masks(out)
        for place, row in enumerate(out):
            assert expected[place] <= allowed(row), (case, cells, gap, place)
        # Each token that the mask allows in addition to the enumerated ones can be continued.
        for place, row in enumerate(out):
            if place != gap:
                for token in allowed(row) - expected[place]:
                    wider = [*cells[:gap], GAP, *cells[gap:]]
                    wider[place] = token
                    assert canvas(program, (wider, [], [])).completable()


def weights(rng: random.Random, count: int, size: int) -> Any:
    p = np.array([[rng.random() ** 3 + 1e-3 for _ in range(size)] for _ in range(count)])
    return np.ascontiguousarray(np.log(p / p.sum(1, keepdims=True)).astype(np.float32))


def log_weight(one: Sequence[int], cells: Sequence[int], log_p: Any) -> float:
    return sum(
        float(log_p[place, token])
        for place, (token, cell) in enumerate(zip(one, cells, strict=True))
        if token != OPEN and cell == OPEN
    )


@pytest.mark.parametrize("lexing", ["scannerless", "longest", "ordered"])
@pytest.mark.parametrize("seed", range(8))
def test_best_completions(lexing: str, seed: int) -> None:
    completed = 0
    for rng, known, case, program in islice(satisfiable("best", lexing, seed), 20):
        form = random_form(rng, known.size)
        log_p = weights(rng, len(form[0]), known.size)
        found = {one: log_weight(one, form[0], log_p) for one in fills(program, known.size, form)}
        best = canvas(program, form).best(log_p)
        assert (best is not None) == bool(found)
        if best is not None:
            completed += 1
            tokens, value = best
            assert value == pytest.approx(max(found.values()), abs=1e-4), (case, form)
            assert found[tuple(tokens)] == pytest.approx(value, abs=1e-4)
    assert completed > 3


@pytest.mark.slow
@pytest.mark.parametrize("lexing", ["scannerless", "longest"])
@pytest.mark.parametrize("seed", range(4))
def test_drawn_completions_have_the_distribution_of_the_model(lexing: str, seed: int) -> None:
    """Chi-squared over all canvases of a test together; each fails by chance once in 10,000 runs."""
    statistic, freedom = 0.0, 0
    for rng, known, _, program in satisfiable("distribution", lexing, seed):
        if freedom >= 60:
            break
        form = random_form(rng, known.size)
        log_p = weights(rng, len(form[0]), known.size)
        expected = {one: np.exp(log_weight(one, form[0], log_p)) for one in fills(program, known.size, form)}
        if not 2 <= len(expected) <= 60:
            continue
        held, draws = canvas(program, form), 1_000
        try:
            counts = Counter(tuple(held.draw(log_p, rng.getrandbits(60))[0]) for _ in range(draws))
        except _core.LimitError:  # too many derivations of one text
            continue
        assert counts.keys() <= expected.keys()
        total = sum(expected.values())
        rare, rare_count = 0.0, 0
        classes = 0
        for one, weight in expected.items():
            expected = draws * weight / total
            if expected < 5:
                rare, rare_count = rare + expected, rare_count + counts[one]
                continue
            statistic += (counts[one] - expected) ** 2 / expected
            classes += 1
        if rare >= 5:
            statistic += (rare_count - rare) ** 2 / rare
            classes += 1
        freedom += max(0, classes - 1)
    assert statistic < critical_value(freedom), (statistic, freedom)
