"""The plugin against SGLang's published base classes and its traversal of draft trees.

Run where SGLang is importable; a whole server of it needs an accelerator and is not started here.
"""

import importlib
import inspect
import sys
import types
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

if find_spec("sglang") is None:
    pytest.skip("SGLang is not installed", allow_module_level=True)

import torch


def _without_images():
    """Replace torchvision, which SGLang imports for images: its published build does not load with torch for CPUs."""

    class Name(type):
        def __getattr__(cls, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return name

    class Empty(types.ModuleType):
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return Name(name, (), {})

    try:
        importlib.import_module("torchvision")
        return
    except Exception:  # any reason why an image library does not load
        for name in [one for one in sys.modules if one.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
    for name in (
        "",
        ".transforms",
        ".transforms.functional",
        ".io",
        ".transforms.v2",
        ".transforms.v2.functional",
    ):
        module = Empty(f"torchvision{name}")
        module.__spec__, module.__path__ = ModuleSpec(module.__name__, None), []
        module.__version__ = "0.28.0"  # transformers reads it if no distribution has a version
        sys.modules[module.__name__] = module
        parent, _, last = module.__name__.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)


try:
    _without_images()
    from sglang.srt.constrained import base_grammar_backend as base
    from sglang.srt.constrained.grammar_manager import GrammarManager
    from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarObject
    from sglang.srt.speculative.spec_utils import traverse_tree
except Exception as error:  # SGLang imports what a machine without an accelerator may lack
    pytest.skip(f"SGLang cannot be imported here: {error!r:.200}", allow_module_level=True)

from structgen.integrations.sglang import backend as plugin  # noqa: E402
from structgen.integrations.sglang import register  # noqa: E402
from structgen.integrations.sglang.grammar import RequestGrammar  # noqa: E402
from structgen.integrations.sglang.reasoning import BatchedReasonerBackend, BatchedReasonerObject  # noqa: E402
from structgen.models.embedded import embedded_directory  # noqa: E402

TAG = '{"structures": [{"begin": "<f>", "schema": true, "end": "</f>"}], "triggers": ["<f>"]}'


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(embedded_directory()))


@pytest.fixture(scope="module")
def backend(tokenizer):
    made = plugin.StructgenGrammarBackend(tokenizer, 49152, {tokenizer.eos_token_id})
    yield made
    made.close()


def _ids(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False)


def _row(grammar):
    mask = grammar.allocate_vocab_mask(49152, 2, "cpu")
    grammar.fill_vocab_mask(mask, 1)
    assert (mask[0] == -1).all()
    return mask[1].clone()


def test_the_name_is_registered():
    register()
    assert plugin.NAME in base.GRAMMAR_BACKEND_REGISTRY
    from sglang.srt import server_args

    assert plugin.NAME in server_args.GRAMMAR_BACKEND_CHOICES


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        (plugin.StructgenGrammarObject, base.BaseGrammarObject),
        (RequestGrammar, base.BaseGrammarObject),
        (plugin.StructgenGrammarBackend, base.BaseGrammarBackend),
    ],
)
def test_methods_have_the_parameters_of_the_base_class(own, theirs):
    for name, method in inspect.getmembers(theirs, inspect.isfunction):
        if name.startswith("_") or name not in vars(own):
            continue
        expected = list(inspect.signature(method).parameters)
        assert list(inspect.signature(getattr(own, name)).parameters) == expected, name
        assert isinstance(inspect.getattr_static(own, name), staticmethod) == isinstance(
            inspect.getattr_static(theirs, name), staticmethod
        ), name


