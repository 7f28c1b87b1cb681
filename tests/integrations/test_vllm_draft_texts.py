"""Texts that vLLM samples have their exact distribution: without drafts, with the plugin's, and with random drafts.

A whole engine serves a small random model; the exact probabilities are found by following all texts with that model in
transformers, under the matcher's masks. All requests of a run share its batches. `make test-vllm` runs this.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from importlib.util import find_spec

import numpy as np
import pytest
import torch

if find_spec("vllm") is None:
    pytest.skip("vLLM is not installed; make test-vllm runs these", allow_module_level=True)

from structgen.integrations.vllm import register
from structgen.integrations.vllm.backend import vocabulary_of
from structgen.integrations.vllm.drafting import PROPOSER
from structgen.integrations.vllm.patches import _drafts_of
from structgen.matcher import Matcher
from structgen.serving.requests import constraint_of

from .distributions import check_draws, penalised, token_probabilities

PROMPT = "The order was paid, the order was red and the order was"
REQUESTS = 1_000  # of each type, in each run
RARE = 1e-5  # texts that are less probable are not followed
SCHEMA = {
    "type": "object",
    "properties": {"paid": {"type": "boolean"}},
    "required": ["paid"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Asked:
    """A request, and what its distribution depends on."""

    name: str
    spec: tuple | None
    options: dict = field(default_factory=dict)


TYPES = (
    Asked("choice", ("choice", ["red", "green", "blue", "grey", "reddish"]), {"max_tokens": 8}),
    Asked("greedy", ("choice", ["red", "green", "blue"]), {"max_tokens": 8, "temperature": 0.0}),
    Asked("cold", ("regex", "(yes|no|maybe)[.!]{1,2}"), {"max_tokens": 4, "temperature": 0.6}),
    Asked("top-k", ("regex", "[a-e]{2,6}"), {"max_tokens": 3, "temperature": 1.4, "top_k": 3}),
    Asked("top-p", ("regex", "[a-e]{2,6}"), {"max_tokens": 2, "top_p": 0.6}),
    Asked("json", ("json", SCHEMA), {"max_tokens": 3}),
    Asked("free", None, {"max_tokens": 3, "top_k": 4}),
    Asked(
        "penalties",
        ("regex", "[abc]{1,5}"),
        {"max_tokens": 4, "presence_penalty": 0.8, "frequency_penalty": -0.3, "repetition_penalty": 1.2},
    ),
    Asked("bad words", ("regex", "[ab]{1,5}"), {"max_tokens": 4, "bad_words": ["ba"]}),
    Asked(
        "min_tokens", ("regex", "xyz[uvw]?"), {"max_tokens": 5, "min_tokens": 2}
    ),  # the end may follow a draft
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A random model of few tokens, whose logits have a standard deviation of 2."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    made = tmp_path_factory.mktemp("model")
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = {"special_tokens": ["<s>", "</s>"], "show_progress": False}
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, **special)
    words.train_from_iterator(
        [PROMPT, "green greyer blue yes maybe abcde ababab", '{"paid": true, "paid": false}'] * 3, trainer
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", eos_token="</s>")
    tokenizer.save_pretrained(made)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=256,
        tie_word_embeddings=False,
        initializer_range=0.25,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    LlamaForCausalLM(config).float().save_pretrained(made)
    return made


@pytest.fixture(scope="module")
def engine(folder):
    """vLLM in this process."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_LOGGING_LEVEL": "WARNING",
        }.items():
            patch.setenv(name, value)
        register()
        from vllm import LLM

        yield LLM(
            str(folder),
            structured_outputs_config={"backend": "structgen"},
            dtype="float32",
            max_model_len=128,
            enforce_eager=True,
            max_num_seqs=48,
            max_num_batched_tokens=512,
            disable_log_stats=False,
            speculative_config={"method": "custom_class", "model": PROPOSER, "num_speculative_tokens": 6},
        )


@pytest.fixture(scope="module")
def vocabulary(folder):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    return vocabulary_of(tokenizer, len(tokenizer))


@pytest.fixture(scope="module")
def expected(folder, vocabulary):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    return {asked.name: exact(model, tokenizer, asked, vocabulary) for asked in TYPES}


