"""Train a small masked diffusion model of JSON on values that the library draws from real schemas.

    python -m bench.diffusion.train_json --data maskbench.jsonl.gz --out FOLDER

The values are those of `JsonSchemaConstraint.example_text` for the schemas of a MaskBench file; one schema in ten, by a
hash of its name, is held out. The loss is that of LLaDA (arXiv 2502.09992): a share t of the tokens is masked, with t
uniform, and the cross-entropy of the masked tokens is weighted by 1/t. Rows are padded with the end token, which is
learned too.

Cost: an hour on two cores for the weights in the test data. A stopped training continues from ``--out``.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import structgen as sg
from bench.command import argument_parser
from bench.records import records
from structgen.errors import StructgenError
from structgen.progress import ProgressBar

from .json_tokens import JsonTokens, fits, learned

__all__ = ["LENGTH", "is_held_out", "main", "schemas"]

LENGTH = 128
_SIZE = 1_536
_HELD_OUT = 10


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.diffusion.train_json", __doc__)
    parser.add_argument("--data", type=Path, required=True, help="maskbench-dev.jsonl.gz")
    parser.add_argument("--out", type=Path, required=True, help="a folder for the model")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--values", type=int, default=12, help="of each schema (12)")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    chosen = parser.parse_args(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    texts = _texts(chosen.data, chosen.values, chosen.out / "values.json.gz")
    if (chosen.out / "tokens.json").exists():
        tokens = JsonTokens.load(chosen.out)
    else:
        tokens = learned(texts, _SIZE)
        tokens.save(chosen.out)
    rows = [row for text in texts if (row := fits(tokens, text, LENGTH)) is not None]
    print(f"{len(texts)} values, {len(rows)} of at most {LENGTH} tokens")
    _train(rows, tokens, chosen)


def schemas(data: Path, *, held_out: bool) -> Iterator[tuple[str, Any]]:
    """Yield the names and schemas of one part of the file."""
    for record in records(data):
        if is_held_out(record["_file"]) == held_out:
            yield record["_file"], record["schema"]


def is_held_out(name: str) -> bool:
    """Return whether the model is not trained on values of the schema of this name."""
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % _HELD_OUT == 0


def _texts(data: Path, count: int, kept: Path) -> list[str]:
    if kept.exists():
        with gzip.open(kept, "rt") as file:
            kept_texts: list[str] = json.load(file)
            return kept_texts
    texts = []
    all_of = list(schemas(data, held_out=False))
    with ProgressBar(len(all_of), "schemas", True) as bar:
        for _, schema in all_of:
            bar.advance()
            try:
                constraint = sg.json_schema(schema, whitespace="json.dumps")
                for seed in range(count):
                    text = constraint.example_text(seed)
                    if len(text) > 6 * LENGTH:
                        break
                    texts.append(text)
            except StructgenError:
                continue  # one that is refused, or that nothing satisfies
    texts = list(dict.fromkeys(texts))
    with gzip.open(kept, "wt") as file:
        json.dump(texts, file)
    return texts


def _train(rows: Sequence[Sequence[int]], tokens: JsonTokens, chosen: Any) -> None:
    import torch
    import transformers

    torch.set_num_threads(chosen.threads)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(tokens.tokens),
        hidden_size=192,
        num_hidden_layers=6,
        num_attention_heads=6,
        intermediate_size=512,
        max_position_embeddings=LENGTH,
        type_vocab_size=1,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=tokens.end_id,
    )
    model = transformers.BertForMaskedLM(config)
    state = chosen.out / "training.pt"
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, betas=(0.9, 0.98))
    spent, step = 0.0, 0
    if state.exists():
        saved = torch.load(state, map_location="cpu")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        spent, step = saved["spent"], saved["step"]
    whole = torch.full((len(rows), LENGTH), tokens.end_id, dtype=torch.long)
    for index, row in enumerate(rows):
        whole[index, : len(row)] = torch.tensor(row)
    print(f"{sum(one.numel() for one in model.parameters()) / 1e6:.2f} M parameters, from step {step}")
    seconds, started, losses = 60 * chosen.minutes, time.perf_counter() - spent, []
    chance = random.Random(step)
    while (elapsed := time.perf_counter() - started) < seconds:
        rate = 1e-3 * min(1.0, (step + 1) / 200) * max(0.02, 1 - elapsed / seconds)
        for group in optimizer.param_groups:
            group["lr"] = rate
        batch = whole[[chance.randrange(len(rows)) for _ in range(chosen.batch)]]
        # No more columns than the longest row of the batch needs, and a few ends.
        longest = int((batch != tokens.end_id).sum(1).max())
        batch = batch[:, : min(LENGTH, longest + 1 + chance.randrange(8))]
        share = torch.rand(len(batch), 1).clamp(min=0.02)
        masked = torch.rand(batch.shape) < share
        given = batch.masked_fill(masked, tokens.mask_id)
        logits = model(input_ids=given, attention_mask=torch.ones_like(given)).logits
        each = torch.nn.functional.cross_entropy(logits.transpose(1, 2), batch, reduction="none")
        weight = torch.where(batch == tokens.end_id, 0.2, 1.0) * masked / share
        loss = (each * weight).sum() / weight.sum().clamp(min=1.0)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        losses.append(loss.item())
        if step % 200 == 0:
            print(f"step {step}, {elapsed / 60:.1f} min, loss {sum(losses[-200:]) / 200:.3f}", flush=True)
            _save(model, tokens, optimizer, step, time.perf_counter() - started, chosen.out)
    _save(model, tokens, optimizer, step, time.perf_counter() - started, chosen.out)


def _save(model: Any, tokens: JsonTokens, optimizer: Any, step: int, spent: float, out: Path) -> None:
    import copy

    import torch

    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "spent": spent},
        out / "training.pt",
    )
    copy.deepcopy(model).half().save_pretrained(out / "model", safe_serialization=True)
    tokens.save(out / "model")


if __name__ == "__main__":
    main()
