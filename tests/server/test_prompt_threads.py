"""Clients share the tokenizer threads fairly, and prompts with too many bytes are not tokenized at all."""

from __future__ import annotations

import asyncio
import random
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from structgen.server.prompt_threads import SHORT, PromptThreads, least_tokens_of

from .calls import post
from .conftest import NAME, Running

WORDS = [
    "a",
    " the",
    "\n\n",
    "  " * 20,
    "é",
    "ü\u0308",
    "日本",
    "🎉",
    "\u200d",
    "\x00",
    "-" * 70,
    "0123456789",
    "\t",
    "ab" * 30,
]


def test_a_short_prompt_does_not_wait_for_a_long_one() -> None:
    threads = PromptThreads(SimpleNamespace(tokenizer=[]))
    released, started = threading.Event(), threading.Event()

    def long(model: Any) -> str:
        started.set()
        assert released.wait(600)
        return "long"

    async def all_of_them() -> list[str]:
        slow = [asyncio.ensure_future(threads.run("a", SHORT + 1, long)) for _ in range(3)]
        await asyncio.to_thread(started.wait, 600)
        quick = await threads.run("b", SHORT, lambda model: "short")
        assert not any(one.done() for one in slow)
        slow[2].cancel()  # its client has left
        released.set()
        return [quick, *await asyncio.gather(*slow[:2])]

    assert asyncio.run(all_of_them()) == ["short", "long", "long"]
    threads.close()


def test_each_thread_has_a_tokenizer_of_its_own() -> None:
    model = SimpleNamespace(tokenizer=["x"])
    threads = PromptThreads(model)

    async def found() -> list[Any]:
        return [await threads.run("a", size, lambda one: one) for size in (1, SHORT + 1)]

    short, long = asyncio.run(found())
    assert short is model and long.tokenizer == model.tokenizer and long.tokenizer is not model.tokenizer
    threads.close()


def test_what_waits_at_the_end_is_cancelled() -> None:
    threads = PromptThreads(SimpleNamespace(tokenizer=[]))
    released = threading.Event()

    async def ended() -> bool:
        waiting = [
            asyncio.ensure_future(threads.run("a", 1, lambda model: released.wait(600))) for _ in range(3)
        ]
        await asyncio.sleep(0.05)
        threads.close()
        released.set()
        await asyncio.wait(waiting)
        return waiting[2].cancelled()

    assert asyncio.run(ended())


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_from_bytes_never_exceeds_the_number_of_tokens(model: Any, seed: int) -> None:
    draw = random.Random(seed)
    least = least_tokens_of(model)
    text = "".join(draw.choices(WORDS, k=draw.choice([1, 5, 200])))
    if seed % 2:
        text = draw.choice(WORDS) * 300
    assert 0 < least(text) <= len(model.tokenizer.encode(text))
    parts = model.render_prompt([{"role": "user", "content": text}])
    assert sum(map(least, parts)) <= len(model.encode([{"role": "user", "content": text}]))


def test_tokenizers_that_drop_bytes_have_no_bound(model: Any) -> None:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    def least(change: Any) -> int:
        backend = Tokenizer.from_str(model.tokenizer.backend_tokenizer.to_str())
        change(backend)
        made = SimpleNamespace(
            tokenizer=SimpleNamespace(backend_tokenizer=backend), vocabulary=model.vocabulary
        )
        return least_tokens_of(made)("x " * 10_000)

    def nothing(backend: Any) -> None:
        backend.decoder = decoders.Strip()

    assert least(nothing) > 0
    for change in (
        lambda backend: setattr(backend, "normalizer", normalizers.Strip()),
        lambda backend: setattr(backend, "normalizer", normalizers.Sequence([normalizers.NFC()])),
        lambda backend: setattr(backend, "normalizer", normalizers.Replace("xx", "x")),
        lambda backend: setattr(backend, "pre_tokenizer", pre_tokenizers.Whitespace()),
        lambda backend: setattr(backend, "model", models.WordPiece({"x": 0}, unk_token="x")),
        lambda backend: backend.enable_truncation(8),
    ):
        assert least(change) == 0
    assert least_tokens_of(SimpleNamespace())("x" * 10_000) == 0


def test_a_prompt_that_is_too_long_by_its_bytes_is_not_tokenized(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("it is tokenized")

    monkeypatch.setattr(server.service, "_least_tokens", lambda text: len(text) // 3)
    for model in (server.service._prompts._model, server.service._prompts._twin):
        monkeypatch.setattr(type(model.tokenizer), "encode", never)
    long = "ab " * 15_000
    for path, body in (
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": long}]}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "ab " * 100}] * 140}),
        ("/v1/completions", {"prompt": long}),
    ):
        status, answer = post(server, {"model": NAME, "max_tokens": 2, **body}, path)
        assert status == 400 and answer["error"]["code"] == "context_length_exceeded", answer
        assert "at least" in answer["error"]["message"]
