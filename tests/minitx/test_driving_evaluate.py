"""The figures of a driver, their baselines, the picture, and `minitx drive`."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from minitx.cli import drive as command
from minitx.cli.app import app
from minitx.driving import actions, baselines, evaluate, reasoning, scene, train, weights
from minitx.driving.claims import check_claims, truth_share
from minitx.driving.driver import Driver, DriverConfig
from minitx.driving.evaluate import Drive

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
    return scene.generate(range(700, 740))


class Perfect:
    """Says what is true and does what was done."""

    def __init__(self, scenes):
        self.scenes = scenes

    def drive(self, seen, *, seed=0):
        return reasoning.write(self.scenes), actions.ego_actions(self.scenes)


def test_who_says_and_does_what_is_true_gets_full_marks(scenes):
    drives = evaluate.drive(Perfect(scenes), scenes)
    figures = evaluate.summary(drives)
    assert figures["scenes"] == 40
    assert figures["truth"] == figures["whole_texts_true"] == 1
    assert figures["ade"] < 0.01 and figures["fde"] < 0.02
    assert figures["keeps_its_word"] == 1
    assert {one.lanes_moved for one in drives} == {-1, 0, 1}


def test_errors_are_the_mean_and_the_last_distance():
    path = np.stack([np.arange(1, 65) * 2.0, np.zeros(64)], axis=1)
    other = path + np.arange(64)[:, None] * [0.03, 0.04]
    ade, fde = evaluate.errors(other, path)
    assert ade == pytest.approx(0.05 * 31.5) and fde == pytest.approx(0.05 * 63)


def test_a_path_into_another_lane_than_said_breaks_its_word(scenes):
    one = evaluate.drive(Perfect(scenes), scenes)[0]
    other = replace(one, lanes_moved=one.lanes_moved + 1)
    assert one.keeps_its_word and not other.keeps_its_word
    silent = replace(one, text="left lane free.")
    assert silent.decided is None and not silent.keeps_its_word


def test_constant_speed_goes_straight_and_the_lane_bends(scenes):
    straight, along = baselines.constant_speed(scenes), baselines.along_the_lane(scenes)
    speed = scenes.speed[:, 0, scene.NOW]
    np.testing.assert_allclose(straight[:, -1, 0], speed * 6.4)
    assert not straight[..., 1].any()
    steps = np.linalg.norm(np.diff(along, axis=1, prepend=np.zeros((40, 1, 2))), axis=-1)
    np.testing.assert_allclose(steps, np.repeat(speed[:, None] * 0.1, 64, axis=1), rtol=1e-2)
    flat = ~scenes.roads.bends.any(axis=1)
    assert flat.any()
    np.testing.assert_allclose(along[flat], straight[flat], atol=1e-6)
    true = actions.ego_path(scenes)
    assert np.linalg.norm(along - true, axis=-1).mean() < np.linalg.norm(straight - true, axis=-1).mean()


def test_the_constant_text_is_the_best_there_is(scenes):
    """No sentence of it can be changed for a better one, and it is far from the truth."""
    text = baselines.constant_text(scenes)

    def share(said):
        return np.mean([truth_share(check_claims(said, scenes[i])) for i in range(len(scenes))])

    best = share(text)
    assert 0.25 < best < 0.6
    for other in reasoning.write(scenes[:12]):
        assert share(other) <= best
    sentences = text.split(". ")
    assert sentences[0].startswith("speed ")
    for n in range(5, 35):
        assert share(". ".join([f"speed {n} m/s", *sentences[1:]])) <= best


def test_evaluation_counts_every_scene_once_in_batches(monkeypatch):
    done = []
    monkeypatch.setattr(evaluate, "BATCH", 7)
    monkeypatch.setattr(evaluate, "SAMPLE_SEEDS", range(800_000_000, 800_000_020))
    figures = evaluate.evaluate(Driver(SMALL, rng=0).eval(), range(3, 19), on_batch=done.append)
    assert done == [7, 14, 16] and figures["scenes"] == 16
    assert 0 <= figures["truth"] < figures["constant_text_truth"] < 0.7
    assert all(np.isfinite(value) for value in figures.values())


def test_evaluated_scenes_are_none_that_were_trained_on():
    assert evaluate.SAMPLE_SEEDS.stop <= train.VALIDATION_SEEDS.start
    assert train.VALIDATION_SEEDS.stop <= train.FIRST_TRAINING_SEED


# The command.


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("weights")
    weights.save_driver(place, Driver(SMALL, rng=0))
    return str(place)


def run(*arguments):
    result = CliRunner().invoke(app, ["drive", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_a_scene_is_told_and_drawn(folder, tmp_path):
    picture = tmp_path / "scene.png"
    result = run("--weights", folder, "--seed", 5, "--out", picture)
    assert result.exit_code == 0, result.stderr
    assert "Scene 5" in result.stdout and "claims are true" in result.stdout
    assert "straight on at constant speed" in result.stdout
    from matplotlib.image import imread

    pixels = imread(picture)
    assert pixels.shape[0] > 500 and pixels[..., :3].std() > 0.05


def test_as_json_a_program_can_read_it(folder):
    result = run("--weights", folder, "--scene", 5, "--json")
    told = json.loads(result.stdout)
    assert result.exit_code == 0 and told["seed"] == 5
    assert np.shape(told["path"]) == np.shape(told["true_path"]) == (64, 2)
    assert len(told["acceleration"]) == len(told["curvature"]) == 64
    assert told["truth"] == sum(c["verdict"] == "true" for c in told["claims"]) / len(told["claims"])
    assert told["picture"] is None


def test_the_expert_reads_what_it_is_told(folder):
    text = "lane 1 of 2 from the left. therefore: keep the lane and slow down."
    told = json.loads(run("--weights", folder, "--say", text, "--json").stdout)
    assert told["reasoning"] == text
    refused = run("--weights", folder, "--say", "there is a wall.")
    assert refused.exit_code == 1 and "is none of the 159 words" in refused.stderr
    assert run("--weights", folder, "--say", "").exit_code == 0


def test_figures_on_many_scenes(folder, monkeypatch):
    monkeypatch.setattr(evaluate, "SAMPLE_SEEDS", range(800_000_000, 800_000_010))
    result = run("--weights", folder, "--evaluate", 6)
    assert result.exit_code == 0 and "6 scenes, 7 to 12" in result.stdout and "true claims" in result.stdout
    figures = json.loads(run("--weights", folder, "--evaluate", 6, "--json").stdout)
    assert figures["scenes"] == 6 and set(figures) >= {
        "truth",
        "constant_text_truth",
        "ade",
        "constant_speed_ade",
    }


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--seed", "-1"], 2, "--seed"),
        (["--seed", "ten"], 2, "valid integer"),
        (["--evaluate", "0"], 2, "--evaluate"),
        (["--seed", str(train.FIRST_TRAINING_SEED)], 2, "are for training"),
        (["--seed", str(train.FIRST_TRAINING_SEED - 5), "--evaluate", "6"], 2, "are for training"),
        (["--evaluate", "3", "--out", "x.png"], 2, "goes with neither"),
        (["--weights", "/nowhere"], 1, "Train them: minitx train --driving"),
    ],
)
def test_wrong_use_and_missing_weights_are_told(arguments, code, said):
    result = run(*arguments)
    assert result.exit_code == code
    assert said in " ".join(result.stderr.replace("\u2502", " ").split())


@pytest.mark.parametrize("name", ["none/scene.png", "scene.docx"])
def test_a_picture_that_cannot_be_written_is_told(folder, tmp_path, name):
    result = run("--weights", folder, "--out", tmp_path / name)
    assert result.exit_code == 1 and "could not be written" in result.stderr


def test_wrong_claims_stand_in_the_picture(scenes):
    """Not by colour alone: the words say which are not true."""
    from minitx.driving.picture import draw

    one: Drive = evaluate.drive(Perfect(scenes[:1]), scenes[:1])[0]
    false = replace(one, claims=check_claims("speed 1 m/s. banana.", scenes[0]), text="speed 1 m/s. banana.")
    for shown, expected in ((one, False), (false, True)):
        figure = draw(scenes[:1], shown)
        words = " ".join(text.get_text() for ax in figure.axes for text in ax.texts)
        assert ("Not true:" in words) is expected
    assert "speed 1 m/s (false)" in words and "banana (unparsable)" in words


def test_help_has_an_example():
    result = run("--help")
    assert result.exit_code == 0 and "Example" in result.stdout and "--evaluate" in result.stdout


def test_import_of_the_commands_loads_neither_numba_nor_matplotlib():
    code = "import sys, minitx.cli; print([m for m in ('numba', 'matplotlib', 'safetensors') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert command.drive is not None
