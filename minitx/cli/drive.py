"""`minitx drive`: the driving models at work on a scene, and their figures on many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from minitx import terminal
from minitx.cli.app import app, notices, refuse, screen

if TYPE_CHECKING:
    from minitx.driving.evaluate import Drive

EXAMPLES = """Examples: minitx drive --seed 7 --out scene.png; minitx drive --evaluate 1000 --json;
minitx drive --seed 7 --say "therefore: keep the lane and slow down." """


@app.command(epilog=EXAMPLES)
def drive(
    seed: Annotated[int, typer.Option("--seed", "--scene", help="Which scene.", min=0)] = 7,
    out: Annotated[Path | None, typer.Option(help="Write the picture here (.png, .svg or .pdf).")] = None,
    say: Annotated[
        str | None, typer.Option(help="A reasoning that the expert reads in place of the model's own.")
    ] = None,
    evaluate: Annotated[
        int | None,
        typer.Option(help="Figures on so many scenes, from --seed on, none of them trained on.", min=1),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Folder with other weights: that of a training.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Show a scene: the model's reasoning, which of its claims are true, and the path that the expert drives.

    The errors of the path are distances in metres from what the ego car did, over 6.4 s.
    """
    from minitx.driving.train import FIRST_TRAINING_SEED
    from minitx.driving.weights import load_driver
    from minitx.errors import CheckpointError

    last = seed + (evaluate or 1) - 1
    if last >= FIRST_TRAINING_SEED:
        raise typer.BadParameter(
            f"Scenes from {FIRST_TRAINING_SEED} on are for training, and this asks for {last}."
        )
    if evaluate is not None and (out is not None or say is not None):
        raise typer.BadParameter("--evaluate goes with neither --out nor --say, which are about one scene.")
    try:
        driver = load_driver(weights)
    except CheckpointError as error:
        refuse(error)
    if evaluate is None:
        show(driver, seed, out, say, as_json)
    else:
        measure(driver, range(seed, seed + evaluate), as_json)


def show(driver: Any, seed: int, out: Path | None, say: str | None, as_json: bool) -> None:
    """One scene, in words and as a picture."""
    from minitx.driving import scene
    from minitx.driving.evaluate import drive as let_drive

    scenes = scene.generate([seed])
    try:
        one = let_drive(driver, scenes, texts=None if say is None else [say])[0]
    except ValueError as error:  # a word that the models do not know
        refuse(error)
    if out is not None:
        picture(out, scenes, one)
    if as_json:
        print(json.dumps(as_table(one, out), indent=1))
    else:
        tell(one, out)


def picture(out: Path, scenes: Any, one: Drive) -> None:
    from minitx.driving.picture import save

    try:
        save(out, scenes, one)
    except (OSError, ValueError) as error:
        refuse(f"The picture {out} could not be written: {error}")


def as_table(one: Drive, out: Path | None) -> dict[str, Any]:
    """A drive as JSON can hold it."""
    from minitx.driving.evaluate import summary

    return {
        "seed": one.seed,
        "reasoning": one.text,
        "claims": [{"claim": claim.claim, "verdict": str(claim.verdict)} for claim in one.claims],
        **{
            name: value
            for name, value in summary([one]).items()
            if name not in ("scenes", "whole_texts_true")
        },
        "path": one.path.round(3).tolist(),
        "true_path": one.true_path.round(3).tolist(),
        "acceleration": one.actions[:, 0].round(4).tolist(),
        "curvature": one.actions[:, 1].round(6).tolist(),
        "picture": None if out is None else str(out),
    }


def tell(one: Drive, out: Path | None) -> None:
    from minitx.driving.claims import Verdict
    from minitx.driving.evaluate import errors

    screen.print(f"Scene {one.seed}\n")
    screen.print(f"  {one.text}\n", soft_wrap=True)
    for claim in one.claims:
        screen.print(f"  {claim.verdict!s:<10}  {claim.claim}", soft_wrap=True)
    true = sum(claim.verdict == Verdict.true for claim in one.claims)
    screen.print(f"\n{true} of {len(one.claims)} claims are true ({one.truth:.0%}).")
    for name, path in (
        ("the expert's path", one.path),
        ("straight on at constant speed", one.straight),
        ("along the lane at constant speed", one.along),
    ):
        ade, fde = errors(path, one.true_path)
        screen.print(f"{name:<34} off by {ade:5.2f} m on average, {fde:5.2f} m after 6.4 s")
    if out is not None:
        screen.print(f"picture: {out}", soft_wrap=True)
    else:
        notices.print("--out scene.png draws it.")


def measure(driver: Any, seeds: range, as_json: bool) -> None:
    """The figures on many scenes."""
    from minitx.driving.evaluate import evaluate

    with terminal.progress_bar(notices) as bar:
        task = bar.add_task("driving scenes", total=len(seeds))
        figures = evaluate(driver, seeds, on_batch=lambda done: bar.update(task, completed=done))
    if as_json:
        print(json.dumps(figures, indent=1))
        return
    screen.print(f"{len(seeds)} scenes, {seeds[0]} to {seeds[-1]}, none of them trained on\n")
    screen.print(f"true claims                        {figures['truth']:7.1%}")
    screen.print(f"  the best text for every scene    {figures['constant_text_truth']:7.1%}")
    screen.print(f"texts without a wrong claim        {figures['whole_texts_true']:7.1%}")
    screen.print(f"paths that do what the text says   {figures['keeps_its_word']:7.1%}\n")
    screen.print("distance from the true path           mean   after 6.4 s")
    for name, label in (
        ("", "the expert"),
        ("constant_speed_", "straight on at constant speed"),
        ("along_lane_", "along the lane at constant speed"),
    ):
        screen.print(f"  {label:<33} {figures[f'{name}ade']:5.2f} m  {figures[f'{name}fde']:7.2f} m")
