"""The driver: an encoder whose tokens a GPT reads before it writes its reasoning, and an action expert.

A sequence is [scene tokens | START | the reasoning | END]. Scenes differ in how many tokens they have, and
texts in length: padding stands on the right only, and each row has its own length.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import minitx.functional as F
from minitx.cache import KVCache
from minitx.driving import vocabulary
from minitx.driving.actions import SCALE
from minitx.driving.features import AGENT_FEATURES, LINE_FEATURES, Observation
from minitx.driving.scene import FUTURE
from minitx.graph import no_grad
from minitx.models.encoder import SceneEncoder
from minitx.models.expert import ActionExpert, ActionExpertConfig
from minitx.models.gpt import GPT, GPTConfig
from minitx.nn import Module
from minitx.randomness import generator
from minitx.recorded import RecordedCache
from minitx.tensor import Tensor

LONGEST_TEXT = 64  # tokens, START and END included
CONTEXT = 128


@dataclass(frozen=True)
class DriverConfig:
    """The sizes of the three models. Keys and values have as many heads as queries have."""

    d_model: int = 96
    n_layers: int = 4
    n_heads: int = 4
    encoder_layers: int = 2
    encoder_hidden: int = 64
    expert_d_model: int = 64
    expert_heads: int = 4
    expert_d_ff: int = 160
    noise_correlation: float = 0.95

    def as_dict(self) -> dict[str, Any]:
        """What makes this configuration again: DriverConfig(**config.as_dict())."""
        return asdict(self)


class Reasoner(Module):
    """The encoder and the GPT: from what is seen to words."""

    def __init__(self, config: DriverConfig, *, rng: np.random.Generator | int | None = None):
        rng = generator(rng)
        self.encoder = SceneEncoder(
            AGENT_FEATURES,
            LINE_FEATURES,
            config.d_model,
            config.encoder_layers,
            config.n_heads,
            config.encoder_hidden,
            rng=rng,
        )
        sizes = GPTConfig(
            vocab_size=vocabulary.TOKENIZER.vocab_size,
            context=CONTEXT,
            n_layers=config.n_layers,
            n_heads=config.n_heads,
            d_model=config.d_model,
            positions="rotary",
        )
        self.gpt = GPT(sizes, rng=rng)

    def prefix(self, seen: Observation) -> tuple[Tensor, np.ndarray]:
        """The scene's real tokens (B, n, d_model), padded on the right, and how many (B,) each row has."""
        tokens, real = self.encoder(seen.agents, seen.agents_real, seen.lines, seen.lines_real)
        lengths = real.sum(axis=1)
        return packed(tokens, real, lengths), lengths

    def read(self, seen: Observation, ids: np.ndarray, counts: np.ndarray) -> tuple[Tensor, RecordedCache]:
        """One pass over scene and text, for training: logits of the token after each of ids, and the cache.

        ids (B, n) from START on, padded on the right; counts (B,) of the real ones. Logits (B, n,
        vocabulary); those at padding mean nothing.
        """
        scene, lengths = self.prefix(seen)
        batch, n = ids.shape
        text = F.concatenate([scene, self.gpt.tokens(ids)], axis=1)
        places = np.concatenate(
            [np.arange(scene.shape[1]) < lengths[:, None], np.arange(n) < counts[:, None]], axis=1
        )
        whole = packed(text, places, lengths + counts)
        cache = self.recorded_cache(batch, whole.shape[1] + FUTURE)
        hidden = self.gpt.forward_embeddings(whole, cache=cache, lengths=lengths + counts)
        # The text of row b stands behind its lengths[b] scene tokens; padding may ask beyond the end.
        at = np.minimum(lengths[:, None] + np.arange(n), whole.shape[1] - 1)
        return self.gpt.logits(rows_of(hidden, at)), cache

    def recorded_cache(self, batch: int, capacity: int) -> RecordedCache:
        attention = self.gpt.blocks[0].attention
        sizes = len(self.gpt.blocks), batch, attention.n_kv_heads, capacity, attention.head_dim
        return RecordedCache(*sizes, dtype=self.gpt.tokens.weight.dtype)

    def reason(self, seen: Observation) -> tuple[list[str], KVCache]:
        """The reasoning about each scene, greedily, and the cache with scene, text and END in it.

        A row that has not ended after LONGEST_TEXT tokens is left as it is.
        """
        with no_grad():
            scene, lengths = self.prefix(seen)
            batch = len(seen)
            cache = self.gpt.new_cache(batch, capacity=CONTEXT + FUTURE)
            self.gpt.forward_embeddings(scene, cache=cache, lengths=lengths)
            ids, alive = np.full(batch, vocabulary.START_ID), np.ones(batch, bool)
            end = vocabulary.END_ID
            said = []
            for _ in range(LONGEST_TEXT):
                # A token's keys and values are cached when it is read, so END is read, too.
                logits = self.gpt(ids[:, None], cache=cache, lengths=alive.astype(np.int64))
                alive &= ids != end
                ids = np.where(alive, logits._array[:, 0].argmax(axis=1), end)
                said.append(ids)
                if not alive.any():
                    break
        return [vocabulary.decode(row) for row in np.stack(said, axis=1)], cache

    def recite(self, seen: Observation, texts: list[str]) -> KVCache:
        """The cache after these texts in place of the model's own."""
        ids, counts = batch_of(texts)
        with no_grad():
            scene, lengths = self.prefix(seen)
            cache = self.gpt.new_cache(len(seen), capacity=CONTEXT + FUTURE)
            self.gpt.forward_embeddings(scene, cache=cache, lengths=lengths)
            self.gpt(ids, cache=cache, lengths=counts)
        return cache


