"""Read and apply the options of rules in XGrammar's EBNF: ``name[lazy, max_chars=80] ::= ...``.

Why: options decide where a rule ends, or what happens with its text.
Invariant: each option is applied or refused by name. An option that needs a regular body is refused for other rules.
Cost: linear in the rules.
Source: XGrammar 0.2.6, "EBNF Grammar", section Rule Options.

    lazy                          the rule ends at the first position where it may
    max_chars=80                  it ends at the first position where it may from 80 characters on
    capture, capture="name"       its texts are captured
    temperature=0.7               the sampling temperature inside it
    capture_hidden_suffix_bytes=3 the last bytes are a marker, which its capture leaves out
    capture_hidden_stop_bytes=3   the same; captures of the rules around it also leave the marker out
    capture_hidden_body_rule_id=4, capture_hidden_marker_rule_id=5
                                  the rules, by number, before a marker of any length, and of the marker
    stop_capture="name"           the marker is captured
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from structgen.constraints.earliest import earliest_end
from structgen.constraints.expressions import EPSILON, RE, TEXT
from structgen.ir.grammar import Ending, Grammar, Rule

from .. import bodies
from ..bnf_reader import Reader
from ..regular import Regular, used_rules
from ..rule_option_values import MOST_TEMPERATURE, capture_name_fault, temperature_of

__all__ = ["RuleOptions", "apply_options", "read_options"]

_STRING = r'"(?:[^"\\\r\n]|\\[^\r\n])*+"'
_ITEM = re.compile(rf'[ \t]*+([A-Za-z_]\w*+)[ \t]*+(?:=[ \t]*+({_STRING}|[^,\]\s"]*+)[ \t]*+)?+([,\]])')
_MOST_CHARACTERS = 2**31 - 1
_HIDDEN_SUFFIX, _HIDDEN_STOP = "capture_hidden_suffix_bytes", "capture_hidden_stop_bytes"
_BODY_RULE, _MARKER_RULE = "capture_hidden_body_rule_id", "capture_hidden_marker_rule_id"
_COUNTS = {
    "max_chars": (0, _MOST_CHARACTERS),
    "max_tokens": (1, _MOST_CHARACTERS),
    _HIDDEN_SUFFIX: (1, _MOST_CHARACTERS),
    _HIDDEN_STOP: (1, _MOST_CHARACTERS),
    _BODY_RULE: (0, _MOST_CHARACTERS),
    _MARKER_RULE: (0, _MOST_CHARACTERS),
}
_KNOWN = ("lazy", "capture", "stop_capture", "temperature", *_COUNTS)


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """The options of one rule."""

    position: int
    """The offset of the opening bracket."""
    length: int
    lazy: bool = False
    max_chars: int | None = None
    max_tokens: int | None = None
    capture: str | None = None
    stop_capture: str | None = None
    temperature: float | None = None
    capture_hidden_suffix_bytes: int | None = None
    capture_hidden_stop_bytes: int | None = None
    capture_hidden_body_rule_id: int | None = None
    capture_hidden_marker_rule_id: int | None = None

    @property
    def ends_early(self) -> bool:
        """Whether an option makes the rule end before its longest match."""
        return self.lazy or self.max_chars is not None

    @property
    def hidden_bytes(self) -> int | None:
        """The length of a marker at the end, in bytes."""
        return self.capture_hidden_suffix_bytes or self.capture_hidden_stop_bytes

    def shape(self, language: RE) -> RE:
        """Return the texts of the rule's body that its options allow."""
        if self.lazy:
            return earliest_end(language)  # a limit of characters cannot end it earlier
        return language if self.max_chars is None else earliest_end(language, self.max_chars)


def read_options(reader: Reader, name: str, position: int) -> RuleOptions:
    """Read the options of a rule.

    Args:
        reader: The grammar.
        name: The rule.
        position: The offset of the opening bracket.
    """
    values: dict[str, bool | int | str | float] = {}
    at = position + 1
    while True:
        item = _ITEM.match(reader.source, at)
        if item is None:
            hint = "The form is name[option, option=value] ::= ..."
            raise reader.fault("an option, its value and a comma or ] are needed here", at, hint=hint)
        option, value = item[1], item[2]
        if option not in _KNOWN:
            hint = f"The options are {', '.join(_KNOWN)}."
            raise reader.fault(f"rules have no option {option:.60}", item.start(1), len(option), hint=hint)
        if option in values:
            raise reader.fault(
                f"{option} is given twice", item.start(1), len(option), hint="Remove one of them."
            )
        values[option] = _value(reader, name, option, value, item)
        at = item.end()
        if item[3] == "]":
            break
    options = RuleOptions(position, at - position, **values)  # type: ignore[arg-type]
    _check_marker(reader, options)
    return options


