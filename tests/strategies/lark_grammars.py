"""Random Lark grammars."""

from __future__ import annotations

from hypothesis import strategies as st

TERMINALS = [
    "NAME: /[a-c]+/", "A: /a(?!b)/", "B: /b\\b/", 'C: "c"', "AB.1: /ab?(?![ab])/", "L: /b.*?c/", 'N: "a"i "b"?',
    "S: /b(?!bb).*?b/", "LS: /bbb.*?bbb/", "O: /c|ca/", "G: /a+(!a+)*\\b/", "E: /c(a|b!)?(?![ab])/",
]  # fmt: skip


@st.composite
def bodies(draw: st.DrawFn, names: list[str], depth: int = 2) -> str:
    kind = draw(st.integers(0, 7 if depth else 3))
    if kind <= 3:
        return draw(st.sampled_from(names))
    inner = [draw(bodies(names, depth - 1)) for _ in range(draw(st.integers(1, 3)))]
    if kind == 4:
        return f"({' | '.join(inner)})"
    if kind == 5:
        return f"[{' '.join(inner)}]"
    if kind == 6:
        return f"({' '.join(inner)}){draw(st.sampled_from(['*', '+', '?', '~2', '~0..2', '~1..2']))}"
    return f"({' '.join(inner)})"


@st.composite
def grammars(draw: st.DrawFn) -> str:
    terminals = draw(st.lists(st.sampled_from(TERMINALS), min_size=1, max_size=4, unique=True))
    names = [line.split(":")[0].split(".")[0] for line in terminals] + ['"!"', '"c"']
    rules = draw(st.lists(st.sampled_from(["start", "r"]), min_size=1, max_size=2, unique=True))
    rules = ["start", *(name for name in rules if name != "start")]
    lines = [
        f"{rule}: {' | '.join(draw(bodies(names + rules[1:])) for _ in range(draw(st.integers(1, 2))))}"
        for rule in rules
    ]
    ignored = draw(st.sampled_from(["", '%ignore " "', "%ignore /c /"]))
    return "\n".join([*lines, *terminals, ignored])
