"""The state of a training in one file: with it, an interrupted run ends bit for bit as if it had not been.

The file holds the weights too, though the model's own checkpoint has them: two files cannot be replaced at
one moment, and a run that dies between the two must not go on from halves that do not belong together.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from minitx import randomness
from minitx.checkpoints.files import read_safetensors, write_safetensors
from minitx.errors import CheckpointError
from minitx.nn.module import Module
from minitx.training.loop import Diverged, Trainer

KIND = "minitx training state"
VERSION = 1


def save_state(path: str | Path, trainer: Trainer, extra: dict[str, Any] | None = None) -> None:
    """Write weights, AdamW's moments, step, losses and the random generators, atomically.

    `extra`: what JSON can hold, given back by `read_state`. Raises Diverged where a parameter is not finite,
    and CheckpointError where the file cannot be written; the file that was there is then as it was.
    """
    arrays: dict[str, np.ndarray] = {}
    counts: dict[str, int] = {}
    for name, parameter in trainer.model.named_parameters():
        array = parameter._array
        if not np.isfinite(array).all():
            raise Diverged(f"After step {trainer.step} the parameter {name} holds NaN or infinity.")
        arrays[f"weights/{name}"] = array
        moments = trainer.optimizer.state[id(parameter)]
        if moments:
            counts[name] = moments["t"]
            arrays[f"mean/{name}"], arrays[f"square/{name}"] = moments["mean"], moments["square"]
    arrays["losses/train"] = np.array(trainer.train_losses, np.float64)
    evaluated = sorted(trainer.validation_losses.items())
    arrays["losses/validation"] = np.array(evaluated, np.float64).reshape(-1, 2)
    facts = {
        "step": trainer.step,
        "recipe": trainer.recipe.as_dict(),
        "moment_steps": counts,
        "generators": [generator.bit_generator.state for generator in generators(trainer.model)],
        "extra": extra or {},
    }
    metadata = {"kind": KIND, "version": str(VERSION), "state": json.dumps(facts, default=np.ndarray.tolist)}
    write_safetensors(path, arrays, metadata)


def read_state(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and facts of a state file, for `load_state`; raises CheckpointError where it is none."""
    arrays, metadata = read_safetensors(path)
    if metadata.get("kind") != KIND:
        raise CheckpointError(f"{path} holds no state of a training (a model's checkpoint, perhaps).")
    if metadata.get("version") != str(VERSION):
        raise CheckpointError(
            f"{path} was written by another version of minitx (format {metadata.get('version')}, here "
            f"{VERSION}); its training cannot be resumed."
        )
    return arrays, json.loads(metadata["state"])


def load_state(trainer: Trainer, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> None:
    """Put a trainer where `save_state` found it. Raises ValueError, naming what differs, before a change."""
    if facts["recipe"] != trainer.recipe.as_dict():
        raise ValueError(
            f"The state belongs to another recipe: {differences(facts['recipe'], trainer.recipe.as_dict())}."
        )
    found = generators(trainer.model)
    if len(found) != len(facts["generators"]):
        raise ValueError(
            f"The state holds {len(facts['generators'])} random generators, the model {len(found)}."
        )
    weights = {name.removeprefix("weights/"): a for name, a in arrays.items() if name.startswith("weights/")}
    trainer.model.load_state_dict(weights)
    for name, parameter in trainer.model.named_parameters():
        moments: dict[str, Any] = {}
        if name in facts["moment_steps"]:
            moments["t"] = facts["moment_steps"][name]
            moments["mean"] = np.array(arrays[f"mean/{name}"], parameter.dtype)
            moments["square"] = np.array(arrays[f"square/{name}"], parameter.dtype)
        trainer.optimizer.state[id(parameter)] = moments
    for generator, state in zip(found, facts["generators"], strict=True):
        generator.bit_generator.state = state
    trainer.step = facts["step"]
    trainer.train_losses = arrays["losses/train"].tolist()
    trainer.validation_losses = {int(step): float(loss) for step, loss in arrays["losses/validation"]}


def generators(model: Module) -> list[np.random.Generator]:
    """Every random generator that a step may draw from, each once: the common one, then the modules' own."""
    found = [randomness.generator()]
    for module in model.modules():
        for value in vars(module).values():
            if isinstance(value, np.random.Generator) and not any(value is one for one in found):
                found.append(value)
    return found


def differences(saved: dict[str, Any], asked: dict[str, Any]) -> str:
    """The entries that differ, for a message: `steps was 2000, now 500`."""
    keys = [key for key in {**saved, **asked} if saved.get(key) != asked.get(key)]
    return "; ".join(f"{key} was {saved.get(key)}, now {asked.get(key)}" for key in keys)
