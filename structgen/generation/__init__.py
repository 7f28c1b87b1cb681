"""Generation of text under constraints, token by token, in batches of rows that share the model's forward passes.

`loop` generates a fixed batch; rows join and leave a `continuous_batch`. Both drive one `row` for each sequence, which
draws from the masked distribution (`distributions`) as `options` say and stays within its `token_budget`.
`potentials` are functions of the user's own that reject or weigh texts; `drafting` is the interface of speculative
decoding.
This package names no kind of constraint.
"""

from .distributions import StepDistribution, allowed_ids
from .loop import Progress, generate_steps, generate_tokens
from .options import SamplingOptions
from .potentials import Potential, potential
from .results import Finish, Generation, Timing

__all__ = [
    "Finish",
    "Generation",
    "Potential",
    "Progress",
    "SamplingOptions",
    "StepDistribution",
    "Timing",
    "allowed_ids",
    "generate_steps",
    "generate_tokens",
    "potential",
]
