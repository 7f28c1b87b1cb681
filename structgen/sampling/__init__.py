"""How text is drawn from a language model under a constraint. No constraint kind is named in here."""

from .generation import Finish, Generation, Timing
from .law import StepLaw, allowed_ids
from .loop import Progress, generate_steps, generate_tokens
from .options import SamplingOptions

__all__ = [
    "Finish",
    "Generation",
    "Progress",
    "SamplingOptions",
    "StepLaw",
    "Timing",
    "allowed_ids",
    "generate_steps",
    "generate_tokens",
]
