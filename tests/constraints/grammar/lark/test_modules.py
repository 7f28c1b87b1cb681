"""Modules, templates, `%override`, `%extend` and `%declare`, read in one pass, against lark's own loader."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lark
import pytest

import structgen as sg
from structgen.constraints.grammar.lark.dialect import rewrite
from structgen.constraints.grammar.lark.lark_loader import Loaded, load
from structgen.constraints.grammar.lark.rewritten import UNBOUNDED
from structgen.constraints.grammar.lark.rule_bodies import rule_bodies
from structgen.constraints.grammar.lark.source import Source
from structgen.constraints.grammar.lark.templates import read_modules
from structgen.errors import LimitExceeded, StructgenError

ROOT = Path(__file__).parents[4]
BUNDLED = Path(lark.__file__).parent / "grammars"


def content(loaded: Loaded) -> Any:
    bodies = {name: ("terminal", name) for name in [*loaded.all_terminals, *loaded.declared]}
    return (
        [(one.name, one.pattern, one.pattern.raw, one.priority) for one in loaded.terminals],
        [(one.name, one.pattern, one.priority) for one in loaded.all_terminals.values()],
        list(rule_bodies(loaded, bodies, {}).items()),
        loaded.ignore,
        loaded.declared,
    )


def agree(
    text: str, start: str = "start", keep: Sequence[str] = (), paths: Sequence[Any] = ()
) -> bool | None:
    """Return whether the grammar was read; None if lark refuses it. Fail if the two readers differ."""
    rewritten = rewrite(Source(text), nested=lambda _: sg.regex("x"))
    try:
        wanted: Loaded | None = load(rewritten, start, keep, paths)
    except StructgenError:
        wanted = None
    try:
        found = read_modules(rewritten.text, start, keep, paths, rewritten.bodies, UNBOUNDED)
    except LimitExceeded:
        assert wanted is None
        return None
    if wanted is None:
        assert found is None, text
        return None
    if found is None:
        return False
    assert content(found) == content(wanted), text
    return True


@pytest.mark.parametrize(
    ("path", "start"),
    [
        *(
            (path, "file_input" if path.name == "python.lark" else "start")
            for path in ROOT.glob("grammars/*.lark")
        ),
        *((path, "start") for path in ROOT.glob("bench/grammars/*.lark")),
        (BUNDLED / "python.lark", "file_input"),
        (BUNDLED / "lark.lark", "start"),
    ],
    ids=lambda one: f"{one.parent.name}/{one.name}" if isinstance(one, Path) else "",
)
def test_files(path: Path, start: str) -> None:
    assert agree(path.read_text("utf-8"), start, ("_NEWLINE",) if "python" in path.name else ())


READ = [
    'start: _sep{A, ","} _sep{b, ";"}\n_sep{x, s}: x (s x)*\nA: "a"\nb: "b"',
    'start: t{"x", t{"y", A}}\nt{p, q}: p q | "(" t{q, p} ")" | "z" -> w\nA: "a"',
    'start: t{u, "x"}\nt{f, p}: f{p} "y"\nu{p}: p p ["q"]',
    'start: t{"a"} | ("b" t{"c"})+ | ["d" ("e" t{"f"})~2..3] "g"\nt{p}: "h" p ("i" p)* "j"',
    "%import common.INT\nstart: INT\n%extend INT: /x/ | HEX\nHEX: /f/",
    "%import common (INT, NUMBER, DIGIT, FLOAT)\nstart: INT NUMBER FLOAT\n%extend INT: /x/\n%override DIGIT: /[01]/",
    "%import common.SIGNED_NUMBER -> N\n%import common.WS\nstart: N+\n%override N: /n/\n%ignore WS",
    'start: a\na: "x"\n%extend a: "y" "w"\n%extend a: "z" | a "v"\n%override start: a a',
    'A: "x" | B\nB: "b"\n%extend B: "c" | "dd"\n%extend A: ("e" | "ff") | "g"\n%extend A: "hhh"\nstart: A B',
    "%declare X _Y\nstart: X _Y",
    "%import python (name, string, number)\nstart: name string number",
    "%import python.file_input -> start\n%declare _INDENT _DEDENT",
    "%import lark.rule\n%import lark.token -> t\nstart: rule | t",
    'start: "é".."ü" "\\x00".."\\x1f" "\\u0041".."Z"',
    'start: "a"~0 "b"~0..0 c~0 "d"\nc: "e"',
    'start: "a"{2,} X{3,} x{,4}\nX: "b"{2,}\nx: "c"',
    "start: a\na: b\nb: c a*\nc: /x/ _t{/y/i}\n_t{p}: p | _t{p} p",
    "%import .units.LENGTH\n%import parts.sub (pair, ITEM) \n%import parts.sub.other -> mine\n"
    "start: LENGTH pair{ITEM} mine",
]


def modules(folder: Any, name: str) -> tuple[str, str]:
    texts = {
        "units.lark": '%import common.NUMBER\nLENGTH: NUMBER ("mm" | "cm")\nUNUSED: "u"\n%ignore UNUSED',
        "parts/sub.lark": '%import .deep (ITEM, _hidden)\npair{x}: x "," x _own\n_own: "o" _hidden\n'
        "other: OTHER pair{OTHER}\n"
        'OTHER: "t" ITEM\n%extend ITEM: "more"\n',
        "parts/deep.lark": 'ITEM: /i/ | PART\nPART: "p"\n_hidden: "h" third\nthird: PART "3"\nlost: "l"',
        "deep.lark": 'ITEM: /i/ | PART\nPART: "p"\n_hidden: "h" third\nthird: PART "3"\nlost: "l"',
    }
    if name not in texts:
        raise OSError
    return name, texts[name]


@pytest.mark.parametrize("text", READ)
def test_reads_as_lark_does(text: str) -> None:
    keep = ("_NEWLINE",) if "file_input" in text else ()
    assert agree(text, keep=keep, paths=[modules])


REFUSED = [
    "start: t{A}\nt{x, y}: x\nA: /a/",
    "start: t\nt{x}: x",
    "start: t{x}\nt{x}: x",
    'start: t{"a"}\nt{x, x}: x',
    'start: t{"a"}\nt{start}: start',
    'start: u{"a"}',
    '%override start: "a"',
    '%extend start: "a"',
    'start: "a"\nstart: "b"',
    'start: t{"a"}\nt{x}: x\n%extend t{y}: y',
    "%declare X\n%extend X: /a/\nstart: X",
    "%declare x\nstart: x",
    "%import nowhere.X\nstart: X",
    "%import common.NOPE\nstart: NOPE",
    "%import common.INT\nINT: /a/\nstart: INT",
    "%import common.INT\n%import python.DEC_NUMBER -> INT\nstart: INT",
    "A: B\nB: A\nstart: /x/",
    "A: b\nb: /x/\nstart: A",
    "%import common\nstart: /x/",
    'A: "a"\n%ignore B\nstart: A',
    'start: "ab".."c"',
]


@pytest.mark.parametrize("text", REFUSED)
def test_refuses_what_lark_refuses(text: str) -> None:
    assert agree(text) is None
    with pytest.raises(StructgenError):
        sg.lark(text)


def test_limits() -> None:
    with pytest.raises(LimitExceeded) as error:
        sg.lark('start: t{"a"}\nt{x}: t{u{x}} x\nu{x}: x x')
    assert error.value.limit in ("template_instances", "template_arguments")


class _Writer:
    """Writes random grammars of these definitions."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.templates = {"t": 1, "u": 2}

    def pick(self, *items: Any) -> Any:
        return self.draw.choice(items)

    def symbol(self, parameters: Sequence[str]) -> str:
        return str(
            self.pick(
                "a",
                "b",
                "A",
                "B",
                "INT",
                '"x"',
                '"y"',
                '"if"',
                '","',
                "/z+/",
                '"x"i',
                '"q".."s"',
                *parameters,
                *parameters,
            )
        )

    def use(self, parameters: Sequence[str], depth: int) -> str:
        """Return the body of a template, which uses only smaller ones with plain arguments, so that expansion ends."""
        if parameters == "p":
            return self.symbol(parameters)
        name, depth = ("t", 2) if parameters else (self.pick(*self.templates), depth)
        arguments = [
            self.use(parameters, depth + 1)
            if depth < 2 and self.draw.random() < 0.2
            else self.symbol(parameters)
            for _ in range(self.templates[name])
        ]
        return f"{name}{{{', '.join(arguments)}}}"

    def item(self, parameters: Sequence[str], depth: int) -> str:
        kind = self.draw.random()
        if kind < 0.2 and depth < 3:
            inner = self.body(parameters, depth + 1)
            return self.pick(f"({inner})", f"[{inner}]", f"({inner})*", f"({inner})~2", f"({inner})~0..1")
        if kind < 0.45:
            return self.use(parameters, 0)
        return self.symbol(parameters) + self.pick("", "", "", "?", "*", "+", "~2", "~1..3", "~0")

    def body(self, parameters: Sequence[str], depth: int = 0) -> str:
        alternatives = [
            " ".join(self.item(parameters, depth) for _ in range(self.draw.randint(1, 3)))
            + (" -> w" if depth == 0 and self.draw.random() < 0.2 else "")
            for _ in range(self.draw.randint(1, 3))
        ]
        return " | ".join(alternatives)

    def terminal(self) -> str:
        parts = ['"k"', '"kk"', "/m+/", "A", "C", "INT", '("n" | "nn")', '"o"?', "DIGIT~2"]
        return " | ".join(
            " ".join(self.draw.choice(parts) for _ in range(self.draw.randint(1, 2)))
            for _ in range(self.draw.randint(1, 3))
        )

    def grammar(self) -> str:
        lines = [
            f"start: {self.body(())}",
            f"a: {self.body(())}",
            f"?b: {self.body(())}",
            f"t{{p}}: {self.body('p')}",
            f"u{{p, q}}: {self.body('pq')}",
            'A: "k" | /m/',
            f"B: {self.terminal()}",
            f"C.2: {self.pick(chr(34) + 'c' + chr(34), '/c/ INT', self.terminal())}",
        ]
        for _ in range(self.draw.randint(0, 4)):
            lines.append(
                self.pick(
                    f"%extend a: {self.body(())}",
                    f"%extend u{{p, q}}: {self.body('pq')}",
                    f"%override b: {self.body(())}",
                    f"%extend A: {self.terminal()}",
                    f"%override B: {self.terminal()}",
                    f"%extend INT: {self.terminal()}",
                    "%override DIGIT: /[01]/",
                    '%ignore " "',
                    "%ignore WS",
                    "%declare D",
                )
            )
        imports = [
            "%import common (INT, DIGIT, WS)",
            "%import common.NUMBER",
            "%import parts.sub.ITEM",
            "%import units.LENGTH -> L",
        ]
        return "\n".join([*imports[: self.draw.randint(1, 4)], *lines])


def test_random_grammars() -> None:
    verdicts = [agree(_Writer(seed).grammar(), paths=[modules]) for seed in range(80)]
    assert False not in verdicts
    assert verdicts.count(True) > 30
