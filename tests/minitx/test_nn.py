"""Modules: what they find inside themselves, and what they save and load."""

import numpy as np
import pytest

import minitx
import minitx.functional as F
from minitx import Tensor, nn


class Small(nn.Module):
    """Parameters at every place where a module may hold one, one of them shared."""

    def __init__(self):
        self.embed = nn.Embedding(7, 4, rng=0)
        self.blocks = [nn.Linear(4, 5, rng=1), nn.LayerNorm(5)]
        self.named = {"head": nn.Linear(5, 3, bias=False, rng=2)}
        self.tied = self.embed.weight
        self.scale = nn.Parameter(np.ones(3))
        self.drop = nn.Dropout(0.5)
        self.size = 4

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.drop(self.named["head"](x)) * self.scale


def test_parameters_are_found_everywhere_and_once():
    assert [name for name, _ in Small().named_parameters()] == [
        "embed.weight",
        "blocks.0.weight",
        "blocks.0.bias",
        "blocks.1.weight",
        "blocks.1.bias",
        "named.head.weight",
        "scale",
    ]


def test_every_parameter_gets_a_gradient_and_zero_grad_forgets_it():
    model = Small()
    model.eval()(np.array([[1, 2, 6]])).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())


def test_train_and_eval_reach_all_modules():
    model = Small()
    assert model.drop.training
    model.eval()
    assert not any(module.training for module in model.modules())
    model.train()
    assert all(module.training for module in model.modules())


def test_a_state_that_was_saved_loads_into_another_model():
    model, other = Small(), Small()
    state = {name: array + 1 for name, array in model.state_dict().items()}
    other.load_state_dict(state)
    for name, array in other.state_dict().items():
        np.testing.assert_array_equal(array, state[name])


def test_every_key_that_does_not_fit_is_named_and_nothing_is_loaded():
    model = Small()
    before = model.state_dict()
    state = {
        **before,
        "blocks.0.bias": np.zeros(6),
        "extra": np.zeros(2),
        "blocks.0.weight": np.full((5, 4), 9),
    }
    del state["scale"]
    with pytest.raises(ValueError) as caught:
        model.load_state_dict(state)
    message = str(caught.value)
    assert "missing: scale" in message
    assert "unexpected: extra" in message
    assert "blocks.0.bias: expected (5,), got (6,)" in message
    np.testing.assert_array_equal(model.blocks[0].weight.numpy(), before["blocks.0.weight"])


def test_a_module_without_forward_says_so():
    with pytest.raises(NotImplementedError, match="Module must define forward"):
        nn.Module()(1)


def test_initial_weights_repeat_with_the_seed():
    minitx.manual_seed(3)
    first = nn.Linear(4, 2).weight.numpy()
    second = nn.Linear(4, 2).weight.numpy()
    minitx.manual_seed(3)
    np.testing.assert_array_equal(nn.Linear(4, 2).weight.numpy(), first)
    assert (first != second).any()
    np.testing.assert_array_equal(
        nn.Linear(4, 2, rng=3).weight.numpy(), nn.Linear(4, 2, rng=3).weight.numpy()
    )


def test_layers_are_float32_and_compute_what_their_functions_do(rng):
    x = Tensor(rng.standard_normal((2, 3, 4)).astype(np.float32))
    linear, norm, root = nn.Linear(4, 6, rng=0), nn.LayerNorm(4), nn.RMSNorm(4)
    assert all(p.dtype == np.float32 for layer in (linear, norm, root) for p in layer.parameters())
    expected = x.numpy() @ linear.weight.numpy().T + linear.bias.numpy()
    np.testing.assert_allclose(linear(x).numpy(), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(norm(x).numpy(), F.layer_norm(x).numpy())
    np.testing.assert_array_equal(root(x).numpy(), F.rms_norm(x).numpy())


def test_a_module_changes_its_dtype_and_keeps_what_is_shared():
    model = Small().eval()
    model(np.array([[1]])).sum().backward()
    assert model.astype(np.float64) is model
    assert all(p.dtype == np.float64 and p.grad is None for p in model.parameters())
    assert model.tied is model.embed.weight
    out = model(np.array([[1, 2, 6]]))
    out.sum().backward()
    assert out.dtype == np.float64
    assert all(p.grad.dtype == np.float64 for p in model.parameters())
    with pytest.raises(minitx.DtypeError, match="float32 or float64, got float16"):
        model.astype(np.float16)


def test_dropout_keeps_the_mean_and_acts_in_training_only():
    layer = nn.Dropout(0.25, rng=0)
    x = Tensor(np.ones((200, 300), np.float32))
    y = layer(x).numpy()
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
    assert y.mean() == pytest.approx(1, abs=0.01)
    assert layer.eval()(x) is x
