"""A GPT trained on one text file, in one folder: what `minitx train` begins, saves and resumes.

FOLDER/model.safetensors      the weights with configuration and tokenizer: `minitx generate --model` takes it
FOLDER/training.safetensors   the state from which --resume goes on
FOLDER/loss.png               losses against steps
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import minitx
from minitx import checkpoints, kernels, tokenizers
from minitx.errors import CheckpointError
from minitx.models.gpt import GPT, GPTConfig
from minitx.training.data import Batch, TextData, validation_loss
from minitx.training.loop import Recipe, Trainer
from minitx.training.plot import draw_losses
from minitx.training.state import differences, load_state, read_state, save_state

WINDOWS = 2000  # of the validation split, spread evenly; all of it where it has fewer


@dataclass(frozen=True)
class Plan:
    """Everything that decides the result of a training, beside the text."""

    recipe: Recipe
    n_layers: int
    n_heads: int
    d_model: int
    context: int
    dropout: float = 0.0
    tokenizer: str = "char"
    vocab_size: int = 512  # of the BPE tokenizer; a character tokenizer has what the text has

    def as_dict(self) -> dict[str, Any]:
        """One flat table of names and values, as JSON can hold them."""
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "recipe"}
        if self.tokenizer == "char":
            del own["vocab_size"]
        return {**own, **self.recipe.as_dict()}

    def changed(self, given: dict[str, Any]) -> Plan:
        """The plan with other values for the names given. Raises ValueError for values that cannot be."""
        ours = {field.name for field in fields(self)}
        recipe = replace(self.recipe, **{name: value for name, value in given.items() if name not in ours})
        own = {name: value for name, value in given.items() if name in ours}
        return replace(self, recipe=recipe, **own)


# "cpu" is nanoGPT's recipe for a machine without a graphics card, "char" the one for a machine with.
CONFIGS = {
    "cpu": Plan(Recipe(steps=2000, batch=12), n_layers=4, n_heads=4, d_model=128, context=64),
    "char": Plan(Recipe(steps=5000, batch=64), n_layers=6, n_heads=6, d_model=384, context=256, dropout=0.2),
}


@dataclass(frozen=True)
class Text:
    """A text and what tells it from another."""

    path: Path
    characters: str
    sha256: str


def read_text(path: str | Path) -> Text:
    """The text of a UTF-8 file. Raises ValueError, with words for a person, where it cannot be read."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from None
    if not data:
        raise ValueError(f"{path} is empty: there is nothing to train on.")
    try:
        characters = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path} is not UTF-8 text: byte {error.start} (line {line}) is 0x{data[error.start]:02x}. "
            "Convert it, for instance from Latin-1: iconv -f latin1 -t utf-8 OLD > NEW."
        ) from None
    return Text(path, characters, hashlib.sha256(data).hexdigest())


