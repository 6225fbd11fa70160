"""The messages of `check`: each says what was expected, what came, and a cause only when it holds."""

import subprocess
import sys

import numpy as np
import pytest

from minitx.course import check

RNG = np.random.default_rng(11)
QUERY_KEY = ("query", "key")


@pytest.fixture(autouse=True)
def practice_key():
    yield
    check.use_key(b"practice")


def said(got, expected, name="weights", **options):
    """The message of `check.array` for a wrong answer."""
    with pytest.raises(AssertionError) as caught:
        check.array(name, got, expected, **options)
    message = str(caught.value)
    assert message.isascii() and message.startswith(f"{name}: ")
    return message


def weights_of(scores, axis=-1):
    raised = np.exp(scores)
    return raised / raised.sum(axis=axis, keepdims=True)


SCORES = RNG.normal(size=(2, 3, 4, 5))
WEIGHTS = weights_of(SCORES)


class Handle:
    """Stands for an object that stays in the sandbox: it refuses to become an array."""

    def __array__(self, *args, **kwargs):
        raise TypeError("expected an array, got an object of class Foo")


# What is right passes.


def test_equal_arrays_pass_and_so_do_lists_float32_and_integers():
    check.array("weights", WEIGHTS, WEIGHTS)
    check.array("weights", WEIGHTS.tolist(), WEIGHTS)
    check.array("weights", WEIGHTS.astype(np.float32), WEIGHTS, atol=1e-6)
    check.array("numbers", np.arange(3), [0.0, 1.0, 2.0], axes=("key",))
    check.array("a number", 2, 2.0)
    check.array("flags", np.array([True, False]), [True, False], axes=("key",))
    check.array("infinite", np.array([-np.inf, 1.0]), [-np.inf, 1.0], axes=("key",))


def test_the_tolerance_is_the_callers():
    check.array("x", np.array([1.0 + 9e-6]), [1.0], axes=("key",))
    said(np.array([1.0 + 2e-5]), [1.0], axes=("key",))
    check.array("x", np.array([1.0 + 2e-5]), [1.0], axes=("key",), rtol=1e-4)
    check.array("x", np.array([1e-3]), [0.0], axes=("key",), atol=2e-3)


def test_nothing_is_changed():
    got, expected = WEIGHTS.copy(), WEIGHTS.copy()
    check.array("weights", got, expected)
    assert np.array_equal(got, WEIGHTS) and np.array_equal(expected, WEIGHTS)


# What is no array.


def test_none_asks_for_the_return():
    assert said(None, WEIGHTS) == "weights: your function returned None: is there a return at its end?"


def test_an_object_that_refuses_is_named_with_its_own_words():
    message = said(Handle(), WEIGHTS)
    assert message == (
        "weights: expected an array of shape (batch 2, head 3, query 4, key 5), got an object of class Foo"
    )


def test_a_refusal_in_other_words_is_quoted():
    class Stubborn:
        def __array__(self, *args, **kwargs):
            raise TypeError("no numbers here")

    assert "got a value of type Stubborn (no numbers here)" in said(Stubborn(), WEIGHTS)


@pytest.mark.parametrize(
    ("got", "part"),
    [
        ((WEIGHTS, WEIGHTS), "got a tuple of 2 values"),
        ([[1.0, 2.0], [3.0]], "a list of length 2 whose rows have unequal lengths"),
        ("weights", "got a str of length 7"),
        (object(), "got a value of type object"),
        (WEIGHTS + 1j, "got an array of shape (2, 3, 4, 5) of dtype complex128, which is no real number"),
        ({"weights": 1}, "got a dict of length 1"),
    ],
    ids=["tuple", "ragged list", "text", "object", "complex", "dict"],
)
def test_what_is_no_array_of_numbers_is_named(got, part):
    message = said(got, WEIGHTS)
    assert part in message and "expected an array of shape (batch 2, head 3, query 4, key 5)" in message


def test_a_number_is_asked_for_as_a_number():
    assert said("many", 3.0, name="count").startswith("count: expected a number, got a str")


