"""Draws from a model of three bits, for the tests of saved distributions."""

from __future__ import annotations

from typing import Any

import structgen as sg
from structgen.models.memory import DistributionModel
from structgen.vocabulary import Vocabulary
from tests.inference.toys import END, t1_distribution

VOCABULARY = Vocabulary.from_tokens([b"0", b"1", None], [END])
LANGUAGE = sg.regex("000|1[01]{2}")


def draw(model: Any = None, **options: Any) -> sg.inference.Posterior[str]:
    chosen = model or DistributionModel(VOCABULARY, t1_distribution)
    return sg.sample(chosen, "", options.pop("output", LANGUAGE), **{"seed": 5, "n": 50, **options})