@torch.inference_mode()
def exact(model, tokenizer, asked, vocabulary):
    """The probability of each text: its tokens, with the end of text if it has one."""
    options = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_tokens": 0, **asked.options}
    prompt = tokenizer(PROMPT).input_ids
    bad = [tokenizer(word).input_ids for word in options.get("bad_words", ())]
    filters = {name: options[name] for name in ("temperature", "top_k", "top_p")}
    penalties = {
        name: options.get(f"{name}_penalty", usual)
        for name, usual in (("presence", 0.0), ("frequency", 0.0), ("repetition", 1.0))
    }
    start = None if asked.spec is None else Matcher(constraint_of(*asked.spec), vocabulary)
    ends = set(vocabulary.eos_ids)
    found, followed = {}, [((), 1.0, start)]
    for length in range(options["max_tokens"]):
        texts, followed = followed, []
        for at in range(0, len(texts), 64):
            some = texts[at : at + 64]
            rows = (
                model(torch.tensor([[*prompt, *text] for text, _, _ in some]), logits_to_keep=1)
                .logits[:, -1]
                .numpy()
            )
            for (text, chance, matcher), logits in zip(some, rows, strict=True):
                logits = logits.copy()
                if matcher is not None:
                    mask = np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")[: len(logits)]
                    logits[mask == 0] = -np.inf
                    if length < options["min_tokens"] and set(np.flatnonzero(mask)) - ends:
                        logits[list(ends)] = -np.inf
                for *begin, last in bad:
                    if list(text[len(text) - len(begin) :]) == begin:
                        logits[last] = -np.inf
                chances = token_probabilities(penalised(logits, prompt, text, **penalties), **filters)
                for token in map(int, np.flatnonzero(chances * chance > RARE)):
                    after, reach = (*text, token), chance * chances[token]
                    if token in ends or length + 1 == options["max_tokens"]:
                        found[after] = reach
                        continue
                    ahead = None if matcher is None else matcher.fork()
                    assert ahead is None or ahead.advance(token)
                    followed.append((after, reach, ahead))
    return found


def no_drafts(drafts):
    return lambda texts: [[] for _ in texts]


def drafts_of_the_plugin(drafts):
    """Its drafts, and all of them, whether they pay or not."""
    original = drafts.draft_all

    def draft_all(texts):
        drafts._growing.resting = 0
        return original(texts)

    drafts.goodput.least_chance = lambda rows: 0.0
    drafts.goodput.keep = lambda reach: [len(one) for one in reach]
    return draft_all


def random_drafts(drafts):
    """Random tokens. The constraint allows the first ones; vLLM drops the others."""
    draw, size = random.Random(0), drafts._vocabulary.size

    def draft(text):
        made, matcher = [], None if text.sequence is None else text.sequence.matcher.fork()
        for _ in range(draw.choice((0, 1, 2, 2, 3, 6))):
            if matcher is None:
                made.append(draw.choice(text.tokens))
                continue
            allowed = np.flatnonzero(np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")[:size])
            token = int(draw.choice(allowed)) if draw.random() < 0.95 else draw.randrange(size)
            made.append(token)
            if not matcher.advance(token) or matcher.is_finished:
                break
        return made

    return lambda texts: [draft(text)[: text.most] for text in texts]


@pytest.mark.parametrize("drafter", [no_drafts, drafts_of_the_plugin, random_drafts])
def test_texts_have_their_distribution(engine, expected, drafter, monkeypatch):
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    core = engine.llm_engine.engine_core.engine_core
    drafts = _drafts_of(core.structured_output_manager)
    monkeypatch.setattr(drafts, "draft_all", drafter(drafts))
    asked = [one for one in TYPES for _ in range(REQUESTS)]
    random.Random(1).shuffle(asked)
    torch.manual_seed(2)
    before = counted(engine)
    answers = engine.generate(
        [PROMPT] * len(asked),
        [
            SamplingParams(
                **{"temperature": 1.0, **one.options},
                structured_outputs=one.spec and StructuredOutputsParams(**{one.spec[0]: one.spec[1]}),
            )
            for one in asked
        ],
        use_tqdm=False,
    )
    drawn = {one.name: Counter() for one in TYPES}
    for one, answer in zip(asked, answers, strict=True):
        drawn[one.name][tuple(answer.outputs[0].token_ids)] += 1
    check_draws({name: (counts, expected[name]) for name, counts in drawn.items()})
    tokens, accepted = (after - earlier for after, earlier in zip(counted(engine), before, strict=True))
    if drafter is no_drafts:
        assert tokens == 0
    else:
        assert accepted > 500 and tokens - accepted > 500, "the test must accept drafts and reject some"


def counted(engine):
    """The numbers of draft tokens and of accepted ones up to now."""
    values = {one.name: getattr(one, "value", 0) for one in engine.get_metrics()}
    return [values.get(f"vllm:spec_decode_num_{name}_tokens", 0) for name in ("draft", "accepted")]
