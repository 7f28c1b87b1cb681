"""The logits processor with all modes of ``model.generate``, on a tiny random model, and called directly.

The model is random, so nothing but the constraint makes its text a member of the language; drafts of another
random model are nearly always wrong, which is what assisted decoding must survive.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import structgen as sg
from structgen.errors import OptionError, VocabularyError, VocabularyMismatch
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from structgen.integrations.transformers import ConstraintProcessor  # noqa: E402

EOS, PAD = 256, 257
WIDTH = 264
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 2},
    },
    "required": ["name", "tags"],
    "additionalProperties": False,
}
PROMPTS = ['{"name": "ab", "tags": ["red"]} {"na', '["red", "green"]']


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary.from_tokens([bytes([i]) for i in range(256)], eos_ids=[EOS], size=258)


def tiny_model(seed: int) -> Any:
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=WIDTH,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=512,
        eos_token_id=EOS,
        bos_token_id=PAD,
        pad_token_id=PAD,
        initializer_range=1.0,
    )
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_model(1)


@pytest.fixture(scope="module")
def assistant() -> Any:
    return tiny_model(2)


@pytest.fixture(scope="module")
def schema() -> Any:
    return sg.json_schema(SCHEMA, whitespace="compact")


def encode(*prompts: str) -> dict[str, Any]:
    """Return the prompts as bytes, padded on the left."""
    width = max(map(len, prompts))
    ids = [[PAD] * (width - len(p)) + list(p.encode()) for p in prompts]
    tensor = torch.tensor(ids)
    return {"input_ids": tensor, "attention_mask": (tensor != PAD).long()}


def texts(output: Any, prompt_width: int) -> list[bytes]:
    """Return the generated texts up to EOS; each text must have ended."""
    found = []
    for row in output[:, prompt_width:].tolist():
        assert EOS in row, "the text did not end"
        found.append(bytes(row[: row.index(EOS)]))
    return found


def check_value(text: bytes) -> None:
    value = json.loads(text)
    assert set(value) == {"name", "tags"}
    assert len(value["name"]) <= 6
    assert set(value["tags"]) <= {"red", "green"}


def generate(model: Any, processor: Any, *prompts: str, **options: Any) -> list[bytes]:
    inputs = encode(*prompts)
    output = model.generate(**inputs, logits_processor=[processor], max_new_tokens=120, **options)
    return texts(output, inputs["input_ids"].shape[1])


def test_greedy_and_one_processor_for_many_generations(model: Any, vocabulary: Any, schema: Any) -> None:
    processor = ConstraintProcessor(schema, vocabulary)
    first = generate(model, processor, PROMPTS[0], do_sample=False)
    check_value(first[0])
    check_value(generate(model, processor, PROMPTS[1], do_sample=False)[0])
    assert generate(model, processor, PROMPTS[0], do_sample=False) == first


def test_sampling_a_batch_of_different_prompts(model: Any, vocabulary: Any, schema: Any) -> None:
    for seed in range(5):
        torch.manual_seed(seed)
        found = generate(model, ConstraintProcessor(schema, vocabulary), *PROMPTS, do_sample=True)
        assert len(found) == 2
        for text in found:
            check_value(text)


def test_one_constraint_per_prompt_with_several_samples_each(
    model: Any, vocabulary: Any, schema: Any
) -> None:
    torch.manual_seed(3)
    processor = ConstraintProcessor([schema, sg.choice(["yes", "no"])], vocabulary)
    found = generate(model, processor, *PROMPTS, do_sample=True, num_return_sequences=3)
    for text in found[:3]:
        check_value(text)
    assert set(found[3:]) <= {b"yes", b"no"}


def test_a_batch_with_a_free_and_a_constrained_prompt(model: Any, vocabulary: Any) -> None:
    inputs = encode(*PROMPTS)
    free = model.generate(**inputs, max_new_tokens=8, do_sample=False)
    processor = ConstraintProcessor([None, sg.choice(["yes", "no"])], vocabulary)
    mixed = model.generate(**inputs, max_new_tokens=8, do_sample=False, logits_processor=[processor])
    assert mixed[0].tolist() == free[0].tolist()
    assert texts(mixed[1:], inputs["input_ids"].shape[1])[0] in {b"yes", b"no"}


def test_a_type_is_a_constraint(model: Any, vocabulary: Any) -> None:
    (found,) = generate(model, ConstraintProcessor(bool, vocabulary), PROMPTS[0], do_sample=False)
    assert found in {b"true", b"false"}


@pytest.mark.parametrize("sampled", [False, True])
def test_beams(model: Any, vocabulary: Any, schema: Any, sampled: bool) -> None:
    torch.manual_seed(0)
    found = generate(
        model,
        ConstraintProcessor(schema, vocabulary),
        *PROMPTS,
        num_beams=4,
        num_return_sequences=2,
        do_sample=sampled,
        early_stopping=True,
    )
    assert len(found) == 4
    for text in found:
        check_value(text)


def test_more_beams_than_texts(model: Any, vocabulary: Any) -> None:
    (found,) = generate(model, ConstraintProcessor(sg.choice(["a", "b"]), vocabulary), "x", num_beams=5)
    assert found in {b"a", b"b"}


def test_prompt_lookup_gives_the_plain_text(model: Any, vocabulary: Any, schema: Any) -> None:
    for prompt in PROMPTS:
        plain = generate(model, ConstraintProcessor(schema, vocabulary), prompt, do_sample=False)
        looked_up = generate(
            model,
            ConstraintProcessor(schema, vocabulary),
            prompt,
            do_sample=False,
            prompt_lookup_num_tokens=5,
        )
        assert looked_up == plain


@pytest.mark.parametrize("drafter", ["itself", "another"])
def test_assisted_decoding_gives_the_plain_text(
    model: Any, assistant: Any, vocabulary: Any, schema: Any, drafter: str
) -> None:
    helper = tiny_model(1) if drafter == "itself" else assistant
    for prompt in PROMPTS:
        plain = generate(model, ConstraintProcessor(schema, vocabulary), prompt, do_sample=False)
        assisted = generate(
            model, ConstraintProcessor(schema, vocabulary), prompt, do_sample=False, assistant_model=helper
        )
        assert assisted == plain


def test_assisted_sampling_stays_in_the_language(
    model: Any, assistant: Any, vocabulary: Any, schema: Any
) -> None:
    for seed in range(5):
        torch.manual_seed(seed)
        (found,) = generate(
            model,
            ConstraintProcessor(schema, vocabulary),
            PROMPTS[0],
            do_sample=True,
            assistant_model=assistant,
        )
        check_value(found)


# One processor for prompts that begin with one another.

FAMILY = [
    "Is water wet",
    "Is water wet ",
    "Is water wet today",
    "Is water wet?",
    "Is water",
    "Is water wety",
    "Is",
]
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True},
    "several samples": {"do_sample": True, "num_return_sequences": 3},
    "beams": {"do_sample": False, "num_beams": 3, "num_return_sequences": 2},
    "prompt lookup": {"do_sample": False, "prompt_lookup_num_tokens": 4},
    "assisted": {"do_sample": False, "assistant_model": True},
    "one token": {"do_sample": False, "max_new_tokens": 1},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "constraint", [sg.choice(["yes", "no"]), sg.regex("[a-f]{1,5}")], ids=["choice", "regex"]
)
def test_a_reused_processor_takes_no_prompt_for_a_continuation(
    model: Any, assistant: Any, vocabulary: Any, constraint: Any, way: str
) -> None:
    options = {"max_new_tokens": 7, **WAYS[way]}
    if "assistant_model" in options:
        options["assistant_model"] = assistant
    reused = ConstraintProcessor(constraint, vocabulary)
    rng = random.Random(way)
    prompts = [*FAMILY[:3], FAMILY[0], *(rng.choice(FAMILY) for _ in range(8 if way != "assisted" else 4))]
    answer = ""
    for number, prompt in enumerate(prompts):
        if way != "one token" and number % 4 == 3 and prompts[number - 2] != prompts[number - 1]:
            prompt = prompts[number - 1] + answer + rng.choice(["", ".", " and"])  # as in a conversation
        inputs = encode(prompt)
        outputs = []
        for processor in (reused, ConstraintProcessor(constraint, vocabulary)):
            torch.manual_seed(number)
            outputs.append(
                model.generate(**inputs, logits_processor=[processor], **options)[:, len(prompt) :]
            )
        assert torch.equal(*outputs), (number, prompt)
        found = bytes(token for token in outputs[0][0].tolist() if token < 256).decode()
        assert way == "one token" or sg.Matcher(constraint, vocabulary).explain(found).ok
        answer = found


def test_batches_of_prompts_that_go_on(model: Any, vocabulary: Any) -> None:
    constraints = [sg.choice(["yes", "no"]), sg.regex("[0-9]{2}")]
    reused = ConstraintProcessor(constraints, vocabulary)
    for prompts in (
        ["one", "two"],
        ["one more", "two more"],
        ["one", "two"],
        ["oney", "two7"],
        ["one.", "two."],
    ):
        for options in ({"do_sample": False}, {"do_sample": False, "num_beams": 3}):
            fresh = ConstraintProcessor(constraints, vocabulary)
            first = generate(model, fresh, *prompts, **options)
            assert generate(model, reused, *prompts, **options) == first
            assert first[0] in {b"yes", b"no"} and first[1].isdigit()


def test_an_answer_that_the_mask_does_not_allow_is_a_prompt(vocabulary: Any) -> None:
    """The example of water: tokens are words."""
    words = [b"Is", b" water", b" wet", b" today", b"yes", b"no"]
    vocabulary = Vocabulary.from_tokens([*words, None], eos_ids=[6])

    def allowed(processor: Any, *ids: int) -> list[int]:
        return torch.nonzero(processor(torch.tensor([ids]), torch.zeros(1, 7))[0] == 0).flatten().tolist()

    processor = ConstraintProcessor(sg.choice(["yes", "no"]), vocabulary)
    assert allowed(processor, 0, 1, 2) == [4, 5]
    assert allowed(processor, 0, 1, 2, 4) == [6]
    assert allowed(processor, 0, 1, 2, 3) == [4, 5]  # "Is water wet today"
    assert allowed(processor, 0, 1, 2, 3, 5) == [6]
    assert allowed(processor, 0, 1, 2) == [4, 5]
    assert allowed(processor, 0, 1, 2, 3) == [4, 5]  # one token longer: a draft, or a prompt
    assert allowed(processor, 0, 1, 2, 4) == [6]  # it was a draft


# By hand: the scores depend on the ids alone.


def allowed(matcher: Matcher) -> set[int]:
    bits = matcher.mask()
    return {t for t in range(258) if int(bits[t >> 5]) >> (t & 31) & 1}


def test_scores_depend_on_the_ids_alone(vocabulary: Any, schema: Any) -> None:
    """Random jumps between drafts, copies and reorderings of four rows, against a fresh matcher each time."""
    rng = random.Random(5)
    processor = ConstraintProcessor(schema, vocabulary, prompt_length=3)
    prompt = [1, 2, 3]
    texts = [[] for _ in range(4)]  # type: list[list[int]]
    processor(torch.tensor([prompt] * 4), torch.zeros(4, WIDTH))
    longest = 0
    for _ in range(60):
        length = rng.randint(0, min(longest + 1, 25))
        longest = max(longest, length)
        texts = [list(rng.choice(texts)) for _ in texts]
        for i, text in enumerate(texts):
            del text[min(length, rng.randint(0, 40)) :]
            while len(text) < length:
                matcher = Matcher(schema, vocabulary)
                known = all(map(matcher.advance, text)) and not matcher.is_finished
                options = sorted(allowed(matcher)) if known and rng.random() < 0.95 else range(WIDTH)
                text.append(rng.choice(options))
            texts[i] = text
        scores = torch.rand(4, WIDTH)
        before = scores.clone()
        out = processor(torch.tensor([prompt + text for text in texts]), scores)
        assert torch.equal(scores, before)
        assert out is not scores
        for text, row, given in zip(texts, out, before, strict=True):
            matcher = Matcher(schema, vocabulary)
            alive = all(map(matcher.advance, text)) and not matcher.is_finished
            expected = allowed(matcher) if alive else {EOS}
            assert set(torch.nonzero(row > -float("inf")).flatten().tolist()) == expected
            assert all(row[t] == given[t] for t in expected)


def test_prompt_length_for_a_text_that_has_started(vocabulary: Any) -> None:
    processor = ConstraintProcessor(sg.choice(["alpha", "beta"]), vocabulary, prompt_length=2)
    out = processor(torch.tensor([[1, 2, *b"al"]]), torch.zeros(1, WIDTH))
    assert torch.nonzero(out[0] == 0).flatten().tolist() == [ord("p")]


def test_reset_makes_a_text_part_of_the_next_prompt(vocabulary: Any) -> None:
    processor = ConstraintProcessor(sg.choice(["ab"]), vocabulary)
    processor(torch.tensor([[1]]), torch.zeros(1, WIDTH))
    processor(torch.tensor([[1, ord("a")]]), torch.zeros(1, WIDTH))
    processor.reset()
    out = processor(torch.tensor([[1, ord("a")]]), torch.zeros(1, WIDTH))
    assert torch.nonzero(out[0] == 0).flatten().tolist() == [ord("a")]


def test_half_precision(vocabulary: Any) -> None:
    processor = ConstraintProcessor(sg.choice(["ab"]), vocabulary)
    out = processor(torch.tensor([[1]]), torch.zeros(1, WIDTH, dtype=torch.bfloat16))
    assert out.dtype is torch.bfloat16
    assert torch.nonzero(out[0] == 0).flatten().tolist() == [ord("a")]


@pytest.mark.parametrize(("width", "said"), [(100, "cannot produce"), (100_000, "100,000 tokens.*258")])
def test_a_vocabulary_of_another_width(vocabulary: Any, width: int, said: str) -> None:
    processor = ConstraintProcessor(sg.choice(["ab"]), vocabulary)
    with pytest.raises(VocabularyMismatch, match=said) as caught:
        processor(torch.tensor([[1]]), torch.zeros(1, width))
    if width == 100:
        assert "tokenizer that belongs to this model" in str(caught.value)
    else:
        assert f"size={width}" in str(caught.value)
        wide = Vocabulary.from_tokens([bytes([i]) for i in range(256)], eos_ids=[EOS], size=width)
        out = ConstraintProcessor(sg.choice(["ab"]), wide)(torch.tensor([[1]]), torch.zeros(1, width))
        assert torch.nonzero(out[0] == 0).flatten().tolist() == [ord("a")]


def test_unused_ids_may_be_missing_from_the_scores() -> None:
    vocabulary = Vocabulary.from_tokens([b"a", None, None, None], eos_ids=[1])
    processor = ConstraintProcessor(sg.choice(["a"]), vocabulary)
    assert processor(torch.tensor([[0]]), torch.zeros(1, 2)).tolist() == [[0.0, -float("inf")]]


def test_mistakes_raise_errors(vocabulary: Any) -> None:
    with pytest.raises(OptionError, match="empty"):
        ConstraintProcessor([], vocabulary)
    with pytest.raises(VocabularyError, match="is a name"):
        ConstraintProcessor(sg.choice(["a"]), "a/model")
    processor = ConstraintProcessor([None, sg.choice(["a"])], vocabulary)
    with pytest.raises(OptionError, match="2 constraints do not divide 3 rows"):
        processor(torch.tensor([[1], [1], [1]]), torch.zeros(3, WIDTH))
    processor = ConstraintProcessor(sg.choice(["a"]), vocabulary, prompt_length=7)
    with pytest.raises(OptionError, match="prompt_length is 7"):
        processor(torch.tensor([[1]]), torch.zeros(1, WIDTH))