# Wrong shapes.


def test_swapped_axes_are_named():
    message = said(np.swapaxes(WEIGHTS, 2, 3), WEIGHTS)
    assert message.splitlines() == [
        "weights: wrong shape.",
        "  expected (batch 2, head 3, query 4, key 5)",
        "  got      (batch 2, head 3, query 5, key 4)",
        "  The query and key axes look swapped.",
    ]
    assert "The head and query axes look swapped." in said(np.swapaxes(WEIGHTS, 1, 2), WEIGHTS)


def test_one_wrong_length_is_named():
    axes = ("batch", "head", "query", "value")
    message = said(np.ones((2, 3, 4, 6)), np.ones((2, 3, 4, 7)), name="output", axes=axes)
    assert "Only the value axis differs: it should be 7 long and is 6." in message


def test_missing_and_extra_axes_are_named():
    assert "The head axis is missing." in said(WEIGHTS[:, 0], WEIGHTS)
    assert "got      (2, 4, 5): 3 axes in place of 4\n" in said(WEIGHTS[:, 0], WEIGHTS)
    assert "There is an extra axis of size 1 at position 0." in said(WEIGHTS[None], WEIGHTS)


def test_a_shape_that_fits_no_explanation_gets_none():
    assert len(said(np.ones((5, 4, 3, 7)), WEIGHTS).splitlines()) == 3
    assert len(said(np.ones(7), WEIGHTS).splitlines()) == 3


def test_fewer_axes_use_the_last_names_and_more_axes_get_numbers():
    assert "expected (query 2, key 3)" in said(np.ones((3, 2)), np.ones((2, 3)))
    assert "expected (axis 0 2, batch 3, head 4, query 5, key 6)" in said(1.0, np.ones((2, 3, 4, 5, 6)))


# Dtypes.


def test_a_dtype_is_checked_only_when_asked_for():
    half = WEIGHTS.astype(np.float32)
    check.array("weights", half, half, dtype=np.float32)
    message = said(half.astype(np.float64), half, dtype=np.float32)
    assert "expected dtype float32, got float64" in message and "made them wider" in message
    assert "wider" not in said(half, WEIGHTS, dtype=np.float64, atol=1e-6)


def test_dtype_alone_can_be_checked():
    check.dtype("output", np.ones(3, np.float32), np.float32)
    with pytest.raises(AssertionError, match="output: expected dtype float32, got float64"):
        check.dtype("output", np.ones(3), np.float32)
    with pytest.raises(AssertionError, match="returned None"):
        check.dtype("output", None, np.float32)


# NaN and infinity.


def test_nan_and_infinity_are_counted_and_placed():
    got = WEIGHTS.copy()
    got[1, 2, 0, 3], got[1, 2, 3] = np.inf, np.nan
    message = said(got, WEIGHTS)
    assert "5 of 120 numbers are NaN and 1 are infinite" in message
    assert f"first at batch 1, head 2, query 0, key 3: expected {WEIGHTS[1, 2, 0, 3]:.6g}, got inf" in message


# Wrong values.


def test_the_first_difference_has_a_place_and_both_values():
    got = WEIGHTS.copy()
    got[1, 0, 2, 3] += 0.25
    got[1, 2, 3, 4] -= 0.5
    message = said(got, WEIGHTS)
    first = f"first at batch 1, head 0, query 2, key 3: expected {WEIGHTS[1, 0, 2, 3]:.6g}"
    assert "2 of 120 numbers differ." in message and first in message
    assert "largest difference: 0.5" in message


def test_a_single_number_is_told_in_one_line():
    assert said(3.5, 3.0, name="count") == "count: expected 3, got 3.5."


# Likely causes.


def test_a_constant_factor_is_named():
    output = RNG.normal(size=(2, 3, 4, 7))
    assert "your numbers are 2.83 times larger everywhere." in said(output * 8**0.5, output)
    assert "your numbers are 2.83 times smaller everywhere." in said(output / 8**0.5, output)
    assert "every number has the wrong sign." in said(-output, output)
    assert "your numbers are -3 times the expected ones everywhere." in said(-3 * output, output)


