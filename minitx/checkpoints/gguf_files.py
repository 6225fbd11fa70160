"""GGUF files, as llama.cpp reads them: Llama-type models, quantised or not, with their tokenizer inside.

The weights become float32. llama.cpp keeps the rows of queries and keys in an order of its own, in which
rotary positions turn neighbours: the layout is "interleaved", whatever the model was trained with.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from minitx.checkpoints.files import readable
from minitx.checkpoints.layout import Entry, Tensors, filled, refuse_depth, whole
from minitx.errors import CheckpointError
from minitx.models import Llama, LlamaConfig
from minitx.tokenizers import ByteLevelBPE

MAGIC = b"GGUF"
ORDINARY = 1  # the type of a token that text is made of; 3 is a control token, 4 one that a user added
SPECIAL = (3, 4)
# llama.cpp's names for how text is cut into words.
DIGITS: dict[str, Literal["apart", "together"]] = {"smollm": "apart", "gpt-2": "together"}


def is_gguf(path: Path) -> bool:
    """Whether the file says that it is one."""
    with open(path, "rb") as file:
        return file.read(4) == MAGIC


def load_gguf(path: Path) -> tuple[Llama, ByteLevelBPE]:
    """The model and the tokenizer of a GGUF file of the architecture "llama".

    Raises CheckpointError where the package gguf is missing, for a file that is cut short or damaged, for
    another architecture or tokenizer, and naming every tensor that does not fit.
    """
    reader = _open(readable(path))
    facts = _Facts(path, reader)
    found = {tensor.name: tensor for tensor in reader.tensors}
    shapes = {name: tuple(int(n) for n in reversed(tensor.shape)) for name, tensor in found.items()}
    tensors = Tensors(str(path), shapes, lambda name: _unpacked(path, found[name]))
    config = _config(facts, shapes)
    refuse_depth(config, tensors)
    tokenizer = _tokenizer(facts)
    if tokenizer.vocab_size != config.vocab_size:
        raise CheckpointError(
            f"{path}: the tokenizer has {tokenizer.vocab_size} tokens and the model {config.vocab_size}: "
            "they do not belong together."
        )
    return filled(Llama, config, tensors, layout_of(config)), tokenizer


def layout_of(config: LlamaConfig) -> dict[str, Entry]:
    """GGUF's names for a Llama's weights, (out, in) as ours."""
    d, ff = config.d_model, config.d_ff
    head_dim = config.head_dim or d // config.n_heads
    q, kv = config.n_heads * head_dim, config.n_kv_heads * head_dim
    layout = {
        "token_embd.weight": whole((config.vocab_size, d), "tokens.weight"),
        "output_norm.weight": whole((d,), "norm.weight"),
    }
    if not config.tied:
        layout["output.weight"] = whole((config.vocab_size, d), "head.weight")
    for i in range(config.n_layers):
        for theirs, ours, shape in (
            ("attn_norm", "attention_norm", (d,)),
            ("attn_q", "attention.q_proj", (q, d)),
            ("attn_k", "attention.k_proj", (kv, d)),
            ("attn_v", "attention.v_proj", (kv, d)),
            ("attn_output", "attention.out_proj", (d, q)),
            ("ffn_norm", "mlp_norm", (d,)),
            ("ffn_gate", "mlp.gate", (ff, d)),
            ("ffn_up", "mlp.up", (ff, d)),
            ("ffn_down", "mlp.down", (d, ff)),
        ):
            layout[f"blk.{i}.{theirs}.weight"] = whole(shape, f"blocks.{i}.{ours}.weight")
    return layout


class _Facts:
    """The metadata of a file; one that is missing or damaged is named."""

    def __init__(self, path: Path, reader: Any):
        self.path, self._fields = path, reader.fields

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self._fields:
            return default
        try:
            return self._fields[name].contents()
        except (ValueError, IndexError, TypeError) as error:
            raise CheckpointError(f"{self.path}: {name} cannot be read: {error}") from error

    def need(self, name: str) -> Any:
        value = self.get(name)
        if value is None:
            raise CheckpointError(f"{self.path} lacks {name}, which is needed to build the model.")
        return value


@cache
def _reader() -> Any:
    """gguf's reader, quicker and with an end: it looks at a file through plain arrays, and not beyond it."""
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise CheckpointError(
            f"Reading a GGUF file needs the package gguf ({error}): pip install 'minitx[weights]'."
        ) from error

    class Reader(GGUFReader):
        @property
        def data(self) -> np.ndarray:
            return self._plain

        @data.setter
        def data(self, mapped: np.ndarray) -> None:
            self._plain = np.asarray(mapped)  # a slice of a memmap costs three times a slice of an array

        def _get(self, offset: int, dtype: Any, count: int = 1, *rest: Any, **options: Any) -> Any:
            array = super()._get(offset, dtype, count, *rest, **options)
            if array.size != int(count):
                raise ValueError("it ends in the middle of what it announces")
            return array

    return Reader


