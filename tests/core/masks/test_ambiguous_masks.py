"""A mask of an ambiguous grammar costs at most a small multiple of trying every token with a single step.

Without a lexer, literals of different lengths over one character split a token in exponentially many ways, and real
tokenizers have runs of 64 dashes and 128 dots. `advance` merges the parses after every byte, so a mask must merge them
at every node of the token trie. The tests count the cost with `work_done` (structgen/_core/util/work.h); they do not
time it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import structgen as sg
from structgen import _core
from structgen.constraints.base import Constraint
from structgen.errors import LimitExceeded
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary
from tests.core.small_vocabulary import allowed
from tests.real_tokenizers import tokenizer_path

EOS = 0
MULTIPLE = 8
CLIKE = """
root ::= (e ";")+
e ::= e binary e | prefix e | e "++" | e "--" | "(" e ")" | e "[" e "]" | [a-z]+ | [0-9]+ | "..." e
binary ::= "+" | "-" | "*" | "**" | "/" | "=" | "==" | "===" | "<" | "<<" | "<=" | "&" | "&&" | "|" | "||" | "." | ".."
prefix ::= "-" | "--" | "+" | "++" | "!" | "~" | "*" | "**" | "***" | "&" | "&&" | "#" | "##" | "_" | "__"
"""


def runs(character: str) -> list[bytes]:
    """Runs of one character as tokenizers have them, alone and next to other text."""
    lengths = (2, 3, 4, 8, 16, 27, 32, 40, 64, 100, 128)
    pieces = [character * n for n in lengths]
    pieces += [
        character * n + end for n in (3, 40, 64) for end in (";", "a", "(", "a" + character * 40, "a;", "\n")
    ]
    return [
        piece.encode()
        for piece in pieces + [start + character * n for n in (2, 50, 90) for start in ("a", " ", "(")]
    ]


def vocabulary_of(pieces: list[bytes]) -> Vocabulary:
    return Vocabulary.from_tokens([None, *(bytes([byte]) for byte in range(256)), *pieces], [EOS])


def literals(character: str, *lengths: int) -> str:
    return " | ".join(f'"{character * n}"' for n in lengths)


def many_lengths(lengths: tuple[int, ...]) -> Callable[[str], Constraint]:
    return lambda c: sg.gbnf(
        f'root ::= e ";"\ne ::= "a" | "(" e ")" | ({literals(c, *lengths)}) e | e "{c}" e'
    )


def separate_rules(c: str) -> Constraint:
    return sg.gbnf(
        f'root ::= e ";"\ne ::= "a" | "{c}" e | "{c * 2}" e | "{c * 3}" f | e "{c}" e\nf ::= "{c}" e | "(" e ")"'
    )


GRAMMARS: dict[str, Callable[[str], Constraint]] = {
    "two lengths": many_lengths((1, 2)),
    "three lengths": many_lengths((1, 2, 3)),
    "many lengths": many_lengths((2, 3, 5, 7, 11)),
    "separate rules": separate_rules,
    "left recursion": lambda c: sg.gbnf(
        f'root ::= e ";"\ne ::= e "{c}" | e "{c * 2}" | "(" e ")" | "{c}" | "a"'
    ),
    "patterns": lambda c: sg.gbnf(f'root ::= e ";"\ne ::= [{c}]+ e | "{c}" e | "a" | "(" e ")"'),
    "a class": lambda c: sg.gbnf(f'root ::= e+ ";"\ne ::= [{c}a]+ | "({c}" e ")" | "{c}" e "a"'),
    "repeated": lambda c: sg.repeat(sg.gbnf(f'root ::= "{c}" | "{c * 2}" | "(" root ")"'), 1, None),
    "repeated in itself": lambda c: sg.gbnf(
        f'root ::= s+ ";"\ns ::= t | t t\nt ::= "{c}" | "{c * 2}" | "(" s ")"'
    ),
    "followed by a pattern": lambda c: many_lengths((1, 2))(c) + sg.regex(f"[{c};]*"),
    "a pattern before": lambda c: sg.regex(f"[{c}a]{{0,3}}") + many_lengths((1, 2))(c),
    "with another constraint": lambda c: sg.lark(
        f'start: e ";"\ne: "{c}" e | @x f | "(" e ")" | "a"\nf: "{c}" e | "a"',
        constraints={"x": sg.regex(f"[{c}]")},
    ),
    "C-like": lambda c: sg.gbnf(CLIKE),
}


def work_of(matcher: Matcher, act: Callable[[], object]) -> int:
    before = _core.work_done()
    act()
    return _core.work_done() - before


def check_masks_against_steps(matcher: Matcher) -> None:
    known = matcher.vocabulary
    mask = set[int]()
    cost = work_of(matcher, lambda: mask.update(allowed(matcher.mask())))
    steps = set[int]()
    cost_of_steps = sum(
        work_of(matcher, lambda token=token: steps.update([token] * matcher.accepts([token])))
        for token in range(1, known.size)
    )
    assert mask - {EOS} == steps, [known.token_bytes(token) for token in mask ^ steps]
    assert cost <= MULTIPLE * cost_of_steps + 2_000, (matcher.text, cost, cost_of_steps)


@pytest.mark.parametrize("character", ["-", "*", "=", ".", "#", "_"])
@pytest.mark.parametrize("grammar", GRAMMARS)
def test_masks_cost_what_steps_cost(grammar: str, character: str) -> None:
    if character in "#_" and grammar != "C-like":
        pytest.skip("as the others")
    source = random.Random(grammar + character)
    matcher = Matcher(GRAMMARS[grammar](character), vocabulary_of(runs(character)))
    check_masks_against_steps(matcher)
    for _ in range(3):
        tokens = sorted(allowed(matcher.mask()) - {EOS})
        if not tokens:
            return
        assert matcher.advance(source.choice(tokens[-20:]))
        check_masks_against_steps(matcher)


def gbnf_of(rule: str) -> Callable[[], Constraint]:
    return lambda: sg.gbnf(f'root ::= e ";"\ne ::= {rule} | "(" e ")" | "a"')


def lark_of(rule: str, **constraints: Constraint) -> Callable[[], Constraint]:
    source = f'start: e ";"\ne: {rule} | "(" e ")" | "a"\nA: /-+/'
    return lambda: sg.lark(source, constraints=constraints)


# "(" e ")" makes each of them more than a regular expression.
READINGS: dict[str, Callable[[], Constraint]] = {
    "a pattern and a literal": gbnf_of('[-]+ e | "-" e'),
    "a repeated pattern": gbnf_of('([-]+)+ "a"?'),
    "two patterns": gbnf_of("[-]+ e | [-a]+ e"),
    "three patterns": gbnf_of("[-]+ e | [-a]+ e | [-;]+ e"),
    "a pattern of so many": gbnf_of("[-]{1,250} e"),
    "patterns of few and of many": gbnf_of('[-]{2,7} e | [-]{3,50} "a" e'),
    "an optional pattern after it": gbnf_of("[-]+ ([-a]+)? e"),
    "an optional pattern at the end": gbnf_of("[-]+ e [;]?"),
    "left recursion": gbnf_of("e [-]+ | [-]+"),
    "both recursions": gbnf_of("e e | [-]+"),
    "repeated": lambda: sg.repeat(sg.gbnf('root ::= [-]+ | "a" | "(" root ")"'), 1, None),
    "a pattern before": lambda: sg.regex("[-a]*") + gbnf_of("[-]+ e")(),
    "a constraint of one character": lark_of("A e | @x e", x=sg.regex("[-]")),
    "a constraint of many": lark_of("A e | @x e", x=sg.regex("[-]+")),
    "constraints alone": lark_of("@x e", x=sg.regex("[-]+")),
    "a literal or a constraint": lark_of('@x e | "-" e', x=sg.regex("[-]+")),
    "a constraint of some lengths": lark_of("@x e", x=sg.regex("-|--|---")),
    "literals beside constraints": lark_of(
        '@x e | "-" e | "--" e | @y e', x=sg.regex("[-]+"), y=sg.regex("[-a]+")
    ),
    "constraints in left recursion": lark_of('e @x | e "-" | "-"', x=sg.regex("[-]+")),
    "constraints in both recursions": lark_of("e e | @x | A", x=sg.regex("[-]+")),
    "constraints in turn": lark_of("@x @y e | @y e | A", x=sg.regex("[-]+"), y=sg.regex("-|--")),
    "a grammar or a literal": lark_of('@x e | "-" e', x=sg.gbnf('root ::= "-" | "--" | "(" root ")"')),
    "grammars in grammars": lark_of(
        '@x e | "-" e',
        x=sg.lark('start: @y+ | "-"\n', constraints={"y": sg.gbnf('root ::= "-" | "(" root ")"')}),
    ),
    "a sequence in a grammar": lark_of(
        '@x e | "-" e', x=sg.regex("-*") + sg.gbnf('root ::= "-" | "(" root ")"')
    ),
    "a choice in a grammar": lark_of(
        '@x e | "-" e', x=sg.regex("-{3,}") | sg.gbnf('root ::= "-" | "(" root ")"')
    ),
    "text to ignore": lambda: sg.lark(
        'start: e ";"\ne: @x e | "a" e | "(" e ")" | "a"\n%ignore "-"\n%ignore /--/',
        constraints={"x": sg.regex("[-]+")},
    ),
    "JSON beside literals": lark_of('%json {"type": "integer"} e | "-" e | "1" e'),
    "a grammar in a grammar": lark_of("A e | @x e", x=sg.gbnf('root ::= [-]+ root | "-" | "(" root ")"')),
    "JSON": lark_of('A e | %json {"type": "integer"} e'),
}


# The longest texts of grammars whose single steps take seconds after more characters: their parses have n**3 parts.
MOST_CHARACTERS = {"both recursions": 200, "constraints in both recursions": 5, "a grammar in a grammar": 200}


@pytest.mark.parametrize(
    ("readings", "length"),
    [(one, n) for one in READINGS for n in (5, 50, 100, 200, 400) if n <= MOST_CHARACTERS.get(one, n)],
)
def test_many_parses_at_once(readings: str, length: int) -> None:
    """After `length` characters the text has as many readings, or readings that merge into few."""
    pieces = ["-" * n + end for n in (1, 2, 3, 4, 16, 32) for end in ("", ";", "a", "(", "a" + "-" * 16)]
    known = vocabulary_of([piece.encode() for piece in [*pieces, "(--", ")-", "a-", "1-", "-1-1"]])
    matcher = Matcher(READINGS[readings](), known)
    assert all(matcher.advance(1 + ord("-")) for _ in range(length))
    check_masks_against_steps(matcher)
    if matcher.advance(1 + 256 + pieces.index("-" * 16)):
        check_masks_against_steps(matcher)


@pytest.mark.parametrize("length", [40, 64, 128])
def test_a_long_run_alone(length: int) -> None:
    """The vocabulary of the report: no other token shares the work."""
    matcher = Matcher(many_lengths((1, 2))("-"), vocabulary_of([b"-" * length]))
    check_masks_against_steps(matcher)


def test_limit_bounds_a_mask_and_leaves_the_matcher_as_it_was() -> None:
    known = vocabulary_of([b"-" * 4000]).with_limits(mask_steps=20_000)
    matcher = Matcher(many_lengths((1, 2))("-"), known)
    assert matcher.advance(1 + ord("-"))
    before = matcher._program.grammar_work
    with pytest.raises(LimitExceeded, match="mask_steps"):
        matcher.mask()
    assert matcher._program.grammar_work - before < 20_000 * 20
    assert matcher.tokens == [1 + ord("-")]
    assert matcher.advance(1 + ord("a")) and matcher.advance(1 + ord(";"))
    assert matcher.is_complete()


@pytest.mark.parametrize("grammar", ["two lengths", "three lengths", "repeated", "C-like"])
def test_real_vocabularies_have_quick_masks(grammar: str) -> None:
    """SmolLM2 has runs of 64 dashes and of other signs. A hundredth of the limit is enough."""
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer_path("smollm2"))
    known = Vocabulary.from_tokenizer(tokenizer).with_limits(mask_steps=50_000)
    for character in "-=*":
        matcher = Matcher(GRAMMARS[grammar](character), known)
        for text in ("(",) if (grammar, character) == ("C-like", "=") else (character * 2, "("):
            mask = allowed(matcher.mask())
            long = [t for t in mask if set(known.token_bytes(t) or b"a") == {ord(character)}]
            assert all(matcher.accepts([t]) for t in long)
            if grammar != "C-like":  # its signs have few characters
                assert max(len(known.token_bytes(t) or b"") for t in long) >= (
                    2 if matcher.text.endswith(b"(") else 32
                )
            tokens = known.encode(text)
            assert tokens is not None
            assert all(token in allowed(matcher.mask()) and matcher.advance(token) for token in tokens)


KEYS = [
    '{"a',
    '{"a"',
    '{"a":',
    '{"b":1,"b"',
    '{"b":1,"b":',
    '{"b"',
    '{"c":2}',
    '"b":1,"b"',
    'b":1,"b":2',
    '{"\\u0062":1,"b"',
    '{"a":1,"b":2}',
]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {"b": {"type": "integer"}}, "additionalProperties": False},
        {"type": "object", "properties": {"b": {"type": "integer"}, "a": False}},
    ],
)
def test_tokens_that_one_parse_removes_may_stay_for_another(schema: object) -> None:
    """Masks of objects allow keys at first and remove those that the object already has."""
    known = vocabulary_of([key.encode() for key in KEYS])
    rules = 'start: (S | "{" S ":" N? "," S ":"? | "{" S | "{" S ":" N "}" | @x | "(" start ")")+'
    grammar = rules + '\nS: /"[ab]"/\nN: /[0-9]/'
    matcher = Matcher(sg.lark(grammar, constraints={"x": sg.json_schema(schema)}), known)
    for text in (b"", b"{", b'{"', b'{"b":1,', b'{"b":1,"'):
        matcher.reset()
        assert all(matcher.advance(1 + byte) for byte in text)
        mask = allowed(matcher.mask()) - {EOS}
        steps = {token for token in range(1, known.size) if matcher.accepts([token])}
        assert mask == steps, (text, [known.token_bytes(token) for token in mask ^ steps])
