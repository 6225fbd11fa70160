"""BERT's layout and forward pass against PyTorch's own functions, and texts as vectors."""

import json
import subprocess
import sys

import numpy as np
import pytest

import minitx
from minitx import checkpoints, models
from minitx.checkpoints import CheckpointError
from minitx.embedding import padded, sentence_vectors
from minitx.errors import DtypeError
from minitx.wordpiece import WordPiece

VOCABULARY, CONTEXT, LAYERS, HEADS, D, INNER, TYPES = 29, 12, 2, 3, 18, 40, 2
IDS, LENGTHS = [[2, 9, 28, 7, 3], [2, 11, 3, 0, 0], [2, 5, 6, 3, 0]], [5, 3, 4]


def weights(prefix=""):
    """Random weights by the names of Hugging Face's BERT."""
    torch = pytest.importorskip("torch")
    dice = torch.Generator().manual_seed(2)

    def drawn(*shape, around=0.0):
        return around + 0.3 * torch.randn(*shape, generator=dice)

    tables = {"word": VOCABULARY, "position": CONTEXT, "token_type": TYPES}
    state = {f"embeddings.{name}_embeddings.weight": drawn(n, D) for name, n in tables.items()}
    norms = ["embeddings.LayerNorm"]
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}"
        for name, inside, out in (
            ("attention.self.query", D, D),
            ("attention.self.key", D, D),
            ("attention.self.value", D, D),
            ("attention.output.dense", D, D),
            ("intermediate.dense", D, INNER),
            ("output.dense", INNER, D),
        ):
            state |= {f"{layer}.{name}.weight": drawn(out, inside), f"{layer}.{name}.bias": drawn(out)}
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    for name in norms:
        state |= {f"{name}.weight": drawn(D, around=1.0), f"{name}.bias": drawn(D)}
    return {prefix + name: tensor for name, tensor in state.items()}


def reference(state, ids, lengths, heads, eps=1e-12, types=None):
    """BERT's hidden states in float64, attention by F.multi_head_attention_forward; state as in the file."""
    torch = pytest.importorskip("torch")
    T = torch.nn.functional
    w = {name.removeprefix("bert."): tensor.double() for name, tensor in state.items()}
    ids = torch.as_tensor(ids)
    types = torch.zeros_like(ids) if types is None else torch.as_tensor(types)
    padding = torch.arange(ids.shape[1]) >= torch.as_tensor(lengths)[:, None]  # True = hidden

    def norm(x, name):
        return T.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"], eps)

    def dense(x, name):
        return T.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][types]
    x = norm(x + w["embeddings.position_embeddings.weight"][: ids.shape[1]], "embeddings.LayerNorm")
    depth = 1 + max(int(name.split(".")[2]) for name in w if name.startswith("encoder"))
    for i in range(depth):
        own, out = f"encoder.layer.{i}.attention.self", f"encoder.layer.{i}.attention.output"
        projections = [f"{own}.{name}" for name in ("query", "key", "value")]
        flipped = x.transpose(0, 1)  # (n, B, d)
        y, _ = T.multi_head_attention_forward(
            flipped,
            flipped,
            flipped,
            x.shape[-1],
            heads,
            torch.cat([w[f"{name}.weight"] for name in projections]),
            torch.cat([w[f"{name}.bias"] for name in projections]),
            None,
            None,
            False,
            0.0,
            w[f"{out}.dense.weight"],
            w[f"{out}.dense.bias"],
            training=False,
            key_padding_mask=padding,
            need_weights=False,
        )
        x = norm(x + y.transpose(0, 1), f"{out}.LayerNorm")
        y = dense(
            T.gelu(dense(x, f"encoder.layer.{i}.intermediate.dense")), f"encoder.layer.{i}.output.dense"
        )
        x = norm(x + y, f"encoder.layer.{i}.output.LayerNorm")
    return x.numpy()


