"""`autograder demo`: the main job, end to end, on a made-up class."""

from __future__ import annotations

import io
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autograder.cli.app import (
    JobsOption,
    JsonOption,
    SolutionsOption,
    app,
    name_of,
    notices,
    screen,
    show,
    solutions_folder,
    table_of,
)
from autograder.cli.grade import export, graded
from minitx import terminal

if TYPE_CHECKING:
    from autograder.assessing import Result


@app.command(epilog="Example: autograder demo --course my-course")
def demo(
    course: Annotated[
        Path | None,
        typer.Option("--course", help="Make the course in this new or empty folder.", metavar="DIR"),
    ] = None,
    solutions: SolutionsOption = None,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
    svg: Annotated[
        Path | None, typer.Option("--svg", help="Draw the table as a picture, too.", metavar="FILE")
    ] = None,
) -> None:
    """Release a unit, hand in a small class of right, wrong, hostile and mangled notebooks, and grade it."""
    from autograder import demo as demo_class
    from autograder.course import Course
    from autograder.release import build, release

    unit = "attention"
    folder = course or Path(tempfile.mkdtemp(prefix="autograder-demo-"))
    with terminal.progress_bar(notices) as bar:
        task = bar.add_task("building and releasing the unit", total=None)
        built = build(solutions_folder(solutions) / unit)
        opened = Course.create(folder)
        release(opened, built)
        hand_ins = demo_class.make_class(built)
        demo_class.hand_in(opened.submitted, unit, hand_ins)
        results = graded(opened, unit, [one.student for one in hand_ins], jobs, bar, task)
        bar.update(task, description="writing the CSV")
        csv = export(opened)
    order = {one.student: place for place, one in enumerate(hand_ins)}
    results.sort(key=lambda result: order[result.student])
    show(results, as_json)
    if svg is not None:
        draw(results, svg)
    surprises = [
        text
        for one, result in zip(hand_ins, results, strict=True)
        if (text := demo_class.unexpected(one, result.points, result.max_points, name_of(result)))
    ]
    if not as_json:
        screen.print(
            f"\ngradebook  {opened.gradebook}\nfeedback   {opened.feedback}\nCSV        {csv}", soft_wrap=True
        )
    for text in surprises:
        notices.print(f"Not as expected: {text}.", soft_wrap=True)
    raise typer.Exit(1 if surprises else 0)


def draw(results: list[Result], path: Path) -> None:
    """The table as an SVG picture that needs no font from elsewhere."""
    console = terminal.plain_console(record=True, width=112, file=io.StringIO())
    console.print(table_of(results))
    picture = console.export_svg(title="autograder demo")
    path.write_text(re.sub(r"@font-face\s*{[^}]*}\s*", "", picture))
