"""RPG: the runs and the tokens that continue them, by enumeration; and the resulting distribution."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import structgen as sg
from structgen.constraints.grammar.constraint import GrammarConstraint
from structgen.errors import OptionError
from structgen.matcher import Matcher
from structgen.models import RPG, DistributionModel, with_processors
from structgen.models.repetition import continued_runs
from structgen.vocabulary import Vocabulary
from tests.core.small_vocabulary import allowed
from tests.oracles import slow_lexer as lexer_twin


def runs_by_trying(sequence: list[int], least_period: int) -> dict[int, int]:
    """Every unit, every beginning of it that may come last, and as many copies before as there are."""
    found: dict[int, int] = {}
    for period, started in itertools.product(range(1, len(sequence) + 1), range(len(sequence))):
        if started >= period or period < least_period:
            continue
        whole = sequence[: len(sequence) - started]
        unit = whole[-period:]
        if len(unit) < period or sequence[len(whole) :] != unit[:started]:
            continue
        if any(
            period % shorter == 0 and unit == unit[:shorter] * (period // shorter)
            for shorter in range(1, period)
        ):
            continue
        copies = 1
        while whole[-period * (copies + 1) : -period * copies] == unit:
            copies += 1
        if copies > 1:
            found[unit[started]] = max(copies, found.get(unit[started], 0))
    return found


@given(st.lists(st.integers(0, 2), max_size=14), st.integers(1, 4))
def test_runs_are_those_that_trying_finds(sequence: list[int], least_period: int) -> None:
    assert continued_runs(sequence, least_period) == runs_by_trying(sequence, least_period)


def test_runs_of_structure() -> None:
    assert continued_runs([7, 1, 2, 3, 1, 2, 3, 1], 3) == {2: 2}
    assert continued_runs([1, 2, 1, 2, 1, 2], 3) == {}
    assert continued_runs([1, 2, 3] * 4 + [5]) == {}


SOURCES = (
    'start: (NAME | KEY NAME | "(" start ")")*\nNAME: /[ab]+/\nKEY: "a"\n%ignore " "',
    'start: pair (";" pair)* ";"?\npair: NAME "=" NAME | "(" pair+ ")"\n'
    'NAME: /[ab]/\n%ignore /\\([ab]\\)/\n%ignore " "',
)


Lexeme = tuple[str, int, int]  # the terminal, where it begins and where it ends


def significant(constraint: GrammarConstraint, text: str) -> list[Lexeme]:
    lexer = constraint.grammar.lexer
    assert lexer is not None
    found = lexer_twin.lexemes(lexer, text)
    assert found is not None
    ends = list(itertools.accumulate(len(one) for _, one in found))
    return [
        (name, end - len(one), end)
        for (name, one), end in zip(found, ends, strict=True)
        if name not in lexer.ignore
    ]


def started(read: list[Lexeme], cut: int, after: int, so_far: list[str]) -> str | None:
    """The terminal that the letters from `cut` to `after` begin, in a text that has just these before the cut."""
    before = [name for name, _, end in read if end <= cut]
    following = read[len(before) :]
    return following[0][0] if before == so_far and following and cut <= following[0][1] < after else None


def vocabulary_of(alphabet: str, seed: int) -> Vocabulary:
    source = random.Random(seed)
    letters = [letter.encode() for letter in alphabet]
    more = {"".join(source.choices(alphabet, k=source.choice((2, 2, 3)))).encode() for _ in range(40)}
    return Vocabulary.from_tokens([None, *letters, *sorted(more)], [0])


@pytest.mark.parametrize("lexer", ["longest", "lark"])
@pytest.mark.parametrize(
    ("source", "alphabet", "longest"), [(SOURCES[0], "ab( )", 7), (SOURCES[1], "ab=();", 8)]
)
def test_terminals_of_a_text_and_tokens_that_begin_one(
    source: str, alphabet: str, longest: int, lexer: str
) -> None:
    """All texts of so many letters tell what may come after each beginning of up to three."""
    constraint = sg.lark(source, lexer=lexer)  # type: ignore[arg-type]
    vocabulary = vocabulary_of(alphabet, 1)
    matcher = Matcher(constraint, vocabulary)
    ids = {vocabulary.decode([token]): token for token in range(1, vocabulary.size)}
    whole: dict[str, list[Lexeme]] = {}
    beginnings = {"": matcher}
    names: dict[int, str] = {}
    queue = [""]
    for text in queue:
        fork = beginnings[text]
        if fork.is_complete():
            whole[text] = significant(constraint, text)
            kinds = [name for name, _, _ in whole[text]]
            ways = [way for way in fork.lexemes() if len(way) == len(kinds)]
            assert ways
            for number, name in zip(ways[0], kinds, strict=True):
                assert names.setdefault(number, name) == name
        for letter in alphabet if len(text) < longest else "":
            further = fork.fork()
            if further.advance(ids[letter.encode()]):
                beginnings[text + letter] = further
                queue.append(text + letter)
    assert len(whole) > 50 and len(set(names.values())) == len(names)
    after_letters: dict[str, list[list[Lexeme]]] = {}
    for text, read in whole.items():
        for length in range(min(len(text), 3) + 1):
            after_letters.setdefault(text[:length], []).append(read)
    asked, reported = 0, 0
    for before, fork in beginnings.items():
        if len(before) > 2:
            continue
        for token in range(1, vocabulary.size):
            after = before + vocabulary.decode([token]).decode()
            if after not in after_letters:
                continue
            for place, numbers in enumerate(fork.lexemes()):
                so_far = [names[number] for number in numbers]
                possible = {started(read, len(before), len(after), so_far) for read in after_letters[after]}
                for number, name in names.items():
                    is_in = token in allowed(fork.beginning(place, number))
                    if possible == {name}:
                        assert is_in, (before, after, name)
                        reported += 1
                    elif name not in possible:
                        assert not is_in, (before, after, name)
                    asked += 1
    assert asked > 150 and reported > 10


LETTERS = Vocabulary.from_tokens([None, *(bytes([letter]) for letter in b"ab=;"), b"=a", b"a="], [0])
LINES = sg.lark('start: (NAME "=" NAME ";")*\nNAME: /[ab]/')


def distribution_after(tokens: list[int], penalty: RPG) -> np.ndarray:
    model = DistributionModel(LETTERS, lambda _: [1 / 7] * 7)
    session = with_processors(model, penalty).start([[0]])
    session.append([tokens])
    return np.exp(session.logits()[0]) * 7


def test_the_probability_of_going_on_is_multiplied_for_each_copy() -> None:
    a, b, equals, semicolon, equals_a, a_equals = range(1, 7)
    line, other = [a, equals, b, semicolon], [b, equals, b, semicolon]
    penalty = RPG(LINES, decay=0.5)
    np.testing.assert_allclose(distribution_after(line, penalty), np.ones(7), rtol=1e-5)
    after = distribution_after([*line, *other], penalty)
    wanted = np.ones(7)
    wanted[[a, b, a_equals]] = 0.5**2
    np.testing.assert_allclose(after, wanted, rtol=1e-5)
    after = distribution_after([*line, *other, *line, b], penalty)
    wanted = np.ones(7)
    wanted[[equals, equals_a]] = 0.5**3
    np.testing.assert_allclose(after, wanted, rtol=1e-5)
    np.testing.assert_allclose(
        distribution_after([*line, *other], RPG(LINES, decay=0.5, least_period=5)), np.ones(7), rtol=1e-5
    )
    np.testing.assert_allclose(
        distribution_after([*line, semicolon, a], penalty), np.ones(7), rtol=1e-5
    )  # no text of it


def test_special_tokens_go_on_with_runs_too() -> None:
    vocabulary = Vocabulary.from_tokens([None, b"a", b";", None], [0], specials={"<|call|>": 3})
    calls = sg.lark('start: ("a" <|call|> ";")*')
    matcher = Matcher(calls, vocabulary)
    assert all(map(matcher.advance, [1, 3, 2, 1, 3, 2, 1]))
    (read,) = matcher.lexemes()
    assert read == read[:3] * 2 + read[:1]
    (following,) = continued_runs(read, 3)
    assert allowed(matcher.beginning(0, following)) == {3}
    assert not allowed(matcher.beginning(0, read[0])) and not allowed(matcher.beginning(1, following))
    assert not allowed(matcher.beginning(0, 1000))


def test_posteriors_and_generations_are_of_the_penalised_distribution() -> None:
    """How many lines come, with an end of probability one fifth: by hand, without a penalty and with one."""
    model = DistributionModel(LETTERS, lambda _: [0.2, 0.8 / 3, 0, 0.8 / 3, 0.8 / 3, 0, 0])
    lines = sg.regex("(a=a;){1,6}")

    def masses(decay: float) -> np.ndarray:
        p = 0.8 / 3
        total, out = 1.0, []
        for count in range(1, 7):
            for _ in range(4):  # each token of the line goes on with the run
                factor = decay ** (count - 1) if count > 2 else 1.0
                total *= p * factor / (1 - p + p * factor)
            # The end is drawn under the penalty, too, where there is a run.
            factor = decay**count if count > 1 else 1.0
            out.append(total * 0.2 / (1 - p + p * factor))
        return np.array(out) / sum(out)

    for decay in (1.0, 0.3):
        drawn = sg.sample(
            with_processors(model, RPG(LINES, decay=decay)), "", lines, n=3000, sampler="exact", seed=2
        )
        counts = np.bincount([text.count(";") for text in drawn], minlength=7)[1:]
        wanted = masses(decay) * 3000
        seen = wanted > 3
        chi = float((((counts - wanted) ** 2)[seen] / wanted[seen]).sum())
        assert chi < 20.5, (decay, counts, wanted)  # five degrees of freedom at most: once in a thousand
    text = sg.generate(with_processors(model, RPG(LINES, decay=1e-9)), "", LINES, seed=3, temperature=1.0)
    assert math.isfinite(len(text)) and text.count(";") <= 3


def test_misuse_is_reported() -> None:
    with pytest.raises(OptionError, match="RPG needs a grammar; this is a str"):
        RPG("start: x")
    for wrong in (0, 1.5, "x", -1):
        with pytest.raises(OptionError, match="decay is"):
            RPG(LINES, decay=wrong)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="window is 0"):
        RPG(LINES, window=0)
    with pytest.raises(OptionError, match="RPG needs a grammar; this is"):
        with_processors(DistributionModel(LETTERS, lambda _: [1 / 7] * 7), RPG(sg.regex("a*"))).start([[0]])
