"""Derive the rule "token text -> token bytes" from the components of a Hugging Face tokenizer.

Why: class names say little (many models call theirs ``PreTrainedTokenizerFast``), while the decoder defines how
tokens become text. This module reads the decoder's own description. So the rule is what ``decode`` does to a token
in the middle of a text, before it strips, cleans up or replaces broken UTF-8.

Invariant: a decoder with a step that depends on neighbouring tokens has no such rule, and is refused by name.

Source: the decoders of the ``tokenizers`` library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from structgen.errors import VocabularyError

from .table import byte_level, fallback_byte

__all__ = ["ByteRule", "byte_rule"]

Component = Mapping[str, Any]

_HINT = (
    "Exact constraints need tokens whose bytes concatenate to the text: byte-level BPE, SentencePiece (Metaspace, "
    "byte fallback), or tiktoken. If you have your own mapping, use Vocabulary.from_tokens."
)


@dataclass(frozen=True)
class ByteRule:
    """How a tokenizer writes bytes into the texts of its tokens."""

    is_byte_level: bool = False
    replacements: tuple[tuple[str, str], ...] = ()
    has_byte_fallback: bool = False
    strips_first_space: bool = False

    def token_bytes(self, token: str, *, is_added: bool = False) -> bytes:
        """Return the bytes of a text token. Under a byte alphabet, an added token stands for its own text."""
        if self.is_byte_level:
            data = None if is_added else byte_level(token)
            return token.encode() if data is None else data
        if self.has_byte_fallback:
            data = fallback_byte(token)
            if data is not None:
                return data
        for pattern, content in self.replacements:
            token = token.replace(pattern, content)
        return token.encode()


def byte_rule(
    decoder: Component | None, pre_tokenizer: Component | None, normalizer: Component | None
) -> ByteRule:
    """Return the rule of a tokenizer.

    Args:
        decoder: The component as a JSON object, or None.
        pre_tokenizer: The same.
        normalizer: The same.

    Raises:
        VocabularyError: The bytes of a token depend on its neighbours.
    """
    steps = _flatten(decoder, "decoders")
    names = [step["type"] for step in steps]
    if "ByteLevel" in names:
        others = [name for name in names if name not in ("ByteLevel", "Fuse")]
        if others:
            raise _refusal(f"its decoder joins ByteLevel with {', '.join(others)}")
        return ByteRule(is_byte_level=True)
    if not steps:
        before = [*_flatten(pre_tokenizer, "pretokenizers"), *_flatten(normalizer, "normalizers")]
        if any(step["type"] == "ByteLevel" for step in before):
            return ByteRule(is_byte_level=True)
        raise _refusal("it has no decoder, which joins tokens with spaces")
    rule = ByteRule()
    is_fused = False
    for step in steps:
        rule = _add_step(rule, step, is_fused)
        is_fused = is_fused or step["type"] in ("Fuse", "Metaspace")
    return rule


def _add_step(rule: ByteRule, step: Component, is_fused: bool) -> ByteRule:
    name = step["type"]
    replacements, fallback, strips = rule.replacements, rule.has_byte_fallback, rule.strips_first_space
    if name == "Replace":
        pattern = step["pattern"].get("String")
        # A longer pattern on the joined text could match across tokens.
        if not pattern or (is_fused and len(pattern) > 1):
            raise _refusal(f"its decoder replaces {step['pattern']!r}, which is not a replacement per token")
        replacements = (*replacements, (pattern, step["content"]))
    elif name == "Metaspace":
        replacements = (*replacements, (step["replacement"], " "))
        strips = strips or step.get("prepend_scheme", "always") != "never"
    elif name == "ByteFallback":
        fallback = True
    elif name == "Strip":
        if not is_fused or step["content"] != " " or step["stop"]:
            raise _refusal("its decoder strips more than the start of a text")
        strips = strips or bool(step["start"])
    elif name != "Fuse":
        raise _refusal(f"its decoder is {name}, which spells a token differently for different neighbours")
    return ByteRule(False, replacements, fallback, strips)


def _flatten(component: Component | None, key: str) -> Sequence[Component]:
    if component is None:
        return []
    if component["type"] == "Sequence":
        return [step for part in component[key] for step in _flatten(part, key)]
    return [component]


def _refusal(problem: str) -> VocabularyError:
    return VocabularyError(f"the tokens of this tokenizer have no exact bytes: {problem}", hint=_HINT)
