"""Filling the holes of a text with a model that writes from the left: `infill`.

What: a template is literals and holes. Together they are one constraint (and, if asked, that of the whole text), so a
hole is left only where what follows it can follow, and the whole is right. The right side is respected in three ways:
as a limit, always; as something the model has read, by tokens made for it (fill in the middle) or in the prompt; and as
evidence, where particles are weighted by how likely the model finds what follows a hole ("smc").
Invariant: the text is the template with each hole filled by a text of its constraint.
Cost: of one generation over the whole text; literals are read, not drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from structgen.api import check_model, run
from structgen.argument_names import checks_names
from structgen.brief import short_repr
from structgen.constraints.as_grammar import Note
from structgen.constraints.base import Constraint, Operand
from structgen.errors import DeadEnd, OptionError, Truncated, with_kind
from structgen.inference.requests import whole_number
from structgen.inference.sampling import sample
from structgen.matcher import Matcher
from structgen.notebook import card, code, pairs, plain, table

from .hole_writing import Leaving, write
from .template import Template, read_template

__all__ = ["Infilling", "Method", "infill"]

Method = Literal["auto", "left-to-right", "fim", "smc"]
_MIDDLE = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    ("[PREFIX]", "[SUFFIX]", "[MIDDLE]"),
    ("<PRE>", "<SUF>", "<MID>"),
    ("▁<PRE>", "▁<SUF>", "▁<MID>"),
)
_ASKED = "Fill in the blanks. Write the whole text.\n\nText with blanks:\n{shown}\n\nWhole text:\n"


@short_repr
@dataclass(frozen=True)
class Infilling:
    """A template that was filled."""

    text: str
    holes: Mapping[str, str]
    """What each hole holds; of a name that stands twice the first."""
    method: str
    left: Sequence[Leaving] = ()
    """How each hole was left: "model", it wrote what follows the hole; "cut", where that was likeliest; "completed", in
    a short way. Holes with nothing between them count as one. Not told by "smc"."""
    weights: Sequence[float] = (1.0,)
    """Of the particles that were drawn ("smc"), normalised; the text is one of them, drawn by weight."""
    texts: Sequence[str] = field(default=(), repr=False)
    """All of them."""
    notes: Sequence[Note] = ()
    """Of a JSON Schema for the whole: where its grammar knows less than the schema says; empty: it is exact."""

    def _repr_html_(self) -> str:
        rows = [(f"<b>{plain(name, 60)}</b>", plain(text, 600)) for name, text in self.holes.items()]
        facts = [("left", ", ".join(self.left))] if self.left else []
        facts += [("particles", str(len(self.weights)))] if len(self.weights) > 1 else []
        about = f"{len(self.holes)} hole{'s' * (len(self.holes) != 1)}, {self.method}"
        return card(
            "Infilling", about, table(("hole", "text"), rows), code(self.text), pairs(facts) if facts else ""
        )


@checks_names
def infill(
    model: Any,
    template: str,
    *,
    within: Constraint | None = None,
    constraints: Mapping[str, Operand] | None = None,
    prompt: str | None = None,
    method: Method = "auto",
    particles: int = 8,
    seed: int | None = None,
    max_tokens: int = 64,
    marks: tuple[str, str] = ("{{", "}}"),
    options: Mapping[str, Any] | None = None,
    **holes: Operand,
) -> Infilling:
    r"""Fill the holes of a template.

        sg.infill(model, "int twice(int x) {\n{{body}}\n}", within=sg.grammar("cpp"))

    Parameters
    ----------
    template
        A text with holes, ``{{name}}``: letters, digits and underscores.
    **holes
        The constraint of each hole; one that is not named here takes any text.
        A grammar that reads indentation is indented as the hole is, in blocks like those of the template.
    within
        What the whole text has to be as well. Holes are regular then (as they are if they take any text). Of a grammar
        that reads indentation these are the texts in blocks like those of the template, three deeper at most. A JSON
        Schema is read as on a canvas (docs/diffusion.md): `Infilling.notes` tells where that is not exact.
    constraints
        The same as `holes`, for holes with names that this function has for its parameters.
    prompt
        What the model is given before the text; by default the template with blanks, so that it knows what follows. Not
        for "fim".
    method
        "left-to-right"; "fim" with the model's own tokens for filling in the middle (one hole); "smc" weights
        `particles` by how likely what follows each hole is; "auto" takes "fim" where the model has it and there is one
        hole, and "left-to-right" elsewhere.
    max_tokens
        Of each hole. One that the model has not left by then is cut where it finds what follows likeliest; where the
        template can go on nowhere, the hole is completed in a short way (`Infilling.left` tells).
    marks
        What holes stand between, where the text itself has braces like these.
    options
        Of the generation, such as ``{"temperature": 0}``.

    Raises
    ------
    EmptyConstraint, CombinationError
        Where no text fits, or the constraints cannot be joined.
    Truncated
        Where no way was found to end a hole.
    OutputInvalid
        Where a key stands twice that a schema for the whole does not declare: the one thing that is not known before.
    """
    check_model(model, "infill()")
    given = _checked(method, holes, constraints, options)
    max_tokens = whole_number("max_tokens", max_tokens, 1)
    asked_for = read_template(template, given, within, marks)
    asked_for.check(model.vocabulary)
    chosen = dict(options or {})
    known = _marks(model)
    if method == "auto":
        method = "fim" if known and len(asked_for.names) == 1 and within is None else "left-to-right"
    if method == "fim":
        return _in_the_middle(model, asked_for, known, chosen, max_tokens, seed)
    asked = prompt if prompt is not None else _ASKED.format(shown=asked_for.shown())
    if method == "smc":
        return _by_particles(model, asked, asked_for, particles, max_tokens, seed, chosen)
    text, left = write(model, asked, asked_for, max_tokens, seed, chosen)
    asked_for.judge(text)
    return Infilling(text, asked_for.split(text), method, left, texts=(text,), notes=asked_for.notes)


def _checked(
    method: str,
    holes: Mapping[str, Any],
    constraints: Mapping[str, Any] | None,
    options: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """All constraints of holes."""
    if method not in get_args(Method):
        raise OptionError(f"method is {method!r:.40}; it is one of {', '.join(get_args(Method))}")
    for which, mapping in (("constraints", constraints), ("options", options)):
        if mapping is not None and not isinstance(mapping, Mapping):
            raise OptionError(f"{which} is {with_kind(mapping)}; it is a mapping by name")
    for name in ("max_tokens", "seed", "close_within_budget"):
        if name in (options or {}):
            raise OptionError(
                f"{name!r} is no option of infill's generation",
                hint="Holes end in time by themselves."
                if name == "close_within_budget"
                else f"infill(..., {name}=...)",
            )
    twice = sorted(holes.keys() & (constraints or {}).keys())
    if twice:
        raise OptionError(f"the hole {twice[0]!r:.40} has two constraints")
    return {**holes, **(constraints or {})}


def _by_particles(
    model: Any,
    asked: str,
    template: Template,
    particles: int,
    max_tokens: int,
    seed: int | None,
    options: dict[str, Any],
) -> Infilling:
    literals = len(model.vocabulary.encode(template.shown("")) or template.shown("").encode())
    room = literals + max_tokens * len(template.names)
    whole = template.constraint(template.literals[0], 0)
    found = sample(model, asked, whole, n=particles, sampler="smc", seed=seed, max_tokens=room, **options)
    if not len(found.texts):
        raise DeadEnd("no particle came to an end", hint="Raise particles or max_tokens.")
    weights, texts = template.right_of([float(one) for one in found.weights], found.texts)
    text = texts[int(np.random.default_rng(seed).choice(len(weights), p=weights))]
    return Infilling(text, template.split(text), "smc", (), weights, texts, template.notes)


def _marks(model: Any) -> tuple[str, str, str] | None:
    """The model's tokens for prefix, suffix and middle."""
    for marks in _MIDDLE:
        if all(mark in model.vocabulary.specials for mark in marks):
            return marks
    return None


def _in_the_middle(
    model: Any,
    template: Template,
    marks: tuple[str, str, str] | None,
    options: dict[str, Any],
    max_tokens: int,
    seed: int | None,
) -> Infilling:
    if marks is None:
        raise OptionError(
            "the model has no tokens for filling in the middle", hint='Use method="left-to-right" or "smc".'
        )
    if len(template.names) != 1 or template.within is not None:
        raise OptionError('method "fim" fills one hole under its own constraint', hint='Use "left-to-right".')
    (prefix, suffix, middle), (before, after) = marks, template.literals
    kind = template.kinds[0]
    way: Leaving = "model"
    try:
        result = run(
            model,
            f"{prefix}{before}{suffix}{after}{middle}",
            kind,
            seed=seed,
            max_tokens=max_tokens,
            **options,
        )
        _ = result.value  # which raises what went wrong
        inside = result.text
    except Truncated as cut:
        matcher = Matcher(kind, model.vocabulary)
        rest = matcher.witness_text() if all(map(matcher.advance, cut.result.tokens)) else None
        if rest is None:
            raise
        inside, way = (matcher.text + rest).decode(), "completed"
    text = before + inside + after
    return Infilling(text, {template.names[0]: inside}, "fim", (way,), texts=(text,))
