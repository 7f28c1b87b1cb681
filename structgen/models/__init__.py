"""Language models: the protocol, and the models behind it.

`load` and `wrap` are what people call; torch and transformers are imported when one of them runs.
"""

from .base import LanguageModel, Message, ModelSession, ModelWarning, Prompt, ScoringSession
from .loading import load, load_vocabulary, wrap
from .memory import DistributionModel
from .processed import ProcessedModel, Processor, with_processors
from .repetition import RPG

__all__ = [
    "RPG",
    "DistributionModel",
    "LanguageModel",
    "Message",
    "ModelSession",
    "ModelWarning",
    "ProcessedModel",
    "Processor",
    "Prompt",
    "ScoringSession",
    "load",
    "load_vocabulary",
    "with_processors",
    "wrap",
]
