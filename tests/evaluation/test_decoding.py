"""The generation loop, over a model with a fixed next-token distribution."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from structgen.evaluation.decoding import PROMPT_CHARACTERS, LocalWriter, Written, prompt_for
from structgen.evaluation.engines import ENGINES, Session, open_engine
from structgen.evaluation.engines.own import Structgen
from structgen.models.memory import DistributionModel
from structgen.vocabulary import Vocabulary

_BYTES = Vocabulary.of_bytes()
_PROMPT = prompt_for({})


def _model(context_length: int | None = None) -> DistributionModel:
    """Return a model that prefers a quote, then letters from the end of the alphabet down, then the end."""
    weights = np.ones(257)
    weights[:33] = 0.5  # no spaces where engines allow them
    weights[ord("a") : ord("z") + 1] = np.arange(2, 28)
    weights[256] = 100
    probabilities = weights / weights.sum()
    return DistributionModel(_BYTES, lambda _: probabilities, context_length=context_length)


def _written(schema: Any, engine: str = "structgen", **options: Any) -> Written:
    model = _model(options.pop("context_length", None))
    writer = LocalWriter(model, open_engine(engine, _BYTES), **{"max_tokens": 20, **options})
    return writer.write(_PROMPT, schema, options.pop("name", "x"), lambda: None)


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "unconstrained"])
def test_the_most_probable_text_of_the_schema(engine: str) -> None:
    pytest.importorskip(ENGINES[engine].module)
    report = _written({"enum": ["az", "by", "b"]}, engine)
    assert (report.status, report.message, report.text, report.ended) == ("ok", None, '"by"', True)
    assert report.tokens == 5  # the end is one
    assert report.compile_s is not None and report.ttft_s is not None and report.compile_s < report.ttft_s
    assert report.tpot_s is not None and report.mask_s is not None and report.mask_s > 0


def test_without_constraint_the_model_is_free() -> None:
    report = _written({"enum": ["az"]}, "unconstrained")
    assert (report.text, report.tokens, report.ended, report.tpot_s) == ("", 1, True, None)


def test_a_text_is_cut_off_at_the_bound_and_at_the_context() -> None:
    schema = {"type": "string", "minLength": 50}
    report = _written(schema, max_tokens=7)
    assert (report.status, report.tokens, report.ended, report.text) == ("ok", 7, False, '"zzzzzz')
    assert _written(schema, context_length=5).tokens == 4  # the prompt is one token
    assert _written(schema, context_length=1).tokens == 0


def test_draws_depend_on_seed_and_name_only() -> None:
    schema = {"type": "string", "minLength": 8, "pattern": "^[a-z]*$"}
    texts = {
        (seed, name): LocalWriter(
            _model(), open_engine("structgen", _BYTES), max_tokens=9, temperature=1.0, seed=seed
        )
        .write(_PROMPT, schema, name, lambda: None)
        .text
        for seed in (0, 1, 0)
        for name in ("x", "y")
    }
    assert len(set(texts.values())) == 4
    again = _written(schema, max_tokens=9, temperature=1.0, seed=0)
    assert again.text == texts[0, "x"]


def test_a_refused_schema_has_no_text() -> None:
    report = _written({"type": "nothing like it"})
    assert report.status == "refused" and report.tokens == 0 and "SchemaInvalid" in str(report.message)


class _Failing:
    """An engine that fails after two tokens: by an empty mask, a refused token, or an error."""

    def __init__(self, session: Session, how: str) -> None:
        self._session = session
        self._how = how
        self._tokens = 0

    def mask(self) -> Any:
        if self._tokens == 2 and self._how == "empty":
            return np.zeros(_BYTES.words, np.int32)
        return self._session.mask()

    def accept(self, token: int) -> bool:
        self._tokens += 1
        if self._tokens == 2 and self._how == "raise":
            raise KeyError("lost")
        return self._session.accept(token) and not (self._tokens == 2 and self._how == "refuse")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("empty", "no token is allowed after 2"),
        ("raise", "KeyError: 'lost'"),
        ("refuse", "token 122, allowed by the mask, is refused"),
    ],
)
def test_an_engine_that_fails_in_the_middle_is_an_error(how: str, said: str) -> None:
    class Engine(Structgen):
        def start(self, program: Any) -> Session:
            return _Failing(super().start(program), how)

    report = LocalWriter(_model(), Engine(_BYTES), max_tokens=9).write(
        _PROMPT, {"type": "string", "minLength": 5}, "x", lambda: None
    )
    assert (report.status, report.message, report.text, report.ended) == ("error", said, '"z', False)


def test_a_slow_engine_is_stopped_and_every_token_counts_as_progress() -> None:
    beats: list[int] = []
    writer = LocalWriter(_model(), open_engine("structgen", _BYTES), max_tokens=9, seconds=0.0)
    report = writer.write(_PROMPT, {"type": "string", "minLength": 5}, "x", lambda: beats.append(1))
    assert report.status == "timeout" and report.tokens == 1 and "more than 0 s" in str(report.message)
    assert len(beats) == 3  # before the prompt, after compiling, after the token


def test_the_prompt_is_the_schema_or_its_beginning() -> None:
    ((message,),) = (prompt_for({"type": "integer", "title": "\ud800 é"}),)
    assert message["role"] == "user" and json.dumps({"type": "integer"})[:-1] in message["content"]
    assert message["content"].endswith('"title": "? é"}') or "\\ud800" in message["content"]
    long = prompt_for({"enum": ["x" * 10_000]})[0]["content"]
    assert len(long) < PROMPT_CHARACTERS + 200 and long.endswith("(the rest is left out)")
