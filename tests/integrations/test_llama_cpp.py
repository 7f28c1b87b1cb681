"""llama-cpp-python with constraints: the embedded GGUF, completions, chats, sampling, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from pydantic import BaseModel, Field

import structgen as sg
from structgen import errors
from structgen.models.embedded import embedded_gguf
from tests.embedded import require_embedded_package

llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
require_embedded_package()

from structgen.integrations.llama_cpp import (  # noqa: E402
    ConstraintProcessor,
    generate,
    logits_processor,
    vocabulary_of,
)


class Person(BaseModel):
    name: Annotated[str, Field(pattern="^[A-Z][a-z]{1,10}$")]
    age: Annotated[int, Field(ge=0, le=150)]


@pytest.fixture(scope="module")
def llama() -> Iterator[Any]:
    model = llama_cpp.Llama(
        str(embedded_gguf()[0]), n_ctx=512, n_threads=1, n_threads_batch=1, verbose=False, seed=1
    )
    yield model
    model.close()


def test_the_vocabulary_is_that_of_the_file(llama: Any) -> None:
    vocabulary = vocabulary_of(llama)
    assert vocabulary.size == llama.n_vocab() and vocabulary is vocabulary_of(llama)
    assert llama.token_eos() in vocabulary.eos_ids
    ids = llama.tokenize(b'{"name": "Ann", "age": 3}', add_bos=False)
    assert vocabulary.decode(ids) == b'{"name": "Ann", "age": 3}'


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_completions_satisfy_the_constraint(llama: Any, temperature: float) -> None:
    processors = logits_processor(Person, llama)
    for prompt in ("Ann is 31. As JSON: ", "Ann is 31. As JSON: ", "Bob is 4. JSON: "):  # one after another
        done = llama(prompt, max_tokens=60, temperature=temperature, logits_processor=processors)["choices"][
            0
        ]
        assert done["finish_reason"] == "stop"
        assert isinstance(Person.model_validate_json(done["text"]), Person)


def test_typed_calls(llama: Any) -> None:
    messages = [{"role": "user", "content": "Is water wet?"}]
    assert generate(llama, messages, Literal["yes", "no"], temperature=0) in ("yes", "no")
    assert isinstance(generate(llama, "Ann is 31. As JSON: ", Person, describe=True), Person)
    assert generate(llama, "The answer is ", sg.regex("[0-9]{3}"), max_tokens=3).isdigit()
    with pytest.raises(errors.Truncated):
        generate(llama, "A list: ", Annotated[list[int], Field(min_length=40)], max_tokens=5)
    with pytest.raises(errors.OptionError, match="stop"):
        generate(llama, "x", Person, stop=["a"])


def test_streams_too(llama: Any) -> None:
    processors = logits_processor(sg.json_schema({"enum": [{"a": 1}, [2]]}), llama)
    pieces = llama("JSON: ", max_tokens=30, stream=True, logits_processor=processors)
    assert json.loads("".join(piece["choices"][0]["text"] for piece in pieces)) in ({"a": 1}, [2])


def test_a_logit_bias_does_not_drop_the_constraint(llama: Any) -> None:
    token = llama.tokenize(b"no", add_bos=False)[0]
    text = llama(
        "Yes or no? ",
        max_tokens=5,
        logit_bias={str(token): 50.0},
        logits_processor=logits_processor(sg.choice(["yes", "no", "never"]), llama),
    )["choices"][0]["text"]
    assert text == "no"


def test_the_mask_is_that_of_the_matcher(llama: Any) -> None:
    vocabulary = vocabulary_of(llama)
    processor = ConstraintProcessor(sg.regex("ab*"), vocabulary)
    tokens = [5, 6]
    matcher = sg.Matcher(sg.regex("ab*"), vocabulary)
    for text in (b"a", b"b", b"b"):
        assert np.array_equal(allowed(processor, tokens), bits(matcher))
        (token,) = llama.tokenize(text, add_bos=False, special=False)[-1:]
        assert matcher.advance(token)
        tokens.append(token)
    matcher.reset()
    assert np.array_equal(allowed(processor, [5, 6, 7]), bits(matcher)), "another prompt"
    assert np.array_equal(allowed(processor, [5, 6, 7]), bits(matcher)), "the same once more"


def allowed(processor: ConstraintProcessor, tokens: list[int]) -> Any:
    scores = processor(np.array(tokens, np.intc), np.zeros(processor.vocabulary.size, np.single))
    return np.isfinite(scores)


def bits(matcher: sg.Matcher) -> Any:
    size = matcher.vocabulary.size
    return np.unpackbits(matcher.mask().view(np.uint8), count=size, bitorder="little") == 1


def test_mismatched_arguments_raise_errors(llama: Any) -> None:
    with pytest.raises(errors.OptionError, match="not a llama_cpp"):
        vocabulary_of("model.gguf")
    other = ConstraintProcessor(sg.regex("a"), sg.Vocabulary.of_bytes())
    with pytest.raises(errors.ModelError, match="vocabulary has 257"):
        other(np.zeros(1, np.intc), np.zeros(9, np.single))

    class Drafting:
        n_vocab = model_path = draft_model = 1

    with pytest.raises(errors.OptionError, match="draft model"):
        logits_processor(sg.regex("a"), Drafting())
