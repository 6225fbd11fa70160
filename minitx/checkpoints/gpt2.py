"""GPT-2's layout of weights (Radford et al. 2019), with or without a config.json beside them."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from minitx.checkpoints.files import Arrays
from minitx.checkpoints.hugging_face import config_beside, configure, refuse_settings
from minitx.checkpoints.layout import Cut, Entry, Tensors, filled, held, whole
from minitx.errors import CheckpointError
from minitx.models import GPT, GPTConfig

ACTIVATIONS = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
}
# Settings of GPT-2 that change the numbers, and the one value that is built here.
FIXED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "tie_word_embeddings": True,
    "add_cross_attention": False,
}


def make(file: Path, arrays: Arrays, n_heads: int | None = None) -> GPT:
    """A GPT of arrays in GPT-2's layout that were read from `file`. See `models.GPT.from_checkpoint`."""
    prefix = "transformer." if any(name.startswith("transformer.") for name in arrays) else ""
    tensors = held(file, _without_tied_head(file, arrays, prefix))
    told = config_beside(file)
    config = _guessed(tensors, prefix, n_heads) if told is None else _told(file, told, tensors, n_heads)
    layout = layout_of(config, prefix)
    buffers = re.escape(prefix) + r"h\.\d+\.attn\.(bias|masked_bias)"  # the causal mask, as old files keep it
    return filled(GPT, config, tensors, layout, buffers)


def layout_of(config: GPTConfig, prefix: str = "") -> dict[str, Entry]:
    """GPT-2's names. Its weights are (in, out), ours (out, in); it has one matrix for q, k and v."""
    d, ff = config.d_model, config.d_ff or 4 * config.d_model
    layout = {
        f"{prefix}wte.weight": whole((config.vocab_size, d), "tokens.weight"),
        f"{prefix}wpe.weight": whole((config.context, d), "positions.weight"),
        f"{prefix}ln_f.weight": whole((d,), "norm.weight"),
        f"{prefix}ln_f.bias": whole((d,), "norm.bias"),
    }
    for i in range(config.n_layers):
        there, here = f"{prefix}h.{i}", f"blocks.{i}"
        fused = {f"{here}.attention.{x}_proj": _third(j, d) for j, x in enumerate("qkv")}
        layout[f"{there}.attn.c_attn.weight"] = Entry(
            (d, 3 * d), {f"{x}.weight": cut for x, cut in fused.items()}
        )
        layout[f"{there}.attn.c_attn.bias"] = Entry((3 * d,), {f"{x}.bias": cut for x, cut in fused.items()})
        for theirs, ours, inside, out in (
            ("attn.c_proj", "attention.out_proj", d, d),
            ("mlp.c_fc", "mlp.up", d, ff),
            ("mlp.c_proj", "mlp.down", ff, d),
        ):
            layout[f"{there}.{theirs}.weight"] = Entry((inside, out), {f"{here}.{ours}.weight": np.transpose})
            layout[f"{there}.{theirs}.bias"] = whole((out,), f"{here}.{ours}.bias")
        for theirs, ours in (("ln_1", "attention_norm"), ("ln_2", "mlp_norm")):
            layout[f"{there}.{theirs}.weight"] = whole((d,), f"{here}.{ours}.weight")
            layout[f"{there}.{theirs}.bias"] = whole((d,), f"{here}.{ours}.bias")
    if not config.bias:
        layout = {name: entry for name, entry in layout.items() if not name.endswith(".bias")}
    return layout


def _third(j: int, d: int) -> Cut:
    """Part j of three of the last axis, with the axes of a matrix exchanged."""
    return lambda array: array[..., j * d : (j + 1) * d].T


def _without_tied_head(file: Path, arrays: Arrays, prefix: str) -> Arrays:
    """The arrays without the head, which may be listed though it is the embeddings."""
    if "lm_head.weight" not in arrays:
        return arrays
    tokens = arrays.get(f"{prefix}wte.weight")
    if tokens is not None and not np.array_equal(arrays["lm_head.weight"], tokens):
        raise CheckpointError(
            f"{file}: lm_head.weight differs from {prefix}wte.weight. A GPT's head is its embeddings; a head "
            "of its own cannot be loaded."
        )
    return {name: array for name, array in arrays.items() if name != "lm_head.weight"}


def _has_biases(tensors: Tensors) -> bool:
    """Whether any layer has one; the causal mask, which is called bias too, has more axes."""
    return any(name.endswith(".bias") and len(shape) == 1 for name, shape in tensors.shapes.items())


def _told(file: Path, told: dict[str, Any], tensors: Tensors, n_heads: int | None) -> GPTConfig:
    """The configuration that config.json tells, all but the biases, of which it does not speak."""
    refuse_settings(file, told, "gpt2", FIXED)
    activation = told.get("activation_function", "gelu_new")
    if activation not in ACTIVATIONS:
        raise CheckpointError(
            f"{file.parent / 'config.json'}: the activation {activation!r} is not known here."
        )
    settings = {
        "vocab_size": told.get("vocab_size"),
        "context": told.get("n_positions", told.get("n_ctx")),
        "n_layers": told.get("n_layer"),
        "n_heads": told.get("n_head") if n_heads is None else n_heads,
        "d_model": told.get("n_embd"),
        "d_ff": told.get("n_inner"),
        "dropout": told.get("resid_pdrop", 0.0),
        "eps": told.get("layer_norm_epsilon", 1e-5),
    }
    choices = {"bias": _has_biases(tensors), "activation": ACTIVATIONS[activation]}
    return configure(GPTConfig, {**settings, **choices}, tensors)


def _guessed(tensors: Tensors, prefix: str, n_heads: int | None) -> GPTConfig:
    """The configuration that the shapes tell, all but the heads: 64 wide, as in every GPT-2."""
    shapes = tensors.shapes
    tokens, places = (shapes.get(f"{prefix}{name}.weight", ()) for name in ("wte", "wpe"))
    blocks = {match[1] for name in shapes if (match := re.match(re.escape(prefix) + r"h\.(\d+)\.", name))}
    if len(tokens) != 2 or len(places) != 2 or not blocks:
        some = ", ".join(sorted(shapes)[:8]) or "nothing"
        raise CheckpointError(
            f"{tensors.source} is neither a checkpoint of minitx nor in GPT-2's layout (wte.weight, "
            f"wpe.weight, h.0.ln_1.weight, ...). It holds: {some}."
        )
    d = tokens[1]
    if n_heads is None:
        if d % 64:
            raise CheckpointError(
                f"{tensors.source}: how many heads there are cannot be seen from the shapes, and there is no "
                "config.json beside it. Say it: GPT.from_checkpoint(path, n_heads=...)."
            )
        n_heads = d // 64
        warnings.warn(
            f"No config.json beside {tensors.source}: taken for {n_heads} heads of 64, as in every GPT-2. "
            "GPT.from_checkpoint(path, n_heads=...) says otherwise.",
            stacklevel=2,
        )
    inside = shapes.get(f"{prefix}h.0.mlp.c_fc.weight", (d, 4 * d))
    settings = {
        "vocab_size": tokens[0],
        "context": places[0],
        "n_layers": 1 + max(int(number) for number in blocks),
        "n_heads": n_heads,
        "d_model": d,
        "d_ff": inside[-1] if inside else None,
    }
    return configure(GPTConfig, {**settings, "bias": _has_biases(tensors)}, tensors)