def test_a_constant_difference_is_named():
    output = RNG.normal(size=(2, 3, 4, 7))
    assert "your numbers are 1.5 higher everywhere." in said(output + 1.5, output)
    assert "your numbers are 1.5 lower everywhere." in said(output - 1.5, output)


def test_square_results_that_are_transposed_are_named():
    square = RNG.normal(size=(2, 3, 5, 5))
    message = said(np.swapaxes(square, 2, 3), square)
    assert "the numbers are right, but the query and key axes are swapped." in message


def test_weights_over_the_wrong_axis_are_named():
    message = said(weights_of(SCORES, axis=-2), WEIGHTS)
    assert "your weights sum to one over the query axis. They should sum to one over the key axis." in message
    assert "over the batch axis" in said(weights_of(SCORES, axis=0), WEIGHTS)
    assert "over the query and key axes together" in said(weights_of(SCORES, axis=(-2, -1)), WEIGHTS)
    together = said(weights_of(SCORES, axis=(0, 1, 2, 3)), WEIGHTS)
    assert "over the batch and head and query and key axes together" in together


def test_rows_that_do_not_sum_to_one_are_counted():
    got = WEIGHTS.copy()
    got[0, 1, 2, 0] = 0.0
    message = said(got, WEIGHTS)
    assert "1 of 24 rows do not sum to 1 over the key axis" in message
    assert f"sums to {1 - WEIGHTS[0, 1, 2, 0]:.3g}." in message


def masked(allowed):
    raised = np.exp(SCORES) * allowed
    return raised / np.maximum(raised.sum(axis=-1, keepdims=True), 1e-300)


def test_a_mask_that_is_turned_round_is_named():
    mask = np.array([True, False, True, False, True])
    assert "Is the sense of a mask turned round?" in said(masked(~mask), masked(mask))


def test_weight_on_hidden_keys_is_counted():
    mask = np.array([True, False, True, True, True])
    message = said(WEIGHTS, masked(mask))
    assert "24 numbers that should be exactly 0 are not: some key that must be hidden" in message
    assert "turned round" not in message


def test_empty_rows_are_named_when_they_alone_differ():
    mask = np.ones((2, 3, 4, 5), dtype=bool)
    mask[1, 2, 3] = False
    got = masked(mask)
    got[1, 2, 3] = 0.2
    assert "only rows in which no key is allowed differ" in said(got, masked(mask))


def test_numbers_that_are_nearly_right_are_said_to_be_close():
    output = RNG.normal(size=(2, 3, 4, 7))
    assert "the numbers are close" in said(output.astype(np.float16), output)


def test_no_cause_is_named_when_none_holds_everywhere():
    output = RNG.normal(size=(2, 3, 4, 7))
    almost = output * 3
    almost[1, 1, 1, 1] += 1.0
    assert "Likely" not in said(almost, output)
    assert "Likely" not in said(RNG.normal(size=output.shape), output)
    weights = weights_of(RNG.normal(size=SCORES.shape))
    assert "Likely" not in said(weights, WEIGHTS)


def test_at_most_two_causes_are_named():
    mask = np.array([True, False, True, False, True])
    for got in (masked(~mask) * 3, WEIGHTS, weights_of(SCORES, axis=-2), -masked(mask)):
        assert said(got, masked(mask)).count("Likely") <= 2


@pytest.mark.filterwarnings("error")
def test_an_expected_infinity_is_no_number_to_reckon_with():
    message = said(np.array([[-np.inf, 3.0], [1.0, 5.0]]), np.array([[-np.inf, 2.0], [-np.inf, 5.0]]))
    assert "2 of 4 numbers differ" in message and "expected 2, got 3" in message
    assert "largest difference: 1" in message and "nan" not in message and "Likely" not in message
    message = said(np.array([0.0, 5.0]), np.array([-np.inf, 5.0]))
    assert "expected -inf, got 0" in message and "largest difference" not in message


