"""Reading ahead: tokens are drafted from what costs little, the model reads them in one pass, and a verifier takes what
it would have drawn. What comes out has the law of drawing one token after another; by default it is the same text.

    from structgen.speculative import Speculation, ForcedBytes, TriGrams, Recursive

`structgen.generate(..., speculate=Speculation(...))`. `docs/speculation.md` tells what there is and what it brings.
"""

from .controllers import Confidence, Controller, Costs, Fixed, Goodput
from .defaults import speculation_of
from .drafters import Context, Copying, Drafter, ForcedBytes, Guessed, RowDrafter, Start, TokenLookup
from .driver import Speculation
from .guarded import SpeculationWarning
from .model_drafters import DraftModel, LayerSkip
from .recycling import LogitNGrams, SuffixStore, TokenRecycling, TriGrams
from .sampled import Sampled
from .trees import DraftTree
from .verifiers import GreedyTransport, KSeq, Match, Outcome, Recursive, Rejection, Verifier

__all__ = [
    "Confidence",
    "Context",
    "Controller",
    "Copying",
    "Costs",
    "DraftModel",
    "DraftTree",
    "Drafter",
    "Fixed",
    "ForcedBytes",
    "Goodput",
    "GreedyTransport",
    "Guessed",
    "KSeq",
    "LayerSkip",
    "LogitNGrams",
    "Match",
    "Outcome",
    "Recursive",
    "Rejection",
    "RowDrafter",
    "Sampled",
    "Speculation",
    "SpeculationWarning",
    "Start",
    "SuffixStore",
    "TokenLookup",
    "TokenRecycling",
    "TriGrams",
    "Verifier",
    "speculation_of",
]
