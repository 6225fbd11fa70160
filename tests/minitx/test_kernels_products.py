"""The products of a linear layer: equal to float64's, for every size, layout and number of threads."""

import os
import platform
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minitx.kernels import products_numpy as twin

pytest.importorskip("numba")
from minitx.kernels import pieces, products

DTYPES = (np.float32, np.float64)
each_module = pytest.mark.parametrize("module", [products, twin], ids=["numba", "numpy"])
# Beside the small sizes those around a panel (64 columns, 128 deep), a block of rows, and a vector's lanes.
SIZES = st.one_of(st.integers(1, 40), st.sampled_from([63, 64, 65, 79, 127, 128, 129, 150, 257, 400]))


def close(got, wanted, dtype, terms):
    """Within what rounding can do to a sum of so many terms of size 1."""
    assert got.dtype == dtype
    assert got.shape == wanted.shape
    error = 4 * np.finfo(dtype).eps * max(1, terms)
    np.testing.assert_allclose(got, wanted, atol=error * 4, rtol=error)


def normal(rng, dtype, *shape):
    return rng.standard_normal(shape).astype(dtype)


@given(SIZES, SIZES, SIZES, st.sampled_from(DTYPES), st.integers(0, 99))
@example(700, 130, 90, np.float32, 0)
@example(900, 140, 70, np.float64, 0)
@example(400, 1700, 300, np.float32, 0)  # more depth than is copied at a time, and a narrow panel at the end
@example(90, 780, 256, np.float64, 0)
def test_all_three_products_are_those_of_float64(rows, inner, columns, dtype, seed):
    rng = np.random.default_rng(seed)
    x, weight, bias = (normal(rng, dtype, *s) for s in ((rows, inner), (columns, inner), (columns,)))
    grad = normal(rng, dtype, rows, columns)
    wide = [array.astype(np.float64) for array in (x, weight, bias, grad)]
    given = [array.copy() for array in (x, weight, bias, grad)]
    for module in (products, twin):
        close(module.linear(x, weight, bias), wide[0] @ wide[1].T + wide[2], dtype, inner)
        close(module.linear(x, weight, None), wide[0] @ wide[1].T, dtype, inner)
        close(module.linear_backward(grad, weight), wide[3] @ wide[1], dtype, columns)
        grad_weight, grad_bias = module.weight_backward(grad, x)
        close(grad_weight, wide[3].T @ wide[0], dtype, rows)
        close(grad_bias, wide[3].sum(axis=0), dtype, rows)
    for array, before in zip((x, weight, bias, grad), given, strict=True):
        np.testing.assert_array_equal(array, before)


@each_module
def test_arrays_in_any_layout_will_do(module, rng):
    x, weight, grad = (
        normal(rng, np.float32, 70, 30),
        normal(rng, np.float32, 50, 30),
        normal(rng, np.float32, 70, 50),
    )
    bent = (np.asfortranarray(x), np.asfortranarray(weight), np.repeat(grad, 2, axis=1)[:, ::2])
    for array in bent:
        array.flags.writeable = False
    np.testing.assert_array_equal(module.linear(bent[0], bent[1], None).shape, (70, 50))
    np.testing.assert_allclose(module.linear(*bent[:2], None), x @ weight.T, atol=1e-4)
    np.testing.assert_allclose(module.linear_backward(bent[2], bent[1]), grad @ weight, atol=1e-4)
    np.testing.assert_allclose(module.weight_backward(bent[2], bent[0])[0], grad.T @ x, atol=1e-4)


