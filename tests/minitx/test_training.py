"""Training: batches, the loop against PyTorch, and a resumed run that is the run that was never interrupted."""

import math

import numpy as np
import pytest

import minitx
import minitx.functional as F
from minitx import models, nn, training
from minitx.errors import CheckpointError
from minitx.training import Recipe, TextData, Trainer, fit

CONTEXT, VOCABULARY = 7, 11


def small_gpt(dropout=0.0, seed=3):
    minitx.manual_seed(seed)
    config = models.GPTConfig(VOCABULARY, CONTEXT, n_layers=2, n_heads=2, d_model=12, dropout=dropout)
    return models.GPT(config)


def some_data(length=400):
    ids = np.random.default_rng(5).integers(0, VOCABULARY, length)
    ids[1::2] = (ids[::2] * 3 + 1) % VOCABULARY  # every other id follows from the one before
    return TextData(ids, CONTEXT)


def a_trainer(steps=6, dropout=0.0, **settings):
    recipe = Recipe(steps=steps, batch=3, warmup=2, evaluate_every=2, peak=1e-2, floor=1e-3, **settings)
    return Trainer(small_gpt(dropout), recipe)


def run(trainer, data, **options):
    return fit(trainer, lambda step: data.batch(step, 3, seed=9), **options)


def everything_in(trainer):
    arrays = {name: p.numpy() for name, p in trainer.model.named_parameters()}
    for name, p in trainer.model.named_parameters():
        moments = trainer.optimizer.state[id(p)]
        arrays[f"mean {name}"], arrays[f"square {name}"] = moments["mean"], moments["square"]
        arrays[f"t {name}"] = np.array(moments["t"])
    arrays["train"] = np.array(trainer.train_losses)
    arrays["validation"] = np.array(sorted(trainer.validation_losses.items()))
    return arrays


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


# ---- batches


def test_targets_are_the_ids_one_place_on_and_come_from_the_training_split():
    data = TextData(np.arange(100), CONTEXT, held_out=0.2)
    ids, targets = data.batch(1, 50, seed=4)
    assert ids.shape == targets.shape == (50, CONTEXT)
    np.testing.assert_array_equal(targets, ids + 1)
    np.testing.assert_array_equal(np.diff(ids), 1)
    assert ids.min() >= 0 and targets.max() <= 79


def test_every_place_of_the_training_split_is_drawn_its_last_one_too():
    data = TextData(np.arange(30), CONTEXT, held_out=0.4)
    starts = {int(start) for step in range(1, 60) for start in data.batch(step, 8)[0][:, 0]}
    assert starts == set(range(18 - CONTEXT))


def test_a_batch_is_a_function_of_seed_and_step_alone():
    data = some_data()
    first = data.batch(5, 4, seed=1)[0]
    data.batch(6, 4, seed=1)
    np.testing.assert_array_equal(first, some_data().batch(5, 4, seed=1)[0])
    assert (first != data.batch(6, 4, seed=1)[0]).any()
    assert (first != data.batch(5, 4, seed=2)[0]).any()


def test_validation_windows_cover_their_split_once_and_no_more():
    data = TextData(np.arange(200), CONTEXT, held_out=0.25)
    targets = np.concatenate([targets for _, targets in data.validation_batches(3)]).ravel()
    assert len(set(targets)) == targets.size == 49 // CONTEXT * CONTEXT
    assert targets.min() == 151 and targets.max() <= 199


def test_some_validation_windows_are_spread_evenly_and_always_the_same():
    data = TextData(np.arange(1000), CONTEXT, held_out=0.5)
    firsts = [int(ids[0]) for batch, _ in data.validation_batches(2, windows=5) for ids in batch]
    assert len(firsts) == 5 and firsts[0] == 500 and firsts[-1] > 980
    assert max(np.diff(firsts)) - min(np.diff(firsts)) <= CONTEXT
    assert firsts == [int(ids[0]) for batch, _ in data.validation_batches(2, windows=5) for ids in batch]


