"""Count forward passes of recurrent models with drafts, and those of a Llama that replays the same texts.

    python -m bench.recurrent [--models mamba2 bamba jamba lfm2] [--texts 8]

The models are tiny, with random weights and the embedded model's vocabulary. Each writes JSON under a schema, without
drafts, with draft tokens and with draft trees; the texts must be the same. Then a tiny Llama writes the same texts,
because its logits are replaced by ones that allow nothing else, with the same drafters. A rejected draft costs no pass
of its own, so both should need the same number of passes. docs/speculation.md has the figures.
The exit status is 1 if a text differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import structgen as sg
from bench.command import argument_parser
from structgen.generation import Generation, SamplingOptions, generate_tokens
from structgen.matcher import Matcher
from structgen.models.session import start_session
from structgen.speculative import Speculation
from structgen.speculative.controllers import Fixed
from structgen.types import output_type
from structgen.vocabulary import Vocabulary

from .speculation.tasks import EXTRACTED, extraction_prompt

__all__ = ["main", "tiny_config"]

_DRAFTS, _MOST_TOKENS = 6, 120


def tiny_config(name: str, size: int, hidden: int = 64, layers: int = 2) -> Any:
    """Return the configuration of a model with `size` tokens, with a state of 16 numbers for each channel."""
    import transformers as hf

    common: dict[str, Any] = {"vocab_size": size, "pad_token_id": 0}
    sizes: dict[str, Any] = {
        "hidden_size": hidden,
        "intermediate_size": hidden * 3 // 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
    }
    heads = hidden // 8  # of 16 channels each, in the inner size of twice the hidden one
    attended = range(1, layers, 2)
    match name:
        case "llama":
            return hf.LlamaConfig(**common, **sizes, num_hidden_layers=layers)
        case "mamba2":
            return hf.Mamba2Config(
                **common,
                hidden_size=hidden,
                num_hidden_layers=layers,
                state_size=16,
                num_heads=heads,
                head_dim=16,
                n_groups=1,
            )
        case "bamba":
            mixer = {"mamba_d_state": 16, "mamba_n_heads": heads, "mamba_d_head": 16}
            return hf.BambaConfig(
                **common, **sizes, **mixer, num_hidden_layers=layers, attn_layer_indices=list(attended)
            )
        case "jamba":
            return hf.JambaConfig(
                **common,
                **sizes,
                num_hidden_layers=layers,
                attn_layer_period=2,
                attn_layer_offset=1,
                mamba_d_state=16,
                mamba_dt_rank=4,
                num_experts=1,
                use_mamba_kernels=False,
            )
        case "lfm2":
            types = ["full_attention" if layer in attended else "conv" for layer in range(layers + 1)]
            return hf.Lfm2Config(**common, **sizes, num_hidden_layers=layers + 1, layer_types=types)
    raise ValueError(f"there is no model {name!r}")


class _Tiny:
    """A tiny model that counts its forward passes."""

    context_length = None

    def __init__(self, name: str, vocabulary: Vocabulary) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        torch.manual_seed(0)
        self.vocabulary = vocabulary
        self.model = AutoModelForCausalLM.from_config(tiny_config(name, vocabulary.size)).eval()
        self.passes = 0
        self.model.register_forward_hook(self._count)

    def _count(self, *_: object) -> None:
        self.passes += 1

    def start(self, prompts: Sequence[Sequence[int]]) -> Any:
        """See `LanguageModel.start`."""
        return start_session(self.model, self.vocabulary.size, prompts)


class _Replaying(_Tiny):
    """A model whose logits allow the tokens of one text only."""

    text: Sequence[int] = ()

    def start(self, prompts: Sequence[Sequence[int]]) -> Any:
        session = super().start(prompts)
        return _ReplayingSession(session, len(prompts[0]), self.text, self.vocabulary.size)


class _ReplayingSession:
    """A session of one row with the logits of a text."""

    def __init__(self, session: Any, prompt: int, text: Sequence[int], size: int) -> None:
        self._session, self._prompt, self._text, self._size = session, prompt, text, size
        self._held = prompt
        self.capabilities = replace(session.capabilities, reads_trees=False)

    def logits(self) -> NDArray[np.float32]:
        return self._at(self._held)[None]

    def append(self, tokens: Sequence[Sequence[int]]) -> None:
        self._session.append(tokens)
        self._held += len(tokens[0])

    def append_scored(self, tokens: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        before = self._held
        self._session.append_scored(tokens)
        self._held += len(tokens[0])
        return [np.stack([self._at(before + offset + 1) for offset in range(len(tokens[0]))])]

    def rollback(self, row: int, n: int) -> None:
        self._session.rollback(row, n)
        self._held -= n

    def select(self, rows: Sequence[int]) -> None:
        self._session.select(rows)

    def _at(self, held: int) -> NDArray[np.float32]:
        logits = np.full(self._size, -1e9, dtype=np.float32)
        index = held - self._prompt
        logits[self._text[index] if index < len(self._text) else 0] = 0
        return logits


@dataclass(frozen=True)
class _Task:
    """One text to write."""

    prompt: list[int]
    constraint: sg.Constraint
    seed: int

    def write(
        self, model: _Tiny, *, drafts: bool, trees: bool = False, temperature: float = 1.0
    ) -> tuple[Generation, int]:
        """Return the generation and the number of forward passes."""
        before = model.passes
        options = SamplingOptions(seed=self.seed, temperature=temperature, max_tokens=_MOST_TOKENS)
        speculation = Speculation(controller=Fixed(_DRAFTS), branching=trees)
        drafting = speculation.start(model) if drafts else None
        matcher = Matcher(self.constraint, model.vocabulary)
        (found,) = generate_tokens(model, [self.prompt], [matcher], options, drafting=drafting)  # type: ignore[arg-type]
        return found, model.passes - before


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argument_parser("bench.recurrent", __doc__)
    parser.add_argument("--models", nargs="+", default=["mamba2", "bamba", "jamba", "lfm2"])
    parser.add_argument("--texts", type=int, default=8)
    options = parser.parse_args(arguments)
    vocabulary = sg.load().vocabulary
    replaying = _Replaying("llama", vocabulary)
    all_differing = 0
    for name in options.models:
        model = _Tiny(name, vocabulary)
        plain = drafted = branched = replayed = tokens = differing = 0
        for number in range(options.texts):
            kind, texts = EXTRACTED[number % len(EXTRACTED)]
            prompt = vocabulary.encode(extraction_prompt(kind, texts[number % len(texts)]).encode()) or []
            task = _Task(prompt, output_type(kind).constraint, number)
            alone, passes = task.write(model, drafts=False)
            plain += passes
            with_drafts, passes = task.write(model, drafts=True)
            drafted += passes
            with_trees, passes = task.write(model, drafts=True, trees=True)
            branched += passes
            replaying.text = [*alone.tokens, *([] if alone.end_token is None else [alone.end_token])]
            again, passes = task.write(replaying, drafts=True, temperature=0.0)
            replayed += passes
            differing += not alone.tokens == with_drafts.tokens == with_trees.tokens == again.tokens
            tokens += len(alone.tokens)
        print(
            f"{name}: {tokens} tokens in {plain} passes without drafts, {drafted} with, {branched} with trees; "
            f"Llama {replayed} "
            f"({drafted / replayed:.3f} times as many); {differing} texts differ",
            flush=True,
        )
        all_differing += differing
    return 1 if all_differing else 0


if __name__ == "__main__":
    raise SystemExit(main())