class Driver(Module):
    """The reasoner, and the expert that reads its cache and drives."""

    def __init__(self, config: DriverConfig | None = None, *, rng: np.random.Generator | int | None = None):
        rng = generator(rng)
        self.config = DriverConfig() if config is None else config
        self.reasoner = Reasoner(self.config, rng=rng)
        sizes = ActionExpertConfig.for_model(
            self.reasoner.gpt,
            n_heads=self.config.expert_heads,
            d_model=self.config.expert_d_model,
            d_ff=self.config.expert_d_ff,
            waypoints=FUTURE,
            noise_correlation=self.config.noise_correlation,
        )
        self.expert = ActionExpert(sizes, rng=rng)

    def drive(self, seen: Observation, *, seed: int = 0) -> tuple[list[str], np.ndarray]:
        """The reasoning about each scene, and acceleration and curvature (B, 64, 2) in m/s^2 and 1/m."""
        texts, cache = self.reasoner.reason(seen)
        return texts, self.act(cache, seed=seed)

    def act(self, cache: KVCache, *, seed: int = 0) -> np.ndarray:
        """Actions (B, 64, 2) in m/s^2 and 1/m from what the cache holds; all rows start from one noise."""
        noise = np.repeat(self.expert.noise(1, seed), cache.batch, axis=0)
        return self.expert.sample(cache, noise=noise).astype(np.float64) * SCALE


def packed(tokens: Tensor, real: np.ndarray, lengths: np.ndarray) -> Tensor:
    """tokens (B, n, d) with each row's real ones (B, n) moved to the front, cut to the longest row."""
    order = np.argsort(~real, axis=1, kind="stable")[:, : int(lengths.max())]
    return rows_of(tokens, order)


def rows_of(x: Tensor, index: np.ndarray) -> Tensor:
    """x (B, n, d) at index (B, m) along its second axis -> (B, m, d)."""
    batch, n, d = x.shape
    return F.embedding(index + n * np.arange(batch)[:, None], x.reshape(batch * n, d))


def batch_of(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """ids (B, n) from START to END, padded on the right, and the number (B,) of real ones.

    Raises ValueError for a text of more than LONGEST_TEXT tokens and for a word that is not known.
    """
    rows = [[vocabulary.START_ID, *vocabulary.encode(text), vocabulary.END_ID] for text in texts]
    counts = np.array([len(row) for row in rows])
    if counts.max() > LONGEST_TEXT:
        raise ValueError(f"A reasoning has at most {LONGEST_TEXT} tokens, got {counts.max()}.")
    padded = np.full((len(rows), int(counts.max())), vocabulary.PAD_ID)
    for row, to in zip(rows, padded, strict=True):
        to[: len(row)] = row
    return padded, counts
