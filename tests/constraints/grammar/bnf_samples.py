"""Sources that GBNF and EBNF read alike: constructs with their languages, and mistakes with their errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from structgen.errors import GrammarError, GrammarSyntaxError
from structgen.ir.grammar import Grammar

__all__ = ["COMMON_CONSTRUCTS", "COMMON_FAULTS", "check_error"]

Read = Callable[[str], Grammar]

# A source, an alphabet, and a pattern of the same language.
COMMON_CONSTRUCTS = [
    ('root ::= "a"', "ab", "a"),
    ('root ::= "ab" "a"', "ab", "aba"),
    ('root ::= "a" | "ba" | "b"', "ab", "a|ba|b"),
    ('root ::= ""', "a", ""),
    ("root ::= ()", "a", ""),
    ('root ::= "a"*', "ab", "a*"),
    ('root ::= "ab"*', "ab", "(ab)*"),
    ('root ::= "a"?', "ab", "a?"),
    ('root ::= "a"{3}', "a", "a{3}"),
    ('root ::= "a"{2,}', "a", "a{2,}"),
    ('root ::= "a"{1,3}', "a", "a{1,3}"),
    ('root ::= "a"{0}', "a", ""),
    ('root ::= ("a" | "bb"){1,2} "b"', "ab", "(a|bb){1,2}b"),
    ("root ::= [ab]", "abc", "[ab]"),
    ("root ::= [a-b]", "abc", "[ab]"),
    ("root ::= [^a-b]", "abc", "c"),
    ("root ::= [a-]", "ab-", "[a-]"),
    ("root ::= [-a]", "ab-", "[a-]"),
    ("root ::= [a-b-d]", "abcd-", "[abd-]"),
    ("root ::= [+--]", "+,-.", "[+,-]"),
    ("root ::= [--/]", "+,-./", "[-./]"),
    (r"root ::= [a\-c]", "abc-", "[ac-]"),
    (r"root ::= [\]\[\\]", r"[]\a", r"[\]\[\\]"),
    ("root ::= [[]", "[]", r"\["),
    (r"root ::= [\x41-\u0043] [\U0001F600]", "ABC😀", "[ABC]😀"),
    ('root ::= "#" # "a"\n', "#a", "#"),
    ('# root\n\n  root ::= "a" # b\n\n# c', "ab", "a"),
    ('root ::= x\r\nx ::= "a"\r\n', "a", "a"),
    ('root ::= x\rx ::= "a"', "a", "a"),
    ('root::=x"b"\nx::="a"', "ab", "ab"),
    ('root ::= "a" root "b" | ""', "ab", "|ab|aabb"),
    ('root ::= root "a" | "b"', "ab", "ba*"),
    ('root ::= x\nx ::= y | "b"\ny ::= x "a"', "ab", "ba*"),
    ("root ::= ([ab] root)?", "ab", "[ab]*"),
]

# A source, the line, column and length of the mistake, and parts of the message and the hint.
COMMON_FAULTS = [
    ('root ::= ite\nitem ::= "a"', (1, 10, 3), "there is no rule ite", "Did you mean item?"),
    ('root ::= "\\ud83d\\ude00"', (1, 11, 6), "half of a surrogate pair", "eight digits"),
    ('root ::= ("a" "b"', (1, 10, 1), "this ( is not closed before the end", "Add the )"),
    ('root ::= ("a"\nb ::= "b"', (1, 10, 1), "this ( is not closed before the rule b", "Add the )"),
    ('root ::= "a")', (1, 13, 1), "this ) closes nothing", 'quote it: ")"'),
    ("root ::= *", (1, 10, 1), "* has nothing to repeat", 'quote it: "*"'),
    ('root ::= "a"{,2}', (1, 13, 4), "this is not a repetition", "{0,n}"),
    ('root ::= "a"{3,2}', (1, 13, 5), "repetition bounds are reversed: {3,2}", "Write {2,3}."),
    ('root = "a"', (1, 1, 4), "a rule must begin here", "name ::= ..."),
    ('root ::= "a" ::= "b"', (1, 14, 3), "the name of a rule is missing before this", "name ::= ..."),
]  # fmt: skip


def check_error(
    read: Read,
    source: str,
    position: tuple[int, int, int],
    message: str,
    hint: str = "",
    error: type[GrammarError] = GrammarSyntaxError,
) -> None:
    """Assert that reading the source raises the error at this line and column, with this length, text and hint."""
    with pytest.raises(error) as caught:
        read(source)
    raised = caught.value
    assert (raised.line, raised.column, raised.length) == position
    assert message in raised.message
    assert raised.hint
    assert hint in raised.hint
