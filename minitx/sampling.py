"""From the logits of the next token to its id: greedy, temperature, top-k and top-p. Float64 inside."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitx.errors import shape_error

Seed = int | Sequence[int] | np.random.Generator | None

# A sum of probabilities that is short of top_p by no more than rounding has reached it.
_ROUNDING = 1e-12


def sample(
    logits: Any,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    rng: np.random.Generator | Sequence[np.random.Generator] | None = None,
) -> np.ndarray:
    """One id for each row of logits (B, vocab) -> (B,) int64, drawn from `probabilities`.

    At temperature 0 it is the id of the largest logit, the first of equals, and nothing is drawn. `rng`: one
    generator for each row, from which one number is drawn, so that a row's id does not depend on the rows
    beside it; or one generator that the rows use in turn; fresh by default.

    Raises what `probabilities` raises, and ValueError for a number of generators that is not B.
    """
    check_settings(temperature, top_k, top_p)
    rows = np.asarray(logits)
    if rows.ndim != 2:
        raise shape_error("logits", "(B, vocab)", rows.shape)
    if rng is None or isinstance(rng, np.random.Generator):
        rng = [np.random.default_rng(rng)] * len(rows)
    if len(rng) != len(rows):
        raise ValueError(f"rng must be {len(rows)} generators, one for each row of logits, got {len(rng)}.")
    ids = [
        sample_row(row, temperature, top_k, top_p, generator, f"row {i}")
        for i, (row, generator) in enumerate(zip(rows, rng, strict=True))
    ]
    return np.array(ids, np.int64)


def sample_row(
    logits: np.ndarray, temperature: float, top_k: int, top_p: float, rng: np.random.Generator, name: str
) -> int:
    """The id for one row of logits (vocab,). Settings are not checked; `name` is what errors call the row."""
    if temperature == 0:
        return int(np.argmax(_checked(logits, name)))
    chances = _row_probabilities(logits, temperature, top_k, top_p, name)
    sums = np.cumsum(chances)
    # The first id whose sum lies above the number drawn: one of probability 0 never does.
    drawn = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
    return drawn if drawn < len(chances) else int(np.flatnonzero(chances)[-1])


def probabilities(logits: Any, *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> np.ndarray:
    """softmax(logits / temperature), cut to the likeliest ids: logits (..., vocab) -> float64, same shape.

    Args:
        temperature: below 1 sharper, above 1 flatter; 0 puts everything on the largest logit.
        top_k: keep the k largest, of equals those with the smaller ids; 0, or vocab and more, keeps all.
        top_p: keep the likeliest ids until their probabilities, after top_k, add up to p (nucleus sampling,
            Holtzman et al. 2020, section 3.1). The id with which the sum reaches p is kept; 1 keeps all.

    What is kept is scaled to add up to 1. A logit of -inf has probability 0.

    Raises ValueError for a negative or infinite temperature, a negative top_k, a top_p outside (0, 1], and
    for logits that hold NaN or +inf or nothing but -inf; TypeError for a top_k that is not an integer.
    """
    check_settings(temperature, top_k, top_p)
    array = np.asarray(logits)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise shape_error("logits", "(..., vocab)", array.shape)
    rows = array.reshape(-1, array.shape[-1])
    result = np.zeros(rows.shape)
    for i, row in enumerate(rows):
        if temperature == 0:
            result[i, np.argmax(_checked(row, f"row {i}"))] = 1.0
        else:
            result[i] = _row_probabilities(row, temperature, top_k, top_p, f"row {i}")
    return result.reshape(array.shape)


def check_settings(temperature: float, top_k: int, top_p: float) -> None:
    """Raise unless the three are what `probabilities` takes."""
    for name, value in (("temperature", temperature), ("top_p", top_p)):
        if not isinstance(value, numbers.Real):
            raise TypeError(f"{name} must be a number, got {value!r}.")
    if not 0 <= temperature < math.inf:
        raise ValueError(
            f"temperature must be a finite number of at least 0, got {temperature}. "
            "0 takes the likeliest token."
        )
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p must lie above 0 and at most at 1, got {top_p}. 1 keeps all tokens.")
    try:
        k = operator.index(top_k)
    except TypeError:
        raise TypeError(f"top_k must be an integer, got {top_k!r}.") from None
    if k < 0:
        raise ValueError(f"top_k must be at least 0, got {top_k}. 0 keeps all tokens.")


def row_generators(seed: Seed, rows: int) -> list[np.random.Generator]:
    """A generator for each row of a batch.

    An integer seed s gives row i what seed s + i gives a text that is made alone. A sequence of integers has
    one for each row. A generator is asked for `rows` independent ones; None gives fresh ones.

    Raises ValueError for a negative seed and for a sequence of another length, TypeError for anything else.
    """
    if seed is None or isinstance(seed, np.random.Generator):
        return np.random.default_rng(seed).spawn(rows)
    try:
        if np.ndim(seed) == 0:
            start = operator.index(seed)  # type: ignore[arg-type]
            seeds = [start + i for i in range(rows)]
        else:
            seeds = [operator.index(one) for one in seed]  # type: ignore[union-attr]
    except TypeError:
        raise TypeError(f"seed must be an integer, or one for each row, got {seed!r}.") from None
    if len(seeds) != rows:
        raise ValueError(f"seed must be one integer, or one for each of {rows} rows, got {len(seeds)}.")
    if min(seeds, default=0) < 0:
        raise ValueError(f"A seed must be at least 0, got {min(seeds)}.")
    return [np.random.default_rng(one) for one in seeds]


def _checked(logits: np.ndarray, name: str) -> np.ndarray:
    """One row of logits as float64, free of NaN and +inf and not all -inf."""
    row = np.asarray(logits, np.float64)
    # NaN and +inf are found in the maximum: a NaN makes it NaN.
    highest = row.max(initial=-np.inf)
    if highest == -np.inf:
        raise ValueError(f"The logits of {name} are all -inf: no token can follow.")
    if not np.isfinite(highest):
        wrong = int(np.flatnonzero(~(row < np.inf))[0])
        raise ValueError(
            f"The logits of {name} hold {row[wrong]} at id {wrong}: no token can be chosen. Weights that are "
            "NaN or infinite, as after a training that diverged, give such logits."
        )
    return row


def _row_probabilities(
    logits: np.ndarray, temperature: float, top_k: int, top_p: float, name: str
) -> np.ndarray:
    row = _checked(logits, name)
    # The maximum is taken off first: divided by a tiny temperature, the logits themselves might overflow.
    with np.errstate(over="ignore"):
        row = (row - row.max()) / temperature
    if 0 < top_k < len(row):
        row = np.where(_largest(row, top_k), row, -np.inf)
    chances = np.exp(row)
    chances /= chances.sum()
    if top_p < 1:
        chances = np.where(_nucleus(chances, top_p), chances, 0.0)
        chances /= chances.sum()
    return chances


def _largest(values: np.ndarray, k: int) -> np.ndarray:
    """Where the k largest values (vocab,) are; of those that equal the k-th, the first."""
    kth = np.partition(values, len(values) - k)[len(values) - k]
    keep = values > kth
    equal = np.flatnonzero(values == kth)
    keep[equal[: k - np.count_nonzero(keep)]] = True
    return keep


def _nucleus(chances: np.ndarray, p: float) -> np.ndarray:
    """Where the fewest largest probabilities that add up to p are."""
    descending = np.sort(chances)[::-1]
    before = np.cumsum(descending) - descending
    return _largest(chances, max(1, int(np.count_nonzero(before < p - _ROUNDING))))
