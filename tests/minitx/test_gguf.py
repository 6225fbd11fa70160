"""GGUF files, written here with gguf's own writer, against a Llama forward pass in PyTorch."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitx import checkpoints
from minitx.checkpoints import CheckpointError, gguf_files

gguf = pytest.importorskip("gguf")

SIZES = {"n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "d_model": 32, "d_ff": 64, "context": 16}
TOKENS = ["<|end|>", "<|start|>", *(chr(60 + i) for i in range(60)), "Ġ", "ab", "Ġab"]
MERGES = ["a b", "Ġ ab"]
HEAD_DIM = SIZES["d_model"] // SIZES["n_heads"]


def tensors(tied=False, seed=1):
    """Random weights by the names that llama.cpp has for them."""
    dice = np.random.default_rng(seed)
    d, ff, kv = SIZES["d_model"], SIZES["d_ff"], SIZES["n_kv_heads"] * HEAD_DIM
    shapes = {"token_embd": (len(TOKENS), d)} | ({} if tied else {"output": (len(TOKENS), d)})
    for i in range(SIZES["n_layers"]):
        shapes |= {f"blk.{i}.attn_q": (d, d), f"blk.{i}.attn_k": (kv, d), f"blk.{i}.attn_v": (kv, d)}
        shapes |= {f"blk.{i}.attn_output": (d, d), f"blk.{i}.ffn_gate": (ff, d), f"blk.{i}.ffn_up": (ff, d)}
        shapes |= {f"blk.{i}.ffn_down": (d, ff)}
    found = {f"{name}.weight": 0.3 * dice.standard_normal(shape) for name, shape in shapes.items()}
    norms = ["output_norm"] + [f"blk.{i}.{x}_norm" for i in range(SIZES["n_layers"]) for x in ("attn", "ffn")]
    found |= {f"{name}.weight": 1 + 0.3 * dice.standard_normal(d) for name in norms}
    return {name: array.astype(np.float32) for name, array in found.items()}


def write(path, arrays, *, kinds=None, architecture="llama", tokens=TOKENS, pre="smollm", facts=None):
    """A GGUF file; `kinds` says how tensors are packed, `facts` adds metadata or replaces sizes."""
    facts = facts or {}
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(SIZES["context"])
    writer.add_block_count(facts.get("layers", SIZES["n_layers"]))
    writer.add_embedding_length(SIZES["d_model"])
    writer.add_feed_forward_length(SIZES["d_ff"])
    writer.add_head_count(facts.get("heads", SIZES["n_heads"]))
    writer.add_head_count_kv(facts.get("kv_heads", SIZES["n_kv_heads"]))
    writer.add_rope_freq_base(500.0)
    writer.add_rope_dimension_count(facts.get("rope", HEAD_DIM))
    writer.add_layer_norm_rms_eps(1e-4)
    if "scaling" in facts:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3] + [1] * (len(tokens) - 2))
    writer.add_token_merges(facts.get("merges", MERGES))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)
    for name, array in arrays.items():
        kind = (kinds or {}).get(name)
        packed = array if kind is None else gguf.quants.quantize(array, kind)
        writer.add_tensor(name, packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def reference(arrays, ids):
    """Llama's logits in float64; neighbours are pairs, turned as complex numbers."""
    torch = pytest.importorskip("torch")
    w = {name.removesuffix(".weight"): torch.tensor(array).double() for name, array in arrays.items()}
    ids = torch.tensor(ids)
    batch, n = ids.shape

    def norm(x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + np.float32(1e-4).item()) * w[name]

    rates = 500.0 ** (-torch.arange(0, HEAD_DIM, 2).double() / HEAD_DIM)
    turns = torch.polar(torch.ones(n, HEAD_DIM // 2).double(), torch.arange(n).double()[:, None] * rates)

    def split(x, turned=True):
        x = x.reshape(batch, n, -1, HEAD_DIM).transpose(1, 2)
        if not turned:
            return x
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
        return torch.view_as_real(pairs * turns).flatten(-2)

    x = w["token_embd"][ids]
    for i in range(SIZES["n_layers"]):
        y = norm(x, f"blk.{i}.attn_norm")
        q, k = split(y @ w[f"blk.{i}.attn_q"].T), split(y @ w[f"blk.{i}.attn_k"].T)
        v = split(y @ w[f"blk.{i}.attn_v"].T, turned=False)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + y.transpose(1, 2).reshape(batch, n, -1) @ w[f"blk.{i}.attn_output"].T
        y = norm(x, f"blk.{i}.ffn_norm")
        gate = torch.nn.functional.silu(y @ w[f"blk.{i}.ffn_gate"].T)
        x = x + (gate * (y @ w[f"blk.{i}.ffn_up"].T)) @ w[f"blk.{i}.ffn_down"].T
    return (norm(x, "output_norm") @ w.get("output", w["token_embd"]).T).numpy()


def check(path, arrays):
    ids = [[5, 1, 60, 7, 7], [0, 2, 64, 30, 9]]
    expected = reference(arrays, ids)
    model, _ = checkpoints.load(path)
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(model(np.array(ids)).numpy(), expected, rtol=1e-4, atol=1e-4)


def refused(path, *words):
    with pytest.raises(CheckpointError) as caught:
        checkpoints.load(path)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("tied", [False, True])
def test_logits_are_those_of_pytorch(tmp_path, tied):
    arrays = tensors(tied)
    path = write(tmp_path / "model.gguf", arrays)
    check(path, arrays)
    model, _ = checkpoints.load(path)
    assert (model.head is None) == tied
    assert model.config.rope_layout == "interleaved"


@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0", "Q4_0", "F16", "BF16"])
def test_packed_weights_are_unpacked(tmp_path, kind):
    kind = gguf.GGMLQuantizationType[kind]
    arrays = tensors()
    kinds = {name: kind for name, array in arrays.items() if array.ndim == 2}
    path = write(tmp_path / "model.gguf", arrays, kinds=kinds)
    for name in kinds:
        arrays[name] = gguf.quants.dequantize(gguf.quants.quantize(arrays[name], kind), kind)
    check(path, arrays)


@pytest.mark.parametrize(("pre", "digits"), [("smollm", "apart"), ("gpt-2", "together")])
def test_the_tokenizer_comes_with_the_file(tmp_path, pre, digits):
    _, tokenizer = checkpoints.load(write(tmp_path / "model.gguf", tensors(), pre=pre))
    assert tokenizer.vocabulary == TOKENS
    assert tokenizer.digits == digits
    assert tokenizer.special_tokens == {"<|end|>": 0, "<|start|>": 1}
    assert (tokenizer.beginning_of_text, tokenizer.end_of_text) == (1, 0)


@pytest.mark.parametrize("share", [0.0005, 0.1, 0.4, 0.8, 0.999])
def test_a_truncated_file_says_so(tmp_path, share):
    path = write(tmp_path / "model.gguf", tensors())
    content = path.read_bytes()
    path.write_bytes(content[: max(6, int(len(content) * share))])
    refused(path, "no whole GGUF file", "cut short")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"architecture": "gemma"}, "'gemma'"),
        ({"pre": "qwen2"}, "'qwen2'"),
        ({"tokens": TOKENS[:-1]}, "needs 'Ġab'"),
        ({"tokens": [*TOKENS, "more"]}, "66 tokens and the model 65"),
        ({"facts": {"merges": ["a"]}}, "two tokens"),
        ({"facts": {"layers": 3}}, "missing: blk.2.attn_q.weight (32, 32)"),
        ({"facts": {"layers": 1}}, "unexpected: blk.1"),
        ({"facts": {"layers": 4_000_000_000}}, "4000000000 layers"),
        ({"facts": {"heads": 0}}, "n_heads must be a whole number"),
        ({"facts": {"heads": 5}}, "does not divide"),
        ({"facts": {"kv_heads": 3}}, "shape of blk.0.attn_k.weight: expected (24, 32), got (16, 32)"),
        ({"facts": {"rope": 4}}, "a part of each head"),
        ({"facts": {"scaling": True}}, "stretches"),
    ],
)
def test_what_does_not_make_a_model_is_refused(tmp_path, options, words):
    refused(write(tmp_path / "model.gguf", tensors(), **options), words)


