"""Random patterns of Python's `re`, small enough that short texts decide much about them, and such texts."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

_SETS = st.sampled_from([r"\d", r"\w", r"\s", r"\D", r"\W", r"\S"])
_MEMBERS = st.lists(
    st.sampled_from(["a", "b", "1", "_", "a-b", r"\d", r"\w", r"\n", "0-9"]), min_size=1, max_size=3
)
_CLASSES = st.builds("[{}{}]".format, st.sampled_from(["", "^"]), _MEMBERS.map("".join))
_ANCHORS = st.sampled_from(["^", "$", r"\b", r"\B", r"\A", r"\Z"])
_QUANTIFIERS = st.sampled_from(
    ["*", "+", "?", "{2}", "{1,2}", "{0,1}", "{,2}", "{2,}", "*?", "+?", "??", "{,}"]
)
_OPENERS = st.sampled_from(["(", "(?:", "(?=", "(?!", "(?i:", "(?s:", "(?m:", "(?-i:", "(?a:"])
# `re` allows only look-behind of fixed width.
_BEHIND = st.builds(
    "{}{})".format,
    st.sampled_from(["(?<=", "(?<!"]),
    st.lists(st.sampled_from(["a", "b", ".", r"\w", "[ab]"]), max_size=2).map("".join),
)

texts: SearchStrategy[str] = st.text("ab1_ \nAé", max_size=7)


@st.composite
def patterns(draw: DrawFn, depth: int = 2, looks: bool = True) -> str:
    """A pattern; without `looks` it has no anchors and looks at nothing around it."""
    branches = draw(st.integers(1, 3)) if draw(st.booleans()) else 1
    return "|".join(draw(st.lists(_pieces(depth, looks), max_size=3).map("".join)) for _ in range(branches))


@st.composite
def _pieces(draw: DrawFn, depth: int, looks: bool) -> str:
    kind = draw(st.integers(0, 9))
    if kind < 4 or (depth == 0 and kind > 7):
        atom = draw(st.sampled_from("ab1_ "))
    elif kind == 4:
        atom = "."
    elif kind == 5:
        atom = draw(_SETS)
    elif kind == 6:
        atom = draw(_CLASSES)
    elif kind == 7:
        if looks:
            return draw(_ANCHORS)
        atom = "b"
    elif kind == 8 and looks and draw(st.booleans()):
        atom = draw(_BEHIND)
    else:
        opener = draw(_OPENERS) if looks else "(?:"
        atom = opener + draw(patterns(depth - 1, looks)) + ")"
    return atom + (draw(_QUANTIFIERS) if draw(st.integers(0, 2)) == 0 else "")
