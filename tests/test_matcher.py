"""Wrong arguments of a matcher, and the programs that it keeps."""

from __future__ import annotations

import random
import sys
import threading
from typing import Any

import numpy as np
import pytest

import structgen as sg
from structgen import matcher as matcher_module
from structgen.errors import OptionError, TypeNotSupported, VocabularyMismatch
from structgen.matcher import Matcher, fill_masks
from structgen.vocabulary import Vocabulary

VOCABULARY = Vocabulary.from_tokens([bytes([byte]) for byte in range(256)], [256], size=257)


@pytest.fixture
def matcher() -> Matcher:
    return Matcher(sg.choice(["ab", "ba"]), VOCABULARY)


@pytest.mark.parametrize("constraint", ["abc", None, 3])
def test_arguments_that_are_not_a_constraint(constraint: Any) -> None:
    with pytest.raises(TypeNotSupported, match="not a type") as caught:
        Matcher(constraint, VOCABULARY)
    assert caught.value.hint


def test_arguments_that_are_not_a_vocabulary() -> None:
    with pytest.raises(OptionError, match="a matcher needs a vocabulary, not a str") as caught:
        Matcher(sg.choice(["a"]), "gpt2")  # type: ignore[arg-type]
    assert "Vocabulary.from_tokenizer(tokenizer)" in str(caught.value)


@pytest.mark.parametrize(
    "out",
    [
        np.zeros((2, 9), dtype=np.int64),
        np.zeros((2, 9), dtype=np.uint32),
        np.zeros((2, 18), dtype=np.int32)[:, ::2],
        np.zeros((9, 2), dtype=np.int32).T,
        np.broadcast_to(np.zeros(9, dtype=np.int32), (2, 9)),
    ],
)
def test_a_bitmask_that_would_be_filled_as_a_copy_is_refused(matcher: Matcher, out: Any) -> None:
    with pytest.raises(OptionError, match="a bitmask is int32, contiguous and writeable"):
        matcher.fill(out)
    with pytest.raises(OptionError, match="a bitmask is int32, contiguous and writeable"):
        fill_masks([matcher], out)


def test_a_bitmask_may_be_wide_or_a_tensor(matcher: Matcher) -> None:
    out = np.zeros((2, 12), dtype=np.int32)
    matcher.fill(out, 1)
    assert (out[1, :9] == matcher.mask()).all() and not out[0].any()
    with pytest.raises(VocabularyMismatch, match=r"shape \(1, 3\) cannot hold masks of 9 words"):
        matcher.fill(np.zeros((1, 3), dtype=np.int32))
    torch = pytest.importorskip("torch")
    tensor = torch.zeros((1, 9), dtype=torch.int32)
    fill_masks([matcher], tensor)
    assert (tensor[0].numpy() == matcher.mask()).all()


def test_half_a_character_is_explained(matcher: Matcher) -> None:
    explanation = matcher.explain("a\ud800")
    assert not explanation.viable and explanation.position == 1


@pytest.mark.parametrize("text", [{"a": 1}, 1, None, ["a"]])
def test_arguments_that_are_not_a_text(matcher: Matcher, text: Any) -> None:
    with pytest.raises(OptionError, match="a text is a str or bytes, not"):
        matcher.explain(text)
    with pytest.raises(OptionError, match=r"json\.dumps"):
        matcher.viable_bytes(text)


def test_unproven_is_that_of_the_program_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    constraint = sg.choice(["ab", "ba"])
    program = VOCABULARY.engine.compile(constraint.lower())

    def compile_constraint(*_: Any) -> Any:
        raise AssertionError("it is compiled a second time")

    monkeypatch.setattr("structgen.matcher.compile_constraint", compile_constraint)
    made = Matcher.of_program(constraint, VOCABULARY, program)
    assert made.unproven == made.fork().unproven == program.unproven == 0


def test_programs_are_evicted_by_what_they_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six schemas of 700 bytes held 3.2 GB, since the programs kept were bounded by their number alone."""
    vocabulary = Vocabulary.of_bytes()
    schemas = [sg.json_schema({"enum": [f"{letter}{i}" for i in range(500)]}) for letter in "abcdef"]
    largest = max(Matcher(one, vocabulary)._program.memory for one in schemas)
    assert len(matcher_module._programs[vocabulary]) == len(schemas)
    monkeypatch.setattr(matcher_module, "_PROGRAM_BYTES_PER_VOCABULARY", 2 * largest)
    small = [sg.regex(f"last{i}") for i in range(matcher_module._MEMORY_CHECK_INTERVAL)]
    for one in small:
        Matcher(one, vocabulary)
    kept = list(matcher_module._programs[vocabulary])
    assert set(small) < set(kept) < {*schemas, *small}
    assert kept == [*schemas, *small][-len(kept) :]
    assert sum(one.memory for one in matcher_module._programs[vocabulary].values()) <= 3 * largest


def test_programs_that_grow_while_they_are_used_are_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are small when they are compiled."""
    vocabulary = Vocabulary.of_bytes()
    monkeypatch.setattr(matcher_module, "_MEMORY_CHECK_INTERVAL", 1 << 30)
    monkeypatch.setattr(matcher_module, "_MEMORY_CHECK_BYTES", 1 << 20)
    monkeypatch.setattr(matcher_module, "_PROGRAM_BYTES_PER_VOCABULARY", 4 << 20)
    rng = random.Random(0)
    for i in range(8):
        matcher = Matcher(sg.regex(f"[ab]*a[ab]{{90}}c{i}"), vocabulary)
        for _ in range(700):
            matcher.advance(ord(rng.choice("ab")))
        kept = matcher_module._programs[vocabulary]
        assert sum(one.memory for one in kept.values()) <= (4 << 20) + 2 * matcher._program.memory
    assert matcher._program.memory > 1 << 20
    assert len(kept) < 8


def test_threads_compile_at_once() -> None:
    """Each change of the programs kept is one step, as each copy is."""
    vocabulary = Vocabulary.of_bytes()
    failed: list[BaseException] = []

    def compile_some(thread: int) -> None:
        try:
            for i in range(300):
                Matcher(sg.regex(f"{thread}x{i}"), vocabulary)
        except BaseException as error:
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=compile_some, args=(i,)) for i in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failed
