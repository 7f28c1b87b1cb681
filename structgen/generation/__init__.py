"""How a model generates text under constraints, token by token: batches of rows that share the model's passes.

`loop` generates a fixed batch, `continuous_batch` one that rows join and leave. Both drive a `row` for each sequence,
which draws from the masked distribution (`distributions`) as `options` say and stays within its `token_budget`.
`potentials` are functions of the user's own that reject or weigh texts; `drafting` is the interface of speculative
decoding.
No kind of constraint is named here.
"""

from .distributions import StepLaw, allowed_ids
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
    "StepLaw",
    "Timing",
    "allowed_ids",
    "generate_steps",
    "generate_tokens",
    "potential",
]
