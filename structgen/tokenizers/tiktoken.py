"""tiktoken encodings, whose mergeable ranks already are the bytes of the tokens, and slow tokenizers around them.

Kimi's and the first Qwen's tokenizers are slow ones of `transformers` with a ``tiktoken.Encoding`` inside.
Source: ``tokenization_kimi.py`` (moonshotai/Kimi-K2-Instruct) and ``tokenization_qwen.py`` (Qwen/Qwen-7B).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .table import TokenTable

__all__ = ["find_encoding", "read_encoding", "read_tiktoken_wrapper"]

_INNER = ("model", "tokenizer")
"""The attributes under which a slow tokenizer has its encoding."""


def find_encoding(tokenizer: object) -> Any:
    """Return the ``tiktoken.Encoding`` inside a slow tokenizer of `transformers`; None if it has none."""
    found = (getattr(tokenizer, name, None) for name in _INNER)
    return next((one for one in found if type(one).__module__.partition(".")[0] == "tiktoken"), None)


def read_encoding(encoding: Any) -> TokenTable:
    """Return the tokens of a ``tiktoken.Encoding``. Ids between its ranks and its special tokens may be unused."""
    tokens: list[bytes | None] = [None] * encoding.n_vocab
    specials = {text: encoding.encode_single_token(text) for text in encoding.special_tokens_set}
    control = set(specials.values())
    for i in range(encoding.n_vocab):
        if i in control:
            continue
        try:
            tokens[i] = encoding.decode_single_token_bytes(i)
        except KeyError:
            continue  # an unused id
    return TokenTable(tokens, _ends(encoding), encoding.encode_ordinary, specials=specials)


def read_tiktoken_wrapper(tokenizer: Any, encoding: Any) -> TokenTable:
    """Return the tokens of a slow tokenizer around an encoding.

    All special tokens of the encoding are control tokens, also those that the tokenizer shows (Kimi's marks of tool
    calls): constraints name them by their texts.
    """
    table = read_encoding(encoding)
    tokens, specials = list(table.tokens), dict(table.specials)
    special = set(tokenizer.all_special_ids)
    for i, token in getattr(tokenizer, "added_tokens_decoder", {}).items():
        tokens.extend([None] * (i + 1 - len(tokens)))
        if tokens[i] is None and not token.special and i not in special and i not in specials.values():
            tokens[i] = token.content.encode()
            continue
        specials = {text: known for text, known in specials.items() if known != i}
        tokens[i], specials[token.content] = None, i
    eos = tokenizer.eos_token_id
    if eos is None:  # the first Qwen has its end under another name
        eos = getattr(tokenizer, "eod_id", None)
    return replace(table, tokens=tokens, eos_ids=table.eos_ids if eos is None else (eos,), specials=specials)


def _ends(encoding: Any) -> tuple[int, ...]:
    try:
        return (encoding.eot_token,)
    except KeyError:
        return ()
