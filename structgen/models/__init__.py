"""Language models: the protocol, and the models behind it.

`load` and `wrap` are what people call; torch and transformers are imported when one of them runs.
"""

from .base import LanguageModel, Message, ModelSession, Prompt, ScoringSession
from .loading import load, load_vocabulary, wrap
from .memory import DistributionModel

__all__ = [
    "DistributionModel",
    "LanguageModel",
    "Message",
    "ModelSession",
    "Prompt",
    "ScoringSession",
    "load",
    "load_vocabulary",
    "wrap",
]
