"""Measure early exits: how often each layer already has the next token, and what the parts of a draft cost.

    python -m bench.speculation.exits [--model NAME] [--tokens 64]

The first table shows for each exit the fraction of greedy tokens that the state there would have drafted, through the
model's own final norm and output layer (`structgen.speculative.learned.DEL`). The second one shows what the parts of a
draft cost, as fractions of a forward pass over one token: the first layers over one and over six tokens, the output
layer, and a look at the acceptance rates of all exits. Times are CPU times of one thread,
medians of runs in turn. They depend less than others on what else the machine does.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.command import argument_parser

__all__ = ["main"]

_PROMPTS = {
    "explanation": "Explain why the sky is blue and sunsets are red.",
    "story": "Write a short story about a lighthouse keeper and a whale.",
    "code": "Write a Python function that parses a CSV file and returns a list of dictionaries. Only code.",
    "list": "List the planets of the solar system with one sentence about each.",
}
_ROUNDS = 12
_RUN = 6
_TRIMMED = 8000


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.speculation.exits", __doc__)
    parser.add_argument("--model", help="the embedded model by default")
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args(arguments)
    import torch

    import structgen as sg
    from structgen.models.decoder_layers import find_layers
    from structgen.speculative.learned import DEL

    torch.set_num_threads(1)
    model: Any = sg.load(options.model)
    found = find_layers(model.model)
    assert found is not None, "the layers of this model cannot run alone"
    inner, count = found[0], len(found[1])
    head = model.model.get_output_embeddings()
    exits = DEL().hidden_layers(count)
    rows = sorted({*range(2, count, max(1, count // 10)), count - 1})
    print("exit        ", *(f"{layer:>5}" for layer in rows))
    for name, prompt in _PROMPTS.items():
        ids = model.encode(prompt)
        session = model.start_with_hidden_states([ids], rows)
        written: list[int] = []
        for _ in range(options.tokens):
            written.append(int(session.logits()[0].argmax()))
            session.append([written[-1:]])
        states = session.hidden_states(0, len(ids))[:-1]
        with torch.inference_mode():
            best = head(inner.norm(states))[..., : model.vocabulary.size].argmax(-1).cpu().numpy()
        agreement = (best == np.array(written[1:])[:, None]).mean(0)
        print(f"{name:<12}", *(f"{share:5.2f}" for share in agreement))
    with torch.inference_mode():
        _costs(model, session, head, exits)


def _costs(model: Any, session: Any, head: Any, exits: Sequence[int]) -> None:
    import torch

    from structgen.speculative.learned.trimmed_head import trimmed_head

    held = len(session._tokens[0])
    width = model.model.get_input_embeddings().weight.shape[1]
    trimmed = trimmed_head(model, np.arange(min(_TRIMMED, model.vocabulary.size)))

    def reads(count: int) -> Callable[[], object]:
        def run() -> None:
            session.append_scored([[5] * count])
            session.rollback(0, count)
            session._stale.clear()  # the logits are not needed

        return run

    def exits_after(layers: int, count: int) -> Callable[[], object]:
        return lambda: session.early_exit(0, held, layers).states([5] * count)

    parts: dict[str, Callable[[], object]] = {
        "a pass over 1 token": reads(1),
        f"a pass over {_RUN} tokens": reads(_RUN),
    }
    for layers in (2, exits[len(exits) // 2]):
        for count in (1, _RUN):
            parts[f"{layers} layers over {count} tokens"] = exits_after(layers, count)
    one, look = torch.randn(1, width), torch.randn(4, len(exits), width)
    for name, layer in (("the output layer", head), (f"{_TRIMMED:,} rows of it", trimmed.best)):
        parts[f"{name}, 1 state"] = lambda layer=layer: layer(one.to(model.model.dtype))  # type: ignore[misc]
        parts[f"{name}, a look at 4 tokens"] = lambda layer=layer: layer(look.to(model.model.dtype))  # type: ignore[misc]
    seconds: dict[str, list[float]] = {name: [] for name in parts}
    for round_ in range(_ROUNDS + 2):
        for name, part in parts.items():
            begin = time.process_time()
            part()
            if round_ >= 2:
                seconds[name].append(time.process_time() - begin)
    print()
    whole = seconds["a pass over 1 token"]
    for name, took in seconds.items():
        ratio = statistics.median(mine / other for mine, other in zip(took, whole, strict=True))
        print(f"{name:<45} {1e3 * statistics.median(took):7.1f} ms {ratio:7.3f}")


if __name__ == "__main__":
    main()
