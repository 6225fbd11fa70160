"""The encoder, the driver made of three models, and their training: on small models with random weights."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import minitx
from minitx import DtypeError, Tensor, training
from minitx.cli.app import app
from minitx.driving import driver as driving
from minitx.driving import features, reasoning, scene, train, vocabulary, weights
from minitx.driving.driver import Driver, DriverConfig
from minitx.errors import CheckpointError
from minitx.models.encoder import PolylineEncoder, SceneEncoder
from minitx.models.expert import ActionExpert, ActionExpertConfig

SMALL = DriverConfig(
    d_model=16,
    n_layers=2,
    n_heads=2,
    encoder_layers=1,
    encoder_hidden=8,
    expert_d_model=12,
    expert_heads=2,
    expert_d_ff=16,
)


@pytest.fixture(scope="module")
def scenes():
    return scene.generate(range(600, 606))


@pytest.fixture
def small():
    """Weights larger than a fresh model's, so that what is said depends on what is seen."""
    made = Driver(SMALL, rng=0).eval()
    rng = np.random.default_rng(1)
    for parameter in made.reasoner.parameters():
        parameter.array_to_update()[...] += 0.2 * rng.standard_normal(parameter.shape)
    return made


# Polylines.


@pytest.fixture
def polylines(rng):
    x = rng.standard_normal((2, 5, 6, 3))
    real = np.arange(6) < np.array([[6, 1, 4, 3, 0], [2, 6, 5, 1, 6]])[:, :, None]
    return PolylineEncoder(3, 7, 10, rng=0).astype(np.float64), x, real


def test_a_polyline_encoder_is_what_its_formula_says(polylines):
    encoder, x, real = polylines
    w = {name: p.numpy() for name, p in encoder.named_parameters()}
    w["joined.weight"] = np.concatenate([w["joined.weight"], w["joined_whole.weight"]], axis=1)

    def linear(name, y):
        return y @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    found = encoder(x, real).numpy()
    for b, p in np.ndindex(2, 5):
        points = x[b, p, real[b, p]]
        if not len(points):
            np.testing.assert_array_equal(found[b, p], 0)
            continue
        points = np.maximum(linear("more", np.maximum(linear("points", points), 0)), 0)
        both = np.concatenate([points, np.repeat(points.max(0, keepdims=True), len(points), 0)], axis=1)
        np.testing.assert_allclose(
            found[b, p], linear("out", np.maximum(linear("joined", both), 0).max(0)), atol=1e-12
        )


def test_the_order_of_points_and_garbage_in_padding_do_not_matter(polylines, rng):
    encoder, x, real = polylines
    expected = encoder(x, real).numpy()
    order = rng.permutation(6)
    np.testing.assert_allclose(encoder(x[:, :, order], real[:, :, order]).numpy(), expected, atol=1e-12)
    x[~real] = 1e9
    np.testing.assert_array_equal(encoder(x, real).numpy(), expected)
    x[~real] = -1e9
    np.testing.assert_array_equal(encoder(x, real).numpy(), expected)


def test_every_real_point_can_matter_and_gradients_are_right(polylines, rng):
    encoder, x, real = polylines
    minitx.check_gradients(lambda y: encoder(y, real), x)
    inputs = Tensor(x, requires_grad=True)
    encoder(inputs, real).sum().backward()
    assert not inputs.grad[~real].any()


def test_polylines_of_a_wrong_shape_are_refused(polylines):
    encoder, x, real = polylines
    with pytest.raises(ValueError, match=r"x must have shape \(B, P, n, features = 3\)"):
        encoder(x[..., :2], real)
    with pytest.raises(ValueError, match="real must have shape"):
        encoder(x, real[:, :, :-1])
    with pytest.raises(DtypeError, match="real must be boolean"):
        encoder(x, real.astype(float))


def test_a_scene_encoder_treats_agents_and_lines_as_sets(rng):
    encoder = SceneEncoder(4, 3, 12, 2, 3, 9, rng=0).astype(np.float64)
    agents, lines = rng.standard_normal((2, 4, 5, 4)), rng.standard_normal((2, 6, 7, 3))
    agents_real = np.ones((2, 4, 5), bool)
    lines_real = np.ones((2, 6, 7), bool)
    agents_real[1, 3], lines_real[0, 4:] = False, False
    tokens, real = encoder(agents, agents_real, lines, lines_real)
    assert tokens.shape == (2, 10, 12)
    np.testing.assert_array_equal(real.sum(axis=1), [8, 9])
    one, two = rng.permutation(4), rng.permutation(6)
    turned, turned_real = encoder(agents[:, one], agents_real[:, one], lines[:, two], lines_real[:, two])
    order = np.concatenate([one, 4 + two])
    np.testing.assert_array_equal(turned_real, real[:, order])
    np.testing.assert_allclose(turned.numpy()[turned_real], tokens.numpy()[:, order][turned_real], atol=1e-12)
    more = np.concatenate([lines, np.full((2, 3, 7, 3), 1e6)], axis=1)
    more_real = np.concatenate([lines_real, np.zeros((2, 3, 7), bool)], axis=1)
    padded, padded_real = encoder(agents, agents_real, more, more_real)
    np.testing.assert_allclose(padded.numpy()[padded_real], tokens.numpy()[real], atol=1e-12)
    alone = encoder(agents[:1], agents_real[:1], lines[:1, :4], lines_real[:1, :4])[0].numpy()
    np.testing.assert_allclose(alone[0], tokens.numpy()[0, :8], atol=1e-12)