def test_the_validation_loss_weighs_every_token_alike_and_leaves_the_mode_alone():
    class Counting(nn.Module):
        def forward(self, ids):
            assert not self.training
            logits = np.zeros((*ids.shape, 1000))
            logits[..., 0] = ids  # a loss that differs from window to window
            return minitx.Tensor(logits)

    data = TextData(np.arange(300), CONTEXT, held_out=0.25)
    model = Counting()
    ids = np.concatenate([ids for ids, _ in data.validation_batches(1)]).ravel()
    expected = np.mean([math.log(math.exp(i) + 999) for i in ids])
    assert training.validation_loss(model, data, size=4) == pytest.approx(expected, rel=1e-6)
    assert model.training


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([], "empty"),
        (np.arange(7), "too short"),
        (np.arange(60), "validation split"),
        (np.ones((2, 90), int), "shape"),
    ],
)
def test_text_that_is_no_text_is_refused(ids, message):
    with pytest.raises(ValueError, match=message):
        TextData(ids, CONTEXT)


# ---- the loop


def torch_twin(torch, model):
    """The same model out of PyTorch's own functions, and its parameters by our names."""
    weights = {n: torch.nn.Parameter(torch.tensor(p.numpy())) for n, p in model.named_parameters()}
    heads = model.config.n_heads

    def forward(ids):
        f = torch.nn.functional
        x = f.embedding(ids, weights["tokens.weight"]) + weights["positions.weight"][: ids.shape[1]]
        for i in range(model.config.n_layers):

            def layer(x, name, i=i):
                return f.linear(x, weights[f"blocks.{i}.{name}.weight"], weights[f"blocks.{i}.{name}.bias"])

            def norm(x, name):
                return f.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"])

            y = norm(x, f"blocks.{i}.attention_norm")
            q, k, v = (
                layer(y, f"attention.{part}_proj").unflatten(-1, (heads, -1)).transpose(1, 2)
                for part in "qkv"
            )
            y = f.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            x = x + layer(y, "attention.out_proj")
            y = layer(norm(x, f"blocks.{i}.mlp_norm"), "mlp.up")
            x = x + layer(f.gelu(y, approximate="tanh"), "mlp.down")
        return f.linear(norm(x, "norm"), weights["tokens.weight"])

    return weights, forward