def test_the_grammar_has_all_required_members():
    must = {
        name
        for name, method in inspect.getmembers(base.BaseGrammarObject, inspect.isfunction)
        if "raise NotImplementedError" in inspect.getsource(method)
    }
    assert must <= {*vars(plugin.StructgenGrammarObject), *vars(RequestGrammar)}


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (("json", '{"type": "integer"}'), "12"),
        (("json", "$$ANY$$"), '{"a": 1}'),
        (("regex", "[a-z]{3}"), "abc"),
        (("ebnf", 'root ::= "yes" | "no"'), "yes"),
        (
            (
                "structural_tag",
                '{"structures": [{"begin": "<f>", "schema": true, "end": "</f>"}], "triggers": ["<f>"]}',
            ),
            "<f>1</f>",
        ),
    ],
)
def test_each_kind(backend, tokenizer, key, text):
    grammar = backend._init_value_dispatch(key, False)
    for token in _ids(tokenizer, text):
        assert _row(grammar)[token // 32] >> (token % 32) & 1
        grammar.accept_token(token)
    grammar.accept_token(tokenizer.eos_token_id)
    assert grammar.is_terminated()
    assert grammar.grammar_stats.compilation_time > 0


def test_a_bad_spec_is_an_invalid_grammar_with_its_message(backend):
    found = backend._init_value_dispatch(("regex", "("), False)
    assert isinstance(found, base.InvalidGrammarObject)
    assert "not closed" in found.error_message


def test_a_refused_token_raises_and_changes_nothing(backend, tokenizer):
    grammar = backend.dispatch_regex("[0-9]+")
    before = _row(grammar)
    with pytest.raises(ValueError, match="not allowed"):
        grammar.accept_token(_ids(tokenizer, "x")[0])
    assert (_row(grammar) == before).all()


def test_a_copy_has_a_state_of_its_own(backend, tokenizer):
    grammar = backend.dispatch_regex("[0-9][a-z]")
    before = _row(grammar)
    other = grammar.copy()
    other.accept_token(_ids(tokenizer, "1")[0])
    assert (_row(grammar) == before).all()
    assert not (_row(other) == before).all()
    assert other.grammar_stats.is_cache_hit


def test_a_batch_fills_the_rows_that_are_listed(backend):
    many = [backend.dispatch_regex(pattern) for pattern in ("[0-9]+", "[a-z]+", "(x|y)+")]
    for rows in ((0, 1, 2), (1, 2, 3), (0, 2, 3)):
        mask = many[0].allocate_vocab_mask(49152, 5, "cpu")
        entries = [base.GrammarRow(row, grammar) for row, grammar in zip(rows, many, strict=True)]
        many[0].fill_vocab_mask_batched(entries, mask)
        for row, grammar in zip(rows, many, strict=True):
            assert (mask[row] == _row(grammar)).all()
        for row in set(range(5)) - set(rows):
            assert (mask[row] == -1).all()
        many[0].reset_vocab_mask(mask)
        assert (mask == -1).all()


def test_logits_of_forbidden_tokens_are_minus_infinity(backend, tokenizer):
    grammar = backend.dispatch_regex("7")
    mask = grammar.allocate_vocab_mask(49152, 1, "cpu")
    grammar.fill_vocab_mask(mask, 0)
    logits = torch.zeros(1, 49160)  # wider than the vocabulary
    grammar.apply_vocab_mask(logits, grammar.move_vocab_mask(mask, "cpu"))
    assert torch.isfinite(logits[0]).nonzero().flatten().tolist() == _ids(tokenizer, "7")


def test_the_forced_text_is_jumped_over(backend, tokenizer):
    grammar = backend.dispatch_regex('\\{"name": "[a-z]{1,3}"\\}')
    helper = grammar.try_jump_forward(tokenizer)
    assert helper is not None
    text, state = grammar.jump_forward_str_state(helper)
    assert text == '{"name": "'
    grammar.jump_and_retokenize([], _ids(tokenizer, text), state)
    assert grammar.sequence.matcher.text == text.encode()
    grammar.jump_and_retokenize(_ids(tokenizer, text), _ids(tokenizer, text), state)
    assert grammar.sequence.matcher.text == text.encode()


def test_a_tree_of_drafts_is_traversed(backend, tokenizer):
    """The root has the children "1" and "x"; "2" follows "1", and "5" follows "2"."""
    grammar = backend.dispatch_regex("[0-9]{2}")
    one, wrong, two, five = (_ids(tokenizer, text)[0] for text in ("1", "x", "2", "5"))
    drafts = torch.tensor([0, one, wrong, two, five])
    next_token = torch.tensor([1, 3, -1, 4, -1])
    next_sibling = torch.tensor([-1, 2, -1, -1, -1])
    mask = grammar.allocate_vocab_mask(49152, 5, "cpu")
    before = _row(grammar)
    traverse_tree(next_token, next_sibling, drafts, grammar, mask, 49152)
    assert (_row(grammar) == before).all()  # all was rolled back
    assert (mask[0] == before).all()
    assert (mask[2] == -1).all()  # refused, so it was never filled
    alone = backend.dispatch_regex("[0-9]{2}")
    alone.accept_token(one)
    assert (mask[1] == _row(alone)).all()
    alone.accept_token(two)
    assert (mask[3] == _row(alone)).all()
    assert (mask[4] == -1).all()


def _request(grammar, **custom):
    parameters = SimpleNamespace(custom_params=custom or None, max_new_tokens=12)
    request = SimpleNamespace(sampling_params=parameters, grammar=grammar, aborted=None)
    request.set_finish_with_abort = lambda message: setattr(request, "aborted", message)
    return request


def _manager():
    manager = object.__new__(GrammarManager)
    manager.scheduler = SimpleNamespace(model_config=None)
    return manager


def _allowed(row):
    return {
        int(token)
        for token in (row.view(torch.uint8)[:, None] >> torch.arange(8) & 1).flatten().nonzero().flatten()
    }


@pytest.mark.parametrize("thoughts", [None, 0, 3])
def test_a_request_is_closed_within_its_budget(backend, tokenizer, thoughts):
    register()
    (end,), (letter,) = _ids(tokenizer, "!!"), _ids(tokenizer, "q")
    inner = backend.dispatch_regex("[a-z]{1,40}!!")
    grammar, before = inner, 0
    if thoughts is not None:
        grammar = ReasonerGrammarObject(inner, [letter])
        grammar.maybe_init_reasoning(True)
        before = thoughts + 1
    request = _request(grammar, close_within_budget=True)
    _manager()._apply_request_reasoning_config(request)
    if thoughts is not None:
        for token in [end] * thoughts + [letter]:
            grammar.accept_token(token)
    drawn = 0
    while letter in _allowed(_row(grammar)):
        grammar.accept_token(letter)
        drawn += 1
    assert _allowed(_row(grammar)) == {end}
    assert before + drawn + 2 in (11, 12)  # one is reserved where many are allowed
    grammar.rollback(2)
    assert letter in _allowed(_row(grammar))
    for token in (letter, letter, end):
        grammar.accept_token(token)
    assert _allowed(_row(grammar)) == {tokenizer.eos_token_id}


def test_rows_after_reasoning_are_filled_together(backend, tokenizer):
    """Some requests reason, some have ended it, one has no reasoning; rows are those of SGLang's own wrapper."""
    (mark,) = _ids(tokenizer, "#")
    made = object.__new__(BatchedReasonerBackend)
    fields = {
        "think_end_ids": [mark],
        "think_starts": (),
        "enable_token_filter": False,
        "max_think_tokens": -1,
    }
    rest = {
        "think_excluded_token_ids": None,
        "_token_filter_fn": None,
        "_decode": None,
        "grammar_backend": backend.dispatch_regex("a"),
    }
    made.__dict__.update({**fields, **rest})
    many = []
    for place, pattern in enumerate(("[0-9]+", "[a-z]+", "(x|y)+", "[a-c]{2}")):
        one = made._make_grammar_object(backend.dispatch_regex(pattern), reasoning=place != 2)
        if place % 2:
            one.accept_token(mark)
        many.append(one.copy())
    assert all(isinstance(one, BatchedReasonerObject) for one in many)
    many.append(backend.dispatch_regex("z"))
    mask, expected = (many[0].allocate_vocab_mask(49152, 7, "cpu") for _ in range(2))
    rows = [0, 2, 3, 5, 6]
    entries = [base.GrammarRow(row, grammar) for row, grammar in zip(rows, many, strict=True)]
    many[0].fill_vocab_mask_batched(entries, mask)
    for row, grammar in zip(rows, many, strict=True):
        (RequestGrammar if grammar is many[-1] else ReasonerGrammarObject).fill_vocab_mask(
            grammar, expected, row
        )
    assert (mask == expected).all()
    assert (mask[0] == -1).all() and not (mask[2] == -1).all()


def test_budgets_of_requests_are_checked(backend):
    register()
    strange = _request(backend.dispatch_regex("a"), close_within_budget="maybe")
    _manager()._apply_request_reasoning_config(strange)
    assert "must be true or false" in strange.aborted
    small = _request(backend.dispatch_regex("(one two three ){9}"), close_within_budget=True)
    _manager()._apply_request_reasoning_config(small)
    assert "max_new_tokens=12" in small.aborted
    plain = _request(backend.dispatch_regex("a"))
    _manager()._apply_request_reasoning_config(plain)
    assert plain.aborted is None and plain.grammar.sequence.closing is None


def test_the_cache_is_bounded(backend):
    most = backend.settings.limits.cache_entries
    for place in range(most + 10):
        backend.set_cache(("regex", str(place)), base.BaseGrammarObject())
    assert len(backend.cache) == most
    backend.reset()
