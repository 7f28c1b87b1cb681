"""The lexer against Python's own tokenizer, and against small texts of other languages."""

from __future__ import annotations

import io
import keyword
import sysconfig
import tokenize
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen.monitors.languages import LANGUAGES, language_of
from structgen.monitors.lexer import ARGUMENT, CALL, CLOSE, IMPORT, MEMBER, Lexer

_FILES = [
    "argparse.py", "ast.py", "contextlib.py", "dataclasses.py", "decimal.py", "difflib.py", "enum.py", "functools.py",
    "inspect.py", "locale.py", "pathlib.py", "pickletools.py", "random.py", "statistics.py", "tarfile.py",
    "textwrap.py", "turtle.py", "typing.py", "uuid.py", "zipfile.py",
]  # fmt: skip


def _places(language: str, text: str, *kinds: str) -> list[int]:
    """Return the offsets of an ASCII text at which places of these kinds begin."""
    lexer = Lexer(language_of(language))
    at, found = lexer.start, []
    for offset, byte in enumerate(text.encode()):
        at, place = lexer.step(at, byte)
        if place in kinds:
            found.append(offset + 1)
    return found


def _marked(marked: str) -> tuple[str, list[int]]:
    """Remove the ``^`` from a text; return the text and the offsets of the marks."""
    places, text = [], ""
    for one in marked:
        if one == "^":
            places.append(len(text))
        else:
            text += one
    return text, places


@pytest.mark.parametrize("name", _FILES)
def test_member_places_are_where_python_has_a_dot_after_an_operand(name: str) -> None:
    path = Path(sysconfig.get_paths()["stdlib"]) / name
    if not path.is_file():
        pytest.skip(f"this Python has no {name}")
    source = path.read_bytes()
    lines = source.decode().split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()) + 1)

    def offset(place: tuple[int, int]) -> int:
        return starts[place[0] - 1] + len(lines[place[0] - 1][: place[1]].encode())

    wanted, strings, before, first = set(), [], None, None
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.NL, tokenize.ENCODING):
            continue
        if token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT) or token.string == ";":
            before = first = None
            continue
        if token.type == tokenize.STRING:
            strings.append((offset(token.start), offset(token.end)))
        first = first or token.string
        if token.string == "." and before is not None and first not in ("import", "from"):
            is_word = before.type == tokenize.NAME and (
                not keyword.iskeyword(before.string) or before.string in ("None", "True", "False")
            )
            if is_word or before.type in (tokenize.STRING, tokenize.NUMBER) or before.string in ")]}":
                wanted.add(offset(token.end))
        before = token
    lexer = Lexer(language_of("python"))
    at, found = lexer.start, set()
    for place, byte in enumerate(source):
        at, kind = lexer.step(at, byte)
        # What is interpolated in a string is a string to the tokenizer of older versions.
        if kind == MEMBER and not any(start < place + 1 <= end for start, end in strings):
            found.add(place + 1)
    if hasattr(tokenize, "FSTRING_START"):
        assert wanted <= found
    else:
        assert found == wanted


@pytest.mark.parametrize(
    "marked",
    [
        "x.^a.^b + 1.5 + x[0].^y",
        "f(x).^a",
        "'a.b'.^c",
        "'''a\n.b'''.^c",
        '"".^join(x)',
        "f'{x.^y:.2f} {{a.b}} {z!r:>{w.^n}.3}'.^q",
        "rb'\\'.x'.^y",
        "# a.b\nx.^c",
        "x = 1.\ny = ...\nz = 1..^real",
        "return .5",
        "from .a import b",
        "re.^match(x).^group(1)",
        "(x\n  .^y\n  .^z)",
        "'unfinished\nx.^y",
        "x = y \\\r\n.^z",
        "x = y \\\n.^z",
        "if x.^y.^z: pass",
    ],
)
def test_python_members(marked: str) -> None:
    text, places = _marked(marked)
    assert _places("python", text, MEMBER) == places


@pytest.mark.parametrize(
    "marked",
    [
        "a.^b?.^c!.^d",
        "`x.y ${a.^b} .c`.^d",
        "/a.b['\"]/.^test(x)",
        "a / b.^c / d.^e",
        "// a.b\n/* c.d */ e.^f",
        "x = {a: 1}.^a",
        "if (x) { y.^z }",
        "const r = [...xs.^ys]",
        "a ?? b.^c",
        "'it\\'s a.b'.^length",
        "x\n  .^map(y)\n  .^filter(z)",
        "return /[/.]x/.^source",
    ],
)
def test_typescript_members(marked: str) -> None:
    text, places = _marked(marked)
    assert _places("typescript", text, MEMBER) == places


def test_calls_and_their_arguments() -> None:
    text, places = _marked("f(^a,^ b[1, 2],^ g(^))^ + (x, y) + [z, w]")
    assert _places("python", text, CALL, ARGUMENT) == [one for one in places if text[one - 1] in "(,"]
    assert _places("python", text, CLOSE) == [text.index(")") + 1, text.index("))") + 2]
    assert _places("python", "def f(a, b): pass\nclass C(D, E): pass", CALL, ARGUMENT, CLOSE) == []
    assert _places("typescript", "function f(a, b) { if (a, b) {} }", CALL, ARGUMENT, CLOSE) == []
    assert _places("typescript", "new C(a)", CALL, CLOSE) == [6, 8]


def test_imports() -> None:
    for marked in [
        "import ^os,^ sys",
        "import ^os.^path as p",
        "from ^a.^b import ^c,^ d",
        "from ^a import ^(^b,^\n c)",
        "x = 1; import ^y",
    ]:
        text, places = _marked(marked)
        assert _places("python", text, IMPORT) == places, marked
    assert _places("python", "x.import_(y, z)", IMPORT) == []


def test_sql() -> None:
    text, places = _marked("SELECT u.^name, 'a.b', \"t\".^x -- c.d\nFROM users u /* e.f */ WHERE 1.5 < u.^y")
    assert _places("sql", text, MEMBER) == places


@given(
    text=st.text(alphabet="ab.'\"`\\{}()[]$#/*,; \n1f:=!?é", max_size=60),
    language=st.sampled_from(sorted(LANGUAGES)),
)
def test_any_text_is_read(text: str, language: str) -> None:
    lexer = Lexer(language_of(language))
    at = lexer.start
    for byte in text.encode():
        at, _ = lexer.step(at, byte)
    assert at == lexer.read(lexer.start, text.encode())
    assert hash(at) == hash(lexer.read(lexer.start, text.encode()))
