"""Items of servers, with the traps that real ones set, to names."""

from __future__ import annotations

from typing import Any

import pytest

from structgen.monitors.language_server.analysis import Completion
from structgen.monitors.language_server.completions import Knowledge, read_completions, word_start


def read(text: str, *items: dict[str, Any]) -> list[Completion]:
    found = read_completions({"items": list(items)}, text, len(text), "utf-16", Knowledge())
    assert found is not None
    return list(found.items)


def edit(text: str, start: int, end: int, line: int = 0) -> dict[str, Any]:
    first, last = {"line": line, "character": start}, {"line": line, "character": end}
    return {"newText": text, "range": {"start": first, "end": last}}


@pytest.mark.parametrize(
    ("text", "item", "name", "suffix"),
    [
        ("x.", {"label": "plain"}, "plain", ""),
        ("x.pl", {"label": "plain"}, "plain", ""),
        ("x.", {"label": "foo(x, y)"}, "foo", "(x, y)"),
        ("x.", {"label": "foo(x, y)", "insertText": "foo"}, "foo", ""),
        ("x.", {"label": "foo…", "textEdit": edit("food", 2, 2)}, "food", ""),
        ("x.fo", {"label": "foo", "textEdit": edit("foo", 2, 4)}, "foo", ""),
        ("x.fo", {"label": "foo", "textEdit": edit("o", 4, 4)}, "foo", ""),
        ("x.fo", {"label": "foo", "textEdit": edit("x.foo", 0, 4)}, "foo", ""),
        ("😀.fo", {"label": "foo", "textEdit": edit("foo", 3, 5)}, "foo", ""),
        ("f(", {"label": "key="}, "key", "="),
        ("x.", {"label": "f", "insertText": "foo(${1:a})$0", "insertTextFormat": 2}, "foo", "("),
        ("x.", {"label": "$el", "insertText": "\\$el", "insertTextFormat": 2}, "$el", ""),
        ("this.", {"label": "#hash", "filterText": "hash"}, "#hash", ""),
        ("this.#h", {"label": "#hash"}, "#hash", ""),
        ("x.", {"label": "ünï"}, "ünï", ""),
    ],
)
def test_names_are_the_text_to_type(text: str, item: dict[str, Any], name: str, suffix: str) -> None:
    (found,) = read(text, item)
    assert (found.name, found.suffix) == (name, suffix)


def test_a_change_of_the_text_before_is_marked() -> None:
    item = {"label": "foo", "filterText": ".foo", "insertText": "?.foo", "textEdit": edit("?.foo", 1, 2)}
    (found,) = read("x.", item)
    assert found.name == "foo" and found.changes_before


@pytest.mark.parametrize(
    "item",
    [
        {"label": "a b", "textEdit": edit('["a b"]', 1, 2)},
        {"label": "Symbol", "textEdit": edit("[Symbol]", 1, 2)},
        {"label": "+"},
        {"label": '"quoted"'},
        {"label": "1st"},
    ],
)
def test_items_that_further_typing_cannot_reach_are_dropped(item: dict[str, Any]) -> None:
    assert [found.name for found in read("x.", item, {"label": "ok"})] == ["ok"]


def test_imports_are_marked_and_lose_against_the_same_name_without() -> None:
    edits = [edit("import a\n", 0, 0)]
    found = read(
        "n",
        {"label": "name", "additionalTextEdits": edits},
        {"label": "name"},
        {"label": "new", "data": {"autoImport": {}}},
    )
    assert [(item.name, item.adds_import) for item in found] == [("name", False), ("new", True)]


def test_names_that_do_not_extend_what_is_typed_are_left_out() -> None:
    assert [item.name for item in read("x.fo", {"label": "foo"}, {"label": "bar"}, {"label": "Foo"})] == [
        "foo"
    ]


def test_kinds_have_the_names_of_the_protocol() -> None:
    found = read("x", *({"label": f"x{kind}", "kind": kind} for kind in (1, 2, 14, 20, 25, 26, "no")))
    kinds = [item.kind for item in found]
    assert kinds == ["text", "method", "keyword", "enum member", "type parameter", "text", "text"]
    assert read("x", {"label": "x", "tags": [1]})[0].is_deprecated


def test_names_without_keywords_and_changes() -> None:
    result = [
        {"label": "a"},
        {"label": "b", "kind": 14},
        {"label": "c", "additionalTextEdits": [edit("", 0, 0)]},
    ]
    found = read_completions(result, "", 0, "utf-8", Knowledge())
    assert found is not None and found.names() == {"a"}


def test_without_known_members_there_is_no_list() -> None:
    ty = Knowledge(nothing_known=frozenset({"__eq__", "__doc__"}))
    every = [{"label": "__eq__"}, {"label": "__doc__"}]
    assert read_completions(None, "x.", 2, "utf-8", ty) is None
    assert read_completions([], "x.", 2, "utf-8", ty) is None
    assert read_completions(every, "x.", 2, "utf-8", ty) is None
    assert read_completions(every, "x", 1, "utf-8", ty) is not None  # not a member
    assert read_completions([*every, {"label": "more"}], "x.", 2, "utf-8", ty) is not None
    assert read_completions([{"label": "if", "kind": 14}], "1.", 2, "utf-8", ty) is None
    words = [{"label": "word", "kind": 1}]
    assert read_completions(words, "x.", 2, "utf-8", Knowledge(text_is_noise=True)) is None
    # every global name, which would replace what is before
    assert read_completions([{"label": "Any", "textEdit": edit("Any", 0, 2)}], "1.", 2, "utf-8", ty) is None


def test_a_known_receiver_without_such_a_member_has_no_items() -> None:
    found = read_completions([{"label": "foo"}], "x.q", 3, "utf-8", Knowledge())
    assert found is not None and found.items == () and found.prefix == "q"


@pytest.mark.parametrize(("full_below", "expected"), [(None, True), (3, False), (2, True)])
def test_the_incomplete_flag_counts_only_where_a_server_uses_it(
    full_below: int | None, expected: bool
) -> None:
    items = {"isIncomplete": True, "items": [{"label": "a"}, {"label": "b"}]}
    found = read_completions(items, "x.", 2, "utf-8", Knowledge(full_below=full_below))
    assert found is not None and found.is_incomplete is expected


@pytest.mark.parametrize("result", [42, "text", {"items": 5}, {}, [5], [{"kind": 2}], [{"label": 5}]])
def test_invalid_results_raise_the_error_that_the_client_expects(result: Any) -> None:
    with pytest.raises((TypeError, ValueError, KeyError, AttributeError)):
        read_completions(result, "x.", 2, "utf-8", Knowledge())


@pytest.mark.parametrize(
    ("text", "start"),
    [("", 0), ("ab", 0), ("x.ab", 2), ("x. ", 3), ("a\nbc", 2), ("this.#ab", 5), ("# ab", 2), ("x$", 0)],
)
def test_the_start_of_a_word(text: str, start: int) -> None:
    assert word_start(text, len(text)) == start
