"""BERT: an encoder, in which every token attends to every other; and sentence vectors made of its output."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from minitx.errors import DtypeError, shape_error
from minitx.nn import Block, Dropout, Embedding, LayerNorm, LearnedPositions, Module
from minitx.randomness import generator
from minitx.tensor import Tensor, as_tensor


@dataclass(frozen=True)
class BertConfig:
    """The sizes of a `Bert`; d_ff is 4 d_model by default. Raises ValueError for one that is not positive."""

    vocab_size: int
    context: int
    n_layers: int
    n_heads: int
    d_model: int
    d_ff: int | None = None
    n_types: int = 2
    dropout: float = 0.0
    eps: float = 1e-12

    def __post_init__(self) -> None:
        for name in ("vocab_size", "context", "n_layers", "n_heads", "d_model", "n_types"):
            size = getattr(self, name)
            if not isinstance(size, int | np.integer) or size < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {size!r}.")
        if self.d_model % self.n_heads:
            raise ValueError(f"d_model {self.d_model} does not divide into {self.n_heads} heads.")

    def as_dict(self) -> dict[str, Any]:
        """All settings by name; BertConfig(**settings) makes the same again."""
        return asdict(self)


class Bert(Module):
    """An encoder with norms after each sublayer (Devlin et al. 2018, arXiv:1810.04805).

    x = Norm(tokens[ids] + positions + types), then `n_layers` post-norm blocks with the exact GELU.
    `rng`: a NumPy generator or a seed.
    """

    def __init__(self, config: BertConfig, *, rng: np.random.Generator | int | None = None):
        rng = generator(rng)
        self.config = config
        self.tokens = Embedding(config.vocab_size, config.d_model, rng=rng)
        self.positions = LearnedPositions(config.context, config.d_model, rng=rng)
        self.types = Embedding(config.n_types, config.d_model, rng=rng)
        self.norm = LayerNorm(config.d_model, config.eps)
        self.dropout = Dropout(config.dropout)
        self.blocks = [
            Block(
                config.d_model,
                config.n_heads,
                d_ff=config.d_ff,
                norm="post",
                mlp="gelu",
                causal=False,
                dropout=config.dropout,
                eps=config.eps,
                rng=rng,
            )
            for _ in range(config.n_layers)
        ]

    @classmethod
    def from_checkpoint(cls, path: str | os.PathLike[str]) -> Bert:
        """The model of a Hugging Face BERT folder: model.safetensors beside config.json.

        Raises CheckpointError naming every key that is missing, unexpected or wrongly shaped.
        """
        from minitx.checkpoints import load_as  # noqa: PLC0415 (checkpoints know the models)

        return load_as(cls, path)

    def forward(self, ids: Any, *, lengths: Any = None, types: Any = None) -> Tensor:
        """Hidden states (B, n, d_model) of ids (B, n).

        Args:
            lengths: (B,), how many of each row's ids are real, the rest being padding on the right. No real
                token attends to padding; hidden states at padding mean nothing.
            types: (B, n), which sentence of a pair each token belongs to; 0 by default.

        Raises ValueError for a wrong shape or more than config.context tokens, DtypeError for ids that are
        not integers, IndexError for one outside the vocabulary.
        """
        ids = self._check_ids("ids", ids)
        batch, n = ids.shape
        if n > self.config.context:
            raise ValueError(
                f"{n} tokens are more than the context of {self.config.context}: shorten the text."
            )
        kinds = self._check_ids("types", np.zeros((batch, n), np.int64) if types is None else types)
        if kinds.shape != ids.shape:
            raise shape_error("types", f"{ids.shape}, that of ids,", kinds.shape)
        mask = None if lengths is None else real_tokens(lengths, batch, n)[:, None, None, :]  # (B, 1, 1, n)
        x = self.tokens(ids) + self.types(kinds)
        x = self.dropout(self.norm(self.positions.embed(x, np.arange(n))))
        for block in self.blocks:
            x = block(x, mask=mask)
        return x

    def sentence_vectors(self, ids: Any, *, lengths: Any = None) -> Tensor:
        """One vector of length 1 a row (B, d_model): the mean hidden state of its real tokens, over its norm.

        The product of two of them is the cosine of the angle between them (Reimers, Gurevych 2019,
        arXiv:1908.10084). Arguments and errors as in `forward`; ValueError also for a row without a token.
        """
        hidden = self.forward(ids, lengths=lengths)
        batch, n, _ = hidden.shape
        real = real_tokens(n if lengths is None else lengths, batch, n)
        counts = real.sum(axis=1, keepdims=True)
        if not counts.all():
            raise ValueError("A row without any token has no mean; give each row a length of 1 or more.")
        # (B, 1, n) @ (B, n, d); a sum over the real tokens only: what stands at padding could be anything.
        shares = as_tensor((real / counts)[:, None, :], like=hidden)
        mean = (shares @ hidden).reshape(batch, self.config.d_model)
        return mean / (mean * mean).sum(axis=1, keepdims=True).sqrt()

    def _check_ids(self, name: str, ids: Any) -> Tensor:
        ids = as_tensor(ids)
        if ids.ndim != 2 or ids.size == 0:
            raise shape_error(name, "(B, n), each at least 1", ids.shape, "For one sequence give ids[None].")
        if ids.dtype.kind not in "iu":
            raise DtypeError(f"{name} must be integers, got {ids.dtype}. Convert with .astype(np.int64).")
        return ids


def real_tokens(lengths: Any, batch: int, n: int) -> np.ndarray:
    """Which of n places of each row hold a real token (B, n): the first lengths[b]; one number goes for all.

    Raises ValueError for a wrong shape or a length outside 0 ... n.
    """
    counts = np.asarray(lengths)
    if counts.shape not in ((), (batch,)) or counts.dtype.kind not in "iu":
        raise shape_error("lengths", f"(B = {batch},), integers,", counts.shape)
    if (counts < 0).any() or (counts > n).any():
        raise ValueError(f"lengths must lie in 0 ... n = {n}, got {counts.tolist()}.")
    return np.broadcast_to(np.arange(n) < counts[..., None], (batch, n))