def test_eight_steps_are_those_of_pytorch(backend):
    torch = pytest.importorskip("torch")
    trainer, data = a_trainer(steps=8, clip=0.3), some_data()
    weights, forward = torch_twin(torch, trainer.model)
    groups = [
        {"params": [w for w in weights.values() if w.ndim >= 2], "weight_decay": 0.1},
        {"params": [w for w in weights.values() if w.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.99))
    rates = [5e-3, 1e-2] + [1e-3 + 9e-3 * (1 + math.cos(math.pi * i / 6)) / 2 for i in range(1, 7)]
    clipped = 0
    for step, rate in enumerate(rates, start=1):
        ids, targets = (torch.tensor(part) for part in data.batch(step, 3, seed=9))
        loss = torch.nn.functional.cross_entropy(forward(ids).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        clipped += float(torch.nn.utils.clip_grad_norm_(weights.values(), 0.3)) > 0.3
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        assert trainer.advance(data.batch(step, 3, seed=9)) == pytest.approx(loss.item(), rel=2e-5)
    assert clipped
    for name, parameter in trainer.model.named_parameters():
        # Adam divides by the root of tiny squares: the last digits of small gradients are magnified.
        np.testing.assert_allclose(parameter.numpy(), weights[name].detach().numpy(), atol=2e-4, err_msg=name)


def test_a_model_learns_what_a_table_of_pairs_knows():
    rng, ids = np.random.default_rng(5), [0]
    while len(ids) < 3000:
        ids.append((3 * ids[-1] + 1) % VOCABULARY if rng.random() < 0.8 else int(rng.integers(VOCABULARY)))
    data = TextData(ids, CONTEXT)
    pairs = np.full((VOCABULARY, VOCABULARY), 0.1)
    np.add.at(pairs, (data.train[:-1], data.train[1:]), 1)
    table = -np.log(pairs / pairs.sum(1, keepdims=True))
    trainer = Trainer(small_gpt(), Recipe(steps=200, batch=8, peak=1e-2, warmup=10, evaluate_every=50))
    fit(trainer, lambda step: data.batch(step, 8), evaluation=lambda m: training.validation_loss(m, data, 8))
    assert trainer.train_losses[0] == pytest.approx(math.log(VOCABULARY), abs=0.1)
    assert trainer.validation_losses[200] < table[data.validation[:-1], data.validation[1:]].mean() + 0.1


def test_callbacks_come_when_they_should():
    trainer, data = a_trainer(steps=5), some_data()
    events = []
    run(
        trainer,
        data,
        evaluation=lambda model: events.append("evaluate") or 1.0,
        save=lambda t: events.append(f"save {t.step}"),
        on_step=lambda t: events.append(t.step),
    )
    assert events == [1, "evaluate", "save 2", 2, 3, "evaluate", "save 4", 4, "evaluate", "save 5", 5]
    assert trainer.validation_losses == {2: 1.0, 4: 1.0, 5: 1.0}


def test_a_loop_that_is_asked_to_stop_saves_and_says_that_it_is_not_done():
    trainer, saved = a_trainer(), []
    assert not run(trainer, some_data(), save=lambda t: saved.append(t.step), stop=lambda: trainer.step == 3)
    assert saved == [2, 3] and trainer.step == 3
    assert run(trainer, some_data(), save=lambda t: saved.append(t.step))
    assert saved == [2, 3, 4, 6]


def test_another_loss_and_another_kind_of_batch_will_do():
    minitx.manual_seed(1)
    model = nn.Linear(3, 2)
    rng = np.random.default_rng(0)
    x, target = rng.standard_normal((8, 3)).astype(np.float32), rng.standard_normal((8, 2)).astype(np.float32)

    def squares(model, batch):
        difference = model(batch["x"]) - batch["target"]
        return (difference * difference).mean()

    trainer = Trainer(model, Recipe(steps=200, batch=8, peak=0.05, weight_decay=0.0, warmup=5), squares)
    fit(trainer, lambda step: {"x": x, "target": target})
    solution = np.linalg.lstsq(np.c_[x, np.ones(8)], target, rcond=None)[1].sum() / target.size
    assert trainer.train_losses[-1] == pytest.approx(solution, rel=0.01)


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_a_number_that_is_not_finite_stops_the_loop_before_anything_is_changed(what, tmp_path):
    trainer, data = a_trainer(), some_data()

    def failing(model, batch):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        if trainer.step < 3:
            return loss
        if what == "loss":
            return loss * float("nan")
        weight = model.norm.weight
        return loss + ((weight - weight.numpy()) ** 0.5).sum()  # 0, with an infinite slope

    trainer.loss = failing
    kept = tmp_path / "state.safetensors"
    with np.errstate(all="ignore"), pytest.raises(training.Diverged, match=f"{what} of step 4"):
        run(trainer, data, save=lambda t: training.save_state(kept, t))
    assert training.read_state(kept)[1]["step"] == 2
    assert trainer.step == 3 and all(np.isfinite(p.numpy()).all() for p in trainer.model.parameters())


def test_parameters_that_are_not_finite_do_not_replace_a_good_state(tmp_path):
    trainer, kept = a_trainer(), tmp_path / "state.safetensors"
    training.save_state(kept, trainer)
    before = kept.read_bytes()
    trainer.model.norm.weight.data[3] = np.nan
    with pytest.raises(training.Diverged, match=r"norm\.weight"):
        training.save_state(kept, trainer)
    assert kept.read_bytes() == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"batch": 0},
        {"warmup": -1},
        {"floor": 1.0},
        {"peak": math.nan},
        {"clip": 0.0},
        {"evaluate_every": 0},
    ],
)
def test_a_recipe_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Recipe(**{"steps": 10, "batch": 2, **wrong})


# ---- states


