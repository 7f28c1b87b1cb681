"""Speculative decoding: cheap drafters propose tokens, the model reads them in one forward pass, a verifier accepts.

The output has the distribution of drawing one token after another; by default it is the same text. Only lossy
verifiers, which have to be allowed, change the distribution.

    from structgen.speculative import Speculation, ForcedBytes, TriGrams, Recursive

Use it as `structgen.generate(..., speculate=Speculation(...))`; see `docs/speculation.md`.
"""

from .controllers import Confidence, Controller, Costs, Fixed, Goodput
from .defaults import default_drafters, speculation_of
from .drafters import Context, Copying, Drafter, ForcedBytes, Proposal, RowDrafter, Start, TokenLookup
from .guarded import SpeculationWarning
from .lossy import Judge, LossyVerifier, TypicalAcceptance
from .model_drafters import DraftModel, LayerSkip
from .recycling import LogitNGrams, SuffixStore, TokenRecycling, TriGrams
from .sampled import Sampled
from .speculation import Speculation
from .trees import DraftTree
from .trimmed_vocabulary import frequent_tokens
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
    "Judge",
    "KSeq",
    "LayerSkip",
    "LogitNGrams",
    "LossyVerifier",
    "Match",
    "Outcome",
    "Proposal",
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
    "TypicalAcceptance",
    "Verifier",
    "default_drafters",
    "frequent_tokens",
    "speculation_of",
]
