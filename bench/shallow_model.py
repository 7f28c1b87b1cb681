"""Keep the first layers of the embedded model, for benchmarks of a server that send many requests.

Why: a server with few layers does more steps and starts more requests in the same time. Its texts mean less.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from structgen.models.embedded import embedded_directory

__all__ = ["shallow_model_options"]


@contextlib.contextmanager
def shallow_model_options(layers: int | None) -> Iterator[str]:
    """Yield the options of `structgen serve` for the embedded model with its first `layers`; None: all."""
    if layers is None:
        yield ""
        return
    import transformers as hf

    source = embedded_directory()
    model = hf.AutoModelForCausalLM.from_pretrained(source)
    model.model.layers = model.model.layers[:layers]
    model.config.num_hidden_layers = layers
    with tempfile.TemporaryDirectory() as made:
        target = Path(made) / f"smollm2-{layers}-layers"
        model.save_pretrained(target)
        hf.AutoTokenizer.from_pretrained(source).save_pretrained(target)
        del model
        yield f"--model {target}"
