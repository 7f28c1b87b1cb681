"""Drafters that run a model: a smaller one, one with another vocabulary, or the model itself without some layers.

    DraftModel   a language model of its own. With the target's vocabulary it gives its distribution at each node. With
                 another one it drafts a text, which is split into the target's tokens, and it gives a distribution of
                 the target's tokens through a map that is learned from the texts (`vocabulary_map`)
    LayerSkip    the target without some layers. Which ones is optimised on the way: now and then another choice reads
                 the last tokens, and replaces the current one if it would have predicted more of them

With `token_ids` both score only some tokens at each draft token, such as the frequent ones (`trimmed_vocabulary`).

Cost: a pass of that model for every draft token. So drafts stop early, by `most` and by the probability that a token is
reached at all.
Source: Leviathan et al. 2023; Xia et al. 2025 (SWIFT); Ramakrishnan et al. 2025 (OmniDraft); Yang et al. 2025
(LongSpec), for the window; SpecMemo (2025), for the bound of memory; Chen et al. 2025 (RAPID), for `context`; Goel et
al. 2025 (VocabTrim), for `token_ids`.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structgen.errors import ModelError, OptionError, VocabularyMismatch, a_kind
from structgen.generation.distributions import log_sum_exp
from structgen.models.decoder_layers import find_layers, shallow_copy
from structgen.protocols import is_language_model, token_cache_bytes
from structgen.vocabulary import Vocabulary

from .checks import check_number, check_whole
from .draft_session import DraftSession, held_tokens
from .drafters import Context, Proposal, RowDrafter, SilentRow, Start
from .per_model import PerModel
from .recycling import most_probable
from .trimmed_vocabulary import MIN_TEMPERATURE, TrimmedVocabulary, checked_token_ids
from .vocabulary_map import VocabularyMap

__all__ = ["DraftModel", "LayerSkip"]

Array = NDArray[Any]
_LEARNED_TOKENS = 16
"""The number of tokens from which a map between vocabularies learns at a time."""


class DraftModel:
    """Drafts with a smaller language model.

    Args:
        model: A model from `structgen.load` or `structgen.wrap`.
        most: The largest number of tokens of a draft path.
        least: The probability that a node must have for the draft to go on from it.
        width: The number of alternatives proposed at a node.
        window: The number of last tokens that it reads, after the first four of the text, so that its KV cache does
            not grow with the text (LongSpec); None for all. It holds up to one and a half times as many.
        most_bytes: Memory for the KV caches of all its rows (SpecMemo). Rows for which there is no room get no drafts
            of it. None for no bound; a bound needs a `window` or a model with a known context length.
        context: The largest number of tokens of the prompt that it reads: the first ones, the last ones, and the chunks
            between them that match the last ones best (RAPID, `short_prompts`). None for the whole prompt. With
            it the passes of a draft model take no longer after a longer prompt, even of one as large as the target.
        token_ids: The tokens of the draft model that it may propose, as `frequent_tokens` finds them in calibration
            text (VocabTrim); None for all. Only their rows of its output layer are computed, so the draft model must be
            one of `transformers`. Where the constraint allows none of them, the draft ends. With another vocabulary
            than the target's, the drafted text consists of these tokens.

    Raises:
        ModelError: Rows of the draft model's output layer cannot be taken, or it does not have one of `token_ids`.
    """

    gives_distributions = True

    def __init__(
        self,
        model: Any,
        *,
        most: int = 6,
        least: float = 0.3,
        width: int = 2,
        window: int | None = None,
        most_bytes: int | None = None,
        context: int | None = None,
        token_ids: ArrayLike | None = None,
    ) -> None:
        if not is_language_model(model):
            raise OptionError(
                f"a draft model is a structgen model; this is {a_kind(model)}",
                hint="Make one with structgen.load(...) or structgen.wrap(model, tokenizer).",
            )
        _check_reach(most, least)
        check_whole("width", width)
        self.model = model
        if window is not None:
            check_whole("window", window, high=1_000_000)
        if context is not None:
            check_whole("context", context, low=16, high=1_000_000)
        self.context = context
        self.most, self.least, self.width, self.window = most, least, width, window
        self.token_ids = checked_token_ids(token_ids)
        self._drafting = model if self.token_ids is None else _trimmed_model(model, self.token_ids)
        self.most_rows = None if most_bytes is None else self._rows_in(most_bytes)
        """The largest number of rows that draft with it at a time; None for no bound."""
        self._rows: weakref.WeakSet[DraftSession] = weakref.WeakSet()
        self._shared: dict[str, bool] = {}
        self._maps: dict[str, VocabularyMap] = {}

    def start(self, start: Start) -> RowDrafter:
        """See `Drafter`."""
        if self.most_rows is not None and len(self._rows) >= self.most_rows:
            return SilentRow()
        if self._shares(start.vocabulary):
            session = self._session(start.prompt)
            return _SameRow(session, start, self.most, self.least, self.width, self.token_ids)
        if not start.vocabulary.encode("a") or not self.model.vocabulary.encode("a"):
            raise VocabularyMismatch(
                "the draft model has another vocabulary than the model, and there is no tokenizer to translate",
                hint="Give both a tokenizer that encodes text, or use a draft model with the same vocabulary.",
            )
        text = _whole_characters(bytes(start.vocabulary.decode(start.prompt)))
        prompt = (self.model.vocabulary.encode(text) if self.context is not None else None) or []
        known = self._map(start.vocabulary)
        row = _OtherRow(self._session(prompt), start, self.most, self.least, known, self.token_ids)
        row.begin_with(prompt)
        return row

    def _map(self, vocabulary: Vocabulary) -> VocabularyMap:
        name = vocabulary.fingerprint
        if name not in self._maps:
            self._maps = {name: VocabularyMap(self.model.vocabulary, vocabulary)}
        return self._maps[name]

    def _session(self, prompt: Sequence[int]) -> DraftSession:
        session = DraftSession(self._drafting, self.window)
        if self.context is not None and len(prompt) > self.context:
            session.shorten(prompt, self.context)
        self._rows.add(session)
        return session

    def _rows_in(self, most_bytes: int) -> int:
        """Return for how many rows there is room."""
        check_whole("most_bytes", most_bytes, high=1 << 60)
        tokens = self.model.context_length if self.window is None else held_tokens(self.window)
        token_bytes = token_cache_bytes(self.model)
        if tokens is None or not token_bytes:
            raise OptionError(
                "most_bytes bounds the KV caches of the draft model, whose size is not known",
                hint="Give a window as well, and a model that states cache_bytes_per_token.",
            )
        return most_bytes // (tokens * token_bytes)

    def _shares(self, vocabulary: Vocabulary) -> bool:
        name = vocabulary.fingerprint
        if name not in self._shared:
            self._shared = {name: _are_the_same(self.model.vocabulary, vocabulary)}
        return self._shared[name]


def _trimmed_model(model: Any, token_ids: NDArray[np.int64]) -> Any:
    from .trimmed_models import TrimmedModel  # it loads torch

    return TrimmedModel(model, token_ids)


def _check_reach(most: int, least: float) -> None:
    check_whole("most", most)
    check_number("least", least)


class _SameRow(RowDrafter):
    def __init__(
        self,
        session: DraftSession,
        start: Start,
        most: int,
        least: float,
        width: int,
        token_ids: NDArray[np.int64] | None = None,
    ) -> None:
        self._drafts = session
        self._size, self._known = start.vocabulary.size, session.model.vocabulary.size
        self._most, self._least, self._width = most, least, width
        self._temperature = max(start.temperature, MIN_TEMPERATURE)
        self._trimmed: TrimmedVocabulary | None = None
        if token_ids is not None:  # the draft model may pad its vocabulary further than the target
            self._trimmed = TrimmedVocabulary(token_ids[token_ids < self._size], self._size)

    def propose(self, context: Context) -> Iterable[Proposal]:
        logits = self._logits(context)
        if logits is None:
            return ()
        best = most_probable(logits, self._width)
        chances = np.exp(logits[best] - log_sum_exp(logits))
        tokens = best if self._trimmed is None else self._trimmed.token_ids[best]
        return [
            Proposal((int(token),), f"draft {rank}, {int(chance * 5)}", float(chance))
            for rank, (token, chance) in enumerate(zip(tokens, chances, strict=True))
            if chance > 0 or self._trimmed is None  # what the mask forbids has no chance
        ]

    def distribution(self, context: Context) -> Array | None:
        """Return the distribution of the next token at the row's temperature, ``[vocabulary.size]``."""
        logits = self._logits(context)
        if logits is None:
            return None
        if self._trimmed is not None:
            return self._trimmed.distribution(logits, self._temperature)
        scaled = logits.astype(np.float64) / self._temperature
        distribution: Array = np.exp(scaled - scaled.max())
        return distribution

    def observe(self, tokens: Sequence[int], start: int) -> None:
        """Do nothing: the context has all tokens."""

    def _logits(self, context: Context) -> Array | None:
        """Return logits of all tokens, or those of a trimmed vocabulary under the mask; None to end the draft."""
        if context.drafted >= self._most or context.reach < self._least:
            return None
        if self._known < self._size and max(context.tokens, default=0) >= self._known:
            return None  # the prompt contains a token that only pads the longer vocabulary
        logits = self._drafts.logits(context.tokens)
        if logits is not None and self._trimmed is not None:
            count = len(self._trimmed.token_ids)
            return self._trimmed.masked(logits[:count], context) if count else None
        if logits is None or len(logits) == self._size:
            return logits
        padded: Array = np.full(self._size, -np.inf, logits.dtype)
        padded[: len(logits)] = logits[: self._size]
        return padded


