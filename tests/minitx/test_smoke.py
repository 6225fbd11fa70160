"""The smallest thing that must work: a line through a cloud of points."""

import numpy as np

from minitx import Tensor, nn, optim


def test_a_linear_layer_learns_a_line(rng):
    layer = nn.Linear(3, 2, rng=0)
    optimizer = optim.SGD(layer.parameters(), lr=0.1)
    x = rng.standard_normal((64, 3)).astype(np.float32)
    target = x @ np.array([[1.0, -2.0], [0.5, 3.0], [2.0, 0.0]], np.float32) + np.float32(0.25)
    for _ in range(200):
        optimizer.zero_grad()
        loss = ((layer(Tensor(x)) - target) ** 2).mean()
        loss.backward()
        optimizer.step()
    assert loss.item() < 1e-3