class TextTraining:
    """A training in its folder. Made by `begin` or `resume`; `fit` takes its methods."""

    def __init__(self, folder: Path, plan: Plan, text: Text, config: str):
        self.folder, self.plan, self.text, self.config = folder, plan, text, config
        if plan.tokenizer == "char":
            self.tokenizer: Any = tokenizers.CharacterTokenizer(text.characters)
        else:
            self.tokenizer = tokenizers.ByteLevelBPE.train(text.characters, vocab_size=plan.vocab_size)
        self.data = TextData(self.tokenizer.encode(text.characters), plan.context)
        minitx.manual_seed(plan.recipe.seed)  # initial weights and dropout
        self.model = GPT(
            GPTConfig(
                vocab_size=self.tokenizer.vocab_size,
                context=plan.context,
                n_layers=plan.n_layers,
                n_heads=plan.n_heads,
                d_model=plan.d_model,
                dropout=plan.dropout,
            )
        )
        self.trainer = Trainer(self.model, plan.recipe)

    @property
    def model_file(self) -> Path:
        return self.folder / "model.safetensors"

    @property
    def state_file(self) -> Path:
        return state_file(self.folder)

    @property
    def plot_file(self) -> Path:
        return self.folder / "loss.png"

    @classmethod
    def begin(
        cls, folder: Path, text: Text, config: str, given: dict[str, Any], *, overwrite: bool = False
    ) -> TextTraining:
        """A training at step 0: the configuration `config`, with other values for the settings `given`.

        Raises ValueError where the folder holds a training already and is not to lose it, where the text is
        too short, and for settings that cannot be; CheckpointError where the folder cannot be written.
        """
        if state_file(folder).exists() and not overwrite:
            step = read_state(state_file(folder))[1]["step"]
            raise ValueError(
                f"{folder} holds a training at step {step}. Go on with it (--resume), choose another folder "
                "(--out), or give it up (--overwrite)."
            )
        training = cls(folder, CONFIGS[config].changed(given), text, config)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"The folder {folder} cannot be made: {error.strerror}.") from None
        training.save(training.trainer)  # at step 0: a folder that cannot be written says so now, not later
        return training

    @classmethod
    def resume(
        cls,
        folder: Path,
        given: dict[str, Any] | None = None,
        text: Text | None = None,
        config: str | None = None,
    ) -> TextTraining:
        """The training that the folder holds, at the step where it was saved.

        given: settings asked for once more; they must be those of the folder. text: by default the file that
        the training began with. Raises ValueError where text, configuration or settings are others.
        """
        if not state_file(folder).exists():
            raise ValueError(f"{folder} holds no training to resume (no {state_file(folder).name}).")
        arrays, facts = read_state(state_file(folder))
        if "plan" not in facts["extra"]:
            raise ValueError(f"{folder} holds no training on a text. Is it one with --driving?")
        plan = _plan_of(facts["extra"]["plan"])
        saved_config = facts["extra"]["config"]
        asked = (plan if config in (None, saved_config) else CONFIGS[config]).changed(given or {})
        if asked.as_dict() != plan.as_dict():
            raise ValueError(
                f"{folder} holds another training: {differences(plan.as_dict(), asked.as_dict())}. Resume it "
                "without these options, or begin anew in another folder (--out)."
            )
        text = read_text(facts["extra"]["text"]["path"]) if text is None else text
        if text.sha256 != facts["extra"]["text"]["sha256"]:
            raise ValueError(
                f"{text.path} is not the text that {folder} was trained on, which was "
                f"{facts['extra']['text']['path']}. Give that one, or begin anew in another folder (--out)."
            )
        training = cls(folder, plan, text, saved_config)
        if _as_json(training.tokenizer.as_dict()) != facts["extra"]["tokenizer"]:
            raise CheckpointError(f"The tokenizer made from {text.path} is not the one saved in {folder}.")
        load_state(training.trainer, arrays, facts)
        return training

    def batch(self, step: int) -> Batch:
        """The batch of a step: a function of seed and step."""
        return self.data.batch(step, self.plan.recipe.batch, self.plan.recipe.seed)

    def evaluation(self, model: GPT) -> float:
        """The loss of the validation split, or of WINDOWS windows of a long one."""
        return validation_loss(model, self.data, self.plan.recipe.batch, WINDOWS)

    def save(self, trainer: Trainer) -> None:
        """Write state, model and picture, each atomically. Raises CheckpointError where one cannot be."""
        facts = {
            "config": self.config,
            "plan": self.plan.as_dict(),
            "text": {"path": str(self.text.path.resolve()), "sha256": self.text.sha256},
            "tokenizer": _as_json(self.tokenizer.as_dict()),
            "backend": kernels.backend(),
        }
        save_state(self.state_file, trainer, facts)
        checkpoints.save(self.model_file, self.model, tokenizer=self.tokenizer)
        if trainer.train_losses:
            try:
                draw_losses(trainer, self.plot_file)
            except OSError as error:
                raise CheckpointError(f"{self.plot_file} could not be written: {error.strerror}") from None


def state_file(folder: Path) -> Path:
    return folder / "training.safetensors"


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _plan_of(stored: dict[str, Any]) -> Plan:
    own = {field.name for field in fields(Plan)}
    recipe = {name: value for name, value in stored.items() if name not in own}
    recipe["betas"] = tuple(recipe["betas"])
    return Plan(Recipe(**recipe), **{name: value for name, value in stored.items() if name in own})
