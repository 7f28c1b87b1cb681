"""vLLM's rejection sampler, as workers with `GrammarProposer` correct it, draws from the exact distributions.

Each row of a batch is one step of a request: draft tokens, and logits before each of them and after the last one. The
outcome of a row is the number of draft tokens that were accepted, and the token after them. That covers all tokens of
the step, since those before it are the draft's. Some rows have no drafts, some are greedy. Drafts are likely,
unlikely, or forbidden by the mask. `make test-vllm` runs this.
"""

from collections import Counter
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np
import pytest
import torch

if find_spec("vllm") is None:
    pytest.skip("vLLM is not installed; make test-vllm runs these", allow_module_level=True)

from vllm.platforms import current_platform
from vllm.v1.sample.logits_processor import LogitsProcessors
from vllm.v1.sample.metadata import SamplingMetadata
from vllm.v1.sample.rejection_sampler import PLACEHOLDER_TOKEN_ID, RejectionSampler
from vllm.v1.sample.sampler import Sampler
from vllm.v1.spec_decode.metadata import SpecDecodeMetadata

from structgen.integrations.vllm import register
from structgen.integrations.vllm.drafting import GrammarProposer

from .distributions import check_draws, p_value, penalised, token_probabilities

SMALL, LARGE, WIDE = 11, 1003, 49_153  # none is a multiple of the width of a vector


@pytest.fixture(scope="module")
def sampler():
    register()
    current_platform.register_triton_kernel_overrides()  # workers do this, and make the proposer
    GrammarProposer(None)
    return RejectionSampler(Sampler())


@dataclass(frozen=True, eq=False)
class Row:
    """One step of a request."""

    drafts: list
    logits: np.ndarray  # [drafts + 1, vocabulary]
    temperature: float
    top_k: int
    top_p: float
    prompt: list
    output: list
    presence: float = 0.0
    frequency: float = 0.0
    repetition: float = 1.0

    def distribution(self, position):
        """The distribution of the token at a position, if the draft tokens before it were accepted."""
        output = [*self.output, *self.drafts[:position]]
        penalties = self.presence, self.frequency, self.repetition
        logits = penalised(self.logits[position], self.prompt, output, *penalties)
        return token_probabilities(logits, self.temperature, self.top_k, self.top_p)

    def outcomes(self):
        """The probability of each outcome."""
        found, reach = {}, 1.0
        for position, draft in enumerate([*self.drafts, None]):
            chances = self.distribution(position)
            for token, chance in enumerate(chances):
                if token != draft:
                    found[position, token] = reach * chance
            if draft is not None:
                found[position, draft] = 0.0  # it would have been accepted
                reach *= chances[draft]
        return found


def random_row(rng, size, *, temperature=None, options=True, penalties=False):
    count = int(rng.choice([0, 1, 2, 3, 6]))
    logits = rng.normal(0, 2.0, (count + 1, size)).astype(np.float32)
    for one in logits:
        kind = rng.integers(4)
        if kind < 2:  # a mask; sometimes it allows one token only
            allowed = rng.choice(size, rng.integers(1, size) if kind else rng.integers(1, 4), replace=False)
            one[np.setdiff1d(np.arange(size), allowed)] = -np.inf
    if temperature is None:
        temperature = float(rng.choice([0.0, 0.3, 0.7, 1.0, 1.0, 1.6]))
    drafts = []
    for one in logits[:count]:
        kind = rng.integers(5)
        allowed = np.flatnonzero(np.isfinite(one))
        if kind == 0:
            drafts.append(int(rng.integers(size)))  # perhaps a forbidden one
        else:
            drafts.append(int(one.argmax() if kind < 4 else rng.choice(allowed)))
    filters = {
        "top_k": int(rng.choice([0, 0, 2, 5])) if options else 0,
        "top_p": float(rng.choice([1.0, 1.0, 0.5, 0.9])) if options else 1.0,
    }
    said = {"prompt": rng.integers(size, size=4).tolist(), "output": rng.integers(size, size=3).tolist()}
    added = (
        {
            "presence": float(rng.choice([0, 0.7])),
            "frequency": float(rng.choice([0, 0.4, -0.3])),
            "repetition": float(rng.choice([1.0, 1.3])),
        }
        if penalties
        else {}
    )
    return Row(drafts, logits, temperature, **filters, **said, **added)


