"""Constraints in any order: texts with holes (`Canvas`), and masked diffusion models that fill them (`fill`)."""

from .canvas import GAP, Canvas, Hole
from .filling import Filling, fill
from .hugging_face import MaskedModel, load
from .judging import CanvasMonitor
from .model import DiffusionModel
from .options import DecodingOptions
from .smiles import Molecules

__all__ = [
    "GAP",
    "Canvas",
    "CanvasMonitor",
    "DecodingOptions",
    "DiffusionModel",
    "Filling",
    "Hole",
    "MaskedModel",
    "Molecules",
    "fill",
    "load",
]
