"""`structgen.sample` over every sampler: the same distribution, honest limits, errors that say what to do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import structgen as sg
from structgen.errors import DeadEnd, GenerationError, LimitExceeded, OptionError
from structgen.inference.samplers import Sampler
from structgen.models.memory import DistributionModel
from structgen.vocabulary import Vocabulary
from tests.inference.toys import END, T1_LANGUAGE, t1_distribution

VOCABULARY = Vocabulary.from_tokens([b"0", b"1", None], [END])
LANGUAGE = sg.choice(sorted(text.decode() for text in T1_LANGUAGE))
Q = {text.decode(): (0.012 if text == b"000" else 0.1) / 0.412 for text in T1_LANGUAGE}
SAMPLERS: list[Sampler] = [
    sg.inference.Exact(),
    sg.inference.Exact(parallel=4),
    sg.inference.AdaptiveRejection(),
    sg.inference.Rejection(),
    sg.inference.ASAp(),
    sg.inference.LocalMasking(),
    sg.inference.AWRS(),
    sg.inference.SMC(8),
    sg.inference.SMC(8, proposal=sg.inference.AWRS("recursive")),
    sg.inference.SMC(8, proposal=sg.inference.ASAp()),
]


def model() -> DistributionModel:
    return DistributionModel(VOCABULARY, t1_distribution)


def draw(sampler: Any = "exact", **options: Any) -> sg.inference.Posterior[str]:
    return sg.sample(model(), "", options.pop("output", LANGUAGE), sampler=sampler, **{"seed": 5, **options})


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_every_sampler_has_the_same_distribution(sampler: Sampler) -> None:
    """Within five standard errors of a weighted mean, by its effective size; fixed seed."""
    posterior = draw(sampler, n=2000)
    assert len(posterior) >= 2000 and posterior.weights.sum() == pytest.approx(1)
    for text, q in Q.items():
        error = math.sqrt(q * (1 - q) / posterior.ess)
        assert posterior.probability(lambda value, text=text: value == text) == pytest.approx(
            q, abs=5 * error
        )
    assert math.exp(posterior.log_z) == pytest.approx(0.412, rel=0.15)
    if isinstance(sampler, sg.inference.Exact):
        assert posterior.ess == pytest.approx(2000)


def test_what_a_posterior_tells() -> None:
    posterior = draw(n=400)
    merged = posterior.merged
    assert {one.text for one in merged} <= set(Q)
    assert sum(one.weight for one in merged) == pytest.approx(1)
    assert sum(one.draws for one in merged) == len(posterior) == 400
    assert [one.weight for one in merged] == sorted((one.weight for one in merged), reverse=True)
    assert posterior.best == merged[0].value == posterior[0] or posterior.best in Q
    assert merged[0].log_prob == pytest.approx(math.log(0.1), abs=1e-5) or merged[0].text == "000"
    ones = posterior.expectation(lambda value: (value or "").count("1"))
    assert ones == pytest.approx(sum(q * text.count("1") for text, q in Q.items()), abs=0.3)
    assert set(posterior.resampled(50, seed=1)) <= set(Q)
    table = posterior.table(2)
    assert table.splitlines()[0].split() == ["share", "draws", "log", "p", "text"]
    assert f"{merged[0].text!r}" in table and f"{len(merged) - 2} more" in table
    assert repr(posterior).startswith("<Posterior 400 draws of")


def test_plots() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib draws the plots")
    axes = draw(n=50).plot(3)
    assert len(axes.patches) == 3
    pyplot.close("all")


@pytest.mark.parametrize("text", ["word " * 60, "x" * 300, "a\nb\tc", "$10 and $20", ""])
def test_labels_of_plots_are_whole(text: str) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib draws the plots")
    posterior = draw(n=5)
    posterior.texts[:] = [text] * 5
    axes = posterior.plot()
    axes.figure.canvas.draw()
    (label,) = axes.get_yticklabels()
    box = label.get_window_extent()
    assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= axes.get_window_extent().x0, (
        "the label is inside the figure"
    )
    assert label.get_text() and len(label.get_text()) < 100 and "\n\n" not in label.get_text()
    pyplot.close("all")


def test_seeds_repeat() -> None:
    for sampler in SAMPLERS:
        assert list(draw(sampler, n=9)) == list(draw(sampler, n=9))
    assert list(draw(n=30)) != list(draw(n=30, seed=6))


def test_types_and_their_validators() -> None:
    posterior = sg.sample(model(), "", sg.choice(["000", "111"]), n=20, seed=1)
    assert set(posterior) <= {"000", "111"}
    even = sg.inference.potential(lambda text: text.count("1") % 2 == 0, name="even")
    for sampler in SAMPLERS:
        assert all(value.count("1") % 2 == 0 for value in draw(sampler, n=20, potentials=even))


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_soft_potentials(sampler: Sampler) -> None:
    def fewer(text: str) -> float:
        return -1.0 * text.count("1")

    expected = {text: q * math.exp(fewer(text)) for text, q in Q.items()}
    total = sum(expected.values())
    posterior = draw(sampler, n=2000, potentials=sg.inference.potential(fewer))
    for text, mass in expected.items():
        q = mass / total
        error = math.sqrt(q * (1 - q) / posterior.ess)
        assert posterior.probability(lambda value, text=text: value == text) == pytest.approx(
            q, abs=5 * error
        )


def test_what_was_learned_is_used_again() -> None:
    learned = sg.inference.KnownDistributions()
    same = model()
    first = sg.sample(same, "", LANGUAGE, n=200, learned=learned, seed=5)
    again = sg.sample(same, "", LANGUAGE, n=200, learned=learned, seed=9)
    assert first.account.calls > 0 and again.account.calls == 0
    assert again.account.attempts < first.account.attempts
    with pytest.raises(OptionError, match="belongs to another temperature"):
        draw(n=1, learned=learned, temperature=0.5)
    with pytest.raises(OptionError, match="LocalMasking does not learn"):
        draw("local", n=1, learned=learned)
    with pytest.raises(OptionError, match="belongs to another constraint"):
        draw(n=1, learned=learned, output=sg.choice(["000"]))


# Limits and bad input.


def test_limits_end_it_with_what_there_is() -> None:
    posterior = draw(n=10_000, max_attempts=50)
    assert 0 < len(posterior) < 50 and posterior.account.stopped == "max_attempts"
    assert "stopped by max_attempts" in repr(posterior)
    few = draw(sg.inference.SMC(4), n=10_000, max_calls=30)
    assert few.account.stopped == "max_calls" and len(few) % 4 == 0
    with pytest.raises(LimitExceeded, match="no text was drawn within max_calls") as none:
        draw(n=1, max_calls=0)
    assert none.value.account.stopped == "max_calls" and none.value.account.attempts == 0
    with pytest.raises(LimitExceeded, match="within max_seconds"):
        draw(n=1, max_seconds=0)
    calls = []
    stopped = draw(n=10_000, cancel=lambda: calls.append(1) is None and len(calls) > 40)
    assert stopped.account.stopped == "cancel"


def test_constraints_without_mass() -> None:
    impossible = DistributionModel(VOCABULARY, lambda tokens: (1.0, 0, 0) if len(tokens) < 3 else (0, 0, 1.0))
    for sampler in (
        sg.inference.Exact(),
        sg.inference.AdaptiveRejection(),
        sg.inference.ASAp(),
        sg.inference.LocalMasking(),
        sg.inference.SMC(4),
    ):
        with pytest.raises(DeadEnd):
            sg.sample(impossible, "", sg.choice(["101"]), n=2, sampler=sampler)
    with pytest.raises(LimitExceeded):
        sg.sample(impossible, "", sg.choice(["101"]), sampler="rejection", max_attempts=100)


def test_potentials_that_lie_or_fail() -> None:
    lies = sg.inference.potential(lambda text: False, prefix=lambda text: True)
    for sampler in (sg.inference.Exact(), sg.inference.AWRS(), sg.inference.SMC(4)):
        with pytest.raises(DeadEnd):
            draw(sampler, potentials=lies)

    def fails(text: str) -> bool:
        raise KeyError("x")

    with pytest.raises(GenerationError, match="the potential fails failed on a text: KeyError"):
        draw(potentials=sg.inference.potential(fails))
    with pytest.raises(OptionError, match="returned 'yes' for a text"):
        draw(potentials=sg.inference.potential(lambda text: "yes"))  # type: ignore[arg-type,return-value]
    with pytest.raises(OptionError, match="exact samplers need at most 0"):
        draw(potentials=sg.inference.potential(lambda text: 1.5))
    assert len(draw(sg.inference.SMC(4), potentials=sg.inference.potential(lambda text: 1.5))) == 4
    assert all(np.isfinite(draw("asap", n=5, potentials=sg.inference.potential(lambda text: 1.5)).weights))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampler": "best"}, "there is no sampler 'best'"),
        ({"n": 0}, "n is 0"),
        ({"temperature": 0}, "one above 0"),
        ({"top_p": 0.9}, "takes no top_p"),
        ({"top_k": 5}, "takes no top_k"),
        ({"frequency_penalty": 1}, "takes no frequency_penalty"),
        ({"tempreature": 1}, "unknown option 'tempreature'"),
        ({"potentials": [len]}, "potentials holds"),
        ({"potentials": len}, "potentials is"),
        ({"potentials": None}, "potentials is"),
        ({"potentials": 5}, "potentials is"),
        ({"max_seconds": "x"}, "max_seconds is 'x'"),
        ({"max_seconds": math.nan}, "max_seconds is nan"),
        ({"max_calls": 1.5}, "max_calls is 1.5"),
        ({"max_attempts": -1}, "max_attempts is -1"),
        ({"cancel": True}, "cancel is"),
        ({"learned": {}}, "learned is a dict"),
        ({"max_second": 1}, "Did you mean max_seconds"),
        ({"sampler": sg.inference.AWRS}, "Write AWRS\\(\\)"),
    ],
)
def test_what_cannot_be_requested(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        draw(**options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sg.inference.SMC(0), "SMC\\(particles=0\\)"),
        (lambda: sg.inference.SMC(4, proposal=sg.inference.Exact()), "the proposal of SMC is"),  # type: ignore[arg-type]
        (lambda: sg.inference.SMC(4, threshold=2), "not a number between 0 and 1"),
        (lambda: sg.inference.SMC(4, threshold="x"), "not a number between 0 and 1"),  # type: ignore[arg-type]
        (lambda: sg.inference.SMC(None), "SMC\\(particles=None\\)"),  # type: ignore[arg-type]
        (lambda: sg.inference.AWRS(probes=None), "probes=None"),  # type: ignore[arg-type]
        (lambda: sg.inference.KnownDistributions("1GB"), "not a number of bytes"),  # type: ignore[arg-type]
        (lambda: sg.inference.SMC(4, resampling="best"), "resampling='best'"),  # type: ignore[arg-type]
        (lambda: sg.inference.SMC(4, critic=3), "the critic of SMC"),  # type: ignore[arg-type]
        (lambda: sg.inference.AWRS("best"), "estimator='best'"),  # type: ignore[arg-type]
        (lambda: sg.inference.AWRS(probes=0), "probes=0"),
        (lambda: sg.inference.AWRS("geometric", max_checks=3), "takes no max_checks"),
        (lambda: sg.inference.Exact(parallel=0), "parallel=0"),
        (lambda: sg.inference.potential(), "needs a function"),
        (lambda: sg.inference.potential(3), "is a function of a text"),  # type: ignore[arg-type]
    ],
)
def test_options_of_samplers(make: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make()


# Beams.


def test_beams() -> None:
    found = sg.inference.beam(model(), "", LANGUAGE, width=5)
    assert {one.text for one in found} == set(Q)
    assert [one.log_prob for one in found] == sorted((one.log_prob for one in found), reverse=True)
    assert found[-1].value == "000" and found[-1].log_prob == pytest.approx(math.log(0.012), abs=1e-4)
    apart = sg.inference.beam(model(), "", LANGUAGE, width=2, groups=2, diversity=9.0)
    assert {one.text[0] for one in apart} == {"0", "1"}
    with pytest.raises(LimitExceeded, match="takes 3 tokens"):
        sg.inference.beam(model(), "", LANGUAGE, max_tokens=2)
    for limit in ({"max_calls": 1}, {"max_seconds": 0}, {"cancel": lambda: True}):
        with pytest.raises(LimitExceeded, match=f"no text within {next(iter(limit))}") as none:
            sg.inference.beam(model(), "", LANGUAGE, **limit)  # type: ignore[arg-type]
        assert none.value.account.calls <= 3
    assert sg.inference.beam(model(), "", LANGUAGE, max_calls=100, progress=True).stopped is None
    endless = DistributionModel(VOCABULARY, lambda tokens: (0.4, 0.4, 0.2))
    partly = sg.inference.beam(endless, "", sg.regex("[01]*"), width=50, max_calls=20)
    assert 0 < len(partly) < 50 and partly.stopped == "max_calls"
    for options, message in (
        ({"width": 0}, "width is 0"),
        ({"groups": 9}, "more than width"),
        ({"diversity": -1.0}, "0 or more"),
        ({"diversity": "x"}, "diversity is 'x'"),
        ({"length_penalty": math.inf}, "length_penalty is inf"),
        ({"seed": 1}, "unknown option 'seed' of beam"),
        ({"output": LANGUAGE & sg.inference.potential(bool)}, "takes no potentials"),
    ):
        with pytest.raises(OptionError, match=message):
            sg.inference.beam(model(), "", **{"output": LANGUAGE, **options})  # type: ignore[arg-type]


# What the account says of attempts without a text.


@pytest.mark.parametrize("sampler", [*SAMPLERS, sg.inference.MH(3)], ids=str)
def test_why_nothing_came(sampler: Sampler) -> None:
    """Each sampler names what refused all texts; errors of a potential have the draws so far."""
    with pytest.raises((DeadEnd, LimitExceeded)) as nothing:
        draw(sampler, potentials=sg.inference.potential(lambda text: False), max_attempts=None, max_seconds=5)
    assert "refuse" in str(nothing.value) or "died" in str(nothing.value)
    account = nothing.value.account
    assert account.lost["refused"] > 0 and account.stopped in (None, "max_seconds", "patience")
    asked = []

    def fails_late(text: str) -> bool:
        asked.append(text)
        if len(asked) > 3:
            raise KeyError("x")
        return True

    with pytest.raises(GenerationError, match="KeyError") as failed:
        draw(sampler, n=1000, potentials=sg.inference.potential(fails_late))
    assert failed.value.account.attempts >= 0
    assert failed.value.partial is None or 0 < len(failed.value.partial) < 1000


def test_what_came_to_nothing_is_counted() -> None:
    """Of 40 texts in which the last letter decides about a half are refused."""
    odd = sg.inference.potential(lambda text: text[-1] == "1")
    for sampler in (sg.inference.LocalMasking(), sg.inference.SMC(40, threshold=0)):
        found = draw(sampler, n=40, potentials=odd)
        assert len(found) + found.account.lost["refused"] == 40 and found.account.lost["refused"] > 5
        assert "had no text" in repr(found)
    resampled = draw(
        sg.inference.SMC(40, threshold=1),
        n=400,
        potentials=sg.inference.potential(prefix=lambda text: text[:2] != "11"),
    )
    assert resampled.account.lost.total() + len(resampled) == resampled.account.attempts == 400
    assert draw(sg.inference.Exact(parallel=1), n=40, potentials=odd).account.lost.keys() <= {
        "refused",
        "given up",
    }


def test_room_is_looked_at_first() -> None:
    asked = []
    short = DistributionModel(VOCABULARY, lambda tokens: asked.append(1) or t1_distribution(tokens))  # type: ignore[func-returns-value]
    for sampler in (*SAMPLERS, sg.inference.MH(2)):
        with pytest.raises(LimitExceeded, match="takes 3 tokens, and 2 are left"):
            sg.sample(short, "", LANGUAGE, sampler=sampler, max_tokens=2)
    assert not asked
    with pytest.raises(OptionError, match="no end-of-sequence token"):
        sg.sample(
            DistributionModel(Vocabulary.from_tokens([b"a"], []), lambda tokens: (1.0,)), "", sg.regex("a")
        )


def test_no_longer_than_the_context() -> None:
    """Half of the texts of an endless language do not fit; those that do are drawn, and nothing raises."""
    model = DistributionModel(VOCABULARY, lambda tokens: (0.5, 0.2, 0.3))
    model.context_length = 4  # type: ignore[misc]
    for sampler in (*SAMPLERS, sg.inference.MH(2)):
        found = sg.sample(model, "", sg.regex("[01]*"), n=60, sampler=sampler, seed=1)
        assert max(map(len, found.texts)) <= 3
    assert sg.inference.beam(model, "", sg.regex("[01]*"), width=4)[0].text == ""


def test_products() -> None:
    """A constraint and potentials joined by `&`, from either side, are as if given apart."""
    fewer = sg.inference.potential(lambda text: -1.0 * text.count("1"))
    odd = sg.inference.potential(lambda text: text.count("1") % 2 == 1)
    apart = draw(n=30, potentials=[fewer, odd])
    for product in (LANGUAGE & fewer & odd, fewer & (odd & LANGUAGE), LANGUAGE & fewer):
        again = draw(n=30, output=product, potentials=() if product.potentials[1:] else odd)
        assert list(again) == list(apart)
    pair = fewer & odd
    for product in (LANGUAGE & pair, pair & LANGUAGE, (LANGUAGE & fewer) & (sg.regex("[01]*") & odd)):
        assert list(draw(n=30, output=product)) == list(apart)
    assert set(draw(n=20, output=(LANGUAGE & odd) & sg.regex("1.*"))) == {"100", "111"}
    with pytest.raises(OptionError, match="cannot be intersected"):
        (int & odd) & (str & fewer)
    with pytest.raises(OptionError, match="potentials need weights"):
        sg.generate(model(), "", LANGUAGE & odd)
    assert len(draw(n=5, output=sg.inference.potential(lambda text: text[0] == "1"), seed=1)) == 5
    assert set(draw(n=99, output=sg.inference.potential(lambda text: text[:2] == "10") & odd)) == {"100"}


def test_verdicts_of_numpy() -> None:
    for verdict in (np.True_, np.float32(-0.5), np.int64(0), np.array(-0.5), np.array([True])):
        assert len(draw(n=np.int64(3), potentials=sg.inference.potential(lambda text, v=verdict: v))) == 3  # type: ignore[misc]
    with pytest.raises(GenerationError, match="failed on a text"):
        draw(potentials=sg.inference.potential(lambda text: np.zeros(2)))  # type: ignore[arg-type,return-value]
    assert draw(temperature=np.float32(1.0)).texts == draw().texts


def test_potentials_are_called_once_for_a_text() -> None:
    asked: list[str] = []
    once = sg.inference.potential(lambda text: not asked.append(text))
    for sampler in (*SAMPLERS, sg.inference.MH(3)):
        asked.clear()
        draw(sampler, n=100, potentials=once)
        assert len(asked) == len(set(asked)) <= 5


def test_limits_met_exactly_and_kept() -> None:
    needed = draw("local", n=3).account.calls
    assert len(draw("local", n=3, max_calls=needed)) == 3
    for sampler in (
        sg.inference.Exact(parallel=8),
        sg.inference.LocalMasking(64),
        sg.inference.MH(3, parallel=16),
    ):
        try:
            account = draw(sampler, n=1000, max_attempts=9).account
        except LimitExceeded as error:
            account = error.account
        assert account.attempts <= 9 and account.stopped == "max_attempts"
    with pytest.raises(LimitExceeded, match="no text was drawn within max_attempts"):
        draw(sg.inference.SMC(64), max_attempts=9)
    cancelled = pytest.raises(LimitExceeded, match="it was cancelled after 0 attempts")
    with cancelled:
        draw(cancel=lambda: True)


@pytest.mark.parametrize(
    "sampler",
    [sg.inference.Exact(), sg.inference.AdaptiveRejection(), sg.inference.Rejection(), sg.inference.ASAp()],
    ids=str,
)
def test_masses_lie_within_what_is_certain(sampler: Sampler) -> None:
    for seed in range(40):
        posterior = draw(sampler, n=1 + seed % 5, seed=seed)
        low, high = posterior.account.log_z_bounds
        assert low - 1e-6 <= math.log(0.412) <= high + 1e-6
        assert low - 1e-9 <= posterior.log_z <= high + 1e-9


def test_masses_of_languages_that_are_known_to_the_end() -> None:
    posterior = draw(n=300)
    assert posterior.log_z == pytest.approx(math.log(0.412), abs=1e-6)
    assert math.isnan(draw(sg.inference.MH(2), n=3).log_z) and "log Z unknown" in repr(
        draw(sg.inference.MH(2), n=3)
    )


@pytest.mark.parametrize(
    "proposal", [sg.inference.LocalMasking(), sg.inference.AWRS(), sg.inference.ASAp()], ids=str
)
def test_potentials_above_nothing_weigh_as_they_say(proposal: Any) -> None:
    """Also by ASAp, which has no bounds then."""
    liked = sg.inference.potential(lambda text: 3.0 if text == "000" else 0.0)
    mass = 0.4 + 0.012 * math.exp(3)
    for sampler in (sg.inference.ASAp(), sg.inference.SMC(16, proposal=proposal)):
        posterior = draw(sampler, n=4000, potentials=liked)
        assert posterior.log_z == pytest.approx(math.log(mass), abs=0.1)
        share = posterior.probability(lambda text: text == "000")
        assert share == pytest.approx(0.012 * math.exp(3) / mass, abs=0.05)


@pytest.mark.parametrize(
    "sampler",
    [
        sg.inference.Exact(),
        sg.inference.ASAp(),
        sg.inference.LocalMasking(),
        sg.inference.SMC(8, proposal=sg.inference.ASAp()),
        sg.inference.Exact(parallel=1),
    ],
    ids=str,
)
@pytest.mark.parametrize("letters", [8, 64])
def test_texts_that_a_float_cannot_tell_from_nothing(sampler: Sampler, letters: int) -> None:
    """One token is nearly everything, and not allowed; of the others, e^-100 and less, each has its share."""
    names = [f"a{i:02}".encode() for i in range(letters)]
    vocabulary = Vocabulary.from_tokens([b"z", *names, None], [letters + 1])
    scores = np.concatenate([[0.0], -100 - np.linspace(0, 3, letters), [-np.inf]])
    model = DistributionModel(vocabulary, lambda tokens: [0.0] * (letters + 1) + [1.0])

    def log_probabilities(tokens: tuple[int, ...]) -> Any:
        distribution = scores if not tokens else np.append(np.full(letters + 1, -np.inf), 0.0)
        return distribution.astype(np.float32)

    model.log_probabilities = log_probabilities  # type: ignore[method-assign]
    posterior = sg.sample(
        model, "", sg.choice([name.decode() for name in names]), n=6000, sampler=sampler, seed=3
    )
    true = np.exp(scores[1:-1] + 100)
    assert posterior.log_z == pytest.approx(-100 + math.log(true.sum()), abs=0.05)
    low, high = posterior.account.log_z_bounds
    assert low - 1e-4 <= -100 + math.log(true.sum()) <= high + 1e-4
    shares = {one.text: one.weight for one in posterior.merged}
    distance = sum(
        abs(shares.get(name.decode(), 0.0) - share)
        for name, share in zip(names, true / true.sum(), strict=True)
    )
    assert distance / 2 < 0.08


def test_errors_of_others_have_what_was_drawn() -> None:
    """A model that fails in the middle, and an interrupt; by a sampler that draws one text after the other."""
    for kind in (RuntimeError, KeyboardInterrupt):
        asked: list[int] = []

        def fails(tokens: tuple[int, ...], kind: type[BaseException] = kind, asked: list[int] = asked) -> Any:
            asked.append(1)
            if len(asked) > 40:
                raise kind("out of memory")
            return t1_distribution(tokens)

        failing = DistributionModel(VOCABULARY, fails)
        with pytest.raises(kind) as failed:
            sg.sample(failing, "", LANGUAGE, n=100, sampler=sg.inference.LocalMasking(parallel=2), seed=1)
        assert 0 < len(failed.value.partial) < 100 and failed.value.account.calls > 0  # type: ignore[attr-defined]


def test_independent_texts_fill_max_attempts() -> None:
    for limit in (3, 12):
        found = draw("local", n=50, max_attempts=limit)
        assert len(found) == limit and found.account.stopped == "max_attempts"


def test_ended_texts_are_compared_as_growing_ones_are() -> None:
    """With a potential of whole texts alone, what ASAp has learned does not favour those that still have to pay."""
    costly = sg.inference.potential(lambda text: -2.0 * text.count("1"))
    plain = [
        draw(sg.inference.SMC(16, proposal=sg.inference.ASAp()), n=320, potentials=costly, seed=seed).ess
        for seed in range(20)
    ]
    free = sg.inference.potential(lambda text: -2.0 * text.count("1"), prefix=lambda text: 0.0)
    steered = [
        draw(sg.inference.SMC(16, proposal=sg.inference.ASAp()), n=320, potentials=free, seed=seed).ess
        for seed in range(20)
    ]
    assert np.mean(plain) == pytest.approx(np.mean(steered), rel=0.01)


@pytest.mark.parametrize("temperature", [1e-8, 1e-45, 1e-300])
def test_a_temperature_near_0_draws_the_most_probable_tokens(temperature: float) -> None:
    for sampler in (sg.inference.LocalMasking(), sg.inference.Exact()):
        posterior = draw(sampler, output=sg.regex("[01]{3}"), temperature=temperature, n=4)
        assert set(posterior.texts) <= {"010", "011"}
