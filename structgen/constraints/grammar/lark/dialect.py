"""Rewrite llguidance's and XGrammar's extensions of Lark's language into lark's own language.

Why: grammars for language models use them, and lark must still read all the rest, with its own messages. Each extension
is replaced by an unused name, and `Rewritten` stores the meaning of that name:

    %json {...}, <|token|>, <[123]>, @name      a rule, in `Rewritten.bodies`
    %regex {...}, A & B, ~A, name[lazy]: ...    a terminal whose pattern is a mark, in `Rewritten.stand_ins`
    name[capture]: ...                          the name alone; the options are in `Rewritten.options`
    x{2}, x{2,5}, x{2,}                         lark's x~2..5; without an upper bound, up to `UNBOUNDED`
    names-with-hyphens                          underscores
    %lark {...}                                 a rule, in `Rewritten.bodies`: a grammar of its own
    name::_ : ..., name::0x1, %if true          rules, and names for conditions (`parameters`)
    %llguidance {...}, %grammar_options {...}   `Rewritten.settings` (`grammar_options`)
    ""                                          an empty group

Invariant: each character of the new text has its origin, so errors point into the user's text.
Cost: linear in the text.
Source: llguidance, docs/syntax.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from structgen.constraints.base import Constraint, as_constraint
from structgen.constraints.expressions import RE, repeat, substring
from structgen.constraints.substring import WORDS
from structgen.errors import GrammarError, LimitExceeded, RegexError, SchemaError
from structgen.ir.grammar import Body

from ..token_sets import TOKENS_HINT, token_set
from .json_blocks import schema_constraint
from .parametric_rules import ParametricRules
from .rewritten import UNBOUNDED, Out, Rewritten, StandIn
from .rule_options import RuleOptions, read_options
from .source import Piece, Source

__all__ = ["rewrite"]

_MOST_PARTS = 100_000
"""The most parts of one terminal, with the terminals in it expanded, as lark does."""

_DIRECTIVES = frozenset(["%ignore", "%import", "%declare", "%override", "%extend"])
_NAME = re.compile(r"_?[a-z][a-z0-9_]*|_?[A-Z][A-Z0-9_]*")
_COUNT = re.compile(r"\{\s*([0-9]*)\s*(,?)\s*([0-9]*)\s*\}")


def rewrite(
    source: Source,
    constraints: Mapping[str, Constraint] | None = None,
    nested: Callable[[Source], Constraint] | None = None,
    json_options: Mapping[str, Any] | None = None,
) -> Rewritten:
    """Rewrite a grammar into lark's own language.

    Args:
        source: The grammar.
        constraints: The constraints that ``@name`` refers to; a string is the constraint of that text.
        nested: Reads the grammar of a ``%lark``.
        json_options: Options of the schemas in ``%json``, as `json_schema` takes them.
    """
    if str(UNBOUNDED) in source.text:
        raise LimitExceeded(
            f"the count {UNBOUNDED} is too large", limit="repetition_count", hint="Omit it: x{2,}."
        )
    known = {name: as_constraint(constraint) for name, constraint in (constraints or {}).items()}
    return _Rewriter(source, known, nested, json_options or {}).run()


class _Rewriter(ParametricRules):
    def __init__(
        self,
        source: Source,
        constraints: Mapping[str, Constraint],
        nested: Callable[[Source], Constraint] | None,
        json_options: Mapping[str, Any],
    ) -> None:
        self.source = source
        self.nested = nested
        self.json_options = json_options
        self.pieces = [*(piece for piece in source.pieces if piece.kind != "comment")]
        self.pieces.append(Piece("newline", "\n", len(source.text)))
        self.constraints = constraints
        self.result = Rewritten(source)
        self.taken = {piece.text for piece in self.pieces if piece.kind == "name"}
        self.numbers: dict[str, int] = {}
        """The last number that was appended to each name."""
        self.renamed: dict[str, str] = {}
        self.extra: Out = []
        self.position = 0
        self.parts: dict[str, list[str]] = {}
        self.parametric = self._parametric()

    def run(self) -> Rewritten:
        while self.position < len(self.pieces):
            self.result.out += self._statement()
        self._check_sizes()
        if self.result.bodies:
            declared = " ".join(self.result.bodies)
            self.extra.append((f"%declare {declared}\n", len(self.source.text), False))
        self.result.out += self.extra
        return self.result

    # -- pieces

    @property
    def _now(self) -> Piece:
        return self.pieces[self.position]

    def _copy(self) -> Out:
        piece = self._now
        self.position += 1
        if piece.kind != "name" or piece.text[0] in "%@":
            return [(piece.text, piece.offset, True)]
        if _NAME.fullmatch(piece.text.replace("-", "_")) is None:
            what = "two underscores, which lark reserves" if piece.text.startswith("__") else None
            message = (
                f"the name {piece.text} starts with {what}" if what else f"{piece.text} is not a valid name"
            )
            hint = "Use lower case for rules and upper case for terminals. One underscore may come first."
            self.source.fail(message, piece.offset, len(piece.text), hint)
        if "-" in piece.text:
            return [(self._without_hyphens(piece.text), piece.offset, False)]
        return [(piece.text, piece.offset, True)]

    def _spaces(self) -> Out:
        return self._copy() if self._now.kind == "space" else []

    def _next(self, start: int) -> Piece:
        """Return the next piece that is not a space."""
        return next((piece for piece in self.pieces[start:] if piece.kind != "space"), self.pieces[-1])

    def _before(self) -> str:
        """Return the text of the last piece before this one that is not a space."""
        start = max(self.position - 2, 0)
        return next(
            (piece.text for piece in self.pieces[start : self.position][::-1] if piece.kind != "space"), ""
        )

    def _at_end(self) -> bool:
        """Return whether the statement ends here. Alternatives may continue on the next line."""
        if self._now.kind != "newline":
            return False
        place = self.position
        while place < len(self.pieces) and self.pieces[place].kind in ("newline", "space"):
            place += 1
        return place == len(self.pieces) or self.pieces[place].text != "|"

    # -- names

    def _unused(self, wish: str) -> str:
        name = wish
        while name in self.taken:
            self.numbers[wish] = self.numbers.get(wish, 1) + 1
            name = f"{wish}_{self.numbers[wish]}"
        self.taken.add(name)
        return name

    def _without_hyphens(self, name: str) -> str:
        if name not in self.renamed:
            self.renamed[name] = self._unused(name.replace("-", "_"))
            self.result.spelled[self.renamed[name]] = name
        return self.renamed[name]

    def _define(self, wish: str, out: Out, offset: int) -> str:
        """Define a new terminal and return its name."""
        name = self._unused(wish)
        self.result.helpers[name] = offset
        self.extra += [(f"{name}: ", offset, False), *out, ("\n", offset, False)]
        return name

    def _stand_in(self, wish: str, meaning: StandIn, offset: int) -> Out:
        """Define a new terminal whose meaning no pattern can express; return its name."""
        mark = f"/(?#structgen {len(self.result.stand_ins)})/"
        self.result.stand_ins.append(meaning)
        return [(self._define(wish, [(mark, offset, False)], offset), offset, False)]

    def _rule(self, wish: str, body: Body, offset: int) -> Out:
        name = self._unused(wish)
        self.result.bodies[name] = body
        return [(name, offset, False)]

    # -- statements

    def _statement(self) -> Out:
        """Rewrite a definition, a directive or an empty line, with the newline at its end."""
        out = self._spaces()
        piece = self._now
        if piece.text in ("%override", "%extend"):
            out += self._copy() + self._spaces()
        while self._now.text in ("?", "!"):
            out += self._copy()
        if self._now.kind == "name" and self._now.text[0] not in "%@":
            out += self._definition()
        elif piece.text == "%ignore":
            out += self._copy() + self._body(terminal=True)
        elif piece.kind == "block" and piece.text.startswith(("%llguidance", "%grammar_options")):
            self.result.settings.read(self.source, piece)
            self.position += 1
        elif piece.kind == "block":
            name = piece.text.split("{")[0].strip()
            hint = f"For example start: {name} {{...}}"
            self.source.fail(f"{name} must be inside a definition", piece.offset, len(name), hint)
        elif piece.kind == "name" and piece.text[0] == "%" and piece.text not in _DIRECTIVES:
            message = f"unknown directive {piece.text}"
            self.source.fail(message, piece.offset, len(piece.text), f"The directives are {_KNOWN}.")
        while self._now.kind != "newline":
            out += self._item(terminal=False)
        return out + self._copy()

    def _definition(self) -> Out:
        """Rewrite ``name: ...``, with template parameters, options and a priority."""
        name = self._now
        out = self._copy() + self._spaces()
        if self._now.text == "::":
            self._parameter(name)
        while self._now.kind != "newline":
            here = self._now
            if here.text == "[" and self.owner is not None:
                hint = "Move the options to a rule without a parameter that this one uses."
                self._refuse("options of a rule with a parameter are not supported", here, hint)
            if here.text == "[":
                return out + self._optional_rule(name)
            out += self._copy()
            if here.text == ":":
                terminal = name.text.lstrip("_")[:1].isupper()
                start = self.position
                out += self._body(terminal)
                self._end_of_parametric()
                if terminal:
                    used = (piece for piece in self.pieces[start : self.position] if piece.kind != "space")
                    self.parts.setdefault(name.text, []).extend(piece.text for piece in used)
                return out
        return out

    def _check_sizes(self) -> None:
        """Limit the size of terminals. Lark expands terminals inside terminals, so a few lines can become huge."""
        sizes: dict[str, int] = {}
        total = 0
        pending = list(self.parts)
        open_names: set[str] = set()
        while pending:
            name = pending[-1]
            inner = [part for part in self.parts[name] if part in self.parts]
            missing = [part for part in inner if part not in sizes and part not in open_names]
            if missing and name not in sizes:
                open_names.add(name)
                pending.extend(missing)
                continue
            pending.pop()
            if name in sizes:
                continue
            sizes[name] = len(self.parts[name]) + sum(sizes.get(part, 1) for part in inner)
            total += sizes[name]
            if sizes[name] > _MOST_PARTS or total > 5 * _MOST_PARTS:
                raise LimitExceeded(
                    f"the terminal {name}, with the terminals in it, has more than {_MOST_PARTS} parts",
                    limit="terminal_parts",
                    hint="Turn its larger parts into rules (lower-case names).",
                )

    def _optional_rule(self, name: Piece) -> Out:
        """Rewrite ``name[lazy, suffix="</end>"]: ...``. With some options the body becomes one terminal."""
        rule = name.text
        options, self.position = read_options(self.source, self.pieces, self.position, rule)
        is_terminal = rule.lstrip("_")[:1].isupper()
        if is_terminal and options != RuleOptions(
            lazy=options.lazy, end=options.end, is_stop=options.is_stop
        ):
            hint = "Move the options to the rule that uses it, or make it a rule (lower-case name)."
            self._refuse("a terminal cannot have capture, temperature, max_chars or max_tokens", name, hint)
        while self._now.text != ":":
            if self._now.kind == "newline":
                self.source.fail(
                    "a ':' is missing after the options",
                    self._now.offset,
                    hint="For example name[lazy]: /.*/",
                )
            self.position += 1
        self.position += 1
        self.result.options[self.renamed.get(rule, rule)] = options
        if not options.makes_terminal:
            return [(": ", name.offset, False), *self._body(is_terminal)]
        special = self._special_body(name, options)
        return [
            (": ", name.offset, False),
            *(special or self._bounded(name, options, self._body(terminal=True))),
        ]

    def _bounded(self, name: Piece, options: RuleOptions, body: Out) -> Out:
        """Return the terminal that is the body of a rule with these options."""
        offset = name.offset
        wish = re.sub("[^A-Z0-9_]", "_", name.text.upper())
        part = before = self._define("PART_1", body, offset)
        if options.end is not None:
            end = options.end.text
            if options.end.kind != "name":
                end = self._define("PART_1", [(end, options.end.offset, True)], offset)
            end = self.renamed.get(end, end)
            part = self._define("PART_1", [(f"{before} {end}", offset, False)], offset)
            named = self.renamed.get(name.text, name.text)
            self.result.endings[named] = (before, end, options.stop_capture, options.is_stop)
        if options.lazy or options.end is not None:
            if options.max_chars is None:
                return self._stand_in(wish, ("lazy", part), offset)
            whole = part
            [(part, _, _)] = self._stand_in("PART_1", ("lazy", part), offset)
            cut = (before, whole) if options.end is not None else None
            return self._stand_in(wish, ("bounded", part, options.max_chars, cut), offset)
        assert options.max_chars is not None
        return self._stand_in(wish, ("bounded", part, options.max_chars, None), offset)

    def _special_body(self, name: Piece, options: RuleOptions) -> Out | None:
        """Return a body with special tokens that the options do not change, except before the tokens; None for others.

        ``TEXT <|tool|>`` with `lazy`: no text contains a special token, so the first one ends it anyway. ``<|wide|>``
        with `max_chars`: a special token has no characters.
        """
        rest = self.pieces[self.position :]
        until = next(at for at, piece in enumerate(rest) if piece.kind == "newline")
        pieces = [piece for piece in rest[:until] if piece.kind != "space"]
        specials = [piece for piece in pieces if piece.kind == "special"]
        if options.end is not None or not specials:
            return None
        if specials[0].text.startswith(("<[^", "<[*")) and options.lazy:
            hint = "List the tokens that end it: TEXT <[100-200]>."
            self._refuse("a negated set of tokens cannot end a lazy rule", specials[0], hint)
        if all(piece.kind == "special" or piece.text == "|" for piece in pieces):
            return self._body(terminal=False)
        is_head = options.lazy and options.max_chars is None and pieces.index(specials[0]) == len(pieces) - 1
        if not is_head or any(piece.text in ("|", "(", "[", "&", "~") for piece in pieces):
            return None
        before: Out = []
        while self._now.kind != "special":
            before += self._item(terminal=True)
        part = self._define("PART_1", before, name.offset)
        return [(f"{part} ", name.offset, False), *self._body(terminal=False)]

    # -- bodies

    def _body(self, terminal: bool) -> Out:
        """Rewrite the body after a colon, without the newline at its end."""
        out: Out = []
        if terminal:
            out += self._choice()
        while not self._at_end():
            out += self._item(terminal)
        return out

    def _choice(self) -> Out:
        out = self._conjunction()
        while True:
            while self._now.kind == "space" or (self._now.kind == "newline" and not self._at_end()):
                out += self._copy()
            if self._now.text != "|":
                return out
            out += self._copy() + self._conjunction()

    def _conjunction(self) -> Out:
        """Rewrite ``A B & C``."""
        start = self._next(self.position).offset
        first = self._sequence()
        if self._now.text != "&":
            return first
        names = [self._define("PART_1", first, start)]
        while self._now.text == "&":
            self.position += 1
            offset = self._next(self.position).offset
            names.append(self._define("PART_1", self._sequence(), offset))
        return self._stand_in("AND_1", ("and", tuple(names)), start)

    def _sequence(self) -> Out:
        out = self._spaces()
        while self._now.text not in ("|", "&", ")", "]") and self._now.kind != "newline":
            out += self._complement() if self._now.text == "~" else self._atom()
            out += self._spaces()
            if self._now.text == "~" and self._next(self.position + 1).kind == "number":
                out += self._copy() + self._spaces() + self._copy() + self._spaces()
                if self._now.text == "..":
                    out += self._item(terminal=True) + self._spaces()
                    out += self._copy() if self._now.kind == "number" else []
            elif self._now.text in ("?", "*", "+"):
                out += self._copy()
            out += self._spaces()
        return out

    def _complement(self) -> Out:
        """Rewrite ``~A``, which binds tighter than a repetition."""
        start = self._now.offset
        self.position += 1
        self._spaces()
        if self._now.kind == "newline" or self._now.text in ("|", "&", ")", "]"):
            self.source.fail("'~' needs an operand", start, hint='For example ~"text" or ~NAME.')
        inner = self._complement() if self._now.text == "~" else self._atom()
        return self._stand_in("NOT_1", ("not", self._define("PART_1", inner, start)), start)

    def _atom(self) -> Out:
        closer = {"(": ")", "[": "]"}.get(self._now.text)
        if closer:
            out = self._copy() + self._choice()
            return out + (self._copy() if self._now.text == closer else [])
        return self._item(terminal=True)

    def _item(self, terminal: bool) -> Out:
        """Rewrite one item of a body."""
        piece = self._now
        if piece.kind == "block":
            return self._block(piece, terminal)
        if piece.text == "%if":
            return self._condition(terminal)
        if piece.kind == "name" and self.pieces[self.position + 1].text == "::":
            return self._use(terminal)
        if piece.text in self.parametric and piece.kind == "name":
            hint = f"Pass the parameter: {piece.text}::0"
            self.source.fail(f"the rule {piece.text} has a parameter", piece.offset, len(piece.text), hint)
        if piece.text in ('""', '""i') and ".." not in (self._next(self.position + 1).text, self._before()):
            self.position += 1
            return [("()", piece.offset, False)]
        if piece.kind == "special" or (piece.kind == "name" and piece.text[0] == "@"):
            if terminal:
                what = "special tokens" if piece.kind == "special" else "other constraints"
                self._refuse(
                    f"terminals cannot contain {what}", piece, "Use them in rules (lower-case names)."
                )
            self.position += 1
            return self._token(piece) if piece.kind == "special" else self._reference(piece)
        if piece.text == "{":
            match = _COUNT.match(self.source.text, piece.offset)
            if match and (match[1] or match[3]):
                return self._repetition(match)
        if terminal and piece.text == "->":
            hint = "Only alternatives of rules can have aliases."
            self.source.fail("a terminal cannot contain '->'", piece.offset, 2, hint)
        if piece.text == "..":
            self._check_range()
        if not terminal and (piece.text == "&" or (piece.text == "~" and self._is_prefix())):
            hint = "Use it in a terminal (upper-case name), and the terminal in the rule."
            self._refuse(f"{piece.text!r} applies to terminals, not to rules", piece, hint)
        return self._copy()

    def _check_range(self) -> None:
        """Raise an error if the bounds of ``~2..5`` are reversed."""
        before = [
            piece for piece in self.pieces[max(self.position - 3, 0) : self.position] if piece.kind != "space"
        ]
        after = self._next(self.position + 1)
        if before and before[-1].kind == after.kind == "number" and len(before[-1].text + after.text) < 100:
            start, end = before[-1].offset, after.offset + len(after.text)
            if not 0 <= int(before[-1].text) <= int(after.text):
                hint = "Write the smaller number first: x~2..5."
                self.source.fail("repetition bounds are reversed", start, end - start, hint)

    def _is_prefix(self) -> bool:
        return self._next(self.position + 1).kind in ("string", "regexp", "name") or (
            self._next(self.position + 1).text in ("(", "[")
        )

    def _repetition(self, match: re.Match[str]) -> Out:
        low, comma, high = int(match[1] or 0), match[2], match[3]
        last = int(high) if high else UNBOUNDED if comma else low
        if last < low:
            length = match.end() - match.start()
            self.source.fail(
                "repetition bounds are reversed",
                match.start(),
                length,
                hint="Write the smaller number first.",
            )
        while self.position < len(self.pieces) and self._now.offset < match.end():
            self.position += 1
        return [(f" ~ {low}..{last} ", match.start(), False)]

    def _block(self, block: Piece, terminal: bool) -> Out:
        content = self.source.text[block.content : block.offset + len(block.text)]
        self.position += 1
        if block.text.startswith("%regex"):
            whole = self._substrings(json.loads(content), block)
            if terminal:
                return self._stand_in("REGEX_1", ("language", repeat(whole, 0, 1)), block.offset)
            # No lexeme is empty, so in a rule the empty text is an optional terminal.
            made = self._stand_in("REGEX_1", ("language", whole), block.offset)
            return [("(", block.offset, False), *made, ("?)", block.offset, False)]
        if block.text.startswith("%lark"):
            return self._nested(block, terminal)
        if not block.text.startswith("%json"):
            name = block.text.split("{")[0].strip()
            hint = f"Write a line {name} {{}} before the rules."
            self.source.fail(f"{name} must be on a line of its own", block.offset, len(name), hint)
        if terminal:
            self._refuse("terminals cannot contain JSON", block, "Use it in a rule (lower-case name).")
        try:
            schema = schema_constraint(self.source, block, self.json_options)
        except (SchemaError, RegexError) as error:
            position = self.source.position(block.offset)
            at = f"%json at line {position.line}, column {position.column}"
            error.where = f"{at}, {error.where}" if error.where else at
            raise
        return self._rule("json_1", ("constraint", schema), block.offset)

    def _nested(self, block: Piece, terminal: bool) -> Out:
        """Rewrite ``%lark {...}``, a grammar with its own names, terminals and ignored text."""
        if terminal:
            self._refuse("terminals cannot contain a grammar", block, "Use it in a rule (lower-case name).")
        assert self.nested is not None
        start = block.content + 1
        inner = Source(self.source.text[start : block.offset + len(block.text) - 1], (self.source, start))
        try:
            constraint = self.nested(inner)
        except GrammarError as error:
            if error.line:
                raise
            message = f"the grammar of %lark cannot be read: {error.message}"
            self.source.fail(message, block.offset, len("%lark"), error.hint)
        return self._rule("lark_1", ("constraint", constraint), block.offset)

    def _substrings(self, value: dict[str, Any], block: Piece) -> RE:
        """Return the expression of ``{"substring_chunks": [...]}``: any non-empty run of neighbouring chunks."""
        kinds = {"substring_chunks": list, "substring_words": str, "substring_chars": str}
        [(key, content)] = value.items() if len(value) == 1 else [("", None)]
        if key not in kinds or not isinstance(content, kinds[key]):
            hint = (
                'Use {"substring_chunks": [...]}, {"substring_words": "..."} or {"substring_chars": "..."}.'
            )
            self._refuse("this %regex is not supported", block, hint)
        chunks = WORDS.findall(content) if key == "substring_words" else list(content)
        if not all(isinstance(chunk, str) for chunk in chunks):
            self._refuse("chunks must be texts", block, 'For example {"substring_chunks": ["one ", "two"]}.')
        return substring(content if key == "substring_chars" else chunks, empty=False)

    def _token(self, piece: Piece) -> Out:
        """Rewrite a special token, given by its text or by numbers."""
        if not piece.text.startswith("<["):
            return self._rule("special_1", ("special", piece.text), piece.offset)
        position = self.source.position(piece.offset)
        where = f"line {position.line}, column {position.column}"
        try:
            tokens = token_set(piece.text, where)
        except ValueError as error:
            self.source.fail(str(error), piece.offset, len(piece.text), TOKENS_HINT)
        return self._rule("special_1", tokens, piece.offset)

    def _reference(self, piece: Piece) -> Out:
        name = piece.text[1:]
        constraint = self.constraints.get(name)
        if constraint is None:
            known = ", ".join(f"@{name}" for name in self.constraints)
            hint = f"The constraints are {known}." if known else f"Pass it: constraints={{{name!r}: ...}}."
            self.source.fail(f"there is no constraint {name!r}", piece.offset, len(piece.text), hint)
        return self._rule("constraint_1", ("constraint", constraint), piece.offset)

    def _refuse(self, message: str, piece: Piece, hint: str) -> NoReturn:
        raise self.source.unsupported(message, piece.offset, len(piece.text.split("\n")[0]), hint)


_KNOWN = ", ".join(
    sorted([*_DIRECTIVES, "%json", "%regex", "%lark", "%if", "%llguidance", "%grammar_options"])
)
