"""Causal language models of `transformers` as `LanguageModel`: vocabulary, prompts, sessions.

A model and its tokenizer must agree about ids, ends of text and the chat template; a difference is an error when they
are wrapped. Text in a message cannot end its turn: markers in it are read as plain text.
Cost: reading the vocabulary when the model is wrapped; nothing per token besides the forward pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from structgen.brief import cut
from structgen.errors import ModelError, OptionError, PromptError, VocabularyMismatch, a_kind
from structgen.protocols import Message, Prompt, Session
from structgen.vocabulary import Vocabulary

from .messages import plain_messages

if TYPE_CHECKING:
    import torch


__all__ = ["HuggingFaceModel"]

# Models pad their output layer to a round number of rows. More than this is not taken for padding.
_MOST_PADDING = 8192
_MESSAGE_HINT = 'Messages look like {"role": "user", "content": "..."}.'
_SURROGATE = re.compile("[\ud800-\udfff]")
# Splits a marker in two; a noncharacter, which does not occur in text.
_MARKER_BREAK = "\ufdd0\ufdd1"


class HuggingFaceModel:
    """A `transformers` model and its tokenizer. Made by `structgen.load` and `structgen.wrap`."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        chat: bool | None = None,
        system: str | None = None,
        eos_ids: Iterable[int] | None = None,
        template: Mapping[str, Any] | None = None,
        size: int | None = None,
    ) -> None:
        _check_kind(model, tokenizer)
        self.model = model.eval()
        self.tokenizer = tokenizer
        ends = _eos_ids(model, tokenizer) if eos_ids is None else tuple(eos_ids)
        self.vocabulary = _vocabulary(tokenizer, _width(model), ends, size)
        config = model.config.get_text_config()
        self.context_length: int | None = getattr(config, "max_position_embeddings", None)
        self._is_chat = self._has_template if chat is None else chat
        self._system = system
        self._template = dict(template or {})

    def __repr__(self) -> str:
        name = getattr(self.model.config, "name_or_path", "") or ""
        about = f"{type(self.model).__name__}{f' {name!r}' if name else ''}, {self.vocabulary.size:,} tokens"
        return cut(f"<HuggingFaceModel {about}, {str(self.dtype).removeprefix('torch.')} on {self.device}>")

    @property
    def is_chat(self) -> bool:
        """Whether a prompt that is a text is a user's message."""
        return self._is_chat

    @property
    def device(self) -> torch.device:
        """The device of its weights."""
        device: torch.device = self.model.device
        return device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of its weights."""
        dtype: torch.dtype = self.model.dtype
        return dtype

    @property
    def cache_bytes_per_token(self) -> int:
        """The size of keys and values of one token of one row, in bytes; sliding windows count as full attention."""
        config = self.model.config.get_text_config()
        heads = config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // heads
        kept = getattr(config, "num_key_value_heads", None) or heads
        return int(2 * config.num_hidden_layers * kept * size * self.dtype.itemsize)

    def encode(self, prompt: Prompt, *, template: Mapping[str, Any] | None = None) -> list[int]:
        """Return the tokens of a prompt. With a chat template a string is one user message; otherwise it is plain text.

        Args:
            prompt: A text or messages.
            template: Variables of the chat template, in addition to those of the model.
        """
        if isinstance(prompt, str) and not self._is_chat:
            _check_prompt(prompt)
            return list(self.tokenizer.encode(prompt))
        return [
            i
            for part in self.render_prompt(prompt, template=template)
            for i in self.tokenizer.encode(part, add_special_tokens=False)
        ]

    def render_prompt(self, prompt: Prompt, *, template: Mapping[str, Any] | None = None) -> list[str]:
        """Return the text of messages in the chat template, in parts that are tokenized separately."""
        _check_prompt(prompt)
        messages = (
            [{"role": "user", "content": prompt}] if isinstance(prompt, str) else plain_messages(prompt)
        )
        for message in messages:
            _check_characters(message["content"])
        if self._system is not None and not any(message.get("role") == "system" for message in messages):
            messages.insert(0, {"role": "system", "content": self._system})
        return self._render([self._without_markers(message) for message in messages], template or {}).split(
            _MARKER_BREAK
        )

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, without special ones."""
        return self.vocabulary.decode(ids).decode("utf-8", "replace")

    def start(self, prompts: Sequence[Sequence[int]]) -> Session:
        """Prefill one row per prompt and return the session."""
        from .session import start_session

        return start_session(self.model, self.vocabulary.size, prompts)

    @property
    def hidden_state_bytes(self) -> int:
        """The size of one layer's hidden state of one token, in bytes."""
        return int(self.model.config.get_text_config().hidden_size) * self.dtype.itemsize

    @property
    def layer_count(self) -> int:
        """See `HiddenStatesModel.layer_count`."""
        return int(self.model.config.get_text_config().num_hidden_layers)

    def start_with_hidden_states(self, prompts: Sequence[Sequence[int]], layers: Sequence[int]) -> Session:
        """See `HiddenStatesModel.start_with_hidden_states`."""
        from .session import start_session

        wrong = next((layer for layer in layers if not 0 <= layer <= self.layer_count), None)
        if wrong is not None:
            raise OptionError(
                f"there is no hidden state {wrong!r:.40}: they are numbered 0 to {self.layer_count}"
            )
        return start_session(self.model, self.vocabulary.size, prompts, layers)

    @property
    def _has_template(self) -> bool:
        return bool(getattr(self.tokenizer, "chat_template", None))

    def _render(self, messages: Sequence[Message], template: Mapping[str, Any]) -> str:
        if not self._has_template:
            raise OptionError(
                "this tokenizer has no chat template, so it cannot encode messages",
                hint="Give the prompt as a string.",
            )
        from jinja2 import TemplateError

        try:
            text: str = self.tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, tokenize=False, **{**self._template, **template}
            )
        except (TemplateError, TypeError, KeyError, ValueError) as error:
            raise PromptError(
                f"the model's chat template refuses these messages: {error}",
                hint="Messages need role and content; many templates want user and assistant in turns.",
            ) from error
        return text

    def _without_markers(self, message: Message) -> Message:
        """Return the message with every marker in its text split, so that text cannot forge a turn."""
        content = message.get("content")
        if not isinstance(content, str) or not self._markers.search(content):
            return message
        return {
            **message,
            "content": self._markers.sub(lambda m: m[0][0] + _MARKER_BREAK + m[0][1:], content),
        }

    @cached_property
    def _markers(self) -> re.Pattern[str]:
        """A pattern of the special tokens, and of other added tokens that the chat template writes."""
        template = str(getattr(self.tokenizer, "chat_template", None) or "")
        marks = [
            token.content
            for token in self.tokenizer.added_tokens_decoder.values()
            if len(token.content) > 1
            and (token.special or (token.content.strip() and token.content in template))
        ]
        marks.sort(key=len, reverse=True)
        return re.compile("|".join(map(re.escape, marks)) if marks else r"(?!)")


