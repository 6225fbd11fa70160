"""The unit `cost`: what its text says holds, its reference agrees with others, its tests are fair.

That every misconception is caught and every other style accepted, in the real sandbox, is proved for all
units in tests/autograder/test_units.py.
"""

import warnings

import numpy as np
import pytest

import minitx.functional as F
from minitx import kernels

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
plainly = pytest.importorskip("plainly")

from minitx import figures  # noqa: E402

UNIT = plainly.Unit("cost")
played, failures = UNIT.played, UNIT.failures


@pytest.fixture(autouse=True)
def without_compiling():
    kernels.use("numpy")


def test_a_right_answer_that_builds_the_whole_table_fails_the_test_of_memory_alone():
    whole = (
        "def attention_in_blocks(q, k, v, block, causal=False):\n"
        "    n, m = q.shape[2], k.shape[2]\n"
        "    allowed = np.tri(n, m, m - n if causal else m, dtype=bool)\n"
        "    zero = q[..., 0] * 0\n"
        "    mixed = np.zeros((*zero.shape, v.shape[3]), q.dtype)\n"
        "    top, total, mixed = absorb(zero - np.inf, zero, mixed, q, k, v, allowed)\n"
        "    total = np.where(total > 0, total, 1)\n"
        "    return mixed / total[..., None], top + np.log(total)\n"
    )
    failed = failures(played("helper-peak", replaced={"blocks": whole}))
    assert list(failed) == ["memory grows with the block, not with the number of keys"]