# The driver.


def test_packing_moves_real_tokens_to_the_front(rng):
    x = rng.standard_normal((2, 5, 3))
    real = np.array([[1, 0, 1, 1, 0], [0, 0, 1, 0, 0]], bool)
    found = driving.packed(Tensor(x), real, real.sum(axis=1)).numpy()
    assert found.shape == (2, 3, 3)
    np.testing.assert_array_equal(found[0], x[0, [0, 2, 3]])
    np.testing.assert_array_equal(found[1, 0], x[1, 2])


def test_training_and_driving_see_the_same(small, scenes, backend):
    """One padded pass, and one scene at a time token by token through the cache: the same logits and cache."""
    seen, texts = features.observe(scenes), reasoning.write(scenes)
    ids, counts = driving.batch_of(texts)
    assert len(set(counts)) > 1
    with minitx.no_grad():
        logits, recorded = small.reasoner.read(seen, ids, counts)
        for b in range(len(scenes)):
            row = slice(b, b + 1)
            prefix, lengths = small.reasoner.prefix(seen[row])
            cache = small.reasoner.gpt.new_cache(1, capacity=192)
            small.reasoner.gpt.forward_embeddings(prefix, cache=cache)
            for i in range(counts[b]):
                one = small.reasoner.gpt(ids[row, i : i + 1], cache=cache).numpy()[0, 0]
                np.testing.assert_allclose(one, logits.numpy()[b, i], atol=2e-4, err_msg=f"row {b} token {i}")
            assert cache.length == recorded.lengths[b] == lengths[0] + counts[b]
            for layer, (k, v) in enumerate(recorded.held):
                for held, kept in ((k, cache.keys), (v, cache.values)):
                    found = held.numpy()[b, :, recorded.real[b]].swapaxes(0, 1)
                    np.testing.assert_allclose(found, kept[layer, 0, :, : cache.length], atol=2e-4)


def test_scenes_together_are_driven_as_each_alone(small, scenes):
    seen = features.observe(scenes)
    texts, actions = small.drive(seen)
    assert actions.shape == (6, 64, 2) and actions.dtype == np.float64
    assert len(set(texts)) > 1
    for b in range(len(scenes)):
        text, alone = small.drive(seen[b : b + 1])
        assert text == texts[b : b + 1]
        np.testing.assert_allclose(alone[0], actions[b], atol=1e-4)


def test_reciting_the_own_text_drives_the_same_and_another_text_does_not(small, scenes):
    """The expert reads what was said: that is what the cache is for."""
    seen, texts = features.observe(scenes), reasoning.write(scenes)
    path = small.act(small.reasoner.recite(seen, texts))
    other = small.act(small.reasoner.recite(seen, ["left lane free."] * 6))
    assert np.abs(path - other).max() > 1e-4
    for b, text in enumerate(texts):
        one = small.act(small.reasoner.recite(seen[b : b + 1], [text]))
        np.testing.assert_allclose(one[0], path[b], atol=1e-4)


def test_a_text_that_never_ends_is_cut(small, scenes, monkeypatch):
    plain = type(small.reasoner.gpt).logits

    def endless(self, hidden):
        found = plain(self, hidden)
        never = np.zeros(found.shape, np.float32)
        never[..., vocabulary.END_ID] = -1e9
        return found + never

    monkeypatch.setattr(type(small.reasoner.gpt), "logits", endless)
    texts, cache = small.reasoner.reason(features.observe(scenes))
    assert all(len(vocabulary.encode(text)) <= driving.LONGEST_TEXT for text in texts if "<" not in text)
    assert cache.length <= driving.CONTEXT


def test_a_text_that_is_too_long_or_unknown_is_refused():
    with pytest.raises(ValueError, match="at most 64 tokens, got 82"):
        driving.batch_of(["left lane free. " * 20])
    with pytest.raises(ValueError, match="'wall' is none of the 159 words"):
        driving.batch_of(["wall ahead."])