def _check_prompt(prompt: object) -> None:
    is_text = isinstance(prompt, str)
    if not is_text and not (
        isinstance(prompt, Sequence)
        and not isinstance(prompt, bytes)
        and all(isinstance(message, Mapping) for message in prompt)
    ):
        raise PromptError(
            f"a prompt is a text or a list of messages, not {prompt!r:.60}",
            hint=_MESSAGE_HINT,
        )
    if not is_text and not prompt:
        raise PromptError("the list of messages is empty", hint=_MESSAGE_HINT)
    if isinstance(prompt, str):
        _check_characters(prompt)


def _check_characters(text: str) -> None:
    if not text.isascii() and _SURROGATE.search(text):
        raise PromptError(
            f"the prompt holds {_SURROGATE.findall(text)[0]!r}, half of a character, which is no text",
            hint="Decode the text correctly first.",
        )


def _check_kind(model: Any, tokenizer: object) -> None:
    if not _is_model(model) or not hasattr(tokenizer, "eos_token_id"):
        raise OptionError(
            f"{a_kind(model)} and {a_kind(tokenizer)} are no model and tokenizer of transformers",
            hint=_how_to_wrap(model, tokenizer),
        )
    if getattr(model.config, "is_encoder_decoder", False):
        raise ModelError(
            f"{type(model).__name__} is an encoder-decoder; structgen needs a causal language model",
            hint="Load one with transformers.AutoModelForCausalLM.",
        )
    if getattr(model, "get_output_embeddings", lambda: None)() is None:
        raise ModelError(
            f"{type(model).__name__} has no output layer over tokens",
            hint="Load it with transformers.AutoModelForCausalLM, not AutoModel.",
        )


