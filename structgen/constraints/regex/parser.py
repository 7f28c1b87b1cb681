r"""The parser that all dialects share: alternatives, groups, quantifiers, classes, limits.

Why: the dialects differ in tables (escapes, group openers, the meaning of a brace) and in little else. So a dialect
is a subclass that supplies them.

Invariant: the parser does not recurse and looks at each character only a few times, so time is linear in the
pattern. The result is RE data (see `expressions`) with two more kinds of nodes, which `looks` removes: ("boundary",
negative, ranges) for ``\b``, and the anchors below.

Cost: about 1 microsecond per character of an ordinary pattern; classes are cached by their text.

Source: ECMA-262 section 22.2 with annex B; CPython 3.11's documentation of `re`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, NoReturn

from structgen._core import charge
from structgen.constraints.expressions import (
    ANY,
    NOTHING,
    RE,
    Ranges,
    alternate,
    character_class,
    concat,
    has_look,
    literal,
    negate_ranges,
    normalise_ranges,
    repeat,
)
from structgen.errors import LimitExceeded, RegexSyntaxError, RegexUnsupported

from .backtracking import Resolver, plain_language
from .casing import variants
from .class_parser import UNITS_PER_ITEM, ClassParser
from .foreign import ADVICE, FOREIGN_GROUPS
from .references import expand_references
from .settings import DEFAULT_LIMITS, NO_FLAGS, Flags, RegexLimits

__all__ = ["DEFAULT_LIMITS", "END", "NO_FLAGS", "START", "Flags", "Parser", "RegexLimits", "negated"]

START: RE = ("look", False, True, ANY)
"""The condition that no character precedes."""
END: RE = ("look", True, True, ANY)
"""The condition that no character follows."""

_NEWLINE: RE = ("literal", "\n")
_MAX_CACHED_CLASSES = 256
"""Limit on the cached classes; one can have hundreds of ranges, and take 100 kB."""
_ITEMS_PER_CHARGE = 64


class _Group(NamedTuple):
    """The state that is saved while a group is parsed."""

    position: int
    branches: list[RE]
    items: list[RE]
    flags: Flags
    look: tuple[bool, bool] | None
    capture: int
    """The number of a capturing group, or 0."""
    atomic: bool


# The last item, which decides whether a quantifier may follow.
_NOTHING, _ATOM, _REPEATED, _ANCHOR = range(4)

_RUN = re.compile(r"[^\\\[\](){}.*+?|^$]+")
_VERBOSE_RUN = re.compile(r"[^\\\[\](){}.*+?|^$ \t\n\r\v\f#]+")
# After a run: a quantifier, or a comment that one may follow.
_MAY_BE_REPEATED = ("*", "+", "?", "{", "(?#")
_MAX_ORDERED_DEPTH = 30
"""Limit on nested groups with atomic groups or back-references, which are resolved by recursion."""
_COUNT = re.compile(r"\{(\d*)(?:(,)(\d*))?\}", re.ASCII)
_QUANTIFIERS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class _OrderNeeded(Exception):
    """The pattern has an atomic group, a possessive quantifier or a back-reference."""


class Parser(ClassParser):
    """Parses one pattern; call `parse` once."""

    line_ends: ClassVar[Ranges]
    look_repeats: ClassVar[bool] = True
    """Whether a quantifier may follow a look-around."""
    quantifiers_repeat: ClassVar[bool] = False
    """Whether a quantifier after another one repeats the repetition."""
    has_atomic_groups: ClassVar[bool] = False
    """Whether the dialect has atomic groups and possessive quantifiers."""
    has_references: ClassVar[bool] = False
    """Whether the dialect has back-references."""
    unset_is_empty: ClassVar[bool] = False
    """Whether a reference to a group that did not participate matches the empty text."""

    def __init__(self, pattern: str, flags: Flags = NO_FLAGS, limits: RegexLimits = DEFAULT_LIMITS) -> None:
        super().__init__(pattern, flags, limits)
        self.first_flags = flags
        self.branches: list[RE] = []
        self.items: list[RE] = []
        self.groups: list[_Group] = []
        self.last = _NOTHING
        self.captures = 0
        self.names: dict[str, int] = {}
        """Numbers of the named groups."""
        self.keeps_order = False
        """Whether items are nodes of `backtracking`, which keep the order of alternatives."""
        self.plain: RE | None = None
        """The language with ordinary groups and quantifiers instead of atomic and possessive ones, if there are any."""
        self.has_looks = False
        self.run = _VERBOSE_RUN if flags.verbose else _RUN
        if len(pattern) > limits.length:
            raise LimitExceeded(
                f"the pattern has {len(pattern)} characters, more than {limits.length}",
                limit="pattern_length",
                hint="Raise it with limits=RegexLimits(length=...), or use choice() for long lists of texts.",
            )

    # -- the loop

    def parse(self) -> RE:
        """Return the expression of the whole pattern."""
        try:
            return self._parse_pattern()
        except _OrderNeeded:
            self.keeps_order = True
        self.position, self.branches, self.items, self.groups, self.last = 0, [], [], [], _NOTHING
        self.captures, self.names = 0, {}
        self.set_flags(self.first_flags)
        return self._language_of_nodes(self._parse_pattern())

    def require_order(self) -> None:
        """Parse the pattern again, into nodes, since the order of alternatives matters."""
        if not self.keeps_order:
            raise _OrderNeeded

    def _parse_pattern(self) -> RE:
        pattern = self.pattern
        length = len(pattern)
        handlers = self.handlers
        items = 0
        while self.position < length:
            items += 1
            if not items % _ITEMS_PER_CHARGE:
                charge(_ITEMS_PER_CHARGE * UNITS_PER_ITEM)
            handler = handlers.get(pattern[self.position])
            if handler is None:
                self._literal_run()
            else:
                handler(self)
        if self.groups:
            hint = "Add the missing ')', or write '\\(' for the character."
            self.fail("this group is not closed", self.groups[-1].position, hint=hint)
        return self._alternatives()

    def _language_of_nodes(self, tree: RE) -> RE:
        """Return the language of the nodes."""
        tree = expand_references(
            tree,
            lambda node, reason: self._unsupported_because(
                f"this back-reference is not supported: {reason}", node
            ),
            unset_is_empty=self.unset_is_empty,
        )
        resolver = Resolver(
            lambda node, reason: self._unsupported_because(
                f"this atomic group is not supported: {reason}", node
            )
        )
        exact = resolver.resolve(tree)
        self.has_looks = self.has_looks or has_look(exact)
        plain = plain_language(tree)
        self.plain = None if plain == exact else plain
        return exact

    def _unsupported_because(self, message: str, node: RE) -> RegexUnsupported:
        feature = "back-references" if node[0] == "reference" else "atomic groups"
        return RegexUnsupported(
            message, pattern=self.pattern, position=node[-2], end=node[-1], hint=ADVICE[feature]
        )

    def _literal_run(self) -> None:
        """Parse characters without a special meaning; a quantifier applies only to the last one."""
        pattern = self.pattern
        match = self.run.match(pattern, self.position)
        if match is None:  # white space or a comment of the verbose mode
            self._skip_verbose()
            return
        text = match[0]
        self.position = stop = match.end()
        if self.flags.ignore_case or (not text.isascii() and literal(text) is NOTHING):
            self.items.extend(map(self.character, text))
        elif len(text) > 1 and (self.flags.verbose or pattern.startswith(_MAY_BE_REPEATED, stop)):
            self.items.append(("literal", text[:-1]))
            self.items.append(("literal", text[-1]))
        else:
            self.items.append(("literal", text))
        self.last = _ATOM

    def _skip_verbose(self) -> None:
        start = self.position
        if self.pattern[start] == "#":
            stop = self.pattern.find("\n", start)
            self.position = len(self.pattern) if stop < 0 else stop + 1
        else:
            self.position = start + 1

    def _alternatives(self) -> RE:
        body = concat(self.items)
        if not self.branches:
            return body
        self.branches.append(body)
        return ("ordered", tuple(self.branches)) if self.keeps_order else alternate(self.branches)

    # -- pieces

    def character(self, character: str) -> RE:
        """Return one character of the pattern, under the case mode."""
        if self.flags.ignore_case:
            return _any_case(character, self.dialect, self.flags.ascii)
        return literal(character)

    def add(self, item: RE, length: int) -> None:
        """Add an atom that has `length` characters in the pattern."""
        self.items.append(item)
        self.position += length
        self.last = _ATOM

    def add_member(self, member: int | Ranges, length: int) -> None:
        """Add what an escape of `length` characters stands for: a character, or a set."""
        if isinstance(member, int):
            self.add(self.character(chr(member)), length)
        else:
            self.count_ranges(len(member) // 16, self.position)
            self.add(character_class(member), length)

    def add_anchor(self, item: RE, length: int) -> None:
        """Add a condition on the position, which consumes no text and takes no quantifier."""
        self.items.append(item)
        self.note_look(self.position)
        self.position += length
        self.last = _ANCHOR

    def add_boundary(self, negative: bool, word: Ranges, length: int) -> None:
        r"""Parse ``\b`` or ``\B``."""
        self.add_anchor(("boundary", negative, word), length)

    def add_line_start(self) -> None:
        """Parse ``^``."""
        if self.flags.multi_line:
            before = alternate([character_class(self.line_ends), START])
            self.add_anchor(("look", False, False, before), 1)
        else:
            self.add_anchor(START, 1)

    def add_line_end(self) -> None:
        """Parse ``$``; the dialect defines the end of the text."""
        if self.flags.multi_line:
            after = alternate([character_class(self.line_ends), END])
            self.add_anchor(("look", True, False, after), 1)
        else:
            self.add_anchor(self.text_end, 1)

    text_end: ClassVar[RE] = END

    def add_dot(self) -> None:
        """Parse ``.``."""
        self.add(ANY if self.flags.dot_all else _negated(self.line_ends), 1)

    def add_bar(self) -> None:
        """Parse ``|``."""
        self.branches.append(concat(self.items))
        self.items = []
        self.position += 1
        self.last = _NOTHING

    # -- groups

    def open_group(
        self,
        length: int,
        look: tuple[bool, bool] | None = None,
        flags: Flags | None = None,
        *,
        capture: bool = False,
        atomic: bool = False,
    ) -> None:
        """Start a group whose opener has `length` characters; `look` is (ahead, negative)."""
        self.captures += capture
        max_depth = min(self.limits.depth, _MAX_ORDERED_DEPTH) if self.keeps_order else self.limits.depth
        if len(self.groups) >= max_depth:
            raise LimitExceeded(
                f"groups are nested more than {max_depth} deep",
                limit="pattern_depth",
                pattern=self.pattern,
                position=self.position,
                hint="Flatten the pattern, or raise the limit with limits=RegexLimits(depth=...).",
            )
        number = self.captures if capture else 0
        self.groups.append(_Group(self.position, self.branches, self.items, self.flags, look, number, atomic))
        self.branches, self.items = [], []
        self.position += length
        self.last = _NOTHING
        if flags is not None:
            self.set_flags(flags)

    def close_group(self) -> None:
        """Parse ``)``."""
        if not self.groups:
            hint = "Remove it, or write '\\)' for the character."
            self.fail("this ')' closes no group", self.position, hint=hint)
        body = self._alternatives()
        group = self.groups.pop()
        self.branches, self.items = group.branches, group.items
        if group.flags is not self.flags:
            self.set_flags(group.flags)
        if group.look is not None:
            body = ("look", *group.look, body)
            self.note_look(group.position)
        elif self.keeps_order and group.atomic:
            body = ("atomic", body, group.position, group.position + 3)
        elif self.keeps_order and group.capture:
            body = ("group", group.capture, body)
        self.add(body, 1)
        if group.look is not None and not self.look_repeats:
            self.last = _ANCHOR

    def note_look(self, position: int) -> None:
        """Record a condition on the position, which `looks` has to move out of the enclosing groups."""
        self.has_looks = True
        if len(self.groups) > self.limits.look_depth:
            raise LimitExceeded(
                f"this condition is inside more than {self.limits.look_depth} groups",
                limit="look_depth",
                pattern=self.pattern,
                position=position,
                hint="Flatten the pattern, or raise the limit with limits=RegexLimits(look_depth=...).",
            )

    def set_flags(self, flags: Flags) -> None:
        """Change the modes from here on."""
        self.flags = flags
        self.run = _VERBOSE_RUN if flags.verbose else _RUN

    def add_lone_closer(self) -> None:
        """Parse ``]`` or ``}`` that closes nothing as an ordinary character."""
        self.add(("literal", self.pattern[self.position]), 1)

    def open_parenthesis(self) -> None:
        """Parse ``(`` and the openers that all dialects have; `extension` parses the others."""
        pattern, position = self.pattern, self.position
        if not pattern.startswith("(?", position):
            if pattern.startswith("(*", position):
                self.fail("nothing to repeat: '*' follows '('", position + 1)
            self.open_group(1, capture=True)
            return
        opener = pattern[position + 2 : position + 3]
        if opener == ":":
            self.open_group(3)
        elif opener in ("=", "!"):
            self.open_group(3, look=(True, opener == "!"))
        elif opener == "<" and pattern[position + 3 : position + 4] in ("=", "!"):
            self.open_group(4, look=(False, pattern[position + 3] == "!"))
        elif opener == ">" and self.has_atomic_groups:
            self.check_atomic(position, position + 3)
            self.require_order()
            self.open_group(3, atomic=True)
        else:
            self.extension(position)

    def extension(self, position: int) -> None:
        """Parse a group that starts with ``(?`` and is specific to the dialect."""
        raise self.unknown_group(position)

    def unknown_group(self, position: int) -> RegexSyntaxError | RegexUnsupported:
        """Return the error for a group opener that the dialect does not have."""
        for opener, feature in FOREIGN_GROUPS:
            match = opener.match(self.pattern, position)
            if match:
                return self.unsupported(feature, position, match.end())
        return self.error(
            f"no group starts with {self.pattern[position : position + 3]!r} in the {self.dialect} dialect",
            position,
            position + 3,
            hint="Groups are (...), (?:...), named ones, (?=...), (?!...), (?<=...), (?<!...) and (?i:...).",
        )

    # -- quantifiers

    def add_quantifier(self) -> None:
        """Parse ``*``, ``+`` or ``?``."""
        low, high = _QUANTIFIERS[self.pattern[self.position]]
        self.quantify(low, high, 1)

    def add_brace(self) -> None:
        """Parse ``{``: a counted quantifier, or what the dialect makes of it."""
        match = _COUNT.match(self.pattern, self.position)
        if match is None or not self.is_count(match):
            self.literal_brace()
            return
        low, comma, high = match.group(1, 2, 3)
        first = self._count(low or "0", match.start(1))
        last = first if not comma else self._count(high, match.start(3)) if high else None
        if last is not None and last < first:
            self.fail(
                f"repetition bounds are reversed: {match[0]}",
                match.start(),
                match.end(),
                hint="Write the smaller count first.",
            )
        self.quantify(first, last, match.end() - match.start())

    def is_count(self, match: re.Match[str]) -> bool:
        """Return whether braces of this form are a count."""
        return bool(match[1])

    def literal_brace(self) -> None:
        """Parse ``{`` that does not start a quantifier."""
        self.add(("literal", "{"), 1)

    def _count(self, digits: str, position: int) -> int:
        # subtle: the length is checked first, since converting a million digits to a number is slow.
        short = digits.lstrip("0")
        if len(short) > 18 or int(short or "0") > self.limits.count:
            shown = digits if len(digits) <= 20 else digits[:17] + "..."
            raise LimitExceeded(
                f"the repetition count {shown} is above the limit of {self.limits.count}",
                limit="repetition_count",
                pattern=self.pattern,
                position=position,
                hint="Leave out the upper bound ({n,}), or raise the limit: limits=RegexLimits(count=...).",
            )
        return int(short or "0")

    def quantify(self, low: int, high: int | None, length: int) -> None:
        """Repeat the last item; a lazy mark does not change the language unless something is atomic."""
        start, stop = self.position, self.position + length
        mark = self.pattern[stop : stop + 1]
        if self.last != _ATOM and not (self.last == _REPEATED and self.quantifiers_repeat):
            self._refuse_quantifier(start, stop)
        possessive = mark == "+" and not self.quantifiers_repeat
        if possessive and not self.has_atomic_groups:
            raise self.unsupported("possessive quantifiers", start, stop + 1)
        if possessive:
            self.check_atomic(start, stop + 1)
            self.require_order()
        if self.keeps_order:
            mode = mark if possessive or mark == "?" else ""
            self.items[-1] = ("quantified", self.items[-1], low, high, mode, start, stop + len(mode))
        else:
            self.items[-1] = repeat(self.items[-1], low, high)
        self.position = stop + (mark == "?" or possessive)
        self.last = _REPEATED

    def check_atomic(self, position: int, end: int) -> None:
        """Refuse an atomic group or a possessive quantifier in a strict dialect without them."""

    def add_reference(self, number: int, end: int) -> None:
        """Add another occurrence of what the group with this number matched."""
        flags, position = self.flags, self.position
        if not self.has_references:
            raise self.unsupported("back-references", position, end)
        self.require_order()

        def same(text: str) -> RE:
            if not flags.ignore_case:
                return literal(text)
            return concat(_any_case(character, self.dialect, flags.ascii) for character in text)

        self.add(("reference", number, same, position, end), end - position)

    def _refuse_quantifier(self, start: int, stop: int) -> NoReturn:
        shown = self.pattern[start:stop]
        if self.last == _REPEATED:
            hint = "Put the repeated part into a group: (?:...)."
            self.fail(f"{shown!r} follows another quantifier", start, stop, hint=hint)
        before = "an anchor" if self.last == _ANCHOR else "nothing"
        self.fail(
            f"nothing to repeat: {shown!r} follows {before}",
            start,
            stop,
            hint=f"For the character itself write '\\{shown[0]}'.",
        )

    # -- classes

    def add_class(self) -> None:
        """Parse ``[...]``; a class with the same text and modes is parsed once."""
        match = self.class_text.match(self.pattern, self.position)
        if match is None:
            hint = "Add the missing ']', or write '\\[' for the character."
            self.fail("this class is not closed", self.position, hint=hint)
        text = match[0]
        key = (text, self.flags)
        known = self.class_cache.get(key)
        if known is None:
            known = self.read_class(self.position, match.end())
            if len(self.class_cache) >= _MAX_CACHED_CLASSES:
                self.class_cache.clear()
            self.class_cache[key] = known
        self.add(known, len(text))

    handlers: ClassVar[Mapping[str, Callable[[Any], None]]] = {
        "[": add_class,
        "(": open_parenthesis,
        ")": close_group,
        ".": add_dot,
        "*": add_quantifier,
        "+": add_quantifier,
        "?": add_quantifier,
        "{": add_brace,
        "|": add_bar,
        "]": add_lone_closer,
        "}": add_lone_closer,
        "^": add_line_start,
        "$": add_line_end,
    }


@lru_cache(maxsize=1024)
def _any_case(character: str, dialect: str, ascii_only: bool) -> RE:
    same = variants(character, dialect, ascii_only)
    if len(same) == 1:
        return literal(character)
    return character_class(normalise_ranges((ord(variant), ord(variant)) for variant in same))


@lru_cache(maxsize=16)
def _negated(ranges: Ranges) -> RE:
    return character_class(negated(ranges))


@lru_cache(maxsize=64)
def negated(ranges: Ranges) -> Ranges:
    """Return `negate_ranges` from a cache: patterns repeat escapes that stand for hundreds of ranges."""
    return negate_ranges(ranges)