@each_module
@pytest.mark.parametrize(("rows", "inner", "columns"), [(0, 5, 7), (40, 0, 7), (40, 5, 0), (0, 0, 0)])
def test_empty_sides_give_empty_products_or_the_bias(module, rows, inner, columns):
    x, weight = np.ones((rows, inner), np.float32), np.ones((columns, inner), np.float32)
    bias = np.arange(columns, dtype=np.float32)
    grad = np.ones((rows, columns), np.float32)
    out = module.linear(x, weight, bias)
    np.testing.assert_array_equal(out, x @ weight.T + bias)
    np.testing.assert_array_equal(module.linear_backward(grad, weight), grad @ weight)
    grad_weight, grad_bias = module.weight_backward(grad, x)
    np.testing.assert_array_equal(grad_weight, grad.T @ x)
    np.testing.assert_array_equal(grad_bias, grad.sum(axis=0))


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_the_number_of_threads_does_not_change_a_bit(workers, rng, monkeypatch):
    x, weight, bias = (
        normal(rng, np.float32, 900, 200),
        normal(rng, np.float32, 150, 200),
        normal(rng, np.float32, 150),
    )
    grad = normal(rng, np.float32, 900, 150)

    def all_of_them():
        return (
            products.linear(x, weight, bias),
            products.linear_backward(grad, weight),
            *products.weight_backward(grad, x),
            *products.split_heads(grad.reshape(9, 100, 150), (1, 2, 2)),
        )

    monkeypatch.setattr(products, "THREADS", 1)
    monkeypatch.setattr(pieces, "THREADS", 1)
    alone = all_of_them()
    monkeypatch.setattr(products, "THREADS", workers)
    monkeypatch.setattr(pieces, "THREADS", workers)
    monkeypatch.setattr(pieces, "PARALLEL_FROM", 1)
    for one, many in zip(alone, all_of_them(), strict=True):
        np.testing.assert_array_equal(one, many)


def test_a_row_is_the_same_whatever_rows_stand_beside_it(rng):
    x, weight = normal(rng, np.float32, 500, 70), normal(rng, np.float32, 90, 70)
    whole = products.linear(x, weight, None)
    for first, last in ((0, 16), (3, 100), (481, 500)):
        np.testing.assert_array_equal(products.linear(x[first:last], weight, None), whole[first:last])


@each_module
@pytest.mark.parametrize("what", [np.nan, np.inf])
def test_numbers_that_are_not_finite_stay_in_their_row_and_are_seen_there(module, what, rng):
    x, weight = normal(rng, np.float32, 30, 20), normal(rng, np.float32, 70, 20)
    x[17, 3] = what
    with np.errstate(all="ignore"):
        out = module.linear(x, weight, None)
    assert not np.isfinite(out[17]).any()
    assert np.isfinite(np.delete(out, 17, axis=0)).all()


@each_module
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("counts", [(3,), (4, 2, 2), (1, 1)])
def test_heads_are_split_off_and_merged_again(module, dtype, counts, rng):
    x = normal(rng, dtype, 2, 5, sum(counts) * 6)
    parts = module.split_heads(x, counts)
    assert [part.shape for part in parts] == [(2, count, 5, 6) for count in counts]
    first = 0
    for part, count in zip(parts, counts, strict=True):
        assert part.flags.c_contiguous
        for h in range(count):
            np.testing.assert_array_equal(part[:, h], x[:, :, (first + h) * 6 : (first + h + 1) * 6])
        first += count
    np.testing.assert_array_equal(module.merge_heads(parts), x)


WIDTHS = {"AVX2": ("haswell", "+avx,+avx2,+fma", "32"), "SSE2": ("x86-64", "+sse,+sse2", "16")}


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names of x86 processors")
@pytest.mark.parametrize("width", WIDTHS)
def test_narrower_vectors_give_the_same_results(width, tmp_path):
    processor, features, size = WIDTHS[width]
    code = """
import os
import platform
import subprocess
import sys

import numpy as np
from minitx.kernels import products, simd
rng, errors = np.random.default_rng(0), []
for dtype, scale in ((np.float32, 1.0), (np.float64, 1e8)):
    x, weight, grad = (rng.standard_normal(s).astype(dtype) for s in ((150, 140), (90, 140), (150, 90)))
    bias = rng.standard_normal(90).astype(dtype)
    errors.append(scale * abs(products.linear(x, weight, bias) - (x @ weight.T + bias)).max())
    errors.append(scale * abs(products.linear_backward(grad, weight) - grad @ weight).max())
    grad_weight, grad_bias = products.weight_backward(grad, x)
    errors += [scale * abs(grad_weight - grad.T @ x).max(), scale * abs(grad_bias - grad.sum(axis=0)).max()]
print(simd.VECTOR_BYTES, max(errors) < 1e-4)
"""
    environment = {
        "NUMBA_CPU_NAME": processor,
        "NUMBA_CPU_FEATURES": features,
        "MINITX_CACHE_DIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"{size} True"
