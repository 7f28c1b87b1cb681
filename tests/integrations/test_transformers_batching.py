"""Continuous batching of transformers with a constraint for each request, on models with random weights."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers.generation.continuous_batching.cb_logits_processors")

from transformers import ContinuousBatchingConfig, GenerationConfig

import structgen as sg
from structgen import errors
from structgen.integrations.transformers import ConstraintProcessor
from structgen.integrations.transformers_batching import (
    ConstraintArgument,
    constrained_batching,
    generate_batch,
)

from ..models.tiny import SIZE, tiny_model, tiny_tokenizer

CONSTRAINTS = [
    sg.regex("(ab|cd){3,5}"),
    None,
    sg.choice(["hello", "world", "well"]),
    sg.json_schema({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2, "maxItems": 4}),
    sg.regex("[x-z]{1,12}"),
]


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_model("llama", attention="sdpa")


@pytest.fixture(scope="module")
def vocabulary() -> sg.Vocabulary:
    return sg.Vocabulary.from_tokenizer(tiny_tokenizer(), size=SIZE)


def configuration(**options: Any) -> Any:
    return GenerationConfig(max_new_tokens=30, eos_token_id=1, pad_token_id=1, **options)


def small(**options: Any) -> Any:
    return ContinuousBatchingConfig(num_blocks=64, max_batch_tokens=64, **options)


def text_of(vocabulary: sg.Vocabulary, output: Any) -> str:
    return vocabulary.decode(output.generated_tokens).decode()


def fits(vocabulary: sg.Vocabulary, constraint: Any, output: Any) -> bool:
    """Return whether each token is allowed, and the end too if the text has one."""
    matcher = sg.Matcher(constraint, vocabulary)
    return all(matcher.advance(token) for token in output.generated_tokens)


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("per_request", [False, True])
def test_each_request_has_its_own_constraint(
    model: Any, vocabulary: sg.Vocabulary, sampled: bool, per_request: bool
) -> None:
    prompts = [[5 + i, 6, 7 + i] for i in range(15)]
    each = [CONSTRAINTS[i % 5] for i in range(15)]
    options = {"do_sample": True, "temperature": 0.8, "top_k": 10} if sampled else {"do_sample": False}
    outputs = generate_batch(
        model,
        vocabulary,
        prompts,
        each,
        generation_config=configuration(**options),
        continuous_batching_config=small(per_request_processors=per_request),
    )
    for prompt, constraint, output in zip(prompts, each, outputs, strict=True):
        assert output.prompt_ids == prompt
        assert constraint is None or fits(vocabulary, constraint, output), text_of(vocabulary, output)
        if constraint is not None and output.generated_tokens[-1] == 1:
            assert sg.Matcher(constraint, vocabulary).explain(text_of(vocabulary, output)).ok


def test_greedy_texts_are_those_of_generate(model: Any, vocabulary: sg.Vocabulary) -> None:
    import torch

    config = configuration(do_sample=False)
    prompts = [[5, 6, 7], [9, 8, 7, 6]]
    outputs = generate_batch(
        model,
        vocabulary,
        prompts,
        CONSTRAINTS[3],
        generation_config=config,
        continuous_batching_config=small(),
    )
    for prompt, output in zip(prompts, outputs, strict=True):
        processor = ConstraintProcessor(CONSTRAINTS[3], vocabulary)
        whole = model.generate(torch.tensor([prompt]), generation_config=config, logits_processor=[processor])
        assert whole[0, len(prompt) :].tolist() == output.generated_tokens


def test_paused_requests_resume_where_they_stopped(
    model: Any, vocabulary: sg.Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    came_back: set[str] = set()
    moved = ConstraintArgument._moved

    def noted(self: ConstraintArgument, state: Any, constraint: Any) -> Any:
        if state._true_initial_tokens:
            came_back.add(state.request_id)
        return moved(self, state, constraint)

    monkeypatch.setattr(ConstraintArgument, "_moved", noted)
    # So few blocks that not all requests fit at once.
    prompts = [[5 + i % 20] * 30 for i in range(12)]
    tight = ContinuousBatchingConfig(num_blocks=6, max_batch_tokens=48, page_size=16)
    outputs = generate_batch(
        model,
        vocabulary,
        prompts,
        sg.regex("(ab|cd){8,14}"),
        generation_config=configuration(do_sample=False),
        continuous_batching_config=tight,
    )
    assert came_back
    for output in outputs:
        assert fits(vocabulary, sg.regex("(ab|cd){8,14}"), output)


def test_several_answers_to_one_prompt(model: Any, vocabulary: sg.Vocabulary) -> None:
    config = configuration(do_sample=True, num_return_sequences=3)
    with constrained_batching(
        model, vocabulary, generation_config=config, continuous_batching_config=small()
    ) as manager:
        manager.add_request([5, 6], constraint=CONSTRAINTS[0])
        outputs = [manager.get_result(timeout=600) for _ in range(3)]
    assert all(fits(vocabulary, CONSTRAINTS[0], output) for output in outputs)


def test_streams(model: Any, vocabulary: sg.Vocabulary) -> None:
    with constrained_batching(
        model, vocabulary, generation_config=configuration(), continuous_batching_config=small()
    ) as manager:
        name = manager.add_request([5, 6], constraint=sg.choice(["hello"]), streaming=True)
        grown = [text_of(vocabulary, output) for output in manager.request_id_iter(name)]
    assert grown[-1] == "hello" and all("hello".startswith(text) for text in grown)


def test_the_model_is_left_as_it_was(model: Any, vocabulary: sg.Vocabulary) -> None:
    with constrained_batching(
        model, vocabulary, generation_config=configuration(), continuous_batching_config=small()
    ):
        pass
    assert "_get_logits_processor" not in vars(model)
    (output,) = model.generate_batch(
        [[5, 6]], generation_config=configuration(), continuous_batching_config=small()
    ).values()
    assert output.generated_tokens


def test_unsupported_options_are_refused(model: Any, vocabulary: sg.Vocabulary) -> None:
    for wrong in ({"use_async_batching": True}, {"use_cuda_graph": True}):
        with (
            pytest.raises(errors.OptionError, match="constraints cannot follow"),
            constrained_batching(model, vocabulary, continuous_batching_config=small(**wrong)),
        ):
            pass
    with (
        constrained_batching(
            model, vocabulary, generation_config=configuration(), continuous_batching_config=small()
        ) as manager,
        pytest.raises(errors.EmptyConstraint),
    ):
        manager.add_request([5], constraint=sg.regex("A"))  # no token spells it
    with pytest.raises(errors.OptionError, match="2 constraints for 1 prompts"):
        generate_batch(model, vocabulary, [[5]], [None, None])
