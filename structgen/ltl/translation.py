"""Translate a sentence to a formula, by equivalence voting over many candidates.

Why: formulas written by a small model are often nearly right, in many spellings. The meaning that most candidates share
is right more often than any single candidate.
What: candidates are sampled under a grammar of formulas over the given atoms, so all of them parse. Those that no trace
or every trace satisfies are discarded. The others are grouped by equivalence, and the largest group wins. A person sees
the formula in English and the votes.
Source: Wu et al. 2024 (SELP: equivalence voting).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from structgen.api import check_model, run_batch
from structgen.brief import short_repr
from structgen.constraints.grammar.builders import gbnf
from structgen.errors import GenerationError, LimitExceeded, OptionError
from structgen.formulas import Alphabet, Formula, automaton, english, parse, satisfiable, simplify
from structgen.formulas.automaton import check_alphabet
from structgen.formulas.formula import atom
from structgen.generation import SamplingOptions
from structgen.generation.options import make_options
from structgen.inference.requests import unknown_option, whole_number
from structgen.types import output_type

if TYPE_CHECKING:
    from structgen.constraints.base import Constraint
    from structgen.protocols import LanguageModel

__all__ = ["Reading", "Translation", "grammar_of", "translate"]

_ROWS = 8
"""The number of candidates that are drawn in parallel."""

EXAMPLES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("Eventually wash the cup.", ("wash", "dry"), "F wash"),
    ("Never enter the lab.", ("lab", "office"), "G !lab"),
    ("Do not start the engine before the check.", ("check", "start"), "!start W check"),
    ("Visit the shop, but first the bank.", ("bank", "shop"), "F shop & (!shop U bank)"),
    ("Whenever the alarm rings, call the guard afterwards.", ("alarm", "guard"), "G (alarm -> F guard)"),
    (
        "Go to the park or to the pool, and never to the bar.",
        ("park", "pool", "bar"),
        "F (park | pool) & G !bar",
    ),
)
"""The examples of the prompt: a sentence, atoms and the formula."""


@short_repr
@dataclass(frozen=True)
class Reading:
    """One meaning that some candidates share."""

    formula: Formula
    """The shortest formula of this meaning, simplified."""
    votes: int
    """The number of candidates with this meaning."""
    spellings: tuple[Formula, ...]
    """The different candidates of this meaning."""

    @property
    def english(self) -> str:
        """The formula in English, for a person to confirm."""
        return english(self.formula)


@short_repr
@dataclass(frozen=True)
class Translation:
    """The result of `translate`."""

    sentence: str
    readings: tuple[Reading, ...]
    """The meanings, those with most votes first."""
    candidates: tuple[str, ...]
    """The sampled texts."""
    discarded: tuple[tuple[str, str], ...]
    """The texts without a usable meaning, each with the reason."""

    @property
    def formula(self) -> Formula:
        """The formula with the most votes."""
        return self.readings[0].formula

    @property
    def votes(self) -> int:
        """The votes for that formula."""
        return self.readings[0].votes

    @property
    def english(self) -> str:
        """That formula in English, for a person to confirm."""
        return self.readings[0].english

    def __str__(self) -> str:
        total = len(self.candidates)
        lines = [f"{self.sentence!r} was read as", f"    {self.formula}", f"    {self.english}"]
        lines += [f"{reading.votes} of {total}: {reading.formula}" for reading in self.readings[:5]]
        if self.discarded:
            lines.append(f"{len(self.discarded)} of {total} discarded: {self.discarded[0][1]}")
        return "\n".join(lines)


def translate(
    model: LanguageModel,
    sentence: str,
    vocabulary: Sequence[str] | Mapping[str, str],
    *,
    n: int = 16,
    examples: Sequence[tuple[str, Sequence[str], str]] = EXAMPLES,
    alphabet: Alphabet = "one-hot",
    seed: int = 0,
    temperature: float = 0.7,
    max_tokens: int = 60,
    **options: object,
) -> Translation:
    """Translate a sentence to the formula that most of `n` sampled candidates mean.

    Args:
        model: The language model.
        sentence: The sentence.
        vocabulary: The atoms that the formula may use. The values of a mapping describe the atoms in the prompt.
        n: The number of candidates.
        examples: Sentences with their atoms and formulas for the prompt. Examples of your own domain help most.
        alphabet: The traces that define equivalence: one action at a time ("one-hot"), or any set of atoms
            ("propositional").
        seed: The seed of the sampling.
        temperature: The sampling temperature.
        max_tokens: The most tokens of a candidate.
        **options: Further `SamplingOptions`.

    Raises:
        GenerationError: No candidate has a usable meaning. `discarded` of the error's `result` states the reasons.
    """
    check_model(model)
    names = list(vocabulary)
    if isinstance(vocabulary, str) or not names:
        raise OptionError(f"vocabulary is {vocabulary!r:.60}; it must be a list of atoms")
    whole_number("n", n, 1)
    check_alphabet(alphabet)
    for name in options:
        if name not in SamplingOptions.__dataclass_fields__:
            raise unknown_option(name, translate)
    kind = output_type(grammar_of(names))
    chosen = make_options(
        {"exact_weight": False, "temperature": temperature, "max_tokens": max_tokens, **options}
    )
    prompt = prompt_of(sentence, vocabulary, examples)
    texts: list[tuple[str, bool]] = []
    for first in range(0, n, _ROWS):
        rows = range(first, min(first + _ROWS, n))
        each = [chosen.replace(seed=(seed, row)) for row in rows]
        results = run_batch(model, [prompt] * len(rows), kind, each)
        texts += [(result.generation.text, result.error is None) for result in results]
    return _voted(sentence, texts, names, alphabet)


def prompt_of(
    sentence: str,
    vocabulary: Sequence[str] | Mapping[str, str],
    examples: Sequence[tuple[str, Sequence[str], str]] = EXAMPLES,
) -> str:
    """Return the prompt."""
    lines = [
        "Translate each sentence to linear temporal logic.",
        "F: at some point. G: always. X: next. U: until. W: until, if ever. !: not. &: and. |: or. ->: implies.",
        "",
    ]
    for text, names, formula in examples:
        lines += [
            f"Sentence: {text}",
            f"Atoms: {', '.join(_written(names))}",
            f"Formula: {parse(formula)}",
            "",
        ]
    described = [
        f"{name} ({meaning})" if meaning else name
        for name, meaning in (
            zip(_written(vocabulary), vocabulary.values(), strict=True)
            if isinstance(vocabulary, Mapping)
            else ((name, "") for name in _written(vocabulary))
        )
    ]
    return "\n".join([*lines, f"Sentence: {sentence}", f"Atoms: {', '.join(described)}", "Formula:"])


def grammar_of(atoms: Sequence[str]) -> Constraint:
    """Return the constraint of formulas over these atoms: one line with a newline at its end."""
    names = " | ".join(_literal(text) for text in _written(atoms))
    return gbnf(
        f"""
        root ::= " " implication "\\n"
        implication ::= disjunction (" -> " disjunction)?
        disjunction ::= conjunction (" | " conjunction)*
        conjunction ::= temporal (" & " temporal)*
        temporal ::= unary (" " [UWRM] " " unary)?
        unary ::= "!" unary | [FGXN] " " unary | atom | "(" implication ")"
        atom ::= {names}
        """
    )


def _written(names: Sequence[str] | Mapping[str, str]) -> Iterator[str]:
    return (str(atom(name)) for name in names)


def _literal(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _voted(
    sentence: str, texts: Sequence[tuple[str, bool]], names: Sequence[str], alphabet: Alphabet
) -> Translation:
    groups: list[tuple[Any, list[Formula]]] = []
    discarded = []
    for text, is_whole in texts:
        if not is_whole:
            discarded.append((text, "it is incomplete"))
            continue
        formula = parse(text)
        why = _is_trivial(formula, alphabet)
        if why:
            discarded.append((text.strip(), why))
            continue
        key = automaton(formula, alphabet=alphabet, atoms=sorted(names))
        for known, members in groups:
            if known == key:
                members.append(formula)
                break
        else:
            groups.append((key, [formula]))
    readings = [
        Reading(
            min((simplify(member) for member in members), key=lambda formula: (formula.size, str(formula))),
            len(members),
            tuple(dict.fromkeys(members)),
        )
        for _, members in groups
    ]
    readings.sort(key=lambda reading: (-reading.votes, reading.formula.size, str(reading.formula)))
    translation = Translation(
        sentence, tuple(readings), tuple(text.strip() for text, _ in texts), tuple(discarded)
    )
    if not readings:
        raise GenerationError(
            f"none of {len(texts)} candidates has a usable meaning: {discarded[0][1]}: {discarded[0][0]!r:.80}",
            hint="Use more candidates (n), examples of your domain, or a larger model.",
            result=translation,
        )
    return translation


def _is_trivial(formula: Formula, alphabet: Alphabet) -> str:
    try:
        if not satisfiable(formula, alphabet=alphabet):
            return "no trace satisfies it"
        if not satisfiable(~formula, alphabet=alphabet):
            return "every trace satisfies it"
    except LimitExceeded:
        return "its automaton is too large"
    return ""