def _is_model(given: object) -> bool:
    return hasattr(given, "config") and hasattr(given, "forward") and not isinstance(given, type)


def _how_to_wrap(model: object, tokenizer: object) -> str:
    """Return the hint for objects of the wrong type."""
    if _is_model(tokenizer) and hasattr(model, "eos_token_id"):
        return "They are the wrong way round: write wrap(model, tokenizer)."
    if _is_model(getattr(model, "model", None)) and hasattr(model, "tokenizer"):
        return "Give what is inside: wrap(pipeline.model, pipeline.tokenizer)."
    if type(model).__module__.startswith("llama_cpp"):
        return (
            "For a Llama of llama-cpp-python: structgen.integrations.llama_cpp.generate(llama, prompt, Type)."
        )
    if type(model).__module__.startswith("vllm"):
        return "For vLLM there is a plugin: docs/vllm.md."
    if _is_model(model) and type(tokenizer).__module__.startswith("tokenizers"):
        return "Wrap the tokenizer: transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)."
    if isinstance(model, str) or isinstance(tokenizer, str):
        return "Load both first, or write load(name)."
    return "Write wrap(model, tokenizer) with both loaded, or load(name)."


def _width(model: Any) -> int:
    """Return the number of logits of the model."""
    layer = model.get_output_embeddings()
    rows = getattr(layer, "out_features", None)
    return int(model.config.get_text_config().vocab_size if rows is None else rows)


def _eos_ids(model: Any, tokenizer: Any) -> tuple[int, ...] | None:
    """Return the model's own list of ends first, which contains end-of-turn tokens, then the tokenizer's."""
    declared = (
        getattr(getattr(model, "generation_config", None), "eos_token_id", None),
        getattr(model.config.get_text_config(), "eos_token_id", None),
        tokenizer.eos_token_id,
    )
    listed = [ids if isinstance(ids, list | tuple) else [ids] for ids in declared if ids is not None]
    return tuple(dict.fromkeys(int(i) for ids in listed for i in ids)) or None


def _vocabulary(
    tokenizer: Any, width: int, eos_ids: tuple[int, ...] | None, size: int | None = None
) -> Vocabulary:
    if size is not None and size != width:
        raise VocabularyMismatch(
            f"size is {size!r:.40}, but the model scores {width:,} tokens",
            hint=f"Give size={width}, or leave it out.",
        )
    if size is None and width - len(tokenizer) > _MOST_PADDING:
        raise VocabularyMismatch(
            f"the model scores {width:,} tokens, the tokenizer has {len(tokenizer):,}, and more than "
            f"{_MOST_PADDING:,} unused scores are not taken for padding by themselves",
            hint=f"If the model pads its scores so far, say so: structgen.wrap(model, tokenizer, size={width}). "
            "Otherwise check that the tokenizer and the model belong together.",
        )
    return Vocabulary.from_tokenizer(tokenizer, size=width, eos_ids=eos_ids)
