"""The exception tree: drawn as it is, picklable, and readable."""

from __future__ import annotations

import pickle
import re

import pytest

from structgen import errors
from structgen.errors import LimitExceeded, Stopped

PUBLIC = [getattr(errors, name) for name in errors.__all__]
ALL = [one for one in PUBLIC if isinstance(one, type) and issubclass(one, errors.StructgenError)]


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    assert errors.__doc__ is not None
    drawn: dict[str, str] = {}
    parents: list[str] = []
    for line in errors.__doc__.splitlines():
        found = re.match(r"    ([│├└─ ]*)([A-Z]\w+)", line)
        if found:
            depth = len(found[1]) // 4
            del parents[depth:]
            drawn[found[2]] = parents[-1] if parents else "Exception"
            parents.append(found[2])
    assert drawn == {error.__name__: error.__bases__[0].__name__ for error in ALL}


@pytest.mark.parametrize("error", ALL)
def test_errors_survive_pickling(error: type[errors.StructgenError]) -> None:
    original = error("what happened", hint="What to do.")
    copy = pickle.loads(pickle.dumps(original))
    assert type(copy) is error
    assert str(copy) == str(original)
    assert str(original).endswith("What to do.")
    assert "what happened" in str(original)


@pytest.mark.parametrize("error", ALL)
def test_every_error_says_what_it_is(error: type[errors.StructgenError]) -> None:
    assert error.__doc__


def test_schema_errors_begin_with_the_pointer() -> None:
    assert str(errors.SchemaInvalid("must be a number", pointer="#/a")) == "#/a: must be a number"


@pytest.mark.parametrize(
    ("text", "start", "end", "expected"),
    [
        ("abc", 1, None, "    abc\n     ^"),
        ("abc", 1, 3, "    abc\n     ^^"),
        ("abc", 3, None, "    abc\n       ^"),
        ("", 0, None, "    \n    ^"),
        ("ab\ncd\nef", 4, None, "    cd\n     ^"),
        ("ab\ncd", 1, 5, "    ab\n     ^"),
        ("a\tb\x00c", 4, None, "    a\\tb\\x00c\n            ^"),
        ("a\nb", 1, None, "    a\n     ^"),
    ],
)
def test_places_are_shown(text: str, start: int, end: int | None, expected: str) -> None:
    assert errors.show_place(text, start, end) == expected


def test_long_lines_are_cut_around_the_place() -> None:
    shown = errors.show_place("x" * 1000 + "!" + "y" * 1000, 1000)
    line, caret = shown.splitlines()
    assert line[caret.index("^")] == "!"
    assert line.startswith("    ...")
    assert line.endswith("...")
    assert len(line) < 90


def test_wrong_arguments_in_words() -> None:
    assert [errors.a_kind(value) for value in (None, 5, "x", [])] == ["None", "an int", "a str", "a list"]
    assert [errors.with_kind(value) for value in (None, 5)] == ["None", "5, an int"]


def test_messages_name_their_limit() -> None:
    named = LimitExceeded("groups are nested more than 200 deep", limit="pattern_depth", hint="Flatten it.")
    assert str(named) == "groups are nested more than 200 deep (limit pattern_depth)\nFlatten it."
    assert pickle.loads(pickle.dumps(named)).limit == "pattern_depth"
    of_core = LimitExceeded("too much (limit call_steps)")
    assert (of_core.limit, str(of_core)) == ("call_steps", "too much (limit call_steps)")


def test_errors_of_the_core_are_kinds_of_ours() -> None:
    from structgen import _core

    assert issubclass(_core.LimitError, LimitExceeded) and issubclass(_core.Stopped, Stopped)
    with pytest.raises(LimitExceeded) as caught:
        _core.RegexSpace(max_nodes=100).compile(("literals", tuple(f"{i * 7919}" for i in range(200))))
    assert caught.value.limit == "regex_nodes"
