"""Check liveness: random and adversarial walks through masks must have a completion that is valid.

    python -m bench.walks [--data maskbench.jsonl.gz] [--random N] [--tokenizer DIRECTORY] [--limit N] [--walks N]

A walk draws ``--steps`` tokens from the masks by one strategy, then follows `Matcher.witness()`, a short completion.
The text must be complete, and the judges must accept it (see `bench.judges`). The strategies:

- ``uniform``: every token of the mask with the same probability. Such texts are unlike any model's, with long strings.
- ``likely``: by the frequency of the tokens in the instances of the data, so that walks see much structure.
- ``unlikely``: the token that is rarest there, a cheap stand-in for an adverse model. It hardly ever closes a
  container.
- ``longest``: the longest token of the mask, which crosses the most states at once.
- ``opening``: the token with the most opening brackets, so that texts are as deep as the schema allows.

The report counts walks without a completion (generation would have to go back), dead ends, and schemas with states that
count as live without a proof. The exit status is 1 if the judges reject a text, if a token of the mask is refused, if a
completion cannot be followed, or if a walk has no completion although all its states were proven live.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.command import argument_parser
from bench.judges import Judge
from bench.records import progress, records
from bench.spelling import Speller
from bench.tokenizers import vocabulary_of
from structgen.constraints.json_schema import json_schema
from structgen.errors import LimitExceeded, StructgenError, UnsatisfiableSchema
from structgen.generation.distributions import allowed_ids
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

__all__ = ["STRATEGIES", "Walker", "main", "random_schemas"]

Draw = Callable[[NDArray[np.int64], random.Random], int]
STRATEGIES = ("uniform", "likely", "unlikely", "longest", "opening")


class Walker:
    """Walks over one vocabulary, and their figures."""

    def __init__(self, vocabulary: Vocabulary, frequencies: NDArray[np.int64], steps: int = 60) -> None:
        self.vocabulary = vocabulary
        self.steps = steps
        self.figures: Counter[str] = Counter()
        self.faults: list[str] = []
        self._ends = list(vocabulary.eos_ids)
        pieces = [vocabulary.token_bytes(token) or b"" for token in range(vocabulary.size)]
        opening = np.array([piece.count(b"{") + piece.count(b"[") for piece in pieces])
        self._draws: dict[str, Draw] = {
            "uniform": lambda ids, source: int(ids[source.randrange(len(ids))]),
            "likely": _weighted(frequencies),
            "unlikely": _greatest(-frequencies),
            "longest": _greatest(np.array([len(piece) for piece in pieces])),
            "opening": _greatest(opening),
        }

    def walk_all(self, schema: Any, where: str, seed: int, strategies: Iterable[str] = STRATEGIES) -> None:
        """Walk once by each strategy; only count a schema that is refused or that nothing satisfies."""
        self.figures["schemas"] += 1
        try:
            matcher = Matcher(json_schema(schema), self.vocabulary)
        except UnsatisfiableSchema:
            self.figures["schemas that nothing satisfies"] += 1
            return
        except StructgenError as error:
            self.figures[f"schemas refused: {type(error).__name__}"] += 1
            return
        judge = Judge(schema)
        for strategy in strategies:
            try:
                self.walk(matcher, judge, strategy, where, random.Random(f"{seed} {strategy} {where}"))
            except LimitExceeded as error:
                self.figures[f"walks stopped by a limit: {error.limit}"] += 1
                print(f"LIMIT {where}, {strategy}: {error}", flush=True)
        if matcher.unproven:
            self.figures["schemas with unproven decisions"] += 1
            print(f"UNPROVEN {where}: {matcher.unproven} decisions", flush=True)

    def walk(
        self, matcher: Matcher, judge: Judge, strategy: str, where: str, source: random.Random
    ) -> bytes | None:
        """Walk once and follow the completion. Return the text, or None without one; collect faults."""
        matcher.reset()
        self.figures[f"walks, {strategy}"] += 1
        where = f"{where}, {strategy}"
        for _ in range(self.steps):
            ids = self._allowed(matcher)
            if not len(ids):
                break
            token = self._draws[strategy](ids, source)
            self.figures["tokens drawn"] += 1
            if not matcher.advance(token):
                self._fault(f"{where}: token {token} of the mask is refused after", matcher)
                return None
        rest = matcher.witness()
        if rest is None:
            self.figures["walks without completion"] += 1
            if not matcher.native.mask().any():
                self.figures["dead ends"] += 1
            if not matcher.unproven:
                self._fault(f"{where}: no completion, and nothing counted as unproven, after", matcher)
            return None
        self.figures["tokens of completions"] += len(rest)
        for token in rest:
            allowed = bool(int(matcher.mask()[token >> 5]) >> (token & 31) & 1)
            if not allowed or not matcher.advance(token):
                self._fault(f"{where}: token {token} of a completion is refused after", matcher)
                return None
        if not matcher.is_complete():
            self._fault(f"{where}: a completion leaves the text incomplete:", matcher)
            return None
        text = matcher.text.decode()
        if judge.rejects(True, text):
            self._fault(f"{where}: the judges reject", matcher)
            return None
        self.figures["texts finished and accepted"] += 1
        return matcher.text

    def _allowed(self, matcher: Matcher) -> NDArray[np.int64]:
        ids = allowed_ids(matcher.mask(), self.vocabulary.size)
        return ids[~np.isin(ids, self._ends)] if matcher.is_complete() else ids

    def _fault(self, text: str, matcher: Matcher) -> None:
        self.faults.append(f"{text} {matcher.text!r} (tokens {matcher.tokens})")


def _weighted(frequencies: NDArray[np.int64]) -> Draw:
    # One draw in ten is uniform, so that walks also reach states that never occur in the data.
    def draw(ids: NDArray[np.int64], source: random.Random) -> int:
        sums = np.cumsum(frequencies[ids])
        if source.random() < 0.1 or not sums[-1]:
            return int(ids[source.randrange(len(ids))])
        return int(ids[np.searchsorted(sums, source.randrange(int(sums[-1])), side="right")])

    return draw


def _greatest(scores: NDArray[np.int64]) -> Draw:
    def draw(ids: NDArray[np.int64], source: random.Random) -> int:
        here = scores[ids]
        best = ids[here == here.max()]
        return int(best[source.randrange(len(best))])

    return draw


def token_frequencies(vocabulary: Vocabulary, listed: Iterable[dict[str, Any]]) -> NDArray[np.int64]:
    """Count each token in the instances of some records: a unigram model of JSON."""
    counts = np.zeros(vocabulary.size, dtype=np.int64)
    speller = Speller(random.Random(0), shuffle=False, spaces=False, numbers=False)
    for record in listed:
        for test in record["tests"]:
            try:
                ids = vocabulary.encode(speller.text(test["data"]))
            except UnicodeEncodeError:  # half a surrogate pair
                continue
            np.add.at(counts, ids or [], 1)
    return counts


def random_schemas(count: int, seed: int) -> Iterator[Any]:
    """Return random schemas of the tests' strategy, the same for the same seed."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded

    from tests.strategies.json_schemas import ALL, schemas

    collected: list[Any] = []
    if count < 1:
        return iter(collected)

    @seeded(seed)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(schemas(ALL))
    def collect(schema: Any) -> None:
        collected.append(schema)

    collect()
    return iter(collected)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.walks", __doc__)
    parser.add_argument("--data", help="MaskBench records, .jsonl or .jsonl.gz")
    parser.add_argument("--random", type=int, default=2000, help="random schemas (default: 2000)")
    parser.add_argument("--tokenizer", help="folder of a Hugging Face tokenizer (default: embedded model's)")
    parser.add_argument("--limit", type=int, help="number of schemas of the data, drawn with a fixed seed")
    parser.add_argument("--steps", type=int, default=60, help="tokens drawn before the walk is steered")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--walks", type=int, default=len(STRATEGIES), help="per schema, by strategies in turn"
    )
    parser.add_argument("--strategies", nargs="+", default=STRATEGIES, choices=STRATEGIES)
    chosen = parser.parse_args(arguments)
    vocabulary = vocabulary_of(chosen.tokenizer)
    listed = records(chosen.data, chosen.limit) if chosen.data else []
    walker = Walker(vocabulary, token_frequencies(vocabulary, listed[:2000]), chosen.steps)
    named = [
        (f"random schema {i}", schema) for i, schema in enumerate(random_schemas(chosen.random, chosen.seed))
    ]
    kinds = {"random": named, "data": [(record["_file"], record["schema"]) for record in listed]}
    faults = 0
    for kind, schemas in kinds.items():
        if not schemas:
            continue
        for index, (where, schema) in enumerate(progress(schemas, f"{kind} schemas")):
            turn = [chosen.strategies[(index + i) % len(chosen.strategies)] for i in range(chosen.walks)]
            walker.walk_all(schema, where, chosen.seed, turn)
            for fault in walker.faults:
                print(f"FAULT {fault}\n  under {schema!r:.2000}", flush=True)
            faults += len(walker.faults)
            walker.faults.clear()
        print(f"{kind} schemas:")
        for figure, count in walker.figures.items():
            print(f"{count:10,} {figure}")
        walker.figures.clear()
    print(f"{faults:10,} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