# Noise.


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_the_noise_has_deviation_one_and_the_correlation_asked_for(correlation):
    sizes = {
        "n_layers": 1,
        "n_heads": 1,
        "n_kv_heads": 1,
        "head_dim": 2,
        "d_model": 4,
        "d_ff": 4,
        "waypoints": 6,
    }
    noise = ActionExpert(ActionExpertConfig(**sizes, noise_correlation=correlation), rng=0).noise(40000, 3)
    assert noise.dtype == np.float32
    np.testing.assert_allclose(noise.std(axis=0), 1, atol=0.02)
    lags = [np.corrcoef(noise[:, 0, 0], noise[:, k, 0])[0, 1] for k in range(6)]
    np.testing.assert_allclose(lags, correlation ** np.arange(6), atol=0.03)
    assert abs(np.corrcoef(noise[:, 2, 0], noise[:, 2, 1])[0, 1]) < 0.03
    with pytest.raises(ValueError, match="noise_correlation must lie in"):
        ActionExpertConfig(**sizes, noise_correlation=1.0)


# Training.


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(train, "DriverConfig", lambda: SMALL)
    monkeypatch.setattr(train, "VALIDATION_SEEDS", range(900_000_000, 900_000_004))
    return tmp_path / "run"


GIVEN = {"steps": 4, "batch": 3, "evaluate_every": 2, "warmup": 1}


def test_batches_are_a_function_of_the_step_and_no_scene_comes_twice():
    step = train.training_batch(5, 6)
    again = train.training_batch(5, 6)
    np.testing.assert_array_equal(step.ids, again.ids)
    np.testing.assert_array_equal(step.seen.agents, again.seen.agents)
    alone = train.batch_from(range(train.FIRST_TRAINING_SEED + 24, train.FIRST_TRAINING_SEED + 30))
    np.testing.assert_array_equal(step.ids, alone.ids)
    np.testing.assert_array_equal(step.actions, alone.actions)
    over = train.training_batch(43, 6)  # from 252 to 258: over the edge of a chunk
    direct = train.batch_from(range(train.FIRST_TRAINING_SEED + 252, train.FIRST_TRAINING_SEED + 258))
    np.testing.assert_array_equal(over.ids, direct.ids)
    assert train.VALIDATION_SEEDS.stop < train.FIRST_TRAINING_SEED


def test_the_words_teach_encoder_and_gpt_and_the_path_the_expert_alone(small):
    batch = train.training_batch(1, 3)
    small.train()
    for part, reached, spared in (
        (0, small.reasoner, small.expert),
        (1, small.expert, small.reasoner),
    ):
        small.zero_grad()
        train.losses(small, batch)[part].backward()
        assert all(p.grad is not None and np.isfinite(p.grad).all() for p in reached.parameters())
        assert all(p.grad is None for p in spared.parameters())


def test_padding_is_no_part_of_the_loss(small):
    batch = train.training_batch(1, 3)
    words = [train.losses(small, batch[i : i + 1])[0].item() * (batch.counts[i] - 1) for i in range(3)]
    together = train.losses(small, batch)[0].item()
    assert together == pytest.approx(sum(words) / (batch.counts - 1).sum(), rel=1e-5)


def test_a_resumed_training_is_the_uninterrupted_one_bit_for_bit(folder):
    whole = train.DrivingTraining.begin(folder / "whole", GIVEN)
    training.fit(whole.trainer, whole.batch, evaluation=whole.evaluation, save=whole.save)
    first = train.DrivingTraining.begin(folder / "parts", GIVEN)
    asked = iter([False, False, False, True])
    assert not training.fit(
        first.trainer, first.batch, evaluation=first.evaluation, save=first.save, stop=lambda: next(asked)
    )
    second = train.DrivingTraining.resume(folder / "parts")
    assert second.trainer.step == 3
    training.fit(second.trainer, second.batch, evaluation=second.evaluation, save=second.save)
    assert second.trainer.train_losses == whole.trainer.train_losses
    assert second.trainer.validation_losses == whole.trainer.validation_losses
    for name, array in whole.model.state_dict().items():
        np.testing.assert_array_equal(array, second.model.state_dict()[name], err_msg=name)
    assert (folder / "parts" / "loss.png").stat().st_size > 1000


def test_training_learns(folder):
    settings = {"steps": 40, "batch": 8, "evaluate_every": 40, "peak": 1e-2, "floor": 1e-3, "warmup": 5}
    run = train.DrivingTraining.begin(folder, settings)
    held_out = train.batch_from(range(8))
    before = [loss.item() for loss in train.losses(run.model, held_out)]
    training.fit(run.trainer, run.batch)
    after = [loss.item() for loss in train.losses(run.model, held_out)]
    assert before[0] == pytest.approx(np.log(vocabulary.TOKENIZER.vocab_size), abs=0.3)
    assert after[0] < before[0] - 1.5 and after[1] < before[1]