def metadata_of(rows, size):
    """The metadata of a batch, as `InputBatch` makes it."""
    temperatures = torch.tensor([row.temperature for row in rows])
    greedy = temperatures == 0
    ks = torch.tensor([row.top_k or size for row in rows], dtype=torch.int32)
    ps = torch.tensor([row.top_p for row in rows])
    penalties = torch.tensor([(row.presence, row.frequency, row.repetition) for row in rows])
    has_none = bool((penalties == torch.tensor([0.0, 0.0, 1.0])).all())
    return SamplingMetadata(
        temperature=None if greedy.all() else temperatures,
        all_greedy=bool(greedy.all()),
        all_random=not greedy.any(),
        top_p=None if (ps == 1).all() else ps,
        top_k=None if (ks == size).all() else ks,
        generators={},
        max_num_logprobs=None,
        no_penalties=has_none,
        prompt_token_ids=None if has_none else torch.tensor([row.prompt for row in rows]),
        presence_penalties=penalties[:, 0].contiguous(),
        frequency_penalties=penalties[:, 1].contiguous(),
        repetition_penalties=penalties[:, 2].contiguous(),
        output_token_ids=[list(row.output) for row in rows],
        allowed_token_ids_mask=None,
        bad_words_token_ids={},
        logitsprocs=LogitsProcessors(),
        spec_token_ids=[list(row.drafts) for row in rows],
    )


def drafts_of(rows):
    """The metadata of a batch's drafts, as `GPUModelRunner` makes it: the logits of a request follow one another."""
    counts = np.array([len(row.drafts) for row in rows])
    ends = np.cumsum(counts + 1)
    targets = [end - 1 - count + i for end, count in zip(ends, counts, strict=True) for i in range(count)]
    return SpecDecodeMetadata(
        draft_token_ids=torch.tensor([token for row in rows for token in row.drafts], dtype=torch.int32),
        num_draft_tokens=counts.tolist(),
        cu_num_draft_tokens=torch.tensor(np.cumsum(counts), dtype=torch.int32),
        cu_num_sampled_tokens=torch.tensor(ends, dtype=torch.int32),
        target_logits_indices=torch.tensor(targets, dtype=torch.int32),
        bonus_logits_indices=torch.tensor(ends - 1, dtype=torch.int32),
        logits_indices=torch.arange(int(ends[-1]), dtype=torch.int32),
    )


