r"""EBNF as XGrammar 0.2 writes it: a relative of GBNF, in which a rule ends where the next ``name ::=`` begins.

Why: grammars for XGrammar, written by hand or printed by it, are read unchanged.
Invariant: the language is the one that XGrammar's documentation describes, over characters. Defects of XGrammar are not
copied: a string does not end at ``\0``, ``[\^a]`` is not a negation, and counts are not cut to 32 bits.
Cost: that of `bnf_reader.Reader`; a `TagDispatch` also compares its tags pairwise, and their number is bounded.

    rules        name ::= body; a name begins its line: letters, digits, _ - and dots, no digit first
    items        "text"  [a-z]  [^a-z]  []  [^]  name  (body)  ()  TagDispatch(...)  Regex(...)  Substring(...)
    options      name[lazy, max_chars=80] ::= body        (`rule_options`)
    assertions   (= ...) at the end of a rule, without effect on the language  (`assertions`)
    repetitions  * + ? {m} {m,} {m,n}; a repetition of a repetition needs a group
    escapes      \n \r \t \b \f \a \v \0 \e \" \\ \/ \' \? \xH... \uHHHH \UHHHHHHHH; in a class also
                 \^ \$ \. \* \+ \( \) \[ \] \{ \} \| \-

    Token(1, "text")  ExcludeToken(1)  TokenTagDispatch((1, rule), ...): see `token_macros`
    TagDispatch(("tag", rule), ..., loop_after_dispatch=true, excludes=("text", ...)) means what is documented:
    free text without tags and excluded texts; after a tag its rule; then free text again. If several tags end at
    the same position, the longest counts, as in XGrammar.

A lazy rule ends at the first position where it may. A rule with ``max_chars`` ends at the first such position from that
many characters on, and one with ``max_tokens`` from that many tokens on. The first two need a regular body.

A `TagDispatch` is unsupported if one tag contains another one before its end, since XGrammar's documentation and its
matcher disagree on that.
"""

from __future__ import annotations

from collections.abc import Sequence

from structgen.constraints.expressions import ANY, NOTHING, RE, scope
from structgen.constraints.occurrences import ends_first, without
from structgen.ir.grammar import Body, Grammar

from .. import bodies
from ..bnf_reader import DEFAULT_LIMITS, WIDE_BLANK, NotationLimits, Reader, escape_patterns, token_pattern
from .arguments import NAME, STRING, ArgumentReader
from .assertions import read_assertion
from .regular_macros import REGULAR_MACROS, read_regular_macro
from .rule_options import RuleOptions, apply_options, read_options
from .token_macros import TOKEN_MACROS, read_token_macro

__all__ = ["read_ebnf"]


def read_ebnf(source: str, start: str = "root", *, limits: NotationLimits = DEFAULT_LIMITS) -> Grammar:
    """Read a grammar in XGrammar's EBNF whose texts match the rule `start`."""
    return _Reader(source, limits).read(start)


_NAME = r"[A-Za-z_.-][A-Za-z0-9_.-]*+"
_STRING = r'"(?:[^"\\\r\n]|\\[^\r\n])*+"'
_STRING_ESCAPES = {
    "n": 0x0A, "r": 0x0D, "t": 0x09, "b": 0x08, "f": 0x0C, "a": 0x07, "v": 0x0B, "0": 0x00, "e": 0x1B,
    '"': 0x22, "\\": 0x5C, "/": 0x2F, "'": 0x27, "?": 0x3F,
}  # fmt: skip
_CLASS_ESCAPES = _STRING_ESCAPES | {letter: ord(letter) for letter in "^$.*+()[]{}|-"}
_HINTS = {
    ".": "Any character is [^].",
    "true": 'Quote it if it is a text: "true".',
    "false": 'Quote it if it is a text: "false".',
    "<": 'A token is written as Token("text").',
    "!": "Only classes can be negated: [^...].",
    "\\d": "Write [0-9].",
    "\\D": "Write [^0-9].",
    "\\s": "Write [ \\t\\n\\r].",
    "\\S": "Write [^ \\t\\n\\r].",
    "\\w": "Write [0-9A-Za-z_].",
    "\\W": "Write [^0-9A-Za-z_].",
}


class _Reader(Reader):
    notation = "EBNF"
    tokens = token_pattern(
        name=_NAME,
        leaf=rf"{_STRING}|\[(?:[^\]\\\r\n]|\\[^\r\n])*+\]|\(=",
        blank=WIDE_BLANK,
        options=rf'\[(?:[^\]"\r\n]|{_STRING})*+\][ \t]*+::=',
    )
    escape, class_item = escape_patterns("[0-9A-Fa-f]++")
    string_escapes = _STRING_ESCAPES
    class_escapes = _CLASS_ESCAPES
    hints = _HINTS
    newline_ends_rule = False
    empty_alternatives = False
    repeats_twice = False
    minus_one = True
    newline_in_text = False
    duplicates = "XGrammar refuses it, too: rename one, or join them with |."
    macros = frozenset((*TOKEN_MACROS, *REGULAR_MACROS, "TagDispatch", "(="))

    def __init__(self, source: str, limits: NotationLimits = DEFAULT_LIMITS) -> None:
        super().__init__(source, limits)
        self._options: dict[str, RuleOptions] = {}

    def options(self, name: str, position: int) -> None:
        self._options[name] = read_options(self, name, position)

    def finished(self, grammar: Grammar) -> Grammar:
        return apply_options(self, grammar, self._options) if self._options else grammar

    def special(self, raw: str, position: int) -> Body:
        raise LookupError(f"{raw} is not a terminal of this notation")

    def empty_class(self, raw: str, position: int) -> RE:
        return ANY if raw == "[^]" else NOTHING

    def macro(self, name: str, position: int, end: int) -> tuple[Body, int]:
        if name == "TagDispatch":
            return _TagDispatch(self, position, end).read()
        if name in TOKEN_MACROS:
            return read_token_macro(self, name, position, end)
        if name in REGULAR_MACROS:
            language, end = read_regular_macro(self, name, position, end)
            return bodies.text(scope(language)), end
        if name == "(=":
            return bodies.EMPTY, read_assertion(self, position, end)
        raise LookupError(f"{name} is not a macro of this notation")