def test_a_folder_with_a_training_is_not_overwritten_and_another_is_not_resumed(folder):
    run = train.DrivingTraining.begin(folder, GIVEN)
    run.save(run.trainer)
    with pytest.raises(ValueError, match="holds a training at step 0"):
        train.DrivingTraining.begin(folder, GIVEN)
    train.DrivingTraining.begin(folder, GIVEN, overwrite=True)
    with pytest.raises(ValueError, match="steps was 4, now 5"):
        train.DrivingTraining.resume(folder, {"steps": 5})
    with pytest.raises(ValueError, match="holds no training to resume"):
        train.DrivingTraining.resume(folder / "none")
    with pytest.raises(ValueError, match="has no setting dropout"):
        train.DrivingTraining.begin(folder / "other", {"dropout": 0.1})


def test_the_commands_train_resume_and_drive(folder):
    def run(*arguments):
        return CliRunner().invoke(app, [*map(str, arguments)])

    settings = ["--steps", 2, "--batch", 2, "--evaluate-every", 1, "--out", folder]
    done = run("train", "--driving", *settings, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["steps"] == 2
    assert {path.name for path in folder.glob("driving_*")} == set(weights.parts_of(Driver(SMALL, rng=0)))
    assert run("train", "--driving", *settings).exit_code == 1  # it would be lost
    assert run("train", "--driving", "--resume", "--out", folder).exit_code == 0
    forgotten = run("train", "--resume", "--out", folder)
    assert forgotten.exit_code == 1 and "Is it one with --driving?" in forgotten.stderr
    driven = run("drive", "--weights", folder, "--seed", 3)
    assert driven.exit_code == 0 and "claims are true" in driven.stdout


# Weights.


def test_weights_come_back_in_half_precision(small, tmp_path):
    weights.save_driver(tmp_path, small)
    loaded = weights.load_driver(tmp_path)
    assert loaded.config == SMALL and not loaded.training
    for name, array in small.state_dict().items():
        np.testing.assert_array_equal(loaded.state_dict()[name], array.astype(np.float16).astype(np.float32))


def test_the_gpts_file_is_a_checkpoint_like_any_other(small, tmp_path):
    from minitx import checkpoints

    weights.save_driver(tmp_path, small)
    model, tokenizer = checkpoints.load(tmp_path / "driving_gpt.safetensors")
    assert tokenizer.as_dict() == vocabulary.TOKENIZER.as_dict()
    np.testing.assert_allclose(
        model.tokens.weight.numpy(), small.reasoner.gpt.tokens.weight.numpy(), rtol=1e-3, atol=1e-6
    )


def test_missing_damaged_and_mixed_up_files_are_named(small, tmp_path):
    with pytest.raises(CheckpointError, match="Train them: minitx train --driving"):
        weights.load_driver(tmp_path)
    weights.save_driver(tmp_path, small)
    expert, encoder = tmp_path / "driving_expert.safetensors", tmp_path / "driving_encoder.safetensors"
    whole = encoder.read_bytes()
    encoder.write_bytes(whole[:-100])
    with pytest.raises(CheckpointError, match="driving_encoder"):
        weights.load_driver(tmp_path)
    encoder.write_bytes(expert.read_bytes())
    with pytest.raises(CheckpointError, match="does not hold the weights of a SceneEncoder"):
        weights.load_driver(tmp_path)
    encoder.unlink()
    with pytest.raises(CheckpointError, match="driving_encoder"):
        weights.load_driver(tmp_path)
    encoder.write_bytes(whole)
    from minitx.checkpoints.files import read_safetensors, write_safetensors

    arrays, metadata = read_safetensors(expert)
    write_safetensors(expert, {**arrays, "head.bias": np.full(2, np.nan, np.float16)}, metadata)
    with pytest.raises(CheckpointError, match=r"head\.bias holds NaN"):
        weights.load_driver(tmp_path)
    write_safetensors(expert, arrays, {**metadata, "config": json.dumps({**SMALL.as_dict(), "d_model": 32})})
    with pytest.raises(CheckpointError, match="do not fit this model"):
        weights.load_driver(tmp_path)
    write_safetensors(expert, arrays, {**metadata, "config": "{"})
    with pytest.raises(CheckpointError, match="its configuration makes no model"):
        weights.load_driver(tmp_path)


def test_weights_too_large_for_half_precision_are_not_saved(small, tmp_path):
    small.expert.head.weight.array_to_update()[0, 0] = 1e6
    with pytest.raises(CheckpointError, match=r"head\.weight is too large for half precision"):
        weights.save_driver(tmp_path, small)
    assert list(tmp_path.iterdir()) == []