def _are_the_same(first: Vocabulary, second: Vocabulary) -> bool:
    """Return whether two vocabularies have the same tokens, except for padding of the longer one.

    Models of one family often share a tokenizer and round the rows of their output layers to other numbers.
    """
    if first.fingerprint == second.fingerprint:
        return True
    short, long = sorted((first, second), key=len)
    return all(
        long.token_bytes(token) == (short.token_bytes(token) if token < len(short) else None)
        for token in range(len(long))
    )


class _OtherRow(RowDrafter):
    def __init__(
        self,
        session: DraftSession,
        start: Start,
        most: int,
        least: float,
        known: VocabularyMap,
        token_ids: NDArray[np.int64] | None = None,
    ) -> None:
        self._drafts = session
        self._model = session.model
        self._vocabulary = start.vocabulary
        self._most, self._least, self._map = most, least, known
        self._temperature = max(start.temperature, MIN_TEMPERATURE)
        self._trimmed: TrimmedVocabulary | None = None
        if token_ids is not None:
            self._trimmed = TrimmedVocabulary(token_ids, self._model.vocabulary.size)
        self._learned = 0
        """The number of the row's tokens from which the map has learned."""
        self._tokens: list[int] = []
        self._text = b""

    def begin_with(self, tokens: Sequence[int]) -> None:
        """Set the draft model's tokens of the beginning of the text."""
        self._tokens, self._text = list(tokens), bytes(self._model.vocabulary.decode(tokens))

    def propose(self, context: Context) -> Iterable[Proposal]:
        if context.drafted:
            return ()
        if not self._follow(bytes(self._vocabulary.decode(context.tokens))):
            return ()
        drafted: list[int] = []
        ends = set(self._model.vocabulary.eos_ids)
        while len(drafted) < self._most:
            logits = self._logits([*self._tokens, *drafted])
            if logits is None or (token := int(logits.argmax())) in ends:
                break
            drafted.append(token)
        text = _whole_characters(bytes(self._model.vocabulary.decode(drafted)))
        tokens = self._vocabulary.encode(text) if text else None
        return (Proposal(tokens, "draft text", 0.5),) if tokens else ()

    def distribution(self, context: Context) -> Array | None:
        """Return the distribution of the next token at the row's temperature, as far as the map knows it."""
        if context.drafted >= self._most or context.reach < self._least:
            return None
        if not self._follow(bytes(self._vocabulary.decode(context.tokens))):
            return None

        def draft_distribution(after: Sequence[int]) -> Array | None:
            logits = self._logits([*self._tokens, *after])
            if logits is None:
                return None
            scaled = logits[: self._model.vocabulary.size].astype(np.float64) / self._temperature
            return np.asarray(np.exp(scaled - log_sum_exp(scaled)))

        found = self._map.distribution(draft_distribution, self._least)
        return None if found is None or not found.any() else found

    def observe(self, tokens: Sequence[int], start: int) -> None:
        """Learn how both vocabularies split the new text, every few tokens."""
        self._learned = min(self._learned, start)
        if not self._learned or len(tokens) - self._learned >= _LEARNED_TOKENS:
            self._learn(tokens)

    def finish(self, tokens: Sequence[int]) -> None:
        """Learn from the rest of the text."""
        self._learn(tokens)

    def _logits(self, tokens: Sequence[int]) -> Array | None:
        """Return the draft model's logits of all of its tokens; minus infinity outside of a trimmed vocabulary."""
        logits = self._drafts.logits(tokens)
        return logits if logits is None or self._trimmed is None else self._trimmed.expanded(logits)

    def _learn(self, tokens: Sequence[int]) -> None:
        new, self._learned = tokens[self._learned :], len(tokens)
        encoded = self._model.vocabulary.encode(_whole_characters(bytes(self._vocabulary.decode(new))))
        if encoded:
            self._map.learn(new, encoded)

    def _follow(self, text: bytes) -> bool:
        """Extend the draft model's tokens to `text`.

        Returns:
            False if the end of the text cannot be tokenized yet, such as half a character.
        """
        vocabulary = self._model.vocabulary
        while self._tokens and (not text.startswith(self._text) or _is_inside(text, len(self._text))):
            self._tokens.pop()
            self._text = bytes(vocabulary.decode(self._tokens))
        new = text[len(self._text) :]
        encoded = vocabulary.encode(_whole_characters(new))
        if encoded:
            self._tokens += encoded
            self._text = bytes(vocabulary.decode(self._tokens))
            if not text.startswith(self._text):  # else it would be encoded again and again
                raise VocabularyMismatch("the draft model's tokenizer does not reproduce the text")
        return self._text == text