def _open(path: Path) -> Any:
    reader = _reader()
    if not is_gguf(path):
        raise CheckpointError(f"{path} is no GGUF file: it does not begin with {MAGIC.decode()}.")
    try:
        return reader(path)
    except (
        ValueError,
        IndexError,
        KeyError,
        TypeError,
        OSError,
        OverflowError,
        MemoryError,
        RecursionError,
    ) as error:
        raise CheckpointError(
            f"{path} ({path.stat().st_size:,} bytes) is no whole GGUF file: {error}. It may be cut short by "
            "an interrupted download or copy: fetch it again."
        ) from error


def _config(facts: _Facts, shapes: dict[str, tuple[int, ...]]) -> LlamaConfig:
    architecture = facts.need("general.architecture")
    if architecture != "llama":
        raise CheckpointError(
            f"{facts.path} holds a model of the architecture {architecture!r}; only llama is read."
        )
    n_layers, n_heads = facts.need("llama.block_count"), facts.need("llama.attention.head_count")
    d_model = facts.need("llama.embedding_length")
    settings = {
        "vocab_size": shapes.get("token_embd.weight", (0,))[0],
        "context": facts.need("llama.context_length"),
        "n_layers": n_layers,
        "n_heads": n_heads,
        "n_kv_heads": facts.get("llama.attention.head_count_kv", n_heads),
        "d_model": d_model,
        "d_ff": facts.need("llama.feed_forward_length"),
        "rope_base": facts.get("llama.rope.freq_base", 10000.0),
        "rope_layout": "interleaved",
        "tied": "output.weight" not in shapes,
        "eps": facts.need("llama.attention.layer_norm_rms_epsilon"),
        "head_dim": facts.get("llama.attention.key_length"),
    }
    try:
        config = LlamaConfig(**settings)
        head_dim = config.head_dim or d_model // n_heads
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"The metadata of {facts.path} make no model: {error}") from error
    if facts.get("llama.rope.dimension_count", head_dim) != head_dim:
        raise CheckpointError(f"{facts.path} turns a part of each head only, which is not built here.")
    if facts.get("llama.rope.scaling.type", "none") != "none":
        raise CheckpointError(f"{facts.path} stretches its rotary positions, which is not built here.")
    return config


def _tokenizer(facts: _Facts) -> ByteLevelBPE:
    kind, cut = facts.need("tokenizer.ggml.model"), facts.get("tokenizer.ggml.pre", "gpt-2")
    if kind != "gpt2" or cut not in DIGITS:
        raise CheckpointError(
            f"{facts.path} has the tokenizer {kind!r} with {cut!r}; what is read is 'gpt2' with "
            f"{' or '.join(DIGITS)}."
        )
    tokens, types = facts.need("tokenizer.ggml.tokens"), facts.need("tokenizer.ggml.token_type")
    merges = facts.need("tokenizer.ggml.merges")
    if len(types) != len(tokens):
        raise CheckpointError(f"{facts.path} has {len(tokens)} tokens, but types for {len(types)}.")

    def marker(name: str) -> str | None:
        number = facts.get(f"tokenizer.ggml.{name}_token_id")
        return tokens[number] if number is not None and number < len(tokens) else None

    try:
        return ByteLevelBPE(
            tokens,
            [tuple(pair.split(" ")) for pair in merges],
            [token for token, kind in zip(tokens, types, strict=True) if kind in SPECIAL],
            digits=DIGITS[cut],
            beginning_of_text=marker("bos"),
            end_of_text=marker("eos"),
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{facts.path}: its tokenizer cannot be used: {error}") from error


def _unpacked(path: Path, tensor: Any) -> np.ndarray:
    """The numbers of a tensor as floats."""
    from gguf import quants

    try:
        return quants.dequantize(tensor.data, tensor.tensor_type)
    except (NotImplementedError, ValueError) as error:
        raise CheckpointError(
            f"{path}: tensor {tensor.name} is packed as {tensor.tensor_type.name}, which gguf cannot unpack "
            f"({error})."
        ) from error
