"""The unit `gpt`: what its text says holds, its reference agrees with others, its tests are fair.

That every misconception is caught and every other style accepted, in the real sandbox, is proved for all
units in tests/autograder/test_units.py.
"""

import contextlib
import io
import itertools
import warnings

import numpy as np
import pytest

import minitx
from minitx import checkpoints, models, nn, no_grad, sampling
from minitx.course import inside
from minitx.driving import scene, weights
from minitx.driving.claims import recognise, sentences_of
from minitx.driving.features import observe
from minitx.errors import CheckpointError

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
plainly = pytest.importorskip("plainly")

from minitx import figures  # noqa: E402

UNIT = plainly.Unit("gpt")
played, failures = UNIT.played, UNIT.failures


@pytest.fixture(scope="module")
def trained():
    """The notebook's names after its training, and what it printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        names = played(
            "watch-texts", "watch-pairs", "watch-training", "watch-same", "watch-writing", "watch-rows",
            "watch-attention", "watch-change",
        )  # fmt: skip
    plt.close("all")
    return names, said.getvalue()


def lively(config, seed=0):
    """A float64 GPT with random weights and biases of ordinary size."""
    model, rng = models.GPT(config, rng=seed), np.random.default_rng(seed)
    model.astype(np.float64)
    for parameter in model.parameters():
        parameter.array_to_update()[...] = rng.normal(size=parameter.shape)
    return model.eval()


def bridged():
    """The notebook's names with the functions that need a model of minitx, nothing trained."""
    untrained = UNIT.source("watch-training").split("\n\ntrained_gpt, train_losses")[0]
    few = UNIT.source("watch-texts").replace("range(1600)", "range(8)")
    shorter = {"watch-texts": few, "watch-training": untrained}
    return played("watch-texts", "watch-training", "watch-bridge", replaced=shorter)


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_the_whole_gpt_is_the_librarys(positions):
    names = bridged()
    model = lively(models.GPTConfig(23, 12, n_layers=3, n_heads=4, d_model=24, positions=positions))
    ids = np.random.default_rng(1).integers(0, 23, size=(2, 9))
    turns = None
    if positions == "rotary":
        units = np.tile(np.eye(6), (9, 1, 1, 1))
        turns = nn.RotaryPositions(6).rotate(minitx.Tensor(units), np.arange(9)[:, None].repeat(6, 1))
        turns = turns.numpy()[:, 0]
        # The context is longer than these ids.
        assert np.array_equal(inside.turns_of(model)[:9], turns) and inside.turns_of(model).shape == (
            12,
            6,
            6,
        )
    w = inside.weights_of(model)
    ours = names["logits_of"](names["embed"](ids, w), w, 4, turns)
    with no_grad():
        theirs = model(ids).numpy()
    assert np.allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_attend_is_pytorchs_with_the_corners_at_the_lower_right():
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
    from torch.nn.attention.bias import causal_lower_right

    rng = np.random.default_rng(0)
    for n, m in ((5, 5), (2, 7), (1, 4)):
        q, k, v = (rng.normal(size=(2, 3, size, 4)) for size in (n, m, m))
        theirs = torch.nn.functional.scaled_dot_product_attention(
            *map(torch.tensor, (q, k, v)), attn_mask=causal_lower_right(n, m)
        )
        assert np.allclose(played()["attend"](q, k, v), theirs.numpy(), rtol=0, atol=1e-12)


def test_loss_and_gradient_are_those_of_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
    rng = np.random.default_rng(0)
    logits, ids = 20 * rng.normal(size=(3, 7, 40)), rng.integers(0, 40, size=(3, 7))
    ids[1, 3:], ids[2, 5:] = 8, 8
    given = torch.tensor(logits, requires_grad=True)
    theirs = torch.nn.functional.cross_entropy(
        given[:, :-1].reshape(-1, 40), torch.tensor(ids[:, 1:]).ravel(), ignore_index=8
    )
    theirs.backward()
    loss, gradient = played()["loss_and_gradient"](logits, ids, 8)
    assert loss == pytest.approx(theirs.item(), rel=1e-12)
    assert np.allclose(gradient, given.grad.numpy(), rtol=0, atol=1e-14)


