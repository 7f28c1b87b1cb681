"""The checks of one input of a target, inside a worker.

A target follows the path of an untrusted text: it is parsed, lowered and compiled, masks are computed, a text is drawn.
Where there is a second opinion (an exact validator of schemas, Python's `re`, the semantics of traces), it judges the
text too.

Invariant: a check returns, or raises an error of structgen's, on any input; anything else is a finding.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

from structgen.constraints.base import Constraint
from structgen.constraints.grammar.builders import ebnf, gbnf, lark
from structgen.constraints.json_schema import check as check_schema
from structgen.constraints.json_schema import json_schema
from structgen.constraints.regex import regex
from structgen.formulas import automaton, english, parse, simplify
from structgen.formulas import queries as questions
from structgen.formulas.empty_trace import holds_on_empty
from structgen.matcher import Matcher
from structgen.serving.requests import constraint_of
from structgen.vocabulary import Vocabulary

from .core import check_core
from .rollback import check_rollback
from .served import check_served
from .walking import Broken, check_matcher, vocabularies

__all__ = ["TARGETS", "Stage"]

Stage = Callable[[str], None]
"""Called with the name of the stage that starts, so that a hang differs from a slow second opinion."""

_LIMITS = {
    "automaton_states": 20_000,
    "oracle_budget": 20_000,
    "emptiness_budget": 20_000,
    "mask_steps": 20_000,
}
_MOST_STATES = 500
_TRACES = 12
_EVERY = 250
"""Constraints on one vocabulary before a new one is made: what an input meets should not depend on many others."""


class _Vocabularies:
    """The same two for a while; small limits, so that what is merely slow is not mistaken for a hang."""

    def __init__(self) -> None:
        self._used = 0
        self._known = vocabularies()

    def take(self) -> tuple[Vocabulary, Vocabulary]:
        if self._used % _EVERY == 0:
            by_bytes, by_pieces = self._known
            self._known = by_bytes.with_limits(**_LIMITS), by_pieces.with_limits(**_LIMITS)
        self._used += 1
        return self._known


@cache
def _vocabularies() -> _Vocabularies:
    return _Vocabularies()


def _dice(text: str) -> random.Random:
    """The same for the same input, in every process; halves of characters are no hindrance."""
    return random.Random(text.encode("utf-8", "surrogatepass"))


def _walked(constraint: Constraint, text: str, stage: Stage) -> bytes | None:
    stage("walk")
    repr(constraint), constraint.describe()
    rng = _dice(text)
    return check_matcher(constraint, _vocabularies().take(), rng)


def _schema(text: str, stage: Stage) -> None:
    rng = _dice(text)
    options: dict[str, Any] = {
        "whitespace": rng.choice(["flexible", "flexible", "compact", "json.dumps", "indented"]),
        "escapes": rng.choice(["canonical", "canonical", "all"]),
        "ordered": rng.random() < 0.2,
        "formats": rng.choice(["assert", "annotate"]),
    }
    stage("report")
    str(check_schema(text))
    stage("read")
    constraint = json_schema(text, **options)
    finished = _walked(constraint, text, stage)
    if finished is not None:
        stage("second opinion")
        _judge_json(text, finished, options["formats"] == "assert")


def _judge_json(schema: str, finished: bytes, formats: bool) -> None:
    from tests.oracles.ecma_regex import PatternError
    from tests.oracles.json_text import JSONTextError
    from tests.oracles.json_text import parse as exactly
    from tests.oracles.json_validator import SchemaError, Validator

    try:
        right = Validator(exactly(schema), formats=formats, later_formats=formats).accepts(finished)
    except (SchemaError, PatternError, JSONTextError, RecursionError):
        return
    except (
        Exception
    ):  # the judge reads schemas of the specification only; what it makes of others says nothing
        return
    if not right:
        raise Broken("a finished text satisfies the schema", repr(finished))


def _regex(text: str, stage: Stage) -> None:
    rng = _dice(text)
    dialect: Any = rng.choice(["python", "python", "ecma"])
    stage("read")
    constraint = regex(text, dialect=dialect)
    finished = _walked(constraint, text, stage)
    if (
        not finished or dialect != "python" or len(finished) > 60
    ):  # before Python 3.14, `re` has no \\B in an empty text
        return
    stage("second opinion")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pattern = re.compile(text)
        except (
            re.error,
            OverflowError,
            RecursionError,
        ):  # `re` takes fewer: no look-behind of any width
            return
    if pattern.fullmatch(finished.decode("utf-8", "surrogatepass")) is None:
        raise Broken("a finished text matches", repr(finished))


def _lark(text: str, stage: Stage) -> None:
    rng = _dice(text)
    lexer: Any = rng.choice(["lark", "longest"])
    stage("read")
    contextual = rng.random() < 0.3
    at_limit: Any = rng.choice(["cut", "complete"])
    constraint = lark(text, lexer=lexer, contextual=contextual, at_limit=at_limit)
    finished = _walked(constraint, text, stage)
    if finished is not None and constraint.holds_captures():
        stage("captures")
        _captured(constraint, finished)


def _captured(constraint: Constraint, finished: bytes) -> None:
    """Check that captures are parts of a finished text, in the order in which they begin."""
    matcher = Matcher(constraint, Vocabulary.of_bytes())
    if not all(map(matcher.advance, finished)):
        return  # special tokens
    captures = matcher.captures()
    starts = [capture.start for capture in captures]
    if starts != sorted(starts) or not all(
        0 <= capture.start <= capture.end <= len(finished) for capture in captures
    ):
        raise Broken("captures are parts of the text", repr((finished, captures)))


def _gbnf(text: str, stage: Stage) -> None:
    stage("read")
    _walked(gbnf(text), text, stage)


def _ebnf(text: str, stage: Stage) -> None:
    stage("read")
    _walked(ebnf(text), text, stage)


def _tags(text: str, stage: Stage) -> None:
    stage("read")
    _walked(constraint_of("structural_tag", text), text, stage)


def _ltl(text: str, stage: Stage) -> None:
    from tests.oracles.trace_semantics import holds

    rng = _dice(text)
    stage("read")
    formula = parse(text)
    written = str(formula)
    if len(written) < 20_000 and parse(written) != formula:
        raise Broken("what is written is read again as the same", written[:200])
    english(formula)
    simple = simplify(formula)
    alphabet: Any = rng.choice(["one-hot", "propositional"])
    stage("ask")
    satisfiable = questions.satisfiable(formula, alphabet=alphabet, most=5_000)
    trace = questions.example(formula, alphabet=alphabet, most=5_000)
    if (trace is not None) != satisfiable:
        raise Broken("there is an example iff it is satisfiable", f"{trace}")
    stage("automaton")
    machine = automaton(formula, alphabet=alphabet, most=_MOST_STATES)
    if trace is not None and not machine.accepts(trace):
        raise Broken("the automaton accepts the example", f"{trace}")
    holds_on_empty(formula)
    stage("second opinion")
    atoms = sorted(formula.atoms)[:6]
    if len(written) > 400:
        return
    for _ in range(_TRACES):
        letters = [
            frozenset(
                rng.sample(atoms, rng.randint(0, 1 if alphabet == "one-hot" else len(atoms))) if atoms else ()
            )
            for _ in range(rng.randint(1, 5))
        ]
        right = holds(formula, letters)
        if machine.accepts(letters) != right or holds(simple, letters) != right:
            raise Broken(
                "the automaton and the simpler formula mean the same", f"{[sorted(one) for one in letters]}"
            )


TARGETS: dict[str, Callable[[str, Stage], None]] = {
    "schema": _schema,
    "regex": _regex,
    "lark": _lark,
    "gbnf": _gbnf,
    "ebnf": _ebnf,
    "ltl": _ltl,
    "tags": _tags,
    "core": check_core,
    "served": check_served,
    "rollback": check_rollback,
}
"""What is done with an input of each."""
