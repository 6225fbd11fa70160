"""Sampling: what is kept, what is drawn, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from minitx.sampling import probabilities, row_generators, sample

TENTHS = np.log([0.4, 0.3, 0.2, 0.1])
rows_of_logits = arrays.arrays(
    np.float64,
    st.integers(2, 12),
    elements=st.sampled_from([-np.inf, -3.0, -1.0, 0.0, 0.5, 0.5, 2.0]) | st.floats(-30, 30, width=32),
).filter(lambda row: np.isfinite(row).any())


def kept(logits, **settings):
    return np.flatnonzero(probabilities(logits, **settings)).tolist()


def by_definition(logits, temperature, top_k, top_p):
    """Sort the ids, then walk down: nothing of the code under test."""
    logits = [float(x) for x in logits]
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    if top_k:
        order = order[:top_k]
    highest = logits[order[0]]
    weight = {i: np.exp((logits[i] - highest) / temperature) for i in order}
    total = sum(weight.values())
    chosen, reached = {}, 0.0
    for i in order:
        if reached >= top_p - 1e-12 and top_p < 1:
            break
        chosen[i] = weight[i]
        reached += weight[i] / total
    rest = sum(chosen.values())
    return [chosen.get(i, 0.0) / rest for i in range(len(logits))]


@given(
    logits=rows_of_logits,
    temperature=st.sampled_from([0.1, 0.7, 1.0, 3.0]),
    top_k=st.integers(0, 14),
    top_p=st.sampled_from([1e-9, 0.25, 0.5, 0.8, 0.95, 1.0]),
)
def test_probabilities_are_those_of_the_definition(logits, temperature, top_k, top_p):
    got = probabilities(logits, temperature=temperature, top_k=top_k, top_p=top_p)
    np.testing.assert_allclose(got, by_definition(logits, temperature, top_k, top_p), rtol=1e-9, atol=1e-300)


def test_without_cuts_they_are_pytorchs_softmax(rng):
    torch = pytest.importorskip("torch")
    logits = rng.standard_normal((3, 5, 17)) * 9
    expected = torch.softmax(torch.tensor(logits) / 0.7, dim=-1).numpy()
    np.testing.assert_allclose(probabilities(logits, temperature=0.7), expected, rtol=1e-12)


def test_the_token_that_crosses_p_is_kept():
    assert kept(TENTHS, top_p=0.8) == [0, 1, 2]
    assert kept(TENTHS, top_p=0.7) == [0, 1], "0.4 + 0.3 reaches 0.7, whatever rounding does"
    assert kept(TENTHS, top_p=0.71) == [0, 1, 2]
    assert kept(TENTHS, top_p=0.4) == [0]
    assert kept(TENTHS, top_p=1e-300) == [0]
    assert kept(TENTHS, top_p=1.0) == [0, 1, 2, 3]
    np.testing.assert_allclose(probabilities(TENTHS, top_p=0.8), np.array([4, 3, 2, 0]) / 9)


def test_top_k_of_0_or_of_the_vocabulary_and_more_changes_nothing():
    everything = probabilities(TENTHS)
    for k in (0, 4, 5, 10**20):
        np.testing.assert_array_equal(probabilities(TENTHS, top_k=k), everything)
    np.testing.assert_allclose(probabilities(TENTHS, top_k=2), np.array([4, 3, 0, 0]) / 7)


def test_top_p_counts_what_top_k_has_left():
    assert kept(TENTHS, top_k=2, top_p=0.5) == [0], "4/7 is more than 0.5"
    assert kept(TENTHS, top_k=2, top_p=0.6) == [0, 1]


def test_of_equal_tokens_those_with_smaller_ids_are_kept():
    level = np.array([1.0, 2.0, 2.0, 2.0, 0.0])
    assert kept(level, top_k=2) == [1, 2]
    assert kept(level, top_k=4) == [0, 1, 2, 3]
    assert kept(np.zeros(5), top_p=0.5) == [0, 1, 2]
    assert sample(level[None], temperature=0).tolist() == [1]


def test_temperature_0_takes_the_largest_and_draws_nothing():
    generator = np.random.default_rng(5)
    logits = np.array([[0.0, 3.0, -1.0], [9.0, -np.inf, 1.0]], np.float32)
    assert sample(logits, temperature=0, top_k=2, top_p=0.1, rng=generator).tolist() == [1, 0]
    assert generator.random() == np.random.default_rng(5).random()
    np.testing.assert_array_equal(probabilities(logits, temperature=0), [[0, 1, 0], [1, 0, 0]])


def test_a_tiny_temperature_goes_to_the_largest_without_a_warning():
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for temperature in (1e-3, 1e-30, 5e-324):
            got = probabilities(np.array([1e30, -1e30, 1e30, 0.0]), temperature=temperature)
            np.testing.assert_array_equal(got, [0.5, 0, 0.5, 0])


def test_large_logits_do_not_overflow():
    np.testing.assert_allclose(
        probabilities(np.array([1e4, 1e4 - 1, -1e300])), [0.73105857863, 0.26894142137, 0]
    )


def test_frequencies_are_the_probabilities():
    settings = {"temperature": 0.8, "top_p": 0.9}
    drawn = sample(np.tile(TENTHS, (10_000, 1)), **settings, rng=np.random.default_rng(3))
    counts = np.bincount(drawn, minlength=4) / len(drawn)
    expected = probabilities(TENTHS, **settings)
    assert counts[expected == 0].sum() == 0
    # Five deviations of a mean of 10,000.
    assert np.all(np.abs(counts - expected) < 5 * np.sqrt(expected * (1 - expected) / len(drawn)) + 1e-12)


def test_float32_logits_are_sampled_in_float64():
    assert probabilities(TENTHS.astype(np.float32)).dtype == np.float64
    assert sample(TENTHS.astype(np.float32)[None]).dtype == np.int64


class Drawn:
    """A generator whose next number is known."""

    def __init__(self, number):
        self.number = number

    def random(self):
        return self.number


@pytest.mark.parametrize("number", [0.0, np.nextafter(1.0, 0.0)])
def test_a_token_of_probability_0_is_never_drawn(number):
    """Not even by the smallest and the largest number that a generator gives."""
    for logits in ([-np.inf, 0.0, -np.inf], [-np.inf, 0.1, 0.2, 0.3, -np.inf], [0.0, -1e9, 0.0, -1e9]):
        (drawn,) = sample(np.array([logits]), rng=[Drawn(number)])
        assert probabilities(np.array(logits))[drawn] > 0
    scaled = np.log(np.full(7, 1 / 7) * 3)
    assert sample(scaled[None], rng=[Drawn(number)])[0] == (0 if number == 0 else 6)


def test_a_row_alone_draws_what_it_draws_in_a_batch(rng):
    logits = rng.standard_normal((5, 30)).astype(np.float32)
    together = row_generators(11, 5)
    steps = [sample(logits, rng=together) for _ in range(20)]
    for row in range(5):
        alone = row_generators(11 + row, 1)
        assert [sample(logits[row : row + 1], rng=alone)[0] for _ in range(20)] == [
            step[row] for step in steps
        ]


def test_seeds():
    def first(seed, rows=3):
        return [generator.random() for generator in row_generators(seed, rows)]

    assert first(4) == first([4, 5, 6]) == first(np.int64(4)) == first(np.array([4, 5, 6]))
    assert len(set(first(4))) == 3
    assert first(np.random.default_rng(1)) == first(np.random.default_rng(1)) != first(1)
    assert first(None) != first(None)
    for wrong, error, says in (
        (-1, ValueError, "at least 0, got -1"),
        ([1, 2], ValueError, "each of 3 rows, got 2"),
        (1.5, TypeError, "integer"),
        ("7", TypeError, "integer"),
        ([1, 2, None], TypeError, "integer"),
    ):
        with pytest.raises(error, match=says):
            row_generators(wrong, 3)


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"temperature": -0.1}, ValueError, "temperature .* got -0.1"),
        ({"temperature": np.nan}, ValueError, "temperature .* got nan"),
        ({"temperature": np.inf}, ValueError, "temperature .* got inf"),
        ({"temperature": "hot"}, TypeError, "temperature must be a number"),
        ({"top_k": -1}, ValueError, "top_k .* got -1"),
        ({"top_k": 2.0}, TypeError, "top_k must be an integer"),
        ({"top_p": 0}, ValueError, "top_p .* got 0"),
        ({"top_p": 1.01}, ValueError, "top_p .* got 1.01"),
        ({"top_p": -1}, ValueError, "top_p .* got -1"),
        ({"top_p": np.nan}, ValueError, "top_p .* got nan"),
        ({"top_p": None}, TypeError, "top_p must be a number"),
    ],
)
def test_wrong_settings_are_refused(settings, error, says):
    with pytest.raises(error, match=says):
        probabilities(TENTHS, **settings)
    with pytest.raises(error, match=says):
        sample(TENTHS[None], **settings)


@pytest.mark.parametrize("temperature", [0, 1.0])
@pytest.mark.parametrize(
    ("row", "says"),
    [
        ([1.0, np.nan, 2.0], "row 1 hold nan at id 1"),
        ([1.0, 2.0, np.inf], "row 1 hold inf at id 2"),
        ([-np.inf] * 3, "row 1 are all -inf"),
    ],
)
def test_logits_from_which_nothing_can_be_chosen_are_refused(row, says, temperature):
    with pytest.raises(ValueError, match=says):
        sample(np.array([[0.0, 1.0, -np.inf], row]), temperature=temperature)
    with pytest.raises(ValueError, match=says):
        probabilities(np.array([[0.0, 1.0, -np.inf], row]), temperature=temperature)


def test_wrong_shapes_are_refused():
    for wrong in (np.zeros(3), np.zeros((1, 2, 3))):
        with pytest.raises(ValueError, match=r"logits must have shape \(B, vocab\)"):
            sample(wrong)
    with pytest.raises(ValueError, match="logits must have shape"):
        probabilities(np.zeros((2, 0)))
    with pytest.raises(ValueError, match="2 generators, one for each row of logits, got 3"):
        sample(np.zeros((2, 4)), rng=row_generators(0, 3))
    assert sample(np.zeros((0, 4))).shape == (0,)
