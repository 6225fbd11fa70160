"""minitx's own checkpoints: a safetensors file whose metadata says what model and tokenizer to make of it.

The metadata are text: format "minitx", version, architecture ("GPT"), and as JSON config, tokenizer and
extra.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minitx import models, tokenizers
from minitx.checkpoints.files import read_safetensors, write_safetensors
from minitx.checkpoints.layout import Tensors, build, checked, fill, held, whole
from minitx.errors import CheckpointError
from minitx.models.bert import Bert, BertConfig
from minitx.nn import Module
from minitx.wordpiece import WordPiece

FORMAT, VERSION = "minitx", 1

# Name in the file -> the model and its configuration. Nothing else is ever made of a file's words.
ARCHITECTURES: dict[str, tuple[Any, Any]] = {
    "GPT": (models.GPT, models.GPTConfig),
    "Llama": (models.Llama, models.LlamaConfig),
    "Bert": (Bert, BertConfig),
}


def save(
    path: str | os.PathLike[str],
    model: Module,
    *,
    tokenizer: Any = None,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Write model, tokenizer and what JSON can hold of `extra` to one safetensors file, atomically.

    `load` gives the same model and tokenizer again, bit for bit; `describe` gives `extra`.

    Raises CheckpointError, and leaves what was at `path`, for a model that no name is known for, weights
    that are NaN or infinite, a tokenizer that does not fit, or a place that cannot be written to.
    """
    architecture = type(model).__name__
    if type(model) is not ARCHITECTURES.get(architecture, (None,))[0]:
        raise CheckpointError(
            f"Checkpoints are made of {', '.join(ARCHITECTURES)}, got {architecture}. "
            "For arrays of your own there is write_safetensors."
        )
    config: Any = vars(model)["config"]
    arrays = {name: parameter._array for name, parameter in model.named_parameters()}
    for name, array in arrays.items():
        checked(f"Not saved to {path}", name, array)
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "architecture": architecture,
        "config": json.dumps(config.as_dict()),
    }
    if tokenizer is not None:
        check_vocabulary(str(path), tokenizer.vocab_size, config.vocab_size)
        metadata["tokenizer"] = json.dumps(tokenizer.as_dict())
    if extra is not None:
        metadata["extra"] = json.dumps(extra)
    write_safetensors(path, arrays, metadata)


def is_own(metadata: Mapping[str, str]) -> bool:
    """Whether these are the metadata of a checkpoint that `save` wrote."""
    return metadata.get("format") == FORMAT


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a checkpoint says of itself: architecture, config, and tokenizer and extra where it has them.

    Raises CheckpointError for a file that `save` did not write.
    """
    _, metadata = read_safetensors(path)
    return _told(path, metadata)


def make(
    path: str | os.PathLike[str], arrays: Mapping[str, Any], metadata: Mapping[str, str]
) -> tuple[Module, Any]:
    """The model and the tokenizer (None where there is none) of a file that `save` wrote."""
    told = _told(path, metadata)
    tensors = held(path, arrays)
    model = _model(told, tensors)
    names = {name: whole(parameter.shape, name) for name, parameter in model.named_parameters()}
    fill(model, tensors, names)
    tokenizer = None
    if "tokenizer" in told:
        tokenizer = _tokenizer(path, told["tokenizer"])
        check_vocabulary(str(path), tokenizer.vocab_size, vars(model)["config"].vocab_size)
    return model, tokenizer


def check_vocabulary(source: str, tokens: int, rows: int) -> None:
    """Raise CheckpointError unless the model has a row for every token, and at most some to fill up.

    Models are often given rows that no token uses, so that their number divides by 64 or 128.
    """
    if not tokens <= rows <= -(-tokens // 128) * 128:
        raise CheckpointError(
            f"{source}: the tokenizer has {tokens} tokens and the model {rows}: they do not belong together."
        )


def _told(path: str | os.PathLike[str], metadata: Mapping[str, str]) -> dict[str, Any]:
    if not is_own(metadata):
        raise CheckpointError(f"{path} is no checkpoint of minitx: its metadata do not say so.")
    version = metadata.get("version", "")
    if version != str(VERSION):
        raise CheckpointError(
            f"{path} has version {version or 'none'} of the format, and this minitx reads {VERSION}: "
            "it may come from a newer one."
        )
    architecture = metadata.get("architecture")
    if architecture not in ARCHITECTURES:
        raise CheckpointError(
            f"{path} holds a model called {architecture!r}; known are {', '.join(ARCHITECTURES)}."
        )
    told: dict[str, Any] = {"architecture": architecture}
    for key in ("config", "tokenizer", "extra"):
        if key in metadata:
            try:
                told[key] = json.loads(metadata[key])
            except (ValueError, RecursionError) as error:
                raise CheckpointError(f"{path}: the metadata {key} are no JSON ({error}).") from error
    if not isinstance(told.get("config"), dict):
        raise CheckpointError(f"{path}: the metadata lack the configuration of the model.")
    return told


def _model(told: dict[str, Any], tensors: Tensors) -> Module:
    model, config = ARCHITECTURES[told["architecture"]]
    try:
        settings = config(**told["config"])
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"The configuration in {tensors.source} makes no model: {error}") from error
    return build(model, settings, tensors)


def _tokenizer(path: str | os.PathLike[str], stored: Any) -> Any:
    try:
        if isinstance(stored, dict) and stored.get("kind") == WordPiece.kind:
            return WordPiece.from_dict(stored)
        return tokenizers.from_dict(stored)
    except (TypeError, KeyError, ValueError) as error:
        raise CheckpointError(f"{Path(path)}: its tokenizer cannot be read: {error}") from error