def test_every_tensor_that_does_not_fit_is_named(tmp_path):
    arrays = tensors()
    del arrays["blk.1.ffn_up.weight"]
    arrays["rope_freqs.weight"] = np.ones(4, np.float32)
    refused(
        write(tmp_path / "model.gguf", arrays),
        "missing: blk.1.ffn_up.weight (64, 32)",
        "unexpected: rope_freqs.weight (4,)",
    )


def test_a_weight_that_is_no_number_is_named(tmp_path):
    arrays = tensors()
    arrays["blk.0.ffn_norm.weight"][7] = np.nan
    refused(write(tmp_path / "model.gguf", arrays), "blk.0.ffn_norm.weight holds 1 values", "(7,)")


def test_a_list_that_claims_to_be_endless_ends(tmp_path):
    path = write(tmp_path / "model.gguf", tensors())
    content = path.read_bytes()
    for kind in (8, 4, 0, 9):  # strings, integers, bytes, lists
        head = content[:24] + (1).to_bytes(8, "little") + b"x" + (9).to_bytes(4, "little")
        path.write_bytes(head + kind.to_bytes(4, "little") + (2**60).to_bytes(8, "little"))
        refused(path, "no whole GGUF file")
    nested = ((9).to_bytes(4, "little") + (1).to_bytes(8, "little")) * 5_000
    path.write_bytes(head[:-4] + (9).to_bytes(4, "little") + nested)
    refused(path, "no whole GGUF file")


@given(at=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_a_damaged_file_is_read_or_refused_and_nothing_else(tmp_path_factory, at, byte):
    path = write(tmp_path_factory.mktemp("damaged") / "model.gguf", tensors())
    content = bytearray(path.read_bytes())
    content[int(at * 3_500)] = byte  # metadata and the list of tensors
    path.write_bytes(content)
    try:
        model, _ = checkpoints.load(path)
    except CheckpointError:
        return
    assert model(np.array([[1, 2]])).shape[:2] == (1, 2)


def test_a_missing_gguf_says_how_to_install_it(tmp_path, monkeypatch):
    path = write(tmp_path / "model.gguf", tensors())
    monkeypatch.setitem(sys.modules, "gguf", None)
    gguf_files._reader.cache_clear()
    refused(path, "pip install 'minitx[weights]'")
    monkeypatch.undo()
    checkpoints.load(path)
