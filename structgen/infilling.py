"""Filling the holes of a text with a model that writes from the left: `infill`.

What: a template is literals and holes. Together they are one constraint (and, if asked, that of the whole text), so a
hole is left only where what follows it can follow, and the whole is right. The right side is respected in three ways:
as a limit, always; as something the model has read, by tokens made for it (fill in the middle) or in the prompt; and as
evidence, where particles are weighted by how likely the model finds what follows a hole ("smc").
Invariant: the text is the template with each hole filled by a text of its constraint.
Cost: of one generation over the whole text; literals are read, not drawn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from structgen.api import run
from structgen.constraints.base import Constraint, as_constraint
from structgen.constraints.base import Literal as Text
from structgen.constraints.composition import text as free_text
from structgen.constraints.grammar.constraint import DEEPEST, GrammarConstraint
from structgen.errors import CombinationError, DeadEnd, OptionError, OutputInvalid, Truncated, with_kind
from structgen.matcher import Matcher
from structgen.posterior_sampling import sample
from structgen.vocabulary import Vocabulary

__all__ = ["Infilling", "Method", "infill"]

Method = Literal["auto", "left-to-right", "fim", "smc"]
_HOLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_QUOTED = re.compile(r"\"{3}.*?\"{3}|'{3}.*?'{3}|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'", re.S)
_BRACKETS = re.compile(r"\([^()\[\]{}]*\)|\[[^()\[\]{}]*\]|\{[^()\[\]{}]*\}")
_DEEPER = 3
"""Blocks that a hole may nest more than the template does."""
_MIDDLE = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    ("[PREFIX]", "[SUFFIX]", "[MIDDLE]"),
    ("<PRE>", "<SUF>", "<MID>"),
    ("▁<PRE>", "▁<SUF>", "▁<MID>"),
)
_ASKED = "Fill in the blanks. Write the whole text.\n\nText with blanks:\n{shown}\n\nWhole text:\n"


@dataclass(frozen=True)
class Infilling:
    """A template that was filled."""

    text: str
    holes: Mapping[str, str]
    """What each hole holds; of a name that stands twice the first."""
    method: str
    weights: Sequence[float] = (1.0,)
    """Of the particles that were drawn ("smc"), normalised; the text is one of them, drawn by weight."""
    texts: Sequence[str] = field(default=(), repr=False)
    """All of them."""


def infill(
    model: Any,
    template: str,
    *,
    within: Constraint | None = None,
    prompt: str | None = None,
    method: Method = "auto",
    particles: int = 8,
    seed: int | None = None,
    max_tokens: int = 512,
    options: Mapping[str, Any] | None = None,
    **holes: Constraint | str,
) -> Infilling:
    r"""Fill the holes of a template.

        sg.infill(model, "int twice(int x) {\n{{body}}\n}", within=sg.grammar("cpp"))

    Parameters
    ----------
    template
        A text with holes, ``{{name}}``.
    **holes
        The constraint of each hole; one that is not named here takes any text.
        A grammar that reads indentation is indented as the hole is, in blocks like those of the template.
    within
        What the whole text has to be as well. Holes are regular then (as they are if they take any text). Of a grammar
        that reads indentation these are the texts in blocks like those of the template, three deeper at most.
    prompt
        What the model is given before the text; by default the template with blanks, so that it knows what follows. Not
        for "fim".
    method
        "left-to-right"; "fim" with the model's own tokens for filling in the middle (one hole); "smc" weights
        `particles` by how likely what follows each hole is; "auto" takes "fim" where the model has it and there is one
        hole, and "left-to-right" elsewhere.
    max_tokens
        Of the whole text. What has come to no end by then is completed in a short way, whatever the model would say;
        to be told instead, or to end in time, give ``close_within_budget`` among the options.
    options
        Of the generation, such as ``{"temperature": 0}``.

    Raises
    ------
    EmptyConstraint, CombinationError
        Where no text fits, or the constraints cannot be joined.
    """
    pieces, names = _read(template, holes)
    if method not in get_args(Method):
        raise OptionError(f"method is {method!r:.40}; it is one of {', '.join(get_args(Method))}")
    kinds = {name: as_constraint(holes[name]) if name in holes else free_text() for name in names}
    unit, deepest = _indentation(template)
    for name, literal in zip(names, pieces, strict=False):
        line = literal[literal.rfind("\n") + 1 :]
        kinds[name] = _indented(kinds[name], unit, deepest, line[: len(line) - len(line.lstrip(" \t"))])
    within = None if within is None else _indented(within, unit, deepest, "")
    whole = _whole(pieces, [kinds[name] for name in names], within)
    chosen = dict(options or {})
    marks = _marks(model)
    if method == "auto":
        method = "fim" if marks and len(names) == 1 and within is None else "left-to-right"
    if method == "fim":
        return _in_the_middle(model, pieces, names, kinds, marks, chosen, max_tokens, seed, within)
    asked = prompt if prompt is not None else _ASKED.format(shown=_HOLE.sub("____", template))
    if method == "smc":
        found = sample(
            model, asked, whole, n=particles, sampler="smc", seed=seed, max_tokens=max_tokens, **chosen
        )
        if not len(found.texts):
            raise DeadEnd("no particle came to an end", hint="Raise particles or max_tokens.")
        weights = [float(one) for one in found.weights]
        text = found.texts[int(np.random.default_rng(seed).choice(len(weights), p=weights))]
        return Infilling(text, _split(text, pieces, names, kinds), method, weights, list(found.texts))
    text = _written(model, asked, whole, chosen, max_tokens, seed)
    return Infilling(text, _split(text, pieces, names, kinds), method, texts=(text,))


def _written(
    model: Any, asked: str, whole: Constraint, options: dict[str, Any], max_tokens: int, seed: int | None
) -> str:
    """A text of the constraint: what the model writes, and where that comes to no end a short way to one."""
    try:
        result = run(model, asked, whole, seed=seed, max_tokens=max_tokens, **options)
        _ = result.value  # which raises what went wrong
        return result.text
    except Truncated as cut:
        if "close_within_budget" in options:
            raise
        matcher = Matcher(whole, model.vocabulary)
        rest = matcher.witness_text() if all(map(matcher.advance, cut.result.tokens)) else None
        if rest is None:
            raise
        return (matcher.text + rest).decode()


def _read(template: str, holes: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Literals, one more than holes, and the holes' names."""
    if not isinstance(template, str):
        raise OptionError(f"template is {with_kind(template)}; it is a text")
    pieces = _HOLE.split(template)
    literals, names = pieces[::2], pieces[1::2]
    if not names:
        raise OptionError(
            "the template has no hole", hint="Write {{name}} where something is to be filled in."
        )
    for name in holes:
        if name not in names:
            raise OptionError(f"the template has no hole {name!r:.40}", hint=f"There are {', '.join(names)}.")
    return literals, names


