"""Language models: `transformers` models, models in memory, and models with logits processors.

`load` and `wrap` are the usual entry points. torch and transformers are imported when one of them runs.
`LanguageModel` and `Session` are the protocols that own models implement.
"""

from structgen.errors import ModelWarning
from structgen.protocols import LanguageModel, Message, Prompt, Session, SessionCapabilities

from .loading import load, load_vocabulary, wrap
from .memory import DistributionModel
from .processed import ProcessedModel, Processor, with_processors
from .repetition import RPG

__all__ = [
    "RPG",
    "DistributionModel",
    "LanguageModel",
    "Message",
    "ModelWarning",
    "ProcessedModel",
    "Processor",
    "Prompt",
    "Session",
    "SessionCapabilities",
    "load",
    "load_vocabulary",
    "with_processors",
    "wrap",
]
