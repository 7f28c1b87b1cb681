"""From a sentence to a formula: many candidates, and the meaning that most of them have.

Why: a small model that writes a formula is often nearly right, in many spellings; what most candidates mean is right
more often than any one of them.
What: candidates are drawn under a grammar of formulas over the atoms that there are, so all of them can be read. Those
that no trace satisfies, or every trace, say nothing and are left out; the others are grouped by equivalence, and the
largest group wins. A person is shown what the formula says in English, and how the votes went.
Source: Wu et al. 2024 (SELP: equivalence voting).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from structgen.api import check_model, run_batch
from structgen.brief import short_repr
from structgen.constraints.grammar.constraint import gbnf
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
"""Candidates that are drawn side by side."""

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
"""Sentence, atoms, formula: what the prompt shows."""


@short_repr
@dataclass(frozen=True)
class Reading:
    """One meaning that candidates have."""

    formula: Formula
    """The shortest of them."""
    votes: int
    spellings: tuple[Formula, ...]
    """The different formulas of this meaning."""

    @property
    def english(self) -> str:
        """For a person to confirm."""
        return english(self.formula)


@short_repr
@dataclass(frozen=True)
class Translation:
    """What `translate` found."""

    sentence: str
    readings: tuple[Reading, ...]
    """By their votes, most first."""
    candidates: tuple[str, ...]
    """Texts as they were drawn."""
    discarded: tuple[tuple[str, str], ...]
    """Texts that are no reading, and why."""

    @property
    def formula(self) -> Formula:
        """Of the reading with the most votes."""
        return self.readings[0].formula

    @property
    def votes(self) -> int:
        """For that reading."""
        return self.readings[0].votes

    @property
    def english(self) -> str:
        """That reading, for a person to confirm."""
        return self.readings[0].english

    def __str__(self) -> str:
        total = len(self.candidates)
        lines = [f"{self.sentence!r} was read as", f"    {self.formula}", f"    {self.english}"]
        lines += [f"{one.votes} of {total}: {one.formula}" for one in self.readings[:5]]
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
    **options: Any,
) -> Translation:
    """The formula that most of `n` candidates mean.

    Parameters
    ----------
    vocabulary
        The atoms that the formula may have; with a mapping, what each stands for is told to the model.
    examples
        Sentences with their atoms and formulas that the prompt shows; of one's own domain they help most.
    alphabet
        What counts as the same meaning: one action at a time ("one-hot"), or any set of atoms ("propositional").

    Raises
    ------
    GenerationError
        Where no candidate is left. `Translation.discarded` of the error's `result` says why.
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
        found = run_batch(model, [prompt] * len(rows), kind, each)
        texts += [(one.generation.text, one.error is None) for one in found]
    return _voted(sentence, texts, names, alphabet)


def prompt_of(
    sentence: str,
    vocabulary: Sequence[str] | Mapping[str, str],
    examples: Sequence[tuple[str, Sequence[str], str]] = EXAMPLES,
) -> str:
    """What the model is asked."""
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
    told = [
        f"{name} ({meaning})" if meaning else name
        for name, meaning in (
            zip(_written(vocabulary), vocabulary.values(), strict=True)
            if isinstance(vocabulary, Mapping)
            else ((name, "") for name in _written(vocabulary))
        )
    ]
    return "\n".join([*lines, f"Sentence: {sentence}", f"Atoms: {', '.join(told)}", "Formula:"])


def grammar_of(atoms: Sequence[str]) -> Constraint:
    """Formulas over these atoms on one line, and a line feed."""
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
            discarded.append((text, "it was not finished"))
            continue
        formula = parse(text)
        why = _says_nothing(formula, alphabet)
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
            min((simplify(one) for one in members), key=lambda one: (one.size, str(one))),
            len(members),
            tuple(dict.fromkeys(members)),
        )
        for _, members in groups
    ]
    readings.sort(key=lambda one: (-one.votes, one.formula.size, str(one.formula)))
    found = Translation(sentence, tuple(readings), tuple(text.strip() for text, _ in texts), tuple(discarded))
    if not readings:
        raise GenerationError(
            f"none of {len(texts)} candidates says anything: {discarded[0][1]}: {discarded[0][0]!r:.80}",
            hint="Give more candidates (n), examples of your domain, or a larger model.",
            result=found,
        )
    return found


def _says_nothing(formula: Formula, alphabet: Alphabet) -> str:
    try:
        if not satisfiable(formula, alphabet=alphabet):
            return "no trace satisfies it"
        if not satisfiable(~formula, alphabet=alphabet):
            return "every trace satisfies it"
    except LimitExceeded:
        return "its automaton is too large"
    return ""