@pytest.mark.parametrize("stop", [1, 3, 4])
def test_a_resumed_run_is_bit_for_bit_the_run_without_a_break(backend, stop, tmp_path):
    data, kept = some_data(), tmp_path / "state.safetensors"

    def validation(model):
        return training.validation_loss(model, data, 4)

    def save(trainer):
        training.save_state(kept, trainer)

    whole = a_trainer(dropout=0.3)
    run(whole, data, evaluation=validation)
    first = a_trainer(dropout=0.3)
    run(first, data, evaluation=validation, save=save, stop=lambda: first.step == stop)
    second = a_trainer(dropout=0.3)
    minitx.manual_seed(12345)  # whatever happened in between
    second.model.norm.weight.array_to_update()[...] = 7.0
    training.load_state(second, *training.read_state(kept))
    assert second.step == stop
    run(second, data, evaluation=validation)
    assert_same(everything_in(second), everything_in(whole))
    # The test above would pass without dropout's generator if dropout did nothing.
    dry = a_trainer(dropout=0.0)
    run(dry, data)
    assert dry.train_losses != whole.train_losses


def test_generators_of_modules_of_their_own_are_kept_each_once(tmp_path):
    shared = np.random.Generator(np.random.Philox(3))

    class Two(nn.Module):
        def __init__(self):
            self.first, self.second = nn.Dropout(0.5), nn.Dropout(0.5)
            self.first.rng = self.second.rng = shared
            self.weight = nn.Parameter(np.ones(5, np.float32))

        def forward(self, batch):
            return (self.first(self.weight) * self.second(self.weight * batch)).sum()

    def losses(trainer, steps):
        return [trainer.advance(np.float32(1.5)) for _ in range(steps)]

    def made():
        return Trainer(Two(), Recipe(steps=20, batch=1), lambda model, batch: model(batch))

    trainer, kept = made(), tmp_path / "state.safetensors"
    losses(trainer, 3)
    training.save_state(kept, trainer)
    expected = losses(trainer, 5)
    again = made()
    shared.random(7)
    training.load_state(again, *training.read_state(kept))
    assert losses(again, 5) == expected
    assert len(set(expected)) > 1


def test_a_state_of_another_recipe_or_model_is_refused_and_changes_nothing(tmp_path):
    kept = tmp_path / "state.safetensors"
    trainer = a_trainer()
    run(trainer, some_data())
    training.save_state(kept, trainer, {"note": [1, "two"]})
    arrays, facts = training.read_state(kept)
    assert facts["extra"] == {"note": [1, "two"]}
    with pytest.raises(ValueError, match="steps was 6, now 9"):
        training.load_state(a_trainer(steps=9), arrays, facts)
    other = Trainer(nn.Linear(3, 2, rng=0), trainer.recipe)
    before = other.model.state_dict()
    with pytest.raises(ValueError, match="missing: weight"):
        training.load_state(other, arrays, facts)
    assert_same(other.model.state_dict(), before)
    assert other.step == 0


def test_a_file_that_is_no_state_is_refused(tmp_path):
    from minitx.checkpoints.files import write_safetensors

    write_safetensors(tmp_path / "model.safetensors", {"a": np.ones(3)}, {"format": "other"})
    with pytest.raises(CheckpointError, match="no state of a training"):
        training.read_state(tmp_path / "model.safetensors")
    trainer = a_trainer()
    training.save_state(tmp_path / "state.safetensors", trainer)
    whole = (tmp_path / "state.safetensors").read_bytes()
    (tmp_path / "state.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match=r"state\.safetensors"):
        training.read_state(tmp_path / "state.safetensors")


def test_the_picture_is_a_png_with_all_losses(tmp_path):
    pytest.importorskip("matplotlib")
    from minitx.training.plot import loss_figure

    trainer = a_trainer()
    run(trainer, some_data(), evaluation=lambda model: 2.5)
    (axes,) = loss_figure(trainer).axes
    lines = {line.get_label(): line.get_xydata() for line in axes.lines}
    np.testing.assert_allclose(lines["training, each step"][:, 1], trainer.train_losses)
    np.testing.assert_allclose(lines["validation"], [[2, 2.5], [4, 2.5], [6, 2.5]])
    training.draw_losses(trainer, tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["loss.png"]
