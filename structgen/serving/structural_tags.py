"""Structural tags, the engines' form of "free text with structure in it", as constraints.

Why: vLLM and SGLang hand over tool calls and reasoning in this form, and users write it themselves.
What: the legacy form ``{"structures": [{"begin", "schema", "end"}], "triggers": [...]}`` and the newer one
``{"type": "structural_tag", "format": {...}}``, as XGrammar 0.2 documents its formats. `_FORMATS` lists what is
supported; those that name tokens are read in `tag_tokens`.
Invariant: free text never holds what ends it: the end of the tag that it stands in, a trigger. `excludes` of `any_text`
are about that text alone, so they may share letters with the end. `at_least_one` means that a tag comes at once, as
XGrammar has it. Where a text holds a special token of the vocabulary, that token is meant. Every field has its type, or
an error with the path to it.
Cost: linear in the formats; triggers are compared with one another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from structgen.constraints import expressions
from structgen.constraints.base import Constraint, Literal, Operand, as_constraint
from structgen.constraints.composition import (
    Composition,
    Special,
    Tokens,
    body_of,
    optional,
    repeat,
    special,
    text,
)
from structgen.constraints.composition.dispatching import dispatch_of
from structgen.constraints.expressions import ANY, concat, intersect, literal
from structgen.constraints.grammar.bodies import choice_of, sequence_of
from structgen.constraints.occurrences import ends_first, without
from structgen.constraints.regex import regex
from structgen.constraints.token_limits import checked_token_limit, limit_tokens
from structgen.errors import ConstraintError, LimitExceeded, a_kind

from .counted_text import counted_text
from .requests import RequestLimits, grammar_constraint, schema_constraint
from .tag_fields import at, check_fields, flag, items, texts, whole
from .tag_fields import text as text_of
from .tag_tokens import TOKEN_FORMATS, TokenMark, read_mark, text_ends, token_begin

__all__ = ["read_structural_tag"]


def read_structural_tag(tag: Any, limits: RequestLimits, specials: Collection[str] = ()) -> Constraint:
    """The constraint of a structural tag in either form. Raises `ConstraintError` with the place in it."""
    return _Reading(limits, specials).whole(tag)


class _Reading:
    """One structural tag being read."""

    def __init__(self, limits: RequestLimits, specials: Collection[str]) -> None:
        self.limits = limits
        self.count = 0
        names = sorted(filter(None, specials), key=len, reverse=True)
        self.specials = re.compile("|".join(map(re.escape, names))) if names else None

    # The two forms.

    def whole(self, tag: Any) -> Constraint:
        if not isinstance(tag, dict):
            raise ConstraintError(f"a structural tag is an object, not {a_kind(tag)}")
        if "structures" in tag:
            return self._legacy(tag)
        if tag.get("type") != "structural_tag" or "format" not in tag:
            raise ConstraintError(
                'a structural tag has "type": "structural_tag" and "format", or "structures" and "triggers"',
                where=f"keys {', '.join(map(repr, list(tag)[:8]))}",
            )
        check_fields(tag, {"type", "format"}, "structural_tag")
        return self.format(tag["format"], (), "format", 0)

    def _legacy(self, tag: dict[str, Any]) -> Constraint:
        check_fields(tag, {"type", "structures", "triggers"}, "structural_tag")
        tags = []
        for place, one in enumerate(items(tag, "structures", "structural_tag")):
            where = f"structural_tag.structures[{place}]"
            if not isinstance(one, dict):
                raise ConstraintError(f"a structure is an object, not {a_kind(one)}", where=where)
            check_fields(one, {"begin", "schema", "end"}, where)
            self._count(1)
            begin, end = self._marker(one, "begin", where), self._marker(one, "end", where)
            with at(f"{where}.schema"):
                content = schema_constraint(one.get("schema", True), self.limits)
            tags.append((begin, _in_order([content, self._written(end)]), where))
        return self._triggered(tag, tags, (), "structural_tag", False, False)

    def format(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        """The constraint of a format; `ends` are the texts of which any ends it, where it is free text."""
        if not isinstance(form, dict):
            raise ConstraintError(f"a format is an object, not {a_kind(form)}", where=where)
        self._count(depth)
        kind = form.get("type")
        read = _FORMATS.get(kind) if isinstance(kind, str) else None
        if read is None:
            raise ConstraintError(
                f"the format {kind!r:.60} of structural tags is not supported",
                where=where,
                hint=f"Supported are {', '.join(_FORMATS)}.",
            )
        return read(self, form, ends, where, depth + 1)

    def _count(self, depth: int) -> None:
        self.count += 1
        if self.count > self.limits.max_tags:
            raise LimitExceeded(
                f"more than {self.limits.max_tags:,} formats in one structural tag",
                limit="max_tags",
                hint="Send fewer; the operator of the server can raise max_tags.",
            )
        if depth > self.limits.max_depth:
            raise LimitExceeded(
                f"formats more than {self.limits.max_depth} deep inside one another",
                limit="max_depth",
                hint="Nest less; the operator of the server can raise max_depth.",
            )

    # Formats that are whole.

    def _const_string(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        check_fields(form, {"type", "value"}, where)
        return self._written(text_of(form, "value", where))

    def _json_schema(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        check_fields(
            form, {"type", "json_schema", "style", "any_order", "max_whitespace_cnt", "excludes"}, where
        )
        if "json_schema" not in form:
            raise ConstraintError('"json_schema" is missing', where=where)
        _no_excludes(form, where)
        style = text_of(form, "style", where, "json")
        blanks = whole(form, "max_whitespace_cnt", where)
        loose = flag(form, "any_order", where)
        if style == "qwen_xml":
            for key, given in (("any_order", loose), ("max_whitespace_cnt", blanks is not None)):
                if given:
                    raise ConstraintError(
                        f'"{key}" of a json_schema in the style qwen_xml is not supported',
                        where=f"{where}.{key}",
                        hint="Leave it out: parameters are written in the order in which they are declared.",
                    )
            return self._qwen_xml(form["json_schema"], f"{where}.json_schema")
        if style != "json":
            raise ConstraintError(
                f"the style {style!r:.40} of a json_schema is not supported",
                where=f"{where}.style",
                hint="The styles are json and qwen_xml.",
            )
        # "json.dumps" has at most one blank in a row.
        white = None if blanks is None else "json.dumps" if blanks else "compact"
        with at(f"{where}.json_schema"):
            return schema_constraint(form["json_schema"], self.limits, ordered=not loose, whitespace=white)

    def _qwen_xml(self, schema: Any, where: str) -> Constraint:
        from structgen.tools.definitions import read_tools
        from structgen.tools.xml_parameters import xml_parameters

        with at(where):
            schema_constraint(schema, self.limits)  # says what is wrong with it
            read = json.loads(schema) if isinstance(schema, (str, bytes, bytearray)) else schema
            if read is False:
                raise ConstraintError("nothing satisfies the schema false")
            function = {"name": "call", "parameters": {"type": "object"} if read is True else read}
            (tool,) = read_tools([{"type": "function", "function": function}])
            return Composition(xml_parameters(tool)[0], "parameters as XML")

    def _qwen_xml_parameter(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        check_fields(form, {"type", "json_schema"}, where)
        return self._json_schema({**form, "style": "qwen_xml"}, ends, where, depth)

    def _regex(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        check_fields(form, {"type", "pattern", "excludes"}, where)
        _no_excludes(form, where)
        pattern = text_of(form, "pattern", where)
        with at(f"{where}.pattern"):
            return regex(pattern)

    def _grammar(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        check_fields(form, {"type", "grammar"}, where)
        source = text_of(form, "grammar", where)
        with at(f"{where}.grammar"):
            return grammar_constraint(source)

    def _token(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        return read_mark(form, where).constraint(self.specials)

    def _any_text(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        never, most, tokens = self._text_options(form, where)
        made = text(tuple(dict.fromkeys((*never, *text_ends(ends)))) or None, max_chars=most)
        return made if tokens is None else limit_tokens(made, tokens)

    def _text_options(self, form: Any, where: str) -> tuple[tuple[str, ...], int | None, int | None]:
        """What a free text excludes, its most characters, and its most tokens."""
        check_fields(form, {"type", "excludes", "max_chars", "max_tokens"}, where)
        tokens = whole(form, "max_tokens", where)
        if tokens is not None:
            with at(f"{where}.max_tokens"):
                checked_token_limit(tokens, "complete")
        return texts(form, "excludes", where), whole(form, "max_chars", where), tokens

    # Formats made of formats.

    def _sequence(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        check_fields(form, {"type", "elements"}, where)
        elements = items(form, "elements", where)
        last = len(elements) - 1
        parts = [
            self.format(one, ends if place == last else (), f"{where}.elements[{place}]", depth)
            for place, one in enumerate(elements)
        ]
        return _in_order(parts)

    def _or(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        check_fields(form, {"type", "elements"}, where)
        return _either(
            [
                self.format(one, ends, f"{where}.elements[{place}]", depth)
                for place, one in enumerate(items(form, "elements", where))
            ]
        )

    def _optional(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        check_fields(form, {"type", "content"}, where)
        return optional(self.format(form.get("content"), ends, f"{where}.content", depth))

    def _star(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        check_fields(form, {"type", "content"}, where)
        return repeat(self.format(form.get("content"), (), f"{where}.content", depth))

    def _plus(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        check_fields(form, {"type", "content"}, where)
        return repeat(self.format(form.get("content"), (), f"{where}.content", depth), 1)

    def _repeat(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        check_fields(form, {"type", "content", "min", "max"}, where)
        least = whole(form, "min", where, 0)
        most = None if form.get("max") == -1 else whole(form, "max", where)
        assert least is not None
        inner = self.format(form.get("content"), (), f"{where}.content", depth)
        with at(where):
            return repeat(inner, least, most)

    def _tag(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        begin, rest = self._tag_parts(form, where, depth)
        return _in_order([self._written(begin), rest])

    def _tag_parts(self, form: Any, where: str, depth: int) -> tuple[str, Constraint]:
        """What a tag begins with, and the rest of it."""
        self._count(depth)
        if not isinstance(form, dict) or form.get("type", "tag") != "tag":
            raise ConstraintError('a tag is an object with "type": "tag"', where=where)
        check_fields(form, {"type", "begin", "content", "end"}, where)
        begin = self._marker(form, "begin", where)
        ends = self._ends(form, where)
        content = form.get("content")
        if isinstance(content, dict) and content.get("type") == "any_text" and all(ends):
            return begin, self._text_and_end(content, ends, f"{where}.content", depth)
        inner = self.format(content, tuple(filter(None, ends)), f"{where}.content", depth)
        return begin, _in_order([inner, _either([self._written(end) for end in ends])])

    def _ends(self, form: Any, where: str) -> tuple[str, ...]:
        given = form.get("end")
        if not isinstance(given, (list, tuple)):
            return (self._marker(form, "end", where),)
        if not given:
            raise ConstraintError("a tag needs an end", where=f"{where}.end")
        found = [
            self._marker({f"end[{place}]": one}, f"end[{place}]", where) for place, one in enumerate(given)
        ]
        return tuple(dict.fromkeys(found))

    def _text_and_end(
        self, form: dict[str, Any], ends: tuple[str, ...], where: str, depth: int
    ) -> Constraint:
        """Free text until the first of the ends, which may begin inside a text that looks like its beginning."""
        self._count(depth)
        if any(self._split(end) != [end] for end in ends):
            plain = self._any_text(form, ends, where, depth)
            return _in_order([plain, _either([self._written(end) for end in ends])])
        never, most, tokens = self._text_options(form, where)
        inside = without(never)
        if most is not None:
            inside = intersect([inside, expressions.repeat(ANY, 0, most)])
        if tokens is not None:
            return counted_text(inside, ends, tokens)
        # Whether the end comes first is asked of both together, what is excluded of the text before it alone.
        found = [
            ("text", intersect([ends_first(end, ends), concat([inside, literal(end)])]))
            for end in ends
            if not any(other in end[:-1] for other in ends)
        ]
        return Composition(choice_of(found), "free text until " + " or ".join(map(repr, ends)))

    def _triggered_tags(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        check_fields(
            form, {"type", "triggers", "tags", "at_least_one", "stop_after_first", "excludes"}, where
        )
        at_once, once = flag(form, "at_least_one", where), flag(form, "stop_after_first", where)
        tags = []
        for place, one in enumerate(items(form, "tags", where)):
            path = f"{where}.tags[{place}]"
            tags.append((*self._tag_parts(one, path, depth), path))
        return self._triggered(form, tags, ends, where, at_once, once)

    def _triggered(
        self,
        form: Mapping[str, Any],
        tags: Sequence[tuple[str, Constraint, str]],
        ends: tuple[str, ...],
        where: str,
        at_once: bool,
        once: bool,
    ) -> Constraint:
        """Free text with `tags`, each what it begins with, its rest, and its path."""
        triggers = texts(form, "triggers", where)
        if not triggers:
            raise ConstraintError("triggered_tags need a trigger", where=f"{where}.triggers")
        after: dict[str, list[Constraint]] = {trigger: [] for trigger in triggers}
        for begin, rest, path in tags:
            if isinstance(begin, TokenMark) and isinstance(begin.constraint(self.specials), Tokens):
                raise token_begin(path)
            fitting = [trigger for trigger in triggers if begin.startswith(trigger)]
            if len(fitting) != 1:
                raise ConstraintError(
                    f"the tag that begins with {begin!r:.60} has {len(fitting)} triggers",
                    where=path,
                    hint="Exactly one trigger is the beginning of a tag's begin.",
                )
            tail = begin[len(fitting[0]) :]
            after[fitting[0]].append(_in_order([self._written(tail), rest]) if tail else rest)
        for place, (trigger, rests) in enumerate(after.items()):
            if not rests:
                raise ConstraintError(
                    f"no tag begins with the trigger {trigger!r:.60}", where=f"{where}.triggers[{place}]"
                )
        calls = [(trigger, _either(rests)) for trigger, rests in after.items()]
        return self._dispatched(calls, form, ends, where, at_once, once)

    def _dispatch(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        check_fields(form, {"type", "rules", "loop", "excludes"}, where)
        once = not flag(form, "loop", where, True)
        calls = []
        for place, rule in enumerate(items(form, "rules", where)):
            path = f"{where}.rules[{place}]"
            if not isinstance(rule, (list, tuple)) or len(rule) != 2 or not isinstance(rule[0], str):
                raise ConstraintError("a rule is a text and a format", where=path)
            calls.append((rule[0], self.format(rule[1], (), f"{path}[1]", depth)))
        return self._dispatched(calls, form, ends, where, False, once)

    def _dispatched(
        self,
        calls: Iterable[tuple[str, Constraint]],
        form: Mapping[str, Any],
        ends: tuple[str, ...],
        where: str,
        at_once: bool,
        once: bool,
    ) -> Constraint:
        """Free text with `calls`, the first of them at once if wanted, and no other if `once`."""
        merged: dict[str | Special, list[Constraint]] = {}
        for trigger, rest in calls:
            pieces = self._split(trigger)
            if len(pieces) == 1 and isinstance(pieces[0], str):
                merged.setdefault(trigger, []).append(rest)
            elif isinstance(pieces[0], Special):
                key = next((one for one in merged if one == pieces[0]), pieces[0])
                merged.setdefault(key, []).append(_in_order([*map(as_constraint, pieces[1:]), rest]))
            else:
                raise ConstraintError(
                    f"the trigger {trigger!r:.60} holds a special token after a text",
                    where=where,
                    hint="A trigger is a text, or begins with a special token.",
                )
        forbidden = tuple(dict.fromkeys((*texts(form, "excludes", where), *text_ends(ends))))
        triggers: dict[str | Special, Operand] = {
            trigger: _either(rests) for trigger, rests in merged.items()
        }
        with at(where):
            return dispatch_of(triggers, at_once=at_once, forbidden=forbidden, stop_after_first=once)

    def _tags_with_separator(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        check_fields(form, {"type", "tags", "separator", "at_least_one", "stop_after_first"}, where)
        least = int(flag(form, "at_least_one", where))
        most = 1 if flag(form, "stop_after_first", where) else None
        separator = text_of(form, "separator", where, "")
        tags = [
            self._tag(one, (), f"{where}.tags[{place}]", depth)
            for place, one in enumerate(items(form, "tags", where))
        ]
        return repeat(_either(tags), least, most, self._written(separator) if separator else None)

    # Texts and the special tokens in them.

    def _marker(self, form: Mapping[str, Any], key: str, where: str) -> str:
        """The begin or an end of a tag: a text, or a special token."""
        given = form.get(key)
        if isinstance(given, dict) and given.get("type") == "token":
            return read_mark(given, f"{where}.{key}")
        return text_of(form, key, where)

    def _split(self, text: str) -> list[str | Special | Tokens]:
        if isinstance(text, TokenMark):
            return [text.constraint(self.specials)]
        if self.specials is None:
            return [text]
        parts: list[str | Special | Tokens] = []
        place = 0
        for found in self.specials.finditer(text):
            parts += [text[place : found.start()]] if found.start() > place else []
            parts.append(special(found[0]))
            place = found.end()
        return parts + ([text[place:]] if place < len(text) else []) or [text]

    def _written(self, text: str) -> Constraint:
        """Exactly this text, with its special tokens as such."""
        return _in_order([as_constraint(part) for part in self._split(text)])


def _in_order(parts: Sequence[Constraint]) -> Constraint:
    """One after the other; texts of length 0 are left out."""
    full = [part for part in parts if not (isinstance(part, Literal) and not part.text)]
    if not full:
        return Literal("")
    if len(full) == 1:
        return full[0]
    return Composition(sequence_of(map(body_of, full)), " and then ".join(_names(full)))


def _either(parts: Sequence[Constraint]) -> Constraint:
    if len(parts) == 1:
        return parts[0]
    return Composition(choice_of(map(body_of, parts)), "one of " + ", ".join(_names(parts)))


def _names(parts: Sequence[Constraint]) -> list[str]:
    names = [part.describe()[:60] for part in parts[:3]]
    return names + ([f"{len(parts) - 3} more"] if len(parts) > 3 else [])


def _no_excludes(form: Mapping[str, Any], where: str) -> None:
    if texts(form, "excludes", where):
        raise ConstraintError(
            f'"excludes" of a {form["type"]} is not supported', where=f"{where}.excludes", hint=_PATTERN
        )


_PATTERN = "Say it in the schema or the pattern itself."
_Read = Callable[[_Reading, Any, tuple[str, ...], str, int], Constraint]
_FORMATS: Mapping[str, _Read] = {
    "const_string": _Reading._const_string,
    "json_schema": _Reading._json_schema,
    "qwen_xml_parameter": _Reading._qwen_xml_parameter,
    "regex": _Reading._regex,
    "grammar": _Reading._grammar,
    "token": _Reading._token,
    "any_text": _Reading._any_text,
    "sequence": _Reading._sequence,
    "or": _Reading._or,
    "optional": _Reading._optional,
    "star": _Reading._star,
    "plus": _Reading._plus,
    "repeat": _Reading._repeat,
    "tag": _Reading._tag,
    "triggered_tags": _Reading._triggered_tags,
    "dispatch": _Reading._dispatch,
    "tags_with_separator": _Reading._tags_with_separator,
    **TOKEN_FORMATS,
}
