"""Texts with drafts are those without, served by an installed vLLM; `make test-vllm` runs it."""

import json
from importlib.util import find_spec

import pytest

if find_spec("vllm") is None:
    pytest.skip("vLLM is not installed; make test-vllm runs these", allow_module_level=True)

from structgen.integrations.vllm import register
from structgen.integrations.vllm.drafting import PROPOSER
from structgen.models.embedded import embedded_directory

SCHEMA = {
    "type": "object",
    "properties": {
        "customer_name": {"type": "string", "maxLength": 30},
        "invoice_number": {"type": "integer"},
        "is_paid": {"type": "boolean"},
    },
    "required": ["customer_name", "invoice_number", "is_paid"],
    "additionalProperties": False,
}
LONG = {"type": "array", "items": {"type": "string", "minLength": 20}, "minItems": 1}
SENTENCES = (
    "Ada Lovelace of London bought 2 lamps, invoice 7781, paid.",
    "Karl Schmidt of Hamburg bought a desk, invoice 12, unpaid.",
    "Alan Turing of Manchester bought a typewriter, invoice 991, unpaid.",
)


@pytest.fixture(scope="module", autouse=True)
def registered():
    register()


def _texts(monkeypatch, **options):
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    for name, value in (
        ("VLLM_CPU_KVCACHE_SPACE", "1"),
        ("HF_HUB_OFFLINE", "1"),
        ("VLLM_NO_USAGE_STATS", "1"),
    ):
        monkeypatch.setenv(name, value)
    llm = LLM(
        str(embedded_directory()),
        structured_outputs_config={"backend": "structgen"},
        dtype="float32",
        max_model_len=512,
        enforce_eager=True,
        max_num_seqs=8,
        disable_log_stats=False,
        **options,
    )
    wanted = [
        StructuredOutputsParams(json=SCHEMA),
        StructuredOutputsParams(regex="(paid|unpaid), invoice [0-9]{1,5}"),
        StructuredOutputsParams(choice=["paid", "unpaid"]),
        None,
    ]
    asked = [
        (
            f"Extract as JSON: {sentence}\nJSON:",
            SamplingParams(temperature=0, max_tokens=64, structured_outputs=one),
        )
        for sentence in SENTENCES
        for one in wanted
    ]
    closed = SamplingParams(
        temperature=0,
        max_tokens=32,
        structured_outputs=StructuredOutputsParams(json=LONG),
        extra_args={"close_within_budget": True},
    )
    asked += [(f"{sentence} A list of ten such sentences as JSON:", closed) for sentence in SENTENCES]
    answers = llm.generate([prompt for prompt, _ in asked], [params for _, params in asked], use_tqdm=False)
    again = llm.generate(asked[0][0], asked[0][1], use_tqdm=False)
    metrics = {one.name: getattr(one, "value", None) for one in llm.get_metrics()}
    texts = [(one.outputs[0].text, one.outputs[0].finish_reason) for one in [*answers, *again]]
    return texts, metrics


def test_texts_with_drafts_are_those_without(monkeypatch):
    plain, _ = _texts(monkeypatch)
    config = {"method": "custom_class", "model": PROPOSER, "num_speculative_tokens": 6}
    drafted, metrics = _texts(monkeypatch, speculative_config=config)
    assert drafted == plain
    assert all(reason == "stop" for text, reason in plain if text.startswith(("{", "paid", "unpaid")))
    lists = [(text, reason) for text, reason in plain if text.startswith("[")]
    assert len(lists) == len(SENTENCES)
    for text, reason in lists:  # complete within the budget, although the model would go on
        assert reason == "stop"
        assert all(len(one) >= 20 for one in json.loads(text))
    tokens, accepted = (metrics[f"vllm:spec_decode_num_{name}_tokens"] for name in ("draft", "accepted"))
    assert tokens >= accepted > 0.5 * tokens
