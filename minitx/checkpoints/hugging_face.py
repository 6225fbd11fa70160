"""A folder as Hugging Face lays it out: model.safetensors with a config.json beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from minitx.checkpoints.layout import Tensors, refuse_depth
from minitx.errors import CheckpointError

WEIGHTS = "model.safetensors"


def weights_file(path: Path) -> Path:
    """The file of weights that a path names: itself, or model.safetensors in that folder."""
    if not path.is_dir():
        return path
    if (path / WEIGHTS).exists():
        return path / WEIGHTS
    pieces = (
        "they are cut into several files, which is not read here" if list(path.glob("*.index.json")) else ""
    )
    there = ", ".join(sorted(entry.name for entry in path.iterdir())[:12]) or "nothing"
    raise CheckpointError(f"{path} holds no {WEIGHTS}{': ' + pieces if pieces else ''}. There is: {there}.")


def config_beside(file: Path) -> dict[str, Any] | None:
    """What the config.json beside a file of weights says; None where there is none."""
    return told_in(file.parent / "config.json")


def told_in(path: Path) -> dict[str, Any] | None:
    """The settings in a file of JSON; None where there is no such file."""
    if not path.exists():
        return None
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if not isinstance(told, dict):
        raise CheckpointError(f"{path} must hold settings by name, got {type(told).__name__}.")
    return told


def refuse_settings(file: Path, told: dict[str, Any], kind: str, fixed: dict[str, Any]) -> None:
    """Raise CheckpointError for another type of model, and for a setting that is not built here."""
    source = file.parent / "config.json"
    if told.get("model_type", kind) != kind:
        raise CheckpointError(f"{source} describes a model of type {told['model_type']!r}, not {kind!r}.")
    for name, value in fixed.items():
        if told.get(name, value) != value:
            raise CheckpointError(f"{source}: {name} is {told[name]!r}; only {value!r} is built here.")


def configure(kind: Any, settings: dict[str, Any], tensors: Tensors) -> Any:
    """The configuration `kind` of these settings, which CheckpointError refuses where they make no model."""
    source = tensors.source
    missing = [name for name, value in settings.items() if value is None and name not in ("d_ff", "n_types")]
    if missing:
        raise CheckpointError(f"The config.json of {source} does not give {', '.join(missing)}.")
    try:
        config = kind(**settings)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"The configuration of {source} makes no model: {error}") from error
    refuse_depth(config, tensors)
    return config
