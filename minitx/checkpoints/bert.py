"""BERT's layout of weights, as Hugging Face and the sentence encoders built on it have it."""

from __future__ import annotations

import re
from pathlib import Path

from minitx.checkpoints.files import Arrays
from minitx.checkpoints.hugging_face import config_beside, configure, refuse_settings
from minitx.checkpoints.layout import Entry, filled, held, whole
from minitx.errors import CheckpointError
from minitx.models.bert import Bert, BertConfig

FIXED = {"position_embedding_type": "absolute", "hidden_act": "gelu", "is_decoder": False}


def make(file: Path, arrays: Arrays) -> Bert:
    """A Bert of arrays in BERT's layout that were read from `file`. See `models.Bert.from_checkpoint`."""
    told = config_beside(file)
    if told is None:
        raise CheckpointError(f"{file} needs a config.json beside it: the shapes do not tell a BERT's heads.")
    refuse_settings(file, told, "bert", FIXED)
    settings = {
        "vocab_size": told.get("vocab_size"),
        "context": told.get("max_position_embeddings"),
        "n_layers": told.get("num_hidden_layers"),
        "n_heads": told.get("num_attention_heads"),
        "d_model": told.get("hidden_size"),
        "d_ff": told.get("intermediate_size"),
        "n_types": told.get("type_vocab_size", 2),
        "dropout": told.get("hidden_dropout_prob", 0.0),
        "eps": told.get("layer_norm_eps", 1e-12),
    }
    tensors = held(file, arrays)
    config = configure(BertConfig, settings, tensors)
    prefix = "bert." if any(name.startswith("bert.") for name in arrays) else ""
    layout = layout_of(config, prefix)
    # What is trained for other tasks on top of the encoder, and a list of numbers 0, 1, 2, ...
    ignored = re.escape(prefix) + r"(pooler\..*|embeddings\.position_ids)|cls\..*"
    return filled(Bert, config, tensors, layout, ignored)


def layout_of(config: BertConfig, prefix: str = "") -> dict[str, Entry]:
    """BERT's names; its weights are (out, in), as ours."""
    d, ff = config.d_model, config.d_ff or 4 * config.d_model
    layout = {
        f"{prefix}embeddings.word_embeddings.weight": whole((config.vocab_size, d), "tokens.weight"),
        f"{prefix}embeddings.position_embeddings.weight": whole((config.context, d), "positions.weight"),
        f"{prefix}embeddings.token_type_embeddings.weight": whole((config.n_types, d), "types.weight"),
        f"{prefix}embeddings.LayerNorm.weight": whole((d,), "norm.weight"),
        f"{prefix}embeddings.LayerNorm.bias": whole((d,), "norm.bias"),
    }
    for i in range(config.n_layers):
        there, here = f"{prefix}encoder.layer.{i}", f"blocks.{i}"
        for theirs, ours, inside, out in (
            ("attention.self.query", "attention.q_proj", d, d),
            ("attention.self.key", "attention.k_proj", d, d),
            ("attention.self.value", "attention.v_proj", d, d),
            ("attention.output.dense", "attention.out_proj", d, d),
            ("intermediate.dense", "mlp.up", d, ff),
            ("output.dense", "mlp.down", ff, d),
        ):
            layout[f"{there}.{theirs}.weight"] = whole((out, inside), f"{here}.{ours}.weight")
            layout[f"{there}.{theirs}.bias"] = whole((out,), f"{here}.{ours}.bias")
        for theirs, ours in (("attention.output", "attention_norm"), ("output", "mlp_norm")):
            for part in ("weight", "bias"):
                layout[f"{there}.{theirs}.LayerNorm.{part}"] = whole((d,), f"{here}.{ours}.{part}")
    return layout
