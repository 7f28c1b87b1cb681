"""How text is drawn from a language model under a constraint. No constraint kind is named in here."""

from .bounds import BoundTrie
from .conditions import Potential, potential
from .generation import Finish, Generation, Timing
from .law import StepLaw, allowed_ids
from .loop import Progress, generate_steps, generate_tokens
from .options import SamplingOptions
from .samplers import AWRS, MH, SMC, AdaptiveRejection, ASAp, Exact, LocalMasking, Rejection

__all__ = [
    "AWRS",
    "MH",
    "SMC",
    "ASAp",
    "AdaptiveRejection",
    "BoundTrie",
    "Exact",
    "Finish",
    "Generation",
    "LocalMasking",
    "Potential",
    "Progress",
    "Rejection",
    "SamplingOptions",
    "StepLaw",
    "Timing",
    "allowed_ids",
    "generate_steps",
    "generate_tokens",
    "potential",
]
