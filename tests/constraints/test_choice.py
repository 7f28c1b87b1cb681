"""`choice`: one of these texts."""

from __future__ import annotations

import pytest

from structgen._core._native import RegexSpace
from structgen.constraints.choice import choice
from structgen.errors import ConstraintError, EmptyConstraint


def test_the_language_is_the_texts() -> None:
    texts = ["yes", "no", "", "nö", "yes!"]
    space = RegexSpace()
    state = space.compile(choice(texts).regular())
    for text in texts:
        assert space.matches(state, text.encode())
    for text in ["y", "yesno", "n", "yes!!"]:
        assert not space.matches(state, text.encode())


def test_a_text_given_twice_counts_once() -> None:
    assert choice(["a", "b", "a"]).texts == ("a", "b")
    assert choice(["a", "b", "a"]) == choice(["a", "b"])
    assert hash(choice(["a", "b", "a"])) == hash(choice(iter(["a", "b"])))


def test_it_lowers_to_literals() -> None:
    assert choice(["a", "bc"]).lower() == ("regex", ("literals", ("a", "bc")))


def test_nothing_to_choose_from() -> None:
    with pytest.raises(EmptyConstraint, match="at least one text"):
        choice([])


def test_a_single_string_is_not_a_list() -> None:
    with pytest.raises(ConstraintError, match=r"write choice\(\['yes'\]\)"):
        choice("yes")


@pytest.mark.parametrize("item", [1, None, b"a", ["a"]])
def test_items_must_be_texts(item: object) -> None:
    with pytest.raises(ConstraintError) as caught:
        choice(["a", item])  # type: ignore[list-item]
    assert caught.value.where == "item 1"
    assert (type(item).__name__ if item is not None else "not None\n") in str(caught.value)


def test_it_must_be_iterable() -> None:
    with pytest.raises(ConstraintError, match="not an int"):
        choice(3)  # type: ignore[arg-type]


def test_lone_surrogates_cannot_be_spelled() -> None:
    with pytest.raises(ConstraintError, match="lone surrogate"):
        choice(["\ud800"])


def test_it_describes_itself() -> None:
    assert choice(["a", "b"]).describe() == "one of 'a', 'b'"
    assert choice(list("abcdef")).describe() == "one of 'a', 'b', 'c', 'd' and 2 more"
    assert repr(choice(["a"])) == "choice(['a'])"


def test_many_texts() -> None:
    texts = [f"item-{number:06}" for number in range(50_000)]
    space = RegexSpace()
    state = space.compile(choice(texts).regular())
    assert space.matches(state, b"item-049999")
    assert not space.matches(state, b"item-050000")
