"""`infill`: fill the holes of a text with a model that generates from left to right.

What: a template consists of literals and holes. Together they are one constraint (intersected with that of the whole
text, if there is one), so a hole ends only where what follows it can follow. The text after a hole is taken into
account in three ways: as a constraint, always; as something that the model has read, by its fill-in-the-middle tokens
or in the prompt; and as evidence, if particles are weighted by the probability of what follows ("smc").
Invariant: the text is the template with each hole filled by a text of its constraint.
Cost: that of one generation over the whole text; literals are read, not drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

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

from .hole_writing import HoleEnd, write
from .template import Template, read_template

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel

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
_PROMPT = "Fill in the blanks. Write the whole text.\n\nText with blanks:\n{shown}\n\nWhole text:\n"


@short_repr
@dataclass(frozen=True)
class Infilling:
    """A filled template."""

    text: str
    holes: Mapping[str, str]
    """The text of each hole; of the first one, if a name occurs twice."""
    method: str
    hole_ends: Sequence[HoleEnd] = ()
    """How each hole ended: "model", the model wrote what follows; "cut", where that was most probable; "completed", by
    a short completion. Holes without text between them count as one. Empty for "smc"."""
    weights: Sequence[float] = (1.0,)
    """The normalised weights of the particles ("smc"); the text is one of them, drawn by weight."""
    texts: Sequence[str] = field(default=(), repr=False)
    """The texts of all particles."""
    notes: Sequence[Note] = ()
    """For a JSON Schema of the whole text: where its grammar is not exact; empty if it is."""

    def _repr_html_(self) -> str:
        rows = [(f"<b>{plain(name, 60)}</b>", plain(text, 600)) for name, text in self.holes.items()]
        facts = [("left", ", ".join(self.hole_ends))] if self.hole_ends else []
        facts += [("particles", str(len(self.weights)))] if len(self.weights) > 1 else []
        about = f"{len(self.holes)} hole{'s' * (len(self.holes) != 1)}, {self.method}"
        return card(
            "Infilling", about, table(("hole", "text"), rows), code(self.text), pairs(facts) if facts else ""
        )


@checks_names
def infill(
    model: LanguageModel,
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

    Args:
        model: A language model.
        template: A text with holes, ``{{name}}``: letters, digits and underscores.
        within: A constraint of the whole text. Holes must be regular then (they are if they take any text). A grammar
            that reads indentation is indented like the template, with blocks nested at most three levels deeper. A JSON
            Schema is parsed as on a canvas (docs/diffusion.md): `Infilling.notes` shows where that is not exact.
        constraints: The same as `holes`, for holes with names of this function's parameters.
        prompt: What the model reads before the text; by default the template with blanks, so that it knows what
            follows. Not for "fim".
        method: "left-to-right"; "fim", with the model's fill-in-the-middle tokens (one hole); "smc", which weights
            `particles` by the probability of what follows each hole; "auto", which is "fim" if the model has such
            tokens and there is one hole, and "left-to-right" otherwise.
        particles: The number of particles for "smc".
        seed: The seed of all draws.
        max_tokens: The largest number of tokens of a hole. A hole that has not ended by then is cut where what follows
            is most probable. If the template cannot continue anywhere, the hole gets a short completion
            (`Infilling.hole_ends`).
        marks: The texts around the name of a hole, if the template itself has such braces.
        options: Options of the generation, such as ``{"temperature": 0}``.
        holes: The constraint of each hole; a hole without one takes any text. A grammar that reads indentation is
            indented like the hole, in blocks like those of the template.

    Raises:
        EmptyConstraint: No text fits.
        CombinationError: The constraints cannot be combined.
        Truncated: A hole has no end that was found.
        OutputInvalid: A key that the schema does not declare occurs twice, the only fault that is not known before.
    """
    check_model(model, "infill()")
    given = _checked(method, holes, constraints, options)
    max_tokens = whole_number("max_tokens", max_tokens, 1)
    parsed = read_template(template, given, within, marks)
    parsed.check(model.vocabulary)
    chosen = dict(options or {})
    known = _marks(model)
    if method == "auto":
        method = "fim" if known and len(parsed.names) == 1 and within is None else "left-to-right"
    if method == "fim":
        return _in_the_middle(model, parsed, known, chosen, max_tokens, seed)
    prompt_text = prompt if prompt is not None else _PROMPT.format(shown=parsed.shown())
    if method == "smc":
        return _by_particles(model, prompt_text, parsed, particles, max_tokens, seed, chosen)
    text, left = write(model, prompt_text, parsed, max_tokens, seed, chosen)
    parsed.judge(text)
    return Infilling(text, parsed.split(text), method, left, texts=(text,), notes=parsed.notes)


def _checked(
    method: str,
    holes: Mapping[str, Any],
    constraints: Mapping[str, Any] | None,
    options: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the constraints of all holes, after checks of the arguments."""
    if method not in get_args(Method):
        raise OptionError(f"method is {method!r:.40}; use one of {', '.join(get_args(Method))}")
    for which, mapping in (("constraints", constraints), ("options", options)):
        if mapping is not None and not isinstance(mapping, Mapping):
            raise OptionError(f"{which} is {with_kind(mapping)}; it must be a mapping by name")
    for name in ("max_tokens", "seed", "close_within_budget"):
        if name in (options or {}):
            raise OptionError(
                f"{name!r} is not an option of infill's generation",
                hint="Holes always end in time."
                if name == "close_within_budget"
                else f"infill(..., {name}=...)",
            )
    twice = sorted(holes.keys() & (constraints or {}).keys())
    if twice:
        raise OptionError(f"the hole {twice[0]!r:.40} has two constraints")
    return {**holes, **(constraints or {})}


def _by_particles(
    model: LanguageModel,
    prompt_text: str,
    template: Template,
    particles: int,
    max_tokens: int,
    seed: int | None,
    options: dict[str, Any],
) -> Infilling:
    literals = len(model.vocabulary.encode(template.shown("")) or template.shown("").encode())
    room = literals + max_tokens * len(template.names)
    whole = template.constraint(template.literals[0], 0)
    posterior = sample(
        model, prompt_text, whole, n=particles, sampler="smc", seed=seed, max_tokens=room, **options
    )
    if not len(posterior.texts):
        raise DeadEnd("no particle reached the end", hint="Raise particles or max_tokens.")
    weights, texts = template.right_of([float(weight) for weight in posterior.weights], posterior.texts)
    text = texts[int(np.random.default_rng(seed).choice(len(weights), p=weights))]
    return Infilling(text, template.split(text), "smc", (), weights, texts, template.notes)


def _marks(model: LanguageModel) -> tuple[str, str, str] | None:
    """Return the model's tokens for prefix, suffix and middle; None if it has none."""
    for marks in _MIDDLE:
        if all(mark in model.vocabulary.specials for mark in marks):
            return marks
    return None


def _in_the_middle(
    model: LanguageModel,
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
    end: HoleEnd = "model"
    try:
        result = run(
            model,
            f"{prefix}{before}{suffix}{after}{middle}",
            kind,
            seed=seed,
            max_tokens=max_tokens,
            **options,
        )
        _ = result.value  # raises the error of the generation, if there is one
        inside = result.text
    except Truncated as cut:
        matcher = Matcher(kind, model.vocabulary)
        rest = matcher.witness_text() if all(map(matcher.advance, cut.result.tokens)) else None
        if rest is None:
            raise
        inside, end = (matcher.text + rest).decode(), "completed"
    text = before + inside + after
    return Infilling(text, {template.names[0]: inside}, "fim", (end,), texts=(text,))