def draw(sampler, rows, size, copies, calls, seed):
    """Sample the rows, each `copies` times in each of `calls` batches, in random order; count their outcomes."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    counts = [Counter() for _ in rows]
    for _ in range(calls):
        order = rng.permutation(np.repeat(np.arange(len(rows)), copies))
        batch = [rows[number] for number in order]
        logits = torch.from_numpy(np.concatenate([row.logits for row in batch]))
        out = sampler(drafts_of(batch), None, logits, metadata_of(batch, size))
        for number, tokens in zip(order.tolist(), out.sampled_token_ids.tolist(), strict=True):
            tokens = [token for token in tokens if token != PLACEHOLDER_TOKEN_ID]
            assert tokens[:-1] == rows[number].drafts[: len(tokens) - 1]
            counts[number][len(tokens) - 1, tokens[-1]] += 1
    return counts


def check(sampler, rows, size, copies, calls, seed=0):
    counts = draw(sampler, rows, size, copies, calls, seed)
    check_draws(
        {
            f"{number}: {row}": (drawn, row.outcomes())
            for number, (row, drawn) in enumerate(zip(rows, counts, strict=True))
        }
    )


@pytest.mark.parametrize("seed", range(2))
def test_steps_have_their_distribution(sampler, seed):
    """40 rows of all types in each batch, 20,000 draws of each."""
    rng = np.random.default_rng(seed)
    check(sampler, [random_row(rng, SMALL) for _ in range(40)], SMALL, copies=100, calls=200, seed=seed)


@pytest.mark.parametrize("temperature", [None, 0.0, 0.5])
def test_steps_without_top_k_and_top_p(sampler, temperature):
    """Batches without these options, and such as have only greedy or only random rows, take other branches."""
    rng = np.random.default_rng(10)
    rows = [random_row(rng, SMALL, temperature=temperature, options=False) for _ in range(20)]
    check(sampler, rows, SMALL, copies=100, calls=100)


@pytest.mark.parametrize("filters", [{"top_k": 2}, {"top_p": 0.7}, {"top_k": 3, "top_p": 0.7}, {}])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_steps_of_a_batch_without_drafts(sampler, temperature, filters):
    """Such as the step that reads the first prompt. It also goes through the rejection sampler."""
    rng = np.random.default_rng(15)
    rows = []
    while len(rows) < 8:
        row = random_row(rng, SMALL, temperature=temperature, options=False)
        if not row.drafts:
            rows.append(replace(row, **filters))
    check(sampler, rows, SMALL, copies=100, calls=20)


def test_steps_of_requests_with_seeds(sampler):
    """Each draws from its own generator. Equal seeds draw equal tokens, with any state of the global one."""
    rng = np.random.default_rng(16)
    rows = [random_row(rng, SMALL) for _ in range(12)]
    drawn, counts = [], [Counter() for _ in rows]
    for round_ in range(2):
        torch.manual_seed(round_)
        for seed in range(400):
            metadata = metadata_of(rows, SMALL)
            metadata.generators = {
                number: torch.Generator().manual_seed(1000 * seed + number) for number in range(len(rows))
            }
            logits = torch.from_numpy(np.concatenate([row.logits for row in rows]))
            drawn.append(sampler(drafts_of(rows), None, logits, metadata).sampled_token_ids.tolist())
    assert drawn[:400] == drawn[400:]
    for batch in drawn[:400]:
        for number, tokens in enumerate(batch):
            tokens = [token for token in tokens if token != PLACEHOLDER_TOKEN_ID]
            counts[number][len(tokens) - 1, tokens[-1]] += 1
    check_draws(
        {
            str(number): (drawn, row.outcomes())
            for number, (row, drawn) in enumerate(zip(rows, counts, strict=True))
        }
    )


def test_steps_over_a_larger_vocabulary(sampler):
    rng = np.random.default_rng(20)
    check(sampler, [random_row(rng, LARGE) for _ in range(16)], LARGE, copies=50, calls=20)


def test_steps_with_penalties(sampler):
    """The penalties of a token depend on the draft tokens before it."""
    rng = np.random.default_rng(30)
    check(sampler, [random_row(rng, SMALL, penalties=True) for _ in range(30)], SMALL, copies=20, calls=300)


@pytest.mark.parametrize("has_draft", [True, False])
def test_tokens_that_are_very_improbable_are_not_drawn(sampler, has_draft):
    """Noise of low resolution would draw one of many such tokens once in a while. Together they have less than 1e-6."""
    logits = np.full((2, WIDE), -25.0, dtype=np.float32)
    logits[:, 7], logits[:, 8] = 0.0, -40.0
    drafts = [8] if has_draft else []
    row = Row(drafts, logits[-len(drafts) - 1 :], 1.0, 0, 1.0, [], [])
    (drawn,) = draw(sampler, [row], WIDE, copies=50, calls=40, seed=0)
    assert drawn[0, 7] >= drawn.total() - 1


def test_a_wrong_temperature_would_be_noticed(sampler):
    """The power of the tests above: they notice temperatures that differ by a tenth."""
    rng = np.random.default_rng(40)
    rows = [random_row(rng, SMALL, temperature=1.0, options=False) for _ in range(20)]
    counts = draw(sampler, rows, SMALL, copies=100, calls=100, seed=0)
    warmer = [replace(row, temperature=1.1) for row in rows]
    values = [p_value(drawn, row.outcomes()) for row, drawn in zip(warmer, counts, strict=True)]
    assert sum(value < 1e-9 for value in values) > len(rows) / 3
