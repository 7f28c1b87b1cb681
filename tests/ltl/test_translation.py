"""Translation of sentences to formulas: the grammar of candidates, votes, discarded candidates, the prompt."""

from __future__ import annotations

from typing import Any

import pytest

import structgen as sg
from structgen import ltl
from structgen.errors import GenerationError, OptionError
from structgen.ltl.translation import grammar_of, prompt_of
from tests.oracles.scripted_model import ScriptedModel

BYTES = sg.Vocabulary.of_bytes()


def fits(text: str, atoms: list[str]) -> bool:
    matcher = sg.Matcher(grammar_of(atoms), BYTES)
    return all(matcher.advance(byte) for byte in text.encode()) and matcher.is_complete()


class Voices(ScriptedModel):
    """A model whose candidates are the next of some texts."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        super().__init__("")

    def start(self, prompts: Any) -> Any:
        """Return sessions of one prompt, which is prefilled once, with different texts."""
        first = len(self._texts)
        self._texts += [self.texts.pop(0).encode() for _ in prompts]
        return super().start([[first + place] for place in range(len(prompts))])


def translated(*texts: str, **options: Any) -> ltl.Translation:
    options.setdefault("n", len(texts))
    options.setdefault("temperature", 0.2)
    return ltl.translate(Voices(*texts), "Never b before a.", ["a", "b"], **options)  # type: ignore[arg-type]


def test_most_mean_the_same() -> None:
    found = translated(
        " !b W a\n",
        " F a\n",
        " G !b | !b U a\n",
        " G (F b & !F b)\n",
        " a | !a\n",
        " F a & F F a\n",
        " !b W a\n",
    )
    assert str(found.formula) == "!b W a" and found.votes == 3
    assert found.english == "Not `b` before `a`."
    assert [(str(one.formula), one.votes, len(one.spellings)) for one in found.readings] == [
        ("!b W a", 3, 2),
        ("F a", 2, 2),
    ]
    assert found.discarded == (
        ("G (F b & !F b)", "no trace satisfies it"),
        ("a | !a", "every trace satisfies it"),
    )
    assert "3 of 7: !b W a" in str(found) and len(found.candidates) == 7


def test_what_is_not_finished_is_left_out() -> None:
    found = translated(" F a\n", " F a & F b & F a & F b\n", max_tokens=10)
    assert found.votes == 1 and found.discarded[0][1] == "it is incomplete"


def test_nothing_is_left() -> None:
    with pytest.raises(
        GenerationError, match="none of 2 candidates has a usable meaning: no trace satisfies it"
    ) as caught:
        translated(" G (F b & !F b)\n", " a & !a\n")
    assert len(caught.value.result.discarded) == 2


def test_the_grammar_takes_formulas_of_these_atoms() -> None:
    atoms = ["a", "go(kitchen)", "pick up", 'a"b']
    for text in (" F a", ' !(a -> go(kitchen)) U "pick up"', ' G (a | "a\\"b" & X a)'):
        assert fits(text + "\n", atoms), text
        ltl.parse(text)
    for text in (" F b", "F a", " a &", " a -> a -> a"):
        assert not fits(text + "\n", atoms), text


def test_the_prompt() -> None:
    text = prompt_of("Go there.", {"go": "move on", "stop": ""})
    assert text.endswith("Sentence: Go there.\nAtoms: go (move on), stop\nFormula:")
    assert "Formula: !start W check\n" in text


def test_options() -> None:
    with pytest.raises(OptionError, match="it must be a list of atoms"):
        ltl.translate(ScriptedModel(" F a\n"), "x", "a")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="n is 0"):
        translated(" F a\n", n=0)
    with pytest.raises(OptionError, match="unknown option 'tokens'"):
        translated(" F a\n", tokens=3)