def test_a_perfect_guess_loses_nothing_and_a_double_softmax_does():
    """The floor of a double softmax is log(1 + (V - 1) / e): 1.5430 for 11 words."""
    ids = np.random.default_rng(0).integers(0, 11, size=(2, 6))
    perfect = np.zeros((2, 6, 11))
    perfect[:, :-1] = 1e4 * np.eye(11)[ids[:, 1:]]
    assert played()["loss_and_gradient"](perfect, ids, -1)[0] == 0.0
    twice = next(known for known in UNIT.spec.misconceptions if known.name == "softmax-twice")
    names = played(replaced={"loss": twice.code})
    assert names["loss_and_gradient"](perfect, ids, -1)[0] == pytest.approx(1.5430, abs=5e-5)


@pytest.mark.parametrize("words", [11, 162, 37_000])
def test_the_lowest_smoothed_loss_is_that_of_pytorch(words):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
    lowest, gap = played("watch-smoothing")["best_with_smoothing"](words)

    def loss_at(height):
        scores = torch.zeros(1, words, dtype=torch.float64)
        scores[0, 3] = height
        return torch.nn.functional.cross_entropy(scores, torch.tensor([3]), label_smoothing=0.1).item()

    assert loss_at(gap) == pytest.approx(lowest, rel=1e-12)
    assert loss_at(gap - 0.01) > lowest and loss_at(gap + 0.01) > lowest


@pytest.mark.parametrize(
    ("layers", "width", "count"),
    [(12, 768, 124_439_808), (24, 1024, 354_823_168), (36, 1280, 774_030_080), (48, 1600, 1_557_611_200)],
)
def test_parameters_of_the_published_gpt2s(layers, width, count):
    assert played()["gpt_parameters"](50257, 1024, layers, width, 4 * width) == count


def test_the_head_that_is_not_tied_and_the_count_of_a_real_model():
    count = played()["gpt_parameters"]
    assert count(50257, 1024, 12, 768, 3072, tied=False) == 163_037_184
    config = models.GPTConfig(50, 12, n_layers=3, n_heads=4, d_model=16, d_ff=40)
    assert count(50, 12, 3, 16, 40) == models.GPT(config, rng=0).n_parameters()


def test_weights_start_as_the_librarys_do():
    names = bridged()
    config = models.GPTConfig(400, 300, n_layers=5, n_heads=4, d_model=96)
    around, blocks = inside.parameters_of(models.GPT(config, rng=0))
    for named in (around, blocks[2]):
        for name, parameter in named.items():
            told, spread = names["initial_deviation"](name, 5), float(parameter.numpy().std())
            assert spread == pytest.approx(told, rel=0.05, abs=1e-9), name


def test_the_papers_schedule_has_its_known_numbers(capsys):
    names = played("watch-schedules")
    plt.close("all")
    said = capsys.readouterr().out
    for number in ("1.7469281e-07", "1.7469281e-05", "6.9877124e-04", "1.3975425e-04"):
        assert number in said
    assert names["paper_rate"](16_000) == pytest.approx(names["paper_rate"](4000) / 2, rel=1e-12)
    assert names["paper_rate"](64_000) == pytest.approx(names["paper_rate"](4000) / 4, rel=1e-12)


def test_the_schedule_is_that_of_nanogpt():
    """karpathy/nanoGPT train.py: 6e-4 to 6e-5, which counts its steps from 0."""
    rate = played()["learning_rate"]
    for step in (2000, 2001, 50_000, 299_999, 600_000):
        share = (step - 2000) / (600_000 - 2000)
        theirs = 6e-5 + 0.5 * (1.0 + np.cos(np.pi * share)) * (6e-4 - 6e-5)
        assert rate(step, 6e-4, 2000, 600_000, 6e-5) == pytest.approx(theirs, rel=1e-12)
    assert rate(10**9, 6e-4, 2000, 600_000, 6e-5) == pytest.approx(6e-5, rel=1e-12)