def pooled(hidden, lengths):
    """Mean over the real tokens, over its length: row by row, with NumPy."""
    means = np.stack([row[:length].mean(axis=0) for row, length in zip(hidden, lengths, strict=True)])
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def config(**changes):
    return {
        "model_type": "bert",
        "vocab_size": VOCABULARY,
        "max_position_embeddings": CONTEXT,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "hidden_size": D,
        "intermediate_size": INNER,
        "type_vocab_size": TYPES,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        **changes,
    }


def folder(tmp_path, state, told=None):
    save_file = pytest.importorskip("safetensors.torch").save_file
    save_file(state, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config() if told is None else told))
    return tmp_path


def small(**options):
    sizes = {"d_ff": INNER, **options}
    return models.Bert(models.BertConfig(VOCABULARY, CONTEXT, LAYERS, HEADS, D, **sizes), rng=6)


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_hidden_states_are_those_of_pytorch(tmp_path, prefix):
    state = weights(prefix)
    model = models.Bert.from_checkpoint(folder(tmp_path, state))
    hidden = model(np.array(IDS), lengths=np.array(LENGTHS)).numpy()
    expected = reference(state, IDS, LENGTHS, HEADS)
    assert hidden.dtype == np.float32
    for row, wanted, length in zip(hidden, expected, LENGTHS, strict=True):
        np.testing.assert_allclose(row[:length], wanted[:length], rtol=1e-4, atol=1e-4)
    vectors = model.sentence_vectors(np.array(IDS), lengths=LENGTHS).numpy()
    np.testing.assert_allclose(vectors, pooled(expected, LENGTHS), rtol=1e-4, atol=1e-5)


def test_sentences_of_a_pair_have_types_and_the_eps_is_that_of_the_configuration(tmp_path):
    state, types = weights(), [[0, 0, 1, 1, 1], [0, 1, 1, 0, 0], [1, 0, 1, 0, 0]]
    model = models.Bert.from_checkpoint(folder(tmp_path, state, config(layer_norm_eps=0.5)))
    expected = reference(state, IDS, [5, 5, 5], HEADS, eps=0.5, types=types)
    hidden = model(np.array(IDS), types=np.array(types)).numpy()
    np.testing.assert_allclose(hidden, expected, rtol=1e-4, atol=1e-4)


