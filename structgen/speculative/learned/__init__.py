"""Drafters that were trained on a model's own texts: they read its hidden states and propose what comes next.

    Eagle         one decoder layer that continues the model's hidden states, token by token
    Medusa        heads on the last hidden state, one for each of the next tokens
    Hydra         such heads that also read the tokens drafted before
    Kangaroo      an adapter of one attention layer after the model's first layers
    NestedLayers  a draft model of a few layers that stops after as few as it needs (S2D)
    DEL           the model's first layers alone, untrained; exit and draft length follow the context
    PromptTokens  embeddings after the text, at which the model itself predicts tokens further ahead (PPD)

They need torch. `load_drafter` reads weights from a file, or a checkpoint of another project. See
`docs/learned-drafts.md`.
"""

from .acceptance import AcceptanceHead, acceptance_head
from .checkpoints import load_checkpoint
from .dynamic_exit import DEL
from .eagle import Eagle
from .heads import Hydra, Medusa
from .judges import load_judge, save_judge
from .kangaroo import Kangaroo
from .loading import load_drafter, speculation_with
from .nested_layers import NestedLayers
from .prompt_tokens import PromptTokens
from .weights import DraftWeights, load_weights, save_weights

__all__ = [
    "DEL",
    "AcceptanceHead",
    "DraftWeights",
    "Eagle",
    "Hydra",
    "Kangaroo",
    "Medusa",
    "NestedLayers",
    "PromptTokens",
    "acceptance_head",
    "load_checkpoint",
    "load_drafter",
    "load_judge",
    "load_weights",
    "save_judge",
    "save_weights",
    "speculation_with",
]
