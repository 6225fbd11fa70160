"""The figures of the tutorial page. Each docstring is the picture in words, for those who do not see it."""

from __future__ import annotations

import numpy as np

import minitx.functional as F
from minitx import Tensor, figures

TOKENS = ("the", "car", "ahead", "brakes", "so", "slow")


def shapes_in_one_head():
    """The tokens X, n by 512, are multiplied by three matrices of 512 by 64, which gives queries, keys and
    values of n by 64. Queries times transposed keys give a table of scores of n by n; its softmax, the
    weights, times the values gives the output of n by 64."""
    return figures.shapes_from_tokens(n=6, d_model=512, d_k=64)


def six_tokens_with_and_without_mask():
    """Two tables of six rows and six columns. In the left one every row spreads weights that sum to one over
    all six tokens. In the right one everything above the diagonal is hatched: those weights are zero, and the
    first row has all its weight on the first token."""
    rng = np.random.default_rng(4)
    q, k, v = (Tensor(rng.normal(size=(1, 1, 6, 8))) for _ in range(3))
    both = [
        F.scaled_dot_product_attention(q, k, v, causal=causal)[1].numpy()[0, 0] for causal in (False, True)
    ]
    return figures.heatmaps_side_by_side(
        both, ["every token may look anywhere", "with a causal mask"], TOKENS, TOKENS
    )


def cache_and_recomputing():
    """On the left, the cached rows of keys and values, one for each of the tokens so far, and one new row of
    each at the bottom. On the right, how many rows go through a key projection while n tokens are generated:
    a curve that bends up to 5,050 at 100 tokens for computing everything again, and a straight line to 100
    for the cache."""
    return figures.cache_against_recomputing(tokens=100, prompt=1)
