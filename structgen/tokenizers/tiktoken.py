"""tiktoken encodings, whose mergeable ranks already are the bytes of the tokens."""

from __future__ import annotations

from typing import Any

from .table import TokenTable

__all__ = ["read_encoding"]


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


def _ends(encoding: Any) -> tuple[int, ...]:
    try:
        return (encoding.eot_token,)
    except KeyError:
        return ()