def test_the_reference_warns_about_nothing():
    names = played("helper-peak")
    q, k, v = np.ones((1, 1, 4, 3)), np.full((1, 1, 2, 3), 1e4), np.ones((1, 1, 2, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        output, log_sum = names["attention_in_blocks"](q, k, v, 1, causal=True)
    assert not output[0, 0, :2].any() and np.isneginf(log_sum[0, 0, :2]).all()
    assert np.isfinite(log_sum[0, 0, 2:]).all()


@pytest.mark.parametrize(("n", "m", "causal"), [(5, 5, True), (3, 7, True), (4, 9, False), (1, 7, True)])
def test_attention_in_blocks_is_the_librarys_fused_attention(n, m, causal):
    rng = np.random.default_rng(n)
    q, k, v = (30 * rng.normal(size=(2, 3, size, 4)) for size in (n, m, m))
    output, _ = played("helper-peak")["attention_in_blocks"](q, k, v, 3, causal=causal)
    fused = F.attention(q, k, v, causal=causal).numpy()
    assert np.allclose(output, fused, rtol=0, atol=1e-12 * np.abs(v).max())


def test_the_log_sum_is_that_of_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
    q, k, v = np.random.default_rng(1).normal(size=(3, 2, 3, 6, 8))
    output, log_sum = played("helper-peak")["attention_in_blocks"](q, k, v, 4)
    scores = torch.tensor(q) @ torch.tensor(k).transpose(-1, -2) / 8**0.5
    assert np.allclose(log_sum, torch.logsumexp(scores, dim=-1).numpy(), rtol=0, atol=1e-13)
    theirs = torch.nn.functional.scaled_dot_product_attention(*map(torch.tensor, (q, k, v)))
    assert np.allclose(output, theirs.numpy(), rtol=0, atol=1e-13)


def test_merging_is_pytorchs_pixel_unshuffle_with_the_features_last():
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
    image = np.random.default_rng(2).normal(size=(2, 6, 9, 4))
    ours = played("helper-peak")["merge_patches"](image.reshape(2, 54, 4), 6, 9, 3)
    theirs = torch.nn.functional.pixel_unshuffle(torch.tensor(image).permute(0, 3, 1, 2), 3)
    theirs = theirs.reshape(2, 4, 9, 2, 3).permute(0, 3, 4, 2, 1).reshape(2, 6, 36)
    assert np.array_equal(ours, theirs.numpy())


def test_an_image_of_320_by_576_is_180_tokens_and_16_of_them_are_2880():
    """NVlabs/alpamayo: patches of 16 pixels, joined two by two; four cameras with four frames each."""
    patches = np.zeros((16, (320 // 16) * (576 // 16), 3))
    merged = played("helper-peak")["merge_patches"](patches, 20, 36, 2)
    assert patches.shape[:2] == (16, 720) and merged.shape == (16, 180, 12)
    assert merged.shape[0] * merged.shape[1] == 2880


def test_the_numbers_about_cameras_are_those_of_the_text(capsys):
    names = played("helper-peak", "watch-cameras", "watch-car")
    said = capsys.readouterr().out
    assert "4 cameras: 2,880 tokens,   265,420,800 scores in a layer,    531 MB" in said
    assert names["bytes_per_token"] == 147_456
    assert "2,880 image tokens, cache   405 MiB" in said
    assert "11,520 image tokens, cache 1,620 MiB" in said


def test_break_even_and_shares_are_those_of_the_text(capsys):
    names = played("helper-peak", "watch-layer", "demo-doubling")
    assert names["break_even"](512, 2048) == 3072 and names["break_even"](4096, 12_288) == 20_480
    said = capsys.readouterr().out
    assert "50 words: attention is   1.6%" in said and " 3,072 words: attention is  50.0%" in said
    ratios = [float(line.split()[-1]) for line in said.splitlines() if "doubled" in line]
    assert ratios == [2.07, 2.25, 3.00, 3.81]


def test_the_paper_s_own_comparison_breaks_even_at_the_width():
    """Vaswani et al. 2017, section 4 and table 1: n^2 d of self-attention against n d^2 of recurrence."""
    costs = played("helper-peak")["attention_cost"]
    scores = [costs(1, 8, n, n, 64, 0, 4)["multiply_adds"] for n in (511, 512, 513)]
    assert [np.sign(score - n * 512**2) for score, n in zip(scores, (511, 512, 513), strict=True)] == [
        -1,
        0,
        1,
    ]


def test_the_average_of_halves_is_wrong_and_the_log_sums_mend_it(capsys):
    names = played("helper-peak", "demo-halves", "watch-halves")
    right, first, second = names["half_right"], names["half_one"], names["half_two"]
    assert np.abs((first + second) / 2 - right).max() > 0.1
    assert np.abs(names["half_joined"] - right).max() < 1e-14


def test_measured_memory_has_the_slopes_that_the_text_says(capsys):
    names = played("helper-peak", "demo-halves", "watch-memory")
    lengths = np.log(names["memory_lengths"])
    slopes = {
        name: np.polyfit(lengths[1:], np.log(names[name][1:]), 1)[0]
        for name in ("table_predicted", "table_measured", "block_measured")
    }
    assert slopes["table_predicted"] == pytest.approx(2)
    assert slopes["table_measured"] == pytest.approx(2, abs=0.15)
    assert slopes["block_measured"] == pytest.approx(1, abs=0.15)
    assert all(
        one > other for one, other in zip(names["table_measured"], names["table_predicted"], strict=True)
    )
    assert all(float(line.split()[-1]) < 1e-6 for line in capsys.readouterr().out.splitlines()[1:])


def test_the_figure_of_tables_says_how_many_scores():
    figure = figures.score_tables((2, 4))
    assert [text.get_text() for text in figure.axes[0].texts] == ["2 tokens\n4 scores", "4 tokens\n16 scores"]


def test_the_figure_of_growth_tells_curves_apart_without_colour_and_refuses_what_does_not_fit():
    figure = figures.growth([1, 2], {"a": [1, 2], "b": [1, 4]}, points={"c": [1, 3]}, unit="bytes")
    lines = figure.axes[0].lines
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines}) == 3
    with pytest.raises(ValueError, match="a: 3 values were given for 2 lengths"):
        figures.growth([1, 2], {"a": [1, 2, 3]}, unit="bytes")
    with pytest.raises(ValueError, match="up to 4 curves, got 5"):
        figures.growth([1], {str(i): [1] for i in range(5)}, unit="bytes")


def test_the_figure_of_blocks_names_every_block_and_the_figure_of_merging_every_patch():
    words = [text.get_text() for text in figures.blocks_of_keys(4, 10, 4).axes[0].texts]
    assert [word for word in words if word.startswith("keys")] == [
        "keys 0 to 3",
        "keys 4 to 7",
        "keys 8 to 9",
    ]
    assert words.count("top\ntotal\nmixed") == 3
    words = [text.get_text() for text in figures.merged_grid(4, 6, 2).axes[0].texts]
    first = words.index("token 0")
    assert words[first + 1 : first + 5] == ["0", "1", "6", "7"]
    assert all(words.count(str(patch)) == 2 for patch in range(24))


def test_the_figure_of_bars_shows_its_numbers():
    figure = figures.before_and_after(["x"], [4.0], [3.5])
    assert [text.get_text() for text in figure.axes[0].texts] == [" 4.0", " 3.5"]
