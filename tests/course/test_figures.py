"""The figures say what they should, also without colour."""

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

from minitx import figures  # noqa: E402

TOKENS = ["the", "light", "is", "red"]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def texts(ax):
    return [text.get_text() for text in ax.texts]


def hatched(ax):
    return [patch for patch in ax.patches if patch.get_hatch()]


def assert_nothing_is_cut_off(figure, tmp_path):
    """Every visible text lies inside the picture, and is not too small to read."""
    figure.savefig(tmp_path / "figure.png")
    width, height = figure.canvas.get_width_height()
    for text in figure.findobj(matplotlib.text.Text):
        if text.get_visible() and text.get_text().strip() and text.axes is not None:
            box = text.get_window_extent()
            inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
            assert inside, f"{text.get_text()!r} is cut off"
            assert text.get_fontsize() >= 10, f"{text.get_text()!r} is small"


def test_a_heatmap_shows_labels_numbers_and_hatching(tmp_path):
    weights = np.array([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0]])
    ax = figures.attention_heatmap(weights, ["a", "b"], ["x", "y", "z"], "one head")
    assert texts(ax) == ["1.00", "0.25", "0.75"]
    assert len(hatched(ax)) == 3
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["x", "y", "z"]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["a", "b"]
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("one head", "key", "query")
    assert_nothing_is_cut_off(ax.figure, tmp_path)


def test_a_heatmap_draws_into_given_axes_and_returns_them():
    _, ax = plt.subplots()
    assert figures.attention_heatmap(np.eye(2), ax=ax) is ax
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0", "1"]


def test_a_large_heatmap_leaves_the_numbers_out():
    ax = figures.attention_heatmap(np.full((3, 40), 1 / 40))
    assert texts(ax) == []


def test_a_heatmap_of_all_heads_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"\(2, 3, 4, 5\); pick one batch element and one head"):
        figures.attention_heatmap(np.ones((2, 3, 4, 5)))


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"3 key labels were given for weights of shape \(query 3, key 2\)"):
        figures.attention_heatmap(np.ones((3, 2)), ["a", "b", "c"], ["x", "y", "z"])
    with pytest.raises(ValueError, match="1 query labels"):
        figures.attention_heatmap(np.ones((3, 2)), ["a"])


def test_long_labels_stay_inside(tmp_path):
    things = ["car ahead, my lane", "truck ahead, left lane", "a traffic light that is red"]
    ax = figures.attention_heatmap(np.full((2, 3), 1 / 3), ["a question of some length?", "b"], things)
    assert_nothing_is_cut_off(ax.figure, tmp_path)


def test_heatmaps_stand_side_by_side(tmp_path):
    square = np.full((4, 4), 0.25)
    figure = figures.heatmaps_side_by_side([square, np.tril(square)], ["free", "causal"], TOKENS, TOKENS)
    assert [ax.get_title() for ax in figure.axes] == ["free", "causal"]
    assert [len(hatched(ax)) for ax in figure.axes] == [0, 6]
    assert_nothing_is_cut_off(figure, tmp_path)


def test_masks_show_dots_and_hatching(tmp_path):
    mask = np.tril(np.ones((2, 5), dtype=bool), k=3)
    figure = figures.masks_side_by_side([np.eye(3, dtype=bool), mask], ["itself", "bottom right"])
    dots = [sum(line.get_marker() == "o" for line in ax.lines) for ax in figure.axes]
    assert dots == [3, 9]
    assert [len(hatched(ax)) for ax in figure.axes] == [6, 1]
    assert_nothing_is_cut_off(figure, tmp_path)


def test_shapes_in_one_head_has_a_square_for_each_number(tmp_path):
    figure = figures.shapes_in_one_head(n=2, m=5, d_k=3, d_v=4)
    (ax,) = figure.axes
    assert len(ax.patches) == 2 * 3 + 3 * 5 + 2 * 5 + 2 * 5 + 5 * 4 + 2 * 4
    words = texts(ax)
    for name in ("q", "k transposed", "scores", "weights", "v", "output", "d_k = 3", "d_v = 4"):
        assert name in words
    assert (words.count("n = 2"), words.count("m = 5")) == (4, 4)
    assert_nothing_is_cut_off(figure, tmp_path)


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (6, 2, 2, 6), (2, 8, 3, 3)])
def test_shapes_of_other_sizes_stay_inside(sizes, tmp_path):
    assert_nothing_is_cut_off(figures.shapes_in_one_head(*sizes), tmp_path)


def test_hard_and_soft_lookup_print_weights_and_answers(tmp_path):
    figure = figures.hard_and_soft_lookup([np.log(3.0), 0.0], [8, 4], ["near", "far"], " m/s")
    hard, soft = figure.axes
    assert texts(hard) == ["1.00", "0.00"] and texts(soft) == ["0.75", "0.25"]
    assert "returns 8.0 m/s" in hard.get_xlabel() and "returns 7.0 m/s" in soft.get_xlabel()
    assert [tick.get_text() for tick in hard.get_yticklabels()] == ["near  (8 m/s)", "far  (4 m/s)"]
    assert_nothing_is_cut_off(figure, tmp_path)


def test_saturation_grows_without_the_scale_and_not_with_it(tmp_path):
    figure = figures.scale_and_saturation(d_ks=(4, 64, 1024))
    tops = [max(bar.get_height() for bar in ax.patches) for ax in figure.axes]
    assert tops[0] < tops[1] < tops[2] and tops[2] > 0.95
    assert max(tops[3:]) < 0.5
    assert_nothing_is_cut_off(figure, tmp_path)


def test_figures_are_light_cards_on_every_page():
    """On a dark page the card keeps its own white ground, so dark text stays readable."""
    with plt.style.context("dark_background"):
        figure = figures.masks_side_by_side([np.eye(3, dtype=bool)], ["itself"])
        ax = figures.attention_heatmap(np.eye(3), title="weights")
    for one in (figure, ax.figure):
        assert one.get_facecolor() == (1.0, 1.0, 1.0, 1.0)
        assert one.axes[0].title.get_color() == figures.style.INK
        assert {tick.get_color() for tick in one.axes[0].get_xticklabels()} == {figures.style.INK}


def test_drawing_puts_back_its_own_settings_and_no_others(monkeypatch):
    """The back-end of a notebook switches "interactive" on with the first figure. That has to stay."""
    draw, size = plt.subplots, plt.rcParams["font.size"]

    def subplots(*args, **kwargs):
        plt.rcParams["interactive"] = True
        return draw(*args, **kwargs)

    monkeypatch.setitem(plt.rcParams, "interactive", False)
    monkeypatch.setattr(plt, "subplots", subplots)
    figures.shapes_in_one_head()
    assert plt.rcParams["interactive"] is True
    assert plt.rcParams["font.size"] == size
