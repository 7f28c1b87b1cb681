"""Why a verdict differs from a peer's: one entry per reason, the first that fits counts.

An entry names its cases as narrowly as it can, so that a new difference fits no entry and is noticed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from .running import Difference

__all__ = ["REASONS", "Class", "Reason", "reason_of"]


class Class(Enum):
    """Whose fault a difference is."""

    WRONG = "wrong"
    """structgen's: it contradicts itself or its documentation."""
    LACKS = "lacks"
    """structgen refuses by name what the peer does."""
    OPTION = "option"
    """The verdict is the peer's under an option of structgen."""
    CHOICE = "choice"
    """The two choose differently, and structgen's documentation says how."""
    PEER = "peer"
    """The peer's: it contradicts a specification, or its own documentation."""
    ARTIFACT = "artifact"
    """It says nothing about a library: the record of the case is not complete."""


Check = Callable[[Difference], bool]


class Reason(NamedTuple):
    """A reason, and the differences that it is about."""

    kind: Class
    text: str
    peer: str = ""
    sources: tuple[str, ...] = ()
    """Parts of the names of tests; any of them. Without them: all tests."""
    check: Check = lambda difference: True

    def fits(self, difference: Difference) -> bool:
        case = difference.case
        return (
            self.peer in ("", case.peer)
            and (not self.sources or any(part in case.source for part in self.sources))
            and self.check(difference)
        )


def reason_of(difference: Difference) -> Reason | None:
    """The first reason that fits; `None` where a difference is not explained."""
    return next((reason for reason in REASONS if reason.fits(difference)), None)


# Checks.


def _error(*parts: str) -> Check:
    return lambda difference: any(part in difference.error for part in parts)


def _spec(*parts: str) -> Check:
    return lambda difference: any(part in difference.case.written for part in parts)


def _kind(*kinds: str) -> Check:
    return lambda difference: difference.case.kind in kinds


def _field(*fields: str) -> Check:
    return lambda difference: difference.field in fields


def _text(*parts: str) -> Check:
    return lambda difference: any(part in json.dumps(difference.text, ensure_ascii=False) for part in parts)


def _refused(difference: Difference) -> bool:
    """The peer refuses the specification, and structgen reads it."""
    return difference.field == "compiles" and difference.want is False


def _all(*checks: Check) -> Check:
    return lambda difference: all(check(difference) for check in checks)


def _mask(*, extra: Iterable[int] = (), missing: Iterable[int] = ()) -> Check:
    """A mask with nothing but these bytes too many, or too few."""
    most, least = set(extra), set(missing)

    def check(difference: Difference) -> bool:
        got = difference.got
        if difference.field != "masks" or not isinstance(got, dict):
            return False
        return set(got["extra"]) <= most and set(got["missing"]) <= least

    return check


def _broken(difference: Difference) -> bool:
    return isinstance(difference.got, str) and difference.got.startswith("broken")


def _by_option(difference: Difference) -> bool:
    """Only texts: whether a specification compiles is no question of an option; nor is the lexer of one text."""
    if difference.field not in ("accept", "reject", "prefix_accept"):
        return False
    return bool(difference.option) and not any(word in difference.option for word in ("formats", "lexer"))


_DIGITS = tuple(b"0123456789")

