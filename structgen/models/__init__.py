"""Language models: the protocol, and the models behind it.

`load` and `wrap` are what people call; torch and transformers are imported when one of them runs.
"""

from .base import LanguageModel, Message, ModelSession
from .loading import load, wrap
from .memory import DistributionModel

__all__ = ["DistributionModel", "LanguageModel", "Message", "ModelSession", "load", "wrap"]
