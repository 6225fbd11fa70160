"""The weights that come with minitx: small, and as good as is said of them."""

import json

import numpy as np
from typer.testing import CliRunner

from minitx import checkpoints
from minitx.cli.app import app
from minitx.driving import evaluate, scene, weights
from minitx.driving.claims import check_claims, truth_share
from minitx.driving.reasoning import write


def test_they_are_small_and_whole():
    driver = weights.load_driver()
    files = [weights.FOLDER / name for name in weights.parts_of(driver)]
    assert sum(file.stat().st_size for file in files) < 3_000_000
    assert sum(p.size for p in driver.parameters()) * 2 < 3_000_000


def test_they_tell_the_truth_and_drive_well_on_scenes_never_seen():
    """40 scenes of the 1,000 that `minitx drive --evaluate 1000` measures, with room for so small a sample."""
    driver = weights.load_driver()
    scenes = scene.generate(range(200, 240))
    drives = evaluate.drive(driver, scenes)
    figures = evaluate.summary(drives)
    assert figures["truth"] > 0.88
    assert figures["ade"] < 0.5 * figures["constant_speed_ade"]
    assert figures["keeps_its_word"] > 0.7
    swapped = [truth_share(check_claims(one.text, scenes[(i + 1) % 40])) for i, one in enumerate(drives)]
    assert np.mean(swapped) < 0.45  # the text is about its own scene


def test_what_is_said_moves_the_path():
    """The expert reads the words: told to speed up it gets farther than told to slow down."""
    driver = weights.load_driver()
    scenes = scene.generate(range(200, 240))
    before = [text.split("therefore:")[0] for text in write(scenes)]
    ends = []
    for speed in ("slow down", "speed up"):
        told = [f"{text}therefore: keep the lane and {speed}." for text in before]
        ends.append([one.path[-1, 0] for one in evaluate.drive(driver, scenes, texts=told)])
    slow, fast = np.array(ends)
    assert np.mean(fast > slow) > 0.8
    assert np.mean(fast - slow) > 2


def test_the_command_uses_them():
    result = CliRunner().invoke(app, ["drive", "--seed", "7", "--json"])
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert told["truth"] >= 0.75 and told["ade"] < 5


def test_the_gpt_is_a_model_like_any_other():
    model, tokenizer = checkpoints.load("driving")
    assert model.config.vocab_size == tokenizer.vocab_size
    ids = tokenizer.encode("speed 20 m/s. lane 2 of 3")
    assert tokenizer.decode(ids).strip() == "speed 20 m/s. lane 2 of 3"
    assert model(np.array([ids])).shape == (1, len(ids), tokenizer.vocab_size)