def _indentation(template: str) -> tuple[str, int]:
    """What a block of the template is indented by, and how deep blocks may be."""
    code = _QUOTED.sub("''", template)
    while (bare := _BRACKETS.sub("0", code)) != code:  # columns between brackets are those of no block
        code = bare
    lines = [line for line in code.split("\n") if line.strip()]
    columns = [line[: len(line) - len(line.lstrip(" \t"))] for line in lines]
    opened = [
        column[len(before) :]
        for line, before, column in zip(lines, columns, columns[1:], strict=False)
        if line.rstrip().endswith(":") and column.startswith(before) and len(column) > len(before)
    ]
    unit = next(iter(opened), None) or min(filter(None, columns), key=len, default="    ")
    return unit, max(map(len, columns), default=0) // len(unit) + _DEEPER


def _indented(kind: Constraint, unit: str, deepest: int, before: str) -> Constraint:
    """The same, with the template's indentation where it reads indentation at all."""
    if isinstance(kind, GrammarConstraint) and kind.reads_indentation:
        return kind.indented_by(unit, deepest=min(deepest, DEEPEST), before=before)
    return kind


def _whole(pieces: Sequence[str], kinds: Sequence[Constraint], within: Constraint | None) -> Constraint:
    whole: Constraint = Text(pieces[0])
    for kind, literal in zip(kinds, pieces[1:], strict=True):
        whole = whole + kind
        whole = whole + literal if literal else whole
    if within is None:
        return whole
    if whole.regular() is None:
        raise CombinationError(
            "holes with a grammar of their own, and a constraint on the whole text, cannot be joined",
            hint="Give the holes regular expressions, or leave out `within`.",
        )
    return within & whole


def _marks(model: Any) -> tuple[str, str, str] | None:
    """The model's tokens for prefix, suffix and middle."""
    vocabulary: Vocabulary = model.vocabulary
    for marks in _MIDDLE:
        if all(mark in vocabulary.specials for mark in marks):
            return marks
    return None


def _in_the_middle(
    model: Any,
    pieces: Sequence[str],
    names: Sequence[str],
    kinds: Mapping[str, Constraint],
    marks: tuple[str, str, str] | None,
    options: dict[str, Any],
    max_tokens: int,
    seed: int | None,
    within: Constraint | None,
) -> Infilling:
    if marks is None:
        raise OptionError(
            "the model has no tokens for filling in the middle", hint='Use method="left-to-right" or "smc".'
        )
    if len(names) != 1 or within is not None:
        raise OptionError('method "fim" fills one hole under its own constraint', hint='Use "left-to-right".')
    prefix, suffix, middle = marks
    asked = f"{prefix}{pieces[0]}{suffix}{pieces[1]}{middle}"
    inside = _written(model, asked, kinds[names[0]], options, max_tokens, seed)
    text = pieces[0] + inside + pieces[1]
    return Infilling(text, {names[0]: inside}, "fim", texts=(text,))


def _split(
    text: str, pieces: Sequence[str], names: Sequence[str], kinds: Mapping[str, Constraint]
) -> dict[str, str]:
    """What each hole holds: of several readings the one with the shortest first holes."""
    known = Vocabulary.of_bytes()
    matchers = {name: Matcher(kind, known) for name, kind in kinds.items()}

    def fits(name: str, inside: str) -> bool:
        return matchers[name].explain(inside).ok

    failed: set[tuple[int, int]] = set()

    def rest(place: int, at: int) -> list[str] | None:
        """The holes from one on, whose text begins here."""
        if place == len(names):
            return [] if at == len(text) else None
        if (place, at) in failed:
            return None
        found = holes_from(place, at)
        if found is None:
            failed.add((place, at))
        return found

    def holes_from(place: int, at: int) -> list[str] | None:
        literal = pieces[place + 1]
        last = place + 1 == len(names)
        end = len(text) - len(literal) if last else text.find(literal, at)
        while end >= at:
            inside = text[at:end]
            if text.startswith(literal, end) and fits(names[place], inside):
                behind = rest(place + 1, end + len(literal))
                if behind is not None:
                    return [inside, *behind]
            if last:
                return None
            end = text.find(literal, end + 1)
        return None

    found = rest(0, len(pieces[0])) if text.startswith(pieces[0]) else None
    if found is None:
        raise OutputInvalid(
            "the text does not follow its template", hint="The holes overlap with the literals."
        )
    holes: dict[str, str] = {}
    for name, inside in zip(names, found, strict=True):
        holes.setdefault(name, inside)
    return holes
