"""The driver's three files of weights: where they lie, how they are written and read. Half precision."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from minitx.checkpoints.files import read_safetensors, write_safetensors
from minitx.driving.driver import Driver, DriverConfig
from minitx.driving.vocabulary import TOKENIZER
from minitx.errors import CheckpointError
from minitx.nn import Module

FOLDER = Path(__file__).parent.parent / "weights"  # of the package
FORMAT = "minitx driving"


def parts_of(driver: Driver) -> dict[str, tuple[str, Module]]:
    """File name -> the architecture that the file names, and the module whose weights it holds."""
    return {
        "driving_encoder.safetensors": ("SceneEncoder", driver.reasoner.encoder),
        "driving_gpt.safetensors": ("GPT", driver.reasoner.gpt),
        "driving_expert.safetensors": ("ActionExpert", driver.expert),
    }


def save_driver(folder: str | Path, driver: Driver) -> None:
    """Write the three files, each atomically.

    The GPT's is also what `minitx.checkpoints.load` reads. Raises CheckpointError where weights are not
    finite in half precision, before anything is written, or where a file cannot be written.
    """
    halves = {name: _in_half(Path(folder) / name, module) for name, (_, module) in parts_of(driver).items()}
    for name, (architecture, _) in parts_of(driver).items():
        config = driver.reasoner.gpt.config if architecture == "GPT" else driver.config
        metadata = {
            "format": "minitx" if architecture == "GPT" else FORMAT,
            "version": "1",
            "architecture": architecture,
            "config": json.dumps(config.as_dict()),
        }
        if architecture == "GPT":
            metadata["tokenizer"] = json.dumps(TOKENIZER.as_dict())
        write_safetensors(Path(folder) / name, halves[name], metadata)


def _in_half(path: Path, module: Module) -> dict[str, np.ndarray]:
    with np.errstate(over="ignore"):
        arrays = {key: array.astype(np.float16) for key, array in module.state_dict().items()}
    for key, array in arrays.items():
        if not np.isfinite(array).all():
            raise CheckpointError(f"Not saved to {path}: {key} is too large for half precision, or NaN.")
    return arrays


def load_driver(folder: str | Path | None = None) -> Driver:
    """The driver of a folder, by default the one that comes with minitx; in float32 and evaluation mode.

    Raises CheckpointError where a file is missing or damaged, or the files do not belong together.
    """
    place = FOLDER if folder is None else Path(folder)
    expert = place / "driving_expert.safetensors"
    if not expert.exists():
        raise CheckpointError(
            f"There are no weights of the driving models in {place}. Train them: minitx train --driving."
        )
    driver = Driver(_config(expert), rng=0)
    for name, (architecture, module) in parts_of(driver).items():
        arrays, metadata = read_safetensors(place / name)
        if metadata.get("architecture") != architecture:
            raise CheckpointError(f"{place / name} does not hold the weights of a {architecture}.")
        bad = [key for key, array in arrays.items() if not np.isfinite(array).all()]
        if bad:
            raise CheckpointError(f"{place / name}: {', '.join(bad)} holds NaN or infinity.")
        try:
            module.load_state_dict(arrays)
        except ValueError as error:
            raise CheckpointError(f"{place / name}: {error}") from None
    driver.eval()
    return driver


def _config(path: Path) -> DriverConfig:
    _, metadata = read_safetensors(path)
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"{path} holds no weights of an action expert that minitx has trained.")
    try:
        return DriverConfig(**json.loads(metadata["config"]))
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: its configuration makes no model: {error}") from None
