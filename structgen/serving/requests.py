"""Turn a request's specification into a constraint: one function for the engine plugins and the server.

Why: serving engines offer the same six kinds of structured output, each with its own spelling. A faulty request must be
refused with a message of its own before an engine sees it.
Invariant: the constraint is exactly what the request describes, except for the form of JSON, which `RequestLimits`
choose; a narrower form loses no value. What cannot be exact is refused by name. Nothing is read from disk or network.
Cost: linear in the request, except for grammars that need Lark's own loader (about a millisecond per rule).

    json             a schema: dict, bool or JSON text
    json_object      any JSON object; the spec is ignored
    regex            a pattern in Python's dialect, for the whole text
    choice           a list of texts, or such a list as JSON
    grammar          EBNF (XGrammar), GBNF (llama.cpp) or Lark, found from how the rules are written
    structural_tag   free text with tags in it, in both forms: see `structural_tags`
    tools, shelf, plan, answer   kinds of the OpenAI-compatible server only: see `server_kinds`
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Literal, get_args

from structgen.constraints.base import Constraint
from structgen.errors import ConstraintError, LimitExceeded, OptionError

from .limits import DEFAULT_LIMITS, RequestLimits
from .server_kinds import SERVER_KINDS, server_constraint
from .spec_readers import (
    SpecReader,
    parse_json,
    read_choice,
    read_grammar,
    read_json,
    read_json_object,
    read_regex,
)
from .structural_tags import read_structural_tag

__all__ = ["KINDS", "Kind", "constraint_of", "spec_text"]

Kind = Literal[
    "json", "json_object", "regex", "grammar", "choice", "structural_tag", "tools", "shelf", "plan", "answer"
]
KINDS: tuple[Kind, ...] = get_args(Kind)


def constraint_of(
    kind: Kind, spec: Any, limits: RequestLimits = DEFAULT_LIMITS, *, specials: Collection[str] = ()
) -> Constraint:
    """Return the constraint that a request describes.

    Args:
        kind: The kind of structured output.
        spec: What the request sends for this kind; see the module's table.
        limits: Bounds on the size of the spec, and the form of JSON.
        specials: The texts of the vocabulary's special tokens. Where a text of a structural tag contains one, that
            token is meant.

    Raises:
        StructgenError: What is wrong with the request.
    """
    read = _READERS.get(kind)
    if read is None:
        raise OptionError(
            f"there is no kind of structured output {kind!r:.60}", hint=f"The kinds are {', '.join(KINDS)}."
        )
    if kind != "json_object":
        _check_size(spec_text(spec), limits)
    return read(spec, limits, specials)


def spec_text(spec: Any) -> str:
    """Return a spec as text: itself, or its JSON with keys in the given order. Equal texts are equal requests."""
    if isinstance(spec, str):
        return spec
    if isinstance(spec, (bytes, bytearray)):
        return spec.decode("utf-8", "surrogateescape")
    try:
        return json.dumps(spec)
    except RecursionError:
        raise LimitExceeded(
            "the request is nested too deeply", limit="request_depth", hint="Use fewer levels."
        ) from None
    except (TypeError, ValueError) as error:
        raise ConstraintError(f"the request is not JSON: {error}") from None


def _check_size(text: str, limits: RequestLimits) -> None:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if size > limits.max_bytes:
        raise LimitExceeded(
            f"the request's constraint has {size:,} bytes, more than {limits.max_bytes:,}",
            limit="max_bytes",
            hint="Send a smaller one; the operator of the server can raise max_bytes.",
        )


def _read_structural_tag(spec: Any, limits: RequestLimits, specials: Collection[str]) -> Constraint:
    tag = parse_json(spec, "a structural tag") if isinstance(spec, (str, bytes, bytearray)) else spec
    return read_structural_tag(tag, limits, specials)


def _server_reader(kind: str) -> SpecReader:
    def read(spec: Any, limits: RequestLimits, specials: Collection[str]) -> Constraint:
        return server_constraint(kind, spec, limits, specials, constraint_of)

    return read


_READERS: Mapping[str, SpecReader] = {
    "json": read_json,
    "json_object": read_json_object,
    "regex": read_regex,
    "grammar": read_grammar,
    "choice": read_choice,
    "structural_tag": _read_structural_tag,
    **{kind: _server_reader(kind) for kind in SERVER_KINDS},
}
