"""What a decode step does to single rows between its products: norms, activations, rotary positions.

All take whole arrays and where in them to begin: a slice would be counted as a reference.
"""

import numpy as np

from minitx.kernels.compiler import compiled
from minitx.kernels.decoder_numpy import GELU, GELU_TANH, INTERLEAVED, SWIGLU
from minitx.kernels.elementary import exp, normal, use_full_vectors
from minitx.kernels.layers_numpy import CUBIC, SQRT_2_OVER_PI


@compiled()
def normalise(x, b, d, vectors, weight, bias, eps, centred, out):
    """out[b, :d] = norm(x[b, :d]) weight + bias, with weight and bias at these places of `vectors`."""
    use_full_vectors()
    number = x.dtype.type
    share_of_one = number(1) / number(d)
    mean, square = number(0), number(0)
    if centred:
        for j in range(d):
            mean += x[b, j]
        mean *= share_of_one
    for j in range(d):
        square += (x[b, j] - mean) * (x[b, j] - mean)
    # Not 1 / sqrt(...), which LLVM turns into an estimate that is NaN for infinity.
    inverse = np.sqrt(number(1) / (square * share_of_one + eps))
    for j in range(d):
        out[b, j] = (x[b, j] - mean) * inverse * vectors[weight + j] + vectors[bias + j]


@compiled()
def add_up(which, b, count, d, vectors, bias, kept, parts, x):
    """x[b, :d] = row b of what was kept + bias + that row of each of `count` parts of a sum.

    Of kept (2 B, ...) and parts (2 * most * B, ...) the first half is meant where `which` is 0.
    """
    use_full_vectors()
    batch = x.shape[0]
    most = parts.shape[0] // (2 * batch)
    for c in range(d):
        x[b, c] = kept[which * batch + b, c] + vectors[bias + c]
    for part in range(count):
        row = (which * most + part) * batch + b
        for c in range(d):
            x[b, c] += parts[row, c]


@compiled()
def _relu(sums, b, begin, end, vectors, bias, out):
    use_full_vectors()
    number = sums.dtype.type
    for r in range(begin, end):
        y = sums[b, r] + vectors[bias + r]
        out[b, r] = number(0) if y < number(0) else y  # NaN stays


@compiled()
def _gelu_tanh(sums, b, begin, end, vectors, bias, out):
    use_full_vectors()
    number = sums.dtype.type
    for r in range(begin, end):
        y = sums[b, r] + vectors[bias + r]
        u = number(SQRT_2_OVER_PI) * (y + number(CUBIC) * y * y * y)
        out[b, r] = y / (number(1) + exp(number(-2) * u))


@compiled()
def _gelu(sums, b, begin, end, vectors, bias, out):
    use_full_vectors()
    for r in range(begin, end):
        y = sums[b, r] + vectors[bias + r]
        out[b, r] = y * normal(y)[0]


@compiled()
def _swiglu(sums, b, begin, end, rows, vectors, bias, out):
    """Here `rows` numbers of the gate and as many of up lie in turn."""
    use_full_vectors()
    number = sums.dtype.type
    for r in range(begin, end):
        place = r // rows * 2 * rows + r % rows
        gate = sums[b, place] + vectors[bias + place]
        up = sums[b, place + rows] + vectors[bias + place + rows]
        out[b, r] = gate / (number(1) + exp(-gate)) * up


@compiled()
def activate(kind, sums, b, begin, end, rows, vectors, bias, out):
    """out[b, begin:end] = f(sums[b] + bias); with SWIGLU the pairs of gate and up that belong to them."""
    if kind == SWIGLU:
        _swiglu(sums, b, begin, end, rows, vectors, bias, out)
    elif kind == GELU_TANH:
        _gelu_tanh(sums, b, begin, end, vectors, bias, out)
    elif kind == GELU:
        _gelu(sums, b, begin, end, vectors, bias, out)
    else:
        _relu(sums, b, begin, end, vectors, bias, out)


@compiled()
def place_head(sums, b, column, d, vectors, bias, angles, rotary, factor, out, start):
    """out[start:][:d] = factor (sums[b, column:] + bias), in pairs turned by the angles unless rotary is 0.

    `angles` is where the position's cosines begin among the vectors, and behind them its sines.
    """
    if rotary == 0:
        for c in range(d):
            out[start + c] = (sums[b, column + c] + vectors[bias + column + c]) * factor
        return
    half = d // 2
    step, apart = (2, 1) if rotary == INTERLEAVED else (1, half)
    for i in range(half):
        j = column + i * step
        first = (sums[b, j] + vectors[bias + j]) * factor
        second = (sums[b, j + apart] + vectors[bias + j + apart]) * factor
        cos, sin = vectors[angles + i], vectors[angles + half + i]
        out[start + i * step] = first * cos - second * sin
        out[start + i * step + apart] = first * sin + second * cos