def _is_inside(text: bytes, offset: int) -> bool:
    """Return whether a UTF-8 character continues at `offset`."""
    return offset < len(text) and text[offset] & 0xC0 == 0x80


def _whole_characters(text: bytes) -> bytes:
    """Return the longest prefix of the bytes that is UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return text[: error.start]
    return text


class LayerSkip:
    """Drafts with the model itself without some of its layers.

    It keeps no model alive: when the model is freed, what was made for it is dropped.

    Args:
        keep: The fraction of the layers that run, above 0 and below 1.
        most: The largest number of tokens of a draft path.
        least: The probability that a node must have for the draft to go on from it.
        refresh: The number of tokens after which another choice of layers is tried; None for never.
        seed: The seed of these choices.
        token_ids: The tokens that it may propose, as `frequent_tokens` finds them in calibration text (VocabTrim); None
            for all. Only their rows of the output layer are computed. Where the constraint allows none of them, the
            draft ends.

    Raises:
        ModelError: Rows of the model's output layer cannot be taken, or it does not have one of `token_ids` (when a
            text starts).
    """

    gives_distributions = True

    def __init__(
        self,
        keep: float = 0.5,
        *,
        most: int = 6,
        least: float = 0.4,
        refresh: int | None = 24,
        seed: int = 0,
        token_ids: ArrayLike | None = None,
    ) -> None:
        if not isinstance(keep, int | float) or not 0 < keep < 1:
            raise OptionError(f"keep is {keep!r:.40}; it must be above 0 and below 1")
        _check_reach(most, least)
        if refresh is not None:
            check_whole("refresh", refresh, high=1_000_000)
        self.keep, self.most, self.least, self.refresh = float(keep), most, least, refresh
        self.token_ids = checked_token_ids(token_ids)
        self.layers: list[int] = []
        """The layers that run, of the model that was used last."""
        self._random = np.random.default_rng(seed)
        self._drafts: PerModel[_Skeleton] = PerModel()
        self.tried = self.changed = 0

    def start(self, start: Start) -> RowDrafter:
        """See `Drafter`."""
        draft = self.draft(start.model)
        if draft is None:
            count = len(_layers_of(start.model)[1])
            kept = max(1, min(round(self.keep * count), count - 1))
            # The first and the last layers matter most; between them about every other one.
            evenly = np.linspace(0, count - 1, kept).round().astype(int).tolist()
            layers = sorted({0, count - 1, *evenly})[:kept]
            draft = self._use(start.model, _Skeleton(start.model, layers, self._output(start.model)))
        return _SkipRow(self, start, draft)

    def try_another(self, model: Any, tokens: Sequence[int]) -> bool:
        """Let another choice of layers read `tokens`; use it if it would have predicted more of them.

        Args:
            model: The model. Nothing is tried if another one was used last.
            tokens: The last tokens of a text.
        """
        draft = self.draft(model)
        if draft is None:
            return False
        count = len(_layers_of(model)[1])
        others = [layer for layer in range(count) if layer not in draft.layers]
        if not others or len(tokens) < 8:
            return False
        self.tried += 1
        if self._random.random() < 0.3:  # early exit: only the first layers
            chosen = list(range(len(draft.layers)))
        else:
            chosen = list(draft.layers)
            chosen[int(self._random.integers(1, max(2, len(chosen))) % len(chosen))] = int(
                self._random.choice(others)
            )
        other = _Skeleton(model, sorted(set(chosen)), draft.output)
        ids = self.token_ids
        if _predicted(other, tokens, ids) <= _predicted(draft, tokens, ids):
            return False
        self._use(model, other)
        self.changed += 1
        return True

    def draft(self, model: Any) -> _Skeleton | None:
        """Return a model with the chosen layers only; None if another one was used last."""
        return self._drafts.get(model)

    def _output(self, model: Any) -> Any:
        """Return a layer of the model's output rows; None for all of them."""
        if self.token_ids is None:
            return None
        from .trimmed_models import trimmed_output  # it loads torch

        return trimmed_output(model, self.token_ids)

    def _use(self, model: Any, draft: _Skeleton) -> _Skeleton:
        self.layers = draft.layers
        self._drafts.set(model, draft)
        return draft


