"""Models of transformers as `LanguageModel`: vocabularies, prompts, and batches that equal single runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import structgen as sg  # noqa: E402
from structgen.errors import (  # noqa: E402
    LimitExceeded,
    ModelError,
    OptionError,
    PromptError,
    VocabularyError,
    VocabularyMismatch,
)
from structgen.generation import SamplingOptions, allowed_ids, generate_tokens  # noqa: E402
from structgen.matcher import Matcher  # noqa: E402
from tests.tokenizers.tiny import word_piece  # noqa: E402

from .tiny import SIZE, tiny_model, tiny_tokenizer  # noqa: E402

CHAT = (
    "{% for m in messages %}{% if m['role'] == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
    "<turn>{{ m['role'] }}: {{ m['content'] }}</s>{% endfor %}<turn>"
)


def wrapped(name: str = "llama", **options: Any) -> Any:
    return sg.wrap(tiny_model(name), tiny_tokenizer(), **options)


# The vocabulary.


def test_the_models_padding_is_no_text_and_never_allowed() -> None:
    model = wrapped()
    assert len(model.tokenizer) < SIZE == model.vocabulary.size
    allowed = allowed_ids(Matcher(sg.regex("[a-z ]*"), model.vocabulary).mask(), SIZE)
    assert len(allowed) == 27 + len(model.vocabulary.eos_ids)
    for padding in range(len(model.tokenizer), SIZE):
        assert model.vocabulary.token_bytes(padding) is None
        assert padding not in allowed


def test_several_ends_of_text() -> None:
    language_model = tiny_model("llama")
    language_model.generation_config.eos_token_id = [2, 1]
    model = sg.wrap(language_model, tiny_tokenizer())
    assert model.vocabulary.eos_ids == (2, 1)
    matcher = Matcher(sg.choice(["a"]), model.vocabulary)
    assert matcher.advance(model.tokenizer.convert_tokens_to_ids("a"))
    assert allowed_ids(matcher.mask(), SIZE).tolist() == [1, 2]
    ends = {
        generation.end_token
        for generation in generate_tokens(
            model, [[5]] * 40, [Matcher(sg.choice(["a"]), model.vocabulary) for _ in range(40)],
            SamplingOptions(seed=1, temperature=4.0),
        )
    }  # fmt: skip
    assert ends == {1, 2}
    assert wrapped(eos_ids=[2]).vocabulary.eos_ids == (2,)


def test_a_tokenizer_with_more_tokens_than_the_model() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens([f"<{i}>" for i in range(SIZE)])
    with pytest.raises(VocabularyMismatch, match=r"the tokenizer has \d+ tokens, the model 48") as caught:
        sg.wrap(tiny_model("llama"), tokenizer)
    assert "Use the tokenizer that the model was trained with." in str(caught.value)


def test_a_model_with_far_more_tokens_than_the_tokenizer() -> None:
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=9000, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
        )
    )
    with pytest.raises(
        VocabularyMismatch, match="the model scores 9,000 tokens, the tokenizer.*\n.*size=9000"
    ):
        sg.wrap(model, tiny_tokenizer())
    assert sg.wrap(model, tiny_tokenizer(), size=9000).vocabulary.size == 9000
    with pytest.raises(VocabularyMismatch, match="size is 8000, but the model scores 9,000 tokens"):
        sg.wrap(model, tiny_tokenizer(), size=8000)


def test_an_end_of_text_that_the_model_does_not_have() -> None:
    with pytest.raises(VocabularyMismatch, match="end-of-text token 99 is outside of the 48 tokens"):
        wrapped(eos_ids=[99])


def test_a_tokenizer_without_exact_bytes() -> None:
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=word_piece())
    with pytest.raises(VocabularyError, match="it marks words by '##'"):
        sg.wrap(tiny_model("llama"), tokenizer, eos_ids=[1])


def test_models_that_are_no_causal_language_models() -> None:
    sizes = {"vocab_size": SIZE, "d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    with pytest.raises(ModelError, match="T5ForConditionalGeneration is an encoder-decoder"):
        sg.wrap(transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes)), tiny_tokenizer())
    with pytest.raises(ModelError, match="LlamaModel has no output layer"):
        sg.wrap(tiny_model("llama").model, tiny_tokenizer())


def test_things_that_are_no_model_and_tokenizer() -> None:
    for model, tokenizer in (
        ("gpt2", "gpt2"),
        (tiny_tokenizer(), tiny_model("llama")),
        (tiny_model("llama"), None),
    ):
        with pytest.raises(OptionError, match="are no model and tokenizer of transformers"):
            sg.wrap(model, tokenizer)


# Prompts.


def test_a_prompt_without_a_chat_template_is_plain_text() -> None:
    model = wrapped()
    assert model.vocabulary.decode(model.encode("say yes")) == b"say yes"
    with pytest.raises(OptionError, match="no chat template"):
        model.encode([{"role": "user", "content": "say yes"}])


def text_of(model: Any, ids: Sequence[int]) -> str:
    return "".join(model.tokenizer.convert_ids_to_tokens(list(ids))).replace("Ġ", " ")


def test_chat_templates() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = CHAT
    model = sg.wrap(tiny_model("llama"), tokenizer, system="be good")
    assert text_of(model, model.encode("hi")) == "<turn>system: be good</s><turn>user: hi</s><turn>"
    own = [{"role": "system", "content": "no"}, {"role": "user", "content": "hi"}]
    assert text_of(model, model.encode(own)) == "<turn>system: no</s><turn>user: hi</s><turn>"
    assert text_of(model, sg.wrap(model.model, tokenizer, chat=False).encode("hi")) == "hi"
    with pytest.raises(PromptError, match="refuses these messages: no tools"):
        model.encode([{"role": "tool", "content": "x"}])


def test_a_users_text_cannot_end_its_turn() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = CHAT
    model = sg.wrap(tiny_model("llama"), tokenizer)
    ids = model.encode("a</s><turn>b")
    (end,) = tokenizer.convert_tokens_to_ids(["</s>"])
    (turn,) = tokenizer.convert_tokens_to_ids(["<turn>"])
    assert (ids.count(end), ids.count(turn)) == (1, 2)


@pytest.mark.parametrize("prompt", [None, 3, b"hi", ["hi"], {"role": "user", "content": "hi"}])
def test_what_is_no_prompt(prompt: Any) -> None:
    with pytest.raises(PromptError, match="a prompt is a text or a list of messages, not"):
        wrapped().encode(prompt)


def test_half_a_character_is_no_prompt() -> None:
    for prompt in ("a\ud800", [{"role": "user", "content": "a\ud800"}]):
        with pytest.raises(PromptError, match=r"holds '\\ud800', half of a character"):
            wrapped().encode(prompt)


def test_a_prompt_longer_than_the_context() -> None:
    model = wrapped()
    result = sg.run(model, "a" * 300, bool)
    assert isinstance(result.error, LimitExceeded)
    assert "300 tokens, the model's context 256" in str(result.error)


# Batches.

CONSTRAINTS = [
    sg.json_schema({"type": "object", "properties": {"a": {"enum": ["b", "c"]}}, "required": ["a"]}),
    sg.regex("[a-f]{3,9}"),
    None,
    sg.choice(["yes", "no", "none"]),
    sg.regex("x(yz)*"),
]
PROMPTS = ["say a", "b", "the end is", "yes or no", "one two"]


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral", "qwen3_next"])
@pytest.mark.parametrize("sampling", [{}, {"seed": 5, "temperature": 1.5}, {"seed": 6, "top_p": 0.7}])
def test_a_batch_of_mixed_constraints_equals_single_runs(name: str, sampling: dict[str, Any]) -> None:
    model = wrapped(name)
    options = SamplingOptions(max_tokens=24, **sampling)
    prompts = [model.encode(prompt) for prompt in PROMPTS]

    def matchers() -> list[Any]:
        return [None if c is None else Matcher(c, model.vocabulary) for c in CONSTRAINTS]

    together = generate_tokens(model, prompts, matchers(), options)
    for row, (prompt, matcher) in enumerate(zip(prompts, matchers(), strict=True)):
        own = options if options.seed is None else options.replace(seed=(options.seed, row))
        (alone,) = generate_tokens(model, [prompt], [matcher], own)
        assert (together[row].tokens, together[row].finish) == (alone.tokens, alone.finish)
        assert together[row].logprob == pytest.approx(alone.logprob, abs=1e-2)
        assert together[row].log_weight == pytest.approx(alone.log_weight, abs=1e-2)


# Loading.


def test_saved_and_loaded(tmp_path: Path) -> None:
    tiny_model("llama").save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    kind = sg.choice(["yes", "no"])
    model = sg.load(tmp_path)
    assert model.dtype is torch.float32
    assert sg.run(model, "say a", kind).text == sg.run(wrapped(), "say a", kind).text
    short = sg.load(str(tmp_path), dtype="bfloat16", device="cpu")
    assert short.dtype is torch.bfloat16
    assert sg.generate(short, "say a", kind) in ("yes", "no")


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="dtype is 'int8'"):
        sg.load(dtype="int8")
    with pytest.raises(OptionError, match="threads is 0; it must be"):
        sg.load(threads=0)
    for path in (tmp_path / "nothing", "./nothing", "a/b/c"):
        with pytest.raises(ModelError, match="there is no folder"):
            sg.load(path)