def test_chances_and_pick_are_the_librarys():
    names, rng = played(), np.random.default_rng(0)
    for _ in range(60):
        logits = rng.normal(size=30) * rng.choice([1.0, 5.0, 300.0])
        settings = {
            "temperature": float(rng.choice([0.0, 0.3, 1.0, 1.7])),
            "top_k": int(rng.choice([0, 1, 5, 30, 99])),
            "top_p": float(rng.choice([0.05, 0.5, 0.93, 1.0])),
        }
        ours = names["chances"](logits, **settings)
        assert np.allclose(ours, sampling.probabilities(logits, **settings), rtol=0, atol=1e-12), settings
        seed = int(rng.integers(1000))
        theirs = sampling.sample(logits[None], **settings, rng=np.random.default_rng(seed))[0]
        assert names["pick"](ours, np.random.default_rng(seed).random()) == theirs


def test_draws_come_as_often_as_their_chances():
    p = np.array([0.1, 0.0, 0.6, 0.3])
    drawn = np.bincount([played()["pick"](p, u) for u in np.random.default_rng(0).random(300)], minlength=4)
    assert drawn[1] == 0 and np.allclose(drawn / 300, p, atol=0.08)


def test_openais_own_nucleus_keeps_one_word_too_few():
    released = played("demo-nucleus")["released_top_p"]
    p = np.array([0.4, 0.3, 0.2, 0.1])
    assert np.flatnonzero(released(p, 0.8)).tolist() == [0, 1]
    ours = played()["chances"](np.log(p), top_p=0.8)
    assert np.flatnonzero(ours).tolist() == [0, 1, 2] and ours.sum() == pytest.approx(1)


def test_the_reference_warns_about_nothing():
    names = played()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        names["chances"](np.array([1e4, -1e4, 0.0]), temperature=0.01, top_k=2, top_p=0.5)
        names["chances"](np.array([1.0, 2.0]), temperature=0)
        logits = np.array([[[1e5, -1e5], [0.0, 1e5], [3.0, 3.0]]])
        names["loss_and_gradient"](logits, np.array([[0, 1, 0]]), 0)


def test_with_a_smaller_start_the_stream_does_not_depend_on_the_depth(capsys):
    played("watch-start")
    plt.close("all")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    plain, yours = ([float(row[place]) for row in rows] for place in (4, -1))
    assert plain[2] > 1.9 * plain[0]
    assert max(yours) < 1.1 * min(yours)


def test_training_starts_at_log_v_and_ends_between_the_pairs_and_zero(trained):
    names, said = trained
    assert names["train_losses"][0] == pytest.approx(np.log(162), abs=0.1)
    last = list(names["test_losses"].values())[-1]
    assert 0.2 < last < 0.5 * names["pair_loss"]
    assert abs(last - np.mean(names["train_losses"][-10:])) < 0.1
    assert names["logit_gap"] < 1e-4 and "parameters: 114,560; by your formula 114,560" in said


def test_the_loss_of_the_pairs_is_that_of_counting_them(trained):
    names, _ = trained
    train, new, pad = names["train_ids"], names["new_ids"], names["pad_id"]
    counts = np.full((162, 162), 0.01)
    for row in train:
        for before, after in itertools.pairwise(row):
            counts[before, after] += after != pad
    chances = counts / counts.sum(axis=1, keepdims=True)
    losses = [
        -np.log(chances[before, after])
        for row in new
        for before, after in itertools.pairwise(row)
        if after != pad
    ]
    assert names["pair_loss"] == pytest.approx(np.mean(losses), rel=1e-9)


def test_the_guess_follows_the_number_of_the_lane(trained):
    _, said = trained
    lanes = [line for line in said.splitlines() if line.startswith("lane ")]
    of_no = [float(line.split('p("no") = ')[1].split()[0]) for line in lanes]
    assert len(of_no) == 3 and of_no[0] > 0.8 and max(of_no[1:]) < 0.1


def test_what_it_writes_has_the_form_of_a_text_and_the_rows_are_counted(trained):
    names, said = trained
    cold = next(line for line in said.splitlines() if line.startswith("{'temperature': 0.0}"))
    assert all(recognise(sentence)[0] for sentence in sentences_of(cold.split("-> ")[1]))
    p, g, rows = names["tokens_given"], names["tokens_made"], names["counted_rows"]
    assert rows == sum(p + step for step in range(g)) == g * p + g * (g - 1) // 2
    assert f"{g * (g + 1) // 2}" in said and rows != g * (g + 1) // 2


