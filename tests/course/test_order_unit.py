"""The unit `order`: what its text says holds, its reference agrees with others, its tests are fair.

That every misconception is caught and every other style accepted, in the real sandbox, is proved for all
units in tests/autograder/test_units.py.
"""

import re

import numpy as np
import pytest

import minitx.functional as F

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
plainly = pytest.importorskip("plainly")

from minitx import figures  # noqa: E402

UNIT = plainly.Unit("order")
played, failures = UNIT.played, UNIT.failures


def test_attend_is_the_attention_of_the_library():
    rng = np.random.default_rng(1)
    q, k, v = rng.normal(size=(3, 4, 6)), rng.normal(size=(3, 5, 6)), rng.normal(size=(3, 5, 2))
    real = np.arange(5) < np.array([[5], [0], [2]])
    library = F.attention(q[:, None], k[:, None], v[:, None], mask=real[:, None, None])
    assert np.allclose(played()["attend"](q, k, v, real), library.numpy()[:, 0], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("d", "place", "columns", "numbers"),
    [
        (4, 0, slice(None), [0, 1, 0, 1]),
        (4, 1, slice(None), [0.84147098, 0.54030231, 0.00999983, 0.99995000]),
        (4, 2, slice(None), [0.90929743, -0.41614684, 0.01999867, 0.99980001]),
        (512, 1, slice(6), [0.84147098, 0.54030231, 0.82185619, 0.56969501, 0.8019618, 0.59737533]),
        (512, 1, slice(510, None), [1.03663293e-4, 0.999999995]),
        (512, 100, slice(4), [-0.50636564, 0.86231887, 0.79754236, -0.60326294]),
    ],
)
def test_sinusoids_have_the_known_values(d, place, columns, numbers):
    code = played()["sinusoids"](np.array([place]), d)[0]
    assert np.allclose(code[columns], numbers, rtol=0, atol=6e-9)


def test_what_the_text_says_of_sinusoids(capsys):
    """Length, dot products that depend on the distance alone, and the slowest pair."""
    names = played("watch-sinusoids")
    codes = names["sinusoids"](np.arange(60), 512)
    assert np.allclose((codes**2).sum(axis=1), 256)
    assert codes[3] @ codes[10] == pytest.approx(187.8649973, abs=5e-8)
    assert codes[50] @ codes[57] == pytest.approx(187.8649973, abs=5e-8)
    said = capsys.readouterr().out
    assert "256.000000" in said and said.count("187.8649973") == 2 and "60,611" in said
    # PE(p + k) is PE(p) with each pair turned by the angle of k: (cos, sin) is what `rotate` turns.
    hands = codes.reshape(60, 256, 2)[..., ::-1].reshape(60, 512)
    assert np.allclose(names["rotate"](hands[:53], np.full(53, 7)), hands[7:])
    left, right = names["figure"].axes[:2]
    assert left.images and np.allclose(right.lines[0].get_ydata(), right.lines[1].get_ydata())


def test_sinusoids_of_odd_width_are_refused_with_the_number():
    with pytest.raises(ValueError, match=r"even.*got 7"):
        played()["sinusoids"](np.arange(3), 7)


@pytest.mark.parametrize("base", [10000.0, 5_000_000.0])
def test_rotate_is_the_librarys_interleaved_layout(base):
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 8))
    positions = np.array([0, 3, 17, 900])
    library = F.rotary(x, positions, base, layout="interleaved").numpy()
    assert np.allclose(played()["rotate"](x, positions, base), library, rtol=0, atol=1e-12)


def test_rotate_turns_one_pair_by_its_place_and_place_nought_changes_nothing():
    rotate = played()["rotate"]
    assert np.allclose(rotate(np.array([[1.0, 0.0]]), np.array([1])), [[np.cos(1), np.sin(1)]])
    x = np.random.default_rng(0).normal(size=(3, 8))
    assert np.array_equal(rotate(x, np.zeros(3, dtype=int)), x)


def test_the_mixture_is_right_at_place_nought_alone(capsys):
    played("demo-mixed")
    right, wrong = (
        [float(number) for number in re.findall(r"-?\d+\.?\d*(?:e[+-]\d+)?", line.split("place 0:")[1])]
        for line in capsys.readouterr().out.splitlines()
    )
    assert right[0] == wrong[0] == 0
    assert right[1] == 1.0 and abs(wrong[1] - 1) > 0.02
    assert right[2] == right[3] and abs(wrong[2] - wrong[3]) > 1


