"""The plugin against the interface of an installed vLLM; served answers are checked by `make test-vllm`."""

import asyncio
import inspect
import random
import threading
import time
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
import torch

if find_spec("vllm") is None:
    pytest.skip("vLLM is not installed; make test-vllm runs these", allow_module_level=True)

from vllm.config import StructuredOutputsConfig
from vllm.exceptions import GracefulHTTPError, VLLMValidationError
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.structured_output import StructuredOutputManager
from vllm.v1.structured_output.backend_types import StructuredOutputBackend, StructuredOutputGrammar
from vllm.v1.structured_output.backend_types import StructuredOutputOptions as Option
from vllm.v1.structured_output.request import StructuredOutputRequest

from structgen.integrations.vllm import backend as plugin
from structgen.integrations.vllm import checking, patches, register
from structgen.integrations.vllm.cpu_sampling import correct_cpu_sampling
from structgen.models.embedded import embedded_directory


@pytest.fixture(scope="module", autouse=True)
def registered():
    register()
    register()  # vLLM calls it in each process, possibly again


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(embedded_directory()))


@pytest.fixture(scope="module")
def backend(tokenizer):
    config = SimpleNamespace(structured_outputs_config=StructuredOutputsConfig(backend="structgen"))
    made = plugin.StructgenBackend(config, tokenizer=tokenizer, vocab_size=49152)
    yield made
    made.destroy()


def test_the_installed_vllm_has_the_expected_interface():
    assert patches.fits() == []


def test_missing_attributes_raise_an_error_and_nothing_is_changed(monkeypatch):
    monkeypatch.delattr(StructuredOutputManager, "grammar_bitmask")
    assert any("grammar_bitmask" in problem for problem in patches.fits())
    assert patches.patch() is False


def test_a_changed_signature_raises_an_error(monkeypatch):
    monkeypatch.setattr(StructuredOutputManager, "grammar_init", lambda self, other: None)
    assert any("grammar_init takes other" in problem for problem in patches.fits())


def test_the_name_is_taken_and_others_are_not():
    assert StructuredOutputsConfig(backend="structgen").backend == "structgen"
    assert StructuredOutputsConfig().backend == "auto"
    with pytest.raises(ValueError, match="structgen"):
        StructuredOutputsConfig(backend="nothing")  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.int64])
def test_each_request_has_its_temperature_where_drafts_are_verified(dtype, monkeypatch):
    from vllm.v1.sample import rejection_sampler

    monkeypatch.setattr(rejection_sampler, "expand_batch_to_tokens", None)
    correct_cpu_sampling()
    values, ends = torch.tensor([3, 0, 2, 5], dtype=dtype), torch.tensor([2, 3, 3, 6], dtype=torch.int32)
    found = rejection_sampler.expand_batch_to_tokens(values, ends, 6, 0, 1)
    assert found.dtype == dtype
    assert found.tolist() == [3, 3, 1, 5, 5, 5]


def test_the_classes_are_whole():
    assert not plugin.StructgenGrammar.__abstractmethods__
    assert not plugin.StructgenBackend.__abstractmethods__
    for name, base in inspect.getmembers(StructuredOutputGrammar, inspect.isfunction):
        if not name.startswith("_"):
            own = inspect.signature(getattr(plugin.StructgenGrammar, name)).parameters
            assert list(own) == list(inspect.signature(base).parameters), name
    compile_own = inspect.signature(plugin.StructgenBackend.compile_grammar).parameters
    assert list(compile_own) == list(inspect.signature(StructuredOutputBackend.compile_grammar).parameters)


@pytest.mark.parametrize("option", list(Option))
def test_every_kind_has_a_name(option):
    assert option in plugin.KIND_OF


def _row(grammar, backend):
    bitmask = backend.allocate_token_bitmask(2)
    grammar.fill_bitmask(bitmask, 1)
    assert (bitmask[0] == -1).all()
    return bitmask[1].numpy().copy()


