"""Dispatch against a slow twin, over all short texts: which trigger counts, the text before it, and its constraint."""

from __future__ import annotations

import pickle
import random
import re
from typing import Any

import pytest

import structgen as sg
from structgen.constraints.composition import Special, dispatch, special
from structgen.errors import CombinationError, ConstraintError, EmptyConstraint, LimitExceeded, OptionError

from .small import LETTERS, PLAIN, WITH_SPECIALS, accepted, check_walks, texts, tokenisations


def twin(text: str, triggers: dict[str, str], **options: Any) -> bool:
    """The slow twin: find the first trigger, try every end of its constraint, and continue.

    Forbidden texts are searched in the whole text: no occurrence may contain a character of free text.
    """
    forbidden: tuple[str, ...] = options.get("forbidden", ())
    most = 1 if options.get("stop_after_first") else options.get("max_calls")
    longest = options.get("max_chars", len(text))
    found = [
        (start, start + len(bad))
        for bad in forbidden
        for start in range(len(text))
        if text.startswith(bad, start)
    ]

    def first(start: int) -> tuple[int, str] | None:
        for end in range(start + 1, len(text) + 1):
            ending = [mark for mark in triggers if text[start:end].endswith(mark)]
            if ending:
                return end, max(ending, key=len)
        return None

    def free(start: int, stop: int) -> bool:
        overlap = any(begin < stop and start < end for begin, end in found) and start < stop
        return not overlap and stop - start <= longest

    def reads(start: int, calls: int) -> bool:
        if calls and options.get("stop_after_first"):
            return start == len(text)
        here = first(start)
        if here is None:
            return free(start, len(text)) and (calls > 0 or not options.get("at_least_one"))
        end, mark = here
        if calls == most or not free(start, end - len(mark)):
            return False
        return any(
            re.fullmatch(triggers[mark], text[end:stop]) and reads(stop, calls + 1)
            for stop in range(end, len(text) + 1)
        )

    return reads(0, 0)


CASES: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({"<a>": "b"}, {}),
    ({"<a>": "b+"}, {"at_least_one": True}),
    ({"<a>": "[ab]?"}, {"stop_after_first": True}),
    ({"<a>": ""}, {"stop_after_first": True, "at_least_one": True}),
    ({"<": "a", "<<": "b"}, {}),  # a prefix: the short one ends first
    ({"a": "b", "<a": "a"}, {}),  # a suffix: the long one counts
    ({"aa": "b", "ab": "<"}, {}),
    ({"aa": "a*b"}, {}),  # a border of its own
    ({"aab": "<", "ab": ">", "b": "a"}, {}),
    ({"a<a": "b", "<": "b"}, {}),  # inside, never at the end
    ({"<a>": "b"}, {"forbidden": ("bb", "><", "a<a>a")}),
    ({"<a": "b"}, {"forbidden": ("b<", "aa")}),
    ({"ab": "b", "<b": "a"}, {"forbidden": ("<a",), "at_least_one": True}),
    ({"<": "a"}, {"max_calls": 2}),
    ({"<": "a", "b": ""}, {"max_calls": 1, "at_least_one": True}),
    ({"<": ">*"}, {"max_chars": 1}),
    ({"aa": "b"}, {"max_chars": 2, "forbidden": ("bb",)}),
]  # fmt: skip
BORDERS: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({"<": "a"}, {"forbidden": ("ab",)}),  # always begins in what follows the trigger
    ({"<": "a*b?"}, {"forbidden": ("ab",)}),  # sometimes
    ({"<": "[ab]"}, {"forbidden": ("ab", "ba")}),  # in two ways
    ({"<": "ab?"}, {"forbidden": ("aa", "aba")}),  # one beginning is within another
    ({"<": "b?"}, {"forbidden": ("<a", "<ba")}),  # with the trigger
    ({"<": ""}, {"forbidden": ("<a",)}),
    ({"<a": "b"}, {"forbidden": ("a>",)}),  # not at its end
    ({"a": "b", "<": "b*"}, {"forbidden": ("bb", "<b>")}),
    ({"<": "a"}, {"forbidden": ("a><",)}),  # ends with the next trigger
    ({"<": "a"}, {"forbidden": ("ab",), "max_calls": 2}),
    ({"<": "[ab]"}, {"forbidden": ("ab", "bb"), "at_least_one": True, "max_calls": 2}),
    ({"<": "a?"}, {"forbidden": ("ab",), "at_least_one": True}),
    ({"<": "a"}, {"forbidden": ("ab", "a>"), "max_chars": 1}),
    ({"<": "a"}, {"forbidden": ("ab",), "stop_after_first": True}),
    ({"<<": "a", "<": "b"}, {"forbidden": ("b<<a",)}),
]  # fmt: skip
CASES += BORDERS
"""Forbidden texts that begin in the constraint of a trigger."""


