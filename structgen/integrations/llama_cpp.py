"""Constraints for llama-cpp-python: a `logits_processor` for completions and chats, and typed calls on a `Llama`.

Why: users of GGUF files need one more object, not another generation loop. llama.cpp's own grammars halve its speed.
How: llama.cpp calls a processor with all tokens so far, prompt included, and the logits of the next token. The tokens
of the first call are the prompt. Each later call has one token more; any other call starts a new generation.
Invariant: no token that the constraint forbids can be sampled, and an end of text is allowed exactly where the text is
complete. The ends are those at which llama.cpp itself stops.
Cost: a mask, usually a look-up, and one pass over the logits: about a tenth of a millisecond for 49k tokens.
Source: `Llama._init_sampler` and `Llama.generate` of llama-cpp-python 0.3.36.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.api import described
from structgen.argument_names import checks_names
from structgen.errors import ModelError, OptionError, OutputInvalid, Truncated, VocabularyError, a_kind
from structgen.extras import needed
from structgen.matcher import Matcher, warn_of_temperatures
from structgen.types import output_type
from structgen.vocabulary import Vocabulary

__all__ = ["ConstraintProcessor", "generate", "logits_processor", "vocabulary_of"]

_vocabularies: weakref.WeakKeyDictionary[Any, Vocabulary] = weakref.WeakKeyDictionary()


def vocabulary_of(llama: Any) -> Vocabulary:
    """Return the vocabulary of a `Llama`, read from its GGUF file once. Raises `VocabularyError`."""
    _check(llama)
    known = _vocabularies.get(llama)
    if known is None:
        path = Path(llama.model_path)
        if not path.is_file():
            raise VocabularyError(
                f"the model's file is missing: {path.name}", hint="Its tokens are read from it."
            )
        known = Vocabulary.from_tokenizer(path, size=llama.n_vocab(), eos_ids=_ends(llama))
        _vocabularies[llama] = known
    return known


@checks_names
def logits_processor(constraint: Any, llama: Any, *, vocabulary: Vocabulary | None = None) -> Any:
    """Return a list for ``llama(..., logits_processor=...)`` and ``llama.create_chat_completion``.

    Args:
        llama: A `llama_cpp.Llama`.
        constraint: A constraint, or anything that structgen accepts as an output type.

    Returns:
        A list with one processor. It serves one generation at a time, and any number one after another.

    Raises:
        OptionError: The `Llama` has a draft model, which passes tokens to processors that are not in the text.
    """
    with needed("logits_processor()", extra="llama-cpp"):
        from llama_cpp import LogitsProcessorList

    _check(llama)
    if getattr(llama, "draft_model", None) is not None:
        raise OptionError(
            "a Llama with a draft model passes drafts to processors as if they were text",
            hint="Create it without draft_model=.",
        )
    known = vocabulary_of(llama) if vocabulary is None else vocabulary

    class Processors(LogitsProcessorList):  # type: ignore[misc]
        def extend(self, more: Iterable[Any]) -> Any:
            # subtle: with a logit_bias, llama-cpp-python replaces the list by what this returns, and
            # list.extend returns None, so that every processor would be dropped.
            return type(self)([*self, *more])

    return Processors([ConstraintProcessor(constraint, known)])


def generate(
    llama: Any,
    prompt: str | Sequence[Mapping[str, Any]],
    output: Any = str,
    *,
    max_tokens: int = 512,
    describe: bool = False,
    **options: Any,
) -> Any:
    """Return the model's answer as a value of type `output`: a chat if `prompt` is messages, else a completion.

    `describe` adds the fields of the type to the prompt. The other options are those of ``Llama.create_completion``.

    Raises:
        Truncated: The answer was cut off before it was complete.
        OutputInvalid: A validator of the type refuses the answer.
    """
    kind = output_type(output)
    if {"stop", "stream", "grammar", "response_format", "tools"} & options.keys():
        raise OptionError(
            "generate() takes no stop, stream, grammar, response_format or tools: the type determines the format"
        )
    if kind.spells_specials and vocabulary_of(llama).specials.keys() & set(kind.constraint.markers):
        raise OptionError(
            "the markers of the reasoning are special tokens, which llama-cpp-python omits from the text it returns",
            hint="Load the file with structgen.load(), or use other markers: sg.reasoning(..., open='[', close=']').",
        )
    given = options.pop("logits_processor", None)
    processors = logits_processor(kind.constraint, llama)
    processors = processors if given is None else processors.extend(given)
    asked = described(prompt, kind) if describe else prompt
    more = {**options, "max_tokens": max_tokens, "logits_processor": processors}
    if isinstance(asked, str):
        choice = llama.create_completion(asked, **more)["choices"][0]
        text = choice["text"]
    else:
        choice = llama.create_chat_completion([dict(message) for message in asked], **more)["choices"][0]
        text = choice["message"]["content"] or ""
    if choice["finish_reason"] == "length" and not kind.is_free_text:
        try:  # a text may be complete at the last token
            if processors[0].is_complete_after(text):
                return kind.validate(text)
        except OutputInvalid:
            pass
        raise Truncated(
            f"the output was cut off after {max_tokens} tokens: {text[-60:]!r}",
            text=text,
            hint="Raise max_tokens.",
        )
    return kind.validate(text)


class ConstraintProcessor:
    """One constraint as a function ``(input_ids, scores) -> scores``, as llama-cpp-python calls it."""

    def __init__(self, constraint: Any, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        # Compiled here, so that an impossible constraint raises where it was written.
        self._matcher = Matcher(output_type(constraint).constraint, vocabulary)
        warn_of_temperatures(self._matcher, "llama-cpp-python")
        self._known: NDArray[np.intc] = np.zeros(0, np.intc)
        self._is_lost = False
        """Whether another processor or sampler selected a token that is not allowed."""

    def reset(self) -> None:
        """Forget the generation so far. Only needed if the next prompt is the last text plus one token."""
        self._known = np.zeros(0, np.intc)
        self._matcher.reset()
        self._is_lost = False

    def is_complete_after(self, text: str) -> bool:
        """Return whether `text` is a complete text of the constraint."""
        fresh = self._matcher.fork()
        fresh.reset()
        return fresh.explain(text).ok

    def __call__(self, input_ids: NDArray[np.intc], scores: NDArray[np.single]) -> NDArray[np.single]:
        """Set the scores of tokens that the constraint does not allow to minus infinity, in place; return `scores`."""
        if scores.shape[-1] != self.vocabulary.size:
            raise ModelError(
                f"the model scores {scores.shape[-1]:,} tokens, the vocabulary has {self.vocabulary.size:,}",
                hint="Create the processor with the Llama that it is for.",
            )
        self._follow(input_ids)
        words = (
            self.vocabulary.eos_mask if self._is_lost or self._matcher.is_finished else self._matcher.mask()
        )
        bits = np.unpackbits(words.view(np.uint8), count=self.vocabulary.size, bitorder="little")
        np.copyto(scores, -np.inf, where=bits == 0)
        return scores

    def _follow(self, input_ids: NDArray[np.intc]) -> None:
        length = len(self._known)
        if length and len(input_ids) == length + 1 and np.array_equal(input_ids[:length], self._known):
            if not self._is_lost and not self._matcher.is_finished:
                self._is_lost = not self._matcher.advance(int(input_ids[-1]))
        else:
            self._matcher.reset()
            self._is_lost = False
        self._known = np.array(input_ids, np.intc)


def _ends(llama: Any) -> list[int]:
    """Return the tokens at which llama.cpp stops."""
    with needed("reading the vocabulary of a Llama", extra="llama-cpp"):
        from llama_cpp import llama_model_get_vocab, llama_vocab_is_eog

    native = llama_model_get_vocab(llama.model)
    return [token for token in range(llama.n_vocab()) if llama_vocab_is_eog(native, token)]


def _check(llama: Any) -> None:
    if not hasattr(llama, "n_vocab") or not hasattr(llama, "model_path"):
        raise OptionError(f"this is {a_kind(llama)}, not a llama_cpp.Llama", hint="Llama(model_path=...)")