def test_drafts_are_validated_without_advancing_and_rolled_back(backend, tokenizer):
    grammar = backend.compile_grammar(Option.REGEX, "(red|green) [0-9]{3}", {tokenizer.eos_token_id})
    text = tokenizer.encode("red 123", add_special_tokens=False)
    first = _row(grammar, backend)
    assert grammar.validate_tokens([*text, tokenizer.eos_token_id]) == [*text, tokenizer.eos_token_id]
    wrong = tokenizer.encode("blue", add_special_tokens=False)
    assert grammar.validate_tokens([text[0], *wrong]) == text[:1]
    assert (_row(grammar, backend) == first).all()
    assert grammar.accept_tokens("r", text[:2])
    grammar.rollback(2)
    assert (_row(grammar, backend) == first).all()
    assert grammar.accept_tokens("r", [*text, tokenizer.eos_token_id])
    assert grammar.is_terminated()
    assert (_row(grammar, backend) == -1).all()
    assert grammar.validate_tokens(text) == []
    grammar.rollback(1)
    assert not grammar.is_terminated()
    grammar.reset()
    assert (_row(grammar, backend) == first).all()
    assert not grammar.accept_tokens("r", wrong)


def test_stop_tokens_of_a_request_are_masked_until_the_text_is_complete(backend, tokenizer):
    (stop,) = tokenizer.encode("!", add_special_tokens=False)
    grammar = backend.compile_grammar(Option.REGEX, "[a-z]{2,4}", {tokenizer.eos_token_id, stop})

    def allows(token):
        return bool(_row(grammar, backend)[token // 32] >> (token % 32) & 1)

    assert not allows(stop)
    assert grammar.accept_tokens("r", tokenizer.encode("ab", add_special_tokens=False))
    assert allows(stop)
    assert grammar.accept_tokens("r", [stop])
    assert grammar.is_terminated()


def test_a_batch_has_the_rows_of_each(backend):
    specs = ["[a-z]+", "[0-9]{2}", "(x|y)z", "[a-z]+"]
    grammars = [backend.compile_grammar(Option.REGEX, spec, set()) for spec in specs]
    bitmask = backend.allocate_token_bitmask(8)
    out = plugin.fill_batch(backend, [plugin.Rows(grammar) for grammar in grammars], bitmask)
    assert out.shape == (4, backend.vocabulary.words)
    for row, grammar in enumerate(grammars):
        assert (out[row] == _row(grammar, backend)).all()


def _engine():
    config = SimpleNamespace(structured_outputs_config=StructuredOutputsConfig(backend="structgen"))
    return SimpleNamespace(vllm_config=config)


def _model():
    return SimpleNamespace(is_diffusion=False, get_vocab_size=lambda: 49152)


def test_bad_requests_are_refused_in_the_front_end(tokenizer):
    model, config = _model(), StructuredOutputsConfig(backend="structgen")

    def validated(**wanted):
        params = SamplingParams(structured_outputs=StructuredOutputsParams(**wanted))
        params._validate_structured_outputs(model, config, tokenizer)
        return params.structured_outputs

    try:
        assert validated(json={"type": "object"})._backend == "structgen"
        assert validated(choice=["a", "b"])._backend == "structgen"
        for wanted, message in (
            ({"json": {"type": "objct"}}, "did you mean 'object'"),
            ({"regex": "("}, "not closed"),
            ({"grammar": "root ::= missing"}, "missing"),
            ({"choice": []}, "at least one text"),
            ({"structural_tag": '{"type": "structural_tag"}'}, "a structural tag has"),
            ({"json_object": False}, "must be true or absent"),
            ({"json": {"type": "object"}, "whitespace_pattern": " "}, "whitespace_pattern is not supported"),
        ):
            with pytest.raises(VLLMValidationError) as caught:
                validated(**wanted)
            assert message in str(caught.value)
        params = SamplingParams(structured_outputs=StructuredOutputsParams(regex="("))
        with pytest.raises(VLLMValidationError):
            checking.refuse_at_once(params, model)
        threads = threading.active_count()
        begin = time.monotonic()
        asyncio.run(checking.probe_ahead(params, model, SimpleNamespace(tokenizer=tokenizer)))
        assert time.monotonic() - begin < 300  # it waits for nothing that never comes
        assert threading.active_count() <= threads + 1
    finally:
        checking._checkers.pop(id(model))[1].close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"extra_args": {"close_within_budget": "maybe"}, "regex": "ab"}, "must be true or false"),
        (
            {"extra_args": {"close_within_budget": True}, "regex": "(ab cd ef gh){9}", "max_tokens": 5},
            "Raise max_tokens",
        ),
        ({"extra_args": {"close_within_budget": 1}}, "needs structured output"),
        ({"extra_args": {"close_within_budget": "true"}, "regex": "ab"}, None),
        ({"extra_args": {"close_within_budget": False}}, None),
    ],
)
def test_budgets_are_checked_in_the_front_end(tokenizer, options, message):
    pattern = options.pop("regex", None)
    wanted = None if pattern is None else StructuredOutputsParams(regex=pattern)
    params = SamplingParams(structured_outputs=wanted, **options)
    model, config = _model(), StructuredOutputsConfig(backend="structgen")
    try:
        if message is None:
            params._validate_structured_outputs(model, config, tokenizer)
        else:
            with pytest.raises(VLLMValidationError, match=message):
                params._validate_structured_outputs(model, config, tokenizer)
    finally:
        if id(model) in checking._checkers:
            checking._checkers.pop(id(model))[1].close()


