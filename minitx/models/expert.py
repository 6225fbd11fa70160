"""The action expert: a second, smaller tower that reads a language model's cache, layer by layer.

The language model has read the scene and written its reasoning. The expert's tokens are waypoints. In each
layer their queries meet one softmax over [the cached keys of that layer ; the waypoints' own keys]: every
waypoint sees the whole prefix and all waypoints, in both directions, while the prefix never sees a waypoint.
Actions are made from noise by flow matching. As in pi0 (Black et al. 2024, arXiv:2410.24164) and Alpamayo-R1
(NVIDIA 2025, arXiv:2511.00088).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

import minitx.functional as F
from minitx.cache import KVCache
from minitx.errors import DtypeError, shape_error
from minitx.graph import no_grad
from minitx.nn import Block, Linear, Module, RMSNorm, RotaryPositions, SinusoidalPositions
from minitx.randomness import generator
from minitx.recorded import RecordedCache
from minitx.tensor import Tensor, as_tensor

STEPS = 10  # of Euler's method


@dataclass(frozen=True)
class ActionExpertConfig:
    """The sizes of an action expert.

    n_layers, n_kv_heads, head_dim and the rotary settings are those of the model whose cache it reads, see
    `for_model`; d_model, n_heads and d_ff are its own. waypoints and channels: the shape of what it makes.
    frequencies: sines and cosines of each channel, and of the time, that a token is made of.
    noise_correlation: of the noise at neighbouring waypoints, 0 for white noise; see `ActionExpert.noise`.
    """

    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    d_model: int
    d_ff: int
    waypoints: int = 64
    channels: int = 2
    frequencies: int = 6
    noise_correlation: float = 0.0
    rope_base: float = 10000.0
    rope_layout: Literal["half", "interleaved"] = "half"
    eps: float = 1e-5

    def __post_init__(self):
        for name, size in asdict(self).items():
            if name not in ("noise_correlation", "rope_base", "rope_layout", "eps") and (
                not isinstance(size, int) or size < 1
            ):
                raise ValueError(f"{name} must be a whole number of at least 1, got {size!r}.")
        if not 0 <= self.noise_correlation < 1:
            raise ValueError(f"noise_correlation must lie in [0, 1), got {self.noise_correlation}.")

    @classmethod
    def for_model(
        cls, model: Any, *, n_heads: int, d_model: int, d_ff: int, **options: Any
    ) -> ActionExpertConfig:
        """An expert that fits a GPT or Llama with rotary positions."""
        if not isinstance(model.positions, RotaryPositions):
            raise ValueError(
                "The expert continues the model's rotary positions, and this model has "
                f"{type(model.positions).__name__}."
            )
        attention = model.blocks[0].attention
        return cls(
            n_layers=len(model.blocks),
            n_heads=n_heads,
            n_kv_heads=attention.n_kv_heads,
            head_dim=attention.head_dim,
            d_model=d_model,
            d_ff=d_ff,
            rope_base=model.positions.base,
            rope_layout=model.positions.layout,
            **options,
        )

    def as_dict(self) -> dict[str, Any]:
        """What makes this configuration again: ActionExpertConfig(**config.as_dict())."""
        return asdict(self)


class ActionExpert(Module):
    """Noisy waypoints (B, T, channels) at a time t in [0, 1], and a cache -> the velocity of each number.

    Pre-norm blocks with RMS norms, SwiGLU and no biases; layer l reads layer l of the cache. The waypoints of
    row b stand at the positions behind that row's own length.
    """

    def __init__(self, config: ActionExpertConfig, *, rng: np.random.Generator | int | None = None):
        rng = generator(rng)
        self.config = config
        c = config
        self.rates = np.pi / 8 * 2.0 ** np.arange(c.frequencies)  # the slowest wave is 16 long
        features = (c.channels + 1) * 2 * c.frequencies
        self.lift = Linear(features, c.d_model, rng=rng)
        self.mix = Linear(c.d_model, c.d_model, rng=rng)
        self.lift_norm = RMSNorm(c.d_model, c.eps)
        self.order = SinusoidalPositions(c.d_model)
        positions = RotaryPositions(c.head_dim, c.rope_base, c.rope_layout)
        self.blocks = [
            Block(
                c.d_model,
                c.n_heads,
                c.n_kv_heads,
                c.d_ff,
                norm_kind="rms",
                mlp="swiglu",
                causal=False,
                bias=False,
                positions=positions,
                eps=c.eps,
                head_dim=c.head_dim,
                rng=rng,
            )
            for _ in range(c.n_layers)
        ]
        self.norm = RMSNorm(c.d_model, c.eps)
        self.head = Linear(c.d_model, c.channels, rng=rng)

    def forward(self, actions: Any, time: Any, cache: KVCache) -> Tensor:
        """actions (B, T, channels) and time (B,), both constants -> velocities (B, T, channels).

        As every pass through a cache does, this one appends T keys and values to each layer, and advances it:
        truncate it afterwards (`sample` does), or the next pass reads the noise of this one.

        Raises ValueError for a wrong shape and for a cache that does not fit, is empty in a row or has no
        room, DtypeError for a cache of another dtype. The cache is then as it was.
        """
        x = self._tokens(*self._check(actions, time, cache))
        n = self.config.waypoints
        positions = cache.lengths[:, None] + np.arange(n)
        mask = cache.allowed(n, causal=False)
        for layer, block in enumerate(self.blocks):
            x = block(x, mask=mask, positions=positions, cache=cache, layer=layer)
        velocity = self.head(self.norm(x))
        cache.advance(n)
        return velocity

    def loss(
        self,
        data: Any,
        cache: RecordedCache,
        *,
        rng: np.random.Generator | int | None = None,
        detach: bool = True,
    ) -> Tensor:
        """Flow matching: the mean of (velocity - (data - noise))^2 at x_t = (1 - t) noise + t data.

        t = 0 is noise and t = 1 data; t = 0.999 (1 - u) with u from Beta(1.5, 1): times near the noise come
        more often. data (B, T, channels), of size about 1; noise is normal.

        detach: the cache's keys and values count as constants, and the loss trains the expert alone
        (Alpamayo-R1). False lets it train the model that filled the cache, too (pi0). Lipman et al. 2022,
        arXiv:2210.02747.

        Raises TypeError for a KVCache, which keeps no gradients.
        """
        if not isinstance(cache, RecordedCache):
            raise TypeError("The loss needs a RecordedCache: a KVCache keeps no gradients.")
        rng = generator(rng)
        data = np.asarray(data, self.head.weight.dtype)
        if data.shape != (cache.batch, self.config.waypoints, self.config.channels):
            expected = (cache.batch, self.config.waypoints, self.config.channels)
            raise shape_error("data", f"(B, waypoints, channels) = {expected}", data.shape)
        time = (0.999 * (1 - rng.beta(1.5, 1.0, len(data)))).astype(data.dtype)
        noise = self.noise(len(data), rng)
        at = time[:, None, None]
        held = cache.lengths
        memory = cache.detach() if detach else cache
        velocity = self((1 - at) * noise + at * data, time, memory)
        memory.truncate(held)
        return ((velocity - (data - noise)) ** 2).mean()

    def sample(
        self,
        cache: KVCache,
        *,
        noise: Any = None,
        rng: np.random.Generator | int | None = None,
        steps: int = STEPS,
    ) -> np.ndarray:
        """Actions (B, T, channels): Euler's method from noise (t = 0) to data (t = 1).

        After each step the cache is cropped to what it held, and it is so when this returns or raises.
        """
        if steps < 1:
            raise ValueError(f"steps must be at least 1, got {steps}.")
        x = self.noise(cache.batch, rng) if noise is None else np.asarray(noise, self.head.weight.dtype)
        held = cache.lengths
        with no_grad():
            for i in range(steps):
                time = np.full(len(x), i / steps, x.dtype)
                try:
                    x = x + self(x, time, cache)._array / steps
                finally:
                    cache.truncate(held)
        return x

    def noise(self, batch: int, rng: np.random.Generator | int | None = None) -> np.ndarray:
        """Normal numbers of deviation 1, (batch, T, channels): where a path starts from.

        With a correlation r, x_k = r x_k-1 + sqrt(1 - r^2) z_k along the waypoints. What is wanted is smooth,
        and in white noise the mean of 64 waypoints gives it away early: only the first steps would learn to
        read the cache.
        """
        c = self.config
        white = generator(rng).standard_normal((batch, c.waypoints, c.channels))
        lag = np.subtract.outer(np.arange(c.waypoints), np.arange(c.waypoints))
        weights = np.where(lag >= 0, c.noise_correlation ** np.maximum(lag, 0), 0.0)
        weights[:, 1:] *= np.sqrt(1 - c.noise_correlation**2)
        return (weights @ white).astype(self.head.weight.dtype)

    def _tokens(self, actions: np.ndarray, time: np.ndarray) -> Tensor:
        """Fourier features of each number and of the time, through an MLP; then the waypoint's place."""
        batch, n, _ = actions.shape
        clock = np.broadcast_to(time[:, None, None], (batch, n, 1))
        angles = np.concatenate([actions, clock], axis=2)[..., None] * self.rates
        waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=3).reshape(batch, n, -1)
        features = as_tensor(waves, like=self.lift.weight)
        lifted = self.mix(F.silu(self.lift(features)))
        return self.order.embed(self.lift_norm(lifted), np.arange(n))

    def _check(self, actions: Any, time: Any, cache: KVCache) -> tuple[np.ndarray, np.ndarray]:
        c, weight = self.config, self.head.weight
        actions, time = np.asarray(actions, weight.dtype), np.asarray(time, weight.dtype)
        expected = (cache.batch, c.waypoints, c.channels)
        if actions.shape != expected:
            raise shape_error("actions", f"(B, waypoints, channels) = {expected}", actions.shape)
        if time.shape != (cache.batch,):
            raise shape_error("time", f"(B = {cache.batch},)", time.shape)
        got = (cache.n_layers, cache.keys.shape[2], cache.keys.shape[4])
        if got != (c.n_layers, c.n_kv_heads, c.head_dim):
            raise ValueError(
                "The expert reads a cache layer by layer: (n_layers, n_kv_heads, head_dim) must be "
                f"{(c.n_layers, c.n_kv_heads, c.head_dim)}, got {got}."
            )
        if cache.dtype != weight.dtype:
            raise DtypeError(f"cache must be {weight.dtype}, that of the expert, got {cache.dtype}.")
        if cache.window is not None:
            raise ValueError("The expert needs the whole prefix: a cache without a window.")
        if (cache.lengths == 0).any():
            raise ValueError("A row of the cache is empty: let the model read its prefix first.")
        cache.check_room(c.waypoints)
        return actions, time