_DISPATCH_FORM = 'TagDispatch(("tag", rule), ..., loop_after_dispatch=true, excludes=("text",))'


class _TagDispatch(ArgumentReader):
    """Reads the arguments of a `TagDispatch` and builds its body."""

    def __init__(self, reader: _Reader, position: int, end: int) -> None:
        super().__init__(reader, "TagDispatch", _DISPATCH_FORM, end)
        self.position = position
        self.pairs: list[tuple[str, Body]] = []
        self.excludes: list[str] | None = None
        self.loops: bool | None = None
        self.words = 0

    def read(self) -> tuple[Body, int]:
        self.take("(", "the arguments in parentheses")
        if self.peek() != ")":
            self._argument()
            while self.peek() == ",":
                self.take(",", "")
                self._argument()
        self.take(")", "a comma or the closing parenthesis")
        return self._body(), self.end

    # Arguments.

    def _argument(self) -> None:
        if self.peek() == "(":
            self.take("(", "")
            tag = self._text("a tag, a string")
            self.take(",", "a comma and the name of the tag's rule")
            name, at = self.take(NAME, "the name of the tag's rule")
            self._end_of_tuple()
            self.pairs.append((tag, self.reader.reference(name, at)))
            return
        option, at = self.take(NAME, 'a pair of a tag and its rule, ("tag", rule), or an option')
        if option not in ("loop_after_dispatch", "excludes"):
            message = f"TagDispatch has no option {option!r:.60}"
            raise self.fault(message, at, len(option), "Its options are loop_after_dispatch and excludes.")
        if (self.loops if option == "loop_after_dispatch" else self.excludes) is not None:
            raise self.fault(f"{option} is given twice", at, len(option), "Remove one of them.")
        self.take("=", f"{option}=...")
        if option == "loop_after_dispatch":
            value, at = self.take(NAME, "true or false")
            if value not in ("true", "false"):
                raise self.fault("TagDispatch needs true or false here", at, len(value))
            self.loops = value == "true"
            return
        self.take("(", "a tuple of strings")
        self.excludes = []
        if self.peek() == ")":
            self.take(")", "")
            return
        self.excludes.append(self._text("a string"))
        while not self._end_of_tuple(more=True):
            self.excludes.append(self._text("a string"))

    def _text(self, meaning: str) -> str:
        raw, at = self.take(STRING, meaning)
        text = self.reader.string(raw, at)
        if not text:
            raise self.fault("a tag or an excluded text must not be empty", at, len(raw))
        self.words += 1
        if self.words > self.reader.limits.tags:
            raise self.reader.limit("tags", "a TagDispatch has too many tags and excluded texts", at)
        if len(text) > self.reader.limits.tag_length:
            raise self.reader.limit("tag_length", f"a tag or an excluded text has {len(text)} characters", at)
        return text

    def _end_of_tuple(self, *, more: bool = False) -> bool:
        """Consume ``)`` or ``,)``. If `more` may follow, consume a comma alone and return False."""
        if self.peek() == ",":
            self.take(",", "")
            if more and self.peek() != ")":
                return False
        self.take(")", "a closing parenthesis")
        return True

    # The body.

    def _body(self) -> Body:
        tags, excludes = [tag for tag, _ in self.pairs], self.excludes or []
        self._check(tags, excludes)
        free: Body = ("text", without([*tags, *excludes]))
        if not tags:
            return free
        calls: list[Body] = [
            ("sequence", (("text", ends_first(tag, tags, excludes)), rule)) for tag, rule in self.pairs
        ]
        call: Body = calls[0] if len(calls) == 1 else ("choice", tuple(calls))
        if self.loops is False:
            return ("choice", (free, call))
        return ("sequence", (("repeat", call, 0, None), free))

    def _check(self, tags: Sequence[str], excludes: Sequence[str]) -> None:
        """Raise an error for tags and excluded texts that contradict each other."""
        for tag in tags:
            for other in excludes:
                if tag.startswith(other):
                    message = f"the tag {tag!r:.60} begins with an excluded text, {other!r:.60}"
                    raise self.fault(message, self.position, len("TagDispatch"), "The tag can never occur.")
            for other in tags:
                if other in tag[:-1]:
                    raise self.reader.unsupported(
                        f"the tag {tag!r:.60} contains another tag, {other!r:.60}; that is not supported",
                        self.position, len("TagDispatch"),
                        hint="Rename one of the tags. XGrammar does not define which of the two counts.",
                    )  # fmt: skip