def test_the_table_of_shuffles_says_what_the_text_says(capsys):
    """facts 0.5: self-attention is equivariant; a query from outside sees an invariant result."""
    played("demo-shuffled", "watch-gaps")
    rows = [line for line in capsys.readouterr().out.splitlines() if re.search(r"\b(yes|no)\b", line)]
    verdicts = {row[:24].strip(): re.findall(r"\b(?:yes|no)\b", row) for row in rows}
    assert verdicts == {
        "self-attention": ["yes", "no"],
        "a query from outside": ["yes", "yes"],
        "the mean of all tokens": ["yes", "yes"],
        "with places added": ["no", "no"],
        "causal": ["no", "no"],
    }


def test_the_picture_of_the_shuffle_shows_rows_that_moved_with_their_labels():
    left, right = played("demo-shuffled")["figure"].axes
    for ax in (left, right):
        assert len(ax.texts) == 20
    rows = [
        {
            label.get_text(): [text.get_text() for text in ax.texts[4 * i : 4 * i + 4]]
            for i, label in enumerate(ax.get_yticklabels())
        }
        for ax in (left, right)
    ]
    assert rows[0] == rows[1] and list(rows[0]) != list(rows[1])


def test_polylines_in_any_order_of_points_with_any_garbage_give_the_same():
    """facts 2.3, X3: order irrelevant, garbage ignored, an empty polyline gives zeros."""
    encode = played()["encode_polylines"]
    rng = np.random.default_rng(2)
    points, real = rng.normal(size=(4, 7, 3)), np.arange(7) < np.array([[7], [3], [0], [5]])
    network = [rng.normal(size=shape) for shape in ((3, 5), (5,), (5, 6), (6,))]
    plain = encode(points, real, *network)
    assert not plain[2].any() and plain[[0, 1, 3]].any(axis=1).all()
    order = rng.permutation(7)
    assert np.allclose(encode(points[:, order], real[:, order], *network), plain, rtol=0, atol=1e-12)
    garbage = np.where(real[:, :, None], points, 1e6)
    assert np.array_equal(encode(garbage, real, *network), plain)


def test_agents_read_a_map_whatever_its_order_and_padding():
    """facts 2.3, X4: invariant, equivariant, padding appended, features without flags, zeros unmasked."""
    read_map = played()["read_map"]
    rng = np.random.default_rng(3)
    agents, lanes = 3 * rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 6, 5))
    real = np.arange(6) < np.array([[6], [4]])
    matrices = [rng.normal(size=shape) for shape in ((4, 2), (5, 2), (5, 7))]
    plain = read_map(agents, lanes, real, *matrices)
    order = np.array([3, 5, 0, 2, 1, 4])
    shuffled = read_map(agents, lanes[:, order], real[:, order], *matrices)
    assert np.allclose(shuffled, plain, rtol=0, atol=1e-12)
    assert np.array_equal(read_map(agents[:, [2, 0, 1]], lanes, real, *matrices), plain[:, [2, 0, 1]])
    more = np.concatenate([lanes, np.full((2, 3, 5), 9.0)], axis=1)
    flags = np.concatenate([real, np.zeros((2, 3), dtype=bool)], axis=1)
    assert np.allclose(read_map(agents, more, flags, *matrices), plain, rtol=0, atol=1e-12)
    assert np.abs(read_map(agents, lanes[:, order], real, *matrices) - plain)[1].max() > 0.1
    zeros = np.concatenate([lanes, np.zeros((2, 3, 5))], axis=1)
    assert np.abs(read_map(agents, zeros, np.ones((2, 9), dtype=bool), *matrices) - plain).max() > 0.1


def test_the_map_shows_each_reader_where_it_looks(capsys):
    names = played("watch-map")
    weights = names["lane_weights"]
    assert np.allclose(weights.sum(axis=1), 1) and not weights[:, 6:].any()
    assert weights[0].argmax() == 3 and weights[2].argmax() == 0
    assert set(weights[1].argsort()[-2:]) == {1, 4}
    gaps = [float(number) for number in re.findall(r"(\S+) from \w+variant", capsys.readouterr().out)]
    assert len(gaps) == 2 and max(gaps) < 1e-12
    words = [text.get_text() for text in names["figure"].axes[0].texts]
    assert words == [f"{share:.2f}" for share in weights[0, :6]]


def test_figures_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match=r"2 labelled rows, got the shape \(3, 4\)"):
        figures.tables_side_by_side([np.ones((3, 4))], ["a"], [["x", "y"]])
    with pytest.raises(ValueError, match=r"\(reader 1, polyline 1\), got \(2, 1\)"):
        figures.map_with_weights([[(0, 0), (1, 1)]], np.ones((2, 1)), ["a"])
    with pytest.raises(ValueError, match="up to 3 curves, got 4"):
        figures.position_code(np.ones((2, 2)), {i: np.ones((2, 2)) for i in range(4)})
