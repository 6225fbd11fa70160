"""Sets of polylines as tokens: a point network for each, and attention among all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

import minitx.functional as F
from minitx.errors import DtypeError, shape_error
from minitx.models.transformer import Encoder
from minitx.nn import LayerNorm, Linear, Module
from minitx.randomness import generator
from minitx.tensor import Tensor, as_tensor


class PolylineEncoder(Module):
    """A polyline as one vector, in which the order of its points and its padding play no part.

    Points go through an MLP, each is joined by the maximum over all, and the two through an MLP and a maximum
    again: VectorNet (Gao et al. 2020, arXiv:2005.04259) as MTR builds it (Shi et al. 2022,
    arXiv:2209.13508). The maximum leaves padding out; a polyline without any real point gives zeros.
    """

    def __init__(
        self, features: int, d_model: int, hidden: int = 64, *, rng: np.random.Generator | int | None = None
    ):
        rng = generator(rng)
        self.features = features
        self.points = Linear(features, hidden, rng=rng)
        self.more = Linear(hidden, hidden, rng=rng)
        self.joined = Linear(hidden, hidden, rng=rng)
        # The other half of one matrix on [point, maximum].
        self.joined_whole = Linear(hidden, hidden, bias=False, rng=rng)
        self.out = Linear(hidden, d_model, rng=rng)

    def forward(self, x: Any, real: Any) -> Tensor:
        """x (B, P, n, features), real (B, P, n) with True = a real point -> (B, P, d_model).

        Raises ValueError for a wrong shape, DtypeError where `real` is not boolean.
        """
        x = as_tensor(x, like=self.points.weight)
        real = np.asarray(real)
        if x.ndim != 4 or x.shape[3] != self.features:
            raise shape_error("x", f"(B, P, n, features = {self.features})", x.shape)
        if real.shape != x.shape[:3]:
            raise shape_error("real", f"(B, P, n) = {x.shape[:3]}", real.shape)
        if real.dtype != np.bool_:
            raise DtypeError(f"real must be boolean, True = a real point, got {real.dtype}.")
        points = F.relu(self.more(F.relu(self.points(x))))  # (B, P, n, hidden)
        whole = _maximum(points, real)  # (B, P, 1, hidden)
        points = F.relu(self.joined(points) + self.joined_whole(whole))
        encoded = self.out(_maximum(points, real)[:, :, 0])
        return F.where(np.asarray(real.any(axis=2))[..., None], encoded, 0.0)


def _maximum(points: Tensor, real: np.ndarray) -> Tensor:
    """The largest value over the real points, with that axis kept; 0 where there is none."""
    hidden = F.where(real[..., None], points, -np.inf).max(axis=2, keepdims=True)
    return F.where(np.asarray(real.any(axis=2))[..., None, None], hidden, 0.0)


class SceneEncoder(Module):
    """Agents' histories and map polylines as one set of tokens, through blocks of attention.

    Each kind has its own `PolylineEncoder`; then every token may read every other that is real, whatever its
    kind (early fusion, as in Wayformer, Nayakanti et al. 2022, arXiv:2207.05844). There are no positions: the
    order of the agents, and that of the polylines, only changes the order of the tokens.
    """

    def __init__(
        self,
        agent_features: int,
        line_features: int,
        d_model: int,
        n_layers: int,
        n_heads: int,
        hidden: int = 64,
        *,
        rng: np.random.Generator | int | None = None,
    ):
        rng = generator(rng)
        self.agents = PolylineEncoder(agent_features, d_model, hidden, rng=rng)
        self.lines = PolylineEncoder(line_features, d_model, hidden, rng=rng)
        self.attention = Encoder(n_layers, d_model, n_heads, rng=rng)
        self.norm = LayerNorm(d_model)

    def forward(
        self, agents: Any, agents_real: Any, lines: Any, lines_real: Any
    ) -> tuple[Tensor, np.ndarray]:
        """Tokens (B, N + P, d_model), agents first, and which of them are real (B, N + P).

        agents (B, N, n, features) with agents_real (B, N, n), lines (B, P, m, features) with lines_real
        (B, P, m); True = a real point. A token is real where any of its points is.
        """
        tokens = F.concatenate([self.agents(agents, agents_real), self.lines(lines, lines_real)], axis=1)
        real = np.concatenate([np.asarray(agents_real).any(2), np.asarray(lines_real).any(2)], axis=1)
        return self.norm(self.attention(tokens, real)), real
