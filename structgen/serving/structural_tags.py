"""Structural tags, the engines' form of "free text with structure in it", as constraints.

Why: vLLM and SGLang hand over tool calls and reasoning in this form, and users write it themselves.
What: the legacy form ``{"structures": [{"begin", "schema", "end"}], "triggers": [...]}`` and the newer one
``{"type": "structural_tag", "format": {...}}``, as XGrammar 0.2 documents its formats. `_FORMATS` lists what is
supported; the others are refused by name, since they count or name tokens, which a constraint on texts cannot do.
Invariant: free text never holds what ends it: the end of the tag that it stands in, a trigger, an excluded text.
`at_least_one` means that a tag comes at once, as XGrammar has it. Where a text holds a special token of the
vocabulary, that token is meant.
Cost: linear in the formats; triggers are compared with one another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from structgen.constraints.base import Constraint, Literal, as_constraint
from structgen.constraints.composition import (
    Composition,
    Special,
    body_of,
    dispatch,
    optional,
    repeat,
    special,
    text,
)
from structgen.constraints.composition.dispatching import stretch_until
from structgen.constraints.grammar.bodies import choice_of, sequence_of
from structgen.constraints.regex import regex
from structgen.errors import ConstraintError, LimitExceeded, a_kind

from .requests import RequestLimits, grammar_constraint, schema_constraint

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
        _known(tag, {"type", "format"}, "structural_tag")
        return self.format(tag["format"], (), "format", 0)

    def _legacy(self, tag: dict[str, Any]) -> Constraint:
        _known(tag, {"type", "structures", "triggers"}, "structural_tag")
        tags = []
        for place, one in enumerate(_list(tag, "structures", "structural_tag")):
            where = f"structures[{place}]"
            if not isinstance(one, dict):
                raise ConstraintError(f"a structure is an object, not {a_kind(one)}", where=where)
            _known(one, {"begin", "schema", "end"}, where)
            schema = one.get("schema", True)
            content = {"type": "json_schema", "json_schema": schema}
            tags.append({"type": "tag", "begin": one.get("begin"), "content": content, "end": one.get("end")})
        form = {"type": "triggered_tags", "triggers": tag.get("triggers"), "tags": tags}
        return self.format(form, (), "structures", 0)

    def format(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        """The constraint of a format; `ends` are the texts of which any ends it, where it is free text."""
        if not isinstance(form, dict):
            raise ConstraintError(f"a format is an object, not {a_kind(form)}", where=where)
        self.count += 1
        if self.count > self.limits.max_tags:
            raise LimitExceeded(
                f"more than {self.limits.max_tags:,} formats in one structural tag", limit="max_tags"
            )
        if depth > self.limits.max_depth:
            raise LimitExceeded(
                f"formats more than {self.limits.max_depth} deep inside one another", limit="max_depth"
            )
        kind = form.get("type")
        read = _FORMATS.get(kind) if isinstance(kind, str) else None
        if read is None:
            raise ConstraintError(
                f"the format {kind!r:.60} of structural tags is not supported",
                where=where,
                hint=_UNSUPPORTED.get(str(kind), f"Supported are {', '.join(_FORMATS)}."),
            )
        return read(self, form, ends, where, depth + 1)

    # Formats that are whole.

    def _const_string(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        _known(form, {"type", "value"}, where)
        return self._written(_text(form, "value", where))

    def _json_schema(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        _known(form, {"type", "json_schema", "style", "any_order", "max_whitespace_cnt", "excludes"}, where)
        if "json_schema" not in form:
            raise ConstraintError('"json_schema" is missing', where=where)
        if form.get("excludes"):
            raise ConstraintError('"excludes" of a json_schema is not supported', where=where, hint=_PATTERN)
        style = form.get("style", "json")
        if style == "qwen_xml":
            return self._qwen_xml(form, where)
        if style != "json":
            raise ConstraintError(
                f"the style {style!r:.40} of a json_schema is not supported",
                where=where,
                hint="The styles are json and qwen_xml.",
            )
        blanks = form.get("max_whitespace_cnt")
        if blanks is not None:
            _whole(blanks, "max_whitespace_cnt", where)
            blanks = "json.dumps" if blanks else "compact"  # at most one blank in a row
        loose = form.get("any_order") is True
        return schema_constraint(form["json_schema"], self.limits, ordered=not loose, whitespace=blanks)

    def _qwen_xml(self, form: Any, where: str) -> Constraint:
        from structgen.tools.definitions import read_tools
        from structgen.tools.xml_parameters import xml_parameters

        schema = form["json_schema"]
        parameters = schema if isinstance(schema, dict) else {"type": "object"}
        function = {"name": "call", "parameters": parameters}
        (tool,) = read_tools([{"type": "function", "function": function}])
        return Composition(xml_parameters(tool), "parameters as XML")

    def _qwen_xml_parameter(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        _known(form, {"type", "json_schema"}, where)
        return self._json_schema({**form, "style": "qwen_xml"}, ends, where, depth)

    def _regex(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        _known(form, {"type", "pattern", "excludes"}, where)
        if form.get("excludes"):
            raise ConstraintError('"excludes" of a regex is not supported', where=where, hint=_PATTERN)
        return regex(_text(form, "pattern", where))

    def _grammar(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        _known(form, {"type", "grammar"}, where)
        return grammar_constraint(_text(form, "grammar", where))

    def _token(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        _known(form, {"type", "token"}, where)
        return special(self._token_text(form.get("token"), where))

    def _token_text(self, token: Any, where: str) -> str:
        if not isinstance(token, str):
            raise ConstraintError(
                "tokens by number are not supported", where=where, hint="Give the token by its text."
            )
        if self.specials is not None and not self.specials.fullmatch(token):
            raise ConstraintError(
                f"{token!r:.60} is no special token of this model",
                where=where,
                hint='Texts are written as {"type": "const_string"}.',
            )
        return token

    def _any_text(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        _known(form, {"type", "excludes", "max_chars", "max_tokens"}, where)
        if form.get("max_tokens") is not None:
            raise ConstraintError(
                '"max_tokens" of any_text is not supported', where=where, hint='Use "max_chars".'
            )
        most = form.get("max_chars")
        if most is not None:
            _whole(most, "max_chars", where)
        until = tuple(dict.fromkeys((*_texts(form, "excludes", where), *ends)))
        return text(until or None, max_chars=most)

    # Formats made of formats.

    def _sequence(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        _known(form, {"type", "elements"}, where)
        elements = _list(form, "elements", where)
        last = len(elements) - 1
        parts = [
            self.format(one, ends if place == last else (), f"{where}.elements[{place}]", depth)
            for place, one in enumerate(elements)
        ]
        return _in_order(parts)

    def _or(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        _known(form, {"type", "elements"}, where)
        return _either(
            [
                self.format(one, ends, f"{where}.elements[{place}]", depth)
                for place, one in enumerate(_list(form, "elements", where))
            ]
        )

    def _optional(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        _known(form, {"type", "content"}, where)
        return optional(self.format(form.get("content"), ends, f"{where}.content", depth))

    def _star(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        _known(form, {"type", "content"}, where)
        return repeat(self.format(form.get("content"), (), f"{where}.content", depth))

    def _plus(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        _known(form, {"type", "content"}, where)
        return repeat(self.format(form.get("content"), (), f"{where}.content", depth), 1)

    def _repeat(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        _known(form, {"type", "content", "min", "max"}, where)
        least, most = form.get("min", 0), form.get("max", -1)
        _whole(least, "min", where)
        if most != -1:
            _whole(most, "max", where)
        inner = self.format(form.get("content"), (), f"{where}.content", depth)
        return repeat(inner, least, None if most == -1 else most)

    def _tag(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        begin, rest = self._tag_parts(form, where, depth)
        return _in_order([self._written(begin), rest])

    def _tag_parts(self, form: Any, where: str, depth: int) -> tuple[str, Constraint]:
        """What a tag begins with, and the rest of it."""
        if not isinstance(form, dict) or form.get("type", "tag") != "tag":
            raise ConstraintError('a tag is an object with "type": "tag"', where=where)
        _known(form, {"type", "begin", "content", "end"}, where)
        begin = self._marker(form.get("begin"), f"{where}.begin")
        given = form.get("end")
        several = given if isinstance(given, list) else [given]
        ends = tuple(dict.fromkeys(self._marker(one, f"{where}.end") for one in several))
        if not ends:
            raise ConstraintError("a tag needs an end", where=where)
        content = form.get("content")
        if isinstance(content, dict) and content.get("type") == "any_text" and all(ends):
            return begin, self._text_and_end(content, ends, f"{where}.content")
        inner = self.format(content, tuple(filter(None, ends)), f"{where}.content", depth)
        return begin, _in_order([inner, _either([self._written(end) for end in ends])])

    def _text_and_end(self, form: dict[str, Any], ends: tuple[str, ...], where: str) -> Constraint:
        """Free text until the first of the ends, which may begin inside a text that looks like its beginning."""
        plain = self._any_text(form, ends, where, 0)  # says what is wrong with it
        if form.get("max_chars") is not None or any(self._split(end) != [end] for end in ends):
            return _in_order([plain, _either([self._written(end) for end in ends])])
        never = tuple(one for one in _texts(form, "excludes", where) if one not in ends)
        found = [stretch_until(end, False, ends, never) for end in ends]
        bodies = [sequence_of(one) for one in found if one is not None]
        return Composition(choice_of(bodies), "free text until " + " or ".join(map(repr, ends)))

    def _triggered_tags(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        _known(form, {"type", "triggers", "tags", "at_least_one", "stop_after_first", "excludes"}, where)
        triggers = _texts(form, "triggers", where)
        tags = [
            self._tag_parts(one, f"{where}.tags[{place}]", depth)
            for place, one in enumerate(_list(form, "tags", where))
        ]
        if not triggers or not tags:
            raise ConstraintError("triggered_tags need a trigger and a tag", where=where)
        after: dict[str, list[Constraint]] = {trigger: [] for trigger in triggers}
        for place, (begin, rest) in enumerate(tags):
            fitting = [trigger for trigger in triggers if begin.startswith(trigger)]
            if len(fitting) != 1:
                raise ConstraintError(
                    f"the tag that begins with {begin!r:.60} has {len(fitting)} triggers",
                    where=f"{where}.tags[{place}]",
                    hint="Exactly one trigger is the beginning of a tag's begin.",
                )
            tail = begin[len(fitting[0]) :]
            after[fitting[0]].append(_in_order([self._written(tail), rest]) if tail else rest)
        for trigger, rests in after.items():
            if not rests:
                raise ConstraintError(f"no tag begins with the trigger {trigger!r:.60}", where=where)
        calls = [(trigger, _either(rests)) for trigger, rests in after.items()]
        first = [_in_order([self._written(begin), rest]) for begin, rest in tags]
        return self._dispatched(calls, form, ends, where, first)

    def _dispatch(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        _known(form, {"type", "rules", "loop", "excludes"}, where)
        calls = []
        for place, rule in enumerate(_list(form, "rules", where)):
            if not isinstance(rule, (list, tuple)) or len(rule) != 2 or not isinstance(rule[0], str):
                raise ConstraintError("a rule is a text and a format", where=f"{where}.rules[{place}]")
            calls.append((rule[0], self.format(rule[1], (), f"{where}.rules[{place}]", depth)))
        options = {"excludes": form.get("excludes", []), "stop_after_first": form.get("loop") is False}
        return self._dispatched(calls, options, ends, where, [])

    def _dispatched(
        self,
        calls: Iterable[tuple[str, Constraint]],
        form: Mapping[str, Any],
        ends: tuple[str, ...],
        where: str,
        first: Sequence[Constraint],
    ) -> Constraint:
        """Free text with `calls`; with `at_least_one`, one of `first` at once."""
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
        forbidden = tuple(dict.fromkeys((*_texts(form, "excludes", where), *ends)))
        once = form.get("stop_after_first") is True
        triggers: dict[str | Special, Constraint | str] = {
            trigger: _either(rests) for trigger, rests in merged.items()
        }
        if form.get("at_least_one") is True:
            at_once = _either(list(first))
            return at_once if once else _in_order([at_once, dispatch(triggers, forbidden=forbidden)])
        return dispatch(triggers, forbidden=forbidden, stop_after_first=once)

    def _tags_with_separator(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        _known(form, {"type", "tags", "separator", "at_least_one", "stop_after_first"}, where)
        tags = [
            self._tag(one, (), f"{where}.tags[{place}]", depth)
            for place, one in enumerate(_list(form, "tags", where))
        ]
        separator = form.get("separator", "")
        if not isinstance(separator, str):
            raise ConstraintError(f"a separator is a text, not {a_kind(separator)}", where=where)
        least = 1 if form.get("at_least_one") is True else 0
        most = 1 if form.get("stop_after_first") is True else None
        return repeat(_either(tags), least, most, self._written(separator) if separator else None)

    # Texts and the special tokens in them.

    def _marker(self, given: Any, where: str) -> str:
        """The begin or an end of a tag: a text, or a special token."""
        if isinstance(given, dict) and given.get("type") == "token":
            return self._token_text(given.get("token"), where)
        if not isinstance(given, str):
            raise ConstraintError(f"begin and end are texts, not {a_kind(given)}", where=where)
        return given

    def _split(self, text: str) -> list[str | Special]:
        if self.specials is None:
            return [text]
        parts: list[str | Special] = []
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


def _known(form: Mapping[str, Any], keys: set[str], where: str) -> None:
    """What is not known would be ignored in silence otherwise."""
    strange = [key for key in form if key not in keys]
    if strange:
        raise ConstraintError(
            f"{strange[0]!r:.60} is not supported here",
            where=where,
            hint=f"What may stand here: {', '.join(sorted(keys))}.",
        )


def _text(form: Mapping[str, Any], key: str, where: str) -> str:
    value = form.get(key)
    if not isinstance(value, str):
        raise ConstraintError(f'"{key}" is a text, not {a_kind(value)}', where=where)
    return value


def _list(form: Mapping[str, Any], key: str, where: str) -> list[Any]:
    value = form.get(key)
    if not isinstance(value, list) or not value:
        raise ConstraintError(f'"{key}" is a list that is not empty', where=where)
    return value


def _texts(form: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = form.get(key) or []
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise ConstraintError(f'"{key}" is a list of texts, none of them empty', where=where)
    return tuple(dict.fromkeys(value))


def _whole(value: Any, name: str, where: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConstraintError(f'"{name}" is {value!r:.40}; it is a whole number of 0 or more', where=where)


_PATTERN = "Say it in the schema or the pattern itself."
_TOKENS = "It is about single tokens. Say which texts are meant: any_text with excludes, triggered_tags."
_UNSUPPORTED = dict.fromkeys(
    ("exclude_token", "any_tokens", "token_triggered_tags", "token_dispatch"), _TOKENS
)
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
}