@pytest.mark.parametrize(("triggers", "options"), CASES, ids=repr)
@pytest.mark.parametrize("regular", [True, False])
def test_all_short_texts(triggers: dict[str, str], options: dict[str, Any], regular: bool) -> None:
    """The constraint of a trigger is tried as an expression, and as a grammar that is not known to be regular."""
    made = dispatch({mark: sub(pattern, regular) for mark, pattern in triggers.items()}, **options)
    if (triggers, options) not in BORDERS:
        assert (made.regular() is not None) == regular
    rng = random.Random(repr((triggers, options)))
    inside = 0
    for text in texts(6):
        wanted = twin(text, triggers, **options)
        inside += wanted
        if len(text) < 5 or wanted or rng.random() < 0.05:
            assert accepted(made, PLAIN, letters(text)) == wanted, text
    assert inside
    for _ in range(5):
        assert twin(check_walks(made, PLAIN, rng), triggers, **options)


@pytest.mark.parametrize("seed", range(30))
def test_random_forbidden_texts_never_touch_free_text(seed: int) -> None:
    rng = random.Random(seed)
    marks = rng.sample(["<", "<a", "a<", "b", ">", "<<", "ab"], rng.choice([1, 1, 2]))
    contents = ["a", "b", "a?", "[ab]", "a*", "ab?", "b*a?", "<?", ">a", ""]
    triggers = {mark: rng.choice(contents) for mark in marks}
    forbidden = tuple(
        "".join(rng.choices(LETTERS, k=rng.choice([2, 2, 3]))) for _ in range(rng.choice([1, 2, 3]))
    )
    options = {"forbidden": forbidden} | ({"max_calls": 2} if rng.random() < 0.3 else {})
    try:
        made = dispatch(
            {mark: sub(pattern, rng.random() < 0.7) for mark, pattern in triggers.items()}, **options
        )
    except ConstraintError as error:  # a trigger and a forbidden text exclude each other
        assert "contains" in str(error), error
        return
    for text in rng.sample(texts(5), 250):
        assert accepted(made, PLAIN, letters(text)) == twin(text, triggers, **options), (
            triggers,
            options,
            text,
        )