REASONS: tuple[Reason, ...] = (
    Reason(Class.WRONG, "the mask and the reading of a token differ", check=_broken),
    Reason(
        Class.WRONG,
        "SmolLM2's vocabulary and that of bytes differ",
        check=lambda one: one.vocabulary == "real",
    ),
    Reason(
        Class.WRONG,
        "an error that is not structgen's",
        check=lambda one: (
            bool(one.error)
            and one.error.split(":")[0] in ("ValueError", "TypeError", "KeyError", "IndexError")
        ),
    ),
    # XGrammar.
    Reason(
        Class.ARTIFACT,
        "the recorded specification is of another test",
        "xgrammar",
        (
            "test_object_with_property_numbers",
            "test_lark_serialization_round_trip",
            "test_lark_suffix_stop_same_rule_max_tokens",
            "test_token_operations",
        ),
        _kind("json_schema"),
    ),
    Reason(
        Class.ARTIFACT,
        "grammars by name were objects of the peer",
        "xgrammar",
        check=_all(_kind("lark"), _error("there is no constraint")),
    ),
    Reason(
        Class.ARTIFACT,
        "the recorder did not see a batch call or a fork",
        "xgrammar",
        ("test_fork_initial_state", "test_batch_rollback"),
    ),
    Reason(
        Class.LACKS,
        "refused by name",
        check=_error("GrammarUnsupported", "is not supported", "are not supported", "LimitExceeded"),
    ),
    Reason(
        Class.CHOICE,
        "XGrammar refuses what has a meaning here",
        "xgrammar",
        (
            "test_structural_tag_error",
            "multiple_end_tokens_unlimited_empty",
            "any_text_max_chars_invalid",
            "token_string_requires_tokenizer",
            "test_structural_tag_json_format_errors",
            "test_regex_macro_unsupported_features",
            "test_lark_lazy_non_terminal_like_bodies",
        ),
        _refused,
    ),
    Reason(
        Class.CHOICE,
        "the grammar has a text, and none that the vocabulary spells: structgen says so when it compiles",
        "xgrammar",
        ("test_temperature_on_inline_subgrammar",),
    ),
    Reason(
        Class.PEER,
        "XGrammar ignores look-ahead and anchors",
        "xgrammar",
        ("test_regex_macro_engine_features",),
    ),
    Reason(
        Class.PEER,
        "XGrammar offers a token that leads into a dead end: the vocabulary cannot spell what follows it",
        "xgrammar",
        ("test_token_tag_dispatch_trigger_and_exclude", "test_token_edge.py::test_rollback"),
    ),
    Reason(
        Class.CHOICE,
        "free text may end anywhere, and then free tokens around it go on",
        "xgrammar",
        ("test_e2e_mixed_tag_and_token_dispatch",),
    ),
    Reason(
        Class.LACKS,
        "a lazy rule with max_tokens whose body ends with a text: it ends without the text when its tokens are used up",
        "xgrammar",
        ("test_lark_max_tokens_with_lazy_marker_or_budget_wins",),
    ),
    Reason(
        Class.LACKS,
        "rules inside a rule with max_chars",
        "xgrammar",
        ("test_max_chars_nested_budget",),
    ),
    Reason(
        Class.ARTIFACT,
        "a text without tokens, for a limit of tokens",
        "xgrammar",
        ("test_lark_budget_enforced_at_closable_position",),
    ),
    Reason(
        Class.CHOICE,
        "white space is bounded, where max_whitespace_cnt is null",
        "xgrammar",
        ("test_structural_tag_max_whitespace_cnt", "test_structural_tag_per_tag_whitespace"),
    ),
    Reason(
        Class.CHOICE,
        "a number in an argument without a schema has the type number",
        "xgrammar",
        ("free_form_keys_allow_any_type", "free_form_arguments_keep_every_type_attribute"),
    ),
    Reason(
        Class.CHOICE,
        "numbers have one digit before the point where an exponent stands",
        "xgrammar",
        ("test_or_format", "test_optional_format"),
        _kind("structural_tag"),
    ),
    Reason(
        Class.PEER,
        "XGrammar ignores multipleOf",
        "xgrammar",
        ("test_multiple_of_unsupported",),
        lambda one: "LimitExceeded" not in one.error,
    ),
    Reason(
        Class.LACKS,
        "multipleOf with more than 18 digits",
        "xgrammar",
        ("test_multiple_of_unsupported",),
    ),
    Reason(
        Class.PEER,
        "XGrammar departs from JSON Schema or from the format's standard",
        "xgrammar",
        (
            "oneof_unsupported_overlap",
            "test_complex_restrictions",
            "json_schema_pattern_uses_regex_macro",
            "utf8_object_array_in_enum",
            "uri_template",
            "date_time_format",
            "ipv4_format",
            "mask_generation_format",
            "test_type_array_empty",
            "test_array_schema_min_max",
        ),
    ),
    Reason(
        Class.PEER,
        "host names have no -- in the third and fourth place (RFC 5891)",
        "xgrammar",
        ("hostname_format",),
    ),
    Reason(
        Class.CHOICE,
        "XGrammar refuses what it cannot do, and structgen can",
        "xgrammar",
        (
            "64bit_limit",
            "test_array_schema_error_cases",
            "test_object_error_handle",
            "test_regex_refuse",
            "test_group_modifiers",
        ),
        _refused,
    ),
    Reason(
        Class.PEER,
        "\\a and \\e are letters in ECMAScript",
        "xgrammar",
        ("test_regex_converter", "json_schema_pattern"),
        _kind("regex", "json_schema"),
    ),
    Reason(
        Class.CHOICE,
        "there is no text, or the vocabulary spells none: structgen says so when it compiles",
        "xgrammar",
        ("test_flatten", "test_sharded_rule_cache"),
    ),
    Reason(Class.CHOICE, "an object has no key twice", "xgrammar", ("any_order",)),
    # XGrammar's Lark.
    Reason(
        Class.PEER,
        "the flag i of Python's patterns folds beyond ASCII",
        "xgrammar",
        ("regex_flags", "folds-ascii-only", "negative-class-ascii-folding", "range-not-folded"),
        _kind("lark"),
    ),
    Reason(
        Class.CHOICE,
        "a text wins over a pattern (lark's rule); XGrammar reads both",
        "xgrammar",
        ("literal-terminal-ambiguity",),
    ),
    Reason(
        Class.PEER,
        "XGrammar ignores look-ahead and anchors",
        "xgrammar",
        ("regex-lookahead-ignored", "mid-anchors-ignored"),
    ),
    Reason(
        Class.CHOICE,
        '"\\b" in Lark is a backslash and a b',
        "xgrammar",
        ("control-character-string-escapes", "invalid-string-escape"),
    ),
    Reason(
        Class.CHOICE,
        "patterns in Lark are Python's; in XGrammar ECMAScript's (\\u{...}, \\cA, (?<name>...))",
        "xgrammar",
        ("folds-escapes", "unicode-codepoint-escape", "control-escape", "named-groups"),
    ),
    Reason(
        Class.CHOICE,
        "a text to ignore may stand at the beginning (lark's rule)",
        "xgrammar",
        ("ignore", "initial_skip"),
        _kind("lark"),
    ),
    Reason(Class.CHOICE, "1.0 is an integer (JSON Schema)", "xgrammar", ("inline_json",), _kind("lark")),
    Reason(
        Class.PEER,
        "XGrammar takes a text without the ending that lazy or suffix requires",
        "xgrammar",
        ("standalone_lazy", "suffix_stop_any_text"),
    ),
    Reason(
        Class.CHOICE, "XGrammar refuses what Lark allows", "xgrammar", check=_all(_kind("lark"), _refused)
    ),
    # llguidance.
    Reason(
        Class.PEER,
        "a greedy lexeme takes END too: every mask leads into a dead end",
        "llguidance",
        ("test_cache_greedy",),
    ),
    Reason(
        Class.PEER,
        "leap seconds, and days that do not exist",
        "llguidance",
        ("valid_date", "valid_time", "valid_date_time"),
    ),
    Reason(Class.PEER, "host names have at most 253 characters", "llguidance", ("valid_hostname",)),
    Reason(
        Class.CHOICE,
        "a gap holds one line end at most",
        "llguidance",
        ("flexible_whitespace_unspecified", "whitespace_flexible_many"),
    ),
    Reason(Class.CHOICE, "white space is bounded", "llguidance", ("many_formats",)),
    Reason(Class.CHOICE, "a text wins over a pattern (lark's rule)", "llguidance", ("test_lexer_amb",)),
    Reason(
        Class.CHOICE,
        "llguidance refuses special tokens that the tokenizer lacks; here they are text",
        "llguidance",
        ("test_lark_syntax_general",),
        _all(_refused, _spec("<|")),
    ),
    Reason(
        Class.CHOICE,
        "llguidance refuses what it cannot do, and structgen can",
        "llguidance",
        (
            "test_lark_syntax_perc",
            "test_lark_syntax_general",
            "test_lark_syntax_attributes",
            "test_parametric",
            "test_json_min_max_properties",
            "test_json_pattern_properties",
            "test_grammar_warnings",
        ),
        _refused,
    ),
    Reason(
        Class.CHOICE,
        "an escaped letter is that letter for a pattern, too",
        "llguidance",
        ("general_unicode_escapes_do_not_change_regex",),
    ),
    Reason(
        Class.CHOICE,
        "separators are those of JSON",
        "llguidance",
        ("test_alternate_separators",),
    ),
    Reason(
        Class.PEER,
        "llguidance does not count the first token of an embedded grammar",
        "llguidance",
        ("test_ll_json", "test_ll_subgrammar_max_tokens"),
        _field("accept"),
    ),
    Reason(
        Class.CHOICE,
        "the text of a stop stays in the text",
        "llguidance",
        ("test_ll_stop_quote_comma",),
    ),
    # guidance: masks of bytes after a text.
    Reason(
        Class.CHOICE,
        "numbers have one digit before the point where an exponent stands",
        "guidance",
        check=_mask(missing=b"eE"),
    ),
    Reason(Class.CHOICE, "numbers have more spellings (3e1, 4.0)", "guidance", check=_mask(extra=b".Ee")),
    Reason(
        Class.CHOICE, "more spellings of numbers: -0, zeros at the end", "guidance", check=_mask(extra=b"-0")
    ),
    Reason(Class.CHOICE, "DEL may stand in a JSON string (RFC 8259)", "guidance", check=_mask(extra=(0x7F,))),
    Reason(
        Class.CHOICE, "more spellings of numbers, with an exponent", "guidance", check=_mask(extra=_DIGITS)
    ),
    Reason(
        Class.CHOICE,
        "\\w and \\s of Python's re and of Rust's regex differ, beyond ASCII and in 0x1C to 0x1F",
        "guidance",
        check=_all(_field("masks"), _spec("\\w", "\\W", "\\s", "\\S")),
    ),
    Reason(
        Class.CHOICE,
        "a quoted local part begins with an escaped quote",
        "guidance",
        ("TestEmail",),
        _field("masks"),
    ),
    Reason(Class.LACKS, "Punycode labels (xn--) in host names", "guidance", check=_text("xn--")),
    # llama.cpp.
    Reason(Class.ARTIFACT, "a text that was added by hand and is no C program", "llama.cpp", ("c.gbnf",)),
    Reason(Class.CHOICE, "integers have at most 16 digits there", "llama.cpp", (" min 0", " min 2")),
    Reason(
        Class.CHOICE,
        "an array in items, of drafts before 2020-12, without $schema",
        "llama.cpp",
        ("exotic formats (list)", "json-schema.cpp:170"),
    ),
    Reason(Class.PEER, "prefixItems is an object", "llama.cpp", ("string array", "array with empty items")),
    Reason(Class.PEER, "items says nothing of other types", "llama.cpp", ("min+max items",)),
    Reason(
        Class.CHOICE,
        "llama.cpp bounds repetition at 2,000",
        "llama.cpp",
        ("test-grammar-parser.cpp:148", "test-grammar-parser.cpp:15", "test-grammar-parser.cpp:16"),
        _refused,
    ),
    Reason(
        Class.CHOICE,
        "the schema is invalid or has no value: structgen says so",
        "llama.cpp",
        ("test-json-schema.cpp",),
        _field("compiles"),
    ),
    Reason(Class.CHOICE, "llguidance's choices", "llama.cpp", ("test-grammar-llguidance",)),
    # outlines-core.
    Reason(
        Class.LACKS,
        "outlines' keywords minDigits, maxDigits and their kin",
        "outlines-core",
        check=_spec("Digits"),
    ),
    Reason(
        Class.PEER,
        "the schema has no finite value",
        "outlines-core",
        ("quadruple", "triple"),
    ),
    Reason(Class.PEER, "JSON Schema has no type float", "outlines-core", check=_spec('"float"')),
    Reason(
        Class.PEER,
        "allOf is read as concatenation",
        "outlines-core",
        check=_all(_spec("allOf"), _spec("integer")),
    ),
    Reason(
        Class.PEER,
        "required names what properties lacks, and nothing else is allowed",
        "outlines-core",
        check=_spec("customer"),
    ),
    Reason(Class.PEER, "RFC 3339 requires a time zone", "outlines-core", check=_spec("date-time", '"time"')),
    Reason(Class.PEER, "narrower than RFC 3986 and RFC 5321", "outlines-core", check=_spec("uri", "email")),
    Reason(Class.PEER, "prefixItems requires no item", "outlines-core", check=_spec("prefixItems")),
    Reason(
        Class.CHOICE,
        "the depth of free values is bounded there",
        "outlines-core",
        ("unconstrained", "direct_recursion"),
    ),
    Reason(Class.CHOICE, "exponents have a sign there", "outlines-core", check=_text("1.3e9")),
    Reason(
        Class.CHOICE,
        "white space by a pattern (whitespace_pattern)",
        "outlines-core",
        ("whitespace", "test_json_schema.py"),
    ),
    # lm-format-enforcer.
    Reason(Class.PEER, "pattern is a search", "lm-format-enforcer", ("test_string_pattern",)),
    Reason(Class.CHOICE, "white space around the whole value", "lm-format-enforcer", ("comma_cannot_start",)),
    Reason(
        Class.CHOICE, "an environment variable bounds all arrays", "lm-format-enforcer", ("array_length",)
    ),
    Reason(Class.CHOICE, "the alphabet is ASCII there by default", "lm-format-enforcer", ("alphabet",)),
    # vLLM.
    Reason(
        Class.PEER,
        "the schema has no value: structgen says so",
        "vllm",
        check=_all(_spec("propertyNames"), _field("compiles")),
    ),
    Reason(Class.PEER, "allOf and anyOf are not empty", "vllm", check=_spec('"allOf": []', '"anyOf": []')),
    Reason(Class.CHOICE, "outlines-core cannot build it, and structgen can", "vllm", ("outlines",)),
    Reason(Class.CHOICE, "NUL is a character", "vllm", ("nul_byte",)),
    # Formatron and kbnf, SynCode.
    Reason(Class.ARTIFACT, "a registry of other documents is not in the record", "formatron+kbnf"),
    Reason(Class.CHOICE, "SynCode leaves out line ends in Go by code of its own", "syncode", ("_go",)),
    Reason(
        Class.CHOICE,
        "a program does not begin with an indented line",
        "syncode",
        ("_python",),
        _text("\\n    a = 3"),
    ),
    Reason(
        Class.CHOICE,
        "SynCode does not look at the beginning of a lexeme that cannot end",
        "syncode",
        ("_java",),
    ),
    # Everywhere.
    Reason(Class.OPTION, "equal under an option", check=_by_option),
)
