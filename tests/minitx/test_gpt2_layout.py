"""GPT-2's layout of weights, against a forward pass written here with PyTorch's functions alone."""

import json

import numpy as np
import pytest

from minitx import checkpoints, models
from minitx.checkpoints import CheckpointError

torch = pytest.importorskip("torch")
T = torch.nn.functional
save_file = pytest.importorskip("safetensors.torch").save_file

VOCABULARY, CONTEXT, LAYERS, HEADS, D, INNER = 37, 11, 3, 4, 20, 52
IDS = [[3, 36, 0, 7, 7, 21, 9], [1, 2, 30, 4, 5, 6, 35]]


def weights(prefix="", d=D, inner=INNER, seed=1):
    """Random weights in GPT-2's layout, large enough for every one of them to matter."""
    dice = torch.Generator().manual_seed(seed)

    def drawn(*shape, around=0.0):
        return around + 0.3 * torch.randn(*shape, generator=dice)

    state = {"wte.weight": drawn(VOCABULARY, d), "wpe.weight": drawn(CONTEXT, d)}
    state |= {"ln_f.weight": drawn(d, around=1.0), "ln_f.bias": drawn(d)}
    for i in range(LAYERS):
        for name, inside, out in (
            ("attn.c_attn", d, 3 * d),
            ("attn.c_proj", d, d),
            ("mlp.c_fc", d, inner),
            ("mlp.c_proj", inner, d),
        ):
            state[f"h.{i}.{name}.weight"], state[f"h.{i}.{name}.bias"] = drawn(inside, out), drawn(out)
        for name in ("ln_1", "ln_2"):
            state[f"h.{i}.{name}.weight"] = drawn(d, around=1.0)
            state[f"h.{i}.{name}.bias"] = drawn(d)
    return {prefix + name: tensor for name, tensor in state.items()}