def test_forbidden_texts_that_begin_in_structured_content() -> None:
    """Exact if the content ends with a fixed text, or cannot end as the forbidden text begins; otherwise refused."""
    value = sg.json_schema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    bytes_ = sg.Vocabulary.of_bytes()

    def fits(constraint: sg.Constraint, text: str) -> bool:
        return accepted(constraint, bytes_, list(text.encode()))

    call = '<call>{"n": 1}'
    closed = sg.dispatch({"<call>": value + "</call>\n"}, forbidden=["\n\n", "</call>\n!"])
    for text, is_right in [("\n", False), ("ok", True), ("!", False), ("ok\n\n", False), (call, True)]:
        rest = "</call>\n" if text == call else ""
        assert fits(closed, f"{call}</call>\n{text}{rest}") == is_right, text
    two_ends = sg.dispatch({"<call>": value + sg.choice(["</call>", "</call>\n"])}, forbidden=["\n\n"])
    assert fits(two_ends, f"{call}</call>\n!") and not fits(two_ends, f"{call}</call>\n\n")
    assert fits(two_ends, f"{call}</call>\n{call}</call>")
    open_ = sg.dispatch({"<call>": value}, forbidden=["1!", "</call>"])  # an object ends with a brace
    assert fits(open_, f"{call}! 1 !") and not fits(open_, f"{call} 1!")
    for content in (value, value + sg.optional("!"), sg.repeat(value, 1, 2), sg.json_schema(True)):
        with pytest.raises(CombinationError) as caught:
            sg.dispatch({"<call>": content}, forbidden=["} end"])
        assert "after '<call>', because a forbidden text may begin there" in str(caught.value)
        assert "with a fixed text" in str(caught.value)
    with pytest.raises(
        CombinationError, match="'a<b' contains the trigger '<', whose constraint may begin with 'b'"
    ):
        sg.dispatch({"<": sg.regex("[ab]>")}, forbidden=["a<b"])
    assert sg.dispatch({"<": sg.regex("[ac]>")}, forbidden=["a<b"])


def test_a_nested_dispatch_has_no_border_inside() -> None:
    inner = sg.dispatch({"<": sg.regex("a")}, forbidden=["ab"])
    outer = sg.dispatch({">": inner + ">"}, forbidden=["> "])
    bytes_ = sg.Vocabulary.of_bytes()
    for text, is_right in [
        ("><a>", True),
        ("><ab>", False),
        ("><a b>x", True),
        ("><a> ", False),
        ("> >a", True),
    ]:
        assert accepted(outer, bytes_, list(text.encode())) == is_right, text
    assert pickle.loads(pickle.dumps(inner)) == inner


def letters(text: str) -> list[int]:
    return [4 + LETTERS.index(letter) for letter in text]


def sub(pattern: str, regular: bool) -> Any:
    if regular:
        return sg.regex(pattern)
    # The same language with a rule that is recursive in its middle, which no text uses.
    return sg.gbnf(f'root ::= {gbnf_of(pattern)} | never\nnever ::= "~" never "~" | "~"')


def gbnf_of(pattern: str) -> str:
    """Return the cases above with patterns as grammars, letter by letter."""
    if not pattern:
        return '""'
    return " ".join(
        f'"{piece[0]}"{piece[1:]}' if piece[0] != "[" else piece
        for piece in re.findall(r"(?:\[\w+\]|[ab<>])[*+?]?", pattern)
    )


@pytest.mark.parametrize(("triggers", "options"), CASES)
def test_triggers_that_are_special_tokens(triggers: dict[str, str], options: dict[str, Any]) -> None:
    """The texts are the same with and without the tokens; if the tokenizer has them, only they are triggers."""
    marks: list[str | Special] = [
        special(mark) if mark in WITH_SPECIALS.specials or mark == "<" else mark for mark in triggers
    ]
    made = dispatch(dict(zip(marks, map(sg.regex, triggers.values()), strict=True)), **options)
    rng = random.Random(repr((triggers, options)))
    for text in texts(4) + rng.sample(texts(6), 60):
        wanted = twin(text, triggers, **options)
        assert accepted(made, PLAIN, letters(text)) == wanted, text
        spellings = tokenisations(WITH_SPECIALS, text, specials=True)
        assert any(accepted(made, WITH_SPECIALS, ids) for ids in spellings) == wanted, text
    for _ in range(5):
        assert twin(check_walks(made, WITH_SPECIALS, rng), triggers, **options)


