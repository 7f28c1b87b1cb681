"""Check that verdicts do not depend on spelling: MaskBench instances, rewritten and read through masks.

    python -m bench.verdicts --data maskbench.jsonl.gz [--tokenizer DIRECTORY] [--limit N] [--shuffle SEED] [--escapes]

Each instance is read as compact JSON, then with shuffled object keys, other white space and other spellings of numbers
(and, with ``--escapes``, any escapes of RFC 8259). Each text is split as the tokenizer does, at random, and byte by
byte. A token must be in the mask and advance, or neither. A text is accepted if it may end after its last token.

The verdict must be that of the judges (see `bench.judges`); otherwise the exit status is 1.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from bench.command import argument_parser
from bench.judges import Judge
from bench.records import progress, records
from bench.spelling import Speller, read
from bench.tokenizers import Tokeniser, vocabulary_of
from structgen.constraints.base import Constraint
from structgen.constraints.json_schema import json_schema
from structgen.errors import StructgenError, UnsatisfiableSchema
from structgen.matcher import Matcher

__all__ = ["Difference", "Verdicts", "main"]


class Difference(AssertionError):
    """The mask and `advance` disagree on a token."""


class Verdicts:
    """Reads rewritten instances of one schema after another and keeps the figures."""

    def __init__(self, tokeniser: Tokeniser, *, seed: int = 0, escapes: bool = False, texts: int = 1) -> None:
        self.tokeniser = tokeniser
        self.seed = seed
        self.escapes = escapes
        self.texts = texts
        self.figures: Counter[str] = Counter()
        self.differences: list[str] = []

    def check(self, record: dict[str, Any]) -> None:
        """All instances of a record; what differs is added to `differences`."""
        name = record.get("_file") or record.get("description", "?")
        source = random.Random(f"{self.seed} {name}")
        schema = record["schema"]
        judge = Judge(schema)
        self.figures["schemas"] += 1
        constraint: Constraint | None = None
        matcher: Matcher | None = None
        try:
            constraint = json_schema(schema, escapes="all" if self.escapes else "canonical")
            matcher = Matcher(constraint, self.tokeniser.vocabulary)
        except UnsatisfiableSchema:
            self.figures["schemas that nothing satisfies"] += 1
        except StructgenError as error:
            self.figures[f"schemas refused: {type(error).__name__}"] += 1
            return
        for number, test in enumerate(record["tests"]):
            where = f"{name} instance {number}"
            written = json.dumps(test["data"], ensure_ascii=False)
            try:
                written.encode()
            except UnicodeEncodeError:
                self.figures["instances with half a surrogate pair, left out"] += 1
                continue
            self.figures["instances"] += 1
            self._instance(where, matcher, judge, written, test, source, _draft4(schema))

    def _instance(
        self,
        where: str,
        matcher: Matcher | None,
        judge: Judge,
        written: str,
        test: dict[str, Any],
        source: random.Random,
        draft4: bool,
    ) -> None:
        value = read(written)
        plain = Speller(source, shuffle=False, spaces=False, numbers=False)
        speller = Speller(source, escapes=self.escapes, integers=not draft4)
        verdicts: dict[str, bool] = {}
        texts = [("plain", plain.text(value))]
        texts += [("rewritten", speller.text(value)) for _ in range(self.texts)]
        for kind, text in texts:
            for split, ids in self.tokeniser.splits(text, source):
                self.figures[f"{kind} texts read, {split} tokens"] += 1
                try:
                    verdict = matcher is not None and self.accepts(matcher, ids)
                except Difference as error:
                    self.differences.append(f"{where}, {kind} {split}: {error}: {text!r:.300}")
                    continue
                verdicts[f"{kind} {split} {text!r:.2000}"] = verdict
        if len(set(verdicts.values())) > 1:
            self.differences.append(f"{where}: verdicts differ: {verdicts}")
            return
        verdict = any(verdicts.values())
        self.figures["accepted" if verdict else "rejected"] += 1
        if judge.rejects(verdict, written):
            self.differences.append(
                f"{where}: {'accepted' if verdict else 'rejected'}, label {test['valid']},"
                f" jsonschema-rs {judge.fast(test['data'])}, exact {judge.exact(written)}: {written:.300}"
            )
        elif verdict != judge.fast(test["data"]):
            self.figures["arbitrated by the exact validator"] += 1
        if verdict != test["valid"]:
            self.figures["label of the data is otherwise"] += 1

    def accepts(self, matcher: Matcher, ids: Sequence[int]) -> bool:
        """The verdict of a matcher on a text; raises `Difference` where mask and `advance` disagree."""
        matcher.reset()
        native = matcher.native
        for index, token in enumerate(ids):
            allowed = bool(int(native.mask()[token >> 5]) >> (token & 31) & 1)
            advanced = native.advance(token)
            if allowed != advanced:
                raise Difference(
                    f"token {index} is {'' if allowed else 'not '}in the mask and yet not so read"
                )
            if not advanced:
                return False
        complete = native.is_complete()
        end = self.tokeniser.vocabulary.eos_ids[0]
        if complete != bool(int(native.mask()[end >> 5]) >> (end & 31) & 1):
            raise Difference("the mask and is_complete() disagree on the end of the text")
        return complete


def _draft4(schema: Any) -> bool:
    """Return whether some part of the schema declares draft 4."""
    return "draft-04" in json.dumps(schema)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.verdicts", __doc__)
    parser.add_argument("--data", required=True, help="MaskBench records, .jsonl or .jsonl.gz")
    parser.add_argument("--tokenizer", help="folder of a Hugging Face tokenizer (default: embedded model's)")
    parser.add_argument("--limit", type=int, help="so many schemas, drawn with a fixed seed")
    parser.add_argument("--shuffle", type=int, default=0, metavar="SEED", help="seed of all that is drawn")
    parser.add_argument("--escapes", action="store_true", help='any escapes, under escapes="all"')
    parser.add_argument("--texts", type=int, default=1, help="rewritten texts of each instance")
    chosen = parser.parse_args(arguments)
    tokeniser = Tokeniser(vocabulary_of(chosen.tokenizer))
    run = Verdicts(tokeniser, seed=chosen.shuffle, escapes=chosen.escapes, texts=chosen.texts)
    for record in progress(records(chosen.data, chosen.limit), "schemas"):
        before = len(run.differences)
        run.check(record)
        for difference in run.differences[before:]:
            print(f"DIFFERENCE {difference}", flush=True)
    for figure, count in run.figures.items():
        print(f"{count:8,} {figure}")
    print(f"{len(run.differences):8,} differences")
    sys.exit(1 if run.differences else 0)


if __name__ == "__main__":
    main()