def _check_marker(reader: Reader, options: RuleOptions) -> None:
    """Raise an error if options of a marker are incomplete or contradict each other."""
    kinds = [options.capture_hidden_suffix_bytes, options.capture_hidden_stop_bytes]
    rules = [options.capture_hidden_body_rule_id, options.capture_hidden_marker_rule_id]
    needs = options.stop_capture is not None or rules != [None, None]
    if None not in kinds:
        message, hint = (
            "a marker is a suffix or a stop, not both",
            f"Remove {_HIDDEN_SUFFIX} or {_HIDDEN_STOP}.",
        )
    elif needs and kinds == [None, None]:
        message = "these options need a marker"
        hint = f"Add {_HIDDEN_SUFFIX} or {_HIDDEN_STOP}."
    elif rules.count(None) == 1:
        message, hint = f"{_BODY_RULE} and {_MARKER_RULE} need each other", "Add the missing one."
    else:
        return
    raise reader.fault(message, options.position, options.length, hint=hint)


class _Shaped(Regular):
    """The expressions of rules, restricted by the options that end rules early."""

    def __init__(self, grammar: Grammar, shaped: Mapping[str, RuleOptions]) -> None:
        self._shaped = shaped
        super().__init__(grammar)

    def _of_rule(self, name: str) -> RE | None:
        language = super()._of_rule(name)
        if language is None or name not in self._shaped:
            return language
        return None if name in self._uses[name] else self._shaped[name].shape(language)


def apply_options(reader: Reader, grammar: Grammar, options: Mapping[str, RuleOptions]) -> Grammar:
    """Return the grammar with the options applied to its rules."""
    shaped = {
        name: option
        for name, option in options.items()
        if option.ends_early or option.hidden_bytes is not None
    }
    regular = _Shaped(grammar, shaped) if shaped else None
    _check_inside(reader, grammar, options, shaped)
    rules: list[Rule] = []
    for rule in grammar.rules:
        options_of_rule = options.get(rule.name)
        if options_of_rule is not None:
            limit = None if options_of_rule.max_tokens is None else (options_of_rule.max_tokens, False)
            rule = replace(
                rule,
                capture=options_of_rule.capture,
                temperature=options_of_rule.temperature,
                token_limit=limit,
            )
        if regular is not None and options_of_rule is not None and rule.name in shaped:
            language = regular.rule(rule.name)
            if language is None:
                _refuse_body(reader, rule.name, options_of_rule)
            ending = _ending(reader, grammar, regular, options_of_rule, language)
            rule = replace(rule, body=bodies.text(language), ending=ending)
        rules.append(rule)
    return replace(grammar, rules=tuple(_still_used(grammar, rules, shaped)))


def _still_used(grammar: Grammar, rules: list[Rule], shaped: Mapping[str, RuleOptions]) -> list[Rule]:
    """Return the rules without those that only occurred in a rule that has become one text."""
    before = {rule.name: used_rules(rule.body) for rule in grammar.rules}
    after = {rule.name: used_rules(rule.body) for rule in rules}
    parts = {part for name in shaped for part in before[name]}
    for option in shaped.values():
        for number in (option.capture_hidden_body_rule_id, option.capture_hidden_marker_rule_id):
            parts |= set() if number is None else {grammar.rules[number].name}
    inside = _reachable(parts, before) - {grammar.start, *shaped}
    kept = _reachable(after.keys() - inside, after)
    return [rule for rule in rules if rule.name in kept]


def _reachable(names: Iterable[str], uses: Mapping[str, set[str]]) -> set[str]:
    """Return these rules and all that they use."""
    closure = set(names)
    pending = list(closure)
    while pending:
        more = uses.get(pending.pop(), set()) - closure
        closure |= more
        pending.extend(more)
    return closure


def _check_inside(
    reader: Reader, grammar: Grammar, options: Mapping[str, RuleOptions], shaped: Mapping[str, RuleOptions]
) -> None:
    """Raise an error if a rule that becomes one text contains a rule with a capture, temperature or token limit."""
    inner = {
        name
        for name, option in options.items()
        if option.capture
        or option.hidden_bytes
        or option.temperature is not None
        or option.max_tokens is not None
    }
    if not inner:
        return
    uses = {rule.name: used_rules(rule.body) for rule in grammar.rules}
    met: set[str] = set()  # each used rule is checked once, for the first rule that uses it
    for name, options_of_rule in shaped.items():
        pending = list(uses[name] - met)
        met |= uses[name]
        while pending:
            used = pending.pop()
            if used in inner and used != name:
                raise reader.unsupported(
                    f"the rule {used:.60} has a capture, temperature or max_tokens, but {name:.60} around it has "
                    "options that make it one text",
                    options_of_rule.position, options_of_rule.length,
                    hint="Move the option to the outer rule.",
                )  # fmt: skip
            more = uses.get(used, set()) - met
            met |= more
            pending.extend(more)