def test_what_other_tasks_put_on_top_is_passed_over_and_the_rest_is_named(tmp_path):
    torch = pytest.importorskip("torch")
    state = weights()
    state["pooler.dense.weight"], state["cls.predictions.bias"] = torch.zeros(D, D), torch.zeros(VOCABULARY)
    state["embeddings.position_ids"] = torch.arange(CONTEXT)[None]
    models.Bert.from_checkpoint(folder(tmp_path, state))
    del state["encoder.layer.1.output.dense.bias"]
    state["decoder.weight"] = torch.zeros(2, 2)
    with pytest.raises(CheckpointError) as caught:
        models.Bert.from_checkpoint(folder(tmp_path, state))
    assert "missing: encoder.layer.1.output.dense.bias (18,)" in str(caught.value)
    assert "unexpected: decoder.weight (2, 2)" in str(caught.value)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"position_embedding_type": "relative_key"}, "relative_key"),
        ({"hidden_act": "relu"}, "hidden_act is 'relu'"),
        ({"num_attention_heads": 4}, "does not divide"),
        ({"num_hidden_layers": None}, "n_layers"),
        ({"num_hidden_layers": "6"}, "n_layers"),
        ({"vocab_size": 30}, "expected (30, 18), got (29, 18)"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(tmp_path, told, words):
    with pytest.raises(CheckpointError) as caught:
        models.Bert.from_checkpoint(folder(tmp_path, weights(), config(**told)))
    assert words in str(caught.value)


def test_a_folder_of_a_bert_needs_its_configuration_and_a_vocabulary_that_fits(tmp_path):
    folder(tmp_path, weights())
    assert checkpoints.load(tmp_path)[1] is None
    pieces = ["[UNK]", "[CLS]", "[SEP]", *(f"x{i}" for i in range(VOCABULARY - 3))]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    assert checkpoints.load(tmp_path)[1].pieces == pieces
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    with pytest.raises(CheckpointError, match="do_lower_case"):
        checkpoints.load(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "vocab.txt").write_text("\n".join([*pieces, "more"]))
    with pytest.raises(CheckpointError, match="30 tokens and the model 29"):
        checkpoints.load(tmp_path)
    (tmp_path / "vocab.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(CheckpointError, match=r"vocab\.txt"):
        checkpoints.load(tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(CheckpointError, match="GPT-2's layout"):
        checkpoints.load(tmp_path)


def test_padding_changes_no_vector(rng):
    model = small().eval()
    ids = rng.integers(0, VOCABULARY, (2, 4))
    alone = model.sentence_vectors(ids).numpy()
    for filler in (0, 17):
        wide = np.full((2, CONTEXT), filler)
        wide[:, :4] = ids
        np.testing.assert_allclose(model.sentence_vectors(wide, lengths=4).numpy(), alone, atol=1e-6)
    assert np.abs(model.sentence_vectors(wide).numpy() - alone).max() > 1e-3


def test_gradients_reach_every_parameter_in_float64(rng):
    model = models.Bert(models.BertConfig(5, 4, 1, n_heads=1, d_model=4, d_ff=3), rng=1)
    taught = dict(model.named_parameters())
    for parameter in model.parameters():
        parameter._array = 0.5 * rng.standard_normal(parameter.shape)
    ids, lengths = np.array([[1, 4, 2], [3, 0, 0]]), np.array([3, 1])
    target = rng.standard_normal((2, 4))

    def loss(*tensors):
        for tensor, name in zip(tensors, taught, strict=True):
            _replace(model, name, tensor)
        return (model.sentence_vectors(ids, lengths=lengths) * target).sum()

    minitx.check_gradients(loss, *(parameter.numpy() for parameter in taught.values()))


def _replace(model, name, tensor):
    """Put a tensor where the parameter `name` is."""
    *path, last = name.split(".")
    place = model
    for step in path:
        place = place[int(step)] if step.isdigit() else getattr(place, step)
    setattr(place, last, tensor)


@pytest.mark.parametrize(
    ("ids", "options", "error", "words"),
    [
        ([1, 2], {}, ValueError, r"\(B, n\).*ids\[None\]"),
        ([[]], {}, ValueError, r"\(B, n\)"),
        ([[0.5, 1.0]], {}, DtypeError, "integers"),
        ([[1, VOCABULARY]], {}, IndexError, "29"),
        ([[1] * 13], {}, ValueError, "13 tokens are more than the context of 12"),
        ([[1, 2]], {"types": np.array([[0, 2]])}, IndexError, "2"),
        ([[1, 2]], {"types": np.array([[0]])}, ValueError, "types"),
        ([[1, 2]], {"lengths": np.array([3])}, ValueError, r"0 \.\.\. n = 2"),
        ([[1, 2]], {"lengths": np.array([1, 2])}, ValueError, "lengths"),
        ([[1, 2]], {"lengths": np.array([1.0])}, ValueError, "integers"),
    ],
)
def test_wrong_input_is_refused(ids, options, error, words):
    with pytest.raises(error, match=words):
        small()(np.array(ids), **options)


def test_a_row_without_a_token_has_no_mean():
    with pytest.raises(ValueError, match="without any token"):
        small().sentence_vectors(np.array([[1, 2], [3, 4]]), lengths=np.array([2, 0]))


@pytest.mark.parametrize(("name", "value"), [("n_layers", 0), ("d_model", -4), ("vocab_size", 2.5)])
def test_sizes_that_make_no_model_are_refused(name, value):
    sizes = {"vocab_size": 5, "context": 4, "n_layers": 1, "n_heads": 1, "d_model": 4, name: value}
    with pytest.raises(ValueError, match=name):
        models.BertConfig(**sizes)


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b", "c", *(f"w{i}" for i in range(VOCABULARY - 7))]


def test_a_text_has_the_same_vector_in_every_batch():
    model, tokenizer = small(dropout=0.5), WordPiece(WORDS)
    texts = ["a", "", "ab c w1 w2 w3", "c c c", "w9 " * 50, "w5 w6", "a"]
    told = []
    vectors = sentence_vectors(model, tokenizer, texts, batch=3, max_length=CONTEXT, progress=told.append)
    assert model.training
    assert told == [3, 3, 1]
    for text, vector in zip(texts, vectors, strict=True):
        ids, lengths = padded([tokenizer.encode(text, CONTEXT)])
        np.testing.assert_allclose(
            vector, model.eval().sentence_vectors(ids, lengths=lengths).numpy()[0], atol=1e-6
        )
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    assert sentence_vectors(model, tokenizer, [], max_length=CONTEXT).shape == (0, D)


def test_wrong_texts_are_refused():
    with pytest.raises(TypeError, match="sequence of strings"):
        sentence_vectors(small(), WordPiece(WORDS), "a")
    with pytest.raises(ValueError, match="context of 12"):
        sentence_vectors(small(), WordPiece(WORDS), ["a"], max_length=13)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    path = tmp_path_factory.mktemp("encoder") / "small.safetensors"
    config = models.BertConfig(VOCABULARY, 300, LAYERS, HEADS, D, d_ff=INNER)
    checkpoints.save(path, models.Bert(config, rng=6), tokenizer=WordPiece(WORDS))
    return path


def run(*arguments, given=None):
    return subprocess.run(
        [sys.executable, "-m", "minitx.cli", "embed", *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        input=given,
    )


def test_the_command_prints_the_matrix(encoder):
    model, tokenizer = checkpoints.load(encoder)
    texts = ["a c", "w1 \x1b[31m w2", "ab"]
    vectors = sentence_vectors(model, tokenizer, texts)
    done = run(*texts, "--model", encoder)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    rows = [line.split()[-3:] for line in done.stdout.splitlines()[1:]]
    np.testing.assert_allclose(np.array(rows, float), vectors @ vectors.T, atol=6e-5)


def test_the_command_as_json_reads_a_file_and_says_what_it_cut(encoder, tmp_path):
    lines = ["a c", "", "w1 " * 400, "  ab  "]
    (tmp_path / "lines.txt").write_text("\n".join(lines), encoding="utf-8")
    done = run("c", "--file", tmp_path / "lines.txt", "--model", encoder, "--json", "--vectors")
    told = json.loads(done.stdout)
    assert told["texts"] == ["c", "a c", ("w1 " * 400).strip(), "ab"]
    assert "Text 3 has 402 tokens: the first 256 are read." in done.stderr
    vectors = np.array(told["vectors"])
    np.testing.assert_allclose(told["similarities"], vectors @ vectors.T, atol=2e-6)


def test_the_command_names_the_nearest_where_a_matrix_is_too_wide(encoder):
    done = run("--file", "-", "--model", encoder, given="\n".join(f"w{i % 18} a c" for i in range(19)))
    lines = done.stdout.splitlines()
    assert len(lines) == 20
    assert lines[1].split() == ["1", "w0", "a", "c", "1.0000", "19", "w0", "a", "c"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "Give texts"),
        (["a", "--vectors"], 2, "--json"),
        (["a", " "], 1, "Text 2 is empty"),
        (["a", "--file", "absent"], 1, "absent cannot be read"),
        (["a", "--model", "minlm"], 1, "Is minilm meant?"),
    ],
)
def test_wrong_use_of_the_command_is_explained(arguments, code, words):
    done = run(*arguments)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_refuses_what_is_no_encoder_and_no_text(encoder, tmp_path):
    checkpoints.save(tmp_path / "gpt", models.GPT(models.GPTConfig(9, 5, 1, 2, 8), rng=1))
    done = run("a", "--model", tmp_path / "gpt")
    assert (done.returncode, "holds a GPT, which writes text" in done.stderr) == (1, True)
    checkpoints.save(tmp_path / "bert", small())
    done = run("a", "--model", tmp_path / "bert")
    assert (done.returncode, "no vocab.txt" in done.stderr) == (1, True)
    (tmp_path / "bytes").write_bytes(b"ok\n\xff\xfe")
    done = run("--file", tmp_path / "bytes", "--model", encoder)
    assert (done.returncode, "is not UTF-8 text: byte 0xFF at place 3" in done.stderr) == (1, True)