def test_what_follows_may_be_a_schema_and_a_trigger_may_lie_inside_a_token() -> None:
    schema = sg.json_schema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    made = dispatch({"<call>": schema + "</call>"}, at_least_one=True)
    vocabulary = sg.Vocabulary.from_tokens(
        [*(bytes([byte]) for byte in range(256)), b"go <cal", b'l>{"n', b"}</call> an", b"> <call", None],
        [260],
    )
    ids = [256, 257, *b'":1', 258, *b"d"]
    assert vocabulary.decode(ids) == b'go <call>{"n":1}</call> and'
    assert accepted(made, vocabulary, ids)
    matcher = sg.Matcher(made, vocabulary)
    assert matcher.viable_bytes("go <call>x") == 9
    assert not accepted(made, vocabulary, list(b"no call"))


def test_compositions_inside_compositions_are_one_grammar() -> None:
    inner = dispatch({"<": sg.json_schema(True)}, stop_after_first=True, at_least_one=True)
    outer = dispatch({"a": inner})
    assert outer.lower()[0] == "grammar"
    kinds = [terminal[0] for terminal in outer.lower()[1]["terminals"]]
    assert kinds.count("constraint") == 1
    assert accepted(outer, sg.Vocabulary.from_tokens([bytes([i]) for i in range(128)], [0]), list(b"ab<[1]b"))


def test_mistakes() -> None:
    with pytest.raises(ConstraintError, match="needs at least one trigger"):
        dispatch({})
    with pytest.raises(ConstraintError, match="needs a mapping from triggers to constraints, not a list"):
        dispatch(["a"])  # type: ignore[arg-type]
    with pytest.raises(ConstraintError, match="cannot search for the empty text"):
        dispatch({"": "a"})
    with pytest.raises(ConstraintError, match="needs texts, not 5, an int"):
        dispatch({5: "a"})  # type: ignore[dict-item]
    with pytest.raises(ConstraintError, match="contains a forbidden text, 'al', so it can never occur"):
        dispatch({"<call>": "a"}, forbidden="al")
    with pytest.raises(ConstraintError, match="is given both as a text and as a special token") as caught:
        dispatch({"<a>": "a", special("<a>"): "b"})
    assert "special() alone" in str(caught.value)
    with pytest.raises(OptionError, match="max_calls=0 is not allowed"):
        dispatch({"a": "b"}, max_calls=0)
    with pytest.raises(OptionError, match="max_chars is -1"):
        dispatch({"a": "b"}, max_chars=-1)
    with pytest.raises(LimitExceeded, match="257 triggers"):
        dispatch({f"<{i}>": "" for i in range(257)})
    with pytest.raises(EmptyConstraint):
        sg.Matcher(dispatch({"<": sg.regex("a") & sg.regex("b")}, at_least_one=True), PLAIN)


@pytest.mark.parametrize(
    ("text", "keyword", "message"),
    [
        ("a bad", "forbidden", "the free text must not contain 'bad'"),
        ("a <end>", "forbidden", "the free text must not contain '<end>'"),
        ("twelve chars or more", "max_chars", "the free text must have at most 12 characters in one stretch"),
        ("<n>1</n><n>1</n><n>", "max_calls", "the free text must have at most 2 triggers"),
        ("<n>44</n>", "maximum", "while reading: after '<n>'"),
        ("<n>2<bad", None, "while reading: '</n>', after '<n>'"),
    ],
)
def test_explanations_name_triggers_and_options(text: str, keyword: str | None, message: str) -> None:
    constraint = sg.dispatch(
        {"<n>": sg.json_schema({"type": "integer", "maximum": 3}) + "</n>"},
        forbidden=["bad", "<end>"],
        max_calls=2,
        max_chars=12,
    )
    found = sg.Matcher(constraint, sg.Vocabulary.of_bytes()).explain(text)
    assert [rule.keyword for rule in found.rules] == ([] if keyword is None else [keyword])
    assert message in str(found)
    assert pickle.loads(pickle.dumps(constraint)) == constraint
