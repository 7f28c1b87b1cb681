"""The lexical context of a program text, byte by byte (code, string, comment), and the positions that trigger queries.

Why: triggers are lexical. After a dot after an operand comes a member, after a bracket after one come the arguments of
a call. Both may be in the middle of a token, so the lexer reads bytes and reports after which of them a trigger stands.
What: an automaton with a stack (brackets, and strings with code in them); a state is an immutable tuple.
Invariant: the state after a text does not depend on how it was cut into tokens.
Cost: about a microsecond for each byte.
"""

from __future__ import annotations

from typing import NamedTuple

from .languages import Language, Quotes

__all__ = ["ARGUMENT", "CALL", "CLOSE", "IMPORT", "MEMBER", "Bracket", "Lexed", "Lexer"]

MEMBER = "member"
"""After the dot of ``x.``, ``f().`` or ``x?.``: a member's name follows."""
CALL = "call"
"""After the bracket of ``f(``: the first argument or the end follows."""
ARGUMENT = "argument"
"""After a comma between arguments."""
CLOSE = "close"
"""After the bracket that ends a call."""
IMPORT = "import"
"""Before the name of a module, or of something that is imported from one."""

_CODE, _WORD, _NUMBER, _OPENS, _LINE, _BLOCK, _STRING, _REGEX, _EMPTIED, _SKIP, _ASKS = range(11)
_OUTSIDE = {_LINE, _BLOCK, _STRING, _REGEX}

_CALLED, _GROUP, _BLOCK_OF_CODE, _INTERPOLATION = "call", "group", "block", "interpolation"
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
_DIGITS = b"0123456789"
_SPACE = b" \t\r\n\f\v"
_BEFORE_BLOCKS = (b"else", b"try", b"do", b"finally")
_MOST_OPEN = 2_000
"""How many brackets are kept; deeper ones count as one kind."""


class Bracket(NamedTuple):
    """An open bracket."""

    role: str
    arguments: int = 0
    """Number of commas so far."""
    quotes: Quotes | None = None
    """The string that holds an interpolation."""
    spec: bool = False
    """Whether a format specification is open, after the colon of an interpolation."""


class Lexed(NamedTuple):
    """A state of the lexer; `Lexer.start` and `Lexer.step` make it."""

    mode: int = _CODE
    operand: bool = False
    """Whether an operand was read last, so that a dot after it triggers a member."""
    word: bytes = b""
    """The word that is open, or the last one if nothing followed it."""
    keyword: bytes = b""
    """The keyword before that, if nothing stands in between."""
    heading: bytes = b""
    """The first word of the statement, if it is an import."""
    stack: tuple[Bracket, ...] = ()
    quotes: Quotes | None = None
    """The string that is open."""
    pending: int = 0
    """In a string: 1 after a backslash, 2 after a ``$``, 3 after a brace, 16 plus the closing quotes so far.
    In a comment: 1 after its star. Elsewhere the byte that may open something."""
    fresh: bool = True
    """Whether a statement begins here."""

    @property
    def in_code(self) -> bool:
        """Whether the state is outside of strings and comments."""
        return self.mode not in _OUTSIDE

    @property
    def arguments(self) -> int:
        """Number of commas in the innermost open bracket."""
        return self.stack[-1].arguments if self.stack else 0

    @property
    def in_word(self) -> bool:
        """Whether a word is open."""
        return self.mode == _WORD


