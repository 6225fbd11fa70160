"""The unit `causal`: what its text says holds, its reference agrees with others, its tests are fair.

That every misconception is caught and every other style accepted, in the real sandbox, is proved for all
units in tests/autograder/test_units.py.
"""

import numpy as np
import pytest

import minitx.functional as F

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
plainly = pytest.importorskip("plainly")

from minitx import figures  # noqa: E402

UNIT = plainly.Unit("causal")
played, failures = UNIT.played, UNIT.failures


def test_pi0_has_816_tokens_one_state_and_50_actions():
    names = played()
    sizes = [3 * 256 + 48, 1, 50]
    marks = names["block_starts"](sizes)
    assert len(marks) == 867 and np.flatnonzero(marks).tolist() == [0, 816, 817]
    mask = names["block_mask"](marks, np.ones((1, 867), dtype=bool))
    assert mask.sum() == 816 * 816 + 817 + 50 * 867
    assert not mask[0, :816, 816:].any() and mask[0, 817:, 817:].all()


def test_the_first_mark_changes_nothing():
    """openpi's own marks begin with 0 (pi0.py, embed_prefix)."""
    names = played()
    marks = names["block_starts"]([3, 1, 2])
    valid = np.ones((2, 6), dtype=bool)
    other = marks.copy()
    other[0] = 0
    assert np.array_equal(names["block_mask"](marks, valid), names["block_mask"](other, valid))


@pytest.mark.parametrize(("n", "m"), [(5, 5), (1, 5), (3, 7), (4, 4)])
def test_the_decoder_mask_is_that_of_gpt2_of_the_library_and_of_pytorch(n, m):
    mask = played()["decoder_mask"](n, np.ones((2, m), dtype=bool))
    # openai/gpt-2, src/model.py, attention_mask: i >= j - ns + nd
    assert np.array_equal(mask[0, 0], np.arange(n)[:, None] >= np.arange(m) - m + n)
    q, k, v = (np.random.default_rng(n).normal(size=(2, 3, size, 4)) for size in (n, m, m))
    fused = F.attention(q, k, v, causal=True).numpy()
    assert np.allclose(F.attention(q, k, v, mask=mask).numpy(), fused, rtol=0, atol=1e-12)
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
    from torch.nn.attention.bias import causal_lower_right

    bias = causal_lower_right(n, m)
    theirs = torch.nn.functional.scaled_dot_product_attention(*map(torch.tensor, (q, k, v)), attn_mask=bias)
    assert np.allclose(theirs.numpy(), fused, rtol=0, atol=1e-12)


def test_one_query_under_the_usual_mask_gets_the_first_value():
    names = played("demo-usual-mask")
    step, full = names["usual_step"].numpy().ravel(), names["usual_full"].numpy().ravel()
    assert step[0] == 10.0 and abs(full[4] - 10.0) > 1
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
    q, k, v = (torch.tensor(names[name]) for name in ("usual_q", "usual_k", "usual_v"))
    theirs = torch.nn.functional.scaled_dot_product_attention(q[:, :, 4:], k, v, is_causal=True)
    assert theirs.numpy().ravel()[0] == 10.0


def test_the_pictures_of_influence_are_what_the_text_says():
    names = played("demo-usual-mask", "demo-changed", "watch-influence")
    one_piece, pieces, top_left, free = names["probe_tables"]
    triangle = np.tri(6, dtype=bool)
    assert np.array_equal(one_piece, triangle) and np.array_equal(pieces, triangle)
    assert top_left[4].tolist() == [True, False, False, False, True, False]
    assert top_left[5].tolist() == [True, True, False, False, False, True]
    assert free[:4, :4].all() and not free[:4, 4:].any() and free[4:].all()


def test_the_loss_is_that_of_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
    rng = np.random.default_rng(0)
    logits, targets = 30 * rng.normal(size=(3, 7, 150)), rng.integers(0, 150, size=(3, 7))
    targets[1, 2:] = -100
    theirs = torch.nn.functional.cross_entropy(
        torch.tensor(logits).reshape(-1, 150), torch.tensor(targets).ravel()
    )
    assert played()["next_token_loss"](logits, targets) == pytest.approx(theirs.item(), rel=1e-12)


@pytest.mark.parametrize(("words", "loss"), [(65, 4.1744), (50257, 10.8249)])
def test_a_model_that_knows_nothing_loses_the_logarithm_of_its_vocabulary(words, loss):
    flat = np.zeros((1, 1, words))
    assert played()["next_token_loss"](flat, np.array([[3]])) == pytest.approx(loss, abs=5e-5)


def test_the_experiment_shows_what_the_text_says(capsys):
    """With the mask the loss rests on the floor; without it it falls far below, and is worth nothing."""
    names = played("watch-language", "watch-training", "watch-writing", "watch-one-pass")
    floor = names["floor"]
    # Each of 28 sentences costs log 28; 236 targets in all: 12 of 9 words with the end, 12 of 8, 4 of 8.
    assert floor == pytest.approx(28 * np.log(28) / (12 * 9 + 12 * 8 + 4 * 8), rel=1e-12)
    assert floor <= names["curve_with"][-1] < 1.02 * floor
    assert names["curve_without"][-1] < 0.01 * floor
    said = capsys.readouterr().out
    honest = [
        float(line.split("honest loss")[1].split()[0]) for line in said.splitlines() if "honest loss" in line
    ]
    assert honest[0] < 1.02 * floor and honest[1] > 10
    with_mask, without_mask = (line.split("writes: ")[1] for line in said.splitlines() if "writes: " in line)
    assert with_mask.replace("<end>", "").strip() in names["language"]
    assert without_mask.replace("<end>", "").strip() not in names["language"]
    table = [line.split()[-2:] for line in said.split("prefix alone\n")[1].splitlines()[:-1]]
    assert len(table) == 9 and all(float(a) == pytest.approx(float(b), abs=2e-6) for a, b in table)
    assert "9 at once, 45 one prefix after the other" in said


def test_the_figure_of_lessons_says_what_is_read_asked_and_hidden():
    figure = figures.predictions_at_once(["a", "bus", "stops", "here"])
    words = [text.get_text() for text in figure.axes[0].texts]
    assert words == [
        "position 0", "a", "bus?", "position 1", "a", "bus", "stops?", "position 2", "a", "bus", "stops", "here?",
    ]  # fmt: skip
    assert sum(bool(patch.get_hatch()) for patch in figure.axes[0].patches) == 3
    with pytest.raises(ValueError, match="at least 2 tokens, got 1"):
        figures.predictions_at_once(["a"])


def test_the_figure_of_losses_tells_curves_apart_without_colour():
    figure = figures.loss_curves({"one": [3.0, 1.0], "two": [3.0, 0.1, 0.01]}, 0.5, "floor")
    lines = figure.axes[0].lines
    assert len({line.get_linestyle() for line in lines[:2]}) == 2
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["one", "two"]
    assert figure.axes[0].texts[0].get_text() == "floor 0.500"
    with pytest.raises(ValueError, match="up to 4 curves, got 5"):
        figures.loss_curves({str(i): [1.0] for i in range(5)}, 0.5, "floor")
