"""What GPT and Llama share: token embeddings through causal blocks, with or without a cache."""

from __future__ import annotations

from typing import Any

import numpy as np

import minitx.functional as F
from minitx.cache import KVCache
from minitx.errors import DtypeError, shape_error
from minitx.graph import no_grad
from minitx.nn import Block, Dropout, Embedding, Module, Positions
from minitx.tensor import Tensor


class Decoder(Module):
    """A causal language model. A subclass sets `config`, `tokens`, `positions`,
    `blocks`, `norm` and `dropout`.
    """

    config: Any
    tokens: Embedding
    positions: Positions
    blocks: list[Block]
    norm: Module
    dropout: Dropout

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden (..., d_model) -> (..., vocab_size)."""
        raise NotImplementedError(f"{type(self).__name__} must define logits(self, hidden).")

    def forward(self, ids: Any, *, cache: KVCache | None = None, lengths: Any = None) -> Tensor:
        """Logits (B, n, vocab_size) of the token after each of ids (B, n).

        Args:
            ids: integers 0 ... vocab_size - 1.
            cache: ids are read as the continuation of what it holds, and are appended to it. The logits are
                those of the whole sequence without a cache.
            lengths: (B,), how many of each row's ids are real, the rest being padding on the right. Logits
                at padding mean nothing; a cache keeps the real ones only.

        Raises ValueError for a wrong shape and for a sequence longer than config.context, DtypeError for ids
        that are not integers, IndexError for one outside the vocabulary. The cache is then as it was.
        """
        ids = self._check_ids(ids)
        return self.logits(self.forward_embeddings(self.tokens(ids), cache=cache, lengths=lengths))

    def forward_embeddings(self, x: Tensor, *, cache: KVCache | None = None, lengths: Any = None) -> Tensor:
        """The same from token embeddings x (B, n, d_model) to the hidden states after the last norm."""
        batch, n, _ = x.shape
        counts = self._check_lengths(lengths, batch, n)
        if cache is None:
            self._check_context(n)
            return self.norm(self._run(x, np.arange(n)))
        self._check_cache(cache, x)
        if cache.window is None:
            cache.check_room(n)
            self._check_context(cache.length + n)
        elif cache.length + n > cache.capacity:
            return self._through_window(x, cache, counts)
        hidden = self.norm(self._run(x, _positions_behind(cache, n), cache))
        cache.advance(n if counts is None else counts)
        return hidden

    def new_cache(
        self, batch: int, capacity: int | None = None, *, window: int | None = None, sinks: int = 0
    ) -> KVCache:
        """An empty cache that fits this model; config.context positions, or sinks + window, by default.

        Raises ValueError for a window where positions are added at the input: a token that has moved would
        keep its old one.
        """
        if window is not None and not self.positions.movable:
            raise ValueError(
                f"{type(self.positions).__name__} are added at the input: tokens cannot move in a window. "
                "Models with rotary positions or ALiBi can."
            )
        room = self.config.context if window is None else sinks + window
        attention = self.blocks[0].attention
        return KVCache(
            len(self.blocks),
            batch,
            attention.n_kv_heads,
            room if capacity is None else capacity,
            attention.head_dim,
            dtype=self.tokens.weight.dtype,
            window=window,
            sinks=sinks,
        )

    def attention_weights(self, ids: Any) -> list[np.ndarray]:
        """For each layer the weights (B, H, n, n) with which each token of ids (B, n) reads the others."""
        ids = self._check_ids(ids)
        self._check_context(ids.shape[1])
        places, kept = np.arange(ids.shape[1]), []
        with no_grad():
            x = self.positions.embed(self.tokens(ids), places)
            for block in self.blocks:
                x, weights = block(x, positions=places, return_weights=True)
                kept.append(weights.numpy())
        return kept

    def n_parameters(self) -> int:
        """How many numbers are trained; what is shared counts once."""
        return sum(parameter.size for parameter in self.parameters())

    def _run(self, x: Tensor, positions: np.ndarray, cache: KVCache | None = None) -> Tensor:
        mask = None if cache is None else cache.allowed(x.shape[1], causal=True)
        x = self.dropout(self.positions.embed(x, positions))
        for layer, block in enumerate(self.blocks):
            x = block(x, mask=mask, positions=positions, cache=cache, layer=layer)
        return x

    def _through_window(self, x: Tensor, cache: KVCache, counts: np.ndarray | None) -> Tensor:
        """Through a cache that becomes full: each token after the last free place goes alone.

        So every token sees the sinks and the newest keys before it, in whatever pieces the text comes.
        """
        n, d_model = x.shape[1:]
        if counts is not None and (counts != n).any():
            rows = []
            for b, count in enumerate(counts):
                row = self.forward_embeddings(x[b : b + 1, : int(count)], cache=cache.row(b))
                rows.append(F.concatenate([row, np.zeros((1, n - int(count), d_model), x.dtype)], axis=1))
            return F.concatenate(rows, axis=0)
        free = cache.capacity - cache.length
        pieces = [x[:, :free]] if free else []
        pieces += [x[:, i : i + 1] for i in range(free, n)]
        hidden = []
        for piece in pieces:
            cache.make_room(piece.shape[1])
            hidden.append(self.norm(self._run(piece, _positions_behind(cache, piece.shape[1]), cache)))
            cache.advance(piece.shape[1])
        return F.concatenate(hidden, axis=1)

    def _check_ids(self, ids: Any) -> np.ndarray:
        array = np.asarray(ids._array if isinstance(ids, Tensor) else ids)
        if array.ndim != 2 or 0 in array.shape:
            hint = "One sequence is a batch of one: ids[None]." if array.ndim == 1 and array.size else ""
            raise shape_error("ids", "(B, n), neither of them 0,", array.shape, hint)
        if array.dtype.kind not in "iu":
            raise DtypeError(f"ids must be integers, got {array.dtype}.")
        return array

    def _check_lengths(self, lengths: Any, batch: int, n: int) -> np.ndarray | None:
        if lengths is None:
            return None
        counts = np.asarray(lengths)
        if counts.shape != (batch,):
            raise shape_error("lengths", f"(B = {batch},)", counts.shape)
        if counts.dtype.kind not in "iu" or (counts < 0).any() or (counts > n).any():
            raise ValueError(f"lengths must be integers in 0 ... n = {n}, got {counts.tolist()}.")
        return counts.astype(np.int64)

    def _check_context(self, length: int) -> None:
        if length > self.config.context:
            raise ValueError(
                f"A sequence of {length} tokens is longer than the context of this model, "
                f"{self.config.context}. Shorten it, or use a cache with a window where positions allow it."
            )

    def _check_cache(self, cache: KVCache, x: Tensor) -> None:
        attention = self.blocks[0].attention
        expected = (len(self.blocks), x.shape[0], attention.n_kv_heads, attention.head_dim)
        got = (cache.n_layers, cache.batch, cache.keys.shape[2], cache.keys.shape[4])
        if expected != got:
            raise ValueError(
                "This cache does not fit: (n_layers, batch, n_kv_heads, head_dim) must be "
                f"{expected}, got {got}. model.new_cache(batch) makes one that does."
            )
        if cache.dtype != x.dtype:
            raise DtypeError(f"cache must be {x.dtype}, that of the model, got {cache.dtype}.")
        if cache.window is not None and not self.positions.movable:
            raise ValueError(f"{type(self.positions).__name__} do not go with a cache that has a window.")


def _positions_behind(cache: KVCache, n: int) -> np.ndarray:
    """The places of n new tokens: (n,), or (B, n) where rows differ in length."""
    positions = cache.lengths[:, None] + np.arange(n)
    return positions if cache.is_ragged else positions[0]


def check_heads(config: Any) -> None:
    """Raise ValueError unless the sizes of a configuration are positive and its heads divide."""
    for name in ("vocab_size", "context", "n_layers", "n_heads", "d_model"):
        size = getattr(config, name)
        if not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {size!r}.")
    if config.head_dim is None and config.d_model % config.n_heads:
        raise ValueError(f"d_model {config.d_model} does not divide into n_heads {config.n_heads}.")