def test_transient_errors_do_not_blame_the_request(tokenizer, monkeypatch):
    monkeypatch.setenv("STRUCTGEN_SERVING", '{"max_pending": 1, "workers": 1}')
    model = _model()
    checker = checking._checker(model, tokenizer)
    slow = 'root ::= "a" | ' + " | ".join(f'"{k}" root' for k in range(20_000))
    params = SamplingParams(structured_outputs=StructuredOutputsParams(regex="ab"))
    try:
        checker.submit("grammar", slow)
        with pytest.raises(GracefulHTTPError) as caught:
            asyncio.run(checking.probe_ahead(params, model, SimpleNamespace(tokenizer=tokenizer)))
        assert caught.value.http_status == 429 and "wait to be compiled" in str(caught.value)
        with pytest.raises(GracefulHTTPError):
            checking.refuse_at_once(params, model)
        checker.close()
        with pytest.raises(GracefulHTTPError) as caught:
            checking.refuse_at_once(params, model)
        assert caught.value.http_status == 503
    finally:
        checking._checkers.pop(id(model))[1].close()


def test_another_backend_is_left_to_vllm(tokenizer):
    params = SamplingParams(structured_outputs=StructuredOutputsParams(choice=["a"]))
    params._validate_structured_outputs(_model(), StructuredOutputsConfig(backend="xgrammar"), tokenizer)
    assert params.structured_outputs._backend == "xgrammar"
    assert inspect.unwrap(AsyncLLM.generate) is not AsyncLLM.generate


def _manager(backend, reasoner=None, drafts=0):
    import torch

    manager = object.__new__(StructuredOutputManager)
    manager.backend, manager.reasoner_cls, manager._grammar_bitmask = backend, reasoner, None
    manager.enable_in_reasoning = False
    manager.fill_bitmask_parallel_threshold = 128
    manager._full_mask = torch.tensor(-1, dtype=torch.int32)
    manager.vllm_config = SimpleNamespace(
        structured_outputs_config=StructuredOutputsConfig(backend="structgen"),
        num_speculative_tokens=drafts,
        speculative_config=None,
        scheduler_config=SimpleNamespace(max_num_seqs=8),
        model_config=SimpleNamespace(is_diffusion=False),
    )
    return manager


def _request(grammar, prompt=(), output=(), reasoner=None):
    wanted = StructuredOutputRequest(StructuredOutputsParams(regex="a"), grammar, reasoner=reasoner)
    return SimpleNamespace(
        structured_output_request=wanted,
        use_structured_output=True,
        request_id="r",
        prompt_token_ids=list(prompt),
        all_token_ids=[*prompt, *output],
        num_output_tokens=len(output),
        max_tokens=64,
        sampling_params=None,
    )


def _both(manager, requests, drafts):
    """Return the rows that the plugin fills, and those of vLLM's own code."""
    ours = np.array(manager.grammar_bitmask(requests, list(requests), drafts))
    original = inspect.unwrap(StructuredOutputManager.grammar_bitmask)
    return ours, np.array(original(manager, requests, list(requests), drafts))


