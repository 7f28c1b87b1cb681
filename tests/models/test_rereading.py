"""Models without a usable cache: read again with each token, with one warning; refused if not causal."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import (  # noqa: E402
    AutoModelForCausalLM,
    BertConfig,
    PreTrainedConfig,
    RobertaConfig,
    XLNetConfig,
)

import structgen as sg  # noqa: E402
from structgen.errors import ModelError  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.matcher import Matcher  # noqa: E402
from structgen.models import ModelWarning  # noqa: E402
from structgen.models.batched_session import BatchedSession  # noqa: E402
from structgen.models.rereading import RereadingSession  # noqa: E402
from structgen.models.session import start_session  # noqa: E402
from structgen.speculative import Fixed, ForcedBytes, Speculation, TokenLookup, TriGrams  # noqa: E402

from .tiny import SIZE, tiny_model, tiny_tokenizer  # noqa: E402

NAMES = ["rwkv", "gpt"]
PROMPTS = [[5, 6, 7, 8, 9], [3], [11, 12, 13]]


def started(model: Any, prompts: list[list[int]]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return start_session(model, SIZE, prompts)


@contextmanager
def shapes_of(model: Any) -> Iterator[list[tuple[int, ...]]]:
    """Of what the model reads, pass by pass."""
    shapes: list[tuple[int, ...]] = []
    hook = model.register_forward_pre_hook(
        lambda _module, _arguments, named: shapes.append(tuple(named["input_ids"].shape)), with_kwargs=True
    )
    try:
        yield shapes
    finally:
        hook.remove()


@pytest.mark.parametrize("name", NAMES)
def test_each_model_is_warned_of_once(name: str) -> None:
    model = tiny_model(name)
    with pytest.warns(ModelWarning, match=f"{type(model).__name__} keeps no cache"):
        start_session(model, SIZE, [[5, 6]])
    assert isinstance(start_session(model, SIZE, [[5, 6]]), RereadingSession)
    with pytest.warns(ModelWarning):
        start_session(tiny_model(name), SIZE, [[5, 6]])


@pytest.mark.parametrize("name", NAMES)
def test_a_pass_reads_the_rows_that_go_on(name: str) -> None:
    model = tiny_model(name)
    session = started(model, PROMPTS)
    with shapes_of(model) as shapes:
        session.append_scored([[20, 21], [], [22]])
        session.append([[], [], []])
        session.rollback(0, 1)
        session.rollback(2, 2)
        session.append([[], [30], []])
        assert shapes == [(2, 7), (1, 2)]
        session.logits()
        session.logits()
    assert shapes == [(2, 7), (1, 2), (2, 6)]


@pytest.mark.filterwarnings("ignore::structgen.models.ModelWarning")
@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_tokens_are_the_same_with_and_without_speculation(name: str, temperature: float) -> None:
    model = sg.wrap(tiny_model(name), tiny_tokenizer())
    prompts = [model.encode(text) for text in ("abcabcab", "xy", "aaaa")]
    constraint = sg.regex("(abc|xyz|q[a-f]){4,12}")
    options = SamplingOptions(temperature=temperature, seed=3, max_tokens=40)
    speculation = Speculation([ForcedBytes(), TokenLookup(), TriGrams()], controller=Fixed(4))

    def drawn(drafting: Any) -> list[list[int]]:
        matchers = [Matcher(constraint, model.vocabulary) for _ in prompts]
        return [one.tokens for one in generate_tokens(model, prompts, matchers, options, drafting=drafting)]

    with shapes_of(model.model) as shapes:
        plain = drawn(None)
        passes = len(shapes)
        assert drawn(speculation.start(model)) == plain
    assert len(shapes) - passes < passes
    for prompt, tokens in zip(prompts, plain, strict=True) if temperature == 0 else ():
        matcher = Matcher(constraint, model.vocabulary)
        with torch.inference_mode():
            logits = model.model(input_ids=torch.tensor([[*prompt, *tokens]])).logits[0].numpy()
        for place, token in enumerate(tokens):
            allowed = np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")[:SIZE]
            assert token == np.where(allowed, logits[len(prompt) + place - 1], -np.inf).argmax()
            matcher.advance(token)


def refused(config: PreTrainedConfig, match: str) -> None:
    torch.manual_seed(7)
    model = sg.wrap(AutoModelForCausalLM.from_config(config), tiny_tokenizer())
    for _ in range(2):
        with pytest.raises(ModelError, match=match):
            model.start([[5, 6, 7]])


def test_models_that_see_what_comes_later_are_refused() -> None:
    refused(XLNetConfig(vocab_size=SIZE, d_model=32, n_layer=2, n_head=4), "XLNetLMHeadModel is not causal")
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    for config in (BertConfig(vocab_size=SIZE, **sizes), RobertaConfig(vocab_size=SIZE, **sizes)):
        refused(config, r"(?s)ForCausalLM|LMHeadModel is not causal.*is_decoder=True")


def test_models_that_take_a_cache_and_leave_it() -> None:
    """A cache that is not handed back is not gone on from."""
    model = tiny_model("gpt2")
    forward = type(model).forward

    def without(*arguments: Any, cache: Any = None, past_key_values: Any = None, **named: Any) -> Any:
        output = forward(model, *arguments, **named)
        for name in ("cache", "past_key_values"):
            if hasattr(output, name):
                setattr(output, name, None)
        return output

    model.forward = without
    with pytest.warns(ModelWarning, match="GPT2LMHeadModel keeps no cache"):
        session: Any = start_session(model, SIZE, PROMPTS)
    assert type(session) is RereadingSession
    session.append([[20], [21, 22], []])
    other: Any = start_session(tiny_model("gpt2"), SIZE, [[*PROMPTS[0], 20], [3, 21, 22], PROMPTS[2]])
    assert type(other) is BatchedSession
    np.testing.assert_allclose(session.logits(), other.logits(), rtol=1e-3, atol=2e-4)


def test_models_with_a_cache_are_not_tried() -> None:
    model = tiny_model("llama")
    with shapes_of(model) as shapes:
        start_session(model, SIZE, [[5, 6, 7]])
    assert shapes == [(1, 3)]