def reference(state, ids, heads=HEADS, eps=1e-5, gelu="tanh", prefix=""):
    """GPT-2's logits in float64, from the names and orientation of its own layout."""
    state = {name.removeprefix(prefix): tensor.double() for name, tensor in state.items()}

    def zero(name):
        return state.get(name)

    def norm(x, name):
        return T.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], zero(f"{name}.bias"), eps)

    def conv(x, name):
        bias = zero(f"{name}.bias")
        return x @ state[f"{name}.weight"] + (0 if bias is None else bias)

    ids = torch.tensor(ids)
    batch, n = ids.shape
    x = state["wte.weight"][ids] + state["wpe.weight"][:n]
    for i in range(LAYERS):
        q, k, v = conv(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn").chunk(3, dim=-1)
        q, k, v = (y.reshape(batch, n, heads, -1).transpose(1, 2) for y in (q, k, v))
        y = T.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + conv(y.transpose(1, 2).reshape(batch, n, -1), f"h.{i}.attn.c_proj")
        y = T.gelu(conv(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc"), approximate=gelu)
        x = x + conv(y, f"h.{i}.mlp.c_proj")
    return (norm(x, "ln_f") @ state["wte.weight"].T).numpy()


def config(**changes):
    return {
        "model_type": "gpt2",
        "vocab_size": VOCABULARY,
        "n_positions": CONTEXT,
        "n_layer": LAYERS,
        "n_head": HEADS,
        "n_embd": D,
        "n_inner": INNER,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        **changes,
    }


def folder(tmp_path, state, told=None):
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, tmp_path / "model.safetensors")
    if told is not None:
        (tmp_path / "config.json").write_text(json.dumps(told))
    return tmp_path


def check(model, state, **options):
    expected = reference(state, IDS, **options)
    logits = model(np.array(IDS)).numpy()
    assert logits.dtype == np.float32
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_logits_are_those_of_pytorch(tmp_path, prefix):
    state = weights(prefix)
    check(models.GPT.from_checkpoint(folder(tmp_path, state, config())), state, prefix=prefix)


def test_a_folder_and_its_file_are_loaded_by_path(tmp_path):
    state = weights()
    folder(tmp_path, state, config())
    for path in (tmp_path, tmp_path / "model.safetensors", str(tmp_path)):
        model, tokenizer = checkpoints.load(path)
        check(model, state)
        assert tokenizer is None


def test_a_tokenizer_in_the_folder_is_read_and_must_fit(tmp_path):
    from minitx.tokenizers import ByteLevelBPE

    tokenizer = ByteLevelBPE.train("a b", 256)
    state = weights()
    state["wte.weight"] = torch.randn(256, D)
    tokenizer.save(folder(tmp_path, state, config(vocab_size=256)) / "tokenizer.json")
    assert checkpoints.load(tmp_path)[1].encode("a b") == tokenizer.encode("a b")
    folder(tmp_path, weights(), config())
    with pytest.raises(CheckpointError, match="256 tokens and the model 37"):
        checkpoints.load(tmp_path)


def test_the_head_may_be_listed_where_it_is_the_embeddings(tmp_path):
    state = weights("transformer.")
    state["lm_head.weight"] = state["transformer.wte.weight"].clone()
    path = folder(tmp_path, state, config())
    check(models.GPT.from_checkpoint(path), state, prefix="transformer.")
    state["lm_head.weight"][5, 6] += 1
    with pytest.raises(CheckpointError, match=r"lm_head.weight differs from transformer.wte.weight"):
        models.GPT.from_checkpoint(folder(tmp_path, state, config()))


def test_the_mask_that_old_files_hold_is_passed_over(tmp_path):
    state = weights()
    for i in range(LAYERS):
        state[f"h.{i}.attn.bias"] = torch.ones(CONTEXT, CONTEXT).tril().reshape(1, 1, CONTEXT, CONTEXT)
        state[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    check(models.GPT.from_checkpoint(folder(tmp_path, state, config())), state)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_read_as_float32(tmp_path, dtype):
    state = {name: tensor.to(dtype) for name, tensor in weights().items()}
    model = models.GPT.from_checkpoint(folder(tmp_path, state, config()))
    assert {parameter.dtype for parameter in model.parameters()} == {np.dtype(np.float32)}
    check(model, {name: tensor.float() for name, tensor in state.items()})


def test_activation_and_eps_are_those_of_the_configuration(tmp_path):
    state = weights()
    told = config(activation_function="gelu", layer_norm_epsilon=0.5)
    check(models.GPT.from_checkpoint(folder(tmp_path, state, told)), state, gelu="none", eps=0.5)


def test_a_model_without_biases(tmp_path):
    state = {name: tensor for name, tensor in weights().items() if not name.endswith(".bias")}
    model = models.GPT.from_checkpoint(folder(tmp_path, state, config()))
    assert not model.config.bias
    check(model, state)


def test_without_a_configuration_shapes_tell_all_but_the_heads(tmp_path):
    state = weights()
    path = folder(tmp_path, state)
    check(models.GPT.from_checkpoint(path, n_heads=HEADS), state)
    with pytest.raises(CheckpointError, match=r"n_heads=\.\.\."):
        models.GPT.from_checkpoint(path)
    state = weights(d=128, inner=72)
    with pytest.warns(UserWarning, match="2 heads of 64"):
        model = models.GPT.from_checkpoint(folder(tmp_path, state))
    check(model, state, heads=2)


def test_every_key_that_does_not_fit_is_named(tmp_path):
    state = weights("transformer.")
    del state["transformer.h.1.ln_2.bias"], state["transformer.wpe.weight"]
    state["transformer.h.3.ln_1.weight"] = torch.zeros(D)
    state["classifier"] = torch.zeros(2, 3)
    state["transformer.h.0.attn.c_attn.weight"] = torch.zeros(3 * D, D)
    with pytest.raises(CheckpointError) as caught:
        models.GPT.from_checkpoint(folder(tmp_path, state, config()))
    for line in (
        "missing: transformer.h.1.ln_2.bias (20,)",
        "missing: transformer.wpe.weight (11, 20)",
        "unexpected: transformer.h.3.ln_1.weight (20,)",
        "unexpected: classifier (2, 3)",
        "shape of transformer.h.0.attn.c_attn.weight: expected (20, 60), got (60, 20)",
    ):
        assert line in str(caught.value)


def test_a_weight_that_is_no_number_is_named(tmp_path):
    state = weights()
    state["h.2.attn.c_attn.weight"][1, 50] = float("nan")
    with pytest.raises(CheckpointError, match=r"h.2.attn.c_attn.weight holds 1 values.*\(1, 50\)"):
        models.GPT.from_checkpoint(folder(tmp_path, state, config()))


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"model_type": "llama"}, "type 'llama'"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx is True"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is False"),
        ({"activation_function": "swish"}, "'swish'"),
        ({"n_head": 3}, "does not divide"),
        ({"n_head": None}, "n_heads"),
        ({"n_layer": 2.5}, "n_layers"),
        ({"n_layer": 10**9}, "1000000000 layers"),
        ({"n_inner": 48}, "shape of h.0.mlp.c_fc.weight: expected (20, 48), got (20, 52)"),
        ({"vocab_size": 10**12}, "shape of wte.weight"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(tmp_path, told, words):
    with pytest.raises(CheckpointError) as caught:
        models.GPT.from_checkpoint(folder(tmp_path, weights(), config(**told)))
    assert words in str(caught.value)


@pytest.mark.parametrize("content", ["", "{", "[]", "\udcff", "[" * 100_000])
def test_a_configuration_that_cannot_be_read_is_refused(tmp_path, content):
    folder(tmp_path, weights())
    (tmp_path / "config.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(CheckpointError, match=r"config\.json"):
        models.GPT.from_checkpoint(tmp_path)


def test_from_checkpoint_reads_its_own_checkpoints_of_its_own_kind_only(tmp_path):
    made = models.GPT(models.GPTConfig(9, 5, 1, 2, 8), rng=1)
    checkpoints.save(tmp_path / "gpt", made)
    again = models.GPT.from_checkpoint(tmp_path / "gpt")
    for name, array in made.state_dict().items():
        np.testing.assert_array_equal(again.state_dict()[name], array)
    checkpoints.save(tmp_path / "llama", models.Llama(models.LlamaConfig(9, 5, 1, 2, 1, 8, 6), rng=1))
    with pytest.raises(CheckpointError, match="a Llama, not a GPT"):
        models.GPT.from_checkpoint(tmp_path / "llama")
    with pytest.raises(CheckpointError, match="cannot be read"):
        models.GPT.from_checkpoint(tmp_path / "absent")
