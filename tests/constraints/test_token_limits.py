"""Parts with limited tokens, compared with an enumeration of all tokenizations over small vocabularies."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

import structgen as sg
from structgen.constraints.expressions import literal
from structgen.constraints.grammar.constraint import GrammarConstraint
from structgen.errors import CombinationError, GrammarUnsupported, LimitExceeded, OptionError
from structgen.ir.grammar import Body, Grammar, Rule
from structgen.vocabulary import Vocabulary

# ---- the oracle: where a form may end, and which beginnings of a text it has
#
# ("text", s) | ("some", form): any number of times | ("all", form, ...): in order | ("any", form, ...): one of them
# ("limit", form, n, at_limit)

Form = tuple[Any, ...]


class Reading:
    """A sequence of tokens, read by forms from any byte on."""

    def __init__(self, tokens: list[bytes]) -> None:
        self.text = b"".join(tokens)
        self.ends = [len(b"".join(tokens[: n + 1])) for n in range(len(tokens))]
        self.known: dict[tuple[Form, int], tuple[frozenset[int], frozenset[int]]] = {}

    def of(self, form: Form, start: int) -> tuple[frozenset[int], frozenset[int]]:
        """Where a text of the form from `start` on may end, and up to where the text is the beginning of one."""
        key = form, start
        if key not in self.known:
            ends, started = self._of(form, start)
            self.known[key] = frozenset(ends), frozenset(started | ends)
        return self.known[key]

    def _of(self, form: Form, start: int) -> tuple[set[int], set[int]]:
        kind = form[0]
        if kind == "text":
            whole: bytes = form[1]
            started = {start + n for n in range(len(whole) + 1) if self.text[start : start + n] == whole[:n]}
            started = {place for place in started if place <= len(self.text)}
            return ({start + len(whole)} & started), started
        if kind == "any":
            several = [self.of(one, start) for one in form[1:]]
            return set().union(*(ends for ends, _ in several)), set().union(
                *(started for _, started in several)
            )
        if kind == "all":
            ends, started = {start}, {start}
            for one in form[1:]:
                read = [self.of(one, place) for place in ends]
                ends = set().union(*(after for after, _ in read))
                started = started.union(*(more for _, more in read))
            return ends, started
        if kind == "some":
            ends, started = {start}, {start}
            pending = [start]
            while pending:
                after, more = self.of(form[1], pending.pop())
                started |= more
                pending += after - ends
                ends |= after
            return ends, started
        _, inner, most, at_limit = form
        ends, started = map(set, self.of(inner, start))
        if most == 0:
            if at_limit == "cut" or start in ends:
                return {start}, {start}
            most = 1
        used = 0
        for place in self.ends:
            if place <= start:
                continue
            used += 1
            if used < most or place not in started:
                continue
            if at_limit == "complete" and place in ends:
                return {one for one in ends if one <= place}, {one for one in started if one <= place}
            if at_limit == "cut" and not in_character(self.text[:place]):
                return {one for one in ends if one < place} | {place}, {
                    one for one in started if one <= place
                }
        return ends, started


def in_character(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return False


def constraint(form: Form) -> Any:
    kind = form[0]
    if kind == "text":
        return sg.choice([form[1].decode()])
    if kind == "some":
        return sg.repeat(constraint(form[1]))
    if kind == "limit":
        return sg.limit_tokens(constraint(form[1]), form[2], at_limit=form[3])
    whole = constraint(form[1])
    for one in form[2:]:
        whole = whole | constraint(one) if kind == "any" else whole + constraint(one)
    return whole


def by_rules(form: Form) -> GrammarConstraint:
    """The same as a grammar, in which what is limited is a rule."""
    rules: list[Rule] = []

    def body(form: Form) -> Body:
        if form[0] == "text":
            return ("text", literal(form[1].decode()))
        if form[0] == "some":
            return ("repeat", body(form[1]), 0, None)
        if form[0] == "limit":
            inside = body(form[1])
            rules.append(Rule(f"r{len(rules)}", inside, token_limit=(form[2], form[3] == "cut")))
            return ("rule", rules[-1].name)
        return ("sequence" if form[0] == "all" else "choice", tuple(map(body, form[1:])))

    start = Rule("start", body(form))
    return GrammarConstraint(Grammar((start, *rules), "start"), "EBNF")


def check(form: Form, texts: list[bytes], most: int, make: Any = constraint) -> int:
    """Compare masks and ends along every sequence of up to `most` tokens that may be read; how many there were."""
    vocabulary = Vocabulary.from_tokens([*texts, None], [len(texts)])
    pending: list[tuple[list[int], sg.Matcher]] = [([], sg.Matcher(make(form), vocabulary))]
    count = 0
    while pending:
        path, matcher = pending.pop()
        count += 1
        mask = [bool(int(matcher.mask()[0]) >> token & 1) for token in range(len(texts) + 1)]
        read = [texts[token] for token in path]
        expected = []
        for text in texts:
            reading = Reading([*read, text])
            expected.append(len(reading.text) in reading.of(form, 0)[1])
        reading = Reading(read)
        expected.append(len(reading.text) in reading.of(form, 0)[0])
        assert mask == expected, (form, read, mask, expected)
        assert matcher.is_complete() == expected[-1]
        completion = matcher.witness()
        assert completion is not None
        assert matcher.accepts(completion) == len(completion)
        for token in completion:
            assert matcher.advance(token)
        assert matcher.is_complete()
        matcher.rollback(len(completion))
        for token in [token for token in range(len(texts)) if expected[token]] if len(path) < most else []:
            pending.append(([*path, token], matcher.fork()))
            assert pending[-1][1].advance(token)
    return count


LETTERS = [b"a", b"b", b"c", b"ab", b"ba", b"aab", b"bc"]


def text(value: str) -> Form:
    return "text", value.encode()


def limit(form: Form, most: int, at_limit: str = "complete") -> Form:
    return "limit", form, most, at_limit


AS, ABS = ("some", text("a")), ("some", ("any", text("a"), text("b")))
FORMS: dict[str, Form] = {
    "free text, then an end": ("all", limit(ABS, 2), text("c")),
    "before and after": ("all", text("a"), limit(AS, 2), text("b"), text("c")),
    "nothing but the part": limit(ABS, 2),
    "it cannot end early": ("all", limit(("some", text("ab")), 1), text("c")),
    "no empty text": ("all", limit(text("aab"), 1), text("c")),
    "no tokens": ("all", text("a"), limit(ABS, 0), text("b"), text("c")),
    "no tokens, no empty text": ("all", limit(text("aab"), 0), text("b")),
    "cut": ("all", limit(("some", text("aab")), 2, "cut"), text("c")),
    "cut text": ("all", limit(text("aabaab"), 2, "cut"), text("bc")),
    "again and again": ("all", ("some", limit(("all", text("a"), AS, text("b")), 2)), text("c")),
    "again and again, cut": (
        "all",
        ("some", limit(("all", text("a"), text("b"), text("b")), 2, "cut")),
        text("c"),
    ),
    "inside one another": ("all", limit(("all", text("b"), limit(AS, 1), text("b")), 3), text("c")),
    "inside one another, the inner one cut": (
        "all",
        limit(("all", text("b"), limit(text("aab"), 1, "cut"), AS), 2),
        text("c"),
    ),
    "inside one another, both cut": (
        "all",
        limit(("all", limit(text("aab"), 2, "cut"), text("ba")), 3, "cut"),
        text("c"),
    ),
    "one part or another": ("any", ("all", limit(AS, 1), text("b")), ("all", limit(AS, 3), text("c"))),
    "begins wherever": ("all", ABS, limit(ABS, 1), text("c")),
    "one after the other": (
        "all",
        limit(AS, 1),
        limit(("some", text("b")), 1),
        limit(("some", text("a")), 2),
        text("c"),
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_masks_are_those_of_the_slow_reading(name: str) -> None:
    assert check(FORMS[name], LETTERS, 3 if name == "begins wherever" else 4) > 1


@pytest.mark.parametrize("name", FORMS)
def test_limited_rules_are_limited_parts(name: str) -> None:
    assert check(FORMS[name], LETTERS, 3, by_rules) > 1


def random_form(random: random.Random, depth: int) -> Form:
    kind = random.choice(["text", "text", "some", "all", "any", "limit", "limit"]) if depth else "text"
    if kind == "text":
        return text("".join(random.choices("ab", k=random.randint(1, 2))))
    if kind == "some":
        return "some", random_form(random, depth - 1)
    if kind == "limit":
        return limit(random_form(random, depth - 1), random.randint(0, 3), random.choice(["complete", "cut"]))
    return kind, *(random_form(random, depth - 1) for _ in range(2))


def random_forms(count: int) -> Iterator[Form]:
    chance = random.Random(35)
    for _ in range(count):
        yield "all", random_form(chance, 3), text("c")


def test_masks_of_random_forms_are_those_of_the_slow_reading() -> None:
    for form in random_forms(60):
        check(form, LETTERS[:6], 3)
        check(form, LETTERS[:6], 2, by_rules)


# ---- special cases


def allowed(matcher: sg.Matcher, texts: list[bytes]) -> set[bytes]:
    mask = matcher.mask()
    return {text for token, text in enumerate(texts) if int(mask[token >> 5]) >> (token & 31) & 1}


def opened(made: Any, texts: list[bytes], specials: dict[str, int] | None = None) -> sg.Matcher:
    tokens: list[bytes | None] = [*texts, None, *([None] * len(specials or {}))]
    return sg.Matcher(made, Vocabulary.from_tokens(tokens, [len(texts)], specials=specials or {}))


def read(matcher: sg.Matcher, texts: list[bytes], *tokens: bytes) -> None:
    for one in tokens:
        assert matcher.advance(texts.index(one)), one


CHARACTERS = [b"a", b"\xc3", b"\xa9", b"\xe4\xb8", b"\xad", b"a\xc3", b"\xa9.", b"."]


@pytest.mark.parametrize("at_limit", ["complete", "cut"])
def test_a_part_does_not_end_inside_a_character(at_limit: Any) -> None:
    form = (
        "all",
        ("limit", ("some", ("any", text("a"), text("\u00e9"), text("\u4e2d"))), 2, at_limit),
        text("."),
    )
    assert check(form, CHARACTERS, 5) > 20


def test_json_ends_where_it_is_complete_or_is_cut() -> None:
    texts = [b"[", b"1", b",", b"]", b"1]", b"]!", b"!"]
    numbers = sg.json_schema({"type": "array", "items": {"const": 1}}, whitespace="compact")
    matcher = opened(sg.limit_tokens(numbers, 2) + "!", texts)
    read(matcher, texts, b"[", b"1", b",", b"1")  # it goes on until it is complete
    assert allowed(matcher, texts) == {b",", b"]", b"]!"}
    matcher = opened(sg.limit_tokens(numbers, 3, at_limit="cut") + "!", texts)
    read(matcher, texts, b"[", b"1", b",")
    assert allowed(matcher, texts) == {b"!"}
    read(matcher, texts, b"!")
    assert matcher.is_complete() and matcher.explain().ok
    number = sg.json_schema({"enum": [1, 11, 111]}, whitespace="compact")
    matcher = opened(sg.limit_tokens(number, 2) + "!", texts)
    read(matcher, texts, b"1", b"1")
    assert allowed(matcher, texts) == {b"!"}


def test_a_part_begins_with_its_first_byte() -> None:
    texts = [b"[", b"]", b"a", b"aa", b"]a", b"."]
    empty = sg.json_schema({"type": "array", "maxItems": 0}, whitespace="compact")
    made = empty + sg.limit_tokens(sg.repeat("a"), 1) + "."
    matcher = opened(made, texts)
    read(matcher, texts, b"[", b"]")  # the bracket is no byte of the part
    assert allowed(matcher, texts) == {b"a", b"aa", b"."}
    read(matcher, texts, b"a")
    assert allowed(matcher, texts) == {b"."}
    matcher = opened(made, texts)
    read(matcher, texts, b"[", b"]a")
    assert allowed(matcher, texts) == {b"."}


def test_special_tokens_in_a_part_count() -> None:
    texts = [b"a", b"."]
    made = sg.limit_tokens(sg.repeat(sg.special("<|x|>") | sg.regex("a")), 2) + "."
    matcher = opened(made, texts, {"<|x|>": 3})
    assert matcher.advance(3)
    assert allowed(matcher, texts) == {b"a", b"."}
    assert matcher.advance(3)
    assert allowed(matcher, texts) == {b"."}
    assert not matcher.advance(3)


def test_what_was_read_before_the_first_token_counts_as_one() -> None:
    texts = [b"a", b"."]
    matcher = opened(sg.limit_tokens(sg.repeat("a"), 2) + ".", texts)
    assert matcher.native.begin(b"a") and matcher.native.begin(b"a")
    assert allowed(matcher, texts) == {b"a", b"."}
    read(matcher, texts, b"a")
    assert allowed(matcher, texts) == {b"."}


def test_rollback_and_forks_keep_the_count() -> None:
    texts = [b"a", b"."]
    matcher = opened(sg.limit_tokens(sg.repeat("a"), 3) + ".", texts)
    read(matcher, texts, b"a", b"a")
    fork = matcher.fork()
    read(fork, texts, b"a")
    assert allowed(fork, texts) == {b"."} and allowed(matcher, texts) == {b"a", b"."}
    fork.rollback(2)
    read(fork, texts, b"a")
    assert allowed(fork, texts) == {b"a", b"."}
    fork.reset()
    assert fork.accepts([0, 0, 0, 0]) == 3 and fork.accepts([0, 0, 0, 1]) == 4


def test_what_is_forced_is_forced_in_all_tokenizations() -> None:
    texts = [b"a", b"b", b"ab", b"."]
    matcher = opened("a" + sg.limit_tokens("bbbb", 2, at_limit="cut") + ".", texts)
    assert matcher.forced_bytes() == b"abb"  # two tokens of one byte use the part up
    assert matcher.forced() == []
    read(matcher, texts, b"ab")
    assert matcher.forced_bytes() == b"b"
    assert matcher.forced() == [1, 3]
    matcher = opened("a" + sg.limit_tokens("bbbb", 2) + ".", texts)
    assert matcher.forced_bytes() == b"abbbb."


def test_a_vocabulary_without_some_bytes() -> None:
    texts = [b"ab", b"ba", b"a.", b"b.", b"c"]
    made = sg.limit_tokens(sg.repeat(sg.regex("[ab]")), 1) + (sg.regex("[ab]{1,2}[.]") + "c")
    matcher = opened(made, texts)
    for path in ([], [0], [1], [0, 2]):
        matcher.reset()
        for token in path:
            assert matcher.advance(token)
        for token in range(len(texts)):
            fork = matcher.fork()
            assert (texts[token] in allowed(matcher, texts)) == fork.advance(token)
            if fork.text != matcher.text:
                assert fork.witness() is not None


def test_wrong_limits_are_errors() -> None:
    for wrong in (-1, 1.5, True, "2"):
        with pytest.raises(OptionError, match="max_tokens"):
            sg.limit_tokens("a", wrong)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="complete"):
        sg.limit_tokens("a", 1, at_limit="stop")  # type: ignore[arg-type]
    with pytest.raises(LimitExceeded) as found:
        sg.limit_tokens("a", 2**31)
    assert found.value.limit == "part_tokens"
    with pytest.raises(CombinationError):
        sg.limit_tokens("a", 1) & sg.regex("a")


def test_equal_limits_are_equal_constraints() -> None:
    assert sg.limit_tokens("a", 1) == sg.limit_tokens("a", 1) != sg.limit_tokens("a", 2)
    assert sg.limit_tokens("a", 1) != sg.limit_tokens("a", 1, at_limit="cut")
    assert (sg.repeat(sg.limit_tokens("a", 1)) + "b").counts_tokens()
    assert not sg.regex("a").counts_tokens()


# ---- Lark

LARK = """
start: "<" r ">"
r[max_tokens=2]: ("a" "b")*
"""


def test_rules_of_lark_are_cut_or_complete() -> None:
    texts = [b"a", b"b", b"<", b">"]
    matcher = opened(sg.lark(LARK), texts)
    read(matcher, texts, b"<", b"a", b"b")
    assert allowed(matcher, texts) == {b">"}
    odd = LARK.replace("=2", "=3")
    matcher = opened(sg.lark(odd), texts)
    read(matcher, texts, b"<", b"a", b"b", b"a")
    assert allowed(matcher, texts) == {b">"}
    matcher = opened(sg.lark(odd, at_limit="complete"), texts)
    read(matcher, texts, b"<", b"a", b"b", b"a")
    assert allowed(matcher, texts) == {b"b"}
    with pytest.raises(OptionError, match="at_limit"):
        sg.lark(LARK, at_limit="never")  # type: ignore[arg-type]


def test_a_rule_in_its_own_text_is_not_counted_again() -> None:
    texts = [b"(", b")", b"a"]
    matcher = opened(sg.lark('start: r "a"\nr[max_tokens=3]: "(" r? ")"', at_limit="complete"), texts)
    read(matcher, texts, b"(", b"(", b")", b")")
    assert allowed(matcher, texts) == {b"a"}
    deep = "\n".join(f'r{n}[max_tokens=2]: "(" r{n + 1} ")"' for n in range(200)) + '\nr200: "a"'
    with pytest.raises(LimitExceeded) as found:
        sg.lark(f"start: r0\n{deep}")
    assert found.value.limit == "constraint_depth"
    names = [f"r{n}" for n in range(12)]
    mutual = "\n".join(f'{name}[max_tokens=2]: "(" ({" | ".join(names)}) ")" | "a"' for name in names)
    with pytest.raises(LimitExceeded) as found:
        sg.lark(f"start: r0\n{mutual}")
    assert found.value.limit in ("counted_rules", "constraint_depth")


def test_limits_of_rules_that_are_refused() -> None:
    from lark.indenter import PythonIndenter

    with pytest.raises(GrammarUnsupported, match="indentation"):
        sg.lark(
            'start: r _NEWLINE\nr[max_tokens=1]: "a"\n_NEWLINE: /\\n/\n%declare _INDENT _DEDENT',
            indenter=type("Blocks", (PythonIndenter,), {"OPEN_PAREN_types": [], "CLOSE_PAREN_types": []}),
        )


@pytest.mark.parametrize("at_limit", ["complete", "cut"])
def test_readings_that_differ_in_their_counts_are_one(at_limit: Any) -> None:
    source = 'start: (r ",")*\nr[max_tokens=3000]: /[a-z,]*/'  # a part may begin after each comma
    made = sg.lark(source, lexer="longest", contextual=True, at_limit=at_limit)
    matcher = sg.Matcher(made, Vocabulary.of_bytes())
    tokens = list(b"ab," * 600)
    assert matcher.accepts(tokens) == len(tokens)


@pytest.mark.parametrize("at_limit", ["complete", "cut"])
def test_a_rule_of_one_terminal_has_the_texts_of_its_terminal(at_limit: Any) -> None:
    source = 'start: (r | "," | B)*\nr%s: A\nA: /[ab]*c?/\nB: "b"\n%%ignore " "'
    options: Any = {"lexer": "longest", "contextual": True}
    plain, limited = (
        sg.lark(source % "", **options),
        sg.lark(source % "[max_tokens=90]", **options, at_limit=at_limit),
    )
    one, other = (sg.Matcher(made, Vocabulary.of_bytes()) for made in (plain, limited))
    for letters in product("abc, ", repeat=4):
        tokens = [*"".join(letters).encode(), 256]
        assert one.accepts(tokens) == other.accepts(tokens), letters
