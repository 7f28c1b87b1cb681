"""What monitors may answer, how long they may take, and what is counted."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import structgen as sg
from structgen.errors import CombinationError, OptionError
from structgen.matcher import open_matcher
from structgen.models.memory import DistributionModel
from structgen.monitors import Context, Monitor, MonitorReport, Names, Trigger, after, judge, monitored

from .worlds import TOKENS, Members, next_probabilities, vocabulary

BYTES = sg.Vocabulary.of_bytes()


def read(constraint: Any, text: str) -> str:
    """Return the longest prefix of the text that the constraint accepts byte by byte."""
    matcher = open_matcher(constraint, BYTES)
    data = text.encode()
    return data[: matcher.accepts(list(data))].decode()


def is_whole(constraint: Any, text: str) -> bool:
    """Return whether the constraint accepts the whole text as complete."""
    matcher = open_matcher(constraint, BYTES)
    return all(matcher.advance(byte) for byte in text.encode()) and matcher.is_complete()


def test_a_function_is_called_after_a_pattern() -> None:
    statuses = ["open", "closed"]
    asked: list[Context] = []

    def suggest(context: Context) -> list[str]:
        asked.append(context)
        return statuses

    ticket = monitored(sg.regex(r"id: \d+\nstatus: \w+\n"), after(r"status: ", suggest), before="# ticket\n")
    assert is_whole(ticket, "id: 7\nstatus: closed\n")
    assert read(ticket, "id: 7\nstatus: opening\n") == "id: 7\nstatus: open"
    assert asked[0].text == "# ticket\nid: 7\nstatus: "
    assert asked[0].generated == len("id: 7\nstatus: ")
    statuses.append("stuck")
    assert not is_whole(ticket, "id: 7\nstatus: stuck\n"), "the answer for the same text is kept"
    live = monitored(ticket.constraint, after(r"status: ", suggest, keeps=False))
    assert is_whole(live, "id: 7\nstatus: stuck\n")


def test_a_constraint_and_a_refusal_are_suggestions() -> None:
    amount = monitored(None, after(r"amount: ", lambda context: sg.regex(r"[1-9]\d?(\n.*)?")))
    assert is_whole(amount, "amount: 12\nnothing")
    assert read(amount, "amount: 123") == "amount: 12"
    assert read(amount, "amount: 012") == "amount: "
    never = monitored(None, after(r"rm -rf", lambda context: False))
    assert read(never, "rm -r; rm -rf /") == "rm -r; rm -r"


def test_triggers_in_strings_and_comments_count_only_on_request() -> None:
    def ask(context: Context) -> list[str]:
        return ["a"]

    code = monitored(None, after("@", ask), language="python")
    assert read(code, "'@b' # @c\n@d") == "'@b' # @c\n@"
    all_of_it = monitored(None, after(Trigger("@", everywhere=True), ask), language="python")
    assert read(all_of_it, "'@b'") == "'@"


def test_suggestions_of_several_monitors_are_intersected() -> None:
    one = after(r"x: ", lambda context: ["ab", "abc", "b"], name="one")
    other = after(r"x: ", lambda context: ["abc", "b", "c"], name="other")
    both = monitored(sg.regex(r"x: (a|b|c)+"), [one, other])
    assert {text for text in ("ab", "abc", "b", "c", "a", "bc") if is_whole(both, "x: " + text)} == {
        "abc",
        "b",
    }


def test_a_document_may_end_where_a_monitor_is_queried() -> None:
    for before, right in [("x.", ["a", "ab"]), ("x.a", ["", "b"]), ("y", [".b"])]:
        constraint = monitored(None, Members(), language="python", before=before)
        found = [
            text for text in ["", "a", "ab", "b", "abc", ".b", ".a", "c"] if is_whole(constraint, text + "\n")
        ]
        assert found == [
            one
            for one in ["", "a", "ab", "b", "abc", ".b", ".a", "c"]
            if one in right or one == "" and before == "y" or before == "y" and one[0:1] != "."
        ]


def test_a_late_answer_leaves_the_text_unconstrained() -> None:
    never: Future[Any] = Future()
    constraint = monitored(None, after("x", lambda context: never), patience=0.01, warm_up=0.02)
    matcher = open_matcher(constraint, BYTES)
    matcher.advance(ord("x"))
    assert matcher.is_waiting
    assert matcher.forced() == []
    assert matcher.accepts(list(b"anything")) == 8
    report = matcher.report
    assert (report.triggers, report.unknown, report.timeouts) == (1, 1, 1)
    assert never.cancelled()


def test_a_first_answer_may_take_longer() -> None:
    pool = ThreadPoolExecutor(1)

    def slow(context: Context) -> Future[Any]:
        return pool.submit(lambda: time.sleep(0.2) or ["ab"])

    matcher = open_matcher(monitored(None, after("x", slow), patience=0.0, warm_up=600.0), BYTES)
    matcher.advance(ord("x"))
    assert not matcher.accepts([ord("c")])
    assert matcher.report.timeouts == 0


@pytest.mark.parametrize("later", [False, True])
def test_a_failure_leaves_the_text_unconstrained_and_is_counted(later: bool) -> None:
    def fail(context: Context) -> Any:
        if not later:
            raise RuntimeError("out of order")
        future: Future[Any] = Future()
        future.set_exception(RuntimeError("out of order"))
        return future

    matcher = open_matcher(monitored(None, after("x", fail)), BYTES)
    assert matcher.accepts(list(b"xy")) == 2
    assert matcher.report.failures == 1
    assert matcher.report.causes == {"RuntimeError: out of order": 1}
    assert "failures 1" in str(matcher.report)


def test_an_invalid_suggestion_is_an_error() -> None:
    for answer in (7, "name", b"name", [1, 2]):
        matcher = open_matcher(monitored(None, after("x", lambda context, answer=answer: answer)), BYTES)
        with pytest.raises(OptionError, match="suggested"):
            matcher.accepts(list(b"xy"))
    with pytest.raises(OptionError, match="no regular language"):
        open_matcher(monitored(None, after("x", lambda context: sg.json_schema({}))), BYTES).accepts(
            list(b"xy")
        )


def test_monitors_answer_during_the_forward_pass() -> None:
    """The query is sent when a token is drawn; the matcher waits for its answer when it draws the next one."""
    waiting = threading.Event()
    order: list[str] = []

    class Slow(Members):
        def suggest(self, context: Context) -> Any:
            order.append("asked")
            future: Future[Any] = Future()

            def answer() -> None:
                waiting.wait(600)
                order.append("answered")
                future.set_result(["b"])

            threading.Thread(target=answer).start()
            return future

    def distribution(tokens: Any) -> Any:
        if TOKENS[tokens[-1]] == b"x." if tokens else False:
            order.append("read")
            waiting.set()
        return next_probabilities(tokens)

    model = DistributionModel(vocabulary(), distribution)
    within = sg.regex(r"x\.[abc]")
    result = sg.run(model, "", monitored(within, Slow(), language="python"), seed=1, speculate=False)
    assert result.text == "x.b"
    if TOKENS[result.tokens[0]] == b"x.":
        assert order[:3] == ["asked", "read", "answered"]


def test_the_state_of_a_monitor_follows_the_text() -> None:
    class Once(Monitor):
        """Suggests no name twice."""

        def __init__(self) -> None:
            super().__init__("once", ("member",), state=frozenset())

        def suggest(self, context: Context) -> Any:
            return Names(context.state, excluded=True)

        def committed(self, context: Context, name: str) -> Any:
            return context.state | {name}

    constraint = monitored(None, Once(), language="python")
    matcher = open_matcher(constraint, BYTES)
    assert matcher.accepts(list(b"x.a x.b x.c")) == 11
    assert read(constraint, "x.a x.b x.a ") == "x.a x.b x.a"
    for byte in b"x.a x.b ":
        assert matcher.advance(byte)
    matcher.rollback(4)
    other = matcher.fork()
    assert other.accepts(list(b"x.b ")) == 4
    assert matcher.accepts(list(b"x.a ")) == 3


def test_a_finished_text_is_judged_and_written_again() -> None:
    model = DistributionModel(vocabulary(), lambda tokens: next_probabilities(tokens))
    seen: list[str] = []

    def check(text: str) -> Any:
        seen.append(text)
        place = text.find("a")
        return None if place < 0 else [(place, "there is an a")]

    for seed in range(12):
        seen.clear()
        constraint = monitored(sg.regex(r"[xy.]{3}[abc]{3}"), judge(check), repairs=50)
        for speculate in (False, True):
            result = sg.run(model, "", constraint, seed=seed, speculate=speculate)
            assert result.text == seen[-1]
            assert "a" not in result.text
            assert result.monitors.left == ()
    none = monitored(sg.regex(r"a+"), judge(check), repairs=3)
    result = sg.run(model, "", none, seed=1, max_tokens=5)
    assert result.finish != "complete" or result.monitors.left == ("there is an a",)


def test_in_fallback_mode_monitors_are_queried_from_the_first_fault_on() -> None:
    model = DistributionModel(vocabulary(), lambda tokens: next_probabilities(tokens))

    def check(text: str) -> Any:
        place = next((place for place in range(len(text)) if text[place : place + 2] == ".c"), None)
        return None if place is None else [(place + 1, "no such member")]

    class Watching(Members):
        def suggest(self, context: Context) -> Any:
            super().suggest(context)
            return ["a"]

    asked = faultless = 0
    for seed in range(40):
        watching = Watching()
        constraint = monitored(
            sg.regex(r"([xy]\.[abc] ){2}"), [watching, judge(check)], language="python", mode="fallback"
        )
        result = sg.run(model, "", constraint, seed=seed)
        assert (result.monitors.rewritten > 0) == (result.monitors.faults > 0)
        if result.monitors.faults:
            asked += bool(watching.asked)
            assert check(result.text) is None
        else:
            faultless += 1
            assert not watching.asked
    assert asked > 5 and faultless > 2


@pytest.mark.parametrize("faults", [5, "a message", [5], [("a", "m")], [(1.5, "m")], [(True, "m")]])
@pytest.mark.parametrize("later", [False, True])
def test_an_invalid_fault_is_an_error_or_a_failure(faults: Any, later: bool) -> None:
    class Odd(Monitor):
        def faults(self, context: Context) -> Any:
            return _done(faults) if later else faults

    matcher = open_matcher(monitored(None, Odd()), BYTES)
    matcher.advance(ord("x"))
    try:
        assert matcher.first_fault() is None
        assert matcher.report.unchecked and matcher.report.failures == 1
    except OptionError as error:
        assert "fault" in str(error)


def _done(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future


def test_a_wait_may_be_unbounded() -> None:
    endless = monitored(
        None, after("x", lambda context: _done(["a"])), patience=float("inf"), judging=float("inf")
    )
    assert read(endless, "xb") == "x"


@pytest.mark.parametrize(
    ("within", "right", "said"),
    [
        (r"SELECT [abc] FROM t;", "SELECT b FROM t;", "wrong column"),
        (r"SELECT (aa|ab|bb) FROM t;", "SELECT bb FROM t;", False),
    ],
)
def test_a_fault_without_a_place_is_repaired_after_forced_text(within: str, right: str, said: Any) -> None:
    """The last token that was drawn there is not drawn again."""
    tokens = [bytes([one]) for one in range(256)]
    words = sg.Vocabulary.from_tokens([*tokens, None], eos_ids=[256])
    model = DistributionModel(words, lambda tokens: [1 / 257] * 257)
    for seed in range(20):
        constraint = monitored(sg.regex(within), judge(lambda text: True if text == right else said))
        result = sg.run(model, "", constraint, seed=seed)
        assert result.text == right
        assert result.monitors.left == ()


def test_a_text_that_cannot_be_repaired_is_returned_with_its_faults() -> None:
    model = DistributionModel(vocabulary(), lambda tokens: next_probabilities(tokens))
    for repairs in (0, 2, 8):
        constraint = monitored(sg.choice(["xa", "bc"]), judge(lambda text: False), repairs=repairs)
        for seed in range(10):
            result = sg.run(model, "", constraint, seed=seed)
            assert result.text in ("xa", "bc")
            assert result.monitors.left == ("judge refused it",)
            assert not result.monitors.unchecked


def test_beams_are_judged() -> None:
    model = DistributionModel(vocabulary(), lambda tokens: next_probabilities(tokens))
    for repairs in (0, 8):
        constraint = monitored(
            sg.choice(["xa", "xb", "yb"]), judge(lambda text: text != "xb"), repairs=repairs
        )
        assert {one.text for one in sg.inference.beam(model, "", constraint, width=4)} == {"xa", "yb"}
        drawn = sg.sample(model, "", constraint, n=10, seed=1)
        assert {model.decode(one.tokens) for one in drawn.draws} <= {"xa", "yb"}


@pytest.mark.parametrize(
    ("pattern", "places"),
    [
        (r"^go ", []),
        (r"\bgo ", [7, 11]),
        (r"(?<!\w)go ", [7, 11]),
        (r"(^|\n)go ", [11]),
        (r"(?i)GO ", [4, 7, 11]),
        (r"(?m)^go ", [11]),
    ],
)
def test_triggers_see_what_stands_before_them(pattern: str, places: list[int]) -> None:
    found: list[int] = []
    watching = after(pattern, lambda context: found.append(len(context.text)))
    assert read(monitored(None, watching), "xgo go \ngo x") == "xgo go \ngo x"
    assert found == places


@pytest.mark.parametrize("close_within_budget", [False, True])
def test_texts_close_within_their_budget(close_within_budget: bool) -> None:
    model = DistributionModel(vocabulary(), lambda tokens: next_probabilities(tokens))
    long = Members({"x": ["abc"]})
    for within, before in [
        (sg.regex(r"x\.[abc]+\n"), ""),
        (sg.lark('start: "x." /[abc]+/ "\\n"'), ""),
        (sg.lark('start: /[abc]+/ "\\n"'), "x."),
        (sg.lark('start: /[xy]/ "." /[abc]+/ "\\n" | "a" ("b"|"c")*'), ""),
    ]:
        texts = []
        for seed in range(20):
            constraint = monitored(within, long, language="python", before=before)
            result = sg.run(
                model, "", constraint, seed=seed, max_tokens=12, close_within_budget=close_within_budget
            )
            texts.append(result.text)
            assert result.finish == "complete" or not close_within_budget
        assert any(text.endswith("abc\n") for text in texts)


def test_options_are_checked() -> None:
    for options in (
        {"crossing": "maybe"},
        {"mode": "never"},
        {"mode": "fallback"},
        {"patience": -1},
        {"repairs": 1.5},
        {"language": "cobol"},
        {"before": 5},
        {"before": "\ud800"},
        {"after": None},
        {"path": 5},
    ):
        with pytest.raises(OptionError):
            monitored(None, Members(), **options)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="trigger"):
        monitored(None, Monitor("m", ("nowhere",)))
    with pytest.raises(OptionError, match="monitors holds"):
        monitored(None, ["members"])  # type: ignore[list-item]
    constraint = monitored(None, Members())
    with pytest.raises(CombinationError):
        sg.Matcher(constraint, BYTES)
    with pytest.raises(CombinationError):
        monitored(constraint, Members())
    assert "members" in repr(constraint)
    for both in (constraint & sg.regex("x+"), sg.regex("x+") & constraint):
        assert is_whole(both, "xx")
        assert not is_whole(both, "y")
    for wrong in (5, ["x", 5]):
        with pytest.raises(OptionError):
            after(wrong, lambda context: None)  # type: ignore[arg-type]
    for monitors in (5, "members", None):
        with pytest.raises(OptionError):
            monitored(None, monitors)  # type: ignore[arg-type]
    with pytest.raises(OptionError):
        monitored(None, Monitor("m", "member"))
    with pytest.raises(OptionError):
        Names(None)  # type: ignore[arg-type]
    assert str(MonitorReport()) == ""