# Several values.


def test_parts_returns_the_values():
    output, weights = check.parts("attend", (1, 2), ("output", "weights"))
    assert (output, weights) == (1, 2)


@pytest.mark.parametrize(
    ("got", "message"),
    [
        (None, "attend: your function returned None: is there a return at its end?"),
        (np.ones((2, 3)), "attend: expected the values (output, weights), got one value: an array of shape"),
        ((1, 2, 3), "attend: expected 2 values, (output, weights), got 3."),
    ],
    ids=["none", "one array with two rows", "three values"],
)
def test_parts_does_not_unpack_by_accident(got, message):
    with pytest.raises(AssertionError) as caught:
        check.parts("attend", got, ("output", "weights"))
    assert str(caught.value).startswith(message)


def test_entries_returns_the_values_in_the_order_asked_for():
    assert check.entries("cost", {"bytes": 8, "scores": 2}, ("scores", "bytes")) == (2, 8)


@pytest.mark.parametrize(
    ("got", "message"),
    [
        (None, "cost: your function returned None: is there a return at its end?"),
        ((2, 8), "cost: expected a dictionary {'scores': ..., 'bytes': ...}, got a tuple of length 2."),
        (
            {"scores": 2, "byte": 8},
            "cost: expected a dictionary {'scores': ..., 'bytes': ...}, "
            "but 'bytes' is missing, 'byte' is not asked for.",
        ),
    ],
    ids=["none", "a tuple", "another key"],
)
def test_entries_says_which_keys_are_wrong(got, message):
    with pytest.raises(AssertionError) as caught:
        check.entries("cost", got, ("scores", "bytes"))
    assert str(caught.value) == message


def test_a_changed_input_is_told():
    before = np.array([1.0, np.nan, 3.0])
    check.unchanged("scores", before.copy(), before)
    with pytest.raises(AssertionError, match="scores: your function changed its input"):
        check.unchanged("scores", before + 1, before)


# Errors that are asked for.


def test_raises_returns_what_was_raised():
    assert isinstance(check.raises(ValueError, int, "three"), ValueError)
    assert isinstance(check.raises((KeyError, ValueError), int, "three"), ValueError)
    assert isinstance(check.raises(TypeError, sorted, [3, 1], wrong=True), TypeError)


def test_raises_tells_what_came_in_place_of_the_error():
    with pytest.raises(AssertionError, match="int: expected it to raise ValueError, but it returned"):
        check.raises(ValueError, int, "3")
    with pytest.raises(AssertionError, match="expected it to raise KeyError, but it raised ValueError: inv"):
        check.raises(KeyError, int, "three")

    class Nameless:
        __name__ = 3

        def __call__(self):
            return None

    with pytest.raises(AssertionError, match=r"^the function: expected it to raise KeyError or ValueError"):
        check.raises((KeyError, ValueError), Nameless())


# Random numbers.


def test_random_numbers_depend_on_key_and_label_alone():
    first = check.rng("a").normal(size=5)
    assert np.array_equal(first, check.rng("a").normal(size=5))
    assert not np.array_equal(first, check.rng("b").normal(size=5))
    check.use_key(b"another student")
    assert not np.array_equal(first, check.rng("a").normal(size=5))
    check.use_key(b"practice")
    assert np.array_equal(first, check.rng("a").normal(size=5))


def test_random_numbers_are_pinned():
    """A stored grade must come out the same on another day: this number may not change."""
    assert check.rng("a label").integers(0, 10**6) == 838928


def test_a_key_must_be_bytes():
    with pytest.raises(TypeError, match="must be bytes, got str"):
        check.use_key("practice")


def test_check_needs_nothing_but_numpy():
    """A notebook in a browser has neither matplotlib's back-ends nor Numba nor the grader."""
    code = (
        "import sys; from minitx.course import check; from minitx import figures; "
        "print([m for m in ('matplotlib', 'numba', 'nbgrader', 'autograder', 'IPython') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