def test_rows_of_the_manager_are_those_that_vllm_fills_itself(backend):
    grammars = [
        backend.compile_grammar(Option.REGEX, spec, set()) for spec in ("[a-z]+", "[0-9]{2}", "(x|y)z")
    ]
    requests = {str(place): _request(grammar) for place, grammar in enumerate(grammars)}
    ours, theirs = _both(_manager(backend), requests, {})
    assert ours.shape == theirs.shape
    assert (ours == theirs).all()


def _allowed(row):
    return {int(token) for token in np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))}


@pytest.mark.parametrize("before", [0, 3])  # tokens of reasoning
def test_a_request_is_closed_within_its_budget(backend, tokenizer, before):
    grammar = backend.compile_grammar(Option.REGEX, "[a-z]+!!", {tokenizer.eos_token_id})
    letter, end = (
        tokenizer.encode("q", add_special_tokens=False)[0],
        tokenizer.encode("!!", add_special_tokens=False),
    )
    manager = _manager(backend, drafts=2)
    manager.vllm_config.model_config.max_model_len = 512
    request = _request(grammar, [1], [1] * before)
    request.num_prompt_tokens, request.max_tokens = 1, before + 5  # one is reserved where many are allowed
    request.sampling_params = SamplingParams(extra_args={"close_within_budget": True})
    request.structured_output_request.reasoning_ended = True
    rows = manager.grammar_bitmask({"r": request}, ["r"], {"r": [letter, letter]}).copy()
    assert len(end) == 1
    assert letter in _allowed(rows[0]) and letter in _allowed(rows[1])
    assert _allowed(rows[2]) == set(end)
    grammar.accept_tokens("r", [letter, letter])
    request.num_output_tokens += 2
    assert _allowed(manager.grammar_bitmask({"r": request}, ["r"], {})[0].copy()) == set(end)
    grammar.accept_tokens("r", end)
    request.num_output_tokens += 1
    assert _allowed(manager.grammar_bitmask({"r": request}, ["r"], {})[0].copy()) == {tokenizer.eos_token_id}


class _Reasoner:
    """A reasoning parser for one end token, as vLLM calls it."""

    def __init__(self, end):
        self._end = end

    def is_reasoning_end(self, ids):
        return self._end in ids

    def is_reasoning_end_streaming(self, ids, delta):
        return self._end in delta


@pytest.mark.parametrize("seed", range(6))
def test_rows_of_drafts_and_reasoning_are_those_that_vllm_fills_itself(backend, tokenizer, seed):
    rng = random.Random(seed)
    end = tokenizer.encode("#", add_special_tokens=False)[0]
    words = tokenizer.encode("red green 123 9 x", add_special_tokens=False)
    eos = tokenizer.eos_token_id
    manager = _manager(backend, reasoner=_Reasoner, drafts=4)
    for _ in range(12):
        requests, drafts = {}, {}
        for place in range(rng.randint(1, 5)):
            stops = {eos, *rng.sample(words, rng.randint(0, 2))}
            grammar = backend.compile_grammar(Option.REGEX, "((red|green)? ?[0-9]{0,3})+x?", stops)
            prompt = rng.choice([[end], [words[0]]])
            name = str(place)
            requests[name] = _request(grammar, prompt, reasoner=_Reasoner(end))
            if rng.random() < 0.3:
                requests[name].structured_output_request.reasoning_ended = True
            proposed = [rng.choice([*words, end, eos]) for _ in range(rng.randint(0, 4))]
            valid = manager.validate_tokens(requests[name], proposed)
            if rng.random() < 0.2:
                valid = proposed
            drafts[name] = valid + [-1] * rng.randint(0, 4 - len(valid))
        ours, theirs = _both(manager, requests, drafts)
        assert ours.shape == theirs.shape
        at = 0
        for name in requests:
            rows = len([token for token in drafts[name] if token >= 0]) + 1
            assert (ours[at : at + rows] == theirs[at : at + rows]).all(), (drafts[name], rows)
            at += len(drafts[name]) + 1
