"""Positions: pinned values, and the properties that make them positions."""

import numpy as np
import pytest

import minitx
from minitx import Tensor, nn


def test_sinusoids_have_the_published_values():
    table = nn.SinusoidalPositions(4).table(np.arange(3))
    expected = [
        [0, 1, 0, 1],
        [0.84147098, 0.54030231, 0.00999983, 0.99995000],
        [0.90929743, -0.41614684, 0.01999867, 0.99980001],
    ]
    np.testing.assert_allclose(table, expected, atol=1e-8)
    wide = nn.SinusoidalPositions(512).table([1, 100])
    first = [0.84147098, 0.54030231, 0.82185619, 0.56969501, 0.8019618, 0.59737533]
    np.testing.assert_allclose(wide[0, :6], first, atol=1e-8)
    np.testing.assert_allclose(wide[0, 510:], [1.03663293e-4, 0.999999995], rtol=1e-8)
    np.testing.assert_allclose(wide[1, :4], [-0.50636564, 0.86231887, 0.79754236, -0.60326294], atol=1e-8)


def test_sinusoids_have_one_length_and_products_that_depend_on_the_distance():
    table = nn.SinusoidalPositions(512).table(np.arange(60))
    np.testing.assert_allclose((table**2).sum(axis=1), 256)
    assert table[3] @ table[10] == pytest.approx(187.8649973, abs=1e-6)
    assert table[50] @ table[57] == pytest.approx(187.8649973, abs=1e-6)


def test_sinusoids_of_an_odd_width_are_refused():
    with pytest.raises(ValueError, match="d_model must be even, got 5"):
        nn.SinusoidalPositions(5)


def test_positions_at_the_input_are_added_at_each_rows_own_places(rng):
    x = rng.standard_normal((2, 3, 6)).astype(np.float32)
    places = np.array([[0, 1, 2], [4, 5, 6]])
    for positions, table in (
        (nn.SinusoidalPositions(6), nn.SinusoidalPositions(6).table(np.arange(8))),
        (learned := nn.LearnedPositions(8, 6, rng=1), learned.weight.numpy()),
    ):
        y = positions.embed(Tensor(x), places)
        assert y.dtype == np.float32
        np.testing.assert_allclose(y.numpy(), x + table[places], atol=1e-6)


def test_a_place_beyond_the_learned_table_names_both_numbers():
    with pytest.raises(ValueError, match=r"Position 9 .* ends at 7 .*context = 8"):
        nn.LearnedPositions(8, 4).embed(Tensor(np.zeros((1, 1, 4))), np.array([9]))


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotated_products_depend_on_the_distance_and_lengths_are_kept(rng, layout):
    positions = nn.RotaryPositions(8, base=500.0, layout=layout)
    q, k = rng.standard_normal((2, 1, 1, 1, 8))

    def turned(x, place):
        return positions.rotate(Tensor(x), np.array([place])).numpy().ravel()

    assert turned(q, 3) @ turned(k, 8) == pytest.approx(turned(q, 40) @ turned(k, 45), abs=1e-12)
    assert abs(turned(q, 3) @ turned(k, 8) - turned(q, 3) @ turned(k, 9)) > 1e-3
    np.testing.assert_array_equal(turned(q, 0), q.ravel())
    assert np.linalg.norm(turned(q, 77)) == pytest.approx(np.linalg.norm(q))


def test_one_step_turns_the_first_pair_by_one_radian():
    turned = nn.RotaryPositions(2).rotate(Tensor(np.array([[[[1.0, 0.0]]]])), np.array([1]))
    np.testing.assert_allclose(turned.numpy().ravel(), [np.cos(1), np.sin(1)])


def test_two_bases_do_not_share_a_table(rng):
    """A table that is kept by length alone would give the second model the first one's angles."""
    x = Tensor(rng.standard_normal((1, 1, 5, 8)))
    first = nn.RotaryPositions(8, base=1e4).rotate(x, np.arange(5)).numpy()
    second = nn.RotaryPositions(8, base=5e6).rotate(x, np.arange(5)).numpy()
    assert abs(first - second).max() > 0.1


def test_alibi_has_the_published_slopes():
    np.testing.assert_allclose(nn.ALiBi(8).slopes, 2.0 ** -np.arange(1, 9))
    # Six heads: those of four, then the first and third of eight.
    np.testing.assert_allclose(nn.ALiBi(6).slopes, [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3])


def test_alibi_lowers_scores_by_slope_times_distance(rng):
    torch = pytest.importorskip("torch")
    batch, heads, kv_heads, n, m, d = 2, 6, 3, 4, 9, 5
    q = rng.standard_normal((batch, heads, n, d))
    k, v = rng.standard_normal((2, batch, kv_heads, m, d))
    wide_q, wide_k = nn.ALiBi(heads).extend(Tensor(q), Tensor(k), causal=True)
    got = minitx.functional.attention(wide_q, wide_k, Tensor(v), causal=True, scale=d**-0.5).numpy()
    i, j = np.arange(n)[:, None] + m - n, np.arange(m)
    slopes = nn.ALiBi(heads).slopes[:, None, None]
    bias = np.where(j <= i, -slopes * (i - j), -np.inf)[None]
    expected = torch.nn.functional.scaled_dot_product_attention(
        *map(torch.tensor, (q, k, v)), attn_mask=torch.tensor(bias).expand(batch, -1, -1, -1), enable_gqa=True
    )
    np.testing.assert_allclose(got, expected.numpy(), atol=1e-12)


def test_alibi_refuses_attention_that_is_not_causal(rng):
    layer = nn.MultiHeadAttention(8, 2, positions=nn.ALiBi(2))
    with pytest.raises(ValueError, match="needs causal attention"):
        layer(Tensor(np.zeros((1, 3, 8))))