def test_the_identity_for_values_gives_the_weights_of_the_library(trained):
    names, _ = trained
    ids = names["new_ids"][3][:30]
    ours = names["weights_of_heads"](ids, names["my_gpt"], 4)
    theirs = np.stack([one[0] for one in names["trained_gpt"].attention_weights(ids[None])])
    assert np.allclose(ours, theirs, atol=1e-5)
    assert names["best_layer"] == 0 and names["lane_share"].max() > 0.15


def test_the_driving_model_reasons_the_same_in_the_students_code():
    try:
        reasoner = weights.load_driver().reasoner
    except CheckpointError as missing:
        pytest.skip(f"driving: {missing}")
    names, seen = bridged(), observe(scene.generate([14]))
    text, gap = names["your_driver_writes"](reasoner, seen)
    assert text == reasoner.reason(seen)[0][0] and gap < 1e-3
    # Without the last norm the text is the same by luck: the logits tell.
    for wrong in ("values-turned", "no-last-norm", "one-block-again", "turn-not-passed"):
        known = next(known for known in UNIT.spec.misconceptions if known.name == wrong)
        names = bridged()
        exec(known.code, names)
        assert names["your_driver_writes"](reasoner, seen)[1] > 0.1, wrong


def test_with_the_students_choice_a_model_writes_what_the_library_writes():
    names = bridged()
    config = models.LlamaConfig(60, 40, n_layers=2, n_heads=6, n_kv_heads=2, d_model=48, d_ff=64)
    model, settings = models.Llama(config, rng=5), {"temperature": 1.5, "top_k": 30, "top_p": 0.8}
    note = inside.Comparison("llama")
    theirs = minitx.generate(model, [5, 9, 2], 20, seed=7, **settings)
    assert names["you_choose"](model, [5, 9, 2], 20, 7, note, **settings) == theirs
    assert note.calls == 2 * 20 and not note.difference
    dropped = next(known for known in UNIT.spec.misconceptions if known.name == "crossing-word-dropped")
    exec(dropped.code, names)
    assert names["you_choose"](model, [5, 9, 2], 20, 7, note, **settings) != theirs


def test_models_that_are_not_installed_are_left_out_kindly(capsys, monkeypatch):
    def missing(*_):
        raise CheckpointError("It is not here. Install it: so.")

    monkeypatch.setattr(weights, "load_driver", missing)
    monkeypatch.setattr(checkpoints, "load", missing)
    names = bridged()
    exec(UNIT.source("watch-inside"), names)
    said = capsys.readouterr().out
    assert "driving: left out. It is not here. Install it: so." in said
    assert "smollm2: left out. It is not here. Install it: so." in said


def test_the_figures_say_what_they_show_and_refuse_what_does_not_fit():
    words = [text.get_text() for text in figures.parts_of_a_gpt().axes[0].texts]
    assert words.count("table of\nwords") == 2 and "the same numbers, used twice" in words
    lines = figures.learning_rates([1, 2], {"a": [1, 2], "b": [2, 1]}).axes[0].lines
    assert len({line.get_linestyle() for line in lines}) == 2
    ax = figures.training_curves({"a": ([1, 2], [3.0, 1.0])}, {"nothing": 3.0}).axes[0]
    assert [text.get_text() for text in ax.texts] == ["nothing 3.00"]
    for draw in (lambda c: figures.learning_rates([1], c), lambda c: figures.training_curves(c, {})):
        with pytest.raises(ValueError, match="draws 1 to 3 curves, got 4"):
            draw({str(i): [1.0] for i in range(4)})
    figure = figures.attention_rows(np.eye(2, 30), ["a", "b"], [str(i) for i in range(30)])
    assert figure.get_figwidth() <= 11 and len(figure.axes[0].get_xticklabels()) == 30
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["a", "b"]
    ax = figures.chances_side_by_side(["x", "y"], {"T": [1.0, 0.0]}).axes[0]
    assert [text.get_text() for text in ax.texts] == ["1.00", "cut"]
    with pytest.raises(ValueError, match=r"'T': expected 2 probabilities, got shape \(3,\)"):
        figures.chances_side_by_side(["x", "y"], {"T": [1.0, 0.0, 0.0]})
