"""Training the driver: encoder and GPT on true reasoning, the expert on the paths that followed.

FOLDER/driving_*.safetensors   the weights, in half precision
FOLDER/training.safetensors    the state from which --resume goes on
FOLDER/loss.png                losses against steps

Every step sees scenes that no step saw before, so there is nothing to overfit. The losses are added up: the
words' cross-entropy trains encoder and GPT, flow matching trains the expert alone, for it reads a cache that
is cut off from the graph.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import minitx
import minitx.functional as F
from minitx.driving import scene
from minitx.driving.actions import SCALE, ego_actions
from minitx.driving.driver import Driver, DriverConfig, batch_of
from minitx.driving.features import Observation, observe
from minitx.driving.reasoning import write
from minitx.driving.weights import save_driver
from minitx.errors import CheckpointError
from minitx.graph import no_grad
from minitx.tensor import Tensor
from minitx.training import Recipe, Trainer, draw_losses, load_state, read_state, save_state
from minitx.training.state import differences

RECIPE = Recipe(
    steps=4000, batch=32, peak=2e-3, floor=5e-5, warmup=200, weight_decay=0.05, evaluate_every=500
)
FIRST_TRAINING_SEED = 1_000_000_000  # scenes below are held out: `minitx drive` shows and evaluates those
VALIDATION_SEEDS = range(900_000_000, 900_000_512)
CHUNK = 256  # scenes made at a time


@dataclass(frozen=True)
class Batch:
    """What a step learns from: B scenes as seen, their texts and what the ego car did."""

    seen: Observation
    ids: np.ndarray
    counts: np.ndarray
    actions: np.ndarray  # divided by SCALE
    noise_seed: tuple[int, int]

    def __getitem__(self, rows: slice) -> Batch:
        counts = self.counts[rows]
        ids = self.ids[rows, : int(counts.max())]
        return Batch(self.seen[rows], ids, counts, self.actions[rows], self.noise_seed)


def batch_from(seeds: range, noise_seed: tuple[int, int] = (0, 0)) -> Batch:
    """The scenes of these seeds, ready for training."""
    scenes = scene.generate(seeds)
    ids, counts = batch_of(write(scenes))
    return Batch(observe(scenes), ids, counts, ego_actions(scenes) / SCALE, noise_seed)


@functools.lru_cache(maxsize=2)
def _chunk(first: int) -> Batch:
    return batch_from(range(first, first + CHUNK))


def training_batch(step: int, size: int, seed: int = 0) -> Batch:
    """The batch of step 1, 2, ...: a function of step and seed alone, and of scenes of its own."""
    start = (step - 1) * size
    base = FIRST_TRAINING_SEED * (1 + seed)
    whole = start // CHUNK * CHUNK
    if start % CHUNK + size <= CHUNK:
        chunk = _chunk(base + whole)[start - whole : start - whole + size]
    else:
        chunk = batch_from(range(base + start, base + start + size))
    return Batch(chunk.seen, chunk.ids, chunk.counts, chunk.actions, (seed, step))


def losses(driver: Driver, batch: Batch) -> tuple[Tensor, Tensor]:
    """Cross-entropy of the words in nats a token, and the mean squared error of the expert's velocities."""
    logits, cache = driver.reasoner.read(batch.seen, batch.ids, batch.counts)
    real = np.arange(batch.ids.shape[1] - 1) < batch.counts[:, None] - 1
    targets = np.where(real, batch.ids[:, 1:], -100)
    words = F.cross_entropy(logits[:, :-1], targets)
    return words, driver.expert.loss(batch.actions, cache, rng=np.random.default_rng(batch.noise_seed))


def driving_loss(driver: Driver, batch: Batch) -> Tensor:
    """The sum of `losses`."""
    words, paths = losses(driver, batch)
    return words + paths


class DrivingTraining:
    """A training in its folder. Made by `begin` or `resume`; `training.fit` takes its methods."""

    def __init__(self, folder: Path, recipe: Recipe):
        self.folder, self.recipe = folder, recipe
        minitx.manual_seed(recipe.seed)
        self.model = Driver(DriverConfig())
        self.trainer = Trainer(self.model, recipe, driving_loss)

    @property
    def state_file(self) -> Path:
        return self.folder / "training.safetensors"

    @property
    def plot_file(self) -> Path:
        return self.folder / "loss.png"

    @classmethod
    def begin(cls, folder: Path, given: dict[str, Any], *, overwrite: bool = False) -> DrivingTraining:
        """A training at step 0: RECIPE with other values for the settings `given`.

        Raises ValueError where the folder holds a training already and is not to lose it, and for settings
        that cannot be; CheckpointError where the folder cannot be written.
        """
        training = cls(folder, recipe_with(given))
        if training.state_file.exists() and not overwrite:
            step = read_state(training.state_file)[1]["step"]
            raise ValueError(
                f"{folder} holds a training at step {step}. Go on with it (--resume), choose another folder "
                "(--out), or give it up (--overwrite)."
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"The folder {folder} cannot be made: {error.strerror}.") from None
        training.save(training.trainer)
        return training

    @classmethod
    def resume(cls, folder: Path, given: dict[str, Any] | None = None) -> DrivingTraining:
        """The training that the folder holds, at the step where it was saved; `given` must be its settings.

        Raises ValueError where there is none, and where it is another.
        """
        file = folder / "training.safetensors"
        if not file.exists():
            raise ValueError(f"{folder} holds no training to resume (no {file.name}).")
        arrays, facts = read_state(file)
        if facts["extra"].get("kind") != "driving":
            raise ValueError(f"{folder} holds the training of a text, not of the driving models.")
        saved = recipe_with(facts["recipe"])
        asked = recipe_with({**facts["recipe"], **(given or {})})
        if asked != saved:
            raise ValueError(
                f"{folder} holds another training: {differences(saved.as_dict(), asked.as_dict())}. Resume "
                "it without these options, or begin anew in another folder (--out)."
            )
        training = cls(folder, saved)
        load_state(training.trainer, arrays, facts)
        return training

    def batch(self, step: int) -> Batch:
        """The batch of a step: a function of seed and step."""
        return training_batch(step, self.recipe.batch, self.recipe.seed)

    def evaluation(self, model: Driver) -> float:
        """The loss on scenes that are never trained on."""
        with no_grad():
            whole = batch_from(VALIDATION_SEEDS, noise_seed=(0, 0))
            parts = [whole[first : first + 64] for first in range(0, len(whole.counts), 64)]
            return float(np.mean([driving_loss(model, part).item() for part in parts]))

    def save(self, trainer: Trainer) -> None:
        """Write state, models and picture, each atomically. Raises CheckpointError where one cannot be."""
        save_state(self.state_file, trainer, {"kind": "driving"})
        save_driver(self.folder, self.model)
        if trainer.train_losses:
            try:
                draw_losses(trainer, self.plot_file)
            except OSError as error:
                raise CheckpointError(f"{self.plot_file} could not be written: {error.strerror}") from None


def recipe_with(given: dict[str, Any]) -> Recipe:
    """RECIPE with other values for the names given. Raises ValueError for a name that it does not have."""
    fields = RECIPE.as_dict()
    unknown = [name for name in given if name not in fields]
    if unknown:
        raise ValueError(f"The training of the driving models has no setting {', '.join(unknown)}.")
    values = {**fields, **given}
    return Recipe(**{**values, "betas": tuple(values["betas"])})