class Lexer:
    """The automaton of one language."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self.start = Lexed()
        self._letters = frozenset(_LETTERS + language.extra) | frozenset(range(0x80, 0x100))
        self._word = self._letters | frozenset(_DIGITS)
        self._openers = {opener[0]: quotes for opener, quotes in language.quotes.items()}
        self._comment_starts = {mark[0] for mark in language.line_comments if len(mark) == 2}
        self._hash = {mark[0] for mark in language.line_comments if len(mark) == 1}
        if language.block_comments or language.regexes:
            self._comment_starts.add(ord("/"))
        self._modes = {
            _CODE: self._code,
            _WORD: self._in_word,
            _NUMBER: self._in_number,
            _OPENS: self._opens,
            _LINE: self._in_line,
            _BLOCK: self._in_block,
            _STRING: self._in_string,
            _REGEX: self._in_regex,
            _EMPTIED: self._emptied,
            _SKIP: self._skip,
            _ASKS: self._asks,
        }

    def is_word_byte(self, byte: int) -> bool:
        """Return whether a byte can stand in an identifier."""
        return byte in self._word

    def control(self, state: Lexed) -> Lexed:
        """Return a state from which tokens lead to the same triggers.

        Brackets that no token closes, and letters of words that are long enough, are left out.
        """
        word = state.word
        if len(word) > 2 and not any(keyword.startswith(word) for keyword in self.language.keywords):
            word = b"___"
        return state._replace(stack=state.stack[-16:], word=word)

    def step(self, state: Lexed, byte: int) -> tuple[Lexed, str | None]:
        """Return the state after a byte, and the trigger there, if there is one."""
        return self._modes[state.mode](state, byte)

    def read(self, state: Lexed, text: bytes) -> Lexed:
        """Return the state after a text."""
        modes = self._modes
        for byte in text:
            state = modes[state.mode](state, byte)[0]
        return state

    # -- code

    def _code(self, state: Lexed, byte: int) -> tuple[Lexed, str | None]:
        language = self.language
        if byte in self._letters:
            return state._replace(mode=_WORD, word=bytes((byte,))), None
        if byte in _SPACE:
            return self._space(state, byte)
        if byte in self._openers:
            return self._open_string(state, byte), None
        if byte in self._hash:
            return state._replace(mode=_LINE), None
        if byte in self._comment_starts:
            return state._replace(mode=_OPENS, pending=byte), None
        if byte in _DIGITS:
            return state._replace(mode=_NUMBER, fresh=False, keyword=b"", word=b"", pending=0), None
        if byte in b"([{":
            return self._open(state, byte)
        if byte in b")]}":
            return self._shut(state)
        if byte == ord("."):
            asks = None
            if state.operand and not language.line_statements:
                asks = MEMBER
            elif state.operand:
                asks = IMPORT if state.heading else MEMBER
            return self._sign(state)._replace(pending=byte), asks
        if byte == ord(","):
            return self._comma(state)
        if byte == ord(";") and not (state.stack and state.stack[-1].role != _BLOCK_OF_CODE):
            return Lexed(stack=state.stack), None
        if byte == ord(":") and state.stack and state.stack[-1].role == _INTERPOLATION:
            return self._specification(state), None
        if byte == ord("\\"):
            return state._replace(mode=_SKIP), None
        if language.optional_members and byte == ord("?") and state.operand:
            return state._replace(mode=_ASKS), None
        if language.optional_members and byte == ord("!") and state.operand:
            return state, None
        return self._sign(state)._replace(pending=byte), None

    @staticmethod
    def _sign(state: Lexed) -> Lexed:
        return state._replace(mode=_CODE, operand=False, word=b"", keyword=b"", fresh=False, pending=0)

    def _space(self, state: Lexed, byte: int) -> tuple[Lexed, str | None]:
        if byte == ord("\n") and self.language.line_statements and not state.stack:
            return Lexed(), None
        asks = state.heading and state.word in (b"import", b"from") and not state.operand
        if asks:
            return state._replace(word=b""), IMPORT
        return state, None

    def _comma(self, state: Lexed) -> tuple[Lexed, str | None]:
        after = self._sign(state)
        if not state.stack:
            return after, IMPORT if state.heading in (b"import", b"from import") else None
        last = state.stack[-1]
        after = after._replace(stack=(*state.stack[:-1], last._replace(arguments=last.arguments + 1)))
        if last.role == _CALLED:
            return after, ARGUMENT
        return after, IMPORT if state.heading == b"from import" and len(state.stack) == 1 else None

    def _open(self, state: Lexed, byte: int) -> tuple[Lexed, str | None]:
        role, asks = _GROUP, None
        if byte == ord("(") and state.operand and state.keyword not in self.language.declares:
            role, asks = _CALLED, CALL
        elif byte == ord("(") and state.heading == b"from import" and not state.stack:
            asks = IMPORT
        elif byte == ord("{") and not self.language.line_statements and self._begins_block(state):
            role = _BLOCK_OF_CODE
        after = self._sign(state)
        if role == _BLOCK_OF_CODE:
            after = after._replace(heading=b"", fresh=True)
        if len(state.stack) < _MOST_OPEN:
            after = after._replace(stack=(*state.stack, Bracket(role)))
        return after, asks

    @staticmethod
    def _begins_block(state: Lexed) -> bool:
        return state.operand or state.fresh or state.keyword in _BEFORE_BLOCKS or state.pending == ord(">")

    def _shut(self, state: Lexed) -> tuple[Lexed, str | None]:
        if not state.stack:
            return self._sign(state)._replace(operand=True), None
        last, rest = state.stack[-1], state.stack[:-1]
        if last.role == _INTERPOLATION:
            return Lexed(_STRING, stack=rest, quotes=last.quotes, heading=state.heading, fresh=False), None
        after = self._sign(state)._replace(operand=True, stack=rest)
        if last.role == _BLOCK_OF_CODE:
            return after._replace(operand=False, fresh=True), None
        return after, CLOSE if last.role == _CALLED else None

    def _in_word(self, state: Lexed, byte: int) -> tuple[Lexed, str | None]:
        if byte in self._word:
            return state._replace(word=state.word + bytes((byte,))) if len(state.word) < 64 else state, None
        if byte in self._openers and self.language.tripled and len(state.word) <= 2:
            letters = state.word.lower()
            if not letters.strip(b"rbuft"):
                return self._open_string(state, byte, letters), None
        word = state.word.lower() if self.language.folds else state.word
        if state.pending != ord(".") and word in self.language.keywords:
            heading = state.heading
            if self.language.imports:
                if state.fresh and word in (b"import", b"from"):
                    heading = word
                elif heading == b"from" and word == b"import":
                    heading = b"from import"
            known = state._replace(mode=_CODE, operand=False, word=word, keyword=word, heading=heading)
        else:
            keyword = b"" if state.operand else state.keyword
            known = state._replace(mode=_CODE, operand=True, word=word, keyword=keyword)
        return self._code(known._replace(fresh=False, pending=0), byte)

    def _in_number(self, state: Lexed, byte: int) -> tuple[Lexed, str | None]:
        if byte in self._word:
            return state, None
        if byte == ord(".") and state.pending != byte:
            return state._replace(pending=byte), None
        return self._code(state._replace(mode=_CODE, operand=True), byte)

    def _opens(self, state: Lexed, byte: int) -> tuple[Lexed, str | None]:
        """Step after a byte that may begin a comment or a regular expression."""
        first = state.pending
        plain = state._replace(mode=_CODE, pending=0)
        if bytes((first, byte)) in self.language.line_comments:
            return plain._replace(mode=_LINE), None
        if first == ord("/") and byte == ord("*") and self.language.block_comments:
            return plain._replace(mode=_BLOCK), None
        if first == ord("/") and self.language.regexes and not state.operand:
            return self._in_regex(plain._replace(mode=_REGEX), byte)
        return self._code(self._sign(plain), byte)

    def _asks(self, state: Lexed, byte: int) -> tuple[Lexed, str | None]:
        after = self._sign(state)
        return (after._replace(pending=byte), MEMBER) if byte == ord(".") else self._code(after, byte)

    def _skip(self, state: Lexed, byte: int) -> tuple[Lexed, str | None]:
        return (state, None) if byte == ord("\r") else (state._replace(mode=_CODE), None)

    # -- comments

    def _in_line(self, state: Lexed, byte: int) -> tuple[Lexed, str | None]:
        return self._code(state._replace(mode=_CODE), byte) if byte == ord("\n") else (state, None)

    def _in_block(self, state: Lexed, byte: int) -> tuple[Lexed, str | None]:
        if state.pending and byte == ord("/"):
            return state._replace(mode=_CODE, pending=0), None
        return state._replace(pending=int(byte == ord("*"))), None

    # -- strings

    def _open_string(self, state: Lexed, byte: int, letters: bytes = b"") -> Lexed:
        quotes = self._openers[byte]
        if b"r" in letters:
            quotes = quotes._replace(
                escapes=True
            )  # a backslash before a quote keeps it in the string there as well
        if b"f" in letters or b"t" in letters:
            quotes = quotes._replace(interpolates=b"{")
        return state._replace(
            mode=_STRING, quotes=quotes, pending=16, operand=False, word=b"", keyword=b"", fresh=False
        )

    def _closed(self, state: Lexed) -> Lexed:
        return state._replace(mode=_CODE, operand=True, quotes=None, pending=0)

    def _emptied(self, state: Lexed, byte: int) -> tuple[Lexed, str | None]:
        """Step after two quotes: a third one makes them the opening of a long string."""
        quotes = state.quotes
        assert quotes is not None
        if byte == quotes.close[0]:
            return state._replace(
                mode=_STRING, quotes=quotes._replace(close=quotes.close * 3, lines=True)
            ), None
        return self._code(self._closed(state), byte)

    def _in_string(self, state: Lexed, byte: int) -> tuple[Lexed, str | None]:
        quotes, pending = state.quotes, state.pending
        assert quotes is not None
        if pending == 1:
            return state._replace(pending=0), None
        if byte == quotes.close[0]:
            if quotes.close == b"}":  # of a format's specification
                return self._shut(state)
            if len(quotes.close) == 1:
                if pending == 16 and self.language.tripled:  # the string is empty so far
                    return state._replace(mode=_EMPTIED, pending=0), None
                return self._closed(state), None
            count = (pending - 16 if pending >= 16 else 0) + 1
            return (self._closed(state) if count == 3 else state._replace(pending=16 + count)), None
        if byte == ord("\\") and quotes.escapes:
            return state._replace(pending=1), None
        if byte == ord("\n") and not quotes.lines:
            return self._code(self._closed(state), byte)  # the string has no end, but the line has
        if quotes.interpolates == b"${":
            if pending == 2 and byte == ord("{"):
                return self._interpolate(state), None
            return state._replace(pending=2 if byte == ord("$") else 0), None
        if quotes.interpolates == b"{":
            if byte == ord("{"):
                return state._replace(pending=0 if pending == 3 else 3), None
            if pending == 3:
                return self._code(self._interpolate(state), byte)
        return (state._replace(pending=0) if pending else state), None

    @staticmethod
    def _interpolate(state: Lexed) -> Lexed:
        return Lexed(
            stack=(*state.stack, Bracket(_INTERPOLATION, quotes=state.quotes)),
            heading=state.heading,
            fresh=False,
        )

    @staticmethod
    def _specification(state: Lexed) -> Lexed:
        """Return the state after the colon of an interpolation: its format is text up to the brace."""
        last = state.stack[-1]
        if last.quotes is None or last.quotes.interpolates != b"{":
            return state._replace(operand=False, word=b"", keyword=b"", fresh=False)
        text = Quotes(b"}", escapes=False, interpolates=b"{")
        return state._replace(
            mode=_STRING,
            quotes=text,
            stack=(*state.stack[:-1], last._replace(spec=True)),
            pending=0,
            operand=False,
            word=b"",
        )

    def _in_regex(self, state: Lexed, byte: int) -> tuple[Lexed, str | None]:
        pending = state.pending  # 1 after a backslash, 2 in a class, 3 both
        if pending & 1:
            return state._replace(pending=pending & 2), None
        if byte == ord("\\"):
            return state._replace(pending=pending | 1), None
        if byte == ord("\n") or (byte == ord("/") and not pending):
            return state._replace(mode=_CODE, pending=0, operand=True), None
        if byte in b"[]":
            return state._replace(pending=2 if byte == ord("[") else 0), None
        return state, None
