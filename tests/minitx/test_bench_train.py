"""`minitx bench train`: both sides take the same steps, and the rows are those of the plan."""

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("torch")

from minitx import bench, models
from minitx.bench import train
from minitx.training import Recipe, TextData, Trainer


def test_the_plan_has_both_sizes_with_their_goals():
    names = [name for name, _ in bench.plan("train")[0]]
    assert names == ["train step 4 x 128, context 64, batch 12", "train step 6 x 384, context 256, batch 8"]
    assert [work.goal for work in train.WORKLOADS] == [1.5, 1.25]


def test_a_row_has_all_its_figures():
    (row,) = train.measure(train.Workload(1, 2, 16, 8, 3, goal=1.0))
    assert row["ratio"] == row["peer_ms"] / row["minitx_ms"]
    assert row["goal"] == 1.0 and 0 < row["limit_share"] < 1
    assert row["max_error"] < 1e-4


def test_the_multiply_adds_are_those_of_the_models_products():
    work = train.Workload(2, 2, 16, 8, 3, goal=1.0)
    matrices = [p for n, p in work.model().named_parameters() if p.ndim == 2 and n != "positions.weight"]
    half_of_the_keys = 2 * 2 * 8 / 2 * 16  # layers, two products, keys on average, width
    assert work.flops == 3 * 2 * (3 * 8) * (sum(p.size for p in matrices) + half_of_the_keys)


def test_the_peer_goes_the_same_way_step_for_step():
    recipe = Recipe(steps=12, batch=4, peak=5e-3, floor=1e-3, warmup=3, clip=0.5)
    config = models.GPTConfig(11, 8, n_layers=2, n_heads=2, d_model=16)
    trainer, peer = Trainer(models.GPT(config, rng=1), recipe), train.Peer(models.GPT(config, rng=1), recipe)
    data = TextData(np.random.default_rng(0).integers(0, 11, 300), 8)
    for step in range(1, 13):
        batch = data.batch(step, 4)
        assert trainer.advance(batch) == pytest.approx(peer.advance(batch), rel=1e-4)
