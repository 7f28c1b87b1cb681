"""Draft models, with the vocabulary of the model or another: the same tokens, and fewer passes where they are right."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import structgen as sg
from structgen.errors import OptionError, VocabularyMismatch
from structgen.generation import Generation, SamplingOptions, generate_tokens
from structgen.matcher import Matcher
from structgen.speculative.controllers import Costs, Fixed
from structgen.speculative.drafters import Context, Start
from structgen.speculative.guarded import SpeculationWarning
from structgen.speculative.model_drafters import DraftModel
from structgen.speculative.speculation import Speculation
from structgen.speculative.verifiers import Recursive, Rejection, Verifier
from structgen.vocabulary import Vocabulary
from tests.inference.toys import random_distribution
from tests.oracles.chi_squared import critical_value
from tests.oracles.naive_matcher import NaiveMatcher, NaiveVocabulary
from tests.oracles.toy_model import Distribution, ToyModel, ToySession

from .exact_texts import MODEL, chi_squared, texts
from .exact_texts import VOCABULARY as FEW

LETTERS = [b"a", b"b", b"c", b"d", b"ab", b"abc", b"cd", b"dd", None]
END = len(LETTERS) - 1
VOCABULARY = Vocabulary.from_tokens(LETTERS, [END])
NAIVE = NaiveVocabulary(LETTERS, [END])


class Whole(ToyModel):
    """A model whose distribution depends on all tokens, also those of the prompt; it reads no more than it may."""

    def start(self, prompts: Sequence[Sequence[int]]) -> ToySession:
        session = WholeSession(self, prompts)
        session.rows = [(tokens, 0) for tokens, _ in session.rows]
        return session


class WholeSession(ToySession):
    def append(self, tokens: Sequence[Sequence[int]]) -> None:
        super().append(tokens)
        longest = self.model.context_length
        assert longest is None or all(len(held) <= longest for held, _ in self.rows)


class Even(Costs):
    """No pass is cheaper for being longer."""

    def padded(self, rows: int, tokens: int) -> int:
        return tokens


def peaked(seed: int, sharpness: float = 6.0) -> Distribution:
    """A random distribution, mostly with a likely token, which rarely ends a text."""
    inner = random_distribution(seed, len(LETTERS))

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        p = np.array(inner(tokens)) ** sharpness
        p[END] *= 0.01
        return list(p / p.sum())

    return distribution


def speculating(drafter: Any, verifier: Verifier | None = None, **options: Any) -> Speculation:
    speculation = Speculation([drafter], verifier, Fixed(5), **options)
    speculation.costs = Even()
    return speculation


PROMPTS = [[0, 1, 2], [3], [1, 1]]


def drawn(model: ToyModel, temperature: float, drafting: Any = None, most: int = 24) -> list[Generation]:
    """A constrained row, a free one, and one that goes back from dead ends."""
    dead = [b"ab" + bytes([letter]) * 6 for letter in b"abcd"]
    matchers = [
        Matcher(sg.regex("[abc]{2,9}d(ab|cd){1,9}"), VOCABULARY),
        None,
        NaiveMatcher([b"ab", b"abc", b"ba", b"cddd"], NAIVE, dead),
    ]
    options = [
        SamplingOptions(temperature=temperature, seed=(5, row), max_tokens=most, forced=row > 0)
        for row in range(3)
    ]
    return generate_tokens(model, PROMPTS, matchers, options, drafting=drafting)


def same(found: Sequence[Generation], plain: Sequence[Generation]) -> None:
    for one, other in zip(found, plain, strict=True):
        assert (one.tokens, one.finish, one.retries) == (other.tokens, other.finish, other.retries)
        assert one.logprob == pytest.approx(other.logprob)


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("temperature", [0, 0.7, 1.5])
@pytest.mark.parametrize("draft", [1, 2])
def test_the_same_tokens_with_a_draft_model(draft: int, temperature: float, branching: bool) -> None:
    retries = accepted = 0
    for seed in range(4):
        model = Whole(VOCABULARY, lambda tokens, seed=seed: peaked(seed, 2)(tokens))
        other = Whole(VOCABULARY, peaked(seed if draft == 1 else seed + 1, 2))
        plain = drawn(model, temperature)
        speculation = speculating(DraftModel(other, least=0.05), branching=branching)
        same(drawn(model, temperature, speculation.start(model)), plain)
        retries += sum(one.retries for one in plain)
        accepted += speculation.counts["accepted"]
    assert accepted > 10 and (retries > 0 or not temperature)


@pytest.mark.parametrize("temperature", [0, 0.7])
def test_a_draft_model_that_is_the_model_is_right(temperature: float) -> None:
    model, draft = Whole(VOCABULARY, peaked(11)), Whole(VOCABULARY, peaked(11))
    options = SamplingOptions(temperature=temperature, seed=6, max_tokens=60)
    (plain,) = generate_tokens(model, [[0]], [None], options)
    before, model.forward_passes = model.forward_passes, 0
    speculation = speculating(DraftModel(draft, most=5, least=0.0, width=1))
    (found,) = generate_tokens(model, [[0]], [None], options, drafting=speculation.start(model))
    same([found], [plain])
    assert found.accepted_tokens > 0
    if temperature == 0:
        assert len(found.tokens) == 60
        assert found.accepted_tokens == found.drafted_tokens
        assert model.forward_passes < before / 3
    assert draft.forward_passes <= len(found.tokens) + 4 * model.forward_passes, "what is known is read once"


@pytest.mark.parametrize(("own", "drafts"), [(9, 12), (12, 9)])
def test_vocabularies_that_are_padded_otherwise_are_the_same(own: int, drafts: int) -> None:
    """As with models of one family, whose output layers are rounded to other sizes."""

    def made(size: int) -> Whole:
        vocabulary = Vocabulary.from_tokens([*LETTERS, *[None] * (size - len(LETTERS))], [END])
        distribution = peaked(11)
        return Whole(vocabulary, lambda tokens: [*distribution(tokens), *[0.0] * (size - len(LETTERS))])

    model, draft = made(own), made(drafts)
    options = SamplingOptions(temperature=0.7, seed=6, max_tokens=60)
    (plain,) = generate_tokens(model, [[0]], [None], options)
    for verifier in (None, Rejection()):
        speculation = speculating(DraftModel(draft, least=0.0, width=1), verifier)
        (found,) = generate_tokens(model, [[0]], [None], options, drafting=speculation.start(model))
        assert found.accepted_tokens > found.drafted_tokens / 2
        if verifier is None:
            same([found], [plain])
    with pytest.raises(VocabularyMismatch, match="another vocabulary"):
        DraftModel(Whole(Vocabulary.from_tokens([*LETTERS, b"q"], [END]), peaked(1))).start(
            Start([], model.vocabulary)
        )


def test_drafts_end_where_the_draft_model_takes_no_more() -> None:
    model, draft = Whole(VOCABULARY, peaked(3)), Whole(VOCABULARY, peaked(3), context_length=12)
    plain = drawn(model, 0)
    speculation = speculating(DraftModel(draft, least=0.0))
    same(drawn(model, 0, speculation.start(model)), plain)
    assert speculation.counts["accepted"] > 0
    longer = speculating(DraftModel(Whole(VOCABULARY, peaked(3)), least=0.0))
    drawn(model, 0, longer.start(model))
    assert longer.counts["accepted"] > speculation.counts["accepted"]
    short = speculating(DraftModel(Whole(VOCABULARY, peaked(3), context_length=1)))
    same(drawn(model, 0, short.start(model), most=6), drawn(model, 0, most=6))


def failing(distribution: Distribution, after: int) -> Distribution:
    def reported(tokens: tuple[int, ...]) -> Any:
        if len(tokens) > after:
            raise RuntimeError("out of memory")
        return distribution(tokens)

    return reported


@pytest.mark.parametrize("verifier", [None, Rejection()])
@pytest.mark.parametrize("after", [0, 8])
def test_a_draft_model_that_fails_is_left_out_with_a_warning(after: int, verifier: Verifier | None) -> None:
    model = Whole(VOCABULARY, peaked(3))
    speculation = speculating(DraftModel(Whole(VOCABULARY, failing(peaked(3), after))), verifier)
    with warnings.catch_warnings(record=True) as reported:
        warnings.simplefilter("always")
        found = drawn(model, 0, speculation.start(model))
    same(found, drawn(model, 0))
    assert {one.category for one in reported} == {SpeculationWarning}
    assert "the drafter DraftModel failed and is left out: RuntimeError: out of memory" in str(
        reported[0].message
    )
    assert (speculation.counts["accepted"] > 0) == (after > 0)


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("verifier", [Rejection(), Recursive()], ids=lambda one: type(one).__name__)
def test_texts_have_the_plain_distribution(verifier: Verifier, branching: bool) -> None:
    """Compare 2,000 texts by chi-squared. With random seeds, a correct verifier would fail once in 10,000 runs."""
    drafter = DraftModel(ToyModel(FEW, random_distribution(3, 6)), least=0.0)
    speculation = Speculation([drafter], verifier, Fixed(4), branching=branching, depth=3)
    statistic, freedom = chi_squared(texts(speculation))
    assert statistic < critical_value(freedom) and speculation.counts["accepted"] > 500
    assert MODEL.vocabulary is FEW


# -- another vocabulary

TEXT = "the café → abc 😀😀 déjà vu, the end of the thé" * 2
PIECES = [
    *(bytes([i]) for i in range(256)),
    *(
        word.encode()
        for word in ("the ", "caf", "é", "é ", "→", "😀", "abc ", "th", "à vu", "end of ", "déj")
    ),
    None,
]


def greedy(text: str) -> list[int]:
    """The longest pieces first."""
    data, found = text.encode(), []
    while data:
        token = max(
            (i for i, piece in enumerate(PIECES) if piece and data.startswith(piece)),
            key=lambda i: len(PIECES[i] or b""),
        )
        found.append(token)
        data = data[len(PIECES[token] or b"") :]
    return found


MANY = Vocabulary(PIECES, [len(PIECES) - 1], encoder=greedy)
BYTES = Vocabulary.of_bytes()


def writes(vocabulary: Vocabulary, encode: Callable[[str], list[int]], sure: float = 0.999) -> Distribution:
    """Most probably goes on with `TEXT`, whichever tokens it came in."""
    whole = TEXT.encode()

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        p = np.random.default_rng([1, *tokens[-2:]]).dirichlet(np.ones(vocabulary.size)) * (1 - sure)
        text = vocabulary.decode(tokens)
        here = whole[len(text) :] if whole.startswith(text) else whole[:5]
        rest = here.decode("utf-8", "ignore") if here[:1] < b"\x80" or here[:1] >= b"\xc0" else ""
        if not here:
            p[vocabulary.eos_ids[0]] += sure
        else:
            p[encode(rest)[0] if rest else here[0]] += sure
        return list(p)

    return distribution


WRITER = Whole(MANY, writes(MANY, greedy))
DRAFT = Whole(BYTES, writes(BYTES, lambda text: list(text.encode())))


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("temperature", [0, 0.7, 1.5])
def test_the_same_tokens_with_another_vocabulary(temperature: float, branching: bool) -> None:
    prompts = [greedy("the caf"), greedy("the café → abc 😀"), [0xF0, 0x9F]]
    options = SamplingOptions(temperature=temperature, seed=4, max_tokens=40)

    def made(drafting: Any = None) -> list[Generation]:
        matchers = [None, Matcher(sg.regex("[^q]*"), MANY), None]
        return generate_tokens(WRITER, prompts, matchers, options, drafting=drafting)

    plain = made()
    for verifier in (None, Rejection()) if not temperature else (None,):
        speculation = speculating(DraftModel(DRAFT, most=8), verifier, branching=branching)
        found = made(speculation.start(WRITER))
        if verifier is None:  # others draw from the map's distribution: test_vocabulary_map
            same(found, plain)
        assert speculation.counts["accepted"] > 5


@pytest.mark.parametrize("most", [3, 8])
def test_a_draft_model_of_bytes_saves_passes(most: int) -> None:
    options = SamplingOptions(temperature=0, max_tokens=100)
    (plain,) = generate_tokens(WRITER, [greedy("the ")], [None], options)
    assert "the " + plain.text == TEXT
    before, WRITER.forward_passes = len(plain.tokens), 0
    speculation = speculating(DraftModel(DRAFT, most=most))
    (found,) = generate_tokens(WRITER, [greedy("the ")], [None], options, drafting=speculation.start(WRITER))
    same([found], [plain])
    assert WRITER.forward_passes < before / (1.4 if most == 3 else 2.5)


def test_what_is_drafted_goes_on_where_the_text_ends() -> None:
    reader = DraftModel(DRAFT, most=7).start(Start([], MANY))
    whole = TEXT.encode()
    silent = 0
    for end in [*range(1, len(whole)), 40, 20, 60, 5]:  # back again, too
        tokens = list(whole[:end])
        guesses = list(reader.propose(Context(tokens, None, MANY)))
        try:
            whole[:end].decode()
        except UnicodeDecodeError:
            assert not guesses  # half a character cannot be tokenized
            silent += 1
            continue
        (guess,) = guesses
        text = MANY.decode(guess.tokens)
        assert whole[end:].startswith(text) and len(text) >= min(4, len(whole) - end)
    assert silent > 10


def test_draft_models_that_cannot_read_the_text() -> None:
    options = SamplingOptions(temperature=0, max_tokens=5)
    mute = Whole(
        Vocabulary.from_tokens(PIECES[:256] + [None], [256]), writes(BYTES, lambda text: list(text.encode()))
    )
    for model, draft in (
        (WRITER, Whole(VOCABULARY, peaked(3))),
        (Whole(VOCABULARY, peaked(3)), DRAFT),
        (WRITER, mute),
    ):
        drafting = speculating(DraftModel(draft)).start(model)
        with pytest.raises(VocabularyMismatch, match="another vocabulary") as reported:
            generate_tokens(model, [[0]], [None], options, drafting=drafting)
        assert "tokenizer" in str(reported.value)
    with pytest.raises(OptionError, match="a draft model is a structgen model; this is a str"):
        DraftModel("small")


def test_a_window_bounds_what_the_draft_model_holds() -> None:
    """The texts are the same; no session holds more than the first tokens and one and a half windows."""
    held: list[int] = []

    class Bounded(Whole):
        def start(self, prompts: Sequence[Sequence[int]]) -> ToySession:
            session = super().start(prompts)
            inner = session.append

            def noted(tokens: Sequence[Sequence[int]]) -> None:
                inner(tokens)
                held.append(len(session.rows[0][0]))

            session.append = noted  # type: ignore[method-assign]
            held.append(len(session.rows[0][0]))
            return session

    model = Whole(VOCABULARY, peaked(3))
    options = SamplingOptions(seed=1, max_tokens=60)
    (plain,) = generate_tokens(model, [[0, 1, 2]], [None], options)
    assert len(plain.tokens) > 40
    drafter = DraftModel(Bounded(VOCABULARY, peaked(3)), window=8)
    speculation = speculating(drafter)
    (found,) = generate_tokens(model, [[0, 1, 2]], [None], options, drafting=speculation.start(model))
    assert found.tokens == plain.tokens
    assert 8 < max(held) <= 4 + 8 + 4
    assert found.drafted_tokens > 0


def test_a_long_window_drafts_as_without_one() -> None:
    model = Whole(VOCABULARY, peaked(3))
    options = SamplingOptions(seed=1, max_tokens=40)
    found = [
        generate_tokens(
            model,
            [[0, 1, 2]],
            [None],
            options,
            drafting=speculating(DraftModel(Whole(VOCABULARY, peaked(3)), window=window)).start(model),
        )[0]
        for window in (None, 100)
    ]
    assert found[0].tokens == found[1].tokens
    assert found[0].accepted_tokens == found[1].accepted_tokens > 0


def test_rows_beyond_the_memory_get_no_drafts() -> None:
    model = Whole(VOCABULARY, peaked(3))
    small = Whole(VOCABULARY, peaked(3))
    small.cache_bytes_per_token = 10
    drafter = DraftModel(small, window=8, most_bytes=2 * 160)  # 4 + 8 + 4 tokens of 10 bytes for each row
    assert drafter.most_rows == 2
    options = SamplingOptions(seed=1, max_tokens=20)
    plain = generate_tokens(model, PROMPTS, [None] * 3, options)
    for _ in range(2):  # rows that have ended leave their memory to others
        found = generate_tokens(
            model, PROMPTS, [None] * 3, options, drafting=speculating(drafter).start(model)
        )
        assert [one.tokens for one in found] == [one.tokens for one in plain]
        assert [one.drafted_tokens > 0 for one in found] == [True, True, False]


def test_a_bound_of_memory_needs_a_known_size() -> None:
    with pytest.raises(OptionError, match="whose size is not known"):
        DraftModel(ToyModel(VOCABULARY, peaked(3)), most_bytes=1000)