class _SkipRow(RowDrafter):
    def __init__(self, drafter: LayerSkip, start: Start, draft: _Skeleton) -> None:
        self._drafter = drafter
        self._start = start
        self._seen = len(start.prompt)
        self._take(draft)

    def propose(self, context: Context) -> Iterable[Proposal]:
        return self._row.propose(context)

    def distribution(self, context: Context) -> Array | None:
        return self._row.distribution(context)

    def observe(self, tokens: Sequence[int], start: int) -> None:
        drafter, model = self._drafter, self._start.model
        if drafter.refresh is not None and len(tokens) >= self._seen + drafter.refresh:
            self._seen = len(tokens)
            drafter.try_another(model, tokens[-48:])
        draft = drafter.draft(model)
        if draft is not None and draft is not self._draft:
            self._take(draft)

    def _take(self, draft: _Skeleton) -> None:
        drafter, self._draft = self._drafter, draft
        session = DraftSession(draft)
        self._row = _SameRow(session, self._start, drafter.most, drafter.least, 1, drafter.token_ids)


class _Skeleton:
    """A transformers model with some of its layers, as a language model.

    It shares the weights with the whole model, and has no reference to it.

    Args:
        model: The whole model.
        layers: The layers that run.
        output: Takes the place of the output layer, from `trimmed_output`; None for the model's own.
    """

    def __init__(self, model: Any, layers: list[int], output: Any = None) -> None:
        from torch.nn import ModuleList

        self.vocabulary, self.context_length, self.layers = model.vocabulary, model.context_length, layers
        self.output = output
        self._size = model.vocabulary.size if output is None else output.out_features
        inner, whole = _layers_of(model)
        config = copy.deepcopy(model.model.config)
        config.num_hidden_layers = len(layers)
        if getattr(config, "layer_types", None):
            config.layer_types = [config.layer_types[layer] for layer in layers]
        parts = []
        for index, layer in enumerate(layers):
            part = shallow_copy(whole[layer])
            part._modules["self_attn"] = shallow_copy(part._modules["self_attn"])
            part._modules["self_attn"].layer_idx = index
            parts.append(part)
        body = shallow_copy(inner)
        body._modules["layers"] = ModuleList(parts)
        body.config = config
        self.model = shallow_copy(model.model)
        self.model.config = config
        for name, module in self.model._modules.items():
            if module is inner:
                self.model._modules[name] = body
        if output is not None:
            from .trimmed_models import with_output

            self.model = with_output(self.model, output)

    def start(self, prompts: Sequence[Sequence[int]]) -> Any:
        """See `LanguageModel.start`."""
        from structgen.models.session import start_session

        return start_session(self.model, self._size, prompts)


def _layers_of(model: object) -> tuple[Any, Any]:
    """Return the module of a structgen model that holds its layers, and the layers."""
    whole = getattr(model, "model", None)
    found = find_layers(whole)
    if found is not None:
        return found
    raise ModelError(
        f"layers of {a_kind(whole if whole is not None else model)} cannot be skipped",
        hint="LayerSkip needs a transformers model with `layers` that have `self_attn`, such as Llama's or Qwen's.",
    )


def _predicted(draft: Any, tokens: Sequence[int], token_ids: NDArray[np.int64] | None) -> int:
    """Return how many of `tokens` the model would have predicted greedily.

    Args:
        draft: The model.
        tokens: The tokens.
        token_ids: The tokens that its logits are for; None for all.
    """
    session = draft.start([list(tokens[:1])])
    (scores,) = session.append_scored([list(tokens[1:])])
    best = scores[:-1].argmax(axis=1)
    return int(((best if token_ids is None else token_ids[best]) == np.array(tokens[2:])).sum())