def _refuse_body(reader: Reader, name: str, options: RuleOptions) -> NoReturn:
    raise reader.unsupported(
        f"the rule {name:.60} is too large, recursive or contains tokens, so no option may end it early",
        options.position, options.length,
        hint="Lazy rules and those with max_chars may use texts, classes, patterns, repetitions and rules of these.",
    )  # fmt: skip


def _ending(
    reader: Reader, grammar: Grammar, regular: Regular, options: RuleOptions, language: RE
) -> Ending | None:
    """Return how a text of the rule is divided at its marker."""
    if options.hidden_bytes is None:
        return None
    before: RE | None
    text: RE | None
    if options.capture_hidden_body_rule_id is not None and options.capture_hidden_marker_rule_id is not None:
        numbers = options.capture_hidden_body_rule_id, options.capture_hidden_marker_rule_id
        if max(numbers) >= len(grammar.rules):
            hint = f"Rules are numbered from 0 to {len(grammar.rules) - 1}, in their order."
            raise reader.fault("no rule has this number", options.position, options.length, hint=hint)
        before, text = (regular.rule(grammar.rules[number].name) for number in numbers)
        if language == EPSILON:  # the marker is before the rule, in a text that dispatched to it
            before = None
    else:
        marker = (_literal_end(language) or "").encode()[-options.hidden_bytes :]
        is_whole = len(marker) == options.hidden_bytes and (marker[0] & 0xC0) != 0x80
        before, text = (TEXT, ("literal", marker.decode())) if is_whole else (None, None)
    if before is None or text is None:
        raise reader.unsupported(
            "the marker at the end of this rule is unknown", options.position, options.length,
            hint="The rule must end with a text of that many bytes, or its parts must be regular rules.",
        )  # fmt: skip
    return Ending(before, text, options.stop_capture, options.capture_hidden_stop_bytes is not None)


def _literal_end(language: RE) -> str | None:
    """Return the text that ends all alternatives whose end is known; None if it is unknown."""
    kind = language[0]
    if kind == "literal":
        return language[1] or None
    if kind == "concat":
        return _literal_end(language[1][-1])
    if kind == "intersect":
        return next((end for part in language[1] if (end := _literal_end(part)) is not None), None)
    if kind == "alternate":
        ends = {end for part in language[1] if (end := _literal_end(part)) is not None}
        return ends.pop() if len(ends) == 1 else None
    return None


def _value(
    reader: Reader, name: str, option: str, value: str | None, item: re.Match[str]
) -> bool | int | str | float:
    at = item.start(1) if value is None else item.start(2)
    length = max(1, len(option if value is None else value))
    if option == "lazy":
        if value is not None:
            raise reader.fault("lazy takes no value", at, length, hint="Write name[lazy] ::= ...")
        return True
    if option in ("capture", "stop_capture"):
        if value is None and option == "capture":
            return name
        if value is None or value[:1] != '"' or len(value) < 3:
            hint = f'Write {option}="name".'
            raise reader.fault(f"{option} takes a name in double quotes", at, length, hint=hint)
        found = reader.string(value, at)
        if fault := capture_name_fault(found):
            raise reader.fault(f"the capture's name {fault}", at, length, hint="Use a short word.")
        return found
    if option == "temperature":
        return _temperature(reader, value, at, length)
    low, high = _COUNTS[option]
    digits = (value or "").lstrip("0") or "0"
    if (
        not value
        or not (value.isascii() and value.isdecimal())
        or len(digits) > 10
        or not low <= int(digits) <= high
    ):
        hint = f"Write {option}=32, for example."
        raise reader.fault(f"{option} takes a whole number from {low} to {high:,}", at, length, hint=hint)
    return int(digits)


def _temperature(reader: Reader, value: str | None, at: int, length: int) -> float:
    temperature = temperature_of(value or "")
    if temperature is None:
        hint = "Write temperature=0.7, for example."
        message = f"temperature takes a number from 0 to {MOST_TEMPERATURE:,.0f}"
        raise reader.fault(message, at, length, hint=hint)
    return temperature
